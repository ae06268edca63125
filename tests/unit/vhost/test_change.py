"""Changes are values: they are equal when they say the same, and survive being written and read."""

import msgspec
import pytest

from warren.protocol.value import Field, Table, field, table
from warren.security import Algorithm, User
from warren.vhost import change
from warren.vhost.change import Change, decode_changes, decoded, encode_changes, encoded, user_put

EVERY: tuple[Change, ...] = (
    change.VHostPut(name="v", description="d", tags=("a", "b"), default_queue_type="classic"),
    change.VHostDelete(name="v"),
    change.VHostLimitsPut(vhost="v", limits={"max-queues": 5, "max-connections": -1}),
    change.VHostTracing(vhost="v", tracing=True),
    change.UserPut(name="u", password_hash="aGFzaA==", algorithm="x", tags=("monitoring",)),
    change.UserDelete(name="u"),
    change.UserLimitsPut(user="u", limits={}),
    change.PermissionPut(user="u", vhost="v", configure="", write="^a", read=".*"),
    change.PermissionDelete(user="u", vhost="v"),
    change.TopicPermissionPut(user="u", vhost="v", exchange="", write="a", read="b"),
    change.TopicPermissionDelete(user="u", vhost="v", exchange="x"),
    change.ExchangePut(vhost="v", name="x", kind="topic", durable=True, arguments=b"\0"),
    change.ExchangeDelete(vhost="v", name="x"),
    change.QueuePut(vhost="v", name="q", durable=True, owner=7),
    change.QueueDelete(vhost="v", name="q"),
    change.CursorPut(vhost="v", queue="q", name="c", seq=1, epoch=2, incarnation=3, at_ms=1 << 40),
    change.CursorDelete(vhost="v", queue="q", name="c"),
    change.BindingPut(vhost="v", source="x", destination="q", key="k", arguments=b"\xff"),
    change.BindingDelete(vhost="v", source="x", destination="y", to_queue=False),
    change.PolicyPut(vhost="v", name="p", pattern="^", definition=b'{"max-length":1}'),
    change.PolicyDelete(vhost="v", name="p", operator=True),
    change.ParameterPut(vhost="v", component="c", name="n", value=b"[1]"),
    change.ParameterDelete(vhost="v", component="c", name="n"),
    change.GlobalParameterPut(name="cluster_name", value=b'"c"'),
    change.GlobalParameterDelete(name="cluster_name"),
)


def test_every_kind_of_change_is_in_the_list() -> None:
    assert {type(each) for each in EVERY} == set(Change.__subclasses__())


def test_changes_survive_being_written_and_read() -> None:
    assert decode_changes(encode_changes(EVERY)) == EVERY


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x91\x80", encode_changes(EVERY)[:-1]])
def test_other_octets_are_no_changes(data: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        decode_changes(data)


def test_arguments_keep_their_types() -> None:
    arguments: Table = table({"a": 1, "b": "text", "c": {"d": [True, None, 1.5]}, "e": b"\xff"})
    arguments["short"] = Field(ord("s"), 7)
    assert decoded(encoded(arguments)) == arguments
    assert decoded(encoded(arguments))["short"].kind == ord("s")


def test_no_arguments_are_no_octets() -> None:
    assert encoded({}) == b""
    assert decoded(b"") == {}
    assert encoded({"x": field(1)}) != b""


def test_a_user_becomes_a_change() -> None:
    user = User("u", "aGFzaA==", Algorithm.SHA512, ("a",))
    assert user_put(user) == change.UserPut(
        name="u", password_hash="aGFzaA==", algorithm="rabbit_password_hashing_sha512", tags=("a",)
    )
