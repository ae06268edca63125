"""ack, nack, reject, recover: tags, order, and where messages go back to (6.6)."""

from typing import Any

import pytest

from tests.conformance.test_exchange import bodies
from tests.support.channel import Channel
from tests.support.expectation import starting
from tests.support.fixtures import Connect


def fill(channel: Channel, queue: str, count: int) -> None:
    for number in range(1, count + 1):
        channel.publish(b"%d" % number, routing_key=queue)
    channel.sync()


def take(channel: Channel, queue: str, count: int) -> list[int]:
    return [channel.get(queue).delivery_tag for _ in range(count)]


def numbers(channel: Channel, queue: str) -> list[int]:
    return [int(body) for body in bodies(channel, queue)]


@pytest.mark.rule("AK-1")
@pytest.mark.parametrize("second", ["basic.ack", "basic.nack", "basic.reject"])
@pytest.mark.parametrize("first", ["basic.ack", "basic.nack", "basic.reject"])
def test_a_tag_can_be_settled_once(channel: Channel, queue: str, first: str, second: str) -> None:
    fill(channel, queue, 2)
    tag, other = take(channel, queue, 2)
    channel.send(first, delivery_tag=tag)
    channel.send(second, delivery_tag=tag)
    channel.expect_close(406, f"PRECONDITION_FAILED - unknown delivery tag {tag}", method=second)
    assert other == tag + 1


@pytest.mark.rule("AK-1")
def test_a_tag_belongs_to_its_channel(channel: Channel, shared_queue: str) -> None:
    other = channel.client.channel()
    fill(channel, shared_queue, 1)
    tag = channel.get(shared_queue).delivery_tag
    other.ack(tag)
    other.expect_close(406, starting("PRECONDITION_FAILED - unknown delivery tag 1"))
    channel.ack(tag)
    channel.sync()
    channel.close()
    assert other.reopen().get(shared_queue) is None


@pytest.mark.rule("AK-1")
def test_multiple_takes_all_up_to_the_tag(channel: Channel, queue: str) -> None:
    fill(channel, queue, 6)
    tags = take(channel, queue, 6)
    channel.ack(tags[1])
    channel.ack(tags[3], multiple=True)
    channel.nack(tags[5], multiple=True)
    assert numbers(channel, queue) == [5, 6]


@pytest.mark.rule("AK-1")
@pytest.mark.parametrize("name", ["basic.ack", "basic.nack"])
def test_multiple_up_to_a_tag_that_is_settled(channel: Channel, queue: str, name: str) -> None:
    """The tag itself must be outstanding, whatever stands below it."""
    fill(channel, queue, 3)
    tags = take(channel, queue, 3)
    channel.ack(tags[1])
    channel.send(name, delivery_tag=tags[1], multiple=True)
    channel.expect_close(406, starting("PRECONDITION_FAILED - unknown delivery tag 2"), method=name)
    again = channel.reopen()
    assert numbers(again, queue) == [1, 3]


@pytest.mark.rule("AK-1")
@pytest.mark.parametrize("tag", [4, 2**32 + 1, 2**63, 2**64 - 1])
@pytest.mark.parametrize("multiple", [False, True])
def test_tags_that_never_were(channel: Channel, queue: str, tag: int, multiple: bool) -> None:
    fill(channel, queue, 3)
    take(channel, queue, 3)
    channel.ack(tag, multiple=multiple)
    channel.expect_close(
        406, f"PRECONDITION_FAILED - unknown delivery tag {tag}", method="basic.ack"
    )


@pytest.mark.rule("AK-1")
@pytest.mark.parametrize("requeue", [None, True, False])
def test_tag_0_with_multiple_is_everything(
    channel: Channel, queue: str, requeue: bool | None
) -> None:
    fill(channel, queue, 4)
    tags = take(channel, queue, 4)
    channel.ack(tags[2])
    if requeue is None:
        channel.ack(0, multiple=True)
    else:
        channel.nack(0, multiple=True, requeue=requeue)
    assert numbers(channel, queue) == ([1, 2, 4] if requeue else [])
    channel.ack(0, multiple=True)
    channel.ack(tags[3])
    channel.expect_close(406, starting("PRECONDITION_FAILED - unknown delivery tag 4"))


@pytest.mark.rule("AK-1", "CS-6")
def test_tags_of_quiet_deliveries_are_not_outstanding(channel: Channel, queue: str) -> None:
    fill(channel, queue, 4)
    for no_ack in (False, True, False, True):
        channel.get(queue, no_ack=no_ack)
    channel.nack(3, multiple=True)
    assert numbers(channel, queue) == [1, 3]
    channel.ack(4)
    channel.expect_close(406, starting("PRECONDITION_FAILED - unknown delivery tag 4"))


