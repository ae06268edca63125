"""Queues that serve one consumer at a time (5.6)."""

from typing import Any

import pytest

from tests.support.channel import Channel
from tests.support.expectation import starting
from tests.support.fixtures import Connect

SINGLE = {"x-single-active-consumer": True}


@pytest.fixture
def single(channel: Channel) -> str:
    name: str = channel.queue_declare(exclusive=True, arguments=SINGLE).queue
    return name


def beside(channel: Channel, count: int) -> list[Channel]:
    return [channel.client.channel() for _ in range(count)]


def fill(channel: Channel, queue: str, *numbers: int) -> None:
    for number in numbers:
        channel.publish(b"%d" % number, routing_key=queue)
    channel.sync()


def receive(channel: Channel, *numbers: int) -> list[int]:
    """Take deliveries with these bodies; return their tags."""
    found = [channel.recv_delivery() for _ in numbers]
    assert [int(each.body) for each in found] == list(numbers)
    return [each.delivery_tag for each in found]


@pytest.mark.rule("SA-1")
def test_the_first_one_gets_everything(channel: Channel, single: str) -> None:
    channels = beside(channel, 3)
    for each in channels:
        each.consume(single)
    fill(channel, single, *range(10))
    receive(channels[0], *range(10))
    for each in channels[1:]:
        each.sync()
    assert channel.client.inbox == []
    assert channel.queue_declare(single, passive=True).consumer_count == 3


@pytest.mark.rule("SA-1")
def test_two_consumers_of_one_channel(channel: Channel, single: str) -> None:
    first, second = channel.consume(single), channel.consume(single)
    fill(channel, single, 1, 2)
    assert [channel.recv_delivery().consumer_tag for _ in range(2)] == [first, first]
    channel.cancel(first)
    fill(channel, single, 3)
    assert channel.recv_delivery().consumer_tag == second


@pytest.mark.rule("SA-1", "CS-1")
def test_a_cancelled_one_makes_way(channel: Channel, single: str) -> None:
    """For the one that waits longest; what it has not acked stays with it."""
    channels = beside(channel, 3)
    tags = [each.consume(single) for each in channels]
    fill(channel, single, 1)
    (held,) = receive(channels[0], 1)
    channels[0].cancel(tags[0])
    fill(channel, single, 2, 3)
    receive(channels[1], 2, 3)
    channels[0].nack(held, requeue=True)
    receive(channels[1], 1)
    channels[1].close()
    receive(channels[2], 1, 2, 3)


@pytest.mark.rule("SA-1", "RC-2")
def test_a_closed_channel_hands_over_what_it_held(channel: Channel, single: str) -> None:
    """In order, and before what came meanwhile."""
    channels = beside(channel, 2)
    for each in channels:
        each.qos(3)
        each.consume(single)
    fill(channel, single, *range(6))
    receive(channels[0], 0, 1, 2)
    channels[0].close()
    found = [channels[1].recv_delivery() for _ in range(3)]
    assert [(each.body, each.redelivered) for each in found] == [
        (b"0", True),
        (b"1", True),
        (b"2", True),
    ]
    channels[1].ack(found[-1].delivery_tag, multiple=True)
    receive(channels[1], 3, 4, 5)


@pytest.mark.rule("SA-1", "RC-2")
@pytest.mark.parametrize("how", ["close", "drop"])
def test_a_lost_connection_hands_over(
    connect: Connect, channel: Channel, unique: Any, how: str
) -> None:
    name = channel.queue_declare(unique("q"), arguments=SINGLE).queue
    first = connect()
    active = first.channel()
    active.consume(name)
    channel.consume(name)
    fill(active, name, 1, 2)
    receive(active, 1, 2)
    channel.sync()
    assert channel.client.inbox == []
    if how == "close":
        first.close()
    else:
        first.drop()
    receive(channel, 1, 2)


@pytest.mark.rule("SA-1", "CS-3")
def test_the_highest_priority_is_next(channel: Channel, single: str) -> None:
    """And among equals the one that waits longest; nobody displaces the active one."""
    priorities = [0, 1, 5, 5, 2]
    channels = beside(channel, len(priorities))
    for each, priority in zip(channels, priorities, strict=True):
        each.consume(single, arguments={"x-priority": priority})
    for number, place in enumerate([0, 2, 3, 4, 1]):
        fill(channel, single, number)
        channels[place].ack(*receive(channels[place], number))
        channels[place].close()


