"""A node for tests of the control interface: fixed answers, and a memory of what it was told."""

from typing import TYPE_CHECKING

import warren
from warren.flow.wait import Kind, Reason, Subject, Wait
from warren.server.config import Settings
from warren.server.diagnosis import diagnose, why_reply
from warren.server.view import (
    AlarmRow,
    ConnectionPage,
    ConnectionRow,
    Diag,
    Health,
    HealthCheck,
    HealthReason,
    ListenerRow,
    QueuePage,
    QueueRow,
    Rates,
    Status,
    UnknownSubjectError,
    WhyReply,
    health_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

NAME = "127.0.0.1:40000 -> 127.0.0.1:5672"
CONNECTION = Subject(Kind.CONNECTION, NAME)
CHANNEL = Subject(Kind.CHANNEL, NAME + " (1)")
QUEUE = Subject(Kind.QUEUE, "orders", "/")
STORE = Subject(Kind.STORE, "journal")
NODE = Subject(Kind.NODE, "warren@test")
SECOND_NS = 1_000_000_000
NOW_NS = 100 * SECOND_NS
CHAIN = (
    Wait(Reason.CREDIT, CHANNEL, QUEUE, NOW_NS - 2 * SECOND_NS),
    Wait(Reason.CREDIT, QUEUE, STORE, NOW_NS - 5 * SECOND_NS),
    Wait(Reason.JOURNAL_FULL, STORE, None, NOW_NS - 6 * SECOND_NS, "journal_bytes_max", "fsync"),
)


class FakeNode:
    """Implements `NodeView`."""

    def __init__(self) -> None:
        self.settings = Settings(node_name="warren@test")
        self.stopped: list[str] = []
        self.failed_checks: list[HealthCheck] = []
        self.on_stop: Callable[[], object] = lambda: None
        self.broken: Exception | None = None
        self.rows = tuple(
            QueueRow(
                name=f"q{index}",
                vhost="/",
                state="running",
                messages_ready=index,
                messages_unacknowledged=0,
                consumers=1,
                durable=True,
            )
            for index in range(2500)
        )

    def status(self) -> Status:
        if self.broken is not None:
            raise self.broken
        return Status(
            version=warren.__version__,
            node="warren@test",
            cluster="warren@test",
            pid=4711,
            uptime_ms=3_723_000,
            python="3.11.7",
            event_loop="uvloop",
            compiled_count=17,
            compiled_count_max=17,
            data_dir="/var/lib/warren",
            listeners=(ListenerRow(protocol="amqp", address="::1", port=5672),),
            connections=1,
            channels=2,
            queues=3,
            consumers=4,
            exchanges=7,
            messages_ready=1234567,
            messages_unacknowledged=8,
            rates=Rates(publish=1000.4, deliver=900, ack=800),
            memory_bytes=64 << 20,
            memory_limit_bytes=1 << 30,
            disk_free_bytes=1 << 20,
            disk_free_limit_bytes=50_000_000,
            descriptors=20,
            descriptors_max=1024,
            alarms=(
                AlarmRow(
                    source="disk",
                    node="warren@test",
                    detail="1 MB free",
                    setting="disk_free_limit",
                ),
            ),
        )

    def why(self, subject: Subject | None) -> WhyReply:
        if subject in {None, CHANNEL}:
            return why_reply(subject, CHAIN, now_ns=NOW_NS)
        if subject in {QUEUE, CONNECTION}:
            waits = CHAIN[1:] if subject == QUEUE else ()
            return why_reply(subject, waits, now_ns=NOW_NS)
        raise UnknownSubjectError

    def stop(self, reason: str) -> None:
        self.stopped.append(reason)
        self.on_stop()

    def diag(self) -> Diag:
        return diagnose(self.settings, event_loop="asyncio")

    def health(self) -> Health:
        checks = (HealthCheck(name="listeners", ok=True), *self.failed_checks)
        return health_of("warren@test", checks)

    def connections(self, *, offset: int, limit: int) -> ConnectionPage:
        row = ConnectionRow(
            name=NAME,
            user="guest",
            vhost="/",
            state="running",
            peer_host="127.0.0.1",
            peer_port=40000,
            channels=1,
            product="evil\x1b[31m",
        )
        return ConnectionPage(total=1, rows=(row,)[offset : offset + limit])

    def queues(self, *, vhost: str | None, offset: int, limit: int) -> QueuePage:
        rows = self.rows if vhost in {None, "/"} else ()
        return QueuePage(total=len(rows), rows=rows[offset : offset + limit])


MEMORY_ALARM = HealthCheck(
    name="memory",
    ok=False,
    reason=HealthReason.MEMORY_ALARM,
    detail="1 GiB used",
    advice="consume what is queued",
)


class Events:
    """An `EventLog` that remembers."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, dict[str, object]]] = []

    def event(self, level: str, name: str, fields: object = None, /) -> None:
        self.seen.append((level, name, dict(fields) if isinstance(fields, dict) else {}))