@pytest.mark.rule("CS-6")
def test_tags_rise_by_one_on_each_channel(channel: Channel, queue: str) -> None:
    """One counter for deliver and get, with and without acks."""
    other = channel.client.channel()
    other.consume(queue, "a")
    fill(channel, queue, 1)
    assert other.recv_delivery().delivery_tag == 1
    other.cancel("a")
    fill(channel, queue, 2)
    assert other.get(queue).delivery_tag == 2
    assert other.get(queue, no_ack=True).delivery_tag == 3
    assert other.get(queue) is None
    other.consume(queue, "b", no_ack=True)
    fill(channel, queue, 2)
    assert [other.recv_delivery().delivery_tag for _ in range(2)] == [4, 5]
    other.cancel("b")
    fill(channel, queue, 1)
    assert channel.get(queue).delivery_tag == 1
    other.close()
    fill(channel, queue, 1)
    assert other.reopen().get(queue, no_ack=True).delivery_tag == 1


@pytest.mark.rule("AK-2", "CS-7")
@pytest.mark.parametrize("name", ["basic.nack", "basic.reject"])
def test_a_requeued_message_is_redelivered(channel: Channel, queue: str, name: str) -> None:
    fill(channel, queue, 2)
    got = channel.get(queue)
    assert not got.redelivered
    for _ in range(3):
        channel.send(name, delivery_tag=got.delivery_tag, requeue=True)
        got = channel.get(queue)
        assert (got.body, got.redelivered) == (b"1", True)
    second = channel.get(queue)
    assert (second.body, second.redelivered) == (b"2", False)


@pytest.mark.rule("AK-2")
def test_it_may_come_back_to_the_same_consumer(channel: Channel, queue: str) -> None:
    fill(channel, queue, 1)
    channel.consume(queue)
    for turn in range(20):
        delivery = channel.recv_delivery(redelivered=turn > 0, delivery_tag=turn + 1)
        assert delivery.body == b"1"
        channel.reject(delivery.delivery_tag)
    channel.recv_delivery(delivery_tag=21)


@pytest.mark.rule("AK-2")
@pytest.mark.parametrize("name", ["basic.nack", "basic.reject"])
def test_without_requeue_it_is_gone(channel: Channel, queue: str, name: str) -> None:
    fill(channel, queue, 2)
    channel.send(name, delivery_tag=channel.get(queue).delivery_tag, requeue=False)
    assert numbers(channel, queue) == [2]
    channel.close()
    again = channel.client.channel(channel.number)
    assert again.get(queue) is None


@pytest.mark.rule("AK-2", "AK-3")
@pytest.mark.parametrize(
    "order", [[1, 2, 3, 4, 5], [5, 4, 3, 2, 1], [3, 1, 5, 2, 4], [2], [5], [4, 2]], ids=str
)
def test_requeued_messages_take_their_old_places(
    channel: Channel, queue: str, order: list[int]
) -> None:
    """Trap 5, one after the other."""
    fill(channel, queue, 8)
    tags = take(channel, queue, 5)
    for number in order:
        channel.nack(tags[number - 1])
    assert numbers(channel, queue) == [*sorted(order), 6, 7, 8]


@pytest.mark.rule("AK-2", "AK-3")
def test_a_batch_takes_its_old_places(channel: Channel, queue: str) -> None:
    """Trap 5, in one operation, with gaps and several queues of one channel."""
    second = channel.queue_declare(exclusive=True).queue
    fill(channel, queue, 6)
    fill(channel, second, 6)
    tags = [tag for _ in range(5) for tag in take(channel, queue, 1) + take(channel, second, 1)]
    channel.ack(tags[2])
    channel.ack(tags[7])
    channel.nack(tags[9], multiple=True)
    assert numbers(channel, queue) == [1, 3, 4, 5, 6]
    assert numbers(channel, second) == [1, 2, 3, 5, 6]


@pytest.mark.rule("AK-2", "AK-3")
def test_requeues_of_several_channels_fall_in_line(channel: Channel, queue: str) -> None:
    channels = [channel.client.channel() for _ in range(3)]
    fill(channel, queue, 12)
    held = [each.get(queue).delivery_tag for _ in range(3) for each in channels]
    assert held == [1, 1, 1, 2, 2, 2, 3, 3, 3]
    channels[2].nack(3, multiple=True)
    channels[2].sync()
    assert channel.get(queue, no_ack=True).body == b"3"
    channels[0].nack(2)
    channels[0].sync()
    channels[1].nack(0, multiple=True)
    channels[1].sync()
    assert numbers(channel, queue) == [2, 4, 5, 6, 8, 9, 10, 11, 12]


