"""Queues that hold so much and no more: what is dropped, refused, buried (5.4)."""

from typing import Any

import pytest

from tests.conformance.test_exchange import bodies
from tests.support.channel import Channel
from tests.support.expectation import starting
from tests.support.grave import Grave, lapse, reason_of

REJECTING = ["reject-publish", "reject-publish-dlx"]


def limited(channel: Channel, grave: Grave | None = None, **arguments: Any) -> str:
    """Return a queue with limits; its dead go to the grave, if there is one."""
    options = {name.replace("_", "-"): value for name, value in arguments.items()}
    if grave is not None:
        options |= grave.arguments()
    name: str = channel.queue_declare(exclusive=True, arguments=options).queue
    return name


def fill(channel: Channel, queue: str, *messages: bytes) -> None:
    for body in messages:
        channel.publish(body, routing_key=queue)
    channel.sync()


@pytest.fixture
def confirming(channel: Channel) -> Channel:
    """A channel in confirm mode on the same connection."""
    beside = channel.client.channel()
    beside.confirm_select()
    return beside


def answers(confirming: Channel, queue: str, *messages: bytes) -> list[str]:
    """Publish one by one; return how each was answered."""
    found = []
    for body in messages:
        confirming.publish(body, routing_key=queue)
        event = confirming.client.next_event(channel=confirming.number, reason="a confirm")
        found.append(event.name.removeprefix("basic."))
    return found


@pytest.mark.rule("LE-1", "LE-2")
def test_a_number_of_messages(channel: Channel, grave: Grave) -> None:
    name = limited(channel, grave, x_max_length=3)
    fill(channel, name, *(b"%d" % number for number in range(8)))
    letters = [grave.take() for _ in range(5)]
    assert [letter.body for letter in letters] == [b"0", b"1", b"2", b"3", b"4"]
    assert {reason_of(letter) for letter in letters} == {"maxlen"}
    assert bodies(channel, name) == [b"5", b"6", b"7"]


@pytest.mark.rule("LE-1", "LE-2")
def test_a_number_of_octets_of_bodies(channel: Channel, grave: Grave) -> None:
    """Properties do not count, empty bodies neither; a large one drives out several small ones."""
    name = limited(channel, grave, x_max_length_bytes=10)
    for body in (b"aaaa", b"", b"bbbb", b"cc"):
        channel.publish(body, routing_key=name, headers={"long": "x" * 1000}, message_id="y" * 200)
    channel.sync()
    assert channel.queue_declare(name, passive=True).message_count == 4
    fill(channel, name, b"d" * 7)
    assert grave.bodies(3) == [b"aaaa", b"", b"bbbb"]
    assert bodies(channel, name) == [b"cc", b"d" * 7]


@pytest.mark.rule("LE-1", "LE-2")
@pytest.mark.parametrize(
    ("messages", "octets", "left"),
    [(2, 100, [b"333", b"4"]), (100, 5, [b"333", b"4"]), (1, 5, [b"4"]), (4, 0, [])],
)
def test_the_first_limit_reached_acts(
    channel: Channel, messages: int, octets: int, left: list[bytes]
) -> None:
    name = limited(channel, x_max_length=messages, x_max_length_bytes=octets)
    fill(channel, name, b"1", b"22", b"333", b"4")
    assert bodies(channel, name) == left


@pytest.mark.rule("LE-1")
def test_what_is_unacked_does_not_count(channel: Channel, grave: Grave) -> None:
    """Trap 15."""
    name = limited(channel, grave, x_max_length=2, x_max_length_bytes=2)
    fill(channel, name, b"1", b"2")
    tags = [channel.get(name).delivery_tag for _ in range(2)]
    fill(channel, name, b"3", b"4")
    grave.expect_nothing(within=0.1)
    channel.ack(tags[1], multiple=True)
    fill(channel, name, b"5")
    assert grave.take().body == b"3"
    assert bodies(channel, name) == [b"4", b"5"]


@pytest.mark.rule("LE-1", "LE-2")
def test_what_a_consumer_takes_at_once_does_not_count(channel: Channel, grave: Grave) -> None:
    name = limited(channel, grave, x_max_length=1)
    beside = channel.client.channel()
    beside.qos(5)
    beside.consume(name)
    fill(channel, name, *(b"%d" % number for number in range(8)))
    assert [beside.recv_delivery().body for _ in range(5)] == [b"0", b"1", b"2", b"3", b"4"]
    assert grave.bodies(2) == [b"5", b"6"]
    assert channel.get(name).body == b"7"


