"""One node: everything joined, started, and stopped in order.

A node is built of parts: settings, event loop, clock, log. It touches nothing that belongs to its
process (signals, files, standard output, the cycle collector's switch): `server.service` does that
for a process of its own, `warren.testing` runs several nodes in a test's process.

All time is the clock's and the loop's that were handed in. What is done at an interval is a beat:
a beat that was missed is not made up for, so a driver of time may stop the beats, go on to any
later moment and start them again.

Stop: listeners first, then every client is told with 320, then what is left is dropped. A second
call drops at once.
"""

import asyncio
import gc
from typing import TYPE_CHECKING, Final, Protocol, final

import warren
from warren.core import AmqpError, Clock, reply
from warren.core.log import EventLog
from warren.core.seam import Files
from warren.flow import Change as AlarmChange
from warren.flow import Edge, Source
from warren.protocol.value import Table, field
from warren.runtime import SystemRandom
from warren.runtime.lanes import ThreadLanes
from warren.runtime.memory import MachineGauge
from warren.security import Attempts, Mechanisms, Permissions, UserStore
from warren.server.blank import blank_changes
from warren.server.boot_definitions import load_definitions
from warren.server.closing import Closing
from warren.server.commands import commands
from warren.server.commits import Commits
from warren.server.config import Settings
from warren.server.control import Control
from warren.server.disk import DiskMonitor
from warren.server.feed import Feeds
from warren.server.gauge import Gauge
from warren.server.hub import TAKEN_MAX, Hub
from warren.server.listener import Listeners
from warren.server.memory import MemoryMonitor
from warren.server.message_store import MakeLanes, MessageStore
from warren.server.metadata_store import Store
from warren.server.node_view import View
from warren.server.notify import Notifier
from warren.server.tls import Tls
from warren.session import SessionSettings
from warren.session.handshake import SERVER_CAPABILITIES
from warren.vhost import Broker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from warren.vhost.change import Change

# How long clients have to answer the close of a stopping node.
STOP_WAIT_S: Final = 3.0
MONITOR_S: Final = 1.0
# Memory is measured again after so much of its limit came in, within these bounds.
TAKEN_SHARE: Final = 64
TAKEN_MIN: Final = 1024 * 1024
# From this share of the limit on, memory that is free is returned to the system: so often, and at
# most every twentieth of the time.
GIVE_BACK_SHARE: Final = 0.8
GIVE_BACK_NS: Final = 1_000_000_000
GIVE_BACK_NS_MAX: Final = 16_000_000_000
# Less than one in so many octets is not worth it.
GIVE_BACK_WORTH: Final = 32
GIVE_BACK_REST: Final = 20
SET_TEXT: Final = "*** publishers will be blocked until this alarm clears ***"
# What could not be restored is told one by one up to this many; the number of all is told, too.
PROBLEMS_MAX: Final = 100
# The release of the reference whose behaviour clients find here.
COMPATIBLE_VERSION: Final = "3.10.8"


def server_properties(settings: Settings) -> Table:
    """What clients are told about this server; configured properties win (spec 2.1)."""
    properties: Table = {
        "capabilities": field(dict.fromkeys(SERVER_CAPABILITIES, True)),
        "cluster_name": field(settings.cluster()),
        "copyright": field("Apache License 2.0"),
        "information": field("See the documentation of Warren"),
        "platform": field(f"Warren {warren.__version__}"),
        # Clients choose their behaviour by these two (docs/decisions/0005).
        "product": field("RabbitMQ"),
        "version": field(COMPATIBLE_VERSION),
    }
    for name, value in settings.server_properties.items():
        properties[name] = field(value)
    return properties


