"""x-expires: queues that go when nobody uses them (QD-7)."""

import time
from typing import Any

import pytest

from tests.conformance.test_exchange import exists as exchange_exists
from tests.conformance.test_queue_life import exists
from tests.support.channel import Channel
from tests.support.grave import Grave, lapse

EXPIRES_MS = 600
# The reference looks at its timer, so a queue goes at its time or some milliseconds later.
GONE_SECONDS = 3.0

pytestmark = pytest.mark.slow


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


@pytest.mark.rule("QD-7")
@pytest.mark.parametrize("what", ["publish", "purge", "bind", "ack"])
def test_what_is_no_use(channel: Channel, unique: Any, what: str) -> None:
    """The queue goes although something is done with it all the time."""
    name = channel.queue_declare(unique("q"), arguments={"x-expires": EXPIRES_MS * 2}).queue
    for _ in range(40):
        channel.publish(b"x", routing_key=name)
    channel.sync()
    tags = [channel.get(name).delivery_tag for _ in range(30)]
    began = time.monotonic()
    while time.monotonic() - began < EXPIRES_MS * 2 / 1000 - 0.3:
        lapse(channel, 50)
        if what == "publish":
            channel.publish(b"x", routing_key=name)
        elif what == "ack":
            channel.ack(tags.pop(0))
        elif what == "bind":
            channel.queue_bind(name, "amq.direct", str(len(tags)))
        else:
            channel.queue_purge(name)
    wait_until_gone(channel, name)
    seconds = time.monotonic() - began
    assert EXPIRES_MS * 2 / 1000 - 0.1 < seconds < EXPIRES_MS * 2 / 1000 + GONE_SECONDS


@pytest.mark.rule("QD-7", "QD-8")
def test_unacked_messages_do_not_hold_it(channel: Channel, fleeting: str) -> None:
    """They can be acked afterwards, without effect and without an error."""
    for _ in range(2):
        channel.publish(b"x", routing_key=fleeting)
    channel.sync()
    tags = [channel.get(fleeting).delivery_tag for _ in range(2)]
    wait_until_gone(channel, fleeting)
    channel.ack(tags[0])
    channel.nack(tags[1], requeue=True)
    channel.sync()
    assert channel.client.inbox == []


@pytest.mark.rule("QD-7")
def test_the_last_consumer_counts(channel: Channel, fleeting: str) -> None:
    first, second = (channel.consume(fleeting) for _ in range(2))
    channel.cancel(first)
    lapse(channel, EXPIRES_MS * 2)
    assert exists(channel, fleeting)
    beside = channel.client.channel()
    beside.consume(fleeting)
    channel.cancel(second)
    lapse(channel, EXPIRES_MS * 2)
    assert exists(channel, fleeting)
    began = time.monotonic()
    beside.close()
    wait_until_gone(channel, fleeting)
    assert time.monotonic() - began > EXPIRES_MS / 1000 - 0.1


@pytest.mark.rule("QD-7", "QD-8", "XC-5")
def test_its_bindings_go_with_it(channel: Channel, fleeting: str, unique: Any) -> None:
    exchange = unique("x")
    channel.exchange_declare(exchange, "direct", auto_delete=True)
    channel.queue_bind(fleeting, exchange, "key")
    wait_until_gone(channel, fleeting)
    assert not exchange_exists(channel, exchange)


@pytest.mark.rule("QD-7")
def test_a_new_one_has_a_new_clock(channel: Channel, fleeting: str) -> None:
    """Deleted and declared again: the old clock does not strike."""
    lapse(channel, EXPIRES_MS * 2 // 3)
    channel.queue_delete(fleeting)
    channel.queue_declare(fleeting, arguments={"x-expires": EXPIRES_MS})
    began = time.monotonic()
    wait_until_gone(channel, fleeting)
    assert time.monotonic() - began > EXPIRES_MS / 1000 - 0.1
    channel.queue_declare(fleeting)
    lapse(channel, EXPIRES_MS * 2)
    assert exists(channel, fleeting)


@pytest.mark.rule("QD-7", "QD-2", "QD-6")
@pytest.mark.parametrize("kind", ["exclusive", "auto_delete", "durable"])
def test_queues_of_any_kind(channel: Channel, unique: Any, kind: str) -> None:
    name = unique("q")
    channel.queue_declare(name, arguments={"x-expires": EXPIRES_MS}, **{kind: True})
    assert wait_until_gone(channel, name) > EXPIRES_MS / 1000 - 0.1


@pytest.mark.rule("QD-7", "TT-3", "DL-1")
def test_messages_die_before_their_queue(channel: Channel, grave: Grave, unique: Any) -> None:
    arguments = grave.arguments(x_message_ttl=1, x_expires=EXPIRES_MS)
    name = channel.queue_declare(unique("q"), arguments=arguments).queue
    channel.publish(b"x", routing_key=name)
    assert grave.take().body == b"x"
    lapse(channel, EXPIRES_MS * 2)
    assert not exists(channel, name)


@pytest.mark.rule("QD-7")
def test_many_go_at_their_times(channel: Channel, unique: Any) -> None:
    names = [unique("q") for _ in range(60)]
    began = time.monotonic()
    for place, name in enumerate(names):
        channel.queue_declare(name, arguments={"x-expires": EXPIRES_MS + 10 * place})
    wait_until_gone(channel, names[-1])
    assert time.monotonic() - began < GONE_SECONDS + 2
    assert not any(exists(channel, name) for name in names)
