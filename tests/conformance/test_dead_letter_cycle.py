"""Dead letters that come back to where they died (DL-6)."""

from typing import Any

import pytest

from tests.conformance.test_dead_letter import declare, die
from tests.conformance.test_exchange import bodies
from tests.support.channel import Channel
from tests.support.grave import Grave, lapse, reason_of

# Every way to die without a consumer, as arguments.
AUTOMATIC = [{"x-message-ttl": 30}, {"x-max-length": 0}]


def ring(channel: Channel, *names: str, **of_each: dict[str, Any]) -> None:
    """Declare queues of which each is the grave of the one before."""
    for name, following in zip(names, (*names[1:], names[0]), strict=True):
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": following}
        arguments |= of_each.get(name.partition("-")[0], {})
        channel.queue_declare(name, exclusive=True, arguments=arguments)


def total(channel: Channel, *names: str) -> int:
    return sum(channel.queue_declare(name, passive=True).message_count for name in names)


@pytest.mark.rule("DL-6")
@pytest.mark.parametrize("arguments", AUTOMATIC, ids=str)
def test_a_queue_that_is_its_own_grave(
    channel: Channel, unique: Any, arguments: dict[str, Any]
) -> None:
    """What dies without a consumer's will is gone, with the first turn."""
    name = unique("self")
    ring(channel, name, self=arguments)
    for _ in range(3):
        channel.publish(b"x", routing_key=name)
    lapse(channel, 200)
    assert total(channel, name) == 0


@pytest.mark.rule("DL-6")
def test_rejected_messages_go_round(channel: Channel, unique: Any) -> None:
    """Trap 17. Each time with a higher count."""
    name = unique("self")
    ring(channel, name)
    beside = channel.client.channel()
    beside.qos(1)
    beside.consume(name)
    channel.publish(b"x", routing_key=name)
    for turn in range(5):
        delivery = beside.recv_delivery()
        found = delivery.headers.get("x-death", [])
        assert [(death["reason"], death["count"]) for death in found] == [("rejected", turn)][:turn]
        assert not delivery.redelivered
        beside.reject(delivery.delivery_tag, requeue=False)


@pytest.mark.rule("DL-6")
@pytest.mark.parametrize("arguments", AUTOMATIC, ids=str)
@pytest.mark.parametrize("length", [2, 5])
def test_a_longer_way_round(
    channel: Channel, unique: Any, arguments: dict[str, Any], length: int
) -> None:
    """Trap 17. The whole history counts, not only the last death."""
    names = [unique("ring") for _ in range(length)]
    ring(channel, *names, ring=arguments)
    channel.publish(b"x", routing_key=names[0])
    lapse(channel, 400)
    assert total(channel, *names) == 0


@pytest.mark.rule("DL-6")
def test_every_queue_of_a_ring_is_passed_once(channel: Channel, grave: Grave, unique: Any) -> None:
    """Seen by a queue beside, which has a copy of each letter."""
    names = [unique("ring") for _ in range(3)]
    exchange = unique("x")
    channel.exchange_declare(exchange, "topic")
    for name, following in zip(names, (*names[1:], names[0]), strict=True):
        arguments = {"x-dead-letter-exchange": exchange, "x-dead-letter-routing-key": following}
        channel.queue_declare(name, exclusive=True, arguments={**arguments, "x-message-ttl": 1})
        channel.queue_bind(name, exchange, name)
    channel.queue_bind(grave.name, exchange, "#")
    channel.publish(b"x", routing_key=names[0])
    letters = [grave.take() for _ in range(3)]
    assert [letter.headers["x-death"][0]["queue"] for letter in letters] == names
    grave.expect_nothing(within=0.1)
    assert total(channel, *names) == 0


@pytest.mark.rule("DL-6")
def test_only_the_queue_of_the_cycle_is_skipped(
    channel: Channel, grave: Grave, unique: Any
) -> None:
    name, exchange = unique("self"), unique("x")
    channel.exchange_declare(exchange, "fanout")
    arguments = {"x-dead-letter-exchange": exchange, "x-message-ttl": 1}
    channel.queue_declare(name, exclusive=True, arguments=arguments)
    for each in (name, grave.name):
        channel.queue_bind(each, exchange)
    for body in (b"1", b"2"):
        channel.publish(body, routing_key=name)
        assert grave.take().body == body
    assert total(channel, name) == 0


