"""How long messages live: the TTL of queues and of messages, and what dies when (5.3)."""

import time
from typing import Any

import pytest

from tests.conformance.test_exchange import bodies
from tests.support.channel import Channel
from tests.support.grave import Grave, lapse, reason_of

TTL_MS = 150
LONG_MS = 3_600_000
# What a timer of the broker, its turn and a busy machine may add to a time.
LATE_SECONDS = 3.0
# A broker takes its time at the begin of a turn, so a clock outside may see it as a bit early.
EARLY_SECONDS = 0.03


def mortal(channel: Channel, grave: Grave, **arguments: Any) -> str:
    """Return a queue whose dead go to the grave."""
    options = grave.arguments(**arguments)
    name: str = channel.queue_declare(exclusive=True, arguments=options).queue
    return name


def seconds_until_death(grave: Grave, began: float) -> float:
    assert reason_of(grave.take()) == "expired"
    return time.monotonic() - began


@pytest.mark.rule("TT-1")
@pytest.mark.parametrize(
    ("queue_ttl", "expiration"),
    [(TTL_MS, None), (None, str(TTL_MS)), (TTL_MS, str(LONG_MS)), (LONG_MS, str(TTL_MS))],
)
def test_the_smaller_time_decides(
    channel: Channel, grave: Grave, queue_ttl: int | None, expiration: str | None
) -> None:
    arguments = {} if queue_ttl is None else {"x_message_ttl": queue_ttl}
    name = mortal(channel, grave, **arguments)
    began = time.monotonic()
    channel.publish(b"x", routing_key=name, expiration=expiration)
    seconds = seconds_until_death(grave, began)
    assert TTL_MS / 1000 - EARLY_SECONDS <= seconds < TTL_MS / 1000 + LATE_SECONDS
    assert channel.queue_declare(name, passive=True).message_count == 0


@pytest.mark.rule("TT-1")
def test_what_outlives_its_time_in_no_other_queue(channel: Channel, grave: Grave) -> None:
    """One publish, three queues: each copy has the time of its queue."""
    names = [mortal(channel, grave, x_message_ttl=ttl) for ttl in (LONG_MS, 200, 1)]
    for name in names:
        channel.queue_bind(name, "amq.direct", grave.name)
    channel.publish(b"x", exchange="amq.direct", routing_key=grave.name)
    died = [grave.take().headers["x-death"][0]["queue"] for _ in range(2)]
    assert died == [names[2], names[1]]
    assert bodies(channel, names[0]) == [b"x"]


@pytest.mark.rule("TT-1")
def test_a_message_without_a_time_stays(channel: Channel, grave: Grave) -> None:
    name = mortal(channel, grave)
    channel.publish(b"for ever", routing_key=name)
    channel.publish(b"long", routing_key=name, expiration=str(LONG_MS))
    lapse(channel, TTL_MS)
    assert bodies(channel, name) == [b"for ever", b"long"]


@pytest.mark.rule("TT-1", "TT-3")
def test_many_die_in_order(channel: Channel, grave: Grave) -> None:
    name = mortal(channel, grave, x_message_ttl=1)
    wanted = [b"%d" % number for number in range(3000)]
    for body in wanted:
        channel.publish(body, routing_key=name)
    assert grave.bodies(len(wanted)) == wanted


@pytest.mark.rule("TT-2")
def test_the_property_is_delivered_as_it_came(channel: Channel, queue: str) -> None:
    channel.publish(b"x", routing_key=queue, expiration="0060000")
    assert channel.get(queue).properties["expiration"] == "0060000"
    channel.consume(queue)
    channel.publish(b"x", routing_key=queue, expiration=str(LONG_MS))
    assert channel.recv_delivery().properties["expiration"] == str(LONG_MS)


@pytest.mark.rule("TT-3")
def test_only_the_head_expires(channel: Channel, grave: Grave) -> None:
    name = mortal(channel, grave)
    channel.publish(b"head", routing_key=name)
    channel.publish(b"behind", routing_key=name, expiration=str(TTL_MS))
    channel.publish(b"last", routing_key=name)
    lapse(channel, TTL_MS * 2)
    assert channel.queue_declare(name, passive=True).message_count == 3
    grave.expect_nothing(within=0.05)
    assert channel.get(name, no_ack=True).body == b"head"
    assert grave.take().body == b"behind"
    assert bodies(channel, name) == [b"last"]


@pytest.mark.rule("TT-3")
def test_what_expired_is_not_delivered(channel: Channel, grave: Grave) -> None:
    """A consumer takes the head; what comes to light behind it is dead and never seen."""
    name = mortal(channel, grave)
    for number in range(6):
        expiration = str(TTL_MS) if number % 2 else None
        channel.publish(b"%d" % number, routing_key=name, expiration=expiration)
    lapse(channel, TTL_MS * 2)
    beside = channel.client.channel()
    beside.consume(name)
    assert [beside.recv_delivery().body for _ in range(3)] == [b"0", b"2", b"4"]
    assert grave.bodies(3) == [b"1", b"3", b"5"]
    beside.sync()
    beside.expect_nothing(within=0.1)


@pytest.mark.rule("TT-3")
def test_get_passes_what_expired_behind_the_head(channel: Channel, queue: str) -> None:
    channel.publish(b"1", routing_key=queue)
    for _ in range(10):
        channel.publish(b"dead", routing_key=queue, expiration=str(TTL_MS))
    channel.publish(b"2", routing_key=queue)
    lapse(channel, TTL_MS * 2)
    first, second = channel.get(queue), channel.get(queue)
    assert (first.body, second.body) == (b"1", b"2")
    assert second.message_count == 0


