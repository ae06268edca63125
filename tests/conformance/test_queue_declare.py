"""queue.declare: names, counts, and the queue a channel remembers (QD-3 to QD-5)."""

import re
from typing import Any

import pytest

from tests.support.channel import Channel
from tests.support.expectation import starting
from tests.support.fixtures import Connect

GENERATED = re.compile(r"amq\.gen-[A-Za-z0-9_-]{22}")


@pytest.mark.rule("QD-3")
def test_names_made_by_the_broker(channel: Channel) -> None:
    names = {channel.queue_declare(exclusive=True).queue for _ in range(20)}
    assert len(names) == 20
    assert all(GENERATED.fullmatch(name) for name in names)


@pytest.mark.rule("QD-3", "QD-4")
def test_a_name_made_without_waiting_is_remembered(channel: Channel) -> None:
    channel.queue_declare(exclusive=True, nowait=True)
    channel.queue_bind("", "amq.fanout")
    channel.publish(b"x", exchange="amq.fanout")
    assert channel.get().body == b"x"


@pytest.mark.rule("QD-4")
def test_an_empty_name_is_the_last_declared_queue(channel: Channel, unique: Any) -> None:
    exchange = unique("x")
    channel.exchange_declare(exchange, "fanout")
    channel.queue_declare(exclusive=True)
    last = channel.queue_declare(unique("q")).queue
    channel.queue_bind("", exchange, "key")
    channel.publish(b"1", exchange=exchange)
    assert channel.get().body == b"1"
    channel.publish(b"2", exchange=exchange)
    assert channel.queue_purge().message_count == 1
    tag = channel.consume()
    channel.publish(b"3", routing_key=last)
    assert channel.recv_delivery(consumer_tag=tag).body == b"3"
    channel.cancel(tag)
    channel.queue_unbind("", exchange, "key")
    channel.publish(b"4", exchange=exchange)
    assert channel.queue_delete().message_count == 0
    assert channel.queue_delete(last).message_count == 0
    channel.send("queue.declare", queue=last, passive=True)
    channel.expect_close(404, starting("NOT_FOUND - no queue"))


@pytest.mark.rule("QD-4")
def test_without_queue_and_key_the_key_is_the_name(channel: Channel) -> None:
    name = channel.queue_declare(exclusive=True).queue
    channel.queue_bind("", "amq.direct", "")
    channel.publish(b"by name", exchange="amq.direct", routing_key=name)
    assert channel.get(name).body == b"by name"
    channel.queue_unbind("", "amq.direct", "")
    channel.publish(b"unbound", exchange="amq.direct", routing_key=name, mandatory=True)
    channel.expect("basic.return")


@pytest.mark.rule("QD-4")
def test_a_given_queue_leaves_an_empty_key_empty(channel: Channel, queue: str) -> None:
    channel.queue_bind(queue, "amq.direct", "")
    channel.publish(b"by name", exchange="amq.direct", routing_key=queue, mandatory=True)
    channel.expect("basic.return")
    channel.publish(b"by nothing", exchange="amq.direct")
    assert channel.get(queue).body == b"by nothing"


@pytest.mark.rule("QD-4")
def test_a_given_key_stays_with_the_last_queue(channel: Channel) -> None:
    name = channel.queue_declare(exclusive=True).queue
    channel.queue_bind("", "amq.direct", "own key")
    channel.publish(b"by name", exchange="amq.direct", routing_key=name, mandatory=True)
    channel.expect("basic.return")
    channel.publish(b"by key", exchange="amq.direct", routing_key="own key")
    assert channel.get(name).body == b"by key"


@pytest.mark.rule("QD-4")
def test_passive_and_repeated_declares_are_remembered_too(channel: Channel) -> None:
    names = [channel.queue_declare(f"remembered-{n}", exclusive=True).queue for n in range(3)]
    for name in names:
        channel.publish(name.encode(), routing_key=name)
    channel.queue_declare(names[0], passive=True)
    assert channel.get().body == names[0].encode()
    channel.queue_declare(names[1], exclusive=True)
    assert channel.get().body == names[1].encode()
    channel.queue_declare(names[2], passive=True, nowait=True)
    assert channel.get().body == names[2].encode()


@pytest.mark.rule("QD-4")
def test_each_channel_remembers_its_own_queue(channel: Channel, queue: str) -> None:
    other = channel.client.channel()
    other.send("basic.get", queue="")
    other.expect_close(404, "NOT_FOUND - no previously declared queue", method="basic.get")
    channel.publish(b"x", routing_key=queue)
    assert channel.get().body == b"x"