@pytest.mark.rule("DL-6")
def test_a_rejection_on_the_way_lets_a_message_return(
    channel: Channel, queue: str, unique: Any
) -> None:
    """It dies by its time in one queue and by a consumer in the next, which brings it back."""
    work, rest = unique("work"), unique("rest")
    ring(channel, work, rest, work={"x-message-ttl": 50})
    beside = channel.client.channel()
    beside.consume(rest)
    channel.publish(b"x", routing_key=work)
    for turn in range(1, 5):
        delivery = beside.recv_delivery()
        counts = {death["reason"]: death["count"] for death in delivery.headers["x-death"]}
        assert counts == ({"expired": turn, "rejected": turn - 1} if turn > 1 else {"expired": 1})
        beside.reject(delivery.delivery_tag, requeue=False)


@pytest.mark.rule("DL-6")
@pytest.mark.differs_from_reference("it turns the order of older deaths, and the rejection with it")
def test_a_rejection_before_the_cycle_does_not_help(
    channel: Channel, grave: Grave, unique: Any
) -> None:
    """Only what happened since the message was last in that queue."""
    names = [unique("ring") for _ in range(2)]
    ring(channel, *names, ring={"x-message-ttl": 50})
    first = declare(channel, "", names[0])
    die(channel, first)
    lapse(channel, 400)
    assert total(channel, *names) == 0


@pytest.mark.rule("DL-6", "DL-5")
def test_a_message_taken_out_and_published_again_is_in_the_cycle(
    channel: Channel, grave: Grave, unique: Any
) -> None:
    """Its header is its history, whoever sends it; without it, it begins anew."""
    exchange, name = unique("x"), unique("self")
    channel.exchange_declare(exchange, "fanout")
    arguments = {"x-dead-letter-exchange": exchange, "x-message-ttl": 0}
    channel.queue_declare(name, exclusive=True, arguments=arguments)
    for each in (name, grave.name):
        channel.queue_bind(each, exchange)
    channel.publish(b"1", routing_key=name)
    letter = grave.take()
    history = letter.properties["headers"]
    channel.publish(b"2", routing_key=name, headers=history)
    assert [death["count"] for death in grave.take().headers["x-death"]] == [2]
    grave.expect_nothing(within=0.05)


@pytest.mark.rule("DL-6", "LE-4")
def test_a_refused_letter_in_its_own_queue(channel: Channel, grave: Grave, unique: Any) -> None:
    """reject-publish-dlx into the queue that refuses: the cycle ends at once."""
    name = unique("self")
    ring(channel, name, self={"x-max-length": 1, "x-overflow": "reject-publish-dlx"})
    channel.confirm_select()
    for number, wanted in ((1, "ack"), (2, "nack"), (3, "nack")):
        channel.publish(b"%d" % number, routing_key=name)
        channel.expect(f"basic.{wanted}", delivery_tag=number)
    assert bodies(channel, name) == [b"1"]


@pytest.mark.rule("DL-6", "DL-1")
def test_reasons_of_a_ring_that_drops(channel: Channel, grave: Grave, unique: Any) -> None:
    """A letter comes back as the newest message of a full queue: rejected, it drives out others."""
    name = unique("self")
    ring(channel, name, self={"x-max-length": 2})
    for body in (b"1", b"2"):
        channel.publish(body, routing_key=name)
    channel.sync()
    got = channel.get(name)
    channel.publish(b"3", routing_key=name)
    channel.sync()
    channel.reject(got.delivery_tag, requeue=False)
    lapse(channel, 50)
    first, second = channel.get(name), channel.get(name)
    assert [first.body, second.body] == [b"3", b"1"]
    assert reason_of(second) == "rejected"
    assert channel.get(name) is None
