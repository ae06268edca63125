"""pika's blocking connection: one connection and one channel per test, closed at its end."""

from collections.abc import Callable, Iterator
from typing import Any

import pika
import pika.exceptions
import pytest

from tests.interop.target import EXCHANGE_TYPES, MIB, pattern, until
from tests.support.broker import Broker


def parameters(broker: Broker, **changes: Any) -> Any:
    settings: dict[str, Any] = {"heartbeat": 60, "blocked_connection_timeout": 20, **changes}
    return pika.ConnectionParameters(broker.host, broker.port, **settings)


@pytest.fixture
def connection(broker: Broker) -> Iterator[Any]:
    link = pika.BlockingConnection(parameters(broker))
    yield link
    if link.is_open:
        link.close()


@pytest.fixture
def channel(connection: Any) -> Any:
    return connection.channel()


@pytest.fixture
def queue(channel: Any, name: str) -> str:
    channel.queue_declare(name, exclusive=True)
    return name


def pump(connection: Any, condition: Callable[[], object]) -> None:
    """Serve the connection until the condition holds."""

    def look() -> object:
        connection.process_data_events(time_limit=0.05)
        return condition()

    until(look)


def bodies(channel: Any, queue: str) -> list[bytes]:
    """Drain the queue by basic.get."""
    found: list[bytes] = []
    while True:
        method, _, body = channel.basic_get(queue, auto_ack=True)
        if method is None:
            return found
        found.append(body)


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


def test_fanout_copies_to_every_queue(channel: Any, name: str) -> None:
    channel.exchange_declare(name, "fanout", auto_delete=True)
    queues = [channel.queue_declare("", exclusive=True).method.queue for _ in range(3)]
    for queue in queues:
        channel.queue_bind(queue, name)
    channel.basic_publish(name, "ignored", b"copy")
    assert [bodies(channel, queue) for queue in queues] == [[b"copy"]] * 3


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


def test_consume_ack_leaves_nothing(connection: Any, channel: Any, queue: str) -> None:
    seen: list[tuple[int, bytes]] = []

    def on_message(where: Any, method: Any, _properties: Any, body: bytes) -> None:
        seen.append((method.delivery_tag, body))
        where.basic_ack(method.delivery_tag)

    for number in range(20):
        channel.basic_publish("", queue, b"%d" % number)
    channel.basic_consume(queue, on_message)
    pump(connection, lambda: len(seen) == 20)
    assert seen == [(number + 1, b"%d" % number) for number in range(20)]
    channel.close()
    assert connection.channel().queue_declare(queue, passive=True).method.message_count == 0


def test_unacknowledged_messages_return_in_order_when_the_channel_closes(
    connection: Any, channel: Any, queue: str
) -> None:
    for number in range(5):
        channel.basic_publish("", queue, b"%d" % number)
    for _ in range(3):
        channel.basic_get(queue)
    channel.close()
    second = connection.channel()
    redelivered = []
    for number in range(5):
        method, _, body = second.basic_get(queue, auto_ack=True)
        assert body == b"%d" % number
        redelivered.append(method.redelivered)
    assert redelivered == [True, True, True, False, False]


@pytest.mark.parametrize("how", ["nack", "reject"])
@pytest.mark.parametrize("requeue", [True, False])
def test_refused_message_goes_back_or_away(
    channel: Any, queue: str, how: str, requeue: bool
) -> None:
    channel.basic_publish("", queue, b"once")
    method, _, _ = channel.basic_get(queue)
    refuse = channel.basic_nack if how == "nack" else channel.basic_reject
    refuse(method.delivery_tag, requeue=requeue)
    again, _, body = channel.basic_get(queue, auto_ack=True)
    if requeue:
        assert (body, again.redelivered) == (b"once", True)
    else:
        assert again is None


def test_nack_multiple_covers_all_up_to_the_tag(channel: Any, queue: str) -> None:
    for number in range(4):
        channel.basic_publish("", queue, b"%d" % number)
    tags = [channel.basic_get(queue)[0].delivery_tag for _ in range(4)]
    channel.basic_nack(tags[2], multiple=True, requeue=True)
    assert bodies(channel, queue) == [b"0", b"1", b"2"]


