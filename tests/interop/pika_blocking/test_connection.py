"""Connections: negotiation, heartbeats, and how errors end a channel or all of it."""

from collections.abc import Callable
from typing import Any

import pika
import pika.exceptions
import pytest

from tests.interop.pika_blocking.driving import bodies, parameters
from tests.support.broker import Broker


def test_connection_and_channels_open_and_close(connection: Any) -> None:
    first, second = connection.channel(), connection.channel()
    assert (first.channel_number, second.channel_number) == (1, 2)
    first.close()
    assert first.is_closed
    assert second.is_open
    assert connection.channel(1).is_open
    connection.close()
    assert connection.is_closed
    assert second.is_closed


def test_server_announces_the_capabilities_that_pika_asks_for(connection: Any) -> None:
    assert connection.basic_nack_supported
    assert connection.consumer_cancel_notify_supported
    assert connection.exchange_exchange_bindings_supported
    assert connection.publisher_confirms_supported


@pytest.mark.parametrize("wanted", [0, 5, 120])
def test_the_heartbeat_that_the_client_asks_for_is_taken(broker: Broker, wanted: int) -> None:
    with pika.BlockingConnection(parameters(broker, heartbeat=wanted)) as connection:
        assert connection._impl.params.heartbeat == wanted
        assert connection.channel().is_open


@pytest.mark.rule("HT-1")
@pytest.mark.slow
def test_idle_connection_lives_by_heartbeats(broker: Broker, name: str) -> None:
    with pika.BlockingConnection(parameters(broker, heartbeat=1)) as connection:
        channel = connection.channel()
        connection.sleep(3.5)
        assert channel.queue_declare(name, exclusive=True).method.queue == name


@pytest.mark.rule("AU-3")
def test_update_secret_is_accepted(connection: Any, channel: Any, queue: str) -> None:
    connection.update_secret("guest", "renewed")
    channel.basic_publish("", queue, b"after")
    assert bodies(channel, queue) == [b"after"]


def test_blocked_callbacks_register_and_stay_silent(
    connection: Any, channel: Any, queue: str
) -> None:
    calls: list[object] = []
    connection.add_on_connection_blocked_callback(lambda *what: calls.append(what))
    connection.add_on_connection_unblocked_callback(lambda *what: calls.append(what))
    channel.basic_publish("", queue, b"flows")
    assert bodies(channel, queue) == [b"flows"]
    assert calls == []


CHANNEL_ERRORS: list[tuple[int, str, Callable[[Any, str], object]]] = [
    (404, "no queue", lambda channel, name: channel.queue_declare(name, passive=True)),
    (404, "no queue", lambda channel, name: channel.basic_get(name)),
    (404, "no queue", lambda channel, name: channel.basic_consume(name, lambda *_: None)),
    (404, "no exchange", lambda channel, name: channel.exchange_declare(name, passive=True)),
    (
        404,
        "no exchange",
        lambda channel, name: channel.queue_bind(
            channel.queue_declare("", exclusive=True).method.queue, name
        ),
    ),
    (403, "not allowed", lambda channel, _: channel.exchange_delete("amq.direct")),
    (403, "reserved prefix", lambda channel, name: channel.queue_declare("amq." + name)),
]


@pytest.mark.rule("EX-2")
@pytest.mark.parametrize(("code", "text", "act"), CHANNEL_ERRORS)
def test_channel_error_closes_the_channel_only(
    connection: Any, name: str, code: int, text: str, act: Callable[[Any, str], object]
) -> None:
    channel = connection.channel()
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
        act(channel, name)
    assert closed.value.reply_code == code
    assert text in closed.value.reply_text
    assert connection.is_open
    assert connection.channel().is_open


@pytest.mark.rule("AK-1")
def test_unknown_delivery_tag_closes_the_channel(connection: Any, channel: Any) -> None:
    channel.basic_ack(99)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
        channel.queue_declare("", exclusive=True)
    assert closed.value.reply_code == 406
    assert closed.value.reply_text == "PRECONDITION_FAILED - unknown delivery tag 99"


@pytest.mark.rule("EX-3")
def test_unknown_exchange_type_closes_the_connection(connection: Any, name: str) -> None:
    channel = connection.channel()
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        channel.exchange_declare(name, "no-such-type")
    assert closed.value.reply_code == 503
    assert connection.is_closed


@pytest.mark.rule("AU-1")
def test_wrong_password_is_refused(broker: Broker) -> None:
    wrong = pika.PlainCredentials("guest", "wrong")
    with pytest.raises(pika.exceptions.ProbableAuthenticationError) as refused:
        pika.BlockingConnection(parameters(broker, credentials=wrong))
    assert "403" in str(refused.value)


@pytest.mark.rule("VH-1")
def test_unknown_virtual_host_is_refused(broker: Broker, name: str) -> None:
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError) as refused:
        pika.BlockingConnection(parameters(broker, virtual_host=name))
    assert "530" in str(refused.value)
