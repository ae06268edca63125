"""What a test may look at: queues and connections as values, taken at one moment."""

from dataclasses import dataclass
from typing import final

from warren.protocol import plain
from warren.queues import Queue
from warren.server.node import Node
from warren.session import Connection


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class QueueState:
    """One queue. `ready` messages wait, `unacked` ones are out with consumers."""

    name: str
    vhost: str
    ready: int
    unacked: int
    consumers: int
    durable: bool
    auto_delete: bool
    exclusive: bool
    arguments: dict[str, object]

    def __str__(self) -> str:
        counts = f"{self.ready} ready, {self.unacked} unacked, {self.consumers} consumers"
        return f"{self.name} in {self.vhost}: {counts}"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionState:
    """One client's connection; `name` is what `drop_connections` takes."""

    name: str
    user: str
    vhost: str
    state: str
    channels: int
    heartbeat_s: int
    product: str


def queue_state(queue: Queue) -> QueueState:
    return QueueState(
        name=queue.name,
        vhost=queue.vhost,
        ready=int(queue.ready()),
        unacked=int(queue.unacked_count),
        consumers=len(queue.consumers.every),
        durable=queue.durable,
        auto_delete=queue.auto_delete,
        exclusive=queue.owner != 0,
        arguments={key: plain(value) for key, value in queue.arguments.items()},
    )


def find_queue(node: Node, vhost: str, name: str) -> QueueState | None:
    home = node.broker.vhosts.get(vhost)
    queue = home.queues.get(name) if home is not None else None
    return queue_state(queue) if queue is not None else None


def all_queues(node: Node, vhost: str) -> list[QueueState]:
    home = node.broker.vhosts.get(vhost)
    return [queue_state(queue) for queue in home.queues.values()] if home is not None else []


def all_connections(node: Node) -> list[ConnectionState]:
    found = [link.connection for link in node.hub.links.values()]
    return [_connection_state(one) for one in found if one is not None]


def _connection_state(one: Connection) -> ConnectionState:
    product = one.client_properties.get("product")
    return ConnectionState(
        name=one.subject.name,
        user=one.user,
        vhost=one.home.name if one.home is not None else "",
        state=one.state(),
        channels=len(one.channels),
        heartbeat_s=one.heartbeat_s,
        product=str(plain(product)) if product is not None else "",
    )
