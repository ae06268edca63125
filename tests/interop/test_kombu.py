"""kombu, the messaging layer of Celery, over its py-amqp transport."""

import importlib
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.interop.target import MIB, pattern, until, url
from tests.support.broker import Broker

# kombu resolves its names when they are first used, so a type checker sees none of them.
kombu: Any = importlib.import_module("kombu")
pools: Any = importlib.import_module("kombu.pools")


@pytest.fixture
def connection(broker: Broker) -> Iterator[Any]:
    link = kombu.Connection(url(broker), connect_timeout=10, heartbeat=60)
    yield link
    link.release()


@pytest.fixture
def queue(connection: Any, name: str) -> Any:
    """A queue on a direct exchange of its own; both end with the connection."""
    exchange = kombu.Exchange(name, type="direct", durable=False, auto_delete=True)
    bound = kombu.Queue(name, exchange, routing_key=name, exclusive=True)(connection.channel())
    bound.declare()
    return bound


def drain(connection: Any, condition: Callable[[], object]) -> None:
    """Serve the connection until the condition holds."""

    def look() -> object:
        if not condition():
            connection.drain_events(timeout=10)
        return condition()

    until(look)


def take(queue: Any, **options: Any) -> Any:
    """Get the next message; one published on another channel may take a moment to show."""
    return until(lambda: queue.get(**options))


def publish(connection: Any, queue: Any, *bodies: object, **options: Any) -> None:
    with connection.Producer(exchange=queue.exchange, routing_key=queue.routing_key) as producer:
        for body in bodies:
            producer.publish(body, **options)


@pytest.mark.parametrize("serializer", ["json", "pickle", "raw"])
@pytest.mark.parametrize("compression", [None, "zlib", "bzip2"])
def test_consumer_receives_what_was_published(
    connection: Any, queue: Any, serializer: str, compression: str | None
) -> None:
    sent = b"raw \x00 octets" if serializer == "raw" else {"task": "add", "arguments": [1, "é"]}
    seen: list[object] = []

    def on_message(body: object, message: Any) -> None:
        seen.append(body)
        message.ack()

    publish(connection, queue, sent, serializer=serializer, compression=compression)
    accept = ["json", "pickle", "application/data"]
    with connection.Consumer(queue, callbacks=[on_message], accept=accept):
        drain(connection, lambda: seen)
    assert seen == [sent]


@pytest.mark.parametrize("kind", ["direct", "topic", "fanout"])
def test_every_exchange_type_routes(connection: Any, name: str, kind: str) -> None:
    channel = connection.channel()
    exchange = kombu.Exchange(name, type=kind, durable=False, auto_delete=True)
    pattern_ = "red.*" if kind == "topic" else "red.green"
    bound = kombu.Queue("", exchange, routing_key=pattern_, exclusive=True)(channel)
    bound.declare()
    for key in ("red.green", "blue"):
        exchange(channel).publish(exchange(channel).Message(key), routing_key=key)
    got = [bound.get(no_ack=True) for _ in range(3)]
    wanted = ["red.green", "blue", None] if kind == "fanout" else ["red.green", None, None]
    assert [message and message.payload for message in got] == wanted


def test_requeue_and_reject(connection: Any, queue: Any) -> None:
    publish(connection, queue, "again")
    take(queue).requeue()
    again = take(queue)
    assert (again.payload, again.delivery_info["redelivered"]) == ("again", True)
    again.reject()
    assert queue.get() is None


@pytest.mark.rule("PR-1")
def test_priorities_are_served_high_first(connection: Any, name: str) -> None:
    exchange = kombu.Exchange(name, type="direct", durable=False, auto_delete=True)
    made = kombu.Queue(name, exchange, routing_key=name, exclusive=True, max_priority=10)
    queue = made(connection.channel())
    queue.declare()
    for priority in (0, 6, 3, 9, 6):
        publish(connection, queue, priority, priority=priority)
    until(lambda: queue.queue_declare(passive=True).message_count == 5)
    assert [take(queue, no_ack=True).payload for _ in range(5)] == [9, 6, 6, 3, 0]


@pytest.mark.rule("TT-1", "DL-1")
def test_message_lifetime_ends(connection: Any, queue: Any, name: str) -> None:
    """What has expired goes to the dead-letter exchange, so nothing here depends on timing."""
    arguments = {"x-dead-letter-exchange": queue.exchange.name, "x-dead-letter-routing-key": name}
    made = kombu.Queue(f"{name}.brief", exclusive=True, queue_arguments=arguments)
    brief = made(connection.channel())
    brief.declare()
    connection.Producer().publish("short", routing_key=brief.name, expiration=0.001)
    dead = take(queue, no_ack=True)
    assert dead.payload == "short"
    assert dead.headers["x-death"][0]["reason"] == "expired"
    assert brief.get() is None