@pytest.mark.rule("TT-3")
def test_a_shorter_time_behind_a_longer_one(channel: Channel, grave: Grave) -> None:
    """The second one waits for the first one's death, and both go then."""
    name = mortal(channel, grave)
    began = time.monotonic()
    channel.publish(b"long", routing_key=name, expiration="600")
    channel.publish(b"short", routing_key=name, expiration="10")
    assert grave.take().body == b"long"
    assert time.monotonic() - began >= 0.6 - EARLY_SECONDS
    assert grave.take().body == b"short"


@pytest.mark.rule("TT-3", "QD-8")
def test_an_expired_message_behind_the_head_is_purged(channel: Channel, grave: Grave) -> None:
    name = mortal(channel, grave)
    channel.publish(b"head", routing_key=name)
    channel.publish(b"behind", routing_key=name, expiration="1")
    lapse(channel, 50)
    assert channel.queue_purge(name).message_count == 2
    channel.publish(b"later", routing_key=name, expiration="1")
    assert grave.take().body == b"later"


@pytest.mark.rule("TT-4")
@pytest.mark.parametrize("by_queue", [False, True])
def test_a_ttl_of_0_with_a_consumer(channel: Channel, grave: Grave, by_queue: bool) -> None:
    name = mortal(channel, grave, **({"x_message_ttl": 0} if by_queue else {}))
    expiration = None if by_queue else "0"
    beside = channel.client.channel()
    beside.qos(1)
    beside.consume(name)
    channel.publish(b"delivered", routing_key=name, expiration=expiration)
    delivery = beside.recv_delivery()
    channel.publish(b"expired", routing_key=name, expiration=expiration)
    assert grave.take().body == b"expired"
    beside.ack(delivery.delivery_tag)
    beside.sync()
    channel.publish(b"delivered again", routing_key=name, expiration=expiration)
    assert beside.recv_delivery().body == b"delivered again"


@pytest.mark.rule("TT-4")
@pytest.mark.parametrize("by_queue", [False, True])
def test_a_ttl_of_0_without_a_consumer(channel: Channel, grave: Grave, by_queue: bool) -> None:
    name = mortal(channel, grave, **({"x_message_ttl": 0} if by_queue else {}))
    channel.publish(b"x", routing_key=name, expiration=None if by_queue else "0")
    assert reason_of(grave.take()) == "expired"
    assert channel.get(name) is None


@pytest.mark.rule("TT-4", "CO-2")
def test_what_expires_at_once_is_confirmed(channel: Channel) -> None:
    """Trap 8."""
    name = channel.queue_declare(exclusive=True, arguments={"x-message-ttl": 0}).queue
    channel.confirm_select()
    for _ in range(5):
        channel.publish(b"x", routing_key=name, mandatory=True)
    assert set(channel.wait_confirms(5).values()) == {"ack"}
    assert channel.get(name) is None


@pytest.mark.rule("TT-4", "TT-3")
def test_a_ttl_of_0_behind_others(channel: Channel, grave: Grave) -> None:
    name = mortal(channel, grave)
    channel.publish(b"head", routing_key=name)
    channel.publish(b"behind", routing_key=name, expiration="0")
    channel.sync()
    assert channel.queue_declare(name, passive=True).message_count == 2
    assert channel.get(name, no_ack=True).body == b"head"
    assert grave.take().body == b"behind"


@pytest.mark.rule("TT-5")
def test_an_unacked_message_does_not_expire(channel: Channel, grave: Grave) -> None:
    """Trap 14. It may be acked long after its time, and dies if it comes back instead."""
    name = mortal(channel, grave, x_message_ttl=TTL_MS)
    for body in (b"1", b"2"):
        channel.publish(body, routing_key=name)
    tags = [channel.get(name).delivery_tag for _ in range(2)]
    lapse(channel, TTL_MS * 2)
    grave.expect_nothing(within=0.05)
    channel.ack(tags[0])
    channel.nack(tags[1], requeue=True)
    letter = grave.take()
    assert (letter.body, reason_of(letter)) == (b"2", "expired")
    grave.expect_nothing(within=0.1)
    assert channel.get(name) is None


@pytest.mark.rule("TT-5")
def test_what_expired_while_unacked_is_not_delivered_again(channel: Channel, grave: Grave) -> None:
    name = mortal(channel, grave, x_message_ttl=TTL_MS)
    beside = channel.client.channel()
    beside.consume(name)
    channel.publish(b"x", routing_key=name)
    delivery = beside.recv_delivery()
    lapse(channel, TTL_MS * 2)
    beside.nack(delivery.delivery_tag, requeue=True)
    assert grave.take().body == b"x"
    beside.sync()
    assert beside.client.inbox == []


@pytest.mark.slow
@pytest.mark.rule("TT-5")
def test_a_requeued_message_keeps_its_expiry(channel: Channel, grave: Grave) -> None:
    ttl, held = 2.0, 1.2
    name = mortal(channel, grave, x_message_ttl=int(ttl * 1000))
    began = time.monotonic()
    channel.publish(b"x", routing_key=name)
    tag = channel.get(name).delivery_tag
    lapse(channel, int(held * 1000))
    channel.nack(tag, requeue=True)
    seconds = seconds_until_death(grave, began)
    assert ttl - EARLY_SECONDS <= seconds < ttl + held


@pytest.mark.rule("TT-5", "RC-2")
def test_what_a_closed_channel_held_dies_at_its_time(channel: Channel, grave: Grave) -> None:
    name = mortal(channel, grave, x_message_ttl=TTL_MS)
    beside = channel.client.channel()
    channel.publish(b"x", routing_key=name)
    channel.sync()
    assert beside.get(name).body == b"x"
    lapse(channel, TTL_MS * 2)
    beside.close()
    assert reason_of(grave.take()) == "expired"
