"""What the records of the journal do to the indexes of queues at a start.

Records before the lsn from which the journal counts do nothing, nor do those of queues that are not
known. Those before the lsn at which the state of a queue was true only tell where a message is;
those behind it enter and settle, as they did when they were written. Doing so twice is as good as
once.

Queues that are not known any more are followed, too, as far as they refer to the message store or
have a history that may (`orphans`): what they refer to has to be released, and it may be half done.
"""

from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from warren.store import keeping
from warren.store.body_replay import BodyReplay
from warren.store.index import QueueIndex
from warren.store.journal import Journal
from warren.store.record import (
    LEAKED,
    RecordSink,
    at_us_at,
    body_size_at,
    expires_at,
    place_at,
)

if TYPE_CHECKING:
    from warren.store.journal_file import JournalFile


@final
class Replay(RecordSink):
    """Enters and settles what the journal says, for the queues that are known."""

    def __init__(
        self,
        journal: Journal,
        indexes: dict[int, QueueIndex],
        taken: dict[int, i64],
        bodies: BodyReplay,
    ) -> None:
        self.journal = journal
        self.indexes = indexes
        self.bodies = bodies
        # Queues that are none any more and may have had bodies in the message store.
        self.orphans: dict[int, QueueIndex] = {}
        # The lsn at which the state of a queue was true.
        self.taken = taken
        self.start: i64 = 0
        self.replay: i64 = 0
        self.file: JournalFile | None = None
        self.last: QueueIndex | None = None
        self.last_taken: i64 = 0
        self.highest: i64 = 0

    def _find(self, queue: i64) -> QueueIndex | None:
        index = self.last
        if index is None or index.ident != queue:
            index = self.indexes.get(int(queue))
            self.highest = max(self.highest, queue)
            if index is None:
                index = self.orphans.get(int(queue))
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
        place = place_at(data, position)
        if place != 0:
            self.bodies.hold(place, lsn)
            self.journal.stored_lsn = lsn
            if index is None:
                self.orphans[int(queue)] = QueueIndex(queue, self.journal)
                index = self._find(queue)
        if index is None or seq < index.disk_seq:
            return
        if lsn < self.last_taken:
            index.place(seq, lsn, size)
        else:
            self.journal.at_us = at_us_at(data, position)
            index.replay_enter(seq, lsn, size, body_size_at(data, position))
            if expires_at(data, position) != 0:
                index.expires = True

    def on_settled(self, queue: i64, seq: i64, count: i64, size: i64, position: i64) -> None:
        lsn = self.start + position
        if lsn < self.replay:
            return
        index = self._find(queue)
        if index is not None and lsn >= self.last_taken and index.replay_settled(seq, count):
            index.live_bytes = max(i64(0), index.live_bytes - size)

    def on_owed(self, queue: i64, seq: i64, count: i64, size: i64, position: i64) -> None:
        lsn = self.start + position
        if lsn < self.replay:
            return
        index = self._find(queue)
        if index is not None and lsn >= self.last_taken and index.owe(seq, seq + count):
            index.live_bytes = max(i64(0), index.live_bytes - size)

    def on_kept(self, queue: i64, floor: i64, end: i64, flags: i64, position: i64) -> None:
        lsn = self.start + position
        if lsn < self.replay:
            return
        index = self._find(queue)
        if index is None and floor < end:
            # What it refers to is not released when it is settled.
            self.orphans[int(queue)] = QueueIndex(queue, self.journal)
            index = self._find(queue)
        if index is None or lsn < self.last_taken:
            return
        keeping.replay(index, floor, end, flags)
        if flags & LEAKED:
            self.bodies.leaked = True

    def on_leaked(self, queue: i64, seq: i64, position: i64) -> None:
        lsn = self.start + position
        if lsn >= self.replay and self._find(queue) is not None and lsn >= self.last_taken:
            self.bodies.leaked = True

    def on_released(self, file: i64, first: i64, count: i64, position: i64) -> None:
        if self.start + position >= self.replay:
            self.bodies.release(file, first, count, self.start + position)

    def on_appended(self, file: i64, first: i64, count: i64, position: i64, data: bytes) -> None:
        if self.start + position >= self.replay:
            self.bodies.append(file, first, count, self.start + position, data, position)