@pytest.mark.rule("LE-2")
def test_requeued_messages_are_dropped_first(channel: Channel, grave: Grave) -> None:
    """They are the head: they come back to their old places."""
    name = limited(channel, grave, x_max_length=3)
    fill(channel, name, b"1", b"2")
    tags = [channel.get(name).delivery_tag for _ in range(2)]
    fill(channel, name, b"3", b"4")
    channel.nack(tags[1], multiple=True)
    assert grave.take().body == b"1"
    assert bodies(channel, name) == [b"2", b"3", b"4"]


@pytest.mark.rule("LE-2")
def test_a_limit_is_kept_before_a_requeued_message_is_delivered(
    channel: Channel, grave: Grave
) -> None:
    name = limited(channel, grave, x_max_length=1)
    beside = channel.client.channel()
    beside.qos(1)
    beside.consume(name)
    fill(channel, name, b"1", b"2")
    tag = beside.recv_delivery().delivery_tag
    beside.nack(tag, requeue=True)
    assert grave.take().body == b"1"
    assert beside.recv_delivery().body == b"2"


@pytest.mark.rule("LE-2")
def test_the_new_message_may_be_the_victim(
    channel: Channel, confirming: Channel, grave: Grave
) -> None:
    """Larger than the limit: it drives out everything and then itself. And it is an ack."""
    name = limited(channel, grave, x_max_length_bytes=5)
    fill(channel, name, b"1", b"22")
    assert answers(confirming, name, b"333333", b"4") == ["ack", "ack"]
    assert grave.bodies(3) == [b"1", b"22", b"333333"]
    assert bodies(channel, name) == [b"4"]


@pytest.mark.rule("LE-2")
def test_a_limit_of_0_drops_what_no_consumer_takes(channel: Channel, grave: Grave) -> None:
    name = limited(channel, grave, x_max_length=0)
    fill(channel, name, b"dropped")
    assert grave.take().body == b"dropped"
    beside = channel.client.channel()
    beside.qos(1)
    beside.consume(name)
    fill(channel, name, b"taken", b"dropped")
    assert beside.recv_delivery().body == b"taken"
    assert grave.take().body == b"dropped"
    assert channel.queue_declare(name, passive=True).message_count == 0


@pytest.mark.rule("LE-2", "CO-2")
def test_what_is_dropped_was_confirmed(channel: Channel, confirming: Channel) -> None:
    """Trap 8."""
    name = limited(channel, x_max_length=1)
    for number in range(500):
        confirming.publish(b"%d" % number, routing_key=name)
    assert set(confirming.wait_confirms(500).values()) == {"ack"}
    assert bodies(channel, name) == [b"499"]


@pytest.mark.rule("LE-2")
def test_many_requeued_over_the_limit(channel: Channel, grave: Grave) -> None:
    name = limited(channel, grave, x_max_length=10)
    beside = channel.client.channel()
    beside.consume(name)
    wanted = [b"%d" % number for number in range(1500)]
    for first in range(0, len(wanted), 10):
        some = wanted[first : first + 10]
        fill(channel, name, *some)
        assert [beside.recv_delivery().body for _ in some] == some
    beside.close()
    assert grave.bodies(len(wanted) - 10) == wanted[:-10]
    assert bodies(channel, name) == wanted[-10:]


@pytest.mark.rule("LE-2", "TT-3")
def test_a_drop_brings_an_expiring_message_to_the_head(channel: Channel, grave: Grave) -> None:
    name = limited(channel, grave, x_max_length=1)
    channel.publish(b"dropped", routing_key=name)
    channel.publish(b"expires", routing_key=name, expiration="100")
    letters = [grave.take() for _ in range(2)]
    assert [(letter.body, reason_of(letter)) for letter in letters] == [
        (b"dropped", "maxlen"),
        (b"expires", "expired"),
    ]


@pytest.mark.rule("LE-3", "LE-4", "CO-3")
@pytest.mark.parametrize("overflow", REJECTING)
def test_a_full_queue_refuses(channel: Channel, confirming: Channel, overflow: str) -> None:
    name = limited(channel, x_max_length=2, x_overflow=overflow)
    assert answers(confirming, name, b"1", b"2", b"3", b"4") == ["ack", "ack", "nack", "nack"]
    assert channel.get(name, no_ack=True).body == b"1"
    assert answers(confirming, name, b"5", b"6") == ["ack", "nack"]
    assert bodies(channel, name) == [b"2", b"5"]


@pytest.mark.rule("LE-3", "LE-1")
def test_a_full_queue_refuses_by_octets(channel: Channel, confirming: Channel) -> None:
    """Exactly full is not too full, and a small message may fit where a large one did not."""
    name = limited(channel, x_max_length_bytes=10, x_overflow="reject-publish")
    found = answers(confirming, name, b"x" * 11, b"a" * 6, b"b" * 5, b"c" * 4, b"d", b"")
    assert found == ["nack", "ack", "nack", "ack", "nack", "ack"]
    assert bodies(channel, name) == [b"a" * 6, b"c" * 4, b""]


