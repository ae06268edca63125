"""Queues that tell duplicates: by which key, within which window, and what becomes of those."""

from typing import Any

import pytest

from tests.conformance.test_exchange import bodies
from tests.support.broker import Broker
from tests.support.channel import Channel
from tests.support.fixtures import StartBroker, StartTimed
from tests.support.policy import Desk

pytestmark = pytest.mark.differs_from_reference("it takes a plug-in, which does it another way")

BY_ID = {"x-deduplicate-by": "message-id"}


@pytest.fixture
def desk(start_timed: StartTimed) -> Desk:
    return Desk(start_timed())


@pytest.fixture
def channel(desk: Desk) -> Channel:
    return desk.channel


def made(channel: Channel, name: str = "q", **arguments: Any) -> str:
    given = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    queue: str = channel.queue_declare(name, arguments=BY_ID | given).queue
    return queue


def send(channel: Channel, body: bytes, key: str, queue: str = "q", **options: Any) -> None:
    channel.publish(body, routing_key=queue, message_id=key, **options)


def row(desk: Desk, queue: str = "q") -> list[Any]:
    columns = ("messages_deduplicated", "deduplication_keys", "deduplication_keys_forgotten")
    found = desk.command("list_queues", columns=("name", *columns))["rows"]
    return next(one[1:] for one in found if one[0] == queue)


# -- what a duplicate is ---------------------------------------------------------------------------


def test_a_duplicate_is_confirmed_and_not_enqueued(channel: Channel) -> None:
    made(channel)
    channel.confirm_select()
    for number, key in enumerate("abaab"):
        send(channel, b"%d" % number, key, mandatory=True)
    assert set(channel.wait_confirms(5).values()) == {"ack"}
    assert bodies(channel, "q") == [b"0", b"1"]
    # The first was consumed: the next is a duplicate all the same.
    send(channel, b"again", "a")
    channel.wait_confirms(6, first=6)
    assert bodies(channel, "q") == []


def test_the_header_of_the_known_plug_in(channel: Channel) -> None:
    channel.queue_declare("q", arguments={"x-deduplicate-by": "header:x-deduplication-header"})
    for number, key in enumerate(("a", "a", 1, 1, "1")):
        headers = {"x-deduplication-header": key}
        channel.publish(b"%d" % number, routing_key="q", headers=headers)
    channel.publish(b"none", routing_key="q", message_id="a")
    channel.publish(b"none", routing_key="q", headers={"other": "a"})
    assert bodies(channel, "q") == [b"0", b"2", b"4", b"none", b"none"]


def test_the_window_ends(channel: Channel, desk: Desk) -> None:
    made(channel, deduplicate_window=16_000)
    send(channel, b"1", "a")
    channel.sync()
    desk.timed.pass_time(15.9)
    send(channel, b"2", "a")
    channel.sync()
    desk.timed.pass_time(1.2)
    send(channel, b"3", "a")
    assert bodies(channel, "q") == [b"1", b"3"]
    desk.timed.pass_time(60)
    assert row(desk) == [1, 0, 0]


def test_sixty_seconds_unless_it_is_said(channel: Channel, desk: Desk) -> None:
    made(channel)
    send(channel, b"1", "a")
    channel.sync()
    desk.timed.pass_time(59)
    send(channel, b"2", "a")
    channel.sync()
    assert row(desk) == [1, 1, 0]
    desk.timed.pass_time(5)
    assert row(desk) == [1, 0, 0]


def test_too_many_keys(channel: Channel, desk: Desk) -> None:
    made(channel, deduplicate_max_keys=160)
    for number in range(500):
        send(channel, b"m", f"{number}")
    channel.sync()
    doubled, keys, forgotten = row(desk)
    assert doubled == 0
    assert keys <= 160
    assert keys + forgotten == 500
    events = desk.broker.log("queue.deduplication_full")
    assert [(one.fields["queue"], one.fields["keys"]) for one in events] == [("q", 160)]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"x-deduplicate-by": "body"}, "should be 'message-id' or 'header:NAME'"),
        ({"x-deduplicate-by": "header:"}, "should be 'message-id' or 'header:NAME'"),
        ({"x-deduplicate-by": 5}, "{unacceptable_type,signedint}"),
        ({"x-deduplicate-window": 0}, "{value_zero,0}"),
        ({"x-deduplicate-window": 604_800_001}, "{value_too_large,604800001}"),
        ({"x-deduplicate-max-keys": -1}, "{value_negative,-1}"),
    ],
)
def test_arguments_that_cannot_be(channel: Channel, arguments: Any, text: str) -> None:
    channel.send("queue.declare", queue="q", arguments=arguments)
    (name,) = arguments
    channel.expect_close(
        406,
        f"PRECONDITION_FAILED - invalid arg '{name}' for queue 'q' in vhost '/': {text}",
        method="queue.declare",
    )


# -- where messages come from ----------------------------------------------------------------------