@pytest.mark.rule("AK-3", "RC-2", "CS-7")
@pytest.mark.parametrize("end", ["channel", "connection", "drop", "exception"])
def test_what_a_channel_held_goes_back_when_it_ends(
    connect: Connect, channel: Channel, shared_queue: str, end: str
) -> None:
    fill(channel, shared_queue, 10)
    other = connect().channel()
    other.qos(4)
    other.consume(shared_queue)
    for number in range(1, 5):
        assert other.recv_delivery().body == b"%d" % number
    other.ack(2)
    assert other.recv_delivery().body == b"5"
    for number in (6, 7):
        assert int(other.get(shared_queue).body) == number
    if end == "channel":
        other.close()
    elif end == "connection":
        other.client.close()
    elif end == "exception":
        other.ack(99)
        other.expect_close(406, starting("PRECONDITION_FAILED"))
    else:
        other.client.drop()
    found: list[Any] = []
    channel.consume(shared_queue, no_ack=True)
    while len(found) < 9:
        found.append(channel.recv_delivery())
    if end != "drop":
        assert [int(each.body) for each in found] == [1, 3, 4, 5, 6, 7, 8, 9, 10]
    assert {int(each.body): each.redelivered for each in found} == {
        number: number in (1, 3, 4, 5, 6, 7) for number in (1, 3, 4, 5, 6, 7, 8, 9, 10)
    }


@pytest.mark.rule("RC-1", "AK-3")
def test_recover_requeues_what_the_channel_holds(channel: Channel, queue: str) -> None:
    other = channel.client.channel()
    fill(channel, queue, 6)
    tags = take(channel, queue, 3)
    theirs = take(other, queue, 1)
    channel.ack(tags[1])
    channel.recover()
    assert numbers(other, queue) == [1, 3, 5, 6]
    other.ack(theirs[0])
    other.sync()
    channel.ack(tags[0])
    channel.expect_close(406, starting("PRECONDITION_FAILED - unknown delivery tag 1"))


@pytest.mark.rule("RC-1")
def test_recover_of_nothing(channel: Channel) -> None:
    channel.recover()
    channel.send("basic.recover-async", requeue=True)
    channel.sync()
    assert channel.client.inbox == []


@pytest.mark.rule("RC-1")
def test_recover_async_has_no_reply(channel: Channel, queue: str) -> None:
    fill(channel, queue, 2)
    take(channel, queue, 2)
    channel.send("basic.recover-async", requeue=True)
    assert numbers(channel, queue) == [1, 2]
    assert channel.client.inbox == []


@pytest.mark.rule("RC-1")
def test_recover_may_deliver_to_another_consumer(channel: Channel, queue: str) -> None:
    """Trap 26."""
    other = channel.client.channel()
    fill(channel, queue, 1)
    tag = channel.consume(queue)
    channel.recv_delivery(redelivered=False)
    other.consume(queue)
    channel.cancel(tag)
    channel.recover()
    assert other.recv_delivery(redelivered=True).body == b"1"


@pytest.mark.rule("RC-1", "CS-1")
def test_recover_redelivers_to_the_own_consumer_with_new_tags(channel: Channel, queue: str) -> None:
    fill(channel, queue, 3)
    channel.consume(queue)
    for number in (1, 2, 3):
        channel.recv_delivery(delivery_tag=number)
    channel.send("basic.recover", requeue=True)
    channel.wait_for("basic.recover-ok")
    for number in (1, 2, 3):
        again = channel.recv_delivery(delivery_tag=number + 3, redelivered=True)
        assert again.body == b"%d" % number


@pytest.mark.rule("RC-1")
@pytest.mark.parametrize("name", ["basic.recover", "basic.recover-async"])
def test_recover_without_requeue_is_not_implemented(channel: Channel, name: str) -> None:
    channel.send(name, requeue=False)
    channel.client.expect_close(540, "NOT_IMPLEMENTED - requeue=false")


@pytest.mark.rule("AK-1", "AK-3")
def test_many_tags_with_few_outstanding(channel: Channel, queue: str) -> None:
    """Old deliveries that stay open among tens of thousands that are settled."""
    total = 20_000
    channel.qos(100)
    channel.consume(queue)
    for number in range(total):
        channel.publish(b"%d" % number, routing_key=queue)
    kept = []
    for number in range(total):
        delivery = channel.recv_delivery(delivery_tag=number + 1)
        if number % 1000 == 7:
            kept.append(number)
        else:
            channel.ack(delivery.delivery_tag)
    channel.ack(kept[3] + 1)
    channel.nack(kept[5] + 1, multiple=True, requeue=False)
    channel.nack(kept[9] + 1, multiple=True)
    back = [channel.recv_delivery(redelivered=True) for _ in range(4)]
    assert [int(each.body) for each in back] == kept[6:10]
    channel.ack(0, multiple=True)
    channel.sync()
    assert channel.client.inbox == []
    assert channel.queue_delete(queue).message_count == 0
