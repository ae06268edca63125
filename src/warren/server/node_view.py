"""What the node answers to people: its `NodeView`, made from the broker and the links."""

import os
import platform
from typing import TYPE_CHECKING, final

from msgspec import Raw

import warren
from warren._build import forms
from warren.flow import Alarm, Kind, Source, Subject
from warren.runtime.loop import loop_name
from warren.runtime.process import descriptor_count, descriptor_count_max, resident_bytes
from warren.server.derived_wait import concerns, derived_waits
from warren.server.diagnosis import (
    check_certificate,
    check_descriptors,
    diagnose,
    why_reply,
)
from warren.server.view import (
    AlarmRow,
    ConnectionPage,
    ConnectionRow,
    Diag,
    Health,
    HealthCheck,
    HealthReason,
    QueuePage,
    QueueRow,
    Rates,
    Status,
    UnknownSubjectError,
    WhyReply,
    health_of,
)
from warren.session import RUNNING, Connection
from warren.vhost.policy_effect import as_json
from warren.vhost.policy_force import in_force

if TYPE_CHECKING:
    from warren.server.node import Node

# A loop that is later than this when a timer fires is in trouble.
LATE_NS_MAX = 1_000_000_000
ALARM_SETTINGS = {Source.MEMORY: "vm_memory_high_watermark", Source.DISK: "disk_free_limit"}


