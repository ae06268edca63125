"""Bindings: what makes two of them different, and how a message passes them (XC-8, EE-1)."""

from typing import Any

import pytest

from tests.conformance.test_exchange import bodies
from tests.support.channel import Channel
from tests.support.codec import Typed


@pytest.mark.rule("XC-8")
def test_a_message_comes_once_however_many_bindings_match(
    channel: Channel, queue: str, unique: Any
) -> None:
    """Trap 21."""
    topic = unique("x")
    channel.exchange_declare(topic, "topic")
    for key in ("#", "a.*", "*.b", "a.b", "a.#"):
        channel.queue_bind(queue, topic, key)
    channel.queue_bind(queue, topic, "a.b", arguments={"another": "binding"})
    channel.publish(b"x", exchange=topic, routing_key="a.b", headers={"CC": ["a.c", "a.b", "d"]})
    assert bodies(channel, queue) == [b"x"]


@pytest.mark.rule("XC-8")
def test_equal_keys_with_other_arguments_are_other_bindings(
    channel: Channel, queue: str, unique: Any
) -> None:
    name = unique("x")
    channel.exchange_declare(name, "direct")
    channel.queue_bind(queue, name, "key", arguments={"a": 1, "b": 2})
    channel.queue_bind(queue, name, "key")
    channel.queue_unbind(queue, name, "key")
    channel.publish(b"one left", exchange=name, routing_key="key")
    assert bodies(channel, queue) == [b"one left"]
    channel.queue_unbind(queue, name, "key", arguments={"a": 1})
    channel.publish(b"still", exchange=name, routing_key="key")
    assert bodies(channel, queue) == [b"still"]
    channel.queue_unbind(queue, name, "key", arguments={"b": 2, "a": 1})
    channel.publish(b"gone", exchange=name, routing_key="key")
    assert bodies(channel, queue) == []


@pytest.mark.rule("XC-8")
def test_the_order_of_arguments_makes_no_other_binding(
    channel: Channel, queue: str, unique: Any
) -> None:
    name = unique("x")
    channel.exchange_declare(name, "direct", auto_delete=True)
    channel.queue_bind(queue, name, "key", arguments={"a": "x", "b": "y"})
    channel.queue_bind(queue, name, "key", arguments={"b": "y", "a": "x"})
    channel.queue_unbind(queue, name, "key", arguments={"a": "x", "b": "y"})
    channel.send("exchange.declare", exchange=name, passive=True)
    channel.expect_close(404, f"NOT_FOUND - no exchange '{name}' in vhost '/'")


@pytest.mark.rule("XC-8")
def test_unbind_takes_one_of_several_away(channel: Channel, queue: str, unique: Any) -> None:
    name = unique("x")
    channel.exchange_declare(name, "direct")
    for key in ("a", "b", ""):
        channel.queue_bind(queue, name, key)
    channel.queue_unbind(queue, name, "b")
    for key in ("a", "b", ""):
        channel.publish(key.encode(), exchange=name, routing_key=key)
    assert bodies(channel, queue) == [b"a", b""]


@pytest.mark.rule("XC-8", "EE-1")
def test_an_exchange_bound_and_unbound(channel: Channel, queue: str, unique: Any) -> None:
    source, target = unique("x"), unique("x")
    channel.exchange_declare(source, "direct")
    channel.exchange_declare(target, "fanout")
    channel.queue_bind(queue, target)
    channel.exchange_bind(target, source, "k")
    channel.exchange_bind(target, source, "k", nowait=True)
    channel.publish(b"bound", exchange=source, routing_key="k")
    channel.publish(b"other key", exchange=source, routing_key="l")
    reply = channel.exchange_unbind(target, source, "k")
    assert reply.name == "exchange.unbind-ok"
    channel.publish(b"unbound", exchange=source, routing_key="k")
    assert bodies(channel, queue) == [b"bound"]


@pytest.mark.rule("EE-1")
def test_a_cycle_of_exchanges_is_harmless(channel: Channel, queue: str, unique: Any) -> None:
    ring = [unique("x") for _ in range(4)]
    for name in ring:
        channel.exchange_declare(name, "fanout")
        channel.queue_bind(queue, name)
    for place, name in enumerate(ring):
        channel.exchange_bind(name, ring[place - 1])
        channel.exchange_bind(name, name)
    channel.publish(b"round", exchange=ring[0])
    assert bodies(channel, queue) == [b"round"]


