"""py-amqp, the client underneath kombu and Celery."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import amqp  # type: ignore[import-untyped]
import pytest

from tests.interop.target import EXCHANGE_TYPES, MIB, pattern, until
from tests.support.broker import Broker
from tests.support.fixtures import StartBroker


def connect(broker: Broker, **options: Any) -> Any:
    settings = {"connect_timeout": 10, "read_timeout": 20, "heartbeat": 60, **options}
    connection = amqp.Connection(f"{broker.host}:{broker.port}", **settings)
    connection.connect()
    return connection


@pytest.fixture
def connection(broker: Broker) -> Iterator[Any]:
    link = connect(broker)
    yield link
    if link.connected:
        link.close()
    else:
        link.collect()


@pytest.fixture
def channel(connection: Any) -> Any:
    return connection.channel()


@pytest.fixture
def queue(channel: Any, name: str) -> str:
    channel.queue_declare(name, exclusive=True, auto_delete=False)
    return name


def drain(connection: Any, condition: Callable[[], object]) -> None:
    """Read from the connection until the condition holds."""

    def look() -> object:
        if not condition():
            connection.drain_events(timeout=10)
        return condition()

    until(look)


def bodies(channel: Any, queue: str) -> list[str | bytes]:
    found: list[str | bytes] = []
    while (message := channel.basic_get(queue, no_ack=True)) is not None:
        found.append(message.body)
    return found


def test_connection_and_channels_open_and_close(connection: Any) -> None:
    first, second = connection.channel(), connection.channel()
    assert (first.channel_id, second.channel_id) == (1, 2)
    first.close()
    assert not first.is_open
    assert second.is_open
    connection.close()
    assert not connection.connected


def test_server_properties_and_capabilities(connection: Any) -> None:
    assert connection.server_properties["product"]
    assert connection.server_capabilities["consumer_cancel_notify"] is True
    assert connection.server_capabilities["connection.blocked"] is True
    assert connection.server_capabilities["publisher_confirms"] is True


@pytest.mark.rule("XC-3")
@pytest.mark.parametrize("kind", EXCHANGE_TYPES)
def test_exchange_is_declared_found_and_deleted(channel: Any, name: str, kind: str) -> None:
    channel.exchange_declare(name, kind, durable=True, auto_delete=False)
    channel.exchange_declare(name, kind, durable=True, auto_delete=False)
    channel.exchange_declare(name, kind, passive=True)
    channel.exchange_delete(name)
    with pytest.raises(amqp.NotFound):
        channel.exchange_declare(name, kind, passive=True)


def test_publish_consume_ack(connection: Any, channel: Any, queue: str) -> None:
    seen: list[Any] = []
    channel.basic_consume(queue, callback=seen.append)
    for number in range(10):
        channel.basic_publish(
            amqp.Message(str(number), application_headers={"n": number, "list": [1, None, "x"]}),
            routing_key=queue,
        )
    drain(connection, lambda: len(seen) == 10)
    for message in seen:
        channel.basic_ack(message.delivery_tag)
    assert [message.body for message in seen] == [str(number) for number in range(10)]
    assert seen[3].properties["application_headers"] == {"n": 3, "list": [1, None, "x"]}
    assert [message.delivery_tag for message in seen] == list(range(1, 11))
    channel.close()
    assert connection.channel().queue_declare(queue, passive=True).message_count == 0


def test_reject_requeues_or_drops(channel: Any, queue: str) -> None:
    channel.basic_publish(amqp.Message("again"), routing_key=queue)
    first = channel.basic_get(queue)
    channel.basic_reject(first.delivery_tag, requeue=True)
    second = channel.basic_get(queue)
    assert (second.body, second.delivery_info["redelivered"]) == ("again", True)
    channel.basic_reject(second.delivery_tag, requeue=False)
    assert channel.basic_get(queue) is None


@pytest.mark.rule("RC-1")
def test_recover_requeues_on_the_channel(connection: Any, channel: Any, queue: str) -> None:
    seen: list[Any] = []
    channel.basic_publish(amqp.Message("again"), routing_key=queue)
    channel.basic_consume(queue, callback=seen.append)
    drain(connection, lambda: len(seen) == 1)
    channel.basic_recover(requeue=True)
    drain(connection, lambda: len(seen) == 2)
    assert [message.delivery_info["redelivered"] for message in seen] == [False, True]


def test_confirmed_publish_waits_for_the_broker(broker: Broker, name: str) -> None:
    connection = connect(broker, confirm_publish=True)
    channel = connection.channel()
    channel.queue_declare(name, exclusive=True, auto_delete=False)
    for number in range(5):
        channel.basic_publish(amqp.Message(str(number)), routing_key=name)
    assert bodies(channel, name) == ["0", "1", "2", "3", "4"]
    connection.close()


@pytest.mark.rule("PB-3")
def test_mandatory_publish_to_nowhere_is_returned(connection: Any, channel: Any, name: str) -> None:
    returned: list[tuple[Any, ...]] = []
    channel.events["basic_return"].add(
        lambda _error, exchange, key, message: returned.append((exchange, key, message.body))
    )
    channel.basic_publish(amqp.Message("back"), routing_key=name, mandatory=True)
    drain(connection, lambda: returned)
    assert returned == [("", name, "back")]


@pytest.mark.rule("TX-1", "TX-4")
def test_transaction_commits_and_rolls_back(connection: Any, channel: Any, queue: str) -> None:
    channel.tx_select()
    channel.basic_publish(amqp.Message("never"), routing_key=queue)
    channel.tx_rollback()
    channel.basic_publish(amqp.Message("kept"), routing_key=queue)
    other = connection.channel()
    assert other.basic_get(queue) is None
    channel.tx_commit()
    assert bodies(other, queue) == ["kept"]


@pytest.mark.rule("GT-1")
def test_get_counts_what_remains(channel: Any, queue: str) -> None:
    for _ in range(3):
        channel.basic_publish(amqp.Message("x"), routing_key=queue)
    counts = [channel.basic_get(queue).delivery_info["message_count"] for _ in range(3)]
    assert counts == [2, 1, 0]
    assert channel.basic_get(queue) is None


@pytest.mark.rule("QO-1")
def test_prefetch_bounds_what_is_in_flight(connection: Any, channel: Any, queue: str) -> None:
    seen: list[Any] = []
    for number in range(5):
        channel.basic_publish(amqp.Message(str(number)), routing_key=queue)
    channel.basic_qos(0, 2, False)
    channel.basic_consume(queue, callback=seen.append)
    drain(connection, lambda: len(seen) == 2)
    until(lambda: channel.queue_declare(queue, passive=True).message_count == 3)
    assert len(seen) == 2
    channel.basic_ack(2, multiple=True)
    drain(connection, lambda: len(seen) == 4)
    assert [message.body for message in seen] == ["0", "1", "2", "3"]


@pytest.mark.rule("CS-5")
def test_server_cancels_consumer_of_a_deleted_queue(
    connection: Any, channel: Any, queue: str
) -> None:
    cancelled: list[str] = []
    channel.basic_consume(
        queue, consumer_tag="watched", callback=lambda _: None, on_cancel=cancelled.append
    )
    connection.channel().queue_delete(queue)
    drain(connection, lambda: cancelled)
    assert cancelled == ["watched"]
    assert channel.is_open


@pytest.mark.rule("CS-5", "QD-8")
def test_deleting_channel_gets_delete_ok_before_its_consumer_is_cancelled(
    connection: Any, channel: Any, queue: str
) -> None:
    """kombu deletes a queue that it still consumes from, and counts on this order."""
    channel.basic_consume(queue, consumer_tag="own", callback=lambda _: None)
    assert channel.queue_delete(queue) == 0
    with pytest.raises(amqp.ConsumerCancelled, match="own"):
        connection.drain_events(timeout=10)
    assert channel.is_open


@pytest.mark.rule("EE-1")
def test_exchange_to_exchange_binding(channel: Any, name: str, queue: str) -> None:
    source, target = f"{name}.source", f"{name}.target"
    channel.exchange_declare(source, "topic", auto_delete=True)
    channel.exchange_declare(target, "fanout", auto_delete=True)
    channel.exchange_bind(target, source, "kept.#")
    channel.queue_bind(queue, target)
    for key in ("kept.one", "lost.one"):
        channel.basic_publish(amqp.Message(key), source, key)
    assert bodies(channel, queue) == ["kept.one"]
    channel.exchange_unbind(target, source, "kept.#")
    with pytest.raises(amqp.NotFound):
        channel.exchange_declare(source, "topic", passive=True)


@pytest.mark.rule("WI-2")
@pytest.mark.slow
def test_large_body_survives(channel: Any, queue: str) -> None:
    body = pattern(10 * MIB)
    channel.basic_publish(amqp.Message(body), routing_key=queue)
    assert bodies(channel, queue) == [body]


@pytest.mark.rule("HT-1")
@pytest.mark.slow
def test_idle_connection_lives_by_heartbeats(broker: Broker, name: str) -> None:
    connection = connect(broker, heartbeat=1)
    assert connection.heartbeat == 1
    end = time.monotonic() + 3.5
    while time.monotonic() < end:
        connection.heartbeat_tick()
        try:
            connection.drain_events(timeout=0.2)
        except TimeoutError:
            continue
    assert connection.channel().queue_declare(name, exclusive=True).queue == name
    connection.close()


@pytest.mark.rule("HT-1")
@pytest.mark.slow
def test_silent_client_is_dropped_after_missed_heartbeats(broker: Broker) -> None:
    connection = connect(broker, heartbeat=1)
    start = time.monotonic()
    with pytest.raises(OSError, match=r"closed|reset"):
        drain(connection, lambda: False)
    assert 1.5 < time.monotonic() - start < 8
    connection.collect()


def test_blocked_callbacks_register_and_stay_silent(broker: Broker, name: str) -> None:
    calls: list[object] = []
    connection = connect(broker, on_blocked=calls.append, on_unblocked=lambda: calls.append(None))
    assert connection.client_properties["capabilities"]["connection.blocked"] is True
    channel = connection.channel()
    channel.queue_declare(name, exclusive=True, auto_delete=False)
    channel.basic_publish(amqp.Message("flows"), routing_key=name)
    assert bodies(channel, name) == ["flows"]
    assert calls == []
    connection.close()


@pytest.mark.slow
@pytest.mark.rule("NT-6", "NT-3")
def test_blocked_callbacks_hear_of_an_alarm(start_broker: StartBroker, name: str) -> None:
    broker = start_broker({"disk_free_limit.absolute": 1 << 60})
    calls: list[object] = []
    connection = connect(broker, on_blocked=calls.append, on_unblocked=lambda: calls.append(None))
    channel = connection.channel()
    channel.queue_declare(name, exclusive=True, auto_delete=False)
    channel.basic_publish(amqp.Message("waits"), routing_key=name)
    drain(connection, lambda: calls)
    # The library does not hand the reason on.
    assert [type(call) for call in calls] == [str]
    broker.control("set_disk_free_limit", absolute=0)
    drain(connection, lambda: len(calls) > 1)
    assert calls[1:] == [None]
    assert bodies(channel, name) == ["waits"]
    connection.close()


@pytest.mark.rule("EX-2")
def test_channel_errors_leave_the_connection_open(
    broker: Broker, connection: Any, queue: str, name: str
) -> None:
    with pytest.raises(amqp.NotFound, match="no queue"):
        connection.channel().queue_declare(name + "-none", passive=True)
    with pytest.raises(amqp.PreconditionFailed, match="inequivalent arg 'auto_delete'"):
        connection.channel().queue_declare(queue, exclusive=True, auto_delete=True)
    with pytest.raises(amqp.AccessRefused):
        connection.channel().queue_declare("amq." + name)
    other = connect(broker)
    with pytest.raises(amqp.ResourceLocked):
        other.channel().queue_declare(queue, passive=True)
    other.close()
    assert connection.channel().is_open


@pytest.mark.rule("EX-3")
def test_unknown_exchange_type_closes_the_connection(connection: Any, name: str) -> None:
    with pytest.raises(amqp.InvalidCommand) as closed:
        connection.channel().exchange_declare(name, "no-such-type")
    assert closed.value.reply_code == 503
    assert not connection.connected


@pytest.mark.rule("PB-7")
def test_immediate_publish_closes_the_connection(connection: Any, channel: Any, queue: str) -> None:
    channel.basic_publish(amqp.Message("x"), routing_key=queue, immediate=True)
    with pytest.raises(amqp.exceptions.AMQPNotImplementedError) as closed:
        connection.drain_events(timeout=10)
    assert closed.value.reply_code == 540
    assert closed.value.method_name == "Basic.publish"


@pytest.mark.rule("AU-1", "VH-1")
def test_wrong_password_and_virtual_host_are_refused(broker: Broker, name: str) -> None:
    with pytest.raises(amqp.AccessRefused, match="refused"):
        connect(broker, password="wrong")
    with pytest.raises(amqp.NotAllowed, match="not found"):
        connect(broker, virtual_host=name)