def test_rejected_message_is_dead_lettered(channel: Any, name: str) -> None:
    dead = channel.queue_declare("", exclusive=True).method.queue
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    channel.queue_declare(name, exclusive=True, arguments=arguments)
    channel.basic_publish("", name, b"refused")
    method, _, _ = channel.basic_get(name)
    channel.basic_reject(method.delivery_tag, requeue=False)
    until(lambda: channel.queue_declare(dead, passive=True).method.message_count)
    method, properties, body = channel.basic_get(dead, auto_ack=True)
    assert body == b"refused"
    assert properties.headers["x-death"][0]["queue"] == name
    assert properties.headers["x-death"][0]["reason"] == "rejected"
    assert properties.headers["x-first-death-reason"] == "rejected"


def test_recover_requeues(connection: Any, channel: Any, queue: str) -> None:
    channel.basic_publish("", queue, b"again")
    channel.basic_get(queue)
    channel.basic_recover(requeue=True)
    method, _, body = channel.basic_get(queue, auto_ack=True)
    assert (body, method.redelivered) == (b"again", True)


def test_get_counts_what_remains_and_says_empty(channel: Any, queue: str) -> None:
    assert channel.basic_get(queue) == (None, None, None)
    for number in range(3):
        channel.basic_publish("", queue, b"%d" % number)
    counts = [channel.basic_get(queue, auto_ack=True)[0].message_count for _ in range(3)]
    assert counts == [2, 1, 0]


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


def test_full_queue_that_rejects_publishes_nacks(channel: Any, name: str) -> None:
    arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
    channel.queue_declare(name, exclusive=True, arguments=arguments)
    channel.confirm_delivery()
    channel.basic_publish("", name, b"fits")
    with pytest.raises(pika.exceptions.NackError):
        channel.basic_publish("", name, b"too many")
    assert bodies(channel, name) == [b"fits"]


def test_return_callback_without_confirms(connection: Any, channel: Any, name: str) -> None:
    returned: list[tuple[int, bytes]] = []
    channel.add_on_return_callback(
        lambda _channel, method, _properties, body: returned.append((method.reply_code, body))
    )
    channel.basic_publish("", name, b"back", mandatory=True)
    pump(connection, lambda: returned)
    assert returned == [(312, b"back")]


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


def test_transaction_rollback_drops_publishes(channel: Any, queue: str) -> None:
    channel.tx_select()
    channel.basic_publish("", queue, b"never")
    channel.tx_rollback()
    channel.basic_publish("", queue, b"kept")
    channel.tx_commit()
    assert channel.queue_declare(queue, passive=True).method.message_count == 1


def test_prefetch_bounds_what_is_in_flight(connection: Any, channel: Any, queue: str) -> None:
    tags: list[int] = []
    for number in range(10):
        channel.basic_publish("", queue, b"%d" % number)
    channel.basic_qos(prefetch_count=3)
    channel.basic_consume(queue, lambda _c, method, _p, _b: tags.append(method.delivery_tag))
    pump(connection, lambda: len(tags) == 3)
    connection.process_data_events(time_limit=0.3)
    assert tags == [1, 2, 3]
    channel.basic_ack(2, multiple=True)
    pump(connection, lambda: len(tags) == 5)
    connection.process_data_events(time_limit=0.3)
    assert tags == [1, 2, 3, 4, 5]


def test_server_cancels_consumer_of_a_deleted_queue(
    connection: Any, channel: Any, queue: str
) -> None:
    cancelled: list[str] = []
    channel.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
    tag = channel.basic_consume(queue, lambda *_: None)
    connection.channel().queue_delete(queue)
    pump(connection, lambda: cancelled)
    assert cancelled == [tag]
    assert channel.is_open


def test_client_cancels_and_the_queue_keeps_the_rest(
    connection: Any, channel: Any, queue: str
) -> None:
    tag = channel.basic_consume(queue, lambda *_: None)
    channel.basic_cancel(tag)
    channel.basic_publish("", queue, b"kept")
    connection.process_data_events(time_limit=0.1)
    assert bodies(channel, queue) == [b"kept"]


