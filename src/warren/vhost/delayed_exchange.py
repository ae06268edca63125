"""What delayed messages ask of their vhost: the time, and the way on when it has come.

A message is routed when it is due: by the bindings, the alternate exchange and the policies of that
time. What no queue takes then is dropped and counted by its reason; there is nobody left whom it
could be returned to.
"""

from typing import TYPE_CHECKING, Final, cast, final

from mypy_extensions import i64

from warren.core import AmqpError
from warren.protocol.properties import P_HEADERS, P_ROUTED_HEADERS, headers_of
from warren.protocol.value import LONG_STRING, Field, Table
from warren.queues import REFUSED, Message, QueueRef
from warren.queues.delayed import REFUSED_THEN, RELEASED, UNROUTABLE, Delayed, DelayKeeper
from warren.routing import Exchange

if TYPE_CHECKING:
    from warren.routing.delayed import DelayedMessage
    from warren.vhost.vhost import VHost

MS: Final[i64] = 1_000_000


@final
class DelayedExchange(DelayKeeper):
    def __init__(self, vhost: "VHost", exchange: Exchange) -> None:
        self.vhost = vhost
        self.exchange = exchange

    def now_ms(self) -> i64:
        broker = self.vhost.broker
        return (i64(broker.clock.monotonic_ns()) + broker.epoch_ns + MS - 1) // MS

    def at_ms(self, now_ns: i64) -> i64:
        return (now_ns + self.vhost.broker.epoch_ns) // MS

    def wall_ms(self) -> i64:
        return i64(self.vhost.broker.clock.wall_ns()) // MS

    def hand_on(self, message: Message) -> i64:
        exchange = self.exchange
        routing = self.vhost.routing
        traits = message.traits
        headers: Table | None = None
        extra = message.hidden_keys
        if traits & P_HEADERS and (traits & P_ROUTED_HEADERS or routing.needs_headers(exchange)):
            headers = headers_of(message.props)
            if headers is not None and traits & P_ROUTED_HEADERS:
                extra = copied_keys(headers) + (extra or [])
        matcher = cast("DelayedMessage", exchange.matcher)
        matcher.passing = True
        try:
            sinks = routing.route(exchange, message.routing_key(), extra, headers, message.props)
        except AmqpError:
            # An exchange on the way has a type that is gone.
            return UNROUTABLE
        finally:
            matcher.passing = False
        how = UNROUTABLE if not sinks else REFUSED_THEN
        for sink in sinks:
            target = sink.target
            assert isinstance(target, QueueRef)
            if target.publish(message, None, 0) != REFUSED:
                how = RELEASED
        return how


def new_delayed(vhost: "VHost", exchange: Exchange) -> Delayed:
    """Return what stands behind a new exchange."""
    held = vhost.broker.delayed
    return Delayed(exchange.name, vhost.turn, DelayedExchange(vhost, exchange), held)


def join_store(vhost: "VHost", exchange: Exchange, incarnation: int) -> None:
    """Have what a durable exchange holds survive the node, if there is a store."""
    storage = vhost.turn.storage
    delayed = delayed_of(exchange)
    if storage is not None and incarnation and delayed is not None:
        delayed.join_store(storage, vhost.name, storage.index_of_exchange(incarnation))


def end_delayed(vhost: "VHost", exchange: Exchange, delayed: Delayed) -> None:
    """An exchange is gone, and what it held with it."""
    storage = vhost.turn.storage
    if storage is not None and delayed.store is not None:
        storage.leave_exchange(delayed.store.index, vhost.next_ticket())
    count = delayed.close()
    if count:
        vhost.broker.log.event(
            "warning",
            "delayed.dropped",
            {
                "exchange": exchange.name,
                "vhost": vhost.name,
                "count": count,
                "reason": "exchange_deleted",
            },
        )


def delayed_of(exchange: Exchange) -> Delayed | None:
    """Return what an exchange holds, None if it is of another type."""
    own = exchange.matcher.own
    target = None if own is None else own.target
    return target if isinstance(target, Delayed) else None


def copied_keys(headers: Table) -> list[bytes]:
    """Return the routing keys of CC, which was checked when the message was published."""
    keys: list[bytes] = []
    item = headers.get("CC")
    if item is not None and isinstance(item.value, list):
        for entry in item.value:
            if isinstance(entry, Field) and entry.kind == LONG_STRING:
                assert isinstance(entry.value, bytes)
                keys.append(entry.value)
    return keys
