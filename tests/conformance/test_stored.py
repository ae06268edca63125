"""What is persistent in durable queues, over a stop in order and over a kill (storage spec)."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.broker import Broker
from tests.support.channel import Channel
from tests.support.fixtures import StartBroker

pytestmark = pytest.mark.slow

BOTH = pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
PERSISTENT = 2
WAIT_S = 15.0


def send(channel: Channel, queue: str, *bodies: bytes, **properties: Any) -> None:
    properties = {"delivery_mode": PERSISTENT} | properties
    for body in bodies:
        channel.publish(body, routing_key=queue, **properties)


def confirmed(broker: Broker, queue: str, *bodies: bytes, **properties: Any) -> None:
    """Publish, and return when all of it is on the disk."""
    channel = broker.connect().channel()
    channel.confirm_select()
    send(channel, queue, *bodies, **properties)
    assert set(channel.wait_confirms(len(bodies)).values()) == {"ack"}
    channel.client.drop()


def drain(broker: Broker, queue: str) -> list[tuple[bytes, bool]]:
    """Take everything: bodies, and whether they came as redelivered.

    What is settled last may come back after a kill: so wait until it is on the disk.
    """
    channel = broker.connect().channel()
    found = []
    while (got := channel.get(queue, no_ack=True)) is not None:
        found.append((got.body, got.redelivered))
    channel.tx_select()
    channel.tx_commit()
    channel.client.drop()
    return found


def durable(broker: Broker, queue: str, **arguments: Any) -> Channel:
    channel = broker.connect().channel()
    given = {name.replace("_", "-"): value for name, value in arguments.items()}
    channel.queue_declare(queue, durable=True, arguments=given)
    return channel


def depth(broker: Broker, queue: str) -> int:
    channel = broker.connect().channel()
    count: int = channel.queue_declare(queue, passive=True).message_count
    channel.client.drop()
    return count


def until(holds: Callable[[], bool]) -> None:
    """Return when something has come true; it has to."""
    deadline = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.02)


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


@BOTH
@pytest.mark.rule("IX-14", "IX-16", "IX-17", "CN-2", "VQ-20")
def test_persistent_messages_come_back_in_order(start_broker: StartBroker, kill: bool) -> None:
    """What was handed out comes back as redelivered; after a kill everything does."""
    broker = start_broker()
    channel = durable(broker, "q")
    channel.queue_declare("transient")
    confirmed(broker, "q", *numbered(6))
    confirmed(broker, "q", b"lost", delivery_mode=1)
    confirmed(broker, "q", *numbered(9)[6:])
    confirmed(broker, "transient", b"lost, too")
    for number in range(2):
        got = channel.get("q")
        assert (got.body, got.redelivered) == (b"%d" % number, False)
    # In the middle, so that the place of what is settled is not the head.
    third = channel.get("q")
    channel.ack(third.delivery_tag)
    channel.sync()
    confirmed(broker, "q", b"last")
    broker.restart(kill=kill)
    bodies = [body for body in [*numbered(9), b"last"] if body != b"2"]
    found = drain(broker, "q")
    assert [body for body, _ in found] == bodies
    again = {body for body, redelivered in found if redelivered}
    assert again == (set(bodies) if kill else {b"0", b"1"})
    client = broker.connect()
    client.channel(1).send("queue.declare", queue="transient", passive=True)
    assert client.next_event(channel=1).reply_code == 404


@BOTH
@pytest.mark.rule("PQ-1", "PQ-2", "PQ-3")
def test_priorities_are_kept(start_broker: StartBroker, kill: bool) -> None:
    broker = start_broker()
    channel = durable(broker, "q", x_max_priority=5)
    for number, priority in enumerate((1, 5, 0, 3, 9, 1, 0, 5)):
        confirmed(broker, "q", b"%d" % number, priority=priority)
    for body in (b"1", b"4"):
        assert channel.get("q").body == body
    broker.restart(kill=kill)
    found = drain(broker, "q")
    assert [body for body, _ in found] == [b"1", b"4", b"7", b"3", b"0", b"5", b"2", b"6"]
    assert [again for _, again in found] == [kill or body in (b"1", b"4") for body, _ in found]


@BOTH
@pytest.mark.rule("VQ-22")
def test_time_goes_on_while_the_node_is_down(start_broker: StartBroker, kill: bool) -> None:
    """An expired message is dropped at the head after the start, and dies as it would have."""
    broker = start_broker()
    durable(broker, "grave")
    durable(broker, "q", x_dead_letter_exchange="", x_dead_letter_routing_key="grave")
    confirmed(broker, "q", b"short", expiration="2500")
    confirmed(broker, "q", b"long", expiration="3600000")
    broker.restart(kill=kill)
    until(lambda: depth(broker, "q") == 1 and depth(broker, "grave") == 1)
    assert drain(broker, "q") == [(b"long", kill)]
    assert drain(broker, "grave") == [(b"short", False)]


@BOTH
@pytest.mark.rule("VQ-17", "DL-1")
def test_dead_letters_are_in_one_of_both_queues(start_broker: StartBroker, kill: bool) -> None:
    broker = start_broker()
    durable(broker, "grave")
    channel = durable(broker, "q", x_dead_letter_exchange="", x_dead_letter_routing_key="grave")
    confirmed(broker, "q", *numbered(4))
    for _ in range(2):
        channel.reject(channel.get("q").delivery_tag, requeue=False)
    channel.sync()
    confirmed(broker, "grave", b"behind")
    broker.restart(kill=kill)
    assert [body for body, _ in drain(broker, "q")] == [b"2", b"3"]
    assert [body for body, _ in drain(broker, "grave")] == [b"0", b"1", b"behind"]


@BOTH
@pytest.mark.rule("VQ-21")
@pytest.mark.differs_from_reference("policies are set by other commands")
def test_a_limit_holds_for_what_comes_back(start_broker: StartBroker, kill: bool) -> None:
    broker = start_broker()
    definition = {"max-length": 3}
    broker.control(
        "set_policy", vhost="/", name="short", pattern="^q$", definition=definition,
        priority=0, apply_to="queues",
    )  # fmt: skip
    channel = durable(broker, "q")
    confirmed(broker, "q", *numbered(3))
    for _ in range(2):
        channel.get("q")
    confirmed(broker, "q", b"3", b"4")
    broker.restart(kill=kill)
    until(lambda: depth(broker, "q") == 3)
    assert [body for body, _ in drain(broker, "q")] == [b"2", b"3", b"4"]


@pytest.mark.rule("TX-3", "CN-2")
def test_what_is_committed_is_on_the_disk(start_broker: StartBroker) -> None:
    broker = start_broker()
    for round_ in range(3):
        channel = durable(broker, "q")
        channel.tx_select()
        send(channel, "q", b"a%d" % round_, b"b%d" % round_)
        if round_ == 1:
            channel.ack(channel.get("q").delivery_tag)
        channel.tx_commit()
        send(channel, "q", b"not committed")
        broker.restart(kill=True)
    # The first one was acknowledged in the second transaction.
    bodies = [body for body, _ in drain(broker, "q")]
    assert bodies == [b"b0", b"a1", b"b1", b"a2", b"b2"]


@BOTH
@pytest.mark.rule("VQ-19", "IX-21")
def test_what_was_purged_stays_away(start_broker: StartBroker, kill: bool) -> None:
    """A purge takes what is ready, not what is out; a deleted queue leaves nothing behind."""
    broker = start_broker()
    channel = durable(broker, "q")
    durable(broker, "deleted")
    confirmed(broker, "q", *numbered(5))
    confirmed(broker, "deleted", *numbered(5))
    assert channel.get("q").body == b"0"
    assert channel.queue_purge("q").message_count == 4
    assert channel.queue_delete("deleted").message_count == 5
    channel.queue_declare("deleted", durable=True)
    confirmed(broker, "q", b"new")
    confirmed(broker, "deleted", b"new")
    broker.restart(kill=kill)
    assert drain(broker, "q") == [(b"0", True), (b"new", kill)]
    assert drain(broker, "deleted") == [(b"new", kill)]
    # What was drained stays away as well.
    broker.restart(kill=kill)
    assert drain(broker, "q") == drain(broker, "deleted") == []


@BOTH
def test_many_restarts(start_broker: StartBroker, kill: bool) -> None:
    """Each life adds and takes; places are kept across all of them."""
    broker = start_broker()
    durable(broker, "q")
    expected: list[bytes] = []
    for life in range(4):
        fresh = [b"%d.%d" % (life, number) for number in range(5)]
        confirmed(broker, "q", *fresh)
        expected += fresh
        channel = broker.connect().channel()
        first = channel.get("q")
        second = channel.get("q")
        assert [first.body, second.body] == expected[:2]
        channel.ack(second.delivery_tag)
        channel.sync()
        del expected[1]
        confirmed(broker, "q", b"%d.last" % life)
        expected.append(b"%d.last" % life)
        broker.restart(kill=kill)
        assert depth(broker, "q") == len(expected)
    assert [body for body, _ in drain(broker, "q")] == expected


def in_memory(broker: Broker, queue: str) -> tuple[int, int]:
    """How many messages there are, and how many of them in memory."""
    rows = broker.rows("list_queues", vhost="/", columns=["name", "messages", "messages_ram"])
    return next((row[1], row[2]) for row in rows if row[0] == queue)


def set_lazy(broker: Broker, mode: str) -> None:
    broker.control(
        "set_policy", vhost="/", name="lazy", pattern="^q", definition={"queue-mode": mode},
        priority=0, apply_to="queues",
    )  # fmt: skip


@pytest.mark.rule("LZ-1", "LZ-2", "LZ-4", "LZ-5", "LZ-6", "LZ-8")
@pytest.mark.differs_from_reference("there the argument wins, and there is no control socket")
def test_lazy_queues_keep_nothing_in_memory(start_broker: StartBroker) -> None:
    """The policy wins over the argument, and when it is gone the argument holds again."""
    broker = start_broker()
    durable(broker, "q-lazy", x_queue_mode="lazy")
    durable(broker, "q-plain", x_queue_mode="default")
    for queue in ("q-lazy", "q-plain"):
        confirmed(broker, queue, *numbered(700))
    until(lambda: in_memory(broker, "q-lazy") == (700, 0))
    assert in_memory(broker, "q-plain") == (700, 700)
    set_lazy(broker, "lazy")
    until(lambda: in_memory(broker, "q-plain") == (700, 0))
    set_lazy(broker, "default")
    confirmed(broker, "q-lazy", b"more")
    assert in_memory(broker, "q-lazy") == (701, 1)
    broker.control("clear_policy", vhost="/", name="lazy")
    until(lambda: in_memory(broker, "q-lazy") == (701, 0))
    assert [body for body, _ in drain(broker, "q-lazy")] == [*numbered(700), b"more"]
    assert [body for body, _ in drain(broker, "q-plain")] == numbered(700)


@pytest.mark.rule("LZ-3")
def test_the_mode_of_a_queue_is_declared_once(start_broker: StartBroker) -> None:
    broker = start_broker()
    channel = durable(broker, "q", x_queue_mode="lazy")
    options = {"durable": True, "arguments": {"x-queue-mode": "default"}}
    channel.send("queue.declare", queue="q", **options)
    assert channel.client.next_event(channel=channel.number).reply_code == 406
    channel.send("channel.close-ok")
    channel.reopen().queue_delete("q")
    durable(broker, "q", x_queue_mode="default")


@BOTH
@pytest.mark.rule("VQ-1", "VQ-8", "PG-1")
@pytest.mark.differs_from_reference("the setting is ours")
def test_a_backlog_that_is_not_in_memory_is_drained_in_order(
    start_broker: StartBroker, kill: bool
) -> None:
    broker = start_broker({"queue_resident_bytes": 0})
    channel = durable(broker, "q")
    count = 20_000
    confirmed(broker, "q", *numbered(count))
    messages, ram = in_memory(broker, "q")
    assert (messages, ram < 1000) == (count, True)
    broker.restart(kill=kill)
    channel = broker.connect().channel()
    channel.qos(300)
    channel.consume("q")
    for number in range(count):
        delivery = channel.recv_delivery()
        assert (delivery.body, delivery.redelivered) == (b"%d" % number, kill)
        if number % 100 == 99:
            channel.ack(delivery.delivery_tag, multiple=True)
    channel.sync()
    assert depth(broker, "q") == 0


@pytest.mark.differs_from_reference("the setting is ours")
def test_a_get_that_waits_for_the_disk_keeps_its_place(start_broker: StartBroker) -> None:
    """What a channel sends behind it is answered behind it."""
    broker = start_broker({"queue_resident_bytes": 0})
    durable(broker, "q")
    confirmed(broker, "q", *numbered(2000))
    broker.restart()
    channel = broker.connect().channel()
    for _ in range(3):
        channel.send("basic.get", queue="q", no_ack=True)
    channel.send("queue.declare", queue="q", passive=True)
    channel.send("basic.get", queue="q", no_ack=True)
    channel.send("queue.purge", queue="q")
    channel.send("basic.get", queue="q", no_ack=True)
    for number in range(3):
        got = channel.expect("basic.get-ok")
        assert (got.body, got.message_count) == (b"%d" % number, 1999 - number)
    assert channel.expect("queue.declare-ok").message_count == 1997
    assert channel.expect("basic.get-ok").body == b"3"
    assert channel.expect("queue.purge-ok").message_count == 1996
    channel.expect("basic.get-empty")
