"""What a queue of type quorum may be and hold (6.9), and the type of queue that there is not."""

from typing import Any

import pytest

from tests.conformance.test_exchange import bodies
from tests.support.channel import Channel
from tests.support.expectation import Text, starting
from tests.support.grave import Grave, reason_of

QUORUM = {"x-queue-type": "quorum"}


def refuse(channel: Channel, text: Text, name: str, **options: Any) -> None:
    """Demand 406 for a declare."""
    channel.send("queue.declare", queue=name, **{"durable": True, "arguments": QUORUM} | options)
    channel.expect_close(406, text, method="queue.declare")


@pytest.fixture
def quorum(channel: Channel, unique: Any) -> str:
    name: str = channel.queue_declare(unique("q"), durable=True, arguments=QUORUM).queue
    return name


@pytest.mark.rule("CH-10", "QA-10")
@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"durable": False}, "non-durable"),
        ({"exclusive": True}, "exclusive-owner"),
        ({"auto_delete": True}, "auto-delete"),
        ({"auto_delete": True, "exclusive": True, "durable": False}, "auto-delete"),
        ({"exclusive": True, "durable": False}, "exclusive-owner"),
    ],
    ids=str,
)
def test_what_it_cannot_be(
    channel: Channel, unique: Any, options: dict[str, Any], word: str
) -> None:
    name = unique("q")
    text = f"PRECONDITION_FAILED - invalid property '{word}' for queue '{name}' in vhost '/'"
    refuse(channel, text, name, **options)


@pytest.mark.rule("CH-10", "QA-10", "QD-3")
def test_it_needs_a_name(channel: Channel) -> None:
    refuse(
        channel,
        starting("PRECONDITION_FAILED - Cannot declare a server-named queue for type"),
        "",
    )


@pytest.mark.rule("CH-11", "QA-10")
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("x-max-priority", 5),
        ("x-queue-mode", "lazy"),
        ("x-queue-master-locator", "client-local"),
        ("x-max-age", "1D"),
        ("x-stream-max-segment-size-bytes", 1000),
    ],
)
def test_arguments_it_does_not_have(channel: Channel, unique: Any, key: str, value: Any) -> None:
    name = unique("q")
    text = (
        f"PRECONDITION_FAILED - invalid arg '{key}' for queue '{name}' in vhost '/' of queue type "
    )
    refuse(channel, starting(text), name, arguments=QUORUM | {key: value})


@pytest.mark.rule("QA-10", "QA-1", "QA-2", "QA-3", "QA-4", "QA-5", "QA-6", "QA-9")
@pytest.mark.parametrize(
    "arguments",
    [
        {"x-delivery-limit": 0},
        {"x-delivery-limit": 20},
        {"x-message-ttl": 60000},
        {"x-expires": 60000},
        {"x-max-length": 10},
        {"x-max-length-bytes": 1000},
        {"x-overflow": "drop-head"},
        {"x-overflow": "reject-publish"},
        {"x-dead-letter-exchange": ""},
        {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "key"},
        {"x-single-active-consumer": True},
        {"x-quorum-initial-group-size": 3},
        {"x-max-in-memory-length": 5},
        {"x-max-in-memory-bytes": 5},
        {"x-dead-letter-strategy": "at-most-once"},
        {"unknown": "free"},
    ],
    ids=str,
)
def test_arguments_it_has(channel: Channel, unique: Any, arguments: dict[str, Any]) -> None:
    """And the same declare again finds the same queue."""
    name = unique("q")
    for _ in range(2):
        channel.queue_declare(name, durable=True, arguments=QUORUM | arguments)


@pytest.mark.rule("CH-10", "QA-10")
@pytest.mark.differs_from_reference("it takes any value, and then has no limit")
@pytest.mark.parametrize("value", [-1, "2"], ids=str)
def test_a_bad_delivery_limit(channel: Channel, unique: Any, value: Any) -> None:
    name = unique("q")
    text = f"PRECONDITION_FAILED - invalid arg 'x-delivery-limit' for queue '{name}' in vhost '/': "
    refuse(channel, starting(text), name, arguments=QUORUM | {"x-delivery-limit": value})


@pytest.mark.rule("CH-7", "QD-1")
@pytest.mark.parametrize("other", ["classic", None])
def test_the_type_is_compared(
    channel: Channel, quorum: str, unique: Any, other: str | None
) -> None:
    arguments = {"x-queue-type": other} if other else {}
    channel.send("queue.declare", queue=quorum, durable=True, arguments=arguments)
    text = f"PRECONDITION_FAILED - inequivalent arg 'x-queue-type' for queue '{quorum}' in vhost"
    channel.expect_close(406, starting(text), method="queue.declare")
    again = channel.reopen()
    classic = again.queue_declare(unique("q"), durable=True, arguments=arguments).queue
    again.send("queue.declare", queue=classic, durable=True, arguments=QUORUM)
    text = f"PRECONDITION_FAILED - inequivalent arg 'x-queue-type' for queue '{classic}' in vhost"
    again.expect_close(406, starting(text), method="queue.declare")


