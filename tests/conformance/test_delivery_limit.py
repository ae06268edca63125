"""How often a message may come back (6.9), and the same for queues that are not replicated."""

from typing import Any

import pytest

from tests.conformance.test_exchange import bodies
from tests.support.channel import Channel
from tests.support.codec import Typed
from tests.support.fixtures import Connect
from tests.support.grave import Grave, reason_of

COUNT = "x-delivery-count"
# RabbitMQ 3.10 knows the limit for quorum queues only; Warren has it for every queue.
ONLY_QUORUM = pytest.mark.differs_from_reference("it has the limit for quorum queues only")
TYPES = ["quorum", pytest.param("classic", marks=ONLY_QUORUM)]
HOWS = ["nack", "reject", "recover", "close"]


@pytest.fixture(params=TYPES)
def declare(request: pytest.FixtureRequest, channel: Channel, unique: Any) -> Any:
    """Declare a queue of the type in question."""

    def make(**arguments: Any) -> str:
        options = {name.replace("_", "-"): value for name, value in arguments.items()}
        options["x-queue-type"] = request.param
        name: str = channel.queue_declare(unique("q"), durable=True, arguments=options).queue
        return name

    return make


def hand_back(channel: Channel, delivery: Any, how: str) -> Channel:
    """Return the delivery to its queue; return the channel to go on with."""
    if how == "nack":
        channel.nack(delivery.delivery_tag, requeue=True)
    elif how == "reject":
        channel.reject(delivery.delivery_tag, requeue=True)
    elif how == "recover":
        channel.send("basic.recover", requeue=True)
        channel.wait_for("basic.recover-ok")
    else:
        channel.close()
        return channel.reopen()
    return channel


@pytest.mark.rule("DL-1", "DL-5")
@pytest.mark.parametrize("limit", [0, 1, 2, 5])
def test_returned_more_often_than_the_limit(
    channel: Channel, grave: Grave, declare: Any, limit: int
) -> None:
    """A limit of n gives n + 1 deliveries."""
    name = declare(x_delivery_limit=limit, **grave.arguments())
    beside = channel.client.channel()
    beside.qos(1)
    beside.consume(name)
    channel.publish(b"x", routing_key=name)
    channel.publish(b"next", routing_key=name)
    for _ in range(limit + 1):
        delivery = beside.recv_delivery()
        assert delivery.body == b"x"
        beside.nack(delivery.delivery_tag, requeue=True)
    letter = grave.take()
    assert (letter.body, reason_of(letter)) == (b"x", "delivery_limit")
    assert letter.headers["x-first-death-reason"] == "delivery_limit"
    assert beside.recv_delivery().body == b"next"


@pytest.mark.rule("DL-1")
@pytest.mark.parametrize("how", HOWS)
def test_every_way_back_counts(channel: Channel, grave: Grave, declare: Any, how: str) -> None:
    name = declare(x_delivery_limit=2, **grave.arguments())
    channel.publish(b"x", routing_key=name)
    beside = channel.client.channel()
    for count in range(3):
        beside.qos(1)
        tag = beside.consume(name)
        delivery = beside.recv_delivery()
        assert delivery.redelivered is (count > 0)
        beside.cancel(tag)
        beside = hand_back(beside, delivery, how)
    assert reason_of(grave.take()) == "delivery_limit"


@pytest.mark.rule("CS-7", "PB-5")
def test_the_count_is_told(channel: Channel, declare: Any) -> None:
    """Beside the headers of the message, and instead of what it claims itself.

    A consumer may read it as 0 where it is not there: RabbitMQ leaves it out the first time.
    """
    name = declare(x_delivery_limit=10)
    for headers in ({}, {"mine": 1}, {COUNT: 77}):
        properties: dict[str, Any] = {"headers": headers} if headers else {}
        channel.publish(b"x", routing_key=name, message_id="m", **properties)
        beside = channel.client.channel()
        beside.consume(name)
        first = beside.recv_delivery()
        assert first.headers in (headers, headers | {COUNT: 0})
        beside.nack(first.delivery_tag, requeue=True)
        for count in range(1, 5):
            delivery = beside.recv_delivery()
            assert delivery.typed_headers[COUNT] == Typed("l", count)
            assert delivery.headers == headers | {COUNT: count}
            assert delivery.properties["message_id"] == "m"
            beside.nack(delivery.delivery_tag, requeue=True)
        beside.ack(beside.recv_delivery().delivery_tag)
        beside.close()


@pytest.mark.rule("CS-7", "GT-1")
def test_get_counts_too(channel: Channel, grave: Grave, declare: Any) -> None:
    name = declare(x_delivery_limit=1, **grave.arguments())
    channel.confirm_select()
    channel.publish(b"x", routing_key=name)
    channel.expect("basic.ack")
    for count in (0, 1):
        got = channel.get(name)
        assert got.typed_headers[COUNT] == Typed("l", count)
        channel.nack(got.delivery_tag, requeue=True)
        channel.sync()
    assert reason_of(grave.take()) == "delivery_limit"
    assert channel.get(name) is None


