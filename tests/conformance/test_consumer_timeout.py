"""The time a delivery may stay unacknowledged (6.7)."""

import time

import pytest

from tests.support.broker import Broker
from tests.support.channel import Channel
from tests.support.expectation import starting
from tests.support.fixtures import StartBroker

TIMEOUT_MS = 1500
TICK_MS = 1000
TEXT = starting(
    "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. "
    f"Timeout value used: {TIMEOUT_MS} ms."
)

pytestmark = pytest.mark.slow


@pytest.fixture
def impatient(start_broker: StartBroker) -> Broker:
    return start_broker(settings={"consumer_timeout": TIMEOUT_MS, "channel_tick_interval": TICK_MS})


def delivered(broker: Broker, bodies: int = 1) -> tuple[Channel, str]:
    channel = broker.connect().channel()
    queue = channel.queue_declare("timeout").queue
    for number in range(bodies):
        channel.publish(b"%d" % number, routing_key=queue)
    channel.sync()
    return channel, queue


@pytest.mark.rule("CT-1", "EX-2", "RC-2")
def test_the_oldest_delivery_decides(impatient: Broker) -> None:
    """A channel that acks others in time fails all the same; what it held goes back."""
    channel, queue = delivered(impatient, 3)
    channel.consume(queue)
    began = time.monotonic()
    tags = [channel.recv_delivery().delivery_tag for _ in range(3)]
    channel.ack(tags[1])
    channel.expect_close(406, TEXT, method=(0, 0), within=TIMEOUT_MS / 1000 + 20)
    assert time.monotonic() - began >= TIMEOUT_MS / 1000
    again = channel.reopen()
    found = [again.get(queue) for _ in range(2)]
    assert [(each.body, each.redelivered) for each in found] == [(b"0", True), (b"2", True)]
    assert again.get(queue) is None


@pytest.mark.rule("CT-1")
def test_a_get_counts_and_other_channels_do_not_suffer(impatient: Broker) -> None:
    channel, queue = delivered(impatient)
    neighbour = channel.client.channel()
    channel.get(queue)
    channel.expect_close(406, TEXT, method=(0, 0), within=TIMEOUT_MS / 1000 + 20)
    assert neighbour.get(queue).redelivered


@pytest.mark.rule("CT-1")
def test_what_is_acked_in_time_or_needs_no_ack(impatient: Broker) -> None:
    channel, queue = delivered(impatient)
    channel.consume(queue, no_ack=True)
    channel.recv_delivery()
    loud = channel.client.channel()
    loud.qos(1)
    other = loud.queue_declare(exclusive=True).queue
    loud.consume(other)
    ends = time.monotonic() + TIMEOUT_MS / 1000 + 2 * TICK_MS / 1000
    while time.monotonic() < ends:
        loud.publish(b"x", routing_key=other)
        delivery = loud.recv_delivery()
        loud.expect_nothing(within=0.4)
        loud.ack(delivery.delivery_tag)
    channel.sync()
    loud.sync()
    assert channel.client.inbox == []