@pytest.mark.rule("EE-1")
def test_a_cycle_without_a_queue_is_no_route(channel: Channel, unique: Any) -> None:
    one, two = unique("x"), unique("x")
    channel.exchange_declare(one, "fanout")
    channel.exchange_declare(two, "fanout")
    channel.exchange_bind(one, two)
    channel.exchange_bind(two, one)
    channel.publish(b"round", exchange=one, mandatory=True)
    channel.expect("basic.return", reply_code=312, exchange=one)


@pytest.mark.rule("EE-1")
def test_every_exchange_on_the_way_sees_the_first_keys_and_headers(
    channel: Channel, unique: Any
) -> None:
    """direct -> headers -> topic -> queue; the binding keys on the way change nothing."""
    direct, headers, topic = unique("x"), unique("x"), unique("x")
    channel.exchange_declare(direct, "direct")
    channel.exchange_declare(headers, "headers")
    channel.exchange_declare(topic, "topic")
    by_key, by_copy, wrong = (channel.queue_declare(exclusive=True).queue for _ in range(3))
    channel.exchange_bind(headers, direct, "a.b")
    channel.exchange_bind(topic, headers, "c.d", arguments={"colour": "red"})
    channel.queue_bind(by_key, topic, "a.*")
    channel.queue_bind(by_copy, topic, "copy.*")
    channel.queue_bind(wrong, topic, "c.d")
    content = {"colour": "red", "CC": ["copy.1"]}
    channel.publish(b"red", exchange=direct, routing_key="a.b", headers=content)
    channel.publish(b"blue", exchange=direct, routing_key="a.b", headers={"colour": "blue"})
    delivery = channel.get(by_key)
    assert (delivery.body, delivery.exchange, delivery.routing_key) == (b"red", direct, "a.b")
    assert bodies(channel, by_key) == []
    assert bodies(channel, by_copy) == [b"red"]
    assert bodies(channel, wrong) == []


@pytest.mark.rule("EE-1", "XC-8")
def test_many_ways_to_one_queue_are_one_delivery(channel: Channel, queue: str, unique: Any) -> None:
    source, left, right, end = (unique("x") for _ in range(4))
    for name in (source, left, right, end):
        channel.exchange_declare(name, "fanout")
    for way in (left, right):
        channel.exchange_bind(way, source)
        channel.exchange_bind(end, way)
        channel.queue_bind(queue, way)
    channel.queue_bind(queue, end)
    channel.queue_bind(queue, source)
    channel.publish(b"x", exchange=source)
    assert bodies(channel, queue) == [b"x"]


@pytest.mark.rule("EE-1", "PB-6")
def test_a_change_behind_another_exchange_holds_for_the_next_message(
    channel: Channel, queue: str, unique: Any
) -> None:
    source, target = unique("x"), unique("x")
    channel.exchange_declare(source, "fanout")
    channel.exchange_declare(target, "fanout")
    channel.exchange_bind(target, source)
    for number in range(6):
        channel.publish(b"%d" % number, exchange=source)
        change = channel.queue_unbind if number % 2 else channel.queue_bind
        change(queue, target)
    assert bodies(channel, queue) == [b"1", b"3", b"5"]


@pytest.mark.rule("XC-8", "QD-8")
def test_bindings_of_a_deleted_queue_do_not_come_back(channel: Channel, unique: Any) -> None:
    name = unique("q")
    channel.queue_declare(name, exclusive=True)
    channel.queue_bind(name, "amq.direct", name)
    channel.publish(b"first", exchange="amq.direct", routing_key=name)
    assert channel.queue_delete(name).message_count == 1
    channel.queue_declare(name, exclusive=True)
    channel.publish(b"second", exchange="amq.direct", routing_key=name, mandatory=True)
    channel.expect("basic.return", routing_key=name)


@pytest.mark.rule("XC-8")
def test_arguments_differ_by_the_kind_of_their_value(
    channel: Channel, queue: str, unique: Any
) -> None:
    name = unique("x")
    channel.exchange_declare(name, "fanout")
    channel.queue_bind(queue, name, arguments={"a": "1"})
    channel.queue_unbind(queue, name, arguments={"a": Typed("I", 1)})
    channel.publish(b"x", exchange=name)
    assert bodies(channel, queue) == [b"x"]
