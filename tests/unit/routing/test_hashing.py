"""Exchanges that hash: what is hashed, what is refused, and destinations that are gone."""

from collections import Counter

import pytest

from warren.core import AmqpError
from warren.protocol.properties import Properties
from warren.protocol.value import BINARY, TIMESTAMP, Field, Table, field, table
from warren.routing import RoutingTable
from warren.routing.hashing import WEIGHT_MAX

KEYS = [b"key-%d" % number for number in range(500)]


def hashing(
    kind: str = "x-consistent-hash", queues: int = 4, arguments: dict[str, object] | None = None
) -> RoutingTable:
    routing = RoutingTable("v")
    routing.declare_exchange("h", kind, arguments=table(arguments or {}))
    for number in range(queues):
        routing.add_queue(f"q{number}", None)
        routing.bind("h", f"q{number}", b"1", {}, to_queue=True)
    return routing


def chosen(
    routing: RoutingTable,
    key: bytes,
    *,
    cc: list[bytes] | None = None,
    headers: Table | None = None,
    props: bytes = b"",
) -> str:
    found = routing.route(routing.exchange("h"), key, cc, headers, props)
    assert len(found) == 1
    return found[0].name


@pytest.mark.parametrize("kind", ["x-consistent-hash", "x-modulus-hash"])
def test_every_message_has_one_queue_and_a_key_always_the_same(kind: str) -> None:
    routing = hashing(kind)
    first = [chosen(routing, key) for key in KEYS]
    assert [chosen(routing, key) for key in KEYS] == first
    assert min(Counter(first).values()) > 80
    assert not routing.is_volatile(routing.exchange("h"))
    assert not routing.needs_headers(routing.exchange("h"))


@pytest.mark.parametrize("kind", ["x-consistent-hash", "x-modulus-hash"])
def test_the_order_of_binding_does_not_matter(kind: str) -> None:
    routing = hashing(kind)
    other = hashing(kind, 0)
    for number in reversed(range(4)):
        other.add_queue(f"q{number}", None)
        other.bind("h", f"q{number}", b"1", {}, to_queue=True)
    assert [chosen(routing, key) for key in KEYS] == [chosen(other, key) for key in KEYS]


@pytest.mark.parametrize("kind", ["x-consistent-hash", "x-modulus-hash"])
def test_without_bindings_nothing_is_routed(kind: str) -> None:
    routing = hashing(kind, 1)
    routing.unbind("h", "q0", b"1", {}, to_queue=True)
    assert routing.route(routing.exchange("h"), b"k", None, None) == []


@pytest.mark.parametrize("kind", ["x-consistent-hash", "x-modulus-hash"])
def test_a_dead_queue_is_passed_over_before_the_sweep_has_been_there(kind: str) -> None:
    routing = hashing(kind)
    before = [chosen(routing, key) for key in KEYS]
    routing.remove_queue(routing.sinks["q2"])
    between = [chosen(routing, key) for key in KEYS]
    assert "q2" not in between
    assert routing.sweep().done
    after = [chosen(routing, key) for key in KEYS]
    assert set(after) == {"q0", "q1", "q3"}
    if kind == "x-consistent-hash":
        assert between == after
        assert all(then in (now, "q2") for then, now in zip(before, after, strict=True))
    # All of them gone, and none swept.
    for name in list(routing.sinks):
        routing.remove_queue(routing.sinks[name])
    assert routing.route(routing.exchange("h"), b"k", None, None) == []
    assert routing.sweep().done
    assert routing.exchange("h").bindings == {}


@pytest.mark.parametrize("kind", ["x-consistent-hash", "x-modulus-hash"])
def test_a_namesake_of_a_queue_that_is_not_swept_yet(kind: str) -> None:
    routing = hashing(kind, 1)
    routing.remove_queue(routing.sinks["q0"])
    routing.add_queue("q0", "new")
    routing.bind("h", "q0", b"1", {}, to_queue=True)
    for key in KEYS[:20]:
        assert [s.target for s in routing.route(routing.exchange("h"), key, None, None)] == ["new"]
    assert routing.sweep().done
    assert [s.target for s in routing.route(routing.exchange("h"), b"", None, None)] == ["new"]
    assert routing.unbind("h", "q0", b"1", {}, to_queue=True)
    assert routing.route(routing.exchange("h"), b"", None, None) == []


def test_the_first_key_decides_and_exchanges_are_destinations_too() -> None:
    routing = hashing(queues=0)
    routing.declare_exchange("f", "fanout")
    for name in ("q", "r"):
        routing.add_queue(name, None)
        routing.bind("f", name, b"", {}, to_queue=True)
    routing.bind("h", "f", b"5", {}, to_queue=False)
    found = routing.route(routing.exchange("h"), b"k", [b"other"], None)
    assert {sink.name for sink in found} == {"q", "r"}
    two = hashing()
    assert [chosen(two, key, cc=[b"x"]) for key in KEYS] == [chosen(two, key) for key in KEYS]


