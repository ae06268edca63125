"""The persistence layer of a node: the journal, the indexes of all queues, and the work on disk.

A machine: it writes records into memory, hands jobs to lanes, and hears of their ends. `end_turn`
is called once per loop turn and starts a commit when there is something to commit and none under
way. Everything that happens is one of

    publish, settle  ->  the open batch
    end_turn         ->  CommitJob (lane JOURNAL)     ->  waiters are told
    journal too long ->  CopyJob (lane CHECKPOINT)    ->  state batch  ->  files removed
    much garbage     ->  CompactJob (the same lane)   ->  state batch  ->  files removed
    read             ->  Reading (lane READING)       ->  records
    purge, forget    ->  Reading of what is owed      ->  released and settled
    lift             ->  Reading of what was kept     ->  released, and the floor raised

A failure of the disk under the journal or a checkpoint *breaks* the layer: nothing is promised any
more until the node is started again. Only a disk without room passes: the owner hears of it
(`on_full`), and what could not be written is written again with `retry`. Failures while reading
concern the queue that read.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, final

from mypy_extensions import i64

from warren.store import keeping
from warren.store.body_file import body_path
from warren.store.checkpoint import CopyJob, QueuePlan
from warren.store.commit import CommitJob, JournalEnd, journal_path
from warren.store.compaction import CompactJob, find_pair
from warren.store.full import DiskFullError
from warren.store.index import QueueIndex
from warren.store.journal import Batch, Journal
from warren.store.journal_file import JournalFile
from warren.store.keeping import Floors
from warren.store.owed import Owing
from warren.store.reading import Reading
from warren.store.segment import queue_folder
from warren.store.state import CLEAN, encode_mark, encode_queue, encode_runs
from warren.store.state_log import StateJob, StateLog

if TYPE_CHECKING:
    from warren.core.log import EventLog
    from warren.core.seam import Files, Lanes

JOURNAL: Final = 0
CHECKPOINT: Final = 1
READING: Final = 2

# The journal is checkpointed when it is longer than this, its older half at a time.
JOURNAL_KEPT: Final = 128 * 1024 * 1024
READ_SIZE: Final = 256 * 1024
# With so many times what is kept the checkpoints do not keep up.
OVERGROWN: Final = 8
# Journal files that a checkpoint takes at once of fewer queues than this.
FEW_FILES: Final = 2
FEW_QUEUES: Final = 256
# A checkpoint looks at so many queues before it lets others work.
SLICE: Final = 256


class Owner(Protocol):
    """Who hears what the layer cannot decide."""

    def ticket(self) -> int:
        """The number of the metadata's last change: what is written now may rest on it."""

    def on_committed(self) -> None:
        """Something may be told to clients now."""

    def on_broken(self, reason: str) -> None:
        """Nothing will be safe any more."""

    def on_full(self, reason: str) -> None:
        """The disk has no room; `retry` is to be called when it may have some."""


@final
class RemoveJob:
    """Files and folders that nothing names any more."""

    def __init__(self, paths: list[str], folders: list[str]) -> None:
        self.paths = paths
        self.folders = folders

    def run(self, files: "Files") -> None:
        for path in self.paths:
            files.remove(path)
        for folder in self.folders:
            files.remove_folder(folder)

    def done(self, error: Exception | None) -> None:
        """What is left lies there until the next start removes it."""


@final
class Pause:
    """Nothing to do for the lane: the loop does the next slice when it hears of the end."""

    def __init__(self, go_on: Callable[[], None]) -> None:
        self.go_on = go_on

    def run(self, files: "Files") -> None:
        """Be short."""

    def done(self, error: Exception | None) -> None:
        self.go_on()


