"""What the exchanges of one vhost keep, and how that leaves them again.

Follows `ExchangeKeeper`: what stands behind the own sink of an exchange is made here, is told to
let go when the exchange is deleted, and what it kept is published again through `publish_again`.
"""

from typing import TYPE_CHECKING, Final, cast, final

from mypy_extensions import i64

from warren.protocol.properties import P_HEADERS, P_ROUTED_HEADERS, headers_of
from warren.queues import Message, QueueRef
from warren.queues.delayed import Delayed
from warren.queues.history import History
from warren.queues.turn import Chore
from warren.routing import Binding, Exchange, ExchangeKeeper, RoutingTable
from warren.routing.delayed import DELAYED_MESSAGE
from warren.routing.recent import history_length
from warren.vhost.delayed_exchange import copied_keys, end_delayed, new_delayed

if TYPE_CHECKING:
    from warren.protocol.value import Table
    from warren.routing import Node, Sink
    from warren.vhost.vhost import VHost

# Remembered messages that go to a new binding in one turn.
REPLAY_SLICE: Final = 1024


@final
class ExchangeMemory(ExchangeKeeper):
    def __init__(self, vhost: "VHost") -> None:
        self.vhost = vhost

    def seed(self) -> int:
        return int.from_bytes(self.vhost.broker.random.octets(4), "big")

    def wall_ms(self) -> i64:
        return i64(self.vhost.broker.clock.wall_ns()) // 1_000_000

    def target_for(self, exchange: Exchange) -> object | None:
        if exchange.kind == "x-recent-history":
            return History(exchange.name, history_length(exchange.arguments))
        if exchange.kind == DELAYED_MESSAGE:
            return new_delayed(self.vhost, exchange)
        return None

    def bound(self, exchange: Exchange, binding: Binding) -> None:
        history = _kept_by(exchange)
        if not isinstance(history, History):
            return
        replay = Replay(self.vhost.routing, binding.destination, history.messages())
        if not replay.step():
            self.vhost.turn.chores.append(replay)

    def gone(self, exchange: Exchange) -> None:
        kept = _kept_by(exchange)
        if isinstance(kept, History):
            kept.close()
        elif isinstance(kept, Delayed):
            end_delayed(self.vhost, exchange, kept)


def _kept_by(exchange: Exchange) -> object | None:
    own = exchange.matcher.own
    return None if own is None else own.target


@final
class Replay(Chore):
    """Messages of a history on their way to a new binding, oldest first.

    What is published while a long history is on its way may overtake the rest of it.
    """

    def __init__(self, routing: RoutingTable, destination: "Node", messages: list[Message]) -> None:
        self.routing = routing
        self.destination = destination
        self.messages = messages
        self.done = 0

    def step(self) -> bool:
        end = min(self.done + REPLAY_SLICE, len(self.messages))
        destination = self.destination
        if not destination.alive:
            return True
        if destination.is_queue:
            target = cast("Sink", destination).target
            assert isinstance(target, QueueRef)
            for index in range(self.done, end):
                target.publish(self.messages[index], None, 0)
        else:
            for index in range(self.done, end):
                publish_again(self.routing, cast("Exchange", destination), self.messages[index])
        self.done = end
        return end == len(self.messages)


def publish_again(routing: RoutingTable, exchange: Exchange, message: Message) -> None:
    """Send a message that the broker has kept through an exchange, with all its routing keys."""
    headers: Table | None = None
    extra: list[bytes] | None = None
    if message.traits & P_HEADERS:
        headers = headers_of(message.props)
        if headers is not None and message.traits & P_ROUTED_HEADERS:
            extra = copied_keys(headers)
    for sink in routing.route(exchange, message.routing_key(), extra, headers, message.props):
        target = sink.target
        assert isinstance(target, QueueRef)
        target.publish(message, None, 0)
