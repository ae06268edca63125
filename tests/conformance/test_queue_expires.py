"""x-expires: queues that go when nobody uses them (QD-7)."""

import time
from typing import Any

import pytest

from tests.conformance.test_queue_life import exists
from tests.support.channel import Channel

EXPIRES_MS = 600
# The reference looks at its timer, so a queue goes at its time or some milliseconds later.
GONE_SECONDS = 3.0

pytestmark = [pytest.mark.not_yet("queues that expire"), pytest.mark.slow]


@pytest.fixture
def fleeting(channel: Channel, unique: Any) -> str:
    """A queue that goes when nobody uses it; its clock runs."""
    name: str = channel.queue_declare(unique("q"), arguments={"x-expires": EXPIRES_MS}).queue
    return name


def wait_until_gone(channel: Channel, name: str) -> float:
    """Look without touching the queue: a declare would start its clock again."""
    began = time.monotonic()
    while True:
        channel.publish(b"x", routing_key=name, mandatory=True)
        channel.send("channel.flow", active=True)
        if channel.client.next_event(channel=channel.number).name == "basic.return":
            channel.expect("channel.flow-ok")
            return time.monotonic() - began
        assert time.monotonic() - began < GONE_SECONDS
        time.sleep(0.02)


@pytest.mark.rule("QD-7")
def test_an_unused_queue_goes(channel: Channel, fleeting: str) -> None:
    """Messages do not hold it."""
    assert wait_until_gone(channel, fleeting) > EXPIRES_MS / 1000 - 0.1
    assert not exists(channel, fleeting)


@pytest.mark.rule("QD-7")
def test_a_consumer_holds_a_queue(channel: Channel, fleeting: str) -> None:
    tag = channel.consume(fleeting)
    time.sleep(EXPIRES_MS * 2 / 1000)
    assert exists(channel, fleeting)
    channel.cancel(tag)
    assert wait_until_gone(channel, fleeting) > EXPIRES_MS / 1000 - 0.1


@pytest.mark.rule("QD-7")
@pytest.mark.parametrize("use", ["get", "declare", "passive"])
def test_use_starts_the_clock_again(channel: Channel, fleeting: str, use: str) -> None:
    for _ in range(5):
        time.sleep(EXPIRES_MS / 2 / 1000)
        if use == "get":
            channel.get(fleeting)
        elif use == "declare":
            channel.queue_declare(fleeting, arguments={"x-expires": EXPIRES_MS})
        else:
            channel.queue_declare(fleeting, passive=True)
    assert wait_until_gone(channel, fleeting) > EXPIRES_MS / 1000 - 0.1


@pytest.mark.rule("QD-7", "DL-1")
def test_what_an_expired_queue_held_is_not_dead_lettered(
    channel: Channel, queue: str, unique: Any
) -> None:
    arguments = {
        "x-expires": EXPIRES_MS,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": queue,
    }
    name = channel.queue_declare(unique("q"), arguments=arguments).queue
    channel.publish(b"x", routing_key=name)
    wait_until_gone(channel, name)
    assert channel.get(queue) is None
