"""The message store of a node: opened before anybody connects, closed behind everybody.

Open: the incarnations of the durable queues are known from the metadata, so the store is recovered
before the queues are made, and each queue takes over what is its own (`Storage.join`).

Close: when the last client is gone and everything is committed, one batch of the state log says
that the stop was clean, and which messages had been handed out. Whatever ends the process before
that batch is on the disk makes the stop an unclean one.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Protocol, final

import msgspec

from warren.core import AmqpError, reply
from warren.queues.backlog import HERE, Backlog
from warren.queues.memory_share import MemoryShare
from warren.queues.queue import Queue
from warren.queues.storage import KEYS_LEVEL, LEVEL_BITS, Storage
from warren.runtime.lanes import ThreadLanes
from warren.server.commits import NotStoredError
from warren.server.view import HealthCheck, HealthReason
from warren.store.commit import JournalEnd
from warren.store.journal import Waiter
from warren.store.pages import FOLDER as PAGE_FOLDER
from warren.store.pages import Pages
from warren.store.persistence import Persistence
from warren.store.recovery import Found, Recovery
from warren.store.state_log import StateJob
from warren.vhost.change import Change, ExchangePut, QueuePut, decoded
from warren.vhost.metadata import has_incarnation

if TYPE_CHECKING:
    from warren.core.seam import Files, Job
    from warren.server.node import Node
    from warren.store.index import QueueIndex
    from warren.vhost import Broker

Call = Callable[[Callable[[Exception | None], None], Exception | None], object]


class NodeLanes(Protocol):
    """Lanes that a node ends with itself."""

    def submit(self, lane: int, job: "Job") -> None: ...

    def close(self) -> bool:
        """Wait for what was submitted; False if a disk does not answer."""
        ...


# Makes lanes of files, and of who has the ends of jobs told on the loop.
MakeLanes = Callable[["Files", Call], NodeLanes]

# How long a stop waits for the disk.
STOP_WAIT_S: Final = 30.0
# Memory that runs low is looked after this often at most.
LOOK_NS_MIN: Final = 100_000_000
# A disk without room is written to again after this.
RETRY_S: Final = 0.5


@final
class Told(Waiter):
    """Somebody who awaits a batch of the journal."""

    def __init__(self, done: "asyncio.Future[None]") -> None:
        super().__init__()
        self.done = done

    def safe(self, batch: int) -> None:
        if not self.done.done():
            self.done.set_result(None)

    def lost(self, batch: int) -> None:
        if not self.done.done():
            self.done.set_exception(NotStoredError("the journal cannot be written"))


@final
class MessageStore:
    """The `Owner` of the persistence layer."""

    def __init__(self, node: "Node", files: "Files", lanes: "MakeLanes" = ThreadLanes) -> None:
        self.node = node
        self.files = files
        self.lanes = lanes(files, self._call)
        self.found = Found()
        self.broken = ""
        # Why nothing can be written at the moment: the disk has no room.
        self.full = ""
        self._storage: Storage | None = None
        self.share: MemoryShare | None = None
        self._looked_ns = 0

    def _call(self, function: Callable[[Exception | None], None], error: Exception | None) -> None:
        """Have the loop hear of the end of a job, in a turn: called by the threads of the lanes."""
        self.node.loop.call_soon_threadsafe(self._told, function, error)

    def _told(self, function: Callable[[Exception | None], None], error: Exception | None) -> None:
        self.node.hub.begin()
        function(error)

    def open(self, changes: Sequence[Change]) -> list[Change]:
        """Recover what is stored for the durable queues; return the changes with incarnations."""
        node = self.node
        mark = int.from_bytes(node.random.octets(4), "little")
        known = [ident for change in changes for ident in idents_of(change)]
        self.files.remove_folder(PAGE_FOLDER)
        recovery = Recovery(self.files, known, mark)
        _, end, _ = recovery.run()
        self.found = recovery.found
        # What people call a queue, and a message: not its levels, nor the keys of duplicates.
        self.found.queues = len({ident >> LEVEL_BITS for ident in known})
        self.found.messages -= sum(
            int(one.live) for ident, one in recovery.indexes.items() if ident & KEYS_LEVEL
        )
        persistence = _persistence(self, recovery, end)
        storage = Storage(
            node.broker.turn,
            node.log,
            persistence,
            Pages(self.lanes),
            epoch_ns=int(node.broker.epoch_ns),
            resident_octets=node.settings.queue_resident_bytes,
            waits=node.broker.waits,
            pending_max=node.settings.journal_pending_bytes_max,
            files=self.files,
        )
        persistence.shorter = storage.on_shorter
        bodies = storage.journal.bodies
        bodies.embed_below = node.settings.queue_index_embed_msgs_below
        bodies.file_size_limit = node.settings.msg_store_file_size_limit
        storage.clean = self.found.clean
        storage.handed_out = self.found.handed_out
        self._storage = storage
        persistence.owner = self
        node.broker.turn.storage = storage
        self.share = MemoryShare(storage)
        node.hub.safe_batch = persistence.safe_batch
        # A number that no queue had that is forgotten, either: time goes on.
        highest = self.found.highest >> LEVEL_BITS
        node.broker.incarnation = max(highest + 1, node.clock.wall_ns() // 1000)
        self._tell()
        return [self._numbered(change) for change in changes]

    def _numbered(self, change: Change) -> Change:
        wanted = isinstance(change, QueuePut | ExchangePut) and has_incarnation(change)
        if isinstance(change, QueuePut | ExchangePut) and wanted and not change.incarnation:
            number = self.node.broker.next_incarnation()
            return msgspec.structs.replace(change, incarnation=number)
        return change

    def _tell(self) -> None:
        found = self.found
        log = self.node.log
        log.event(
            "info",
            "store.recovered",
            {
                "clean": found.clean,
                "queues": found.queues,
                "messages": found.messages,
                "replayed_bytes": found.replayed_bytes,
                "torn_bytes": found.torn_bytes,
            },
        )
        for damage in found.damages:
            fields = {"file": damage.file, "lsn": damage.lsn, "size": damage.size}
            log.event("error", "store.damaged", fields | {"what": damage.what})
        if found.damaged:
            names = len({ident >> LEVEL_BITS for ident in found.damaged})
            log.event("error", "store.queues_damaged", {"queues": names, "lost": found.lost})

    async def stored(self) -> None:
        """Return when everything that was written down so far is on the disk.

        Raises `NotStoredError` when it may not be.
        """
        storage = self._storage
        if storage is None:
            return
        self.node.hub.begin()
        if storage.journal.broken:
            raise NotStoredError(storage.journal.broken)
        if storage.open_batch() == 0:
            return
        done: asyncio.Future[None] = self.node.loop.create_future()
        # What is safe is told in order: an empty batch would never be written.
        storage.await_batch(Told(done))
        await done

    def look_soon(self) -> None:
        """Memory runs low between two looks."""
        if self.node.clock.monotonic_ns() - self._looked_ns >= LOOK_NS_MIN:
            self.look()

    def look(self) -> None:
        """Decide what stays in memory; called at `memory_monitor_interval_ms`."""
        node = self.node
        storage, share = self._storage, self.share
        if storage is None or share is None:
            return
        now_ns = node.clock.monotonic_ns()
        seconds = (now_ns - self._looked_ns) / 1e9 if self._looked_ns else 1.0
        self._looked_ns = now_ns
        storage.disk_low = node.disk.alarm in node.broker.alarms.in_force()
        memory = node.memory
        share.look(
            used=memory.used,
            limit=memory.limit,
            ratio=memory.paging_ratio,
            seconds=max(seconds, 0.001),
        )
        if storage.pressed:
            node.hub.begin()

    # -- what the layer asks -----------------------------------------------------------------------

    def ticket(self) -> int:
        return self.node.broker.metadata.ticket

    def on_committed(self) -> None:
        hub = self.node.hub
        hub.begin()
        storage = self._storage
        assert storage is not None
        hub.safe_batch = storage.persistence.safe_batch
        if self.full and not storage.persistence.full:
            self.full = ""
            self.node.log.event("info", "store.room_again", {})
        storage.on_committed()
        if hub.held:
            hub.release()

    def on_broken(self, reason: str) -> None:
        """Nothing can be stored any more: nobody gets a false yes."""
        self.broken = reason
        hub = self.node.hub
        hub.begin()
        hub.refuse_held(AmqpError(reply.INTERNAL_ERROR, f"messages cannot be stored: {reason}"))
        storage = self._storage
        if storage is not None:
            storage.on_broken()

    def on_full(self, reason: str) -> None:
        """No room: have the alarm raised, and try again soon."""
        node = self.node
        if not self.full:
            node.log.event("error", "store.full", {"reason": reason})
        self.full = reason
        node.check_disk()
        node.loop.call_later(RETRY_S, self._retry)

    def _retry(self) -> None:
        storage = self._storage
        if storage is not None and not storage.persistence.broken:
            storage.persistence.retry()

    def check(self) -> HealthCheck:
        """What the health of the node says of the message store."""
        if self.full and not self.broken:
            return HealthCheck(
                name="message_store",
                ok=False,
                reason=HealthReason.STORE_FAILED,
                detail=f"persistent messages wait for room on the disk: {self.full}",
                advice="make room; it is tried again every half second",
            )
        if not self.broken:
            return HealthCheck(name="message_store", ok=True)
        return HealthCheck(
            name="message_store",
            ok=False,
            reason=HealthReason.STORE_FAILED,
            detail=f"persistent messages cannot be stored: {self.broken}",
            advice="nothing is stored until the node is started again; see the disk and its log",
        )

    # -- the end -----------------------------------------------------------------------------------

    async def close(self) -> None:
        """Have everything on the disk, and say that the stop was clean."""
        storage = self._storage
        if storage is not None:
            try:
                await asyncio.wait_for(self._settle(storage), STOP_WAIT_S)
            except TimeoutError:
                self.node.log.event(
                    "error", "store.not_closed", {"why": "the disk does not answer"}
                )
            self.node.broker.turn.storage = None
        await asyncio.get_running_loop().run_in_executor(None, self.lanes.close)

    async def _settle(self, storage: Storage) -> None:
        persistence = storage.persistence
        idle: asyncio.Future[None] = self.node.loop.create_future()
        persistence.idle = lambda: idle.set_result(None)
        persistence.end_turn()
        if persistence.broken:
            return
        await idle
        ended: asyncio.Future[Exception | None] = self.node.loop.create_future()

        def noted(job: StateJob, error: Exception | None) -> None:
            ended.set_result(error)

        persistence.stop(handed_out_of(self.node.broker), noted)
        error = await ended
        if error is not None:
            self.node.log.event("error", "store.not_closed", {"why": str(error)})


def _persistence(owner: MessageStore, recovery: Recovery, end: JournalEnd) -> Persistence:
    persistence = Persistence(
        owner.lanes,
        owner.node.log,
        recovery.journal,
        end,
        recovery.state,
        recovery.journal_files,
    )
    for ident, index in recovery.indexes.items():
        # A level without messages is made again when it has one.
        if ident & ((1 << LEVEL_BITS) - 1) == 0 or index.next_seq > 0:
            persistence.indexes[ident] = index
    return persistence


def handed_out_of(broker: "Broker") -> dict[int, list[tuple[int, int]]]:
    """What comes back as redelivered, by what the store knows the levels by."""
    found: dict[int, list[tuple[int, int]]] = {}
    for vhost in broker.vhosts.values():
        for queue in vhost.queues.values():
            if queue.index is not None:
                found.update(_handed_out_of(queue))
    return found


def idents_of(change: Change) -> list[int]:
    """What the store knows a queue or exchange by; nothing for other changes."""
    if not isinstance(change, QueuePut | ExchangePut) or not change.incarnation:
        return []
    levels = 1
    if change.arguments and isinstance(change, QueuePut):
        priority = decoded(change.arguments).get("x-max-priority")
        if priority is not None and isinstance(priority.value, int):
            levels = priority.value + 1
    lowest = change.incarnation << LEVEL_BITS
    idents = [lowest | level for level in range(levels)]
    return [*idents, lowest | KEYS_LEVEL] if isinstance(change, QueuePut) else idents


def _handed_out_of(queue: Queue) -> dict[int, list[tuple[int, int]]]:
    found: dict[int, list[tuple[int, int]]] = {}
    levels: list[tuple[QueueIndex | None, Backlog, list[int]]] = []
    if queue.ruled is None:
        seqs = [int(item.seq) for item in queue.returned.heap]
        levels.append((queue.index, queue.backlog, seqs))
    else:
        for level in queue.ruled.levels:
            if level is not None:
                seqs = [int(item.seq) for item in level.returned.heap]
                levels.append((level.index, level.backlog, seqs))
    for index, backlog, seqs in levels:
        if index is not None:
            runs = _runs(sorted([*seqs, *_again_here(backlog)])) + _again_out(backlog)
            if runs:
                found[int(index.ident)] = _merged(sorted(runs))
    return found


def _again_here(backlog: Backlog) -> list[int]:
    """Messages in memory that were handed out before the node started."""
    seqs: list[int] = []
    block = backlog.head if backlog.count > 0 else None
    begin = int(backlog.head_index)
    while block is not None:
        if block.place == HERE and block.again:
            seqs += [int(block.seq_at(place)) for place in range(begin, len(block.items))]
        begin = 0
        block = block.next
    return seqs


def _again_out(backlog: Backlog) -> list[tuple[int, int]]:
    """The same of what is on the disk, as runs."""
    paging = backlog.paging
    if paging is None or backlog.outs == 0:
        return []
    block = backlog.head
    while block.place == HERE and block.next is not None:
        block = block.next
    first, end = int(block.first), int(paging.again_below)
    if first >= end:
        return []
    if paging.again_runs is None:
        return [(first, end - first)]
    return [
        (max(begin, first), stop - max(begin, first))
        for begin, stop in paging.again_runs
        if stop > first
    ]


def _merged(runs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Runs in order that do not overlap, of runs in order that may."""
    found: list[tuple[int, int]] = []
    for first, count in runs:
        if found and first <= found[-1][0] + found[-1][1]:
            begin, before = found[-1]
            found[-1] = begin, max(before, first + count - begin)
        else:
            found.append((first, count))
    return found


def _runs(seqs: list[int]) -> list[tuple[int, int]]:
    """Neighbours as runs: first id, and how many."""
    runs: list[tuple[int, int]] = []
    for seq in seqs:
        if runs and runs[-1][0] + runs[-1][1] == seq:
            runs[-1] = runs[-1][0], runs[-1][1] + 1
        else:
            runs.append((seq, 1))
    return runs
