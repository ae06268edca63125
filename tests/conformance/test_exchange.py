"""Exchanges: which exist, what a declare means, how long they live, whom they serve (section 4)."""

from typing import Any

import pytest

from tests.support.channel import Channel
from tests.support.expectation import starting
from tests.support.fixtures import Connect

PREDECLARED = {
    "amq.direct": "direct",
    "amq.fanout": "fanout",
    "amq.topic": "topic",
    "amq.headers": "headers",
    "amq.match": "headers",
    "amq.rabbitmq.trace": "topic",
}


def bodies(channel: Channel, queue: str) -> list[bytes]:
    """Take everything that is ready in the queue."""
    found = []
    while (message := channel.get(queue, no_ack=True)) is not None:
        found.append(message.body)
    return found


def exists(channel: Channel, name: str) -> bool:
    probe = channel.client.channel()
    probe.send("exchange.declare", exchange=name, passive=True)
    event = channel.client.next_event(channel=probe.number)
    if event.name == "channel.close":
        assert event.reply_code == 404
        probe.send("channel.close-ok")
        return False
    assert event.name == "exchange.declare-ok"
    probe.close()
    return True


@pytest.mark.rule("XC-1")
@pytest.mark.parametrize("name", PREDECLARED)
def test_exchanges_that_are_always_there(channel: Channel, name: str) -> None:
    internal = name == "amq.rabbitmq.trace"
    channel.exchange_declare(name, PREDECLARED[name], durable=True, internal=internal)


@pytest.mark.rule("XC-1", "XC-9")
def test_the_trace_exchange_is_internal(channel: Channel) -> None:
    channel.publish(b"x", exchange="amq.rabbitmq.trace")
    channel.expect_close(
        403,
        "ACCESS_REFUSED - cannot publish to internal exchange 'amq.rabbitmq.trace' in vhost '/'",
        method="basic.publish",
    )


@pytest.mark.rule("XC-2")
def test_the_default_exchange_routes_by_queue_name(channel: Channel, queue: str) -> None:
    channel.publish(b"for you", routing_key=queue)
    channel.publish(b"for nobody", routing_key=queue + "x")
    channel.publish(b"for nobody", routing_key=queue[:-1])
    delivery = channel.get(queue)
    assert (delivery.body, delivery.exchange, delivery.routing_key) == (b"for you", "", queue)
    assert channel.get(queue) is None


@pytest.mark.rule("XC-3")
def test_a_declare_again_changes_nothing(channel: Channel, queue: str, unique: Any) -> None:
    name = unique("x")
    options = {"durable": True, "auto_delete": True, "arguments": {"alternate-exchange": "other"}}
    channel.exchange_declare(name, "fanout", **options)
    channel.queue_bind(queue, name)
    channel.exchange_declare(name, "fanout", **options)
    channel.exchange_declare(name, "nonsense", passive=True, durable=False, internal=True)
    channel.publish(b"x", exchange=name)
    assert bodies(channel, queue) == [b"x"]


@pytest.mark.rule("XC-3")
def test_a_declare_without_waiting(channel: Channel, queue: str, unique: Any) -> None:
    name = unique("x")
    channel.exchange_declare(name, "fanout", nowait=True)
    channel.exchange_declare(name, passive=True, nowait=True)
    channel.queue_bind(queue, name, nowait=True)
    channel.publish(b"x", exchange=name)
    assert bodies(channel, queue) == [b"x"]
    channel.exchange_delete(name, nowait=True)
    channel.sync()
    assert not exists(channel, name)


@pytest.mark.rule("XC-4")
def test_line_ends_are_taken_out_of_names(channel: Channel, unique: Any) -> None:
    exchange, queue = unique("x"), unique("q")
    channel.exchange_declare(f"\r\n{exchange[:2]}\n{exchange[2:]}\r", "fanout")
    assert exists(channel, exchange)
    reply = channel.queue_declare(f"{queue[:3]}\r\n{queue[3:]}", exclusive=True)
    assert reply.queue == queue
    channel.queue_bind(f"\n{queue}", f"{exchange}\r")
    channel.publish(b"x", exchange=exchange)
    assert bodies(channel, queue) == [b"x"]
    assert channel.queue_delete(f"{queue}\n").message_count == 0
    channel.exchange_delete(f"{exchange}\n")
    assert not exists(channel, exchange)


