"""Tracing: copies of what enters a virtual host and of what leaves it (firehose)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.broker import Broker
from tests.support.channel import Channel
from tests.support.fixtures import Connect
from tests.support.operator import operate, tenant
from tests.support.wire import Client

pytestmark = pytest.mark.rule("O-10.1")
TRACE = "amq.rabbitmq.trace"


@dataclass
class Desk:
    """A virtual host of its own, a client in it, and a second one that hears of all traces."""

    broker: Broker
    login: dict[str, Any]
    client: Client
    channel: Channel
    traces: Channel

    def on(self) -> None:
        operate(self.broker, "trace_on", vhost=self.login["vhost"])

    def off(self) -> None:
        operate(self.broker, "trace_off", vhost=self.login["vhost"])

    def next(self, key: str) -> Any:
        """Return the next trace, which has this key."""
        return self.traces.recv_delivery(exchange=TRACE, routing_key=key)

    def name(self) -> str:
        """What the traced connection is called."""
        host, port = self.client.socket.getsockname()[:2]
        return f"{host}:{port} -> {self.broker.host}:{self.broker.port}"


@pytest.fixture
def desk(broker: Broker, connect: Connect, unique: Any) -> Iterator[Desk]:
    login = tenant(broker, unique("traced"))
    client, other = connect(**login), connect(**login)
    traces = other.channel()
    queue = traces.queue_declare(exclusive=True).queue
    traces.queue_bind(queue, TRACE, "#")
    traces.consume(queue, no_ack=True)
    yield Desk(broker, login, client, client.channel(7), traces)
    operate(broker, "delete_vhost", vhost=login["vhost"])
    operate(broker, "delete_user", user=login["user"])


def test_a_publish_and_its_deliveries_are_copied(desk: Desk) -> None:
    channel = desk.channel
    for name in ("one", "two"):
        channel.queue_declare(name)
        channel.queue_bind(name, "amq.topic", "a.#")
    desk.on()
    properties: dict[str, Any] = {
        "content_type": "text/plain",
        "delivery_mode": 1,
        "headers": {"x": 1},
    }
    channel.publish(b"body", exchange="amq.topic", routing_key="a.b", **properties)
    trace = desk.next("publish.amq.topic")
    assert trace.body == b"body"
    assert set(trace.properties) == {"headers"}
    headers = trace.properties["headers"]
    assert sorted(headers.pop("routed_queues")) == ["one", "two"]
    node = headers.pop("node")
    assert "@" in node
    same = {
        "vhost": desk.login["vhost"],
        "connection": desk.name(),
        "channel": 7,
        "user": desk.login["user"],
        "exchange_name": "amq.topic",
        "routing_keys": ["a.b"],
        "properties": properties,
    }
    assert headers == same
    assert channel.get("one", no_ack=True).body == b"body"
    got = desk.next("deliver.one")
    assert got.properties["headers"] == same | {"node": node, "redelivered": 0}
    assert got.body == b"body"
    # A consumer, of a message that waited.
    channel.consume("two", tag="c")
    delivery = channel.recv_delivery()
    assert desk.next("deliver.two").properties["headers"]["redelivered"] == 0
    # And again, and one that did not wait.
    channel.reject(delivery.delivery_tag, requeue=True)
    assert channel.recv_delivery().redelivered
    assert desk.next("deliver.two").properties["headers"]["redelivered"] == 1
    channel.publish(b"at once", routing_key="two")
    assert desk.next("publish.").properties["headers"]["routed_queues"] == ["two"]
    assert desk.next("deliver.two").body == b"at once"
    assert channel.recv_delivery().body == b"at once"
    desk.traces.expect_nothing()


def test_types_of_what_is_told(desk: Desk) -> None:
    desk.on()
    properties: dict[str, Any] = {
        "priority": 3,
        "timestamp": 1_000_000,
        "headers": {"h": "v"},
        "app_id": "me",
    }
    desk.channel.publish(exchange="amq.fanout", routing_key="k", **properties)
    headers = desk.next("publish.amq.fanout").typed_headers
    kinds = {name: field.kind for name, field in headers.items()}
    texts = dict.fromkeys(("exchange_name", "node", "vhost", "connection", "user"), "S")
    arrays = {"routing_keys": "A", "routed_queues": "A"}
    assert kinds == texts | arrays | {"channel": "I", "properties": "F"}
    inner = {name: field.kind for name, field in headers["properties"].value.items()}
    assert inner == {"priority": "I", "timestamp": "I", "headers": "F", "app_id": "S"}


@pytest.mark.differs_from_reference("it cuts numbers to 32 bits")
@pytest.mark.parametrize(("value", "kind"), [(2**31, "l"), (2**63 - 1, "l"), (2**64 - 1, "T")])
def test_large_timestamps(desk: Desk, value: int, kind: str) -> None:
    desk.on()
    desk.channel.publish(exchange="amq.fanout", timestamp=value)
    told = desk.next("publish.amq.fanout").typed_headers["properties"].value["timestamp"]
    assert (told.kind, told.value) == (kind, value)


def test_what_is_not_routed_is_traced_once(desk: Desk) -> None:
    desk.on()
    desk.channel.publish(b"lost", exchange="amq.direct", routing_key="nowhere", mandatory=True)
    desk.channel.expect("basic.return", reply_code=312)
    trace = desk.next("publish.amq.direct")
    assert (trace.body, trace.properties["headers"]["routed_queues"]) == (b"lost", [])
    desk.traces.expect_nothing()


def test_only_while_it_is_on(desk: Desk) -> None:
    channel = desk.channel
    channel.queue_declare("q")
    channel.consume("q", no_ack=True)

    def send(body: bytes) -> None:
        # All of one route, before, while and after.
        for _ in range(3):
            channel.publish(body, routing_key="q")
            assert channel.recv_delivery().body == body

    send(b"before")
    desk.on()
    desk.on()
    send(b"on")
    for _ in range(3):
        assert desk.next("publish.").body == b"on"
        assert desk.next("deliver.q").body == b"on"
    desk.off()
    send(b"after")
    desk.on()
    # Queues that are made meanwhile are traced as well.
    channel.queue_declare("new")
    channel.publish(b"new", routing_key="new")
    assert channel.get("new", no_ack=True).body == b"new"
    assert desk.next("publish.").body == b"new"
    assert desk.next("deliver.new").body == b"new"
    desk.traces.expect_nothing()


def test_headers_exchanges_large_bodies_and_more_keys(desk: Desk) -> None:
    """What takes another way through the broker is traced like the rest."""
    channel = desk.channel
    channel.queue_declare("q")
    channel.queue_bind("q", "amq.headers", arguments={"x-match": "all", "h": "v"})
    desk.on()
    for _ in range(3):
        channel.publish(b"h", exchange="amq.headers", headers={"h": "v"})
        assert desk.next("publish.amq.headers").properties["headers"]["routed_queues"] == ["q"]
    large = bytes(300_000)
    channel.publish(large, routing_key="none")
    assert desk.next("publish.").body == large
    channel.queue_bind("q", "amq.direct", "q")
    copies = {"CC": ["q"], "BCC": ["hidden"]}
    channel.publish(b"cc", exchange="amq.direct", routing_key="none", headers=copies)
    trace = desk.next("publish.amq.direct").properties["headers"]
    assert trace["routing_keys"] == ["none", "q", "hidden"]
    assert trace["properties"]["headers"] == {"CC": ["q"]}
    assert trace["routed_queues"] == ["q"]


@pytest.mark.differs_from_reference("it tells the keys, whether there are such queues or not")
def test_the_default_exchange_tells_the_queues_that_there_are(desk: Desk) -> None:
    desk.channel.queue_declare("q")
    desk.on()
    desk.channel.publish(routing_key="none", headers={"CC": ["q"], "BCC": ["hidden"]})
    assert desk.next("publish.").headers["routed_queues"] == ["q"]


def test_publishes_of_a_transaction_are_traced_when_they_come(desk: Desk) -> None:
    channel = desk.channel
    channel.queue_declare("q")
    desk.on()
    channel.tx_select()
    channel.publish(b"tx", routing_key="q")
    channel.sync()
    assert desk.next("publish.").body == b"tx"
    channel.tx_rollback()
    assert channel.get("q") is None


@pytest.mark.parametrize(
    "arguments",
    [
        {"x-max-length": 100},
        {"x-max-priority": 5},
        {"x-message-ttl": 60_000},
        {"x-queue-type": "quorum"},
        {"x-single-active-consumer": True},
    ],
    ids=lambda given: next(iter(given)),
)
def test_queues_with_rules(desk: Desk, arguments: dict[str, Any]) -> None:
    channel = desk.channel
    desk.on()
    channel.queue_declare("q", durable=True, arguments=arguments)
    for body in (b"1", b"2", b"3"):
        channel.publish(body, routing_key="q")
        assert desk.next("publish.").body == body
    assert channel.get("q", no_ack=True).body == b"1"
    assert desk.next("deliver.q").body == b"1"
    channel.consume("q", no_ack=True)
    for body in (b"2", b"3"):
        assert channel.recv_delivery().body == body
        assert desk.next("deliver.q").body == body
    desk.off()
    channel.publish(b"4", routing_key="q")
    assert channel.recv_delivery().body == b"4"
    desk.traces.expect_nothing()


def test_a_queue_that_gets_its_own_traces(desk: Desk) -> None:
    """Each message has one trace; the trace has none."""
    channel = desk.channel
    channel.queue_declare("q")
    channel.queue_bind("q", TRACE, "deliver.#")
    desk.on()
    channel.publish(b"1", routing_key="q")
    desk.next("publish.")
    channel.consume("q", no_ack=True)
    assert channel.recv_delivery().exchange == ""
    assert channel.recv_delivery().exchange == TRACE
    assert desk.next("deliver.q").body == b"1"
    channel.publish(b"2", routing_key="q")
    assert [channel.recv_delivery().exchange for _ in range(2)] == ["", TRACE]
    channel.expect_nothing()


@pytest.mark.differs_from_reference("it traces the deliveries of dead traces without end")
def test_traces_that_die_are_not_traced(desk: Desk) -> None:
    channel = desk.channel
    channel.queue_declare("grave")
    dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "grave", "x-max-length": 1}
    channel.queue_declare("traces", arguments=dead)
    channel.queue_bind("traces", TRACE, "#")
    desk.on()
    channel.consume("grave", no_ack=True)
    channel.queue_declare("q")
    for body in (b"1", b"2", b"3"):
        channel.publish(body, routing_key="q")
    for body in (b"1", b"2"):
        assert channel.recv_delivery().body == body
    for body in (b"1", b"2", b"3"):
        assert desk.next("publish.").body == body
    desk.traces.expect_nothing()


def test_another_vhost_is_not_traced(desk: Desk, channel: Channel, queue: str) -> None:
    desk.on()
    channel.publish(b"elsewhere", routing_key=queue)
    assert channel.get(queue, no_ack=True).body == b"elsewhere"
    desk.traces.expect_nothing()


@pytest.mark.differs_from_reference("it closes the connection of who listens, with 541")
def test_names_too_long_for_a_key_are_cut(desk: Desk) -> None:
    name = "é" * 126 + "xy"
    desk.on()
    desk.channel.queue_declare(name)
    desk.channel.publish(b"long", routing_key=name)
    desk.next("publish.")
    assert desk.channel.get(name, no_ack=True).body == b"long"
    trace = desk.traces.recv_delivery()
    assert trace.routing_key == "deliver." + "é" * 123
    assert len(trace.routing_key.encode()) == 254
