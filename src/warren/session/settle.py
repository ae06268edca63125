"""Ack, nack, reject and recover: what channels do to what they hold (spec AK-*, RC-*, TX-2)."""

from mypy_extensions import i64

from warren.core import AmqpError, reply
from warren.queues import Delivery
from warren.session.channel import Channel, Settlement, requeue


def on_ack(channel: Channel, tag: i64, multiple: bool) -> None:
    """Acknowledge; the common single ack touches one delivery and makes no list."""
    channel.acknowledged += 1
    if not multiple and channel.tx is None:
        outlet = channel.outlet
        delivery = outlet.unacked.take(tag)
        if delivery is None:
            raise unknown_tag(tag)
        delivery.queue.settle(delivery)
        consumer = delivery.consumer
        if consumer is not None:
            consumer.unacked -= 1
        if outlet.limit != 0:
            # The room belongs to all consumers of the channel, not to the one that gave it back.
            if outlet.waiting > 0:
                outlet.wake()
        elif consumer is not None and consumer.passed_over and consumer.able():
            consumer.rejoin()
        return
    taken = _take(channel, tag, multiple)
    if channel.tx is not None:
        channel.outlet.deferred += len(taken)
        channel.tx.settlements.append(Settlement(taken, acked=True, requeue=False))
        return
    settle(taken)
    channel.outlet.release(taken)


def settle(deliveries: list[Delivery]) -> None:
    for delivery in deliveries:
        delivery.queue.settle(delivery)


def on_nack(channel: Channel, tag: i64, multiple: bool, again: bool) -> None:
    """Reject one or several; back to the queue or dropped (AK-2, AK-3)."""
    taken = _take(channel, tag, multiple)
    if channel.tx is not None:
        channel.outlet.deferred += len(taken)
        channel.tx.settlements.append(Settlement(taken, acked=False, requeue=again))
        return
    reject(channel, taken, again)


def reject(channel: Channel, deliveries: list[Delivery], again: bool) -> None:
    """The room is given back first: a dead letter may come to the consumer that rejected it."""
    channel.outlet.release(deliveries)
    if again:
        requeue(deliveries)
    else:
        for delivery in deliveries:
            delivery.queue.discard(delivery)


def on_recover(channel: Channel) -> None:
    """RC-1: everything unacked of this channel goes back."""
    reject(channel, channel.outlet.unacked.take_all(), True)


def _take(channel: Channel, tag: i64, multiple: bool) -> list[Delivery]:
    unacked = channel.outlet.unacked
    if multiple:
        if tag == 0:
            return unacked.take_all()
        if not unacked.holds(tag):
            raise unknown_tag(tag)
        return unacked.take_through(tag)
    delivery = unacked.take(tag)
    if delivery is None:
        raise unknown_tag(tag)
    return [delivery]


def unknown_tag(tag: i64) -> AmqpError:
    return AmqpError(
        reply.PRECONDITION_FAILED,
        f"unknown delivery tag {int(tag) & 0xFFFFFFFFFFFFFFFF}",
    )
