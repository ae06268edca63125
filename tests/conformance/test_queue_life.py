"""How queues end: exclusive, auto-delete, deleted, and what that means to others (QD-2, 6 to 8)."""

import time
from typing import Any

import pytest

from tests.support.channel import Channel
from tests.support.expectation import starting
from tests.support.fixtures import Connect

NO_NOTIFY = {"capabilities": {"publisher_confirms": True, "basic.nack": True}}


def exists(channel: Channel, name: str) -> bool:
    probe = channel.client.channel()
    probe.send("queue.declare", queue=name, passive=True)
    event = channel.client.next_event(channel=probe.number)
    if event.name == "channel.close":
        assert event.reply_code == 404
        probe.send("channel.close-ok")
        return False
    assert event.name == "queue.declare-ok"
    probe.close()
    return True


def wait_until_gone(channel: Channel, name: str) -> None:
    deadline = time.monotonic() + 10
    while exists(channel, name):
        assert time.monotonic() < deadline, f"{name} is still there"
        time.sleep(0.02)


@pytest.mark.rule("QD-2", "EX-4")
@pytest.mark.parametrize("auto_delete", [False, True])
def test_an_exclusive_queue_is_gone_when_close_ok_is_there(
    connect: Connect, channel: Channel, unique: Any, auto_delete: bool
) -> None:
    """Trap 13."""
    for _ in range(10):
        name = unique("q")
        owner = connect()
        theirs = owner.channel()
        theirs.queue_declare(name, exclusive=True, auto_delete=auto_delete)
        theirs.publish(b"x", routing_key=name)
        owner.close()
        assert not exists(channel, name)
        channel.queue_declare(name)
        assert channel.get(name) is None


@pytest.mark.rule("QD-2")
def test_an_exclusive_queue_goes_with_a_dropped_socket(
    connect: Connect, channel: Channel, unique: Any
) -> None:
    name = unique("q")
    owner = connect()
    owner.channel().queue_declare(name, exclusive=True)
    owner.drop()
    deadline = time.monotonic() + 10
    while True:
        probe = channel.client.channel()
        probe.send("queue.declare", queue=name, passive=True)
        close = channel.client.next_event(channel=probe.number)
        assert close.name == "channel.close"
        probe.send("channel.close-ok")
        if close.reply_code == 404:
            return
        assert close.reply_code == 405
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.rule("QD-2")
def test_an_exclusive_queue_outlives_the_channel_that_declared_it(
    channel: Channel, unique: Any
) -> None:
    name = unique("q")
    channel.queue_declare(name, exclusive=True)
    channel.publish(b"x", routing_key=name)
    channel.close()
    other = channel.client.channel()
    assert other.get(name).body == b"x"
    other.publish(b"y", exchange="no such exchange")
    other.expect_close(404, starting("NOT_FOUND"))
    assert channel.client.channel().get(name).redelivered


@pytest.mark.rule("QD-2", "EX-3")
def test_a_connection_exception_takes_exclusive_queues_along(
    connect: Connect, channel: Channel, unique: Any
) -> None:
    name = unique("q")
    owner = connect()
    theirs = owner.channel()
    theirs.queue_declare(name, exclusive=True)
    theirs.publish(b"x", routing_key=name, immediate=True)
    owner.expect_close(540, starting("NOT_IMPLEMENTED"))
    owner.expect_socket_closed()
    wait_until_gone(channel, name)


@pytest.mark.rule("QD-6")
def test_an_auto_delete_queue_goes_with_its_last_consumer(channel: Channel, unique: Any) -> None:
    name = unique("q")
    channel.queue_declare(name, auto_delete=True)
    first, second = channel.consume(name), channel.consume(name)
    channel.cancel(first)
    assert exists(channel, name)
    channel.cancel(second)
    wait_until_gone(channel, name)


@pytest.mark.rule("QD-6")
def test_an_auto_delete_queue_stays_before_its_first_consumer(
    channel: Channel, queue: str, unique: Any
) -> None:
    """Trap 27: neither get nor bindings nor channels count."""
    name = unique("q")
    other = channel.client.channel()
    other.queue_declare(name, auto_delete=True)
    other.queue_bind(name, "amq.direct", name)
    other.queue_unbind(name, "amq.direct", name)
    other.publish(b"x", routing_key=name)
    assert other.get(name, no_ack=True).body == b"x"
    other.close()
    assert exists(channel, name)


@pytest.mark.rule("QD-6")
@pytest.mark.parametrize("end", ["channel", "connection", "exception", "drop"])
def test_an_auto_delete_queue_goes_when_its_consumer_ends(
    connect: Connect, channel: Channel, unique: Any, end: str
) -> None:
    name = unique("q")
    client = connect()
    consuming = client.channel()
    consuming.queue_declare(name, auto_delete=True)
    consuming.consume(name)
    if end == "channel":
        consuming.close()
    elif end == "connection":
        client.close()
    elif end == "exception":
        consuming.ack(77)
        consuming.expect_close(406, starting("PRECONDITION_FAILED"))
    else:
        client.drop()
    wait_until_gone(channel, name)


