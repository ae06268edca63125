"""Start of the persistence layer: from what lies on the disk to a layer that goes on.

1. The state log says what the segment files hold and from which lsn on the journal counts.
2. The journal is replayed from there: what was published and not settled is entered again.
3. What a crash left behind is cleared away, in an order that a second crash does no harm to: the
   torn end of the last journal file is cut off; files and folders that nothing names are removed.

A clean stop leaves a mark; without it (or with journal behind it) every message that is still there
counts as handed out before (IX-17), because nobody knows. Queues are known by their incarnation;
those that the metadata does not know are forgotten (IX-15).

Damage (see `batch.py`) costs the records in it and is reported by file and place. The queues that
have a record in the same file are reported with it: they may lack messages.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from warren.store.batch import (
    BATCH_HEADER,
    FILE_HEADER,
    Damage,
    FormatError,
    Scan,
    scan_file,
)
from warren.store.checkpoint import JournalFile
from warren.store.commit import FOLDER as JOURNAL_FOLDER
from warren.store.commit import JournalEnd, journal_path
from warren.store.index import QueueIndex
from warren.store.journal import Journal
from warren.store.record import RecordSink, body_size_at, walk
from warren.store.segment import FOLDER as QUEUE_FOLDER
from warren.store.segment import queue_folder
from warren.store.state import CLEAN, HANDED_OUT, QUEUE, REPLAY, decode_queue, decode_runs
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
    damages: list[Damage] = field(default_factory=list)
    # Incarnations of queues that may lack messages.
    damaged: set[int] = field(default_factory=set)
    # What was handed out, by queue, after a clean stop.
    handed_out: dict[int, list[tuple[int, int]]] = field(default_factory=dict)


@final
class Replay(RecordSink):
    """Enters and settles what the journal says, for the queues that are known."""

    def __init__(self, indexes: dict[int, QueueIndex], taken: dict[int, i64]) -> None:
        self.indexes = indexes
        # The lsn at which the state of a queue was true.
        self.taken = taken
        self.start: i64 = 0
        self.replay: i64 = 0
        self.file: JournalFile | None = None
        self.last: QueueIndex | None = None
        self.last_taken: i64 = 0

    def _find(self, queue: i64) -> QueueIndex | None:
        index = self.last
        if index is None or index.ident != queue:
            index = self.indexes.get(int(queue))
            if index is None:
                return None
            self.last = index
            self.last_taken = self.taken.get(int(queue), i64(0))
        file = self.file
        if file is not None and index.file != file.number:
            index.file = file.number
            file.queues.append(index)
        return index

    def on_publish(self, queue: i64, seq: i64, position: i64, size: i64, data: bytes) -> None:
        lsn = self.start + position
        if lsn < self.replay:
            return
        index = self._find(queue)
        if index is None or seq < index.disk_seq:
            return
        if lsn < self.last_taken:
            index.place(seq, lsn, size)
        else:
            index.replay_enter(seq, lsn, size, body_size_at(data, position))

    def on_settled(self, queue: i64, seq: i64, count: i64, size: i64, position: i64) -> None:
        lsn = self.start + position
        if lsn < self.replay:
            return
        index = self._find(queue)
        if index is not None and lsn >= self.last_taken and index.replay_settled(seq, count):
            index.live_bytes = max(i64(0), index.live_bytes - size)


@final
class Recovery:
    """One start. `known` are the incarnations of the durable queues in the metadata."""

    def __init__(self, files: "Files", known: Iterable[int]) -> None:
        self.files = files
        self.known = frozenset(known)
        self.found = Found()
        self.journal = Journal(1, 1)
        self.indexes: dict[int, QueueIndex] = {}
        self.taken: dict[int, i64] = {}
        self.latest: dict[int, bytes] = {}
        self.replay_lsn = 1
        self.clean_lsn = -1
        self.journal_files: list[JournalFile] = []

    def run(self) -> tuple[Journal, JournalEnd, StateLog]:
        for folder in (JOURNAL_FOLDER, STATE_FOLDER, QUEUE_FOLDER):
            self.files.make_folder(folder)
        state = self._read_state()
        end = self._replay()
        self._clear()
        self.found.clean = self.clean_lsn == int(self.journal.committed)
        if not self.found.clean:
            self.found.handed_out = {}
        self.found.queues = len(self.indexes)
        self.found.messages = sum(int(index.live) for index in self.indexes.values())
        return self.journal, end, state

    # -- the state log ---------------------------------------------------------------------------

    def _read_state(self) -> StateLog:
        numbers = _numbers(self.files.names(STATE_FOLDER), ".log")
        chosen: tuple[int, bytes, Scan] | None = None
        for number in reversed(numbers):
            data = self._whole(state_path(number))
            try:
                scan = scan_file(data, 0)
            except FormatError:
                # A crash while it was begun: the one before is still there and valid.
                continue
            if scan.batches:
                chosen = number, data, scan
                break
        if chosen is None:
            # A state log that is there and says nothing means that everything behind it is lost.
            if numbers and numbers[0] > 0:
                self.found.damages.append(Damage(numbers[-1], 0, 0, "no state log is whole"))
            last = numbers[-1] if numbers else 0
            return StateLog(StateEnd(last, 0, 0, 0), {}, 0)
        number, data, scan = chosen
        self.found.damages += scan.damages
        for batch in scan.batches:
            start = FILE_HEADER + batch.lsn
            self._take_state(data, start + BATCH_HEADER, start + BATCH_HEADER + batch.size)
        for other in numbers:
            if other != number:
                self.files.remove(state_path(other))
        self._cut(state_path(number), FILE_HEADER + scan.end, len(data))
        for ident, record in self.latest.items():
            index, lsn = decode_queue(record, 0, self.journal)
            self.indexes[ident] = index
            self.taken[ident] = lsn
        end = StateEnd(number, scan.number, scan.end, scan.chain)
        return StateLog(end, self.latest, scan.end)

    def _take_state(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            word = int.from_bytes(data[pos : pos + 8], "little")
            size, kind = word & 0xFFFFFFFF, (word >> 32) & 0xFF
            ident = int.from_bytes(data[pos + 8 : pos + 16], "little")
            value = int.from_bytes(data[pos + 16 : pos + 24], "little")
            if kind == QUEUE:
                if ident in self.known:
                    self.latest[ident] = data[pos : pos + size]
                else:
                    self.found.forgotten += 1
            elif kind == REPLAY:
                self.replay_lsn = value
            elif kind == HANDED_OUT:
                self.found.handed_out[ident] = decode_runs(data, pos)
            elif kind == CLEAN:
                self.clean_lsn = value
            if size == 0:
                raise FormatError("a record of the state log has no size")
            pos += size

    # -- the journal -----------------------------------------------------------------------------

    def _replay(self) -> JournalEnd:
        for ident in self.known:
            if ident not in self.indexes:
                self.indexes[ident] = QueueIndex(i64(ident), self.journal)
        sink = Replay(self.indexes, self.taken)
        sink.replay = i64(self.replay_lsn)
        numbers = _numbers(self.files.names(JOURNAL_FOLDER), ".jnl")
        lsn, batch, chain = self.replay_lsn, 0, 0
        last = 0
        for place, number in enumerate(numbers):
            last = number
            data = self._whole(journal_path(number))
            try:
                scan = scan_file(data, batch)
            except FormatError as problem:
                if place + 1 < len(numbers):
                    self._damaged(Damage(number, lsn, len(data), str(problem)), None)
                else:
                    # The last file was begun and nothing in it was promised.
                    self.files.remove(journal_path(number))
                continue
            if place and scan.header.lsn != lsn:
                self._damaged(Damage(number, lsn, 0, "the journal before this file is lost"), None)
            if scan.end <= self.replay_lsn:
                self.files.remove(journal_path(number))
            else:
                self._replay_file(number, data, scan, sink)
                if scan.torn and place + 1 < len(numbers):
                    self._damaged(
                        Damage(number, scan.end, scan.torn, "a closed file is torn"), sink.file
                    )
                self._cut(journal_path(number), FILE_HEADER + scan.end - scan.header.lsn, len(data))
            lsn, batch, chain = scan.end, scan.number, scan.chain
        self.journal.restart(batch + 1, max(lsn, self.replay_lsn))
        return JournalEnd(last, chain)

    def _replay_file(self, number: int, data: bytes, scan: Scan, sink: Replay) -> None:
        file = JournalFile(number, scan.header.lsn)
        file.end = scan.end
        self.journal_files.append(file)
        sink.file = file
        sink.start = i64(scan.header.lsn - FILE_HEADER)
        for batch in scan.batches:
            pos = FILE_HEADER + batch.lsn - scan.header.lsn + BATCH_HEADER
            walk(data, pos, pos + batch.size, sink)
            self.found.replayed_bytes += batch.size
        for damage in scan.damages:
            self._damaged(damage, file)

    def _damaged(self, damage: Damage, file: JournalFile | None) -> None:
        self.found.damages.append(damage)
        if file is None:
            self.found.damaged.update(self.known)
        else:
            self.found.damaged.update(int(index.ident) for index in file.queues)

    # -- what is left ----------------------------------------------------------------------------

    def _clear(self) -> None:
        """Remove the folders of queues that are not, and what a torn checkpoint left."""
        wanted = {queue_folder(ident).rpartition("/")[2] for ident in self.indexes}
        for name in self.files.names(QUEUE_FOLDER):
            if name not in wanted:
                self.files.remove_folder(f"{QUEUE_FOLDER}/{name}")

    def _whole(self, path: str) -> bytes:
        handle = self.files.open(path)
        try:
            return self.files.read(handle, 0, self.files.size(handle))
        finally:
            self.files.close(handle)

    def _cut(self, path: str, size: int, there: int) -> None:
        """Cut off what is behind the last whole batch."""
        if there <= size:
            return
        self.found.torn_bytes += there - size
        handle = self.files.open(path)
        try:
            self.files.truncate(handle, size)
            self.files.sync(handle)
        finally:
            self.files.close(handle)


def _numbers(names: list[str], suffix: str) -> list[int]:
    """The numbers of the files with this suffix, in order."""
    stems = [name.removesuffix(suffix) for name in names if name.endswith(suffix)]
    return sorted(int(stem) for stem in stems if stem.isdigit())