@pytest.mark.rule("XC-4")
@pytest.mark.parametrize("name", ["basic.get", "basic.consume"])
def test_line_ends_count_where_messages_are_asked_for(
    channel: Channel, queue: str, name: str
) -> None:
    channel.send(name, queue=f"{queue}\n")
    channel.expect_close(404, starting("NOT_FOUND - no queue"), method=name)


@pytest.mark.rule("XC-4")
def test_line_ends_count_in_publish(channel: Channel, queue: str) -> None:
    channel.publish(b"x", routing_key=f"{queue}\n", mandatory=True)
    channel.expect("basic.return", routing_key=f"{queue}\n")
    channel.publish(b"x", exchange="amq.direct\n")
    channel.expect_close(404, starting("NOT_FOUND - no exchange"), method="basic.publish")


@pytest.mark.rule("XC-5")
def test_an_automatic_exchange_goes_with_its_last_binding(
    channel: Channel, queue: str, unique: Any
) -> None:
    name = unique("x")
    channel.exchange_declare(name, "direct", auto_delete=True)
    assert exists(channel, name)
    channel.queue_bind(queue, name, "one")
    channel.queue_bind(queue, name, "two")
    channel.queue_unbind(queue, name, "one")
    assert exists(channel, name)
    channel.queue_unbind(queue, name, "two")
    assert not exists(channel, name)


@pytest.mark.rule("XC-5")
def test_an_automatic_exchange_goes_with_its_last_queue(channel: Channel, unique: Any) -> None:
    name, queues = unique("x"), [unique("q"), unique("q")]
    channel.exchange_declare(name, "fanout", auto_delete=True)
    for queue in queues:
        channel.queue_declare(queue, exclusive=True)
        channel.queue_bind(queue, name)
    channel.queue_delete(queues[0])
    assert exists(channel, name)
    channel.queue_delete(queues[1])
    assert not exists(channel, name)


@pytest.mark.rule("XC-5")
def test_automatic_exchanges_fall_one_after_the_other(
    channel: Channel, queue: str, unique: Any
) -> None:
    """The last binding from `second` leads to `third`; when that goes, so does `second`."""
    first, second, third = unique("x"), unique("x"), unique("x")
    for name in (first, second, third):
        channel.exchange_declare(name, "fanout", auto_delete=True)
    channel.exchange_bind(second, first)
    channel.exchange_bind(third, second)
    channel.queue_bind(queue, third)
    channel.queue_unbind(queue, third)
    assert not exists(channel, third)
    assert not exists(channel, second)
    assert not exists(channel, first)


@pytest.mark.rule("XC-5")
def test_an_incoming_binding_does_not_hold_an_automatic_exchange(
    channel: Channel, queue: str, unique: Any
) -> None:
    """Trap 27: only bindings *from* it count, for staying and for going."""
    name, source = unique("x"), unique("x")
    channel.exchange_declare(name, "fanout", auto_delete=True)
    channel.exchange_declare(source, "fanout")
    channel.exchange_bind(name, source)
    channel.exchange_unbind(name, source)
    assert exists(channel, name)
    channel.exchange_bind(name, source)
    channel.queue_bind(queue, name)
    channel.queue_unbind(queue, name)
    assert not exists(channel, name)


@pytest.mark.rule("XC-5")
def test_the_end_of_a_connection_takes_automatic_exchanges_along(
    connect: Connect, channel: Channel, unique: Any
) -> None:
    name = unique("x")
    owner = connect()
    theirs = owner.channel()
    theirs.exchange_declare(name, "fanout", auto_delete=True)
    theirs.queue_bind(theirs.queue_declare(exclusive=True).queue, name)
    assert exists(channel, name)
    owner.close()
    assert not exists(channel, name)