def session_settings(settings: Settings) -> SessionSettings:
    return SessionSettings(
        handshake_timeout_ms=settings.handshake_timeout_ms,
        frame_max=settings.frame_max,
        channel_max=settings.channel_max,
        heartbeat_s=settings.heartbeat_s,
        max_message_size=settings.max_message_size,
        consumer_timeout_ms=settings.consumer_timeout_ms or 0,
        channel_tick_ms=settings.channel_tick_interval_ms,
        unsent_bytes_max=settings.unsent_bytes_max,
        parked_bytes_max=settings.parked_bytes_max,
        default_prefetch=settings.default_consumer_prefetch,
        credit_initial=settings.credit_flow_default_credit[0],
        credit_refill=settings.credit_flow_default_credit[1],
        server_properties=server_properties(settings),
    )


class NodeLog(EventLog, Protocol):
    """What a node needs of its log."""

    def tell_suppressed(self) -> None:
        """Tell of storms of one reason that ended; called once a second."""

    def level(self, level: str) -> None:
        """Change the least level that is written."""


@final
class Node:
    def __init__(
        self,
        settings: Settings,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        log: NodeLog,
        notifier: Notifier | None = None,
        store: Store | None = None,
        files: Files | None = None,
        gauge: Gauge | None = None,
        lanes: MakeLanes = ThreadLanes,
    ) -> None:
        self.settings = settings
        self.loop = loop
        self.clock = clock
        self.log = log
        # When it began, in seconds: part of the process ids that are shown to people.
        self.creation = clock.wall_ns() // 1_000_000_000
        random = SystemRandom()
        self.broker = Broker(
            node_name=settings.node_name,
            clock=clock,
            random=random,
            log=log,
            users=UserStore(frozenset(settings.loopback_users)),
            permissions=Permissions(),
            mechanisms=Mechanisms(settings.auth_mechanisms),
            attempts=Attempts(settings.login_failures_per_s),
        )
        self.broker.count_continues = settings.dead_letter_counts_continue
        self.broker.merge_policies = settings.merge_policies
        self.hub = Hub(loop, self.broker, clock)
        self.commits = Commits(self.hub, self.broker.metadata, log)
        self.broker.sessions = Closing(self.hub)
        self.random = random
        # Without one, metadata is in memory only.
        self.store = store
        # Without files, messages are in memory only.
        self.messages = None if files is None else MessageStore(self, files, lanes)
        if store is not None:
            self.restore(store)
        self.tls = Tls(settings, clock, log)
        self.listeners = Listeners(self.hub, settings, session_settings(settings), self.tls, log)
        gauge = gauge or MachineGauge()
        self.memory = MemoryMonitor(settings, self.broker.alarms, gauge, log)
        self.disk = DiskMonitor(settings, self.broker.alarms, gauge, log, self.memory)
        self.commits.on_passing = self.check_disk
        self.view = View(self)
        self.feeds = Feeds(self)
        self.control = Control(self.view, log, commands(self))
        self.notifier = notifier or Notifier()
        self.stopping = False
        self.running = False
        self.stopped = loop.create_future()
        self.next_monitor: asyncio.TimerHandle | None = None
        self.next_disk: asyncio.TimerHandle | None = None
        self.next_share: asyncio.TimerHandle | None = None
        self.next_sweep: asyncio.TimerHandle | None = None
        self.beating = False
        # Memory that is free is on its way back to the system; since when, when it may be again.
        self.giving_back = False
        self.giving: asyncio.Future[None] | None = None
        self.giving_back_ns = 0
        self.give_back_ns = 0
        self.give_back_rest_ns = GIVE_BACK_NS

    def restore(self, store: Store) -> None:
        """Make true what was true when the node ended."""
        began = self.clock.monotonic_ns()
        changes: Sequence[Change] = store.read()
        fresh: list[Change] = []
        if self.messages is not None:
            numbered = self.messages.open(changes)
            fresh = [new for old, new in zip(changes, numbered, strict=True) if old is not new]
            changes = numbered
        problems = self.broker.metadata.restore(changes)
        for problem in problems[:PROBLEMS_MAX]:
            self.log.event("error", "metadata.not_restored", {"problem": problem})
        store.start(self.loop.call_soon_threadsafe, self.commits)
        self.broker.metadata.backend = store
        if fresh:
            self.broker.metadata.followed(fresh)
        took_ms = (self.clock.monotonic_ns() - began) // 1_000_000
        self.log.event(
            "info",
            "metadata.restored",
            {"objects": len(changes), "problems": len(problems), "ms": took_ms},
        )

    async def prepare(self) -> None:
        """Have a node without any metadata made usable, and kept, before anybody connects."""
        broker = self.broker
        definitions = self.settings.load_definitions
        if definitions is not None:
            await load_definitions(self, definitions)
        elif not broker.vhosts and not broker.users.names():
            ticket = broker.metadata.apply(blank_changes(self.settings, self.random))
            await self.commits.durable(ticket)

    async def start(self) -> None:
        """Listen; clients may connect when this returns."""
        await self.prepare()
        await self.listeners.start()
        self.start_beats()
        self.running = True
        self.log.event("info", "node.started", {"node": self.settings.node_name})

    def start_beats(self) -> None:
        self.hub.start_ticking()
        self.beating = True
        self.monitor()
        self.share_memory()
        self.sweep_history()
        self.hub.measure = self.check_memory
        self.disk.begin()
        self.check_disk()

    def stop_beats(self) -> None:
        self.hub.stop_ticking()
        self.beating = False
        self.hub.measure = None
        for timer in (self.next_monitor, self.next_disk, self.next_share, self.next_sweep):
            if timer is not None:
                timer.cancel()

    def monitor(self) -> None:
        """Once a second: memory, and the ends of log storms."""
        self.check_memory()
        self.tell_brakes()
        self.log.tell_suppressed()
        self.view.sample()
        if not self.stopping:
            self.next_monitor = self.loop.call_later(MONITOR_S, self.monitor)

    def check_memory(self) -> None:
        """Measure; with much of the limit used, look at what the queues keep, too."""
        self.tell_edge(self.memory.check())
        memory = self.memory
        if memory.used > memory.limit * GIVE_BACK_SHARE:
            self.give_back()
        self.hub.taken_max = min(TAKEN_MAX, max(TAKEN_MIN, memory.limit // TAKEN_SHARE))
        if self.messages is not None and memory.used > memory.limit * memory.paging_ratio:
            self.messages.look_soon()

    def give_back(self) -> None:
        """Have memory that is free returned to the system, on a thread; then measure again."""
        now_ns = self.clock.monotonic_ns()
        if self.giving_back or now_ns < self.give_back_ns or not self.beating:
            return
        self.giving_back = True
        self.giving_back_ns = now_ns
        self.giving = self.loop.run_in_executor(None, self.memory.gauge.give_back)
        self.giving.add_done_callback(self._gave_back)

    def _gave_back(self, done: asyncio.Future[None]) -> None:
        self.giving_back = False
        now_ns = self.clock.monotonic_ns()
        # It may take a while, and whoever allocates waits for it: then it happens the less often,
        # and so it does when there was little to be returned.
        took_ns = now_ns - self.giving_back_ns
        before = self.memory.used
        freed = before - self.memory.gauge.memory_used()
        if freed * GIVE_BACK_WORTH >= before or self.broker.alarms.any():
            self.give_back_rest_ns = GIVE_BACK_NS
        else:
            self.give_back_rest_ns = min(2 * self.give_back_rest_ns, GIVE_BACK_NS_MAX)
        self.give_back_ns = now_ns + max(self.give_back_rest_ns, GIVE_BACK_REST * took_ns)
        if self.beating and not done.cancelled():
            self.tell_edge(self.memory.check())

    def share_memory(self) -> None:
        """Decide at an interval what stays in memory (VQ-13)."""
        if self.messages is None:
            return
        self.messages.look()
        if not self.stopping:
            interval_s = self.settings.memory_monitor_interval_ms / 1000
            self.next_share = self.loop.call_later(interval_s, self.share_memory)

    def sweep_history(self) -> None:
        """Let go of what queues need not keep any more, at an interval."""
        storage = self.broker.turn.storage
        if storage is None or self.stopping:
            return
        if storage.retention.queues:
            self.hub.begin()
            storage.retention.sweep()
        interval_s = self.settings.history_sweep_interval_ms / 1000
        self.next_sweep = self.loop.call_later(interval_s, self.sweep_history)

    def check_disk(self) -> None:
        """Measure free space now, and again when it may have run out.

        For whoever a write has failed for lack of space: on the loop's thread only.
        """
        if self.next_disk is not None:
            self.next_disk.cancel()
            self.next_disk = None
        self.tell_edge(self.disk.check())
        wait_ms = self.disk.wait_ms()
        if wait_ms and self.beating and not self.stopping:
            self.next_disk = self.loop.call_later(wait_ms / 1000, self.check_disk)

    def tell_edge(self, edge: Edge | None) -> None:
        """An alarm has changed, or has not: the log and the connections hear of it (AL-4)."""
        if edge is None:
            return
        facts: dict[str, object] = {"source": edge.alarm.source.value, "node": edge.alarm.node}
        if edge.alarm == self.memory.alarm:
            facts |= {"used": self.memory.used, "limit": self.memory.limit}
        elif edge.alarm == self.disk.alarm:
            facts |= {"free": self.disk.free, "limit": self.disk.limit}
        if edge.change is AlarmChange.SET:
            facts["text"] = SET_TEXT
        self.log.event("warning", edge.change.value, facts)
        if edge.everywhere and edge.change is not AlarmChange.SET:
            facts = {"source": edge.alarm.source.value}
            self.log.event("warning", "alarm.cleared_everywhere", facts)
        self.tell_alarms()
        if edge.change is AlarmChange.SET and edge.alarm.source is Source.MEMORY:
            gc.collect()

    def tell_brakes(self) -> None:
        """Addresses that failed to log in too often and have stopped doing so."""
        for ended in self.broker.attempts.sweep(self.clock.monotonic_ns()):
            self.log.event(
                "info", "login.brake_off", {"address": ended.address, "dropped": ended.dropped}
            )

    def tell_alarms(self) -> None:
        """Every connection hears of a change of the alarms (AL-2)."""
        self.hub.begin()
        for link in list(self.hub.links.values()):
            if link.connection is not None:
                link.connection.on_alarm()
                link.look()

    def stop(self, reason: str) -> None:
        """Begin an orderly stop; the second call drops what is left."""
        if self.stopping:
            self._finish()
            return
        self.stopping = True
        self.log.event("info", "node.stopping", {"reason": reason})
        self.notifier.stopping(reason)
        self.listeners.stop()
        self.hub.begin()
        for link in list(self.hub.links.values()):
            connection = link.connection
            if connection is not None:
                connection.close(
                    AmqpError(
                        reply.CONNECTION_FORCED,
                        "broker forced connection closure with reason 'shutdown'",
                    )
                )
        self.loop.call_later(STOP_WAIT_S, self._finish)
        self._wait_for_clients()

    def _wait_for_clients(self) -> None:
        if not self.hub.links:
            self._finish()
        else:
            self.loop.call_later(0.01, self._wait_for_clients)

    def _finish(self) -> None:
        for link in list(self.hub.links.values()):
            link.abort()
        if not self.stopped.done():
            self.stopped.set_result(None)

    async def ended(self) -> None:
        """Wait until the node has stopped, and put away what is its own."""
        try:
            await self.stopped
        finally:
            self.stop_beats()
            self.hub.stop_waking()
            if self.giving is not None:
                await asyncio.wait((self.giving,))
            if self.messages is not None:
                await self.messages.close()
            if self.store is not None:
                self.store.close()
        self.log.event("info", "node.stopped", {"node": self.settings.node_name})
