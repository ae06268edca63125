"""Headers exchanges: conditions, x-match, and how values compare (4.2)."""

from typing import Any

import pytest

from tests.support.channel import Channel
from tests.support.codec import Typed


def routed(
    channel: Channel, queue: str, conditions: dict[str, Any], headers: dict[str, Any] | None
) -> bool:
    """Say whether a message with these headers passes a binding with these conditions."""
    channel.queue_bind(queue, "amq.headers", queue, arguments=conditions)
    content: dict[str, Any] = {} if headers is None else {"headers": headers}
    channel.publish(b"x", exchange="amq.headers", **content)
    channel.queue_unbind(queue, "amq.headers", queue, arguments=conditions)
    return bool(channel.queue_purge(queue).message_count == 1)


@pytest.mark.rule("HD-1")
@pytest.mark.parametrize("mode", [None, "all", "all-with-x"])
def test_all_conditions(channel: Channel, queue: str, mode: str | None) -> None:
    match = {} if mode is None else {"x-match": mode}
    conditions = match | {"a": "1", "b": 2}
    assert routed(channel, queue, conditions, {"a": "1", "b": 2})
    assert routed(channel, queue, conditions, {"b": 2, "c": 3, "a": "1"})
    assert not routed(channel, queue, conditions, {"a": "1"})
    assert not routed(channel, queue, conditions, {"a": "1", "b": 3})
    assert not routed(channel, queue, conditions, {})
    assert not routed(channel, queue, conditions, None)


@pytest.mark.rule("HD-1")
@pytest.mark.parametrize("mode", ["any", "any-with-x"])
def test_any_condition(channel: Channel, queue: str, mode: str) -> None:
    conditions = {"x-match": mode, "a": "1", "b": 2}
    assert routed(channel, queue, conditions, {"a": "1", "b": 2})
    assert routed(channel, queue, conditions, {"a": "other", "b": 2})
    assert routed(channel, queue, conditions, {"a": "1"})
    assert not routed(channel, queue, conditions, {"a": "other", "b": 1})
    assert not routed(channel, queue, conditions, {"c": "1"})
    assert not routed(channel, queue, conditions, None)


@pytest.mark.rule("HD-1", "HD-3")
@pytest.mark.parametrize(
    ("mode", "with_it", "with_other", "without"),
    [
        ("all", True, True, True),
        ("any", False, False, False),
        ("all-with-x", True, False, False),
        ("any-with-x", True, False, False),
    ],
)
def test_conditions_whose_name_begins_with_x(
    channel: Channel, queue: str, mode: str, with_it: bool, with_other: bool, without: bool
) -> None:
    conditions = {"x-match": mode, "x-colour": "red"}
    assert routed(channel, queue, conditions, {"x-colour": "red"}) == with_it
    assert routed(channel, queue, conditions, {"x-colour": "blue"}) == with_other
    assert routed(channel, queue, conditions, {"colour": "red"}) == without


@pytest.mark.rule("HD-1")
def test_a_header_named_x_match_is_never_compared(channel: Channel, queue: str) -> None:
    for mode in ("all", "all-with-x"):
        assert routed(channel, queue, {"x-match": mode, "a": 1}, {"a": 1, "x-match": "other"})
    assert not routed(channel, queue, {"x-match": "any-with-x"}, {"x-match": "any-with-x"})


@pytest.mark.rule("HD-2")
@pytest.mark.parametrize(
    "value",
    [1, "1", True, None, 1.5, Typed("l", 1), {"t": 1}, [1, 2], Typed("x", b"1"), ""],
    ids=str,
)
def test_void_means_that_the_header_is_there(channel: Channel, queue: str, value: Any) -> None:
    """Trap 24."""
    assert routed(channel, queue, {"a": None}, {"a": value})
    assert routed(channel, queue, {"a": None, "x-match": "any"}, {"a": value})
    assert not routed(channel, queue, {"a": None}, {"b": value})


@pytest.mark.rule("HD-2")
@pytest.mark.parametrize("condition", "bBsuIil")
@pytest.mark.parametrize("header", "bBsuIil")
def test_integers_compare_by_value(
    channel: Channel, queue: str, condition: str, header: str
) -> None:
    conditions = {"n": Typed(condition, 100)}
    assert routed(channel, queue, conditions, {"n": Typed(header, 100)})
    assert not routed(channel, queue, conditions, {"n": Typed(header, 101)})


