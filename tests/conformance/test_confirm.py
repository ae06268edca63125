"""Publisher confirms: numbers, order, batches, refusals (6.2)."""

from typing import Any

import pytest

from tests.support.channel import Channel
from tests.support.expectation import starting
from tests.support.fixtures import Connect


@pytest.fixture
def small_queue(channel: Channel) -> str:
    """A queue that takes one message and refuses the next."""
    arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
    name: str = channel.queue_declare(exclusive=True, arguments=arguments).queue
    return name


@pytest.mark.rule("CO-1")
def test_numbers_begin_with_select(channel: Channel, queue: str) -> None:
    """Trap 6: neither earlier publishes nor those of other channels count."""
    other = channel.client.channel()
    for mandatory in (False, True, True):
        channel.publish(b"x", routing_key=queue, mandatory=mandatory)
        other.publish(b"x", routing_key=queue)
    channel.confirm_select()
    for number in (1, 2, 3):
        channel.publish(b"x", routing_key=queue)
        other.publish(b"x", routing_key=queue)
        channel.expect("basic.ack", delivery_tag=number, multiple=False)
    other.confirm_select(nowait=True)
    other.publish(b"x", routing_key=queue)
    other.expect("basic.ack", delivery_tag=1)


@pytest.mark.rule("CO-1")
def test_selecting_again_does_not_begin_again(channel: Channel, queue: str) -> None:
    channel.confirm_select()
    channel.publish(b"x", routing_key=queue)
    channel.expect("basic.ack", delivery_tag=1)
    channel.confirm_select()
    channel.publish(b"x", routing_key=queue)
    channel.expect("basic.ack", delivery_tag=2)


@pytest.mark.rule("CO-1", "CO-2", "PB-3")
def test_every_publish_counts_routed_or_not(channel: Channel, queue: str) -> None:
    """And a return comes before the confirm of its publish."""
    channel.confirm_select()
    for number in range(1, 10):
        routed, mandatory = number % 2 == 0, number % 3 == 0
        channel.publish(
            b"%d" % number, routing_key=queue if routed else "nobody", mandatory=mandatory
        )
        if mandatory and not routed:
            assert channel.expect("basic.return").body == b"%d" % number
        channel.expect("basic.ack", delivery_tag=number, multiple=False)


@pytest.mark.rule("CO-2", "CO-4", "PB-3")
def test_returns_come_before_their_confirms_in_a_crowd(channel: Channel, queue: str) -> None:
    channel.confirm_select()
    for number in range(1, 101):
        channel.publish(
            b"%d" % number, routing_key="nobody" if number % 5 == 0 else queue, mandatory=True
        )
    returned: set[int] = set()
    confirmed = 0
    answered: set[int] = set()
    while len(answered) < 100:
        event = channel.client.next_event(channel=channel.number)
        if event.name == "basic.return":
            returned.add(int(event.body))
            continue
        assert event.name == "basic.ack"
        fresh = (
            set(range(1, event.delivery_tag + 1)) - answered
            if event.multiple
            else {event.delivery_tag}
        )
        assert fresh
        assert not fresh & answered
        assert {number for number in fresh if number % 5 == 0} <= returned
        answered |= fresh
        confirmed += 1
    assert returned == set(range(5, 101, 5))
    assert confirmed <= 100


@pytest.mark.rule("CO-1", "CO-2")
@pytest.mark.parametrize("properties", [{}, {"delivery_mode": 2}, {"headers": {"a": 1}}], ids=str)
@pytest.mark.parametrize("exchange", ["amq.fanout", "amq.direct", "amq.topic", "amq.headers"])
def test_one_answer_however_many_queues(
    channel: Channel, exchange: str, properties: dict[str, Any]
) -> None:
    for _ in range(3):
        channel.queue_bind(channel.queue_declare(exclusive=True).queue, exchange, "k")
    channel.confirm_select()
    for _ in range(20):
        channel.publish(b"x", exchange=exchange, routing_key="k", **properties)
    assert channel.wait_confirms(20) == dict.fromkeys(range(1, 21), "ack")
    channel.sync()
    assert channel.client.inbox == []


@pytest.mark.rule("CO-2")
def test_a_confirm_waits_for_no_consumer(connect: Connect, channel: Channel, queue: str) -> None:
    channel.qos(1)
    channel.consume(queue)
    channel.confirm_select()
    for _ in range(10):
        channel.publish(b"x", routing_key=queue)
    acked: set[int] = set()
    delivered = 0
    while len(acked) < 10 or not delivered:
        event = channel.client.next_event(channel=channel.number)
        if event.name == "basic.deliver":
            delivered += 1
        elif event.multiple:
            acked |= set(range(1, event.delivery_tag + 1))
        else:
            acked.add(event.delivery_tag)
    assert delivered == 1


