"""What can be listed of channels and consumers: the columns, in RabbitMQ's words."""

from dataclasses import dataclass
from typing import Final

from warren.queues import Consumer
from warren.server.list_cell import Cell, typed_table
from warren.server.list_connection import ConnectionItem
from warren.session.channel import Channel


@dataclass(frozen=True, slots=True)
class ChannelItem:
    """One channel with its connection."""

    connection: ConnectionItem
    channel: Channel
    pid: str


@dataclass(frozen=True, slots=True)
class ConsumerItem:
    """One consumer; `pid` is its channel's."""

    consumer: Consumer
    pid: str

    def active(self) -> bool:
        consumers = self.consumer.queue.consumers
        return not consumers.single or consumers.active is self.consumer


def _uncommitted(one: ChannelItem) -> int:
    return 0 if one.channel.tx is None else len(one.channel.tx.publishes)


def _acks_uncommitted(one: ChannelItem) -> int:
    if one.channel.tx is None:
        return 0
    return sum(len(each.deliveries) for each in one.channel.tx.settlements)


def _unconfirmed(one: ChannelItem) -> int:
    ledger = one.channel.ledger
    return 0 if ledger is None else len(ledger.open) + int(ledger.published - ledger.told)


def _vhost(one: ChannelItem) -> str | None:
    home = one.connection.session.home
    return None if home is None else home.name


CHANNEL_CELLS: Final[dict[str, Cell[ChannelItem]]] = {
    "pid": lambda one: one.pid,
    "connection": lambda one: one.connection.pid,
    "name": lambda one: f"{one.connection.name()} ({one.channel.number})",
    "number": lambda one: one.channel.number,
    "user": lambda one: one.connection.session.user,
    "vhost": _vhost,
    "state": lambda one: one.channel.state(),
    "transactional": lambda one: one.channel.tx is not None,
    "confirm": lambda one: one.channel.ledger is not None,
    "consumer_count": lambda one: len(one.channel.consumers),
    "messages_unacknowledged": lambda one: int(one.channel.outlet.unacked.count),
    "messages_uncommitted": _uncommitted,
    "acks_uncommitted": _acks_uncommitted,
    "messages_unconfirmed": _unconfirmed,
    "prefetch_count": lambda one: int(one.channel.prefetch),
    "global_prefetch_count": lambda one: int(one.channel.outlet.limit),
}

CONSUMER_CELLS: Final[dict[str, Cell[ConsumerItem]]] = {
    "queue_name": lambda one: one.consumer.queue.name,
    "channel_pid": lambda one: one.pid,
    "consumer_tag": lambda one: one.consumer.tag,
    "ack_required": lambda one: not one.consumer.no_ack,
    "prefetch_count": lambda one: int(one.consumer.limit),
    "active": lambda one: one.active(),
    "activity_status": lambda one: "up" if one.active() else "waiting",
    "arguments": lambda one: typed_table(one.consumer.arguments),
}