def test_each_queue_decides_for_itself(channel: Channel) -> None:
    made(channel, "by-id")
    channel.queue_declare("by-header", arguments={"x-deduplicate-by": "header:k"})
    channel.queue_declare("plain")
    for queue in ("by-id", "by-header", "plain"):
        channel.queue_bind(queue, "amq.fanout")
    for number, (key, header) in enumerate((("a", "x"), ("a", "y"), ("b", "x"), ("b", "y"))):
        channel.publish(
            b"%d" % number, exchange="amq.fanout", message_id=key, headers={"k": header}
        )
    assert bodies(channel, "by-id") == [b"0", b"2"]
    assert bodies(channel, "by-header") == [b"0", b"1"]
    assert bodies(channel, "plain") == [b"0", b"1", b"2", b"3"]


def test_in_a_transaction_the_commit_decides(channel: Channel, desk: Desk) -> None:
    made(channel)
    channel.tx_select()
    send(channel, b"1", "a")
    send(channel, b"2", "a")
    other = desk.timed.connect().channel()
    send(other, b"3", "a")
    other.sync()
    channel.tx_commit()
    send(channel, b"4", "b")
    channel.tx_rollback()
    send(other, b"5", "b")
    assert bodies(other, "q") == [b"3", b"5"]


def test_a_delayed_message_counts_from_its_time(channel: Channel, desk: Desk) -> None:
    made(channel, deduplicate_window=10_000)
    channel.exchange_declare("later", "x-delayed-message", arguments={"x-delayed-type": "fanout"})
    channel.queue_bind("q", "later")
    for number in range(2):
        headers = {"x-delay": 60_000}
        channel.publish(b"%d" % number, exchange="later", message_id="a", headers=headers)
    send(channel, b"now", "a")
    assert bodies(channel, "q") == [b"now"]
    desk.timed.pass_time(61)
    assert bodies(channel, "q") == [b"0"]


def test_dead_letters_are_looked_at_as_well(channel: Channel) -> None:
    made(channel, "grave")
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "grave"}
    channel.queue_declare("source", arguments=arguments)
    for number in range(3):
        send(channel, b"%d" % number, "a", "source")
    for _ in range(3):
        channel.reject(channel.get("source").delivery_tag, requeue=False)
    assert bodies(channel, "grave") == [b"0"]


def test_a_retry_through_a_dead_letter_exchange_comes_back(channel: Channel, desk: Desk) -> None:
    made(channel, dead_letter_exchange="", dead_letter_routing_key="pause")
    channel.queue_declare(
        "pause",
        arguments={
            "x-message-ttl": 1000,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "q",
        },
    )
    send(channel, b"work", "a")
    for _ in range(3):
        got = channel.get("q")
        assert got.body == b"work"
        channel.reject(got.delivery_tag, requeue=False)
        channel.sync()
        desk.timed.pass_time(1.1)
    send(channel, b"copy", "a")
    assert bodies(channel, "q") == [b"work"]


def test_what_a_full_queue_refused_may_be_sent_again(channel: Channel) -> None:
    made(channel, max_length=1, overflow="reject-publish")
    channel.confirm_select()
    send(channel, b"1", "a")
    send(channel, b"2", "b")
    send(channel, b"3", "a")
    assert channel.wait_confirms(3) == {1: "ack", 2: "nack", 3: "ack"}
    assert bodies(channel, "q") == [b"1"]
    send(channel, b"4", "b")
    assert channel.wait_confirms(4, first=4) == {4: "ack"}
    assert bodies(channel, "q") == [b"4"]


# -- policies --------------------------------------------------------------------------------------


def test_a_policy_comes_and_goes(channel: Channel, desk: Desk) -> None:
    channel.queue_declare("q")
    send(channel, b"1", "a")
    desk.set("p", "^q$", deduplicate_by="message-id", deduplicate_window=16_000)
    send(channel, b"2", "a")
    send(channel, b"3", "a")
    channel.sync()
    assert row(desk) == [1, 1, 0]
    # The window is another one, for the keys that are there, too.
    desk.set("p", "^q$", deduplicate_by="message-id", deduplicate_window=1600)
    desk.timed.pass_time(2.7)
    send(channel, b"4", "a")
    channel.sync()
    desk.clear("p")
    send(channel, b"5", "a")
    assert bodies(channel, "q") == [b"1", b"2", b"4", b"5"]
    assert row(desk) == [1, 0, 0]


def test_an_argument_wins_over_a_policy_and_an_operator_bounds_the_keys(
    channel: Channel, desk: Desk
) -> None:
    made(channel, deduplicate_max_keys=1000)
    desk.set("p", "^q$", deduplicate_by="header:k", deduplicate_window=5)
    desk.set("o", "^q$", operator=True, deduplicate_max_keys=16)
    for number in range(40):
        send(channel, b"m", f"{number}")
        send(channel, b"m", f"{number}")
    channel.sync()
    doubled, keys, forgotten = row(desk)
    assert doubled == 40
    assert keys == 16
    assert forgotten == 24


