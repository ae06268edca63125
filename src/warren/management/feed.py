"""What the node tells the management process, as values: the vocabulary of the feed.

1. `Begun` starts a copy from nothing. Then every object comes as the change that would make it
   (`warren.vhost.change`), what it stands on first; `Complete` follows the last one.
2. From the first moment on, changes of metadata come as they happen, in their order, among the
   rest. A copy that applies all of them in turn is right at every `Position`.
3. At an interval come counters: `QueueCounts` of the queues whose numbers changed, each connection
   that changed, those that are gone, then `NodeState` with the time all this was counted at.

Both ends are of one version: the node starts the process.
"""

from typing import Final

import msgspec
from msgspec import Struct

from warren.vhost.change import AnyChange


class Begun(Struct, frozen=True, tag_field="change"):
    """What was known is void."""


class Complete(Struct, frozen=True, tag_field="change"):
    """Every object there was has been told."""


class Position(Struct, frozen=True, kw_only=True, tag_field="change"):
    """How many changes have been told of; a question for the same number comes behind them."""

    at: int


# vhost, name, ready, unacknowledged, octets ready, consumers, published, settled, policy, state,
# duplicates.
QueueRow = tuple[str, str, int, int, int, int, int, int, str, str, int]


class QueueCounts(Struct, frozen=True, kw_only=True, tag_field="change"):
    """Numbers of some queues."""

    rows: list[QueueRow]


class ConsumerState(Struct, frozen=True, kw_only=True):
    tag: str
    queue: str
    ack_required: bool
    exclusive: bool
    prefetch: int
    priority: int
    active: bool
    arguments: bytes = b""


class ChannelState(Struct, frozen=True, kw_only=True):
    number: int
    transactional: bool
    confirm: bool
    prefetch: int
    global_prefetch: int
    unacknowledged: int
    unconfirmed: int
    uncommitted: int
    acks_uncommitted: int
    published: int
    delivered: int
    acknowledged: int
    confirmed: int
    state: str
    consumers: tuple[ConsumerState, ...] = ()


class ConnectionState(Struct, frozen=True, kw_only=True, tag_field="change"):
    """One connection with its channels and their consumers."""

    identity: int
    name: str
    user: str
    vhost: str
    state: str
    host: str
    port: int
    peer_host: str
    peer_port: int
    tls: bool
    frame_max: int
    channel_max: int
    timeout: int
    connected_at: int
    received: int
    sent: int
    pending: int
    client_properties: bytes = b""
    channels: tuple[ChannelState, ...] = ()


class ConnectionsGone(Struct, frozen=True, kw_only=True, tag_field="change"):
    identities: list[int]


class ListenerState(Struct, frozen=True, kw_only=True):
    protocol: str
    address: str
    port: int


class AttemptCounts(Struct, frozen=True, kw_only=True):
    attempts: int
    succeeded: int
    failed: int


class NodeState(Struct, frozen=True, kw_only=True, tag_field="change"):
    """The node itself; all of it costs the same however many objects there are."""

    at_ms: int
    version: str
    name: str
    cluster: str
    pid: int
    uptime_ms: int
    python: str
    running: bool
    listeners: tuple[ListenerState, ...]
    alarms: tuple[str, ...]
    memory: int
    memory_limit: int
    descriptors: int
    descriptors_max: int
    data_dir: str
    log_files: tuple[str, ...]
    exchange_kinds: tuple[str, ...]
    mechanisms: tuple[str, ...]
    # Since the node began: messages published, delivered, acknowledged, confirmed.
    messages: tuple[int, int, int, int]
    dead_lettered: dict[str, int]
    connections_opened: int
    connections: int
    queues_created: int
    queues_deleted: int
    attempts: dict[str, AttemptCounts]
    certificate_days_left: int | None = None
    certificate_file: str = ""
    memory_strategy: str = "rss"
    # None: not measured yet, or not measurable.
    disk_free: int | None = None
    disk_free_limit: int = 0
    # By reason: how many wait, and how long everybody has waited so far, in milliseconds.
    waits: dict[str, tuple[int, int]] = {}


Told = (
    AnyChange
    | Begun
    | Complete
    | Position
    | QueueCounts
    | ConnectionState
    | ConnectionsGone
    | NodeState
)

DECODER: Final = msgspec.json.Decoder(list[Told])
