"""Tracing a vhost: copies of its messages to the exchange amq.rabbitmq.trace (spec O-10.1).

A `Tracer` is there while a vhost is traced. Then its routes are special, so that publishes take the
general way, and its queues have a bit of their gate set, so that deliveries take the long way; both
tell the tracer. While nothing is traced nobody looks for one: a message costs what it did.

What goes through the trace exchange is not traced. Nor is it when it has died there and comes out
of another exchange: the mark stays, or a queue of traces with a dead-letter exchange would trace
its own dead letters without end.
"""

from typing import TYPE_CHECKING, Final, final

from warren.protocol.properties import (
    P_HEADERS,
    P_ROUTED_HEADERS,
    Properties,
    decode,
    readable_headers_of,
)
from warren.protocol.value import (
    ARRAY,
    LONG_STRING,
    SIGNED_INT,
    TABLE,
    TIMESTAMP,
    Field,
    Table,
    field,
)
from warren.queues import Message, Queue, QueueRef, compose_tail
from warren.vhost.delayed_exchange import copied_keys

if TYPE_CHECKING:
    from warren.queues.outlet import Party
    from warren.vhost.vhost import VHost

TRACE_EXCHANGE: Final = b"amq.rabbitmq.trace"
# This message is a trace. Above the bits of `scan`, and those of queues and dead letters.
P_TRACE: Final = 1 << 34
# A routing key is a short string; the longest names do not fit with what is before them.
KEY_OCTETS_MAX: Final = 255
LONG_MAX: Final = (1 << 63) - 1
# In the order of the properties on the wire.
PROPERTIES: Final = (
    "content_type",
    "content_encoding",
    "headers",
    "delivery_mode",
    "priority",
    "correlation_id",
    "reply_to",
    "expiration",
    "message_id",
    "timestamp",
    "type",
    "user_id",
    "app_id",
    "cluster_id",
)


@final
class Tracer:
    def __init__(self, vhost: "VHost") -> None:
        self.vhost = vhost

    def published(self, party: "Party", message: Message, targets: list[QueueRef]) -> None:
        """A client has published a message; it has not been given to its queues yet."""
        queues = [one.name for one in targets if isinstance(one, Queue)]
        headers = self._origin(party)
        headers["routed_queues"] = Field(ARRAY, [_text(name) for name in queues])
        self._send(b"publish." + message.exchange(), message, headers)

    def delivered(self, party: "Party", queue: Queue, message: Message, again: bool) -> None:
        """A queue has handed a message out, to a consumer or for basic.get."""
        headers: Table = {"redelivered": Field(SIGNED_INT, 1 if again else 0)}
        headers.update(self._origin(party))
        self._send(b"deliver." + queue.name.encode(), message, headers)

    def _origin(self, party: "Party") -> Table:
        return {
            "vhost": _text(self.vhost.name),
            "connection": _text(party.connection),
            "channel": Field(SIGNED_INT, party.channel),
            "user": _text(party.user),
        }

    def _send(self, key: bytes, message: Message, origin: Table) -> None:
        if message.traits & P_TRACE or message.exchange() == TRACE_EXCHANGE:
            return
        routing = self.vhost.routing
        exchange = routing.exchange_by_key(TRACE_EXCHANGE)
        if exchange is None or not (exchange.bindings or exchange.alternate):
            # Nobody listens.
            return
        key = key[:KEY_OCTETS_MAX].decode(errors="ignore").encode()
        headers: Table = {
            "exchange_name": Field(LONG_STRING, message.exchange()),
            "routing_keys": Field(ARRAY, [Field(LONG_STRING, one) for one in _keys(message)]),
            "properties": Field(TABLE, _properties(message.props)),
            "node": _text(self.vhost.broker.node_name),
            **origin,
        }
        props = Properties(headers=headers).encode()
        sinks = routing.route(exchange, key, None, headers, props)
        if not sinks:
            return
        trace = Message(
            compose_tail(TRACE_EXCHANGE, key),
            props,
            message.body,
            message.more,
            message.size,
            P_HEADERS | P_TRACE,
        )
        for sink in sinks:
            target = sink.target
            assert isinstance(target, QueueRef)
            target.publish(trace, None, 0)


def _text(value: str) -> Field:
    return Field(LONG_STRING, value.encode())


def _keys(message: Message) -> list[bytes]:
    """All keys that a message was routed by, those that consumers do not see among them."""
    keys = [message.routing_key()]
    if message.traits & P_ROUTED_HEADERS:
        keys += copied_keys(readable_headers_of(message.props))
    return keys + (message.hidden_keys or [])


def _properties(props: bytes) -> Table:
    """Return the properties that are there as a table, as RabbitMQ types them."""
    found = decode(props)
    present = ((name, getattr(found, name)) for name in PROPERTIES)
    table = {name: field(value) for name, value in present if value is not None}
    if found.timestamp is not None and found.timestamp > LONG_MAX:
        # Clients may write what no signed integer holds.
        table["timestamp"] = Field(TIMESTAMP, found.timestamp)
    return table
