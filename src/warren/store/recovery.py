"""Start of the persistence layer: from what lies on the disk to a layer that goes on.

1. The state log says what the segment files hold and from which lsn on the journal counts.
2. The journal is replayed from there: what was published and not settled is entered again.
3. What a crash left behind is cleared away, in an order that a second crash does no harm to: the
   torn end of the last journal file is cut off; files and folders that nothing names are removed.

What is read here is in the cache of the machine and may not be on its disk: the process before may
have died between a write and its sync, or because a sync failed, after which no sync of the same
octets means anything. So the last batch of the state log and that of the journal, which nobody was
told of for certain, are written once more and synced before anything follows from them.

A clean stop leaves a mark; without it (or with journal behind it) every message that is still there
counts as handed out before (IX-17), because nobody knows. The mark is taken back at once: a crash
from now on is a crash. Queues are known by their incarnation;
those that the metadata does not know are forgotten (IX-15).

Damage (see `batch.py`) costs the records in it and is reported by file and place. The queues that
have a record in the same file are reported with it: they may lack messages. All their records are
looked at then, and those counted that are there (`repair.py`). Damage is known by a batch that is
not whole before one that is, by a file that does not begin where the one before ends, and by a
state that knows more than the journal has. Only a last batch that was safe and lost nothing but
itself looks like one that was torn by a crash.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, final

from librt.vecs import vec
from mypy_extensions import i64

from warren.store import keeping
from warren.store.batch import (
    BATCH_HEADER,
    FILE_HEADER,
    MARK,
    Damage,
    FormatError,
    Scan,
    scan_file,
)
from warren.store.body_file import FOLDER as BODY_FOLDER
from warren.store.body_recovery import BodyRecovery
from warren.store.commit import FOLDER as JOURNAL_FOLDER
from warren.store.commit import JournalEnd, journal_path
from warren.store.index import QueueIndex
from warren.store.journal import Journal
from warren.store.journal_file import JournalFile
from warren.store.record import walk
from warren.store.repair import Repair
from warren.store.replay import Replay
from warren.store.segment import FOLDER as QUEUE_FOLDER
from warren.store.segment import queue_folder
from warren.store.state import (
    CLEAN,
    FILE,
    HANDED_OUT,
    LEAKED,
    NEXT_FILE,
    NO_FILE,
    QUEUE,
    REPLAY,
    decode_queue,
    decode_runs,
    encode_mark,
    encode_queue,
)
from warren.store.state_log import FOLDER as STATE_FOLDER
from warren.store.state_log import StateEnd, StateLog, state_path

if TYPE_CHECKING:
    from warren.core.seam import Files


@dataclass(slots=True)
class Found:
    """What a start found, for the log and for whoever asks."""

    clean: bool = False
    queues: int = 0
    messages: int = 0
    replayed_bytes: int = 0
    torn_bytes: int = 0
    forgotten: int = 0
    # The highest incarnation of a queue that anything here speaks of.
    highest: int = 0
    # Messages that damage cost, as far as it is known of them.
    lost: int = 0
    damages: list[Damage] = field(default_factory=list)
    # Incarnations of queues that may lack messages.
    damaged: set[int] = field(default_factory=set)
    # What was handed out, by queue, after a clean stop.
    handed_out: dict[int, list[tuple[int, int]]] = field(default_factory=dict)


@final
class Recovery:
    """One start. `known` are the incarnations of the durable queues in the metadata.

    `mark` is a random number of four octets (`batch.py`).
    """

    def __init__(self, files: "Files", known: Iterable[int], mark: int = MARK) -> None:
        self.files = files
        self.mark = mark
        self.known = frozenset(known)
        self.found = Found(highest=max(self.known, default=0))
        self.journal = Journal(1, 1)
        self.journal.bodies.mark = i64(mark)
        self.bodies = BodyRecovery(files, self.journal.bodies)
        # Queues that the metadata does not know, with bodies in the message store.
        self.orphans: dict[int, QueueIndex] = {}
        self.indexes: dict[int, QueueIndex] = {}
        self.taken: dict[int, i64] = {}
        self.latest: dict[int, bytes] = {}
        self.replay_lsn = 1
        self.clean_lsn = -1
        self.state = StateLog(StateEnd(0, 0, 0, 0), {}, 0, 1)
        self.journal_files: list[JournalFile] = []

    def run(self) -> tuple[Journal, JournalEnd, StateLog]:
        for folder in (JOURNAL_FOLDER, STATE_FOLDER, QUEUE_FOLDER, BODY_FOLDER):
            self.files.make_folder(folder)
        self.files.sync_folder("")
        state = self._read_state()
        state.bodies = self.journal.bodies
        self.bodies.decode()
        for ident in self.known:
            if ident not in self.indexes:
                self.indexes[ident] = QueueIndex(i64(ident), self.journal)
        end = self._replay()
        self._finish(state)
        found = self.found
        found.clean = self.clean_lsn == int(self.journal.committed) and not found.damages
        if found.clean:
            state.end.append(self.files, [encode_mark(CLEAN, 0, 0)])
            state.size = state.end.lsn
        else:
            found.handed_out = {}
        self._clear()
        self.state = state
        found.queues = len(self.indexes)
        found.messages = sum(int(index.live) for index in self.indexes.values())
        return self.journal, end, state

    # -- the state log ---------------------------------------------------------------------------

    def _read_state(self) -> StateLog:
        numbers = _numbers(self.files.names(STATE_FOLDER), ".log")
        last = numbers[-1] if numbers else 0
        chosen: tuple[int, bytes, Scan] | None = None
        for number in reversed(numbers):
            data = self._whole(state_path(number))
            try:
                scan = scan_file(data, number)
            except FormatError:
                # A crash while it was begun: the one before is still there and valid.
                continue
            if scan.batches:
                chosen = number, data, scan
                break
        if chosen is None:
            for number in numbers:
                self.files.remove(state_path(number))
            return StateLog(StateEnd(last, 0, 0, 0), {}, 0, self.replay_lsn)
        number, data, scan = chosen
        self._harden(state_path(number), data, scan)
        self.files.sync_folder(STATE_FOLDER)
        for other in numbers:
            if other != number:
                self.files.remove(state_path(other))
        for batch in scan.batches:
            start = batch.pos + BATCH_HEADER
            self._take_state(data, start, start + batch.header.size)
        for damage in scan.damages:
            self._damaged(damage, None)
        self._decode_queues()
        end = StateEnd(number, scan.number, scan.end, scan.chain)
        latest = {**self.latest, **{~key: data for key, data in self.bodies.latest.items()}}
        return StateLog(end, latest, scan.end, self.replay_lsn)

    def _decode_queues(self) -> None:
        """Know queues as the state log has them; of those that are none, what they refer to."""
        for ident, record in list(self.latest.items()):
            index, lsn = decode_queue(record, 0, self.journal)
            self.taken[ident] = lsn
            if ident in self.known:
                self.indexes[ident] = index
                continue
            self.found.forgotten += 1
            if index.stored_live > 0 or index.kept_from < index.kept_to:
                self.orphans[ident] = index
            else:
                del self.latest[ident]

    def _take_state(self, data: bytes, pos: int, end: int) -> None:
        self.found.handed_out = {}
        self.bodies.leaked = False
        while pos < end:
            word = int.from_bytes(data[pos : pos + 8], "little")
            size, kind = word & 0xFFFFFFFF, (word >> 32) & 0xFF
            ident = int.from_bytes(data[pos + 8 : pos + 16], "little")
            value = int.from_bytes(data[pos + 16 : pos + 24], "little")
            if kind in (QUEUE, HANDED_OUT):
                self.found.highest = max(self.found.highest, ident)
            if kind == QUEUE:
                self.latest[ident] = data[pos : pos + size]
            elif kind == REPLAY:
                self.replay_lsn = value
            elif kind == HANDED_OUT:
                self.found.handed_out[ident] = decode_runs(data, pos)
            elif kind == CLEAN:
                self.clean_lsn = value
            elif kind == FILE:
                self.bodies.take(ident, data[pos : pos + size])
            elif kind == NO_FILE:
                self.bodies.forget(ident, value)
            elif kind == NEXT_FILE:
                self.bodies.knows(value - 1)
            elif kind == LEAKED:
                self.bodies.leaked = True
            if size == 0:
                raise FormatError("a record of the state log has no size")
            pos += size

    # -- the journal -----------------------------------------------------------------------------

    def _replay(self) -> JournalEnd:
        sink = Replay(self.journal, self.indexes, self.taken, self.bodies.replay)
        sink.orphans = self.orphans
        numbers = _numbers(self.files.names(JOURNAL_FOLDER), ".jnl")
        self._distrust(numbers)
        sink.replay = i64(self.replay_lsn)
        lsn, batch, chain = self.replay_lsn, 0, 0
        hardened: tuple[str, bytes, Scan] | None = None
        for number in numbers:
            path = journal_path(number)
            data = self._whole(path)
            try:
                scan = scan_file(data, number)
            except FormatError as problem:
                self._unreadable(path, data, number, lsn, problem)
                continue
            if scan.header.lsn > lsn:
                what = "the journal before this file is lost"
                self._damaged(Damage(number, lsn, scan.header.lsn - lsn, what), None)
            if scan.end <= self.replay_lsn or not scan.batches:
                self.files.remove(path)
            else:
                hardened = path, data, scan
                self._replay_file(number, data, scan, sink)
            torn = scan.torn if number != numbers[-1] else 0
            if torn:
                self._damaged(Damage(number, scan.end, torn, "a closed file is torn"), sink.file)
            lsn = max(lsn, scan.end + torn)
            batch, chain = max(batch, scan.number), scan.chain
        if hardened is not None:
            self._harden(*hardened)
        # Every state was true behind a batch that was safe, and so was the end at a clean stop.
        taken = max((int(lsn) for lsn in self.taken.values()), default=0) - BATCH_HEADER
        taken = max(taken, self.clean_lsn)
        if taken > lsn:
            self._damaged(Damage(-1, lsn, taken - lsn, "the end of the journal is lost"), None)
            lsn = taken
        self.found.highest = max(self.found.highest, int(sink.highest))
        self.journal.restart(batch + 1, lsn)
        return JournalEnd(numbers[-1] if numbers else 0, chain, self.mark)

    def _distrust(self, numbers: list[int]) -> None:
        """If the journal begins too late, or the state log is damaged, look at all segments."""
        for number in numbers:
            data = self._whole(journal_path(number))
            try:
                scan = scan_file(data, number)
            except FormatError:
                continue
            if scan.header.lsn > self.replay_lsn:
                size = scan.header.lsn - self.replay_lsn
                what = "no state knows what was before this file"
                self._damaged(Damage(number, self.replay_lsn, size, what), None)
                self.replay_lsn = scan.header.lsn
            break
        if self.found.damages:
            repair = Repair(self.files, [])
            for index in self.indexes.values():
                repair.adopt(index)

    def _unreadable(
        self, path: str, data: bytes, number: int, lsn: int, problem: FormatError
    ) -> None:
        """A file without a header and without a batch."""
        if len(data) <= FILE_HEADER:
            # It was begun, and nothing in it was promised.
            self.files.remove(path)
            return
        self._damaged(Damage(number, lsn, len(data), str(problem)), None)
        self.files.rename(path, f"{path}.damaged")

    def _replay_file(self, number: int, data: bytes, scan: Scan, sink: Replay) -> None:
        file = JournalFile(number, scan.header.lsn)
        self.journal_files.append(file)
        sink.file = file
        sink.start = i64(scan.header.lsn - FILE_HEADER)
        for batch in scan.batches:
            pos = batch.pos + BATCH_HEADER
            walk(data, pos, pos + batch.header.size, sink)
            file.add(batch.header.lsn, batch.header.end(), batch.sums)
            self.found.replayed_bytes += batch.header.size
        for damage in scan.damages:
            self._damaged(damage, file)

    def _damaged(self, damage: Damage, file: JournalFile | None) -> None:
        self.found.damages.append(damage)
        if file is None:
            self.found.damaged.update(self.known)
        else:
            self.found.damaged.update(int(index.ident) for index in file.queues)

    # -- the message store -----------------------------------------------------------------------

    def _finish(self, state: StateLog) -> None:
        """After damage count what is really there; have the tables of the message store."""
        leaked = self.bodies.leaked or self.bodies.replay.leaked
        if not self.found.damages and not leaked and self._finish_bodies(state):
            for number in self.journal.bodies.gone:
                state.forget(~number)
            return
        if not self.found.damages and not leaked:
            lsn = int(self.journal.committed)
            what = "the journal names bodies that it does not say were written"
            self._damaged(Damage(-1, lsn, 0, what), None)
        repair = Repair(self.files, self.journal_files)
        for index in self.indexes.values():
            self.found.lost += repair.recount(index)
        for index in self.orphans.values():
            # What they refer to is not counted: that is all that was needed of them.
            index.gone = True
        self.orphans = {}
        for index in self.journal.owing:
            index.owing = False
        self.journal.owing.clear()
        self.bodies.rebuild(repair.references)
        # All of this is true from here on, for the start after this one, too.
        state.replay = self.replay_lsn
        lsn = self.journal.position()
        state.latest = {}
        state.valid = 0
        state.fresh = True
        records = {ident: encode_queue(index, lsn) for ident, index in self.indexes.items()}
        bodies, marks = state.take_bodies(self.journal)
        records.update(bodies)
        state.note(records, marks, [], lambda job, error: None).run(self.files)

    def _finish_bodies(self, state: StateLog) -> bool:
        """Know who owes releases; False if the journal and the state cannot both be true."""
        for ident, index in list(self.orphans.items()):
            index.deleted = True
            if index.stored_live > 0:
                keeping.owe(index)
                index.owe(0, index.next_seq)
                continue
            index.kept_to = index.kept_from
            index.replay_settled(0, index.next_seq)
            index.owed = vec[i64]()
            if not state.refers(ident):
                state.forget(ident)
                index.gone = True
                del self.orphans[ident]
        for index in self.indexes.values():
            if len(index.owed) > 0:
                index.forget_paid()
                self.journal.owe(index)
        whole = self.bodies.finish()
        self.found.torn_bytes += self.bodies.torn_bytes
        return whole

    # -- what is left ----------------------------------------------------------------------------

    def _clear(self) -> None:
        """Remove the folders of queues that are not, and what a torn checkpoint left."""
        indexes = {**self.indexes, **self.orphans}
        wanted = {queue_folder(ident).rpartition("/")[2]: ident for ident in indexes}
        for name in self.files.names(QUEUE_FOLDER):
            if name not in wanted:
                self.files.remove_folder(f"{QUEUE_FOLDER}/{name}")
            elif not self.found.clean:
                self._clear_queue(indexes[wanted[name]], f"{QUEUE_FOLDER}/{name}")

    def _clear_queue(self, index: QueueIndex, folder: str) -> None:
        named = {f"{segment.number}.idx" for segment in index.dropped}
        named.update(
            f"{number}.idx" for number, segment in index.segments.items() if segment.size > 0
        )
        for name in self.files.names(folder):
            if name not in named:
                self.files.remove(f"{folder}/{name}")

    def _whole(self, path: str) -> bytes:
        handle = self.files.open(path)
        try:
            return self.files.read(handle, 0, self.files.size(handle))
        finally:
            self.files.close(handle)

    def _harden(self, path: str, data: bytes, scan: Scan) -> None:
        """Cut off what is behind the last whole batch, and have the batch itself on the disk."""
        last = scan.batches[-1]
        end = last.pos + BATCH_HEADER + last.header.size
        begin = 0 if len(scan.batches) == 1 else last.pos
        handle = self.files.open(path)
        try:
            self.files.write(handle, begin, [data[begin:end]])
            if len(data) > end:
                self.found.torn_bytes += len(data) - end
                self.files.truncate(handle, end)
            self.files.sync(handle)
        finally:
            self.files.close(handle)


def _numbers(names: list[str], suffix: str) -> list[int]:
    """The numbers of the files with this suffix, in order."""
    stems = [name.removesuffix(suffix) for name in names if name.endswith(suffix)]
    return sorted(int(stem) for stem in stems if stem.isdigit())
