"""Queues that serve the important first (5.6; section 6 of the storage rules)."""

from typing import Any

import pytest

from tests.conformance.test_exchange import bodies
from tests.support.channel import Channel
from tests.support.grave import Grave, lapse, reason_of

OVERTAKEN = pytest.mark.differs_from_reference(
    "it does not look at a message that overtook the head before something else happens"
)


def declare(channel: Channel, highest: int, grave: Grave | None = None, **arguments: Any) -> str:
    options: dict[str, Any] = {"x-max-priority": highest}
    options |= {name.replace("_", "-"): value for name, value in arguments.items()}
    if grave is not None:
        options |= grave.arguments()
    name: str = channel.queue_declare(exclusive=True, arguments=options).queue
    return name


def fill(channel: Channel, queue: str, *messages: str) -> None:
    """Publish; the digits of a message, if it begins with one, are its priority."""
    for message in messages:
        digits = "".join(each for each in message if each.isdigit())
        priority = int(digits) if digits else None
        channel.publish(message.encode(), routing_key=queue, priority=priority)
    channel.sync()


def taken(channel: Channel, queue: str) -> list[str]:
    return [body.decode() for body in bodies(channel, queue)]


@pytest.mark.rule("PR-1", "PQ-1", "PQ-2")
def test_higher_first_and_in_order_among_equals(channel: Channel) -> None:
    """None is 0, and what is above the highest is the highest."""
    name = declare(channel, 3)
    fill(channel, name, "none", "0", "1", "5", "2", "3")
    assert taken(channel, name) == ["5", "3", "2", "1", "none", "0"]


@pytest.mark.rule("PR-1", "PQ-2")
def test_many_of_each(channel: Channel) -> None:
    name = declare(channel, 10)
    messages = [f"{number * 7 % 11}{chr(97 + number % 26)}" for number in range(2000)]
    fill(channel, name, *messages)
    # sorted is stable, so equals keep their order.
    assert taken(channel, name) == sorted(messages, key=lambda each: -int(each[:-1]))


@pytest.mark.rule("PR-1", "QA-7")
def test_all_255_priorities(channel: Channel) -> None:
    name = declare(channel, 255)
    fill(channel, name, *map(str, range(256)))
    assert taken(channel, name) == [str(number) for number in range(255, -1, -1)]


@pytest.mark.rule("PR-1", "QA-7")
@pytest.mark.parametrize("arguments", [{}, {"x-max-priority": 0}], ids=str)
def test_a_queue_without_priorities(channel: Channel, arguments: dict[str, Any]) -> None:
    name = channel.queue_declare(exclusive=True, arguments=arguments).queue
    fill(channel, name, "1", "9", "5")
    assert taken(channel, name) == ["1", "9", "5"]


@pytest.mark.rule("PR-1", "QO-1")
def test_a_consumer_gets_the_highest_there_is(channel: Channel) -> None:
    """As far as its prefetch lets the queue decide."""
    name = declare(channel, 5)
    beside = channel.client.channel()
    beside.qos(1)
    fill(channel, name, "1a", "1b")
    beside.consume(name)
    first = beside.recv_delivery()
    fill(channel, name, "2", "5", "3")
    found = [first.body]
    tag = first.delivery_tag
    for _ in range(4):
        beside.ack(tag)
        delivery = beside.recv_delivery()
        found.append(delivery.body)
        tag = delivery.delivery_tag
    assert found == [b"1a", b"5", b"3", b"2", b"1b"]


@pytest.mark.rule("PR-1", "PB-5")
def test_the_property_is_delivered_as_it_came(channel: Channel) -> None:
    name = declare(channel, 3)
    fill(channel, name, "200")
    assert channel.get(name).properties["priority"] == 200


@pytest.mark.rule("PQ-3", "AK-2", "AK-3")
def test_requeued_messages_keep_priority_and_place(channel: Channel) -> None:
    name = declare(channel, 3)
    fill(channel, name, "1a", "3a", "1b", "3b", "2a")
    got = [channel.get(name) for _ in range(5)]
    assert [each.body for each in got] == [b"3a", b"3b", b"2a", b"1a", b"1b"]
    fill(channel, name, "3c", "1c", "2b")
    for place in (4, 1, 3, 0, 2):
        channel.nack(got[place].delivery_tag)
    again = [channel.get(name) for _ in range(8)]
    assert [each.body.decode() for each in again] == [
        "3a",
        "3b",
        "3c",
        "2a",
        "2b",
        "1a",
        "1b",
        "1c",
    ]
    assert [each.redelivered for each in again] == [
        True,
        True,
        False,
        True,
        False,
        True,
        True,
        False,
    ]
    assert [each.message_count for each in again] == list(range(7, -1, -1))


@pytest.mark.rule("PQ-3", "AK-3")
def test_what_was_taken_at_once_and_what_waited(channel: Channel) -> None:
    """Handed out on different ways, they come back to one order all the same."""
    name = declare(channel, 5)
    beside = channel.client.channel()
    beside.qos(1)
    beside.consume(name)
    for _ in range(5):
        fill(channel, name, "3")
        beside.ack(beside.recv_delivery().delivery_tag)
        beside.sync()
    fill(channel, name, "3a")
    assert beside.recv_delivery().body == b"3a"
    fill(channel, name, "3b", "3c")
    tags = [channel.get(name).delivery_tag for _ in range(2)]
    for tag in reversed(tags):
        channel.nack(tag)
    beside.close()
    assert taken(channel, name) == ["3a", "3b", "3c"]