@final
class View:
    def __init__(self, node: "Node") -> None:
        self.node = node
        self.forms = forms()
        self.started_ns = node.clock.monotonic_ns()
        self.rates = Rates()
        self.sampled_ns = self.started_ns
        self.counts = (0, 0, 0, 0)

    def _connections(self) -> list[Connection]:
        found = [link.connection for link in self.node.hub.links.values()]
        return [one for one in found if one is not None]

    def sample(self) -> None:
        """Take the counters once a second; rates are their differences."""
        totals = self.node.broker.totals
        published, delivered, acked = totals.published, totals.delivered, totals.acknowledged
        confirmed = totals.confirmed
        for connection in self._connections():
            for channel in connection.channels.values():
                published += channel.published
                delivered += channel.outlet.delivered
                acked += channel.acknowledged
                if channel.ledger is not None:
                    confirmed += channel.ledger.told
        now = self.node.clock.monotonic_ns()
        seconds = max(1e-9, (now - self.sampled_ns) / 1e9)
        counts = (int(published), int(delivered), int(acked), int(confirmed))
        rate = [(new - old) / seconds for new, old in zip(counts, self.counts, strict=True)]
        self.rates = Rates(publish=rate[0], deliver=rate[1], ack=rate[2], confirm=rate[3])
        self.counts = counts
        self.sampled_ns = now

    def status(self) -> Status:
        node = self.node
        ready = unacked = consumers = queues = exchanges = 0
        for vhost in node.broker.vhosts.values():
            queues += len(vhost.queues)
            exchanges += len(vhost.routing.exchanges)
            for queue in vhost.queues.values():
                ready += int(queue.ready())
                unacked += int(queue.unacked_count)
                consumers += len(queue.consumers.every)
        connections = self._connections()
        return Status(
            version=warren.__version__,
            node=node.settings.node_name,
            cluster=node.broker.cluster_name() or node.settings.cluster(),
            pid=os.getpid(),
            uptime_ms=(node.clock.monotonic_ns() - self.started_ns) // 1_000_000,
            python=platform.python_version(),
            event_loop=loop_name(node.loop),
            compiled_count=sum(self.forms.values()),
            compiled_count_max=len(self.forms),
            data_dir=str(node.settings.data_dir),
            listeners=tuple(node.listeners.rows),
            connections=len(connections),
            channels=sum(len(one.channels) for one in connections),
            queues=queues,
            consumers=consumers,
            exchanges=exchanges,
            messages_ready=ready,
            messages_unacknowledged=unacked,
            messages_delayed=int(node.broker.delayed.count),
            delayed_bytes=int(node.broker.delayed.octets),
            rates=self.rates,
            memory_bytes=resident_bytes(),
            memory_limit_bytes=node.memory.limit,
            memory_total_bytes=node.memory.total,
            memory_total_assumed=node.memory.assumed,
            memory_strategy=node.memory.strategy,
            memory_watermark_absolute=node.memory.absolute,
            memory_watermark_relative=node.memory.relative,
            disk_free_bytes=node.disk.free,
            disk_free_limit_bytes=node.disk.limit,
            disk_monitored=not node.disk.disabled,
            descriptors=descriptor_count(),
            descriptors_max=descriptor_count_max(),
            alarms=self._alarms(),
            certificate=node.tls.row() if node.tls.enabled else None,
        )

    def _alarms(self) -> tuple[AlarmRow, ...]:
        return tuple(
            AlarmRow(
                source=alarm.source.value,
                node=alarm.node,
                detail=self._alarm_detail(alarm),
                setting=ALARM_SETTINGS[alarm.source],
            )
            for alarm in self.node.broker.alarms.in_force()
        )

    def _alarm_detail(self, alarm: Alarm) -> str:
        memory, disk = self.node.memory, self.node.disk
        if alarm == memory.alarm and not memory.by_hand:
            return f"{memory.used} of {memory.limit} bytes used"
        if alarm == disk.alarm and not disk.by_hand:
            return f"{disk.free} bytes free, the limit is {disk.limit}"
        return "set by hand"

    def why(self, subject: Subject | None) -> WhyReply:
        waits = self.node.broker.waits
        now = self.node.clock.monotonic_ns()
        if subject is None:
            seen = derived_waits(self._connections(), now)
            every = waits.all() + waits.all_lingering(now) + seen
            return why_reply(None, every, now_ns=now, unlisted=waits.unlisted)
        if not self._exists(subject):
            raise UnknownSubjectError(str(subject))
        seen = [one for one in derived_waits(self._connections(), now) if concerns(one, subject)]
        if subject.kind in (Kind.USER, Kind.VHOST):
            seen += [one for one in waits.all() if one.cause == subject]
        return why_reply(subject, waits.chain(subject, now) + seen, now_ns=now)

    def _exists(self, subject: Subject) -> bool:
        if subject.kind is Kind.CONNECTION:
            return any(one.subject == subject for one in self._connections())
        if subject.kind is Kind.CHANNEL:
            name, _, number = subject.name.rpartition(" (")
            return any(
                one.subject.name == name
                and number[:-1].isdigit()
                and int(number[:-1]) in one.channels
                for one in self._connections()
            )
        if subject.kind is Kind.QUEUE:
            vhost = self.node.broker.vhosts.get(subject.vhost)
            return vhost is not None and subject.name in vhost.queues
        if subject.kind is Kind.USER:
            return self.node.broker.users.get(subject.name) is not None
        if subject.kind is Kind.VHOST:
            return subject.name in self.node.broker.vhosts
        if subject.kind is Kind.NODE:
            return subject.name == self.node.settings.node_name
        return bool(self.node.broker.waits.of(subject))

    def stop(self, reason: str) -> None:
        self.node.loop.call_soon(self.node.stop, reason)

    def diag(self) -> Diag:
        return diagnose(self.node.settings, event_loop=loop_name(self.node.loop))

    def health(self) -> Health:
        node = self.node
        checks = [self._life(), self._listening(), self._loop(), check_descriptors()]
        if node.tls.enabled:
            checks.append(check_certificate(node.tls.row()))
        alarms = node.broker.alarms.in_force()
        checks.append(
            HealthCheck(name="alarms", ok=True)
            if not alarms
            else HealthCheck(
                name="alarms",
                ok=False,
                reason=HealthReason(f"{alarms[0].source.value}_alarm"),
                detail="; ".join(self._alarm_detail(alarm) for alarm in alarms),
                advice="publishers are blocked until it ends; see `warren why`",
            )
        )
        checks.append(node.commits.check())
        if node.messages is not None:
            checks.append(node.messages.check())
        return health_of(node.settings.node_name, tuple(checks))

    def _life(self) -> HealthCheck:
        node = self.node
        if node.stopping:
            return HealthCheck(name="running", ok=False, reason=HealthReason.STOPPING)
        if not node.running:
            return HealthCheck(name="running", ok=False, reason=HealthReason.STARTING)
        return HealthCheck(name="running", ok=True)

    def _listening(self) -> HealthCheck:
        if self.node.listeners.exhausted or not self.node.listeners.rows:
            return HealthCheck(
                name="listeners",
                ok=False,
                reason=HealthReason.LISTENER_DOWN,
                detail="no connections are accepted at the moment",
                advice="raise the limit of open files (LimitNOFILE, ulimit -n)",
            )
        return HealthCheck(name="listeners", ok=True)

    def _loop(self) -> HealthCheck:
        late = int(self.node.hub.late_ns_max)
        self.node.hub.late_ns_max = 0
        if late > LATE_NS_MAX:
            return HealthCheck(
                name="loop",
                ok=False,
                reason=HealthReason.LOOP_LATE,
                detail=f"a timer was {late // 1_000_000} ms late since the last check",
                advice="the node's core is overloaded, or the machine was stopped for a while",
            )
        return HealthCheck(name="loop", ok=True)

    def connections(self, *, offset: int, limit: int) -> ConnectionPage:
        every = sorted(self._connections(), key=lambda one: one.subject.name)
        return ConnectionPage(
            total=len(every),
            rows=tuple(_connection_row(one) for one in every[offset : offset + limit]),
        )

    def queues(self, *, vhost: str | None, offset: int, limit: int) -> QueuePage:
        names = [
            (home.name, name)
            for home in self.node.broker.vhosts.values()
            if vhost is None or home.name == vhost
            for name in home.queues
        ]
        names.sort()
        rows = []
        for home_name, name in names[offset : offset + limit]:
            queue = self.node.broker.vhosts[home_name].queues[name]
            applied = in_force(queue)
            rows.append(
                QueueRow(
                    name=name,
                    vhost=home_name,
                    state=queue.state(),
                    messages_ready=int(queue.ready()),
                    messages_unacknowledged=int(queue.unacked_count),
                    consumers=len(queue.consumers.every),
                    durable=queue.durable,
                    auto_delete=queue.auto_delete,
                    exclusive=queue.owner != 0,
                    message_bytes=int(queue.ready_bytes),
                    policy=applied.policy,
                    operator_policy=applied.operator_policy,
                    effective_policy_definition=Raw(as_json(applied.effective)),
                )
            )
        return QueuePage(total=len(names), rows=tuple(rows))


def _connection_row(one: Connection) -> ConnectionRow:
    product = one.client_properties.get("product")
    raw = product.value if product is not None else b""
    return ConnectionRow(
        name=one.subject.name,
        user=one.user,
        vhost=one.home.name if one.home is not None else "",
        state=one.state(),
        peer_host=one.peer,
        peer_port=one.peer_port,
        channels=len(one.channels),
        ssl=one.tls,
        frame_max=one.frame_max if one.phase == RUNNING else 0,
        timeout=one.heartbeat_s,
        recv_oct=int(one.octets_in),
        send_oct=int(one.output.octets_out),
        product=raw.decode(errors="replace") if isinstance(raw, bytes) else "",
    )
