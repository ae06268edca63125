"""What a node tells people: the replies of the control interface, and the Protocol behind them.

The node implements `NodeView`; the control interface, and later the management process, see nothing
else of it. Replies are values: taken at one moment, safe to keep. Field names are RabbitMQ's where
it has one (spec rules O-1.2, O-1.9, O-1.10); durations carry their unit.
"""

from enum import StrEnum
from typing import Protocol

from msgspec import Raw, Struct

from warren.flow.wait import Subject


class ListenerRow(Struct, frozen=True, kw_only=True):
    """One address the node listens on."""

    protocol: str
    address: str
    port: int


class CertificateRow(Struct, frozen=True, kw_only=True):
    """The certificate that new TLS connections are shown; `state` is `valid`, `expiring`,
    `expired` or `not_yet_valid`. Times are UTC."""

    file: str
    subject: str
    not_before: str
    not_after: str
    days_left: int
    state: str


class AlarmRow(Struct, frozen=True, kw_only=True):
    """One alarm in force: its source (memory, disk), the numbers, and the setting that decides."""

    source: str
    node: str
    detail: str
    setting: str


class Rates(Struct, frozen=True, kw_only=True):
    """Messages per second over the last interval."""

    publish: float = 0.0
    deliver: float = 0.0
    ack: float = 0.0
    confirm: float = 0.0


class Status(Struct, frozen=True, kw_only=True):
    """The node on one page."""

    product: str = "Warren"
    version: str
    node: str
    cluster: str
    pid: int
    uptime_ms: int
    python: str
    event_loop: str
    compiled_count: int
    compiled_count_max: int
    data_dir: str
    listeners: tuple[ListenerRow, ...]
    connections: int
    channels: int
    queues: int
    consumers: int
    exchanges: int
    messages_ready: int
    messages_unacknowledged: int
    # Held by exchanges of type x-delayed-message, and what that takes of the memory.
    messages_delayed: int = 0
    delayed_bytes: int = 0
    rates: Rates
    memory_bytes: int
    memory_limit_bytes: int
    memory_total_bytes: int = 0
    # The system does not tell: a share above 1 is taken at its word.
    memory_total_assumed: bool = False
    memory_strategy: str = "rss"
    # What the limit was made of: octets, or without them a share.
    memory_watermark_absolute: int | None = None
    memory_watermark_relative: float = 0.0
    # Unknown before the first look, and where it cannot be measured or is not looked at.
    disk_free_bytes: int | None = None
    disk_free_limit_bytes: int = 0
    disk_monitored: bool = True
    descriptors: int
    descriptors_max: int
    alarms: tuple[AlarmRow, ...]
    certificate: CertificateRow | None = None


class WhyStep(Struct, frozen=True, kw_only=True):
    """One wait: who, in which state, why, held up by whom, since when, and what to do about it.

    `cause` is the subject of further steps, or of none: then it is the root of the chain.
    """

    subject: str
    state: str
    reason: str
    fact: str
    cause: str
    since_ms: int
    setting: str
    advice: str
    detail: str = ""


class WhyReply(Struct, frozen=True, kw_only=True):
    """Why something waits: its steps, nearest first. An empty `subject` asks for all that waits."""

    subject: str
    steps: tuple[WhyStep, ...]
    unlisted: int = 0
    # Where those in flow wait for something that is not in flow itself (CF-14).
    bottlenecks: tuple[str, ...] = ()


class HealthReason(StrEnum):
    """What can be wrong with a node."""

    STARTING = "starting"
    STOPPING = "stopping"
    LISTENER_DOWN = "listener_down"
    MEMORY_ALARM = "memory_alarm"
    DISK_ALARM = "disk_alarm"
    STORE_FAILED = "store_failed"
    DESCRIPTORS_LOW = "descriptors_low"
    LOOP_LATE = "loop_late"
    VHOST_DOWN = "vhost_down"
    CERTIFICATE_EXPIRED = "certificate_expired"


class HealthCheck(Struct, frozen=True, kw_only=True):
    """One check and its outcome; `reason` and `detail` say what is wrong.

    A check that is well and has a detail warns of what will be wrong.
    """

    name: str
    ok: bool
    reason: HealthReason | None = None
    detail: str = ""
    advice: str = ""


class Health(Struct, frozen=True, kw_only=True):
    """The outcome of all checks."""

    node: str
    checks: tuple[HealthCheck, ...]
    ok: bool


def health_of(node: str, checks: tuple[HealthCheck, ...]) -> Health:
    """Join checks: healthy when every one of them is."""
    return Health(node=node, checks=checks, ok=all(check.ok for check in checks))


class ModuleForm(Struct, frozen=True, kw_only=True):
    """Whether one module of the hot path runs as native code."""

    module: str
    compiled: bool


class SettingRow(Struct, frozen=True, kw_only=True):
    """One setting in force and where its value came from; secrets are masked."""

    name: str
    value: str
    origin: str


class Diag(Struct, frozen=True, kw_only=True):
    """What a bug report needs."""

    version: str
    node: str
    pid: int
    python: str
    platform: str
    event_loop: str
    packages: dict[str, str]
    modules: tuple[ModuleForm, ...]
    settings: tuple[SettingRow, ...]
    paths: dict[str, str]
    limits: dict[str, int]


class ConnectionRow(Struct, frozen=True, kw_only=True):
    """One client connection."""

    name: str
    user: str
    vhost: str
    state: str
    peer_host: str
    peer_port: int
    channels: int
    ssl: bool = False
    frame_max: int = 0
    timeout: int = 0
    recv_oct: int = 0
    send_oct: int = 0
    connected_at: int = 0
    product: str = ""


class ConnectionPage(Struct, frozen=True, kw_only=True):
    """Some of all connections, in order of name."""

    total: int
    rows: tuple[ConnectionRow, ...]


class QueueRow(Struct, frozen=True, kw_only=True):
    """One queue."""

    name: str
    vhost: str
    state: str
    messages_ready: int
    messages_unacknowledged: int
    consumers: int
    durable: bool = False
    auto_delete: bool = False
    exclusive: bool = False
    message_bytes: int = 0
    policy: str = ""
    operator_policy: str = ""
    effective_policy_definition: Raw = Raw(b"{}")


class QueuePage(Struct, frozen=True, kw_only=True):
    """Some of all queues, in order of vhost and name."""

    total: int
    rows: tuple[QueueRow, ...]


class UnknownSubjectError(Exception):
    """There is no such object on this node."""


class NodeView(Protocol):
    """What a node answers. Each call returns at once and costs no more than what it returns."""

    def status(self) -> Status: ...

    def why(self, subject: Subject | None) -> WhyReply:
        """Explain one subject (`UnknownSubjectError` if there is none), or all that waits."""

    def stop(self, reason: str) -> None:
        """Begin an orderly stop and return; the node ends later."""

    def diag(self) -> Diag: ...

    def health(self) -> Health: ...

    def connections(self, *, offset: int, limit: int) -> ConnectionPage: ...

    def queues(self, *, vhost: str | None, offset: int, limit: int) -> QueuePage: ...