@pytest.mark.rule("PQ-3", "RC-2")
def test_the_end_of_a_channel_returns_all_priorities(channel: Channel) -> None:
    name = declare(channel, 3)
    messages = ["1a", "2a", "3a", "1b", "2b", "3b"]
    beside = channel.client.channel()
    beside.consume(name)
    for message in messages:
        fill(channel, name, message)
    assert [beside.recv_delivery().body.decode() for _ in messages] == messages
    beside.close()
    assert taken(channel, name) == ["3a", "3b", "2a", "2b", "1a", "1b"]


@pytest.mark.rule("PQ-2", "LE-2")
def test_a_length_limit_drops_the_highest(channel: Channel, grave: Grave) -> None:
    """They are the head of the queue."""
    name = declare(channel, 5, grave, x_max_length=3)
    fill(channel, name, "3", "1a", "1b", "1c", "5")
    assert grave.bodies(2) == [b"3", b"5"]
    assert taken(channel, name) == ["1a", "1b", "1c"]


@pytest.mark.rule("PQ-2", "LE-3", "CO-3")
def test_a_full_queue_refuses_the_highest_too(channel: Channel) -> None:
    name = declare(channel, 5, x_max_length=2, x_overflow="reject-publish")
    channel.confirm_select()
    for number, (priority, wanted) in enumerate([(1, "ack"), (5, "ack"), (5, "nack")], start=1):
        channel.publish(b"x", routing_key=name, priority=priority)
        channel.expect(f"basic.{wanted}", delivery_tag=number)


@pytest.mark.rule("PQ-2", "TT-3")
def test_an_expired_message_of_lower_priority_stays(channel: Channel, grave: Grave) -> None:
    """Until what stands before it is gone."""
    name = declare(channel, 5, grave)
    channel.publish(b"low", routing_key=name, priority=1, expiration="50")
    channel.publish(b"high", routing_key=name, priority=4)
    lapse(channel, 150)
    assert channel.queue_declare(name, passive=True).message_count == 2
    assert channel.get(name, no_ack=True).body == b"high"
    letter = grave.take()
    assert (letter.body, reason_of(letter)) == (b"low", "expired")


@pytest.mark.rule("PQ-2", "TT-3")
@OVERTAKEN
@pytest.mark.parametrize("arguments", [{}, {"x_max_length": 100}], ids=str)
def test_an_expiring_message_before_one_that_stays(
    channel: Channel, grave: Grave, arguments: dict[str, Any]
) -> None:
    """It came later and stands first, so its time counts."""
    name = declare(channel, 5, grave, **arguments)
    channel.publish(b"low", routing_key=name, priority=1)
    channel.publish(b"high", routing_key=name, priority=4, expiration="50")
    letter = grave.take()
    assert (letter.body, reason_of(letter)) == (b"high", "expired")
    assert taken(channel, name) == ["low"]


@pytest.mark.rule("PQ-2", "TT-3")
@OVERTAKEN
def test_a_shorter_time_comes_to_the_head(channel: Channel, grave: Grave) -> None:
    """The head has long to live; a later and higher message has not."""
    name = declare(channel, 5, grave)
    channel.publish(b"low", routing_key=name, priority=1, expiration="3600000")
    channel.publish(b"high", routing_key=name, priority=4, expiration="50")
    assert grave.take().body == b"high"
    assert taken(channel, name) == ["low"]


@pytest.mark.rule("PQ-2", "TT-3")
def test_expired_messages_of_all_priorities_go(channel: Channel, grave: Grave) -> None:
    name = declare(channel, 5, grave, x_message_ttl=50)
    fill(channel, name, "1", "3", "5", "0")
    assert grave.bodies(4) == [b"5", b"3", b"1", b"0"]


@pytest.mark.rule("PQ-3", "TT-5")
def test_a_requeued_message_brings_its_time_to_the_head(channel: Channel, grave: Grave) -> None:
    name = declare(channel, 5, grave)
    channel.publish(b"high", routing_key=name, priority=4, expiration="300")
    channel.publish(b"low", routing_key=name, priority=1)
    channel.sync()
    got = channel.get(name)
    assert got.body == b"high"
    channel.nack(got.delivery_tag)
    assert grave.take().body == b"high"
    assert taken(channel, name) == ["low"]


@pytest.mark.rule("PQ-3")
def test_counts_are_sums(channel: Channel, unique: Any) -> None:
    name = channel.queue_declare(unique("q"), arguments={"x-max-priority": 4}).queue
    fill(channel, name, "0", "1", "2", "3", "4", "4")
    assert channel.queue_declare(name, arguments={"x-max-priority": 4}).message_count == 6
    assert channel.get(name, no_ack=True).message_count == 5
    channel.send("queue.delete", queue=name, if_empty=True)
    text = f"PRECONDITION_FAILED - queue '{name}' in vhost '/' not empty"
    channel.expect_close(406, text, method="queue.delete")
    again = channel.reopen()
    assert again.queue_purge(name).message_count == 5
    assert again.get(name) is None
    fill(again, name, "1", "3")
    assert again.queue_delete(name).message_count == 2


@pytest.mark.rule("PR-1", "CS-3")
def test_priorities_of_messages_and_of_consumers(channel: Channel) -> None:
    """The best consumer gets the best message, and what it cannot take goes to the next."""
    name = declare(channel, 5)
    fill(channel, name, "1", "2", "3", "4")
    first, second = channel.client.channel(), channel.client.channel()
    channel.queue_declare(name, passive=True)
    tag = channel.consume(name, arguments={"x-priority": -1})
    channel.cancel(tag)
    for each in (first, second):
        each.qos(1)
    fill(channel, name, "5")
    held = [channel.recv_delivery() for _ in range(4)]
    second.consume(name, arguments={"x-priority": 1})
    assert second.recv_delivery().body == b"5"
    first.consume(name, arguments={"x-priority": 9})
    channel.nack(held[-1].delivery_tag, multiple=True)
    assert first.recv_delivery().body == b"4"