@pytest.mark.rule("HD-2")
@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (Typed("I", 1), Typed("d", 1.0), True),
        (Typed("f", 1.0), Typed("l", 1), True),
        (Typed("f", 0.5), Typed("d", 0.5), True),
        (Typed("d", 1.5), Typed("I", 1), False),
        (Typed("T", 7), Typed("I", 7), True),
        (1, "1", False),
        (True, "true", False),
        (True, True, True),
        (True, False, False),
        (1, True, False),
        ("red", Typed("x", b"red"), True),
        ("red", "Red", False),
        ("red", "red ", False),
        (None, None, True),
        ([1, "a"], [1, "a"], True),
        ([1, "a"], ["a", 1], False),
        ({"k": 1}, {"k": 1}, True),
        ({"k": 1}, {"k": 2}, False),
        (Typed("D", (2, 314)), Typed("D", (2, 314)), True),
        (Typed("D", (2, 314)), Typed("D", (3, 3140)), False),
        ("", None, False),
    ],
    ids=str,
)
def test_values_compare_without_regard_to_their_kind(
    channel: Channel, queue: str, one: Any, other: Any, equal: bool
) -> None:
    assert routed(channel, queue, {"a": one}, {"a": other}) == equal
    if one is not None and other is not None:
        assert routed(channel, queue, {"a": other}, {"a": one}) == equal


@pytest.mark.rule("HD-3")
@pytest.mark.parametrize("headers", [None, {}, {"a": 1}], ids=str)
@pytest.mark.parametrize(
    ("conditions", "passes"),
    [
        ({}, True),
        ({"x-match": "all"}, True),
        ({"x-match": "all-with-x"}, True),
        ({"x-mine": 1}, True),
        ({"x-match": "any"}, False),
        ({"x-match": "any-with-x"}, False),
        ({"x-match": "any", "x-mine": 1}, False),
    ],
    ids=str,
)
def test_nothing_to_compare(
    channel: Channel,
    queue: str,
    headers: dict[str, Any] | None,
    conditions: dict[str, Any],
    passes: bool,
) -> None:
    """Trap 24."""
    assert routed(channel, queue, conditions, headers) == passes


@pytest.mark.rule("HD-2")
def test_many_bindings_of_one_queue(channel: Channel, queue: str) -> None:
    channel.queue_bind(queue, "amq.match", queue, arguments={"a": 1})
    channel.queue_bind(queue, "amq.match", queue, arguments={"b": 1})
    channel.publish(b"x", exchange="amq.match", headers={"a": 1, "b": 1})
    channel.publish(b"x", exchange="amq.match", headers={"b": 1})
    channel.publish(b"x", exchange="amq.match", headers={"c": 1})
    assert channel.queue_purge(queue).message_count == 2


@pytest.mark.rule("HD-2")
def test_the_routing_key_does_not_count(channel: Channel, queue: str) -> None:
    channel.queue_bind(queue, "amq.match", "some key", arguments={"mine": queue})
    channel.publish(b"x", exchange="amq.match", routing_key="other", headers={"mine": queue})
    channel.publish(b"x", exchange="amq.match", routing_key="some key")
    assert channel.queue_purge(queue).message_count == 1


@pytest.mark.rule("HD-1")
def test_messages_that_are_alike_in_a_row(channel: Channel, queue: str) -> None:
    """What is remembered of the last message is void with other headers, keys and bindings."""

    def arrived(*colours: str, key: str = "k") -> int:
        for colour in colours:
            channel.publish(b"x", exchange="amq.headers", routing_key=key, headers={"c": colour})
        return int(channel.queue_purge(queue).message_count)

    red = {"c": "red", "x-match": "all"}
    channel.queue_bind(queue, "amq.headers", arguments=red)
    assert arrived("red", "red", "red") == 3
    assert arrived("red", "blue", "red", "blue", "blue", "red") == 3
    assert arrived("red", key="other") == 1
    channel.queue_unbind(queue, "amq.headers", arguments=red)
    assert arrived("red", "red", "red") == 0
    channel.queue_bind(queue, "amq.headers", arguments={"c": "blue"})
    assert arrived("red", "blue", "blue", "red", "blue") == 3
    # A message without headers, and one whose keys are in its headers, in between.
    channel.publish(b"x", exchange="amq.headers", routing_key="k")
    channel.publish(b"x", exchange="amq.headers", headers={"c": "blue", "CC": ["k"]})
    assert arrived("blue", "red", "blue") == 3
    channel.publish(b"x", exchange="amq.headers", routing_key="k", headers={"c": "blue"})
    channel.publish(b"", exchange="amq.headers", routing_key="k", headers={"c": "blue"})
    assert arrived("blue", "blue") == 4
