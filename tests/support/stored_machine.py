"""A `Machine` with a disk: what is persistent in durable queues survives `restart`.

The disk is `SimFiles`, the message store the node's own (`server/message_store.py`) with a
stand-in for the rest of the node. Jobs are done and told at the end of turns, in the order in
which they were given or in one drawn from a seed. `Limits` makes everything small, so that what is
rare in a node happens in every step: blocks of a few messages, journals of a few batches.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from tests.support.machine import FakeClock, Machine, Peer
from tests.support.sim_files import SimFiles
from warren.server.message_store import MessageStore, handed_out_of
from warren.session import SessionSettings
from warren.store.state_log import StateJob
from warren.vhost.change import (
    BindingDelete,
    BindingPut,
    Change,
    ExchangeDelete,
    QueueDelete,
    QueuePut,
)

if TYPE_CHECKING:
    from warren.core.seam import Job
    from warren.queues.storage import Storage


KEPT_DEFAULT: Final = 128 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of everything there may be; small numbers make rare things frequent."""

    resident_octets: int = 32 * 1024 * 1024
    block_messages: int = 256
    ahead: int = 2048
    ahead_octets: int = 1024 * 1024
    journal_kept: int = KEPT_DEFAULT
    journal_file: int = 16 * 1024 * 1024
    page_file: int = 16 * 1024 * 1024
    # Messages from this size on are in the message store.
    embed_below: int = 4096
    body_file: int = 16 * 1024 * 1024
    pending_max: int = 32 * 1024 * 1024
    # The order of jobs of several lanes, and how many are done in a turn; 0 is all, as given.
    seed: int = 0


class TurnLanes:
    """Jobs are done, and told, when `run` is called; those of one lane in order."""

    def __init__(self, files: SimFiles, seed: int) -> None:
        self.files = files
        self.random = Random(seed) if seed else None
        self.lanes: dict[int, deque[Job]] = {}
        self.order: deque[int] = deque()

    def submit(self, lane: int, job: "Job") -> None:
        self.lanes.setdefault(lane, deque()).append(job)
        self.order.append(lane)

    def run(self) -> bool:
        """Do some of what there is to do; True if something was done."""
        if not self.order:
            return False
        if self.random is None:
            for _ in range(len(self.order)):
                self._do(self.order.popleft())
        else:
            for _ in range(self.random.randrange(1, len(self.order) + 1)):
                lane = self.random.choice(self.order)
                self.order.remove(lane)
                self._do(lane)
        return True

    def _do(self, lane: int) -> None:
        job = self.lanes[lane].popleft()
        error: Exception | None = None
        try:
            job.run(self.files)
        except Exception as failure:  # As the lanes of the machine do.
            error = failure
        job.done(error)

    def close(self) -> bool:
        """What was not done never is."""
        self.order.clear()
        self.lanes.clear()
        return True


class Notebook:
    """The metadata that is stored: what the next start is told."""

    failure: Final = ""

    def __init__(self) -> None:
        self.ticket = 0
        self.queues: dict[tuple[str, str], QueuePut] = {}
        self.bindings: dict[tuple[Any, ...], BindingPut] = {}
        self.others: list[Change] = []

    def put(self, changes: Sequence[Change]) -> int:
        for change in changes:
            self._note(change)
        self.ticket += 1
        return self.ticket

    def _note(self, change: Change) -> None:
        if isinstance(change, QueuePut):
            self.queues[change.vhost, change.name] = change
        elif isinstance(change, QueueDelete):
            self.queues.pop((change.vhost, change.name), None)
            self._cut(change.vhost, change.name, True)
        elif isinstance(change, BindingPut | BindingDelete):
            key = (
                change.vhost, change.source, change.destination, change.to_queue,
                change.key, change.arguments,
            )  # fmt: skip
            self.bindings.pop(key, None)
            if isinstance(change, BindingPut):
                self.bindings[key] = change
        else:
            self.others.append(change)
            if isinstance(change, ExchangeDelete):
                self._cut(change.vhost, change.name, False)

    def _cut(self, vhost: str, name: str, is_queue: bool) -> None:
        for key in list(self.bindings):
            at = key[2] == name and key[3] == is_queue
            if key[0] == vhost and (at or (not is_queue and key[1] == name)):
                del self.bindings[key]

    def changes(self) -> list[Change]:
        return [*self.others, *self.queues.values(), *self.bindings.values()]


class StandIn:
    """What the message store sees of the hub."""

    def __init__(self) -> None:
        self.safe_batch = 0
        self.committed = 0
        self.held: list[Peer] = []
        self.refused: list[Peer] = []

    def begin(self) -> None:
        """The turn goes on until there is nothing to do."""

    def release(self) -> None:
        held, self.held = self.held, []
        for peer in held:
            if peer.alive():
                output = peer.connection.output
                if output.hold > self.committed or output.hold_batch > self.safe_batch:
                    self.held.append(peer)
                else:
                    peer.flush()

    def refuse_held(self, error: Exception) -> None:
        held, self.held = self.held, []
        self.refused += held


