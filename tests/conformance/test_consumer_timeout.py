"""The time a delivery may stay unacknowledged (6.7)."""

import pytest

from tests.support.channel import Channel
from tests.support.expectation import starting
from tests.support.fixtures import StartTimed
from tests.support.timed import Timed

TIMEOUT_MS = 1500
TICK_MS = 1000
TEXT = starting(
    "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. "
    f"Timeout value used: {TIMEOUT_MS} ms."
)

# When the look after the timeout has been taken.
LATE = (TIMEOUT_MS + TICK_MS) / 1000


@pytest.fixture
def impatient(start_timed: StartTimed) -> Timed:
    return start_timed(consumer_timeout=TIMEOUT_MS, channel_tick_interval=TICK_MS)


def delivered(broker: Timed, bodies: int = 1) -> tuple[Channel, str]:
    channel = broker.connect().channel()
    queue = channel.queue_declare("timeout").queue
    for number in range(bodies):
        channel.publish(b"%d" % number, routing_key=queue)
    channel.sync()
    return channel, queue


@pytest.mark.rule("CT-1", "EX-2", "RC-2")
def test_the_oldest_delivery_decides(impatient: Timed) -> None:
    """A channel that acks others in time fails all the same; what it held goes back."""
    channel, queue = delivered(impatient, 3)
    channel.consume(queue)
    tags = [channel.recv_delivery().delivery_tag for _ in range(3)]
    channel.ack(tags[1])
    impatient.pass_time(TIMEOUT_MS / 1000 - 0.5)
    channel.expect_nothing(within=0.05)
    impatient.pass_time(TICK_MS / 1000)
    channel.expect_close(406, TEXT, method=(0, 0))
    again = channel.reopen()
    found = [again.get(queue) for _ in range(2)]
    assert [(each.body, each.redelivered) for each in found] == [(b"0", True), (b"2", True)]
    assert again.get(queue) is None


@pytest.mark.rule("CT-1")
def test_a_get_counts_and_other_channels_do_not_suffer(impatient: Timed) -> None:
    channel, queue = delivered(impatient)
    neighbour = channel.client.channel()
    channel.get(queue)
    impatient.pass_time(LATE)
    channel.expect_close(406, TEXT, method=(0, 0))
    channel.reopen()
    assert neighbour.get(queue).redelivered


@pytest.mark.rule("CT-1")
def test_what_is_acked_in_time_or_needs_no_ack(impatient: Timed) -> None:
    channel, queue = delivered(impatient)
    channel.consume(queue, no_ack=True)
    channel.recv_delivery()
    loud = channel.client.channel()
    loud.qos(1)
    other = loud.queue_declare(exclusive=True).queue
    loud.consume(other)
    for _ in range(8):
        loud.publish(b"x", routing_key=other)
        delivery = loud.recv_delivery()
        impatient.pass_time(0.5)
        loud.ack(delivery.delivery_tag)
    channel.sync()
    loud.sync()
    assert channel.client.inbox == []