@pytest.mark.rule("QD-4", "EX-2")
def test_a_failed_declare_and_a_new_channel_remember_nothing(channel: Channel) -> None:
    channel.queue_declare(exclusive=True)
    channel.send("queue.declare", queue="amq.forbidden")
    channel.expect_close(403, starting("ACCESS_REFUSED"))
    again = channel.reopen()
    again.send("queue.purge", queue="")
    again.expect_close(404, "NOT_FOUND - no previously declared queue", method="queue.purge")


@pytest.mark.rule("QD-4")
def test_a_passive_declare_takes_an_empty_name_literally(channel: Channel) -> None:
    """Declare is not among the methods that mean the last queue by an empty name."""
    channel.queue_declare(exclusive=True)
    channel.send("queue.declare", queue="", passive=True)
    channel.expect_close(404, "NOT_FOUND - no queue '' in vhost '/'", method="queue.declare")


@pytest.mark.rule("QD-4")
def test_other_methods_do_not_change_the_last_queue(channel: Channel, shared_queue: str) -> None:
    last = channel.queue_declare(exclusive=True).queue
    channel.queue_bind(shared_queue, "amq.fanout")
    channel.queue_purge(shared_queue)
    assert channel.get(shared_queue) is None
    channel.cancel(channel.consume(shared_queue))
    channel.queue_unbind(shared_queue, "amq.fanout")
    channel.publish(b"x", routing_key=last)
    assert channel.get().body == b"x"


@pytest.mark.rule("QD-5")
def test_declare_ok_counts_ready_messages_and_consumers(
    connect: Connect, channel: Channel, shared_queue: str
) -> None:
    def counts() -> tuple[int, int]:
        reply = other.queue_declare(shared_queue, passive=True)
        again = other.queue_declare(shared_queue)
        assert (again.message_count, again.consumer_count) == (
            reply.message_count,
            reply.consumer_count,
        )
        assert reply.queue == again.queue == shared_queue
        return reply.message_count, reply.consumer_count

    other = connect().channel()
    assert counts() == (0, 0)
    for _ in range(3):
        channel.publish(b"x", routing_key=shared_queue)
    channel.sync()
    assert counts() == (3, 0)
    got = channel.get(shared_queue)
    assert counts() == (2, 0)
    channel.qos(1)
    tag = channel.consume(shared_queue)
    delivery = channel.recv_delivery()
    assert counts() == (1, 1)
    quiet = channel.consume(shared_queue, no_ack=True)
    channel.recv_delivery()
    assert counts() == (0, 2)
    channel.cancel(quiet)
    channel.cancel(tag)
    assert counts() == (0, 0)
    channel.nack(got.delivery_tag)
    channel.ack(delivery.delivery_tag)
    channel.sync()
    assert counts() == (1, 0)


@pytest.mark.rule("QD-5")
def test_purge_and_delete_count_only_what_is_ready(channel: Channel, shared_queue: str) -> None:
    for _ in range(5):
        channel.publish(b"x", routing_key=shared_queue)
    held = [channel.get(shared_queue) for _ in range(2)]
    assert channel.queue_purge(shared_queue).message_count == 3
    channel.nack(held[0].delivery_tag)
    channel.publish(b"y", routing_key=shared_queue)
    channel.sync()
    assert channel.queue_delete(shared_queue).message_count == 2


@pytest.mark.rule("QD-5")
def test_a_purge_leaves_what_is_held(channel: Channel, queue: str) -> None:
    for body in (b"1", b"2", b"3"):
        channel.publish(body, routing_key=queue)
    first = channel.get(queue)
    channel.queue_purge(queue, nowait=True)
    channel.publish(b"4", routing_key=queue)
    channel.nack(first.delivery_tag)
    assert [channel.get(queue).body for _ in range(2)] == [b"1", b"4"]
    assert channel.get(queue) is None


@pytest.mark.rule("QD-3")
def test_names_may_be_long_and_any_text(channel: Channel) -> None:
    for name in ("ö" * 127, "x" * 255, " ", "a/b?c#d\t", "\u2028"):
        assert channel.queue_declare(name, exclusive=True).queue == name
        channel.publish(b"x", routing_key=name)
        assert channel.get(name).routing_key == name
