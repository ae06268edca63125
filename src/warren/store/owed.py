"""Releasing bodies whose places nobody holds: after a purge or a deletion of a queue.

`QueueIndex.settle_from` takes messages out of a queue at once, but those whose bodies are in the
message store refer to them until their records are read: they are *owed* (`index.py`). `Owing` does
that in the background, one reading at a time:

1. the records of some ids are read (lane READING; places only, no bodies);
2. on the loop their places are released and the ids settled, in one batch.

A crash between two such batches leaves the rest owed, in the state and by the journal; the next
start goes on. A deleted queue is kept until all of it is released, though nobody else knows it:
then its folder goes, and the next checkpoint writes a last record that says that nothing lives, so
that no later start takes an older one for true. Queues that a start finds records of and the
metadata does not know are deleted ones.

If a record cannot be read, what it referred to is not released: that is noted (`leaked`), and the
next start counts all references (`body_rebuild.py`).
"""

from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from warren.store.reading import Reading
from warren.store.record import RecordSink, place_at
from warren.store.segment import queue_folder

if TYPE_CHECKING:
    from warren.store.index import QueueIndex
    from warren.store.journal import Journal
    from warren.store.journal_file import JournalFile


@final
class Places(RecordSink):
    """Releases what owed records refer to."""

    def __init__(self, index: "QueueIndex", end: i64) -> None:
        self.index = index
        self.end = end
        self.released: i64 = 0

    def on_publish(self, queue: i64, seq: i64, position: i64, size: i64, data: bytes) -> None:
        index = self.index
        if seq >= self.end or not index.is_owed(seq) or index.is_settled(seq):
            return
        place = place_at(data, position)
        if place != 0:
            index.journal.bodies.release(place)
            self.released += 1


@final
class Owing:
    def __init__(self, journal: "Journal") -> None:
        self.journal = journal
        self.reading: Reading | None = None
        # Deleted queues that owe nothing, and the lsn behind the record that says so.
        self.finished: list[tuple[int, QueueIndex]] = []
        # Whose records were lost, for the log.
        self.problem = ""

    def plan(self, files: "list[JournalFile]", most: i64) -> Reading | None:
        """The next reading, if one can be made."""
        waiting: list[QueueIndex] = []
        found: Reading | None = None
        owing = self.journal.owing
        while owing and found is None:
            index = owing[0]
            if index.gone or len(index.owed) == 0:
                index.owing = False
                owing.popleft()
                if index.deleted:
                    self.finished.append((int(self.journal.position()), index))
            else:
                reading = Reading(index, index.owed[0], _never, owed=True)
                if reading.plan(self.journal.committed, files, most):
                    found = reading
                elif reading.next_seq < index.owed[1]:
                    # The rest is not committed.
                    waiting.append(owing.popleft())
                else:
                    index.settle_owed(index.owed[1], 0)
        owing.extend(waiting)
        self.reading = found
        return found

    def take(self, reading: Reading) -> None:
        """A reading has ended: release and settle."""
        self.reading = None
        index = reading.index
        if index.gone or len(index.owed) == 0 or index.owed[0] != reading.seq:
            # More is owed by now than when it was planned.
            return
        end = min(reading.next_seq, index.owed[1])
        sink = Places(index, end)
        reading.walk(sink)
        if reading.moved:
            return
        index.settle_owed(end, sink.released)
        self.problem = reading.problem

    def drop(self, reading: Reading) -> None:
        """It could not be made. Others may go better; the next start tries this one again."""
        self.reading = None
        self.journal.owing.remove(reading.index)

    def take_finished(self) -> list[str]:
        """The folders of deleted queues of which everything is released and committed."""
        folders: list[str] = []
        left: list[tuple[int, QueueIndex]] = []
        for lsn, index in self.finished:
            if self.journal.committed >= lsn or self.journal.pending() == 0:
                folders.append(queue_folder(int(index.ident)))
            else:
                left.append((lsn, index))
        self.finished = left
        return folders


def _never(reading: Reading, error: Exception | None) -> None:
    """Somebody else says what is called when the reading has ended."""
