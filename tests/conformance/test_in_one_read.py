"""What a queue decides when several frames come in one read: as if each had come by itself.

The broker hands out waiting messages when everything that came has been looked at. None of that
may show where it matters: in what a limit drops or refuses, in what expires, in where a dead letter
goes.
"""

from typing import Any

import pytest

from tests.support.machine import Machine, Peer, method, publish

GRAVE = "grave"
LETTERS = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": GRAVE}


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
def peer(machine: Machine) -> Peer:
    """A client with a channel, and a queue for the dead that nobody reads."""
    peer = machine.client()
    peer.channel()
    peer.queue(GRAVE)
    return peer


def dead(peer: Peer) -> list[tuple[bytes, str]]:
    """Every dead letter, and why it died last."""
    found: list[tuple[bytes, str]] = []
    while (got := peer.call(1, "basic.get", queue=GRAVE, no_ack=True)).name == "basic.get-ok":
        found.append((got.body, got.headers["x-death"][0]["reason"]))
    return found


def bodies(peer: Peer) -> list[bytes]:
    return [event.body for event in peer.take_all("basic.deliver")]


@pytest.mark.rule("LE-2", "LE-3", "LE-4", "CS-3")
@pytest.mark.parametrize("overflow", ["drop-head", "reject-publish", "reject-publish-dlx"])
@pytest.mark.parametrize("verb", ["basic.ack", "basic.reject"])
def test_an_ack_makes_room_for_the_publish_behind_it(peer: Peer, overflow: str, verb: str) -> None:
    """The consumer has taken what waits before the limit is looked at."""
    options = {"x-max-length": 1, "x-overflow": overflow}
    peer.queue("q", arguments=LETTERS | options)
    peer.call(1, "confirm.select")
    peer.call(1, "basic.qos", prefetch_count=1)
    peer.consume("q", consumer_tag="c")
    peer.feed(publish(1, b"one", "q"), publish(1, b"two", "q"))
    first = peer.take(name="basic.deliver")
    tag = first.delivery_tag
    peer.feed(method(1, verb, delivery_tag=tag) + publish(1, b"three", "q"))
    assert bodies(peer) == [b"two"]
    assert {event.name for event in peer.take_all(channel=1)} == {"basic.ack"}
    assert [body for body, reason in dead(peer) if reason == "maxlen"] == []
    assert peer.machine.vhost.queues["q"].ready() == 1


@pytest.mark.rule("TT-4")
def test_an_ack_makes_room_for_what_lives_no_time(peer: Peer) -> None:
    peer.queue("q", arguments=LETTERS)
    peer.call(1, "basic.qos", prefetch_count=2)
    peer.consume("q", consumer_tag="c")
    peer.feed(*(publish(1, body, "q") for body in (b"one", b"two", b"three")))
    last = peer.take_all("basic.deliver")[-1].delivery_tag
    at_once = publish(1, b"now", "q", properties={"expiration": "0"})
    peer.feed(method(1, "basic.ack", delivery_tag=last, multiple=True) + at_once)
    assert bodies(peer) == [b"three", b"now"]
    assert dead(peer) == []


@pytest.mark.rule("TT-3", "TT-4", "LE-2", "DL-1")
def test_what_comes_to_the_head_expired_is_not_dropped_for_the_length(peer: Peer) -> None:
    peer.queue("q", arguments=LETTERS | {"x-max-length": 1})
    peer.publish(1, b"first", "q")
    options: dict[str, Any] = {"properties": {"expiration": "0"}}
    peer.feed(b"".join(publish(1, body, "q", **options) for body in (b"1", b"2")))
    assert dead(peer) == [(b"first", "maxlen"), (b"1", "expired"), (b"2", "expired")]


@pytest.mark.rule("TT-3", "PQ-2")
def test_a_higher_priority_that_lives_no_time_expires_at_once(peer: Peer) -> None:
    peer.queue("q", arguments=LETTERS | {"x-max-length": 1, "x-max-priority": 3})
    peer.publish(1, b"low", "q")
    high = {"priority": 3, "expiration": "0"}
    peer.feed(publish(1, b"high", "q", properties=high), publish(1, b"next", "q"))
    # The high one is what the limit drops first; it stands at the head.
    assert dead(peer) == [(b"high", "maxlen"), (b"low", "maxlen")]


@pytest.mark.rule("AK-2", "LE-2", "DL-3")
@pytest.mark.parametrize("arguments", [{"x-max-length": 0}, {"x-message-ttl": 0}])
def test_a_dead_letter_comes_to_the_consumer_that_made_room_by_it(
    peer: Peer, arguments: dict[str, Any]
) -> None:
    """What is rejected fills no prefetch any more when its dead letter looks for a consumer."""
    peer.queue("q", arguments=arguments | {"x-dead-letter-exchange": ""})
    peer.call(1, "basic.qos", prefetch_count=1)
    peer.consume("q", consumer_tag="c")
    peer.publish(1, b"x", "q")
    for count in range(1, 4):
        delivery = peer.take(name="basic.deliver")
        peer.send(1, "basic.reject", delivery_tag=delivery.delivery_tag, requeue=False)
        again = peer.inbox[0]
        assert again.headers["x-death"][0]["count"] == count


@pytest.mark.rule("EX-2", "EX-4", "RC-2", "CS-7")
@pytest.mark.parametrize("how", ["close", "lost"])
def test_a_dead_letter_does_not_come_to_a_channel_that_ends_with_its_connection(
    machine: Machine, peer: Peer, how: str
) -> None:
    """Not even for a moment: a consumer without acks would lose it."""
    limit = {"x-delivery-limit": 0}
    peer.queue("q", arguments=limit | LETTERS)
    peer.publish(1, b"x", "q")
    other = machine.client()
    other.channel(1)
    other.channel(2)
    other.consume("q")
    other.consume(GRAVE, channel=2, no_ack=True)
    assert bodies(other) == [b"x"]
    if how == "close":
        other.send(0, "connection.close")
    else:
        other.drop()
        machine.turn()
    assert bodies(other) == []
    assert dead(peer) == [(b"x", "delivery_limit")]