@pytest.mark.rule("QA-10", "CH-10")
@pytest.mark.parametrize("value", [5, True], ids=str)
def test_a_type_that_is_no_string(channel: Channel, unique: Any, value: Any) -> None:
    name = unique("q")
    text = f"PRECONDITION_FAILED - invalid arg 'x-queue-type' for queue '{name}' in vhost '/': "
    refuse(channel, starting(text), name, arguments={"x-queue-type": value})


@pytest.mark.rule("QA-10")
@pytest.mark.differs_from_reference("it has streams")
def test_a_stream_is_refused(channel: Channel, unique: Any) -> None:
    """Rather than promised: a log that can be read again is not a queue."""
    name = unique("q")
    text = f"PRECONDITION_FAILED - invalid arg 'x-queue-type' for queue '{name}' in vhost '/': "
    refuse(channel, starting(text), name, arguments={"x-queue-type": "stream"})
    again = channel.reopen()
    again.send("queue.declare", queue=name, passive=True)
    again.expect_close(404, starting("NOT_FOUND"))


@pytest.mark.rule("QO-2", "QA-10")
def test_it_knows_no_limit_of_a_channel(channel: Channel, quorum: str) -> None:
    channel.qos(5, shared=True)
    channel.send("basic.consume", queue=quorum)
    channel.client.expect_close(
        540,
        f"NOT_IMPLEMENTED - queue '{quorum}' in vhost '/' does not support global qos",
        method="basic.consume",
    )


@pytest.mark.rule("QO-2", "QO-3")
def test_a_limit_of_consumers_is_known(channel: Channel, quorum: str) -> None:
    """Also where a limit of the channel was taken back."""
    channel.qos(5, shared=True)
    channel.qos(2)
    for number in range(4):
        channel.publish(b"%d" % number, routing_key=quorum)
    channel.consume(quorum)
    first, second = channel.recv_delivery(), channel.recv_delivery()
    assert [first.body, second.body] == [b"0", b"1"]
    channel.expect_nothing(within=0.2)
    channel.ack(second.delivery_tag, multiple=True)
    assert [channel.recv_delivery().body for _ in range(2)] == [b"2", b"3"]


@pytest.mark.rule("QA-10", "CO-2", "GT-1")
def test_today_s_clients_can_use_it(channel: Channel, quorum: str) -> None:
    """Publish with confirms, get, consume, ack, purge, delete."""
    channel.confirm_select()
    for number in range(10):
        channel.publish(b"%d" % number, routing_key=quorum, delivery_mode=2)
    assert set(channel.wait_confirms(10).values()) == {"ack"}
    assert channel.get(quorum, no_ack=True).body == b"0"
    beside = channel.client.channel()
    beside.qos(3)
    tag = beside.consume(quorum)
    deliveries = [beside.recv_delivery() for _ in range(3)]
    beside.cancel(tag)
    beside.ack(deliveries[-1].delivery_tag, multiple=True)
    beside.sync()
    assert channel.queue_declare(quorum, passive=True).message_count == 6
    assert channel.queue_purge(quorum).message_count == 6
    channel.queue_delete(quorum)


@pytest.mark.rule("QA-10", "CS-2")
def test_exclusive_and_single_active_consumers(channel: Channel, unique: Any) -> None:
    arguments = QUORUM | {"x-single-active-consumer": True}
    name = channel.queue_declare(unique("q"), durable=True, arguments=arguments).queue
    first, second = channel.client.channel(), channel.client.channel()
    for each in (first, second):
        each.consume(name)
    channel.publish(b"1", routing_key=name)
    assert first.recv_delivery().body == b"1"
    first.close()
    delivery = second.recv_delivery()
    assert (delivery.body, delivery.redelivered) == (b"1", True)


@pytest.mark.rule("QA-10", "TT-1", "LE-2", "LE-3")
def test_times_and_lengths_hold(channel: Channel, grave: Grave, unique: Any) -> None:
    arguments = QUORUM | grave.arguments(x_message_ttl=50)
    name = channel.queue_declare(unique("q"), durable=True, arguments=arguments).queue
    channel.publish(b"x", routing_key=name)
    assert reason_of(grave.take()) == "expired"
    arguments = QUORUM | grave.arguments(x_max_length=1)
    name = channel.queue_declare(unique("q"), durable=True, arguments=arguments).queue
    for body in (b"1", b"2"):
        channel.publish(body, routing_key=name)
    letter = grave.take()
    assert (letter.body, reason_of(letter)) == (b"1", "maxlen")
    assert bodies(channel, name) == [b"2"]
