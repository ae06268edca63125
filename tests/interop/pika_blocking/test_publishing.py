"""What pika publishes: properties, bodies, confirms, returns and transactions."""

from typing import Any

import pika
import pika.exceptions
import pytest

from tests.interop.pika_blocking.driving import bodies, parameters, pump
from tests.interop.target import MIB, pattern, until
from tests.support.broker import Broker


@pytest.mark.rule("WI-4", "WI-5")
def test_properties_and_header_types_survive(channel: Any, queue: str) -> None:
    sent = pika.BasicProperties(
        content_type="application/json",
        content_encoding="utf-8",
        headers={
            "text": "é",
            "number": -5,
            "big": 1 << 40,
            "yes": True,
            "list": [1, "two"],
            "nested": {"deep": {"deeper": 1}},
            "nothing": None,
        },
        delivery_mode=2,
        priority=7,
        correlation_id="c-1",
        reply_to="answers",
        expiration="60000",
        message_id="m-1",
        timestamp=1_700_000_000,
        type="greeting",
        user_id="guest",
        app_id="interop",
    )
    channel.basic_publish("", queue, b"body", sent)
    _, got, body = channel.basic_get(queue, auto_ack=True)
    assert got == sent
    assert body == b"body"


@pytest.mark.rule("CO-2", "PB-3")
def test_confirms_accept_and_mandatory_returns(channel: Any, name: str, queue: str) -> None:
    channel.confirm_delivery()
    channel.basic_publish("", queue, b"routed", mandatory=True)
    channel.basic_publish("", name + "-nowhere", b"dropped")
    with pytest.raises(pika.exceptions.UnroutableError) as unroutable:
        channel.basic_publish("", name + "-nowhere", b"returned", mandatory=True)
    (returned,) = unroutable.value.messages
    assert (returned.method.reply_code, returned.method.reply_text) == (312, "NO_ROUTE")
    assert returned.method.routing_key == name + "-nowhere"
    assert returned.body == b"returned"
    assert bodies(channel, queue) == [b"routed"]


@pytest.mark.rule("LE-3", "CO-3")
def test_full_queue_that_rejects_publishes_nacks(channel: Any, name: str) -> None:
    arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
    channel.queue_declare(name, exclusive=True, arguments=arguments)
    channel.confirm_delivery()
    channel.basic_publish("", name, b"fits")
    with pytest.raises(pika.exceptions.NackError):
        channel.basic_publish("", name, b"too many")
    assert bodies(channel, name) == [b"fits"]


@pytest.mark.rule("PB-3")
def test_return_callback_without_confirms(connection: Any, channel: Any, name: str) -> None:
    returned: list[tuple[int, bytes]] = []
    channel.add_on_return_callback(
        lambda _channel, method, _properties, body: returned.append((method.reply_code, body))
    )
    channel.basic_publish("", name, b"back", mandatory=True)
    pump(connection, lambda: returned)
    assert returned == [(312, b"back")]


@pytest.mark.rule("PB-1")
def test_publish_to_a_missing_exchange_closes_the_channel(channel: Any, name: str) -> None:
    channel.confirm_delivery()
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
        channel.basic_publish(name, "key", b"lost")
    assert closed.value.reply_code == 404


@pytest.mark.rule("TX-1", "TX-4")
def test_transaction_commits_publishes_and_acks(connection: Any, queue: str) -> None:
    work, look = connection.channel(), connection.channel()
    work.tx_select()
    work.basic_publish("", queue, b"first")
    assert bodies(look, queue) == []
    work.tx_commit()
    method, _, body = work.basic_get(queue)
    assert body == b"first"
    work.basic_ack(method.delivery_tag)
    work.tx_rollback()
    work.close()
    until(lambda: look.queue_declare(queue, passive=True).method.message_count)
    assert bodies(look, queue) == [b"first"]


@pytest.mark.rule("TX-4")
def test_transaction_rollback_drops_publishes(channel: Any, queue: str) -> None:
    channel.tx_select()
    channel.basic_publish("", queue, b"never")
    channel.tx_rollback()
    channel.basic_publish("", queue, b"kept")
    channel.tx_commit()
    assert channel.queue_declare(queue, passive=True).method.message_count == 1


@pytest.mark.rule("DR-1", "DR-2", "DR-3")
def test_direct_reply_to_answers_a_request(connection: Any, channel: Any, queue: str) -> None:
    answers: list[bytes] = []
    pseudo = "amq.rabbitmq.reply-to"
    channel.basic_consume(pseudo, lambda _c, _m, _p, body: answers.append(body), auto_ack=True)
    channel.basic_publish("", queue, b"ask", pika.BasicProperties(reply_to=pseudo))
    server = connection.channel()
    _, request, _ = server.basic_get(queue, auto_ack=True)
    assert request.reply_to.startswith(pseudo + ".")
    server.basic_publish("", request.reply_to, b"answer")
    pump(connection, lambda: answers)
    assert answers == [b"answer"]


@pytest.mark.rule("WI-2")
@pytest.mark.slow
@pytest.mark.parametrize("size", [0, 1, 131_064, 131_065, 10 * MIB])
def test_body_of_any_size_survives(channel: Any, queue: str, size: int) -> None:
    body = pattern(size)
    channel.confirm_delivery()
    channel.basic_publish("", queue, body)
    assert bodies(channel, queue) == [body]


@pytest.mark.rule("WI-2")
def test_smallest_frames_carry_large_bodies(broker: Broker, name: str) -> None:
    with pika.BlockingConnection(parameters(broker, frame_max=4096)) as connection:
        channel = connection.channel()
        channel.queue_declare(name, exclusive=True)
        body = pattern(100_000)
        channel.basic_publish("", name, body)
        assert bodies(channel, name) == [body]