def test_simple_queue_puts_and_gets(connection: Any, name: str) -> None:
    options = {"durable": False, "auto_delete": True}
    with connection.SimpleQueue(name, queue_opts=options, exchange_opts=options) as simple:
        simple.put({"n": 1})
        simple.put({"n": 2})
        got = [simple.get(timeout=10), simple.get(timeout=10)]
        assert [message.payload for message in got] == [{"n": 1}, {"n": 2}]
        for message in got:
            message.ack()
        with pytest.raises(simple.Empty):
            simple.get(timeout=0.2)


@pytest.mark.rule("QO-1")
def test_prefetch_bounds_what_is_in_flight(connection: Any, queue: Any) -> None:
    seen: list[Any] = []
    publish(connection, queue, *range(5))
    consumer = connection.Consumer(
        queue, callbacks=[lambda _, message: seen.append(message)], prefetch_count=2
    )
    with consumer:
        drain(connection, lambda: len(seen) == 2)
        with pytest.raises(socket.timeout):
            connection.drain_events(timeout=0.3)
        seen[0].ack()
        drain(connection, lambda: len(seen) == 3)
    assert [message.payload for message in seen] == [0, 1, 2]


@pytest.mark.rule("PB-3")
def test_mandatory_publish_to_nowhere_is_returned(connection: Any, name: str) -> None:
    returned: list[Any] = []
    producer = connection.Producer(on_return=lambda _e, _x, _k, message: returned.append(message))
    producer.publish("back", routing_key=name, mandatory=True)
    drain(connection, lambda: returned)
    assert len(returned) == 1


def test_confirmed_publish_and_heartbeat_settings(broker: Broker, name: str) -> None:
    options = {"confirm_publish": True}
    with kombu.Connection(url(broker), heartbeat=7, transport_options=options) as connection:
        queue = kombu.Queue(name, exclusive=True)(connection.channel())
        queue.declare()
        connection.Producer().publish("sure", routing_key=name)
        assert take(queue, no_ack=True).payload == "sure"
        assert connection.get_heartbeat_interval() == 7


@pytest.mark.rule("EE-1")
def test_exchange_to_exchange_binding(connection: Any, queue: Any, name: str) -> None:
    channel = connection.channel()
    source = kombu.Exchange(f"{name}.source", "topic", durable=False, auto_delete=True)(channel)
    source.declare()
    queue.exchange.bind_to(source, routing_key=name)
    source.publish(source.Message("through"), routing_key=name)
    assert take(queue, no_ack=True).payload == "through"
    queue.exchange.unbind_from(source, routing_key=name)


@pytest.mark.rule("WI-2")
@pytest.mark.slow
def test_large_body_survives(connection: Any, queue: Any) -> None:
    body = pattern(10 * MIB)
    publish(connection, queue, body, serializer="raw")
    assert take(queue, no_ack=True, accept=["application/data"]).body == body


def test_publish_retries_over_a_dead_connection(broker: Broker, name: str) -> None:
    with kombu.Connection(url(broker)) as connection:
        queue = kombu.Queue(name, durable=False, auto_delete=False, expires=60)
        with connection.Producer() as producer:
            producer.publish("one", routing_key=name, declare=[queue])
            connection.default_channel.connection.transport.sock.shutdown(socket.SHUT_RDWR)
            policy = {"max_retries": 3, "interval_start": 0.1}
            producer.publish("two", routing_key=name, retry=True, retry_policy=policy)
        found = queue(connection.channel())
        assert [take(found, no_ack=True).payload for _ in range(2)] == ["one", "two"]
        found.delete()


def test_failover_takes_the_next_address(broker: Broker) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        dead = f"amqp://guest:guest@127.0.0.1:{unused.getsockname()[1]}//"
        with kombu.Connection([dead, url(broker)], failover_strategy="round-robin") as connection:
            connection.ensure_connection(max_retries=3, interval_start=0.1)
            assert connection.connected


def test_pooled_connections_are_reused(broker: Broker) -> None:
    pool = pools.connections[kombu.Connection(url(broker))]
    with pool.acquire(block=True) as first:
        first.connect()
    with pool.acquire(block=True) as second:
        assert second is first
        assert second.connected
    pools.reset()