class StoredMachine(Machine):
    def __init__(
        self,
        settings: SessionSettings | None = None,
        *,
        limits: Limits | None = None,
        clock: FakeClock | None = None,
        files: SimFiles | None = None,
        notebook: Notebook | None = None,
    ) -> None:
        self.limits = limits or Limits()
        self.files = files or SimFiles(Random(1))
        self.notebook = notebook or Notebook()
        self.fresh = notebook is None
        self.hub = StandIn()
        # The disk runs low: paging stops (PG-3).
        self.disk_low = False
        super().__init__(settings, clock)

    def begin(self) -> None:
        limits = self.limits
        self.lanes = TurnLanes(self.files, limits.seed)
        node = SimpleNamespace(
            broker=self.broker,
            clock=self.clock,
            log=self.log,
            hub=self.hub,
            random=self.random,
            loop=SimpleNamespace(call_soon_threadsafe=None),
            settings=SimpleNamespace(
                queue_resident_bytes=limits.resident_octets,
                queue_index_embed_msgs_below=limits.embed_below,
                msg_store_file_size_limit=limits.body_file,
                journal_pending_bytes_max=limits.pending_max,
            ),
        )
        self.messages = MessageStore(node, self.files, lambda files, call: self.lanes)  # type: ignore[arg-type]
        changes = self.messages.open(self.notebook.changes())
        storage = self.broker.turn.storage
        assert storage is not None
        self.storage: Storage = storage
        persistence = storage.persistence
        persistence.kept = limits.journal_kept
        persistence.end.file_size = limits.journal_file
        storage.pages.file_size = limits.page_file
        storage.block_messages = limits.block_messages
        storage.ahead = limits.ahead
        storage.ahead_octets = limits.ahead_octets
        self.broker.metadata.backend = self.notebook
        if self.fresh:
            super().begin()
        else:
            problems = self.broker.metadata.restore(changes)
            assert not problems, problems

    # -- turns -----------------------------------------------------------------------------------

    def before_flush(self) -> None:
        self.storage.persistence.end_turn()

    def keeps_back(self, peer: Peer) -> bool:
        output = peer.connection.output
        if output.hold <= self.hub.committed and output.hold_batch <= self.hub.safe_batch:
            return False
        if peer not in self.hub.held:
            self.hub.held.append(peer)
        return True

    def after_flush(self) -> bool:
        failures = self.broker.turn.failures
        assert not failures, [repr(failure.error) for failure in failures]
        did = self.lanes.run()
        if self.hub.committed < self.notebook.ticket:
            did = True
            ticket = self.notebook.ticket
            self.broker.metadata.committed(ticket)
            self.hub.committed = ticket
            self.storage.on_metadata(ticket)
            self.hub.safe_batch = int(self.storage.persistence.safe_batch)
            self.hub.release()
        return did

    def low_memory(self, used: int, *, limit: int = 100, ratio: float = 0.5) -> None:
        """Have the queues share what is left of memory, as the node does at an interval."""
        share = self.messages.share
        self.storage.disk_low = self.disk_low
        assert share is not None
        share.look(used=used, limit=limit, ratio=ratio, seconds=1.0)
        self.turn()

    # -- the end, and the next start -------------------------------------------------------------

    def restart(self, *, clean: bool, limits: Limits | None = None) -> "StoredMachine":
        """Stop in order, or not; return the machine that is started behind it."""
        if clean:
            self._stop()
            files = self.files
        else:
            files = self.files.after_kill(Random(self.random.drawn))
        self.lanes.close()
        return self._next(files, limits)

    def power_cut(self, random: Random, limits: Limits | None = None) -> "StoredMachine":
        """Have the disk forget what was not synced."""
        self.lanes.close()
        return self._next(self.files.after_power_cut(random), limits)

    def _next(self, files: SimFiles, limits: Limits | None) -> "StoredMachine":
        return StoredMachine(
            self.settings,
            limits=limits or self.limits,
            clock=self.clock,
            files=files,
            notebook=self.notebook,
        )

    def _stop(self) -> None:
        """What `MessageStore.close` does, without waiting."""
        for peer in list(self.peers):
            peer.drop()
        self.turn()
        persistence = self.storage.persistence
        idle: list[bool] = []
        persistence.idle = lambda: idle.append(True)
        self.turn()
        assert idle == [True]
        ended: list[Exception | None] = []

        def noted(job: StateJob, error: Exception | None) -> None:
            ended.append(error)

        persistence.stop(handed_out_of(self.broker), noted)
        while self.lanes.run():
            pass
        assert ended == [None]
