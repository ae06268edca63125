"""Commands that list what is on the node: queues, exchanges, bindings, connections, channels,
consumers. Each is made in slices of a turn; what comes or goes meanwhile may or may not be in it.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Final, final

from msgspec import Meta

from warren.queues import Consumer, Queue
from warren.queues.gate import GATE_DEAD
from warren.routing.listing import BindingScan
from warren.server.changing import Args
from warren.server.control import Command, Slices, listing
from warren.server.list_cell import cells, row, sliced
from warren.server.list_channel import CHANNEL_CELLS, CONSUMER_CELLS, ChannelItem, ConsumerItem
from warren.server.list_connection import ConnectionItem, connection_cells, connection_item
from warren.server.list_exchange import BINDING_CELLS, EXCHANGE_CELLS
from warren.server.list_queue import queue_cells
from warren.server.pid import Pid
from warren.server.view import NodeView
from warren.session.channel import Channel
from warren.vhost import VHost

if TYPE_CHECKING:
    from warren.server.node import Node

# Bindings of a queue looked at in one step of a slice.
BINDINGS: Final = 100


class ListArgs(Args, frozen=True, kw_only=True):
    """Which columns; without a vhost, of all vhosts."""

    vhost: Annotated[str, Meta(max_length=255)] | None = None
    columns: tuple[str, ...] = ()


class ColumnArgs(Args, frozen=True, kw_only=True):
    columns: tuple[str, ...] = ()


@final
class _Lists:
    def __init__(self, node: "Node") -> None:
        self.node = node
        self.broker = node.broker
        self.clock = node.broker.clock

    def _vhosts(self, name: str | None) -> list[VHost]:
        """Return the vhosts asked for; a vhost that there is not has nothing in it."""
        return [one for one in self.broker.vhosts.values() if name in (None, one.name)]

    def _queues(self, name: str | None) -> Iterator[Queue]:
        for vhost in self._vhosts(name):
            for queue in list(vhost.queues.values()):
                if not queue.gate & GATE_DEAD:
                    yield queue

    def queues(self, view: NodeView, args: ListArgs) -> Slices:
        table = queue_cells(self.broker.node_name, self.node.creation)
        made = cells(table, args.columns or ("name", "messages"))
        return sliced((row(made, one) for one in self._queues(args.vhost)), self.clock)

    def exchanges(self, view: NodeView, args: ListArgs) -> Slices:
        made = cells(EXCHANGE_CELLS, args.columns or ("name", "type"))
        every = (
            one
            for vhost in self._vhosts(args.vhost)
            for one in list(vhost.routing.exchanges.values())
        )
        return sliced((row(made, one) if one.alive else None for one in every), self.clock)

    def bindings(self, view: NodeView, args: ListArgs) -> Slices:
        made = cells(BINDING_CELLS, args.columns or tuple(BINDING_CELLS))

        def steps() -> Iterator[list[object] | None]:
            for vhost in self._vhosts(args.vhost):
                scan = BindingScan(vhost.routing)
                while found := scan.step(BINDINGS):
                    for one in found:
                        yield row(made, one)

        return sliced(steps(), self.clock)

    def _connections(self) -> Iterator[ConnectionItem | None]:
        name, creation = self.broker.node_name, self.node.creation
        for link in list(self.node.hub.links.values()):
            yield connection_item(link, name, creation)

    def connections(self, view: NodeView, args: ColumnArgs) -> Slices:
        table = connection_cells(self.clock)
        made = cells(table, args.columns or ("user", "peer_host", "peer_port", "state"))
        every = self._connections()
        return sliced((None if one is None else row(made, one) for one in every), self.clock)

    def channels(self, view: NodeView, args: ColumnArgs) -> Slices:
        shown = ("pid", "user", "consumer_count", "messages_unacknowledged")
        made = cells(CHANNEL_CELLS, args.columns or shown)

        def steps() -> Iterator[list[object] | None]:
            for one in self._connections():
                yield None
                for channel in [] if one is None else list(one.session.channels.values()):
                    if one is not None:
                        yield row(made, ChannelItem(one, channel, self._pid(channel)))

        return sliced(steps(), self.clock)

    def _pid(self, channel: Channel) -> str:
        identity = channel.connection.identity
        return str(Pid(self.broker.node_name, self.node.creation, identity, channel.number))

    def _consumer(self, consumer: Consumer) -> ConsumerItem:
        owner = consumer.outlet.owner
        return ConsumerItem(consumer, self._pid(owner) if isinstance(owner, Channel) else "")

    def consumers(self, view: NodeView, args: ListArgs) -> Slices:
        shown = tuple(name for name in CONSUMER_CELLS if name != "activity_status")
        made = cells(CONSUMER_CELLS, args.columns or shown)

        def steps() -> Iterator[list[object] | None]:
            for queue in self._queues(args.vhost):
                yield None
                for consumer in list(queue.consumers.every):
                    if not consumer.gone:
                        yield row(made, self._consumer(consumer))

        return sliced(steps(), self.clock)


def commands(node: "Node") -> Iterator[Command]:
    made = _Lists(node)
    yield listing("list_queues", "List queues.", ListArgs, made.queues)
    yield listing("list_exchanges", "List exchanges.", ListArgs, made.exchanges)
    yield listing("list_bindings", "List bindings.", ListArgs, made.bindings)
    yield listing("list_connections", "List connections.", ColumnArgs, made.connections)
    yield listing("list_channels", "List channels.", ColumnArgs, made.channels)
    yield listing("list_consumers", "List consumers.", ListArgs, made.consumers)