def test_consumer_generator_ends_on_inactivity(channel: Any, queue: str) -> None:
    for number in range(3):
        channel.basic_publish("", queue, b"%d" % number)
    seen = []
    for method, _, body in channel.consume(queue, inactivity_timeout=0.5):
        if method is None:
            break
        seen.append(body)
        channel.basic_ack(method.delivery_tag)
    channel.cancel()
    assert seen == [b"0", b"1", b"2"]


def test_exclusive_consumer_keeps_others_out(connection: Any, channel: Any, queue: str) -> None:
    channel.basic_consume(queue, lambda *_: None, exclusive=True)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refused:
        connection.channel().basic_consume(queue, lambda *_: None)
    assert refused.value.reply_code == 403


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


@pytest.mark.slow
@pytest.mark.parametrize("size", [0, 1, 131_064, 131_065, 10 * MIB])
def test_body_of_any_size_survives(channel: Any, queue: str, size: int) -> None:
    body = pattern(size)
    channel.confirm_delivery()
    channel.basic_publish("", queue, body)
    assert bodies(channel, queue) == [body]


def test_smallest_frames_carry_large_bodies(broker: Broker, name: str) -> None:
    with pika.BlockingConnection(parameters(broker, frame_max=4096)) as connection:
        channel = connection.channel()
        channel.queue_declare(name, exclusive=True)
        body = pattern(100_000)
        channel.basic_publish("", name, body)
        assert bodies(channel, name) == [body]


@pytest.mark.parametrize("wanted", [0, 5, 120])
def test_the_heartbeat_that_the_client_asks_for_is_taken(broker: Broker, wanted: int) -> None:
    with pika.BlockingConnection(parameters(broker, heartbeat=wanted)) as connection:
        assert connection._impl.params.heartbeat == wanted
        assert connection.channel().is_open


@pytest.mark.slow
def test_idle_connection_lives_by_heartbeats(broker: Broker, name: str) -> None:
    with pika.BlockingConnection(parameters(broker, heartbeat=1)) as connection:
        channel = connection.channel()
        connection.sleep(3.5)
        assert channel.queue_declare(name, exclusive=True).method.queue == name


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


def test_unknown_delivery_tag_closes_the_channel(connection: Any, channel: Any) -> None:
    channel.basic_ack(99)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
        channel.queue_declare("", exclusive=True)
    assert closed.value.reply_code == 406
    assert closed.value.reply_text == "PRECONDITION_FAILED - unknown delivery tag 99"


def test_publish_to_a_missing_exchange_closes_the_channel(channel: Any, name: str) -> None:
    channel.confirm_delivery()
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
        channel.basic_publish(name, "key", b"lost")
    assert closed.value.reply_code == 404


def test_exclusive_queue_is_locked_to_its_connection(
    broker: Broker, channel: Any, queue: str
) -> None:
    with (
        pika.BlockingConnection(parameters(broker)) as other,
        pytest.raises(pika.exceptions.ChannelClosedByBroker) as locked,
    ):
        other.channel().queue_declare(queue, passive=True)
    assert locked.value.reply_code == 405


def test_unknown_exchange_type_closes_the_connection(connection: Any, name: str) -> None:
    channel = connection.channel()
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        channel.exchange_declare(name, "no-such-type")
    assert closed.value.reply_code == 503
    assert connection.is_closed


def test_wrong_password_is_refused(broker: Broker) -> None:
    wrong = pika.PlainCredentials("guest", "wrong")
    with pytest.raises(pika.exceptions.ProbableAuthenticationError) as refused:
        pika.BlockingConnection(parameters(broker, credentials=wrong))
    assert "403" in str(refused.value)


def test_unknown_virtual_host_is_refused(broker: Broker, name: str) -> None:
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError) as refused:
        pika.BlockingConnection(parameters(broker, virtual_host=name))
    assert "530" in str(refused.value)


def test_many_channels_and_queues_on_one_connection(connection: Any, name: str) -> None:
    channels = [connection.channel() for _ in range(50)]
    for number, channel in enumerate(channels):
        channel.queue_declare(f"{name}-{number}", exclusive=True)
        channel.basic_publish("", f"{name}-{number}", b"%d" % number)
    for number, channel in enumerate(reversed(channels)):
        assert bodies(channel, f"{name}-{number}") == [b"%d" % number]