@pytest.mark.rule("CS-7")
def test_what_a_lost_connection_held_counts(
    connect: Connect, channel: Channel, grave: Grave, declare: Any
) -> None:
    name = declare(x_delivery_limit=1, **grave.arguments())
    channel.publish(b"x", routing_key=name)
    for _ in range(2):
        lost = connect()
        theirs = lost.channel()
        theirs.consume(name)
        assert theirs.recv_delivery().body == b"x"
        lost.drop()
    assert reason_of(grave.take()) == "delivery_limit"


@pytest.mark.rule("DL-1", "AK-1")
def test_each_message_has_its_own_count(channel: Channel, grave: Grave, declare: Any) -> None:
    name = declare(x_delivery_limit=1, **grave.arguments())
    beside = channel.client.channel()
    beside.qos(2)
    beside.consume(name)
    for body in (b"bad", b"good"):
        channel.publish(body, routing_key=name)
    counts = {b"bad": 0, b"good": 0}
    while counts[b"bad"] < 2 or counts[b"good"] < 1:
        delivery = beside.recv_delivery()
        counts[delivery.body] += 1
        if delivery.body == b"bad":
            beside.nack(delivery.delivery_tag, requeue=True)
        else:
            beside.ack(delivery.delivery_tag)
    assert grave.take().body == b"bad"
    beside.close()
    assert channel.queue_declare(name, passive=True).message_count == 0


@pytest.mark.rule("DL-2", "DL-1")
def test_without_a_grave_it_is_dropped(channel: Channel, declare: Any) -> None:
    name = declare(x_delivery_limit=0)
    beside = channel.client.channel()
    beside.qos(1)
    beside.consume(name)
    for body in (b"1", b"2"):
        channel.publish(body, routing_key=name)
        delivery = beside.recv_delivery()
        assert delivery.body == body
        beside.nack(delivery.delivery_tag, requeue=True)
    beside.close()
    assert bodies(channel, name) == []


@pytest.mark.rule("DL-1")
def test_a_rejection_does_not_wait_for_the_limit(
    channel: Channel, grave: Grave, declare: Any
) -> None:
    name = declare(x_delivery_limit=5, **grave.arguments())
    beside = channel.client.channel()
    beside.consume(name)
    channel.publish(b"x", routing_key=name)
    beside.reject(beside.recv_delivery().delivery_tag, requeue=False)
    assert reason_of(grave.take()) == "rejected"


@pytest.mark.rule("DL-3", "DL-5")
def test_a_letter_does_not_carry_the_count(channel: Channel, grave: Grave, declare: Any) -> None:
    name = declare(x_delivery_limit=0, **grave.arguments())
    beside = channel.client.channel()
    beside.consume(name)
    channel.publish(b"x", routing_key=name, headers={"mine": 1})
    beside.nack(beside.recv_delivery().delivery_tag, requeue=True)
    letter = grave.take()
    assert letter.headers["mine"] == 1
    assert COUNT not in letter.headers


@pytest.mark.rule("DL-6")
def test_a_limit_in_a_ring(channel: Channel, declare: Any) -> None:
    """No consumer rejected it for good, so it does not come back to where it died."""
    name = declare(x_delivery_limit=0, x_dead_letter_exchange="")
    beside = channel.client.channel()
    beside.consume(name)
    channel.publish(b"x", routing_key=name)
    beside.nack(beside.recv_delivery().delivery_tag, requeue=True)
    beside.expect_nothing(within=0.3)
    beside.close()
    assert bodies(channel, name) == []


@pytest.mark.rule("QA-10", "CS-7")
def test_a_quorum_queue_counts_without_a_limit(channel: Channel, unique: Any) -> None:
    arguments = {"x-queue-type": "quorum"}
    name = channel.queue_declare(unique("q"), durable=True, arguments=arguments).queue
    beside = channel.client.channel()
    beside.consume(name)
    channel.publish(b"x", routing_key=name)
    for count in range(30):
        delivery = beside.recv_delivery()
        assert delivery.headers.get(COUNT, 0) == count
        beside.nack(delivery.delivery_tag, requeue=True)


@pytest.mark.rule("CS-7", "PB-5")
def test_a_queue_without_a_limit_counts_nothing(channel: Channel, queue: str) -> None:
    channel.publish(b"x", routing_key=queue)
    channel.sync()
    channel.nack(channel.get(queue).delivery_tag, requeue=True)
    again = channel.get(queue)
    assert again.redelivered
    assert "headers" not in again.properties


@ONLY_QUORUM
@pytest.mark.rule("PQ-3", "LE-2", "TT-5")
def test_a_limit_beside_all_the_rest(channel: Channel, grave: Grave) -> None:
    """A queue with priorities, a length and a time: what comes back too often goes first."""
    arguments = grave.arguments(
        x_delivery_limit=1, x_max_priority=5, x_max_length=3, x_message_ttl=3_600_000
    )
    name = channel.queue_declare(exclusive=True, arguments=arguments).queue
    for priority in (1, 5, 3):
        channel.publish(b"%d" % priority, routing_key=name, priority=priority)
    channel.sync()
    for _ in range(2):
        got = channel.get(name)
        assert got.body == b"5"
        channel.nack(got.delivery_tag)
    letter = grave.take()
    assert (letter.body, reason_of(letter)) == (b"5", "delivery_limit")
    assert bodies(channel, name) == [b"3", b"1"]
