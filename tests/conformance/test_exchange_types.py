"""Exchange types that RabbitMQ has as plug-ins, over the wire."""

from collections import Counter
from typing import Any

import pytest

from tests.conformance.test_exchange import bodies
from tests.support.channel import Channel

pytestmark = pytest.mark.differs_from_reference("its plug-ins are not enabled")

KEYS = [f"user-{number}" for number in range(300)]


def queues(channel: Channel, exchange: str, keys: list[str]) -> list[str]:
    """Exclusive queues, each bound with one of the keys."""
    made = []
    for key in keys:
        made.append(channel.queue_declare(exclusive=True).queue)
        channel.queue_bind(made[-1], exchange, key)
    return made


def spread(channel: Channel, found: list[str]) -> list[list[bytes]]:
    return [bodies(channel, queue) for queue in found]


@pytest.mark.parametrize("kind", ["x-consistent-hash", "x-modulus-hash"])
def test_a_routing_key_always_goes_to_the_same_queue(
    channel: Channel, unique: Any, kind: str
) -> None:
    exchange = unique("x")
    channel.exchange_declare(exchange, kind)
    found = queues(channel, exchange, ["1", "1", "1"])
    channel.confirm_select()
    for _ in range(2):
        for key in KEYS:
            channel.publish(key.encode(), exchange=exchange, routing_key=key, mandatory=True)
    channel.wait_confirms(2 * len(KEYS))
    parts = spread(channel, found)
    assert all(60 < len(part) / 2 < 140 for part in parts)
    for part in parts:
        assert set(Counter(part).values()) == {2}
        # Order is kept within the queue.
        assert part[: len(part) // 2] == part[len(part) // 2 :]


def test_weights_and_a_queue_that_goes(channel: Channel, unique: Any) -> None:
    exchange = unique("x")
    channel.exchange_declare(exchange, "x-consistent-hash")
    found = queues(channel, exchange, ["1", "3", "4"])
    for key in KEYS:
        channel.publish(key.encode(), exchange=exchange, routing_key=key)
    before = spread(channel, found)
    assert len(before[0]) < len(before[1]) < len(before[2])
    channel.queue_delete(found[1])
    for key in KEYS:
        channel.publish(key.encode(), exchange=exchange, routing_key=key)
    after = spread(channel, [found[0], found[2]])
    assert set(before[0]) <= set(after[0])
    assert set(before[2]) <= set(after[1])
    assert sum(map(len, after)) == len(KEYS)


@pytest.mark.parametrize(
    ("argument", "content"),
    [
        ({"hash-header": "id"}, lambda key: {"headers": {"id": key}}),
        ({"hash-property": "message_id"}, lambda key: {"message_id": key}),
        ({"hash-property": "correlation_id"}, lambda key: {"correlation_id": key}),
        ({"hash-property": "timestamp"}, lambda key: {"timestamp": int(key[5:])}),
    ],
)
def test_hashing_by_content(
    channel: Channel, unique: Any, argument: dict[str, str], content: Any
) -> None:
    exchange, outer = unique("x"), unique("outer")
    channel.exchange_declare(exchange, "x-consistent-hash", arguments=argument)
    channel.exchange_declare(outer, "fanout")
    channel.exchange_bind(exchange, outer)
    found = queues(channel, exchange, ["1", "1"])
    for key in KEYS:
        channel.publish(key.encode(), exchange=exchange, routing_key="same", **content(key))
    first = spread(channel, found)
    assert all(len(part) > 100 for part in first)
    # Through another exchange it is the same, and without the value it is always one queue.
    for key in KEYS:
        channel.publish(key.encode(), exchange=outer, routing_key=key, **content(key))
    assert spread(channel, found) == first
    for key in KEYS:
        channel.publish(key.encode(), exchange=exchange, routing_key=key)
    assert sorted(map(len, spread(channel, found))) == [0, len(KEYS)]


def test_a_bad_weight_is_refused(channel: Channel, queue: str, unique: Any) -> None:
    exchange = unique("x")
    channel.exchange_declare(exchange, "x-consistent-hash")
    channel.send("queue.bind", queue=queue, exchange=exchange, routing_key="heavy")
    channel.expect_close(
        406,
        'PRECONDITION_FAILED - The binding key must be an integer: <<"heavy">>',
        method="queue.bind",
    )
    channel = channel.reopen()
    channel.send("queue.bind", queue=queue, exchange=exchange, routing_key="0")
    channel.expect_close(
        406,
        "PRECONDITION_FAILED - The binding key must be greater than 0",
        method="queue.bind",
    )


@pytest.mark.parametrize(
    ("kind", "arguments", "text"),
    [
        (
            "x-consistent-hash",
            {"hash-header": "a", "hash-property": "message_id"},
            "hash-header and hash-property are mutually exclusive",
        ),
        ("x-consistent-hash", {"hash-property": "priority"}, "Unsupported property: priority"),
        (
            "x-recent-history",
            {"x-recent-history-length": 0},
            "Invalid argument 0, 'x-recent-history-length' must be a positive integer",
        ),
    ],
)
def test_bad_arguments_are_refused(
    channel: Channel, unique: Any, kind: str, arguments: dict[str, Any], text: str
) -> None:
    name = unique("x")
    channel.send("exchange.declare", exchange=name, type=kind, arguments=arguments)
    channel.expect_close(406, f"PRECONDITION_FAILED - {text}", method="exchange.declare")
    channel = channel.reopen()
    channel.send("exchange.declare", exchange=name, passive=True)
    channel.expect_close(404, f"NOT_FOUND - no exchange '{name}' in vhost '/'")


def test_random_takes_one_queue_each_time(channel: Channel, unique: Any) -> None:
    exchange = unique("x")
    channel.exchange_declare(exchange, "x-random", durable=True)
    found = queues(channel, exchange, ["", "any", "#"])
    for number in range(300):
        channel.publish(b"%d" % number, exchange=exchange, routing_key="same", mandatory=True)
    channel.sync()
    parts = spread(channel, found)
    assert sorted(int(body) for part in parts for body in part) == list(range(300))
    assert all(60 < len(part) < 140 for part in parts)


def test_recent_history(channel: Channel, unique: Any) -> None:
    exchange, inner = unique("x"), unique("y")
    channel.exchange_declare(exchange, "x-recent-history", arguments={"x-recent-history-length": 2})
    (first,) = queues(channel, exchange, [""])
    for number in range(4):
        hidden = {"x-recent-history-no-store": number == 3}
        channel.publish(b"%d" % number, exchange=exchange, routing_key="k", headers=hidden)
    (second,) = queues(channel, exchange, [""])
    assert spread(channel, [first, second]) == [[b"0", b"1", b"2", b"3"], [b"1", b"2"]]
    channel.exchange_declare(inner, "topic")
    third = channel.queue_declare(exclusive=True).queue
    channel.queue_bind(third, inner, "k")
    channel.exchange_bind(inner, exchange)
    delivered = channel.get(third)
    assert (delivered.body, delivered.exchange, delivered.routing_key) == (b"1", exchange, "k")
    assert not delivered.redelivered