@pytest.mark.rule("XC-6")
def test_a_deleted_exchange_leaves_no_bindings(channel: Channel, queue: str, unique: Any) -> None:
    source, name = unique("x"), unique("x")
    for each in (source, name):
        channel.exchange_declare(each, "fanout")
    channel.exchange_bind(name, source)
    channel.queue_bind(queue, name)
    channel.exchange_delete(name)
    channel.exchange_declare(name, "fanout")
    channel.publish(b"via source", exchange=source, mandatory=True)
    channel.expect("basic.return", exchange=source)
    channel.publish(b"direct", exchange=name, mandatory=True)
    channel.expect("basic.return", exchange=name)
    assert bodies(channel, queue) == []


@pytest.mark.rule("XC-6")
def test_only_bindings_from_an_exchange_are_a_use_of_it(
    channel: Channel, queue: str, unique: Any
) -> None:
    source, name = unique("x"), unique("x")
    for each in (source, name):
        channel.exchange_declare(each, "fanout")
    channel.exchange_bind(name, source)
    channel.exchange_delete(name, if_unused=True)
    assert not exists(channel, name)
    channel.queue_bind(queue, source)
    channel.send("exchange.delete", exchange=source, if_unused=True)
    channel.expect_close(
        406,
        starting(f"PRECONDITION_FAILED - exchange '{source}' in vhost '/' in use"),
        method="exchange.delete",
    )
    again = channel.reopen()
    again.queue_unbind(queue, source)
    again.exchange_delete(source, if_unused=True)
    assert not exists(again, source)


@pytest.mark.rule("XC-9", "PB-1")
def test_an_internal_exchange_serves_only_other_exchanges(
    channel: Channel, queue: str, unique: Any
) -> None:
    front, inner, behind = unique("x"), unique("x"), unique("x")
    channel.exchange_declare(inner, "fanout", internal=True)
    for each in (front, behind):
        channel.exchange_declare(each, "fanout")
    channel.exchange_bind(inner, front)
    channel.exchange_bind(behind, inner)
    channel.queue_bind(queue, behind)
    channel.publish(b"in", exchange=front)
    assert bodies(channel, queue) == [b"in"]
    channel.publish(b"no", exchange=inner)
    channel.expect_close(
        403,
        f"ACCESS_REFUSED - cannot publish to internal exchange '{inner}' in vhost '/'",
        method="basic.publish",
    )
    assert bodies(channel.reopen(), queue) == []


@pytest.mark.rule("XC-9", "EE-2")
def test_an_internal_exchange_as_alternate(channel: Channel, queue: str, unique: Any) -> None:
    front, inner = unique("x"), unique("x")
    channel.exchange_declare(inner, "fanout", internal=True)
    channel.exchange_declare(front, "direct", arguments={"alternate-exchange": inner})
    channel.queue_bind(queue, inner)
    channel.publish(b"x", exchange=front, routing_key="nobody")
    assert bodies(channel, queue) == [b"x"]


@pytest.mark.rule("XC-3", "XC-6")
def test_another_exchange_under_an_old_name(channel: Channel, queue: str, unique: Any) -> None:
    """Routes found before a deletion hold no longer, on this and every other channel."""
    name, other = unique("x"), channel.client.channel()
    channel.exchange_declare(name, "direct")
    channel.queue_bind(queue, name, "a")
    for each in (channel, other):
        each.publish(b"first", exchange=name, routing_key="a")
    channel.exchange_delete(name)
    channel.exchange_declare(name, "fanout")
    for each in (channel, other):
        each.publish(b"lost", exchange=name, routing_key="a")
        each.sync()
    channel.queue_bind(queue, name, "b")
    for each in (channel, other):
        each.publish(b"second", exchange=name, routing_key="a")
        each.sync()
    assert bodies(channel, queue) == [b"first", b"first", b"second", b"second"]
