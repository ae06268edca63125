"""Exchanges, queues and bindings as pika declares them."""

from typing import Any

import pika
import pika.exceptions
import pytest

from tests.interop.pika_blocking.driving import bodies, parameters
from tests.interop.target import EXCHANGE_TYPES
from tests.support.broker import Broker


@pytest.mark.rule("XC-3")
@pytest.mark.parametrize("kind", EXCHANGE_TYPES)
@pytest.mark.parametrize("durable", [True, False])
def test_exchange_is_declared_found_and_deleted(
    connection: Any, channel: Any, name: str, kind: str, durable: bool
) -> None:
    channel.exchange_declare(name, kind, durable=durable)
    channel.exchange_declare(name, kind, durable=durable)
    channel.exchange_declare(name, passive=True)
    channel.exchange_delete(name)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as gone:
        channel.exchange_declare(name, passive=True)
    assert gone.value.reply_code == 404
    assert connection.is_open


@pytest.mark.parametrize(
    ("kind", "binding", "hit", "miss"),
    [
        ("direct", "red", "red", "red.green"),
        ("topic", "*.green.#", "red.green", "green.red"),
        ("topic", "red.*", "red.green", "red.green.blue"),
    ],
)
def test_routing_key_decides(
    channel: Any, name: str, queue: str, kind: str, binding: str, hit: str, miss: str
) -> None:
    channel.exchange_declare(name, kind, auto_delete=True)
    channel.queue_bind(queue, name, binding)
    channel.basic_publish(name, miss, b"miss")
    channel.basic_publish(name, hit, b"hit")
    assert bodies(channel, queue) == [b"hit"]


@pytest.mark.rule("XC-8")
def test_fanout_copies_to_every_queue(channel: Any, name: str) -> None:
    channel.exchange_declare(name, "fanout", auto_delete=True)
    queues = [channel.queue_declare("", exclusive=True).method.queue for _ in range(3)]
    for queue in queues:
        channel.queue_bind(queue, name)
    channel.basic_publish(name, "ignored", b"copy")
    assert [bodies(channel, queue) for queue in queues] == [[b"copy"]] * 3


@pytest.mark.rule("HD-1")
@pytest.mark.parametrize(
    ("match", "headers", "routed"),
    [
        ("all", {"a": 1, "b": "two"}, True),
        ("all", {"a": 1}, False),
        ("any", {"a": 1}, True),
        ("any", {"a": 2, "c": "two"}, False),
    ],
)
def test_headers_exchange_matches(
    channel: Any, name: str, queue: str, match: str, headers: dict[str, Any], routed: bool
) -> None:
    channel.exchange_declare(name, "headers", auto_delete=True)
    channel.queue_bind(queue, name, arguments={"x-match": match, "a": 1, "b": "two"})
    channel.basic_publish(name, "", b"x", pika.BasicProperties(headers=headers))
    assert bodies(channel, queue) == ([b"x"] if routed else [])


@pytest.mark.rule("EE-1")
def test_exchange_to_exchange_binding(channel: Any, name: str, queue: str) -> None:
    source, target = f"{name}.source", f"{name}.target"
    channel.exchange_declare(source, "topic", auto_delete=True)
    channel.exchange_declare(target, "direct", auto_delete=True)
    channel.exchange_bind(target, source, "kept.*")
    channel.queue_bind(queue, target, "kept.one")
    channel.exchange_bind(target, source, "other")
    for key in ("kept.one", "kept.two", "lost.one"):
        channel.basic_publish(source, key, key.encode())
    assert bodies(channel, queue) == [b"kept.one"]
    channel.exchange_unbind(target, source, "kept.*")
    channel.basic_publish(source, "kept.one", b"after")
    assert bodies(channel, queue) == []


@pytest.mark.rule("XC-5")
def test_auto_delete_exchange_goes_with_its_last_binding(channel: Any, name: str) -> None:
    source, target = f"{name}.source", f"{name}.target"
    channel.exchange_declare(source, "topic", auto_delete=True)
    channel.exchange_declare(target, "direct", auto_delete=True)
    channel.exchange_bind(target, source, "one")
    channel.exchange_bind(target, source, "two")
    channel.exchange_unbind(target, source, "one")
    channel.exchange_declare(source, passive=True)
    channel.exchange_unbind(target, source, "two")
    channel.exchange_delete(target)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as gone:
        channel.exchange_declare(source, passive=True)
    assert gone.value.reply_code == 404


@pytest.mark.rule("XC-3", "QD-1")
def test_redeclaring_with_another_type_or_flag_is_refused(connection: Any, name: str) -> None:
    setup = connection.channel()
    setup.exchange_declare(name, "direct", auto_delete=True)
    setup.queue_declare(name, exclusive=True)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as exchange:
        connection.channel().exchange_declare(name, "fanout", auto_delete=True)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as queue:
        connection.channel().queue_declare(name, exclusive=True, auto_delete=True)
    setup.exchange_delete(name)
    assert exchange.value.reply_code == queue.value.reply_code == 406
    assert exchange.value.reply_text.startswith("PRECONDITION_FAILED - inequivalent arg 'type'")
    assert queue.value.reply_text.startswith("PRECONDITION_FAILED - inequivalent arg 'auto_delete'")


@pytest.mark.rule("QD-2")
def test_exclusive_queue_is_locked_to_its_connection(
    broker: Broker, channel: Any, queue: str
) -> None:
    with (
        pika.BlockingConnection(parameters(broker)) as other,
        pytest.raises(pika.exceptions.ChannelClosedByBroker) as locked,
    ):
        other.channel().queue_declare(queue, passive=True)
    assert locked.value.reply_code == 405


def test_many_channels_and_queues_on_one_connection(connection: Any, name: str) -> None:
    channels = [connection.channel() for _ in range(50)]
    for number, channel in enumerate(channels):
        channel.queue_declare(f"{name}-{number}", exclusive=True)
        channel.basic_publish("", f"{name}-{number}", b"%d" % number)
    for number, channel in enumerate(reversed(channels)):
        assert bodies(channel, f"{name}-{number}") == [b"%d" % number]