def test_several_bindings_of_one_queue_add_up_and_go_one_by_one() -> None:
    routing = hashing(queues=2)
    routing.bind("h", "q1", b"2", {}, to_queue=True)
    routing.bind("h", "q1", b"2", table({"note": 1}), to_queue=True)
    shares = Counter(chosen(routing, key) for key in KEYS)
    assert shares["q1"] > 3.5 * shares["q0"]
    assert routing.unbind("h", "q1", b"2", {}, to_queue=True)
    assert routing.unbind("h", "q1", b"1", {}, to_queue=True)
    assert Counter(chosen(routing, key) for key in KEYS)["q1"] > 250
    assert routing.unbind("h", "q1", b"2", table({"note": 1}), to_queue=True)
    assert {chosen(routing, key) for key in KEYS} == {"q0"}


# -- what is hashed --------------------------------------------------------------------------------


def test_a_header() -> None:
    routing = hashing(arguments={"hash-header": "customer"})
    assert routing.needs_headers(routing.exchange("h"))
    headers = [table({"customer": key.decode()}) for key in KEYS]
    found = [chosen(routing, b"same", headers=one) for one in headers]
    assert len(set(found)) == 4
    assert [chosen(routing, b"other", headers=one) for one in headers] == found
    # The octets count, whether sent as a string or as a byte array; a number is something else.
    arrays = [{"customer": Field(BINARY, key)} for key in KEYS]
    assert [chosen(routing, b"", headers=one) for one in arrays] == found
    numbers = {chosen(routing, b"", headers=table({"customer": n})) for n in range(100)}
    assert len(numbers) == 4
    without = chosen(routing, b"1")
    assert {chosen(routing, key, headers=table({"else": 1})) for key in KEYS} == {without}


@pytest.mark.parametrize("name", ["message_id", "correlation_id", "timestamp"])
def test_a_property(name: str) -> None:
    routing = hashing(arguments={"hash-property": name})
    assert routing.is_volatile(routing.exchange("h"))
    found = []
    for number, key in enumerate(KEYS):
        content = Properties(content_type="t", user_id="u")
        if name == "timestamp":
            content.timestamp = number
        else:
            setattr(content, name, key.decode())
        found.append(chosen(routing, b"same", props=content.encode()))
    assert len(set(found)) == 4
    without = chosen(routing, b"1", props=Properties(content_type="t").encode())
    assert chosen(routing, b"2") == without


def test_the_modulus_hash_counts_all_keys() -> None:
    routing = hashing("x-modulus-hash")
    assert len({chosen(routing, b"same", cc=[key]) for key in KEYS}) == 4


# -- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            {"hash-header": "a", "hash-property": "message_id"},
            "hash-header and hash-property are mutually exclusive",
        ),
        ({"hash-property": "type"}, "Unsupported property: type"),
        ({"hash-header": 1}, "hash-header must be a string, not signedint"),
        ({"hash-property": Field(TIMESTAMP, 1)}, "hash-property must be a string, not timestamp"),
    ],
)
def test_arguments_that_are_refused(arguments: dict[str, object], text: str) -> None:
    routing = RoutingTable("v")
    with pytest.raises(AmqpError) as refusal:
        routing.declare_exchange(
            "h", "x-consistent-hash", arguments={k: field(v) for k, v in arguments.items()}
        )
    assert (refusal.value.code, refusal.value.detail) == (406, text)
    assert "h" not in routing.exchanges


NO_INTEGER = "The binding key must be an integer: "


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (b"", NO_INTEGER + "<<>>"),
        (b"many", NO_INTEGER + '<<"many">>'),
        (b"1.5", NO_INTEGER + '<<"1.5">>'),
        (b" 1", NO_INTEGER + '<<" 1">>'),
        (b"1_0", NO_INTEGER + '<<"1_0">>'),
        (b"--1", NO_INTEGER + '<<"--1">>'),
        ("٣".encode(), NO_INTEGER + "<<217,163>>"),
        (b"0", "The binding key must be greater than 0"),
        (b"-0", "The binding key must be greater than 0"),
        (b"-7", "The binding key must be greater than 0"),
        (b"1000000001", f"The binding key must not be greater than {WEIGHT_MAX}"),
        (b"9" * 255, f"The binding key must not be greater than {WEIGHT_MAX}"),
    ],
)
def test_weights_that_are_refused(key: bytes, text: str) -> None:
    routing = hashing(queues=1)
    with pytest.raises(AmqpError) as refusal:
        routing.bind("h", "q0", key, {}, to_queue=True)
    assert (refusal.value.code, refusal.value.detail) == (406, text)
    assert len(routing.exchange("h").bindings) == 1
    # Nothing is unbound, and nothing breaks, when such a binding is to go.
    assert not routing.unbind("h", "q0", key, {}, to_queue=True)


@pytest.mark.parametrize("key", [b"1", b"+7", b"007", b"1000000000"])
def test_weights_that_are_taken(key: bytes) -> None:
    routing = hashing(queues=0)
    routing.add_queue("q", None)
    assert routing.bind("h", "q", key, {}, to_queue=True)
    assert chosen(routing, b"k") == "q"
    assert routing.unbind("h", "q", key, {}, to_queue=True)


def test_the_modulus_hash_takes_any_binding_key() -> None:
    routing = hashing("x-modulus-hash", 1)
    assert routing.bind("h", "q0", b"any", {}, to_queue=True)
    assert chosen(routing, b"k") == "q0"