@pytest.mark.rule("LE-3")
@pytest.mark.parametrize("overflow", REJECTING)
@pytest.mark.parametrize("key", ["x_max_length", "x_max_length_bytes"])
def test_a_limit_of_0_refuses_even_what_a_consumer_would_take(
    channel: Channel, confirming: Channel, overflow: str, key: str
) -> None:
    """The limit is looked at before the consumers are."""
    limit: dict[str, Any] = {key: 0}
    name = limited(channel, x_overflow=overflow, **limit)
    beside = channel.client.channel()
    beside.consume(name)
    assert answers(confirming, name, b"refused") == ["nack"]
    beside.sync()
    assert beside.client.inbox == []


@pytest.mark.rule("LE-3", "LE-1")
def test_unacked_messages_leave_room(channel: Channel, confirming: Channel) -> None:
    name = limited(channel, x_max_length=1, x_overflow="reject-publish")
    beside = channel.client.channel()
    beside.qos(2)
    beside.consume(name)
    found = answers(confirming, name, b"1", b"2", b"3", b"4")
    assert found == ["ack", "ack", "ack", "nack"]
    assert [beside.recv_delivery().body for _ in range(2)] == [b"1", b"2"]
    assert channel.get(name).body == b"3"


@pytest.mark.rule("LE-3")
@pytest.mark.parametrize("overflow", REJECTING)
def test_a_requeue_is_never_refused(
    channel: Channel, confirming: Channel, grave: Grave, overflow: str
) -> None:
    name = limited(channel, grave, x_max_length=1, x_overflow=overflow)
    assert answers(confirming, name, b"1") == ["ack"]
    tag = channel.get(name).delivery_tag
    assert answers(confirming, name, b"2") == ["ack"]
    channel.nack(tag, requeue=True)
    channel.sync()
    assert answers(confirming, name, b"3") == ["nack"]
    assert channel.queue_declare(name, passive=True).message_count == 2
    assert bodies(channel, name) == [b"1", b"2"]


@pytest.mark.rule("LE-3")
@pytest.mark.parametrize("overflow", REJECTING)
def test_without_confirms_a_refusal_is_silent(channel: Channel, overflow: str) -> None:
    """A mandatory message is not returned either: it was routed."""
    name = limited(channel, x_max_length=1, x_overflow=overflow)
    for body in (b"1", b"2", b"3"):
        channel.publish(body, routing_key=name, mandatory=True)
    channel.sync()
    assert channel.client.inbox == []
    assert bodies(channel, name) == [b"1"]


@pytest.mark.rule("LE-3", "CO-3")
def test_a_refused_mandatory_publish_is_a_nack_only(channel: Channel, confirming: Channel) -> None:
    name = limited(channel, x_max_length=0, x_overflow="reject-publish")
    confirming.publish(b"x", routing_key=name, mandatory=True)
    confirming.expect("basic.nack", delivery_tag=1)
    confirming.sync()
    assert confirming.client.inbox == []


@pytest.mark.rule("LE-3", "TT-3")
def test_what_expires_leaves_room(channel: Channel, confirming: Channel, grave: Grave) -> None:
    name = limited(channel, grave, x_max_length=1, x_overflow="reject-publish")
    confirming.publish(b"1", routing_key=name, expiration="100")
    confirming.expect("basic.ack", delivery_tag=1)
    assert grave.take().body == b"1"
    assert answers(confirming, name, b"2", b"3") == ["ack", "nack"]


@pytest.mark.rule("LE-4")
def test_what_is_refused_is_dead_lettered(
    channel: Channel, confirming: Channel, grave: Grave
) -> None:
    name = limited(channel, grave, x_max_length=1, x_overflow="reject-publish-dlx")
    assert answers(confirming, name, b"1", b"2", b"3") == ["ack", "nack", "nack"]
    letters = [grave.take() for _ in range(2)]
    assert [(letter.body, reason_of(letter)) for letter in letters] == [
        (b"2", "maxlen"),
        (b"3", "maxlen"),
    ]
    assert letters[0].headers["x-death"][0]["queue"] == name
    assert bodies(channel, name) == [b"1"]