@pytest.mark.rule("CO-3", "CO-4")
def test_a_single_refusal(channel: Channel, small_queue: str) -> None:
    channel.confirm_select()
    channel.publish(b"1", routing_key=small_queue)
    channel.expect("basic.ack", delivery_tag=1, multiple=False)
    channel.publish(b"2", routing_key=small_queue)
    channel.expect("basic.nack", delivery_tag=2, requeue=True)


@pytest.mark.rule("CO-3", "CO-4")
@pytest.mark.parametrize(
    "pattern",
    ["anananan", "aaaannnn", "nnnnaaaa", "naaannna", "n" * 20, "aanaanaanaan"],
)
def test_acks_and_nacks_do_not_cover_each_other(
    channel: Channel, queue: str, small_queue: str, pattern: str
) -> None:
    """Trap 7. A client that believes `multiple` must never come to a wrong answer."""
    channel.publish(b"full", routing_key=small_queue)
    channel.confirm_select()
    for kind in pattern:
        channel.publish(b"x", routing_key=queue if kind == "a" else small_queue)
    expected = {
        number: "ack" if kind == "a" else "nack" for number, kind in enumerate(pattern, start=1)
    }
    assert channel.wait_confirms(len(pattern)) == expected


@pytest.mark.rule("CO-3", "LE-5")
def test_one_refusal_among_several_queues_is_one_nack(
    channel: Channel, queue: str, small_queue: str, unique: Any
) -> None:
    exchange = unique("x")
    channel.exchange_declare(exchange, "fanout")
    for each in (queue, small_queue):
        channel.queue_bind(each, exchange)
    channel.confirm_select()
    for _ in range(3):
        channel.publish(b"x", exchange=exchange)
    assert channel.wait_confirms(3) == {1: "ack", 2: "nack", 3: "nack"}
    assert channel.queue_purge(queue).message_count == 3
    assert channel.queue_purge(small_queue).message_count == 1


@pytest.mark.rule("CO-3", "QD-8")
def test_what_a_deleted_queue_had_is_acked(channel: Channel, unique: Any) -> None:
    """Trap 8."""
    other = channel.client.channel()
    channel.confirm_select()
    for turn in range(10):
        name = unique("q")
        other.queue_declare(name, durable=True)
        for _ in range(20):
            channel.publish(b"x" * 100, routing_key=name, delivery_mode=2)
        other.queue_delete(name, nowait=True)
        first = turn * 20 + 1
        answers = channel.wait_confirms(first + 19, first=first)
        assert set(answers.values()) == {"ack"}


@pytest.mark.rule("CO-1", "EX-2")
def test_a_reopened_channel_has_no_confirms(channel: Channel, queue: str) -> None:
    channel.confirm_select()
    channel.publish(b"x", routing_key=queue)
    channel.expect("basic.ack", delivery_tag=1)
    channel.publish(b"x", exchange="no such exchange")
    channel.expect_close(404, starting("NOT_FOUND"))
    again = channel.reopen()
    again.publish(b"x", routing_key=queue)
    again.sync()
    assert channel.client.inbox == []
    again.confirm_select()
    again.publish(b"x", routing_key=queue)
    again.expect("basic.ack", delivery_tag=1, multiple=False)


@pytest.mark.rule("CO-1")
def test_confirm_numbers_and_delivery_tags_are_apart(channel: Channel, queue: str) -> None:
    channel.confirm_select()
    channel.publish(b"1", routing_key=queue)
    channel.expect("basic.ack", delivery_tag=1)
    channel.publish(b"2", routing_key="nobody")
    channel.expect("basic.ack", delivery_tag=2)
    assert channel.get(queue).delivery_tag == 1
    channel.ack(1)
    channel.publish(b"3", routing_key=queue)
    channel.expect("basic.ack", delivery_tag=3)
    assert channel.get(queue).delivery_tag == 2


@pytest.mark.rule("CO-5")
def test_each_channel_has_its_own_mode(channel: Channel, queue: str) -> None:
    plain, transactional = channel.client.channel(), channel.client.channel()
    channel.confirm_select()
    transactional.tx_select()
    for each in (plain, transactional, channel):
        each.publish(b"x", routing_key=queue)
    assert channel.wait_confirms(1) == {1: "ack"}
    plain.sync()
    transactional.sync()
    assert channel.client.inbox == []
    assert channel.queue_purge(queue).message_count == 2