@pytest.mark.parametrize(
    ("definition", "text"),
    [
        ({"deduplicate-by": "id"}, "key of messages to tell duplicates by"),
        ({"deduplicate-window": 604_800_001}, "deduplication window"),
        ({"deduplicate-max-keys": 0}, "number of keys to tell duplicates by"),
    ],
)
def test_policies_that_cannot_be(desk: Desk, definition: Any, text: str) -> None:
    told = desk.refusal("set_policy", name="p", pattern="", definition=definition)
    assert f"is not a valid {text}" in told


# -- restarts --------------------------------------------------------------------------------------


def durable(broker: Broker) -> Channel:
    channel = broker.connect().channel()
    arguments = BY_ID | {"x-deduplicate-window": 600_000}
    channel.queue_declare("q", durable=True, arguments=arguments)
    channel.confirm_select()
    return channel


def told(channel: Channel, least: int) -> int:
    """Take confirms until at least so many numbers are told; return up to which all are."""
    every: set[int] = set()
    last = 0
    while last < least:
        event = channel.client.next_event(channel=channel.number, within=20)
        assert event.name == "basic.ack"
        every |= set(
            range(last + 1 if event.multiple else event.delivery_tag, event.delivery_tag + 1)
        )
        while last + 1 in every:
            last += 1
    return last


def keys_of(broker: Broker) -> int:
    return int(broker.rows("list_queues", columns=["deduplication_keys"])[0][0])


@pytest.mark.slow
@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_keys_are_as_durable_as_messages(start_broker: StartBroker, kill: bool) -> None:
    broker = start_broker()
    channel = durable(broker)
    for number in range(2000):
        send(channel, b"%d" % number, f"key-{number}", delivery_mode=2)
    send(channel, b"transient", "transient", delivery_mode=1)
    channel.wait_confirms(2001)
    taker = broker.connect().channel()
    taker.consume("q", no_ack=True)
    for _ in range(2001):
        taker.recv_delivery(within=20)
    # Handed over at once and never stored: its key is.
    send(channel, b"direct", "direct", delivery_mode=2)
    assert taker.recv_delivery(within=20).body == b"direct"
    channel.wait_confirms(2002, first=2002)
    broker.restart(kill=kill)
    assert keys_of(broker) == 2001
    channel = durable(broker)
    for number in range(2000):
        send(channel, b"again", f"key-{number}", delivery_mode=2)
    send(channel, b"again", "direct", delivery_mode=2)
    send(channel, b"new", "transient", delivery_mode=1)
    assert set(channel.wait_confirms(2002).values()) == {"ack"}
    assert bodies(channel, "q") == [b"new"]


@pytest.mark.slow
def test_whoever_sends_all_again_after_a_kill_has_each_once(start_broker: StartBroker) -> None:
    """A publisher that knows only its confirms: what was not confirmed is sent again, and more."""
    broker = start_broker()
    durable(broker)
    confirmed = 0
    for _ in range(4):
        channel = durable(broker)
        first = max(0, confirmed - 300)
        for number in range(first, confirmed + 1000):
            send(channel, b"%d" % number, f"{number}", delivery_mode=2)
        # The rest of the thousand is on its way when the process dies.
        confirmed = first + told(channel, confirmed - first + 400)
        broker.restart(kill=True)
    channel = durable(broker)
    first = max(0, confirmed - 300)
    for number in range(first, first + 1300):
        send(channel, b"%d" % number, f"{number}", delivery_mode=2)
    channel.wait_confirms(1300)
    found = [int(body) for body in bodies(channel, "q")]
    assert sorted(found) == list(range(first + 1300))


@pytest.mark.slow
def test_what_ended_does_not_come_back(start_broker: StartBroker) -> None:
    broker = start_broker()
    channel = durable(broker)
    send(channel, b"1", "a", delivery_mode=2)
    channel.wait_confirms(1)
    # The queue is another one when it is declared again, and knows nothing.
    channel.queue_delete("q")
    channel = durable(broker)
    send(channel, b"2", "a", delivery_mode=2)
    channel.wait_confirms(1)
    broker.restart(kill=True)
    assert keys_of(broker) == 1
    channel = broker.connect().channel()
    channel.queue_delete("q")
    # A policy that goes takes its keys along.
    channel.queue_declare("q", durable=True)
    definition = {"deduplicate-by": "message-id"}
    broker.control("set_policy", name="p", pattern="q", definition=definition)
    channel.confirm_select()
    send(channel, b"3", "a", delivery_mode=2)
    channel.wait_confirms(1)
    broker.restart(kill=True)
    assert keys_of(broker) == 1
    broker.control("clear_policy", name="p")
    channel = broker.connect().channel()
    channel.confirm_select()
    send(channel, b"4", "a", delivery_mode=2)
    channel.wait_confirms(1)
    broker.restart(kill=True)
    broker.control("set_policy", name="p", pattern="q", definition=definition)
    assert keys_of(broker) == 0
    channel = broker.connect().channel()
    assert bodies(channel, "q") == [b"3", b"4"]