@pytest.mark.rule("SA-1")
def test_who_comes_back_waits_again(channel: Channel, single: str) -> None:
    channels = beside(channel, 2)
    tag = channels[0].consume(single)
    channels[1].consume(single)
    channels[0].cancel(tag)
    channels[0].consume(single)
    fill(channel, single, 1, 2)
    receive(channels[1], 1, 2)


@pytest.mark.rule("SA-1", "QO-1")
def test_a_full_prefetch_does_not_switch(channel: Channel, single: str) -> None:
    channels = beside(channel, 2)
    channels[0].qos(1)
    for each in channels:
        each.consume(single)
    fill(channel, single, 1, 2)
    (tag,) = receive(channels[0], 1)
    channels[1].expect_nothing(within=0.2)
    channels[0].ack(tag)
    receive(channels[0], 2)


@pytest.mark.rule("SA-1")
def test_a_waiting_one_may_go_unnoticed(channel: Channel, single: str) -> None:
    channels = beside(channel, 3)
    tags = [each.consume(single) for each in channels]
    channels[1].cancel(tags[1])
    fill(channel, single, 1)
    channels[0].ack(*receive(channels[0], 1))
    channels[0].close()
    fill(channel, single, 2)
    receive(channels[2], 2)


@pytest.mark.rule("SA-1")
def test_all_gone_and_one_comes(channel: Channel, single: str) -> None:
    tag = channel.consume(single)
    channel.cancel(tag)
    fill(channel, single, 1, 2)
    channel.consume(single)
    receive(channel, 1, 2)


@pytest.mark.rule("SA-1", "GT-1")
def test_get_works_beside(channel: Channel, single: str) -> None:
    """Trap 33."""
    active = channel.client.channel()
    active.qos(1)
    active.consume(single)
    fill(channel, single, 1, 2)
    receive(active, 1)
    assert channel.get(single).body == b"2"


@pytest.mark.rule("SA-1", "QD-8", "CS-5")
def test_all_are_told_when_the_queue_goes(channel: Channel, single: str) -> None:
    channels = beside(channel, 3)
    tags = [each.consume(single) for each in channels]
    channel.queue_delete(single)
    for each, tag in zip(channels, tags, strict=True):
        each.expect("basic.cancel", consumer_tag=tag)


@pytest.mark.rule("SA-1", "QD-6")
def test_auto_delete_counts_those_that_wait(channel: Channel, unique: Any) -> None:
    name = channel.queue_declare(unique("q"), auto_delete=True, arguments=SINGLE).queue
    channels = beside(channel, 2)
    tags = [each.consume(name) for each in channels]
    channels[0].cancel(tags[0])
    fill(channel, name, 1)
    receive(channels[1], 1)
    channels[1].cancel(tags[1])
    channel.send("queue.declare", queue=name, passive=True)
    channel.expect_close(404, starting("NOT_FOUND"))


@pytest.mark.rule("SA-1", "QD-1")
def test_it_cannot_be_changed_by_another_declare(channel: Channel, unique: Any) -> None:
    name = channel.queue_declare(unique("q"), arguments=SINGLE).queue
    channel.queue_declare(name, arguments=SINGLE)
    channel.send("queue.declare", queue=name)
    channel.expect_close(
        406,
        "PRECONDITION_FAILED - inequivalent arg 'x-single-active-consumer' for queue "
        f"'{name}' in vhost '/': received none but current is the value 'true' of type 'bool'",
        method="queue.declare",
    )


@pytest.mark.rule("SA-1", "CS-3")
def test_false_is_as_absent(channel: Channel) -> None:
    arguments = {"x-single-active-consumer": False}
    name = channel.queue_declare(exclusive=True, arguments=arguments).queue
    channels = beside(channel, 2)
    for each in channels:
        each.consume(name)
    fill(channel, name, 1, 2)
    for each in channels:
        each.recv_delivery()


@pytest.mark.rule("SA-1", "PR-1")
def test_with_priorities(channel: Channel) -> None:
    name = channel.queue_declare(exclusive=True, arguments=SINGLE | {"x-max-priority": 9}).queue
    channels = beside(channel, 2)
    for priority in (1, 9, 5):
        channel.publish(b"%d" % priority, routing_key=name, priority=priority)
    channel.sync()
    for each in channels:
        each.qos(1)
        each.consume(name)
    for number in (9, 5):
        channels[0].ack(*receive(channels[0], number))
    receive(channels[0], 1)
    channels[0].close()
    receive(channels[1], 1)