@pytest.mark.rule("QD-6", "CS-1")
def test_the_messages_of_an_auto_delete_queue_go_with_it(channel: Channel, unique: Any) -> None:
    """A delivery that its cancelled consumer still held comes back nowhere."""
    name = unique("q")
    channel.queue_declare(name, auto_delete=True)
    for body in (b"1", b"2"):
        channel.publish(body, routing_key=name)
    channel.qos(1)
    tag = channel.consume(name)
    held = channel.recv_delivery()
    channel.cancel(tag)
    wait_until_gone(channel, name)
    channel.queue_declare(name)
    channel.nack(held.delivery_tag)
    channel.sync()
    assert channel.get(name) is None


@pytest.mark.rule("QD-8", "CS-5")
def test_consumers_are_told_that_their_queue_is_deleted(
    connect: Connect, channel: Channel, shared_queue: str
) -> None:
    other = connect().channel()
    tags = {channel.consume(shared_queue, "mine"), other.consume(shared_queue, "theirs")}
    assert tags == {"mine", "theirs"}
    other.send("queue.delete", queue=shared_queue)
    assert other.wait_for("queue.delete-ok").message_count == 0
    for each, tag in ((channel, "mine"), (other, "theirs")):
        cancel = each.wait_for("basic.cancel")
        assert (cancel.consumer_tag, cancel.nowait) == (tag, True)


@pytest.mark.rule("CS-5")
def test_a_client_that_cannot_know_is_told_nothing(
    connect: Connect, channel: Channel, shared_queue: str
) -> None:
    other = connect(client_properties=NO_NOTIFY).channel()
    other.consume(shared_queue, "tag")
    channel.queue_delete(shared_queue)
    other.sync()
    assert other.client.inbox == []
    channel.queue_declare(shared_queue)
    other.consume(shared_queue, "tag")
    channel.publish(b"x", routing_key=shared_queue)
    assert other.recv_delivery().body == b"x"


@pytest.mark.rule("CS-5", "QD-8")
def test_a_tag_is_free_again_after_the_broker_cancelled_it(
    channel: Channel, shared_queue: str, queue: str
) -> None:
    other = channel.client.channel()
    channel.consume(shared_queue, "tag")
    other.queue_delete(shared_queue)
    channel.expect("basic.cancel", consumer_tag="tag")
    channel.consume(queue, "tag")
    channel.publish(b"x", routing_key=queue)
    assert channel.recv_delivery(consumer_tag="tag").body == b"x"


@pytest.mark.rule("QD-8")
@pytest.mark.parametrize("how", ["ack", "nack", "drop"])
def test_what_was_held_of_a_deleted_queue_is_settled_without_effect(
    channel: Channel, shared_queue: str, how: str
) -> None:
    """The tag is still outstanding, so it is no error; a new queue of that name gets nothing."""
    for body in (b"1", b"2"):
        channel.publish(body, routing_key=shared_queue)
    held = [channel.get(shared_queue) for _ in range(2)]
    channel.queue_delete(shared_queue)
    channel.queue_declare(shared_queue)
    if how == "ack":
        channel.ack(held[1].delivery_tag, multiple=True)
    else:
        channel.nack(held[1].delivery_tag, multiple=True, requeue=how == "nack")
    channel.publish(b"3", routing_key=shared_queue)
    assert channel.get(shared_queue).body == b"3"
    assert channel.get(shared_queue) is None
    channel.ack(held[0].delivery_tag)
    channel.expect_close(406, starting("PRECONDITION_FAILED - unknown delivery tag 1"))


@pytest.mark.rule("QD-8")
def test_prefetch_is_free_again_when_held_messages_lost_their_queue(
    channel: Channel, shared_queue: str, queue: str
) -> None:
    channel.qos(1, shared=True)
    channel.consume(shared_queue, "old")
    channel.consume(queue, "new")
    channel.publish(b"1", routing_key=shared_queue)
    held = channel.recv_delivery(consumer_tag="old")
    channel.publish(b"2", routing_key=queue)
    channel.queue_delete(shared_queue, nowait=True)
    channel.expect("basic.cancel", consumer_tag="old")
    channel.ack(held.delivery_tag)
    assert channel.recv_delivery(consumer_tag="new").body == b"2"


@pytest.mark.rule("QD-8", "EX-2")
def test_a_queue_may_be_deleted_on_the_condition_that_nobody_needs_it(
    channel: Channel, unique: Any
) -> None:
    name = unique("q")
    channel.queue_declare(name)
    channel.publish(b"x", routing_key=name)
    held = channel.get(name)
    assert channel.queue_delete(name, if_empty=True, if_unused=True).message_count == 0
    channel.queue_declare(name)
    channel.nack(held.delivery_tag)
    channel.sync()
    assert channel.get(name) is None
    channel.publish(b"y", routing_key=name)
    channel.sync()
    channel.send("queue.delete", queue=name, if_empty=True)
    channel.expect_close(
        406,
        f"PRECONDITION_FAILED - queue '{name}' in vhost '/' not empty",
        method="queue.delete",
    )


@pytest.mark.rule("QD-2", "CH-1")
def test_a_missing_exchange_comes_before_a_foreign_queue(
    connect: Connect, channel: Channel, queue: str
) -> None:
    """Nothing can be bound to it, and there is nothing to unbind, whoever owns the queue."""
    other = connect().channel()
    other.queue_unbind(queue, "missing")
    other.send("queue.bind", queue=queue, exchange="missing")
    other.expect_close(404, "NOT_FOUND - no exchange 'missing' in vhost '/'", method="queue.bind")