@final
class Persistence:
    def __init__(
        self,
        lanes: "Lanes",
        log: "EventLog",
        journal: Journal,
        end: JournalEnd,
        state: StateLog,
        files: list[JournalFile],
        *,
        kept: int = JOURNAL_KEPT,
    ) -> None:
        self.lanes = lanes
        self.log = log
        self.journal = journal
        # Bodies that are too large for the journal.
        self.bodies = journal.bodies
        self.end = end
        self.state = state
        # Journal files in order; the last one is being written, unless `closed` says otherwise.
        self.files = files
        self.kept = kept
        self.slice = SLICE
        self.owner: Owner | None = None
        self.indexes: dict[int, QueueIndex] = {}
        # Queues that are dropped and not forgotten yet.
        self.leaving: dict[int, QueueIndex] = {}
        self.committing = False
        self.checkpointing = False
        # A batch of the state log that waits until the journal is committed up to an lsn.
        self.ready: tuple[i64, StateJob] | None = None
        self.broken = ""
        # Why the disk has no room at the moment, and what waits for some.
        self.full = ""
        self.stuck: list[tuple[int, CommitJob | StateJob]] = []
        self.owing = Owing(journal)
        self.floors = Floors(journal)
        # For `on_idle`: called when nothing is under way.
        self.idle: Callable[[], None] | None = None
        # Called when a checkpoint has made the journal shorter.
        self.shorter: Callable[[], None] | None = None
        # The journal has outgrown its checkpoints.
        self.overgrown = False
        self.written_bytes = 0
        self.commits = 0
        # Batches that are on the disk before the metadata they rest on, and what of that is.
        self.early: list[Batch] = []
        self.ticket = 0
        # Every batch up to this one was told to be safe.
        self.safe_batch: i64 = journal.batch.number - 1

    # -- queues ----------------------------------------------------------------------------------

    def open(self, ident: int) -> QueueIndex:
        """The index of a queue, with what was recovered of it."""
        index = self.indexes.get(ident)
        if index is None:
            index = QueueIndex(i64(ident), self.journal)
            self.indexes[ident] = index
        return index

    def drop(self, index: QueueIndex) -> None:
        """A queue is deleted, but after a crash it may be there again, and then be whole."""
        index.write_run()
        self.indexes.pop(int(index.ident), None)
        self.leaving[int(index.ident)] = index

    def forget(self, ident: int) -> None:
        """That a queue is deleted is stored: its records mean nothing any more, its files go."""
        index = self.leaving.pop(ident, None)
        if index is not None and (index.stored_live > 0 or self.state.refers(ident)):
            # Its bodies in the message store are released first, and its last record says that
            # they are (`owed.py`).
            index.deleted = True
            keeping.owe(index)
            index.settle_from(0, index.live_bytes)
            self.journal.owe(index)
            return
        if index is not None:
            index.gone = True
        self.state.forget(ident)
        self.lanes.submit(CHECKPOINT, RemoveJob([], [queue_folder(ident)]))

    # -- records ---------------------------------------------------------------------------------

    def end_turn(self) -> None:
        """Take what was written in this turn to the disk, if the last commit has ended."""
        if self.committing or self.broken:
            return
        journal = self.journal
        if journal.running:
            running = journal.running
            journal.running = []
            for index in running:
                index.listed = False
                index.write_run()
        journal.write_bodies()
        if journal.pending() == 0:
            self._pay()
        if journal.pending() > 0:
            self._commit()
            return
        self._note_ready()
        reading = self.owing.reading or self.floors.reading
        if self.idle is not None and not self.checkpointing and reading is None:
            idle = self.idle
            self.idle = None
            idle()

    def stop(
        self,
        runs: dict[int, list[tuple[int, int]]],
        ended: "Callable[[StateJob, Exception | None], None]",
    ) -> None:
        """Write that this is a clean stop, and what was handed out; nothing may be under way."""
        marks = [encode_runs(ident, some) for ident, some in runs.items()]
        marks.append(encode_mark(CLEAN, 0, int(self.journal.committed)))
        self.lanes.submit(CHECKPOINT, self.state.note({}, marks, [], ended))

    def _commit(self) -> None:
        self.committing = True
        batch = self.journal.seal()
        if self.owner is not None:
            batch.ticket = self.owner.ticket()
        self.lanes.submit(JOURNAL, CommitJob(self.end, batch, self._on_committed))

    def _stick(self, lane: int, job: "CommitJob | StateJob | None", error: Exception) -> None:
        """There is no room: keep what was to be written."""
        self.full = str(error)
        if job is not None:
            self.stuck.append((lane, job))
        if self.owner is not None:
            self.owner.on_full(self.full)

    def retry(self) -> None:
        """Write again what found no room."""
        self.full = ""
        stuck = self.stuck
        self.stuck = []
        for lane, job in stuck:
            self.lanes.submit(lane, job)
        if not stuck:
            self._consider_checkpoint()
            self.end_turn()

    def _on_committed(self, job: CommitJob, error: Exception | None) -> None:
        if isinstance(error, DiskFullError):
            self._stick(JOURNAL, job, error)
            return
        self.committing = False
        self.journal.sealed_bytes = 0
        batch = job.batch
        if error is not None:
            self._break(f"the journal cannot be written: {error}", batch)
            return
        self.journal.committed = batch.end()
        self.commits += 1
        self.written_bytes += int(batch.size)
        if not self.files or self.files[-1].number != job.file:
            self.files.append(JournalFile(job.file, job.start))
            self._measure()
        self.files[-1].add(int(batch.lsn), int(batch.end()), job.sums)
        self._note_queues(self.files[-1], batch)
        for home in batch.closed:
            home.unsafe = False
        if batch.dead:
            dead = [body_path(number) for number in batch.dead]
            self.lanes.submit(CHECKPOINT, RemoveJob(dead, []))
            self.bodies.forgive()
        self.early.append(batch)
        self._tell_safe()
        if self.owner is not None:
            self.owner.on_committed()
        self._note_ready()
        self._consider_checkpoint()
        self._consider_compaction()
        self._pay()
        self.end_turn()

    def _tell_safe(self) -> None:
        """Tell who waits for batches that rest on nothing that is not stored itself."""
        early = self.early
        done = 0
        for batch in early:
            if batch.ticket > self.ticket:
                break
            done += 1
            self.safe_batch = batch.number
            for waiter in batch.waiters:
                waiter.safe(batch.number)
        if done:
            self.early = early[done:]

    def on_metadata(self, ticket: int) -> None:
        """The metadata is stored up to this ticket."""
        self.ticket = ticket
        if self.early:
            self._tell_safe()

    def _note_queues(self, file: JournalFile, batch: Batch) -> None:
        for index in batch.queues:
            if index.file != file.number:
                index.file = file.number
                file.queues.append(index)

    def _break(self, reason: str, batch: Batch | None) -> None:
        self.broken = reason
        self.journal.broken = reason
        self.log.event("error", "store.broken", {"reason": reason})
        if batch is not None:
            for waiter in batch.waiters:
                waiter.lost(batch.number)
        still = self.journal.batch
        for waiter in still.waiters:
            waiter.lost(still.number)
        if self.owner is not None:
            self.owner.on_broken(reason)

    # -- reading ---------------------------------------------------------------------------------

    def read(
        self,
        index: QueueIndex,
        seq: i64,
        ended: Callable[[Reading, Exception | None], None],
        most: i64 = READ_SIZE,
        *,
        history: bool = False,
    ) -> bool:
        """Read live records from an id on, or also what is kept; False if there is none."""
        reading = Reading(index, seq, ended, history=history)
        if not reading.plan(self.journal.committed, self.files, most):
            return False
        self.lanes.submit(READING, reading)
        return True

    # -- the message store -----------------------------------------------------------------------

    def _pay(self) -> None:
        """Go on releasing what deleted and purged queues refer to."""
        owing = self.owing
        if self.broken:
            return
        if owing.finished:
            folders = owing.take_finished()
            if folders:
                self.lanes.submit(CHECKPOINT, RemoveJob([], folders))
        if self.journal.owing and owing.reading is None and self.idle is None:
            reading = owing.plan(self.files, READ_SIZE)
            if reading is not None:
                reading.ended = self._on_owed_read
                self.lanes.submit(READING, reading)
        if self.floors.waiting and self.floors.reading is None and self.idle is None:
            reading = self.floors.plan(self.files, READ_SIZE)
            if reading is not None:
                reading.ended = self._on_kept_read
                self.lanes.submit(READING, reading)

    def lift(self, index: QueueIndex, floor: i64) -> None:
        """What is settled below an id need not be kept any more; `end_turn` has it go."""
        self.floors.lift(index, floor)

    def _on_kept_read(self, reading: Reading, error: Exception | None) -> None:
        floors = self.floors
        if error is not None:
            floors.drop(reading)
            self.log.event("error", "store.kept_unread", {"error": str(error)})
        else:
            floors.take(reading)
        if floors.problem:
            self.log.event("error", "store.kept_damaged", {"problem": floors.problem})
            floors.problem = ""
        self.end_turn()

    def _on_owed_read(self, reading: Reading, error: Exception | None) -> None:
        owing = self.owing
        if error is not None:
            owing.drop(reading)
            self.log.event("error", "store.owed_unread", {"error": str(error)})
        else:
            owing.take(reading)
        if owing.problem:
            self.log.event("error", "store.owed_damaged", {"problem": owing.problem})
            owing.problem = ""
        self.end_turn()

    def _consider_compaction(self) -> None:
        if self.checkpointing or self.broken or self.idle is not None:
            return
        pair = find_pair(self.bodies)
        if pair is not None:
            # One of both at a time: each ends with a batch of the state log.
            self.checkpointing = True
            self.lanes.submit(CHECKPOINT, CompactJob(self.bodies, pair, self._on_compacted))

    def _on_compacted(self, job: CompactJob, error: Exception | None) -> None:
        if error is not None:
            self.checkpointing = False
            left = job.give_up(full=isinstance(error, DiskFullError))
            self.log.event("error", "store.compaction_failed", {"error": str(error)})
            self.lanes.submit(CHECKPOINT, RemoveJob([left], []))
            return
        if job.bad:
            self.log.event("error", "store.bodies_damaged", {"bodies": job.bad})
        garbage = job.note()
        self.written_bytes += job.size
        records, marks = self.state.take_bodies(self.journal, [move.file for move in job.moves])
        noted = self.state.note(records, marks, garbage, self._on_noted)
        self.ready = (self.journal.position(), noted)
        self.end_turn()

    # -- checkpoints -----------------------------------------------------------------------------

    def _measure(self) -> bool:
        """See whether checkpoints do not keep up; half of what is too much is not any more."""
        most = self.kept * OVERGROWN
        size = self.closed_bytes()
        self.overgrown = size > (most // 2 if self.overgrown else most)
        return self.overgrown

    def closed_bytes(self) -> int:
        """Octets of journal files that a checkpoint could take."""
        return sum(file.size() for file in self.files[:-1])

    def _consider_checkpoint(self) -> None:
        if self.checkpointing or self.broken or self.full or len(self.files) < 2:
            return
        size = sum(file.size() for file in self.files)
        if size > self.kept:
            # The sources are in memory meanwhile: of few queues, few of them.
            most = len(self.files) // 2
            few = sum(len(file.queues) for file in self.files[:most]) < FEW_QUEUES
            self.checkpoint(min(most, FEW_FILES) if few else most)

    def checkpoint(self, count: int) -> None:
        """Move what lives in the oldest files into segments. The file being written is not one."""
        sources = self.files[:count]
        self.checkpointing = True
        queues = {int(index.ident): index for source in sources for index in source.queues}
        self._plan(sources, list(queues.values()), [], 0)

    def _plan(
        self,
        sources: list[JournalFile],
        queues: list[QueueIndex],
        plans: list[QueuePlan],
        begin: int,
    ) -> None:
        """Plan for some queues, then for the others."""
        end = begin + self.slice
        some = queues[begin:end]
        plans += [QueuePlan(index, sources[-1].end) for index in some if not index.gone]
        if end < len(queues):
            self._pause(partial(self._plan, sources, queues, plans, end))
        else:
            self.lanes.submit(CHECKPOINT, CopyJob(sources, plans, self._on_copied))

    def _pause(self, go_on: Callable[[], None]) -> None:
        self.lanes.submit(CHECKPOINT, Pause(go_on))

    def _on_copied(self, job: CopyJob, error: Exception | None) -> None:
        if isinstance(error, DiskFullError):
            self.checkpointing = False
            self._stick(CHECKPOINT, None, error)
            return
        if error is not None:
            self.checkpointing = False
            self._break(f"a checkpoint cannot be written: {error}", None)
            return
        if job.bad:
            self._lose(job)
            self.checkpointing = False
            self.checkpoint(len(job.sources))
            return
        self.written_bytes += job.written
        self._note(job, [], {}, 0)

    def _note(
        self, job: CopyJob, garbage: list[str], records: dict[int, bytes], begin: int
    ) -> None:
        """Point the indexes of some queues at their chunks, then those of the others."""
        end = begin + self.slice
        for plan in job.plans[begin:end]:
            index = plan.index
            if not index.gone:
                garbage += plan.note()
                index.write_run()
                records[int(index.ident)] = encode_queue(index, self.journal.position())
        if end < len(job.plans):
            self._pause(partial(self._note, job, garbage, records, end))
            return
        for plan in job.plans:
            if plan.index.gone:
                records.pop(int(plan.index.ident), None)
        garbage += [journal_path(source.number) for source in job.sources]
        self.files = self.files[len(job.sources) :]
        self.state.replay = job.sources[-1].end
        for plan in job.plans:
            index = plan.index
            if index.deleted and index.live == 0 and len(index.owed) == 0 and not index.gone:
                # This record is the last one; nothing speaks of the queue behind it.
                records[int(index.ident)] = encode_queue(index, self.journal.position())
                index.gone = True
        bodies, marks = self.state.take_bodies(self.journal)
        records.update(bodies)
        noted = self.state.note(records, marks, garbage, self._on_noted)
        for plan in job.plans:
            if plan.index.gone:
                self.state.forget(int(plan.index.ident))
        # What the records say of settled messages must not outlive what was published with it.
        self.ready = (self.journal.position(), noted)
        self.end_turn()

    def _lose(self, job: CopyJob) -> None:
        """Give up what the sources of a checkpoint do not have any more."""
        for plan in job.plans:
            index = plan.index
            lost = sum(int(index.lose_places(begin, end)) for begin, end in job.bad)
            if lost and not index.gone:
                fields = {"queue": int(index.ident), "messages": lost}
                self.log.event("error", "store.journal_damaged", fields)
        for source in job.sources:
            source.accept(job.bad)

    def _note_ready(self) -> None:
        """Write the batch of the state log, if everything it counts as true is committed."""
        ready = self.ready
        if ready is None or self.broken:
            return
        lsn, job = ready
        if self.journal.committed >= lsn or self.journal.pending() == 0:
            self.ready = None
            self.lanes.submit(CHECKPOINT, job)

    def _on_noted(self, job: "StateJob", error: Exception | None) -> None:
        if isinstance(error, DiskFullError):
            self._stick(CHECKPOINT, job, error)
            return
        self.checkpointing = False
        if error is not None:
            self._break(f"the state log cannot be written: {error}", None)
            return
        self.lanes.submit(CHECKPOINT, RemoveJob(job.garbage, []))
        if self.overgrown and not self._measure() and self.shorter is not None:
            self.shorter()
        self._consider_checkpoint()
        self._consider_compaction()
        self.end_turn()
