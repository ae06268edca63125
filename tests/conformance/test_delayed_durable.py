"""Delayed messages of durable exchanges: what is held after the broker was stopped, or killed."""

import time
from typing import Any

import pytest

from tests.support.broker import Broker
from tests.support.channel import Channel
from tests.support.fixtures import StartBroker

pytestmark = [
    pytest.mark.slow,
    pytest.mark.differs_from_reference("its plug-ins are not enabled"),
]

KIND = "x-delayed-message"
FAR_MS = 600_000


def make(broker: Broker) -> Channel:
    """Declare a durable exchange that delays, with a durable queue; return a confirming channel."""
    channel = broker.connect().channel()
    arguments = {"x-delayed-type": "direct"}
    channel.exchange_declare("later", KIND, durable=True, arguments=arguments)
    channel.queue_declare("q", durable=True)
    channel.queue_bind("q", "later", "k")
    channel.confirm_select()
    return channel


def send(channel: Channel, body: bytes, delay: int, mode: int = 2, **headers: Any) -> None:
    channel.publish(
        body,
        exchange="later",
        routing_key="k",
        delivery_mode=mode,
        headers={"x-delay": delay, **headers},
    )


def at(channel: Channel, body: bytes, due_ms: int) -> None:
    headers = {"x-deliver-at": due_ms}
    channel.publish(body, exchange="later", routing_key="k", delivery_mode=2, headers=headers)


def taken(channel: Channel, count: int, within: float = 20.0) -> list[Any]:
    channel.consume("q", no_ack=True)
    return [channel.recv_delivery(within=within) for _ in range(count)]


def held(broker: Broker, *, settled: bool = True) -> int:
    """Return how many messages are held, when all that survived has been read."""
    deadline = time.monotonic() + 20
    while True:
        columns = ["messages_delayed", "loading", "survives_restart"]
        rows = broker.rows("list_delayed_exchanges", columns=columns)
        if not rows[0][1]:
            assert rows[0][2]
            return int(rows[0][0])
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_what_is_held_survives(start_broker: StartBroker, kill: bool) -> None:
    broker = start_broker()
    channel = make(broker)
    send(channel, b"short", 1500, own="header")
    send(channel, b"transient", 1000, mode=1)
    send(channel, b"large" * 20_000, 1600)
    for number in range(300):
        send(channel, b"%d" % number, FAR_MS + number)
    channel.wait_confirms(303)
    broker.restart(kill=kill)
    channel = broker.connect().channel()
    first, second = taken(channel, 2)
    assert first.body == b"short"
    assert first.properties["headers"] == {"x-delay": -1500, "own": "header"}
    assert first.redelivered is False
    assert second.body == b"large" * 20_000
    assert held(broker) == 300
    ids = [row[0] for row in broker.rows("list_delayed", exchange="later", limit=1000)]
    assert [int(one.partition("-")[2]) for one in ids] == list(range(4, 304))
    # New ids are behind all that were ever given.
    channel.confirm_select()
    send(channel, b"new", FAR_MS)
    channel.wait_confirms(1)
    rows = broker.rows("list_delayed", exchange="later", limit=1000)
    assert max(int(row[0].partition("-")[2]) for row in rows) > 303


@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_what_became_due_meanwhile_comes_at_once_in_order(
    start_broker: StartBroker, kill: bool
) -> None:
    broker = start_broker()
    channel = make(broker)
    due_ms = int(time.time() * 1000) + 2500
    for number in range(2000):
        at(channel, b"%d" % (number + 1), due_ms + number * 7919 % 1000)
    channel.wait_confirms(2000)
    assert held(broker) == 2000
    # Their numbers in the order in which they are due, to the millisecond.
    ids: list[str] = []
    for _ in range(2):
        after = ids[-1] if ids else ""
        rows = broker.rows("list_delayed", exchange="later", limit=1000, after=after)
        ids += [row[0] for row in rows]
    order = [int(one.partition("-")[2]) for one in ids]
    assert sorted(order) == list(range(1, 2001))
    if kill:
        broker.kill()
    else:
        broker.stop()
    while time.time() * 1000 < due_ms + 1100:
        time.sleep(0.1)
    broker.launch()
    channel = broker.connect().channel()
    assert [int(one.body) for one in taken(channel, 2000)] == order
    assert held(broker) == 0
    channel.expect_nothing()


def test_what_was_cancelled_does_not_come_back(start_broker: StartBroker) -> None:
    broker = start_broker()
    channel = make(broker)
    for number in range(4):
        send(channel, b"%d" % number, FAR_MS + number)
    channel.wait_confirms(4)
    ids = [row[0] for row in broker.rows("list_delayed", exchange="later")]
    assert broker.control("cancel_delayed", exchange="later", ids=ids[1:3])["count"] == 2
    broker.restart(kill=True)
    assert held(broker) == 2
    assert [row[0] for row in broker.rows("list_delayed", exchange="later")] == [ids[0], ids[3]]
    assert broker.control("cancel_all_delayed", exchange="later")["count"] == 2
    broker.restart(kill=True)
    assert held(broker) == 0


def test_what_was_handed_on_is_in_its_queue_once(start_broker: StartBroker) -> None:
    broker = start_broker()
    channel = make(broker)
    for number in range(1000):
        send(channel, b"%d" % number, 300 + number % 400)
    send(channel, b"late", FAR_MS)
    channel.wait_confirms(1001)
    # In the middle of it: some are in the queue, some are held, and none is in both.
    while channel.queue_declare("q", passive=True).message_count < 200:
        time.sleep(0.01)
    broker.restart(kill=True)
    channel = broker.connect().channel()
    bodies = [int(one.body) for one in taken(channel, 1000)]
    assert sorted(bodies) == list(range(1000))
    channel.expect_nothing()
    assert held(broker) == 1


def test_an_exchange_that_is_made_again_is_empty(start_broker: StartBroker) -> None:
    broker = start_broker()
    channel = make(broker)
    send(channel, b"gone", FAR_MS)
    channel.wait_confirms(1)
    channel.exchange_delete("later")
    channel = make(broker)
    send(channel, b"there", FAR_MS)
    channel.wait_confirms(1)
    broker.restart(kill=True)
    assert held(broker) == 1
    broker.restart()
    assert held(broker) == 1
    channel = broker.connect().channel()
    channel.exchange_delete("later")
    broker.restart()
    assert broker.rows("list_delayed_exchanges") == []


def test_kills_again_and_again_lose_and_double_nothing(start_broker: StartBroker) -> None:
    """Messages are held, handed on and read back while the process is killed."""
    broker = start_broker()
    make(broker)
    sent = 0
    for round_ in range(4):
        channel = broker.connect().channel()
        channel.confirm_select()
        for number in range(500):
            send(channel, b"%d" % (sent + number), (number * 37) % 900 + 50 * round_)
        channel.wait_confirms(500)
        sent += 500
        broker.restart(kill=True)
    channel = broker.connect().channel()
    assert sorted(int(one.body) for one in taken(channel, sent)) == list(range(sent))
    channel.expect_nothing()
    assert held(broker) == 0