@pytest.mark.rule("LE-3", "DL-1")
def test_what_is_plainly_refused_is_not_dead_lettered(
    channel: Channel, confirming: Channel, grave: Grave
) -> None:
    name = limited(channel, grave, x_max_length=1, x_overflow="reject-publish")
    assert answers(confirming, name, b"1", b"2") == ["ack", "nack"]
    channel.reject(channel.get(name).delivery_tag, requeue=False)
    letter = grave.take()
    assert (letter.body, reason_of(letter)) == (b"1", "rejected")


@pytest.mark.rule("LE-5", "LE-4")
@pytest.mark.parametrize("overflow", REJECTING)
def test_one_refusal_of_many_is_one_nack(
    channel: Channel, confirming: Channel, queue: str, overflow: str
) -> None:
    """The others have the message all the same."""
    names = [limited(channel, x_max_length=limit, x_overflow=overflow) for limit in (0, 1, 2)]
    for name in (*names, queue):
        channel.queue_bind(name, "amq.direct", queue)
    for number, wanted in enumerate(["nack", "nack"], start=1):
        confirming.publish(b"%d" % number, exchange="amq.direct", routing_key=queue)
        confirming.expect(f"basic.{wanted}", delivery_tag=number)
    confirming.sync()
    assert confirming.client.inbox == []
    found = [bodies(channel, name) for name in (*names, queue)]
    assert found == [[], [b"1"], [b"1", b"2"], [b"1", b"2"]]


@pytest.mark.rule("LE-5")
def test_a_dropping_queue_beside_a_refusing_one(
    channel: Channel, confirming: Channel, queue: str
) -> None:
    """What a queue drops for its length is an ack, also beside others."""
    dropping, refusing = (
        limited(channel, x_max_length=1, x_overflow=overflow)
        for overflow in ("drop-head", "reject-publish")
    )
    channel.queue_bind(dropping, "amq.direct", queue)
    assert [answers(confirming, dropping, body) for body in (b"1", b"2")] == [["ack"], ["ack"]]
    channel.queue_bind(refusing, "amq.direct", queue)
    for wanted in ("ack", "nack"):
        confirming.publish(b"x", exchange="amq.direct", routing_key=queue)
        confirming.expect(f"basic.{wanted}")
    assert bodies(channel, dropping) == [b"x"]


@pytest.mark.rule("CH-33", "TX-3", "LE-3")
@pytest.mark.parametrize("overflow", REJECTING)
def test_a_refused_publish_fails_the_commit(
    channel: Channel, queue: str, shared_queue: str, unique: Any, overflow: str
) -> None:
    """The channel ends; what was not refused stays published, and acks hold."""
    options = {"x-max-length": 1, "x-overflow": overflow}
    name = channel.queue_declare(unique("full"), arguments=options).queue
    fill(channel, shared_queue, b"acked")
    tx = channel.client.channel()
    tx.tx_select()
    tx.ack(tx.get(shared_queue).delivery_tag)
    for body in (b"1", b"2"):
        tx.publish(body, routing_key=name)
        tx.publish(body, routing_key=queue)
    tx.send("tx.commit")
    tx.expect_close(406, starting("PRECONDITION_FAILED - partial tx completion"))
    assert bodies(channel, name) == [b"1"]
    assert bodies(channel, queue) == [b"1", b"2"]
    assert channel.get(shared_queue) is None


@pytest.mark.rule("LE-2", "LE-3")
def test_a_purged_queue_is_empty_for_its_limits(channel: Channel, confirming: Channel) -> None:
    name = limited(channel, x_max_length=2, x_max_length_bytes=10, x_overflow="reject-publish")
    assert answers(confirming, name, b"x" * 5, b"y" * 5, b"z") == ["ack", "ack", "nack"]
    assert channel.queue_purge(name).message_count == 2
    assert answers(confirming, name, b"x" * 5, b"y" * 5, b"z") == ["ack", "ack", "nack"]


@pytest.mark.rule("LE-1", "TT-3")
def test_octets_are_counted_down_on_every_way_out(
    channel: Channel, confirming: Channel, grave: Grave
) -> None:
    """Acked, rejected, expired, taken without ack: each gives back what it had."""
    name = limited(channel, grave, x_max_length_bytes=12, x_overflow="reject-publish")
    for _ in range(5):
        for _ in range(3):
            confirming.publish(b"xxx", routing_key=name)
            confirming.expect("basic.ack")
        confirming.publish(b"xxx", routing_key=name, expiration="50")
        confirming.expect("basic.ack")
        assert answers(confirming, name, b"x") == ["nack"]
        channel.ack(channel.get(name).delivery_tag)
        channel.reject(channel.get(name).delivery_tag, requeue=False)
        lapse(channel, 100)
        assert channel.get(name, no_ack=True).body == b"xxx"
        assert [reason_of(grave.take()) for _ in range(2)] == ["rejected", "expired"]
