"""The node's journal: one stream of records for all queues, written in batches, synced by groups.

`Journal` collects the records of a turn in memory. When no commit is under way, `seal` makes a
batch of what there is; what arrives while its sync runs is the next batch. So one sync serves one
queue or fifty thousand, and the busier the node, the larger the batches.

A record has its place (lsn) from the moment it is written here; it is safe when `committed` has
passed it. Whoever answers for a record waits by batch number: `Waiter`s are told when their batch
is safe, or that it never will be.

After a failed write or sync the journal is *broken*: it takes and promises nothing any more until
the node is started again, because what a disk has lost it may deny later.

The layout of files and batches is in `batch.py`, that of records in `record.py`.
"""

from collections import deque
from typing import TYPE_CHECKING, Final, final

from librt.strings import BytesWriter, write_i64_le
from mypy_extensions import i64, mypyc_attr

from warren.store.batch import BATCH_HEADER
from warren.store.body_store import BodyAppend, BodyStore, Home
from warren.store.record import (
    STORED,
    STORED_SIZE,
    write_kept,
    write_publish,
    write_settled,
)

if TYPE_CHECKING:
    from warren.store.index import QueueIndex

# A file is closed with the batch that reaches this size.
FILE_SIZE: Final = 16 * 1024 * 1024
# Octets of this size are handed to the disk as they are instead of being copied.
SHARED_MIN: Final = 16384
# A writer that has grown beyond this is not kept for the next batch.
WRITER_KEPT: Final = 4 * 1024 * 1024


@mypyc_attr(allow_interpreted_subclasses=True)
class Waiter:
    """Whoever waits for batches: a publisher's confirms, a transaction."""

    def __init__(self) -> None:
        # The last batch that this one was added to.
        self.batch: i64 = 0

    def safe(self, batch: i64) -> None:
        """This batch is on the disk."""

    def lost(self, batch: i64) -> None:
        """This batch may or may not be on the disk, and nobody will know."""


@final
class Batch:
    """What one commit takes to the disk."""

    def __init__(self, number: i64, lsn: i64) -> None:
        self.number = number
        self.lsn = lsn
        self.size: i64 = 0
        self.parts: list[bytes] = []
        self.waiters: list[Waiter] = []
        # The queues that have a record in it.
        self.queues: list[QueueIndex] = []
        # The metadata's ticket that has to be committed before anybody is told.
        self.ticket: i64 = 0
        # What the message store gets of it; when it is safe, the files that have no more to come,
        # and those that nothing names.
        self.bodies: list[BodyAppend] = []
        self.closed: list[Home] = []
        self.dead: list[int] = []

    def end(self) -> i64:
        """The lsn behind the batch."""
        return self.lsn + BATCH_HEADER + self.size


@final
class Journal:
    """The open end of the stream."""

    def __init__(self, number: i64, lsn: i64) -> None:
        self.writer = BytesWriter()
        self.batch = Batch(number, lsn)
        # All records before this lsn are on the disk.
        self.committed: i64 = lsn
        # The lsn of the next record but for what the writer holds.
        self.base: i64 = lsn + BATCH_HEADER
        self.broken = ""
        # Octets of the batch that is on its way.
        self.sealed_bytes: i64 = 0
        # Queues with settled messages that are not written yet.
        self.running: list[QueueIndex] = []
        # Bodies that are not in the journal, and the lsn of the last publish of one.
        self.bodies = BodyStore()
        self.stored_lsn: i64 = -1
        # Queues that owe releases to the message store (`index.py`).
        self.owing: deque[QueueIndex] = deque()
        # When the last message was published, wall clock in microseconds.
        self.at_us: i64 = 0

    def restart(self, number: i64, lsn: i64) -> None:
        """Go on where the stream was found to end."""
        self.batch = Batch(number, lsn)
        self.committed = lsn
        self.base = lsn + BATCH_HEADER

    def publish(
        self,
        queue: i64,
        seq: i64,
        flags: i64,
        at_us: i64,
        expires_us: i64,
        tail: bytes,
        props: bytes,
        hidden: bytes,
        body: bytes,
        more: list[bytes] | None,
        body_size: i64,
        traits: i64,
    ) -> i64:
        """Append a publish whose body is embedded; return its lsn."""
        writer = self.writer
        self.at_us = at_us
        lsn = self.base + len(writer)
        write_publish(
            writer, queue, seq, flags, at_us, expires_us, tail, props, hidden, body_size, traits,
            body_size,
        )  # fmt: skip
        if more is not None:
            for chunk in more:
                self.write(chunk)
        elif len(body) >= SHARED_MIN:
            self.write(body)
        else:
            writer.write(body)
        return lsn

    def publish_stored(
        self,
        queue: i64,
        seq: i64,
        flags: i64,
        at_us: i64,
        expires_us: i64,
        tail: bytes,
        props: bytes,
        hidden: bytes,
        place: i64,
        body_size: i64,
        traits: i64,
    ) -> i64:
        """Append a publish whose body the message store has at this place; return its lsn.

        Counts as a reference to the body; `QueueIndex.enter` has to follow.
        """
        self.bodies.hold(place)
        writer = self.writer
        self.at_us = at_us
        lsn = self.base + len(writer)
        write_publish(
            writer, queue, seq, flags | STORED, at_us, expires_us, tail, props, hidden, body_size,
            traits, STORED_SIZE,
        )  # fmt: skip
        write_i64_le(writer, place >> 32)
        write_i64_le(writer, (place & 0xFFFFFFFF) - 1)
        self.stored_lsn = lsn
        return lsn

    def write(self, data: bytes) -> None:
        """Append octets of a record; large ones are not copied."""
        if len(data) < SHARED_MIN:
            self.writer.write(data)
            return
        self._flush_writer()
        self.batch.parts.append(data)
        self.base += len(data)

    def settle(self, queue: i64, seq: i64, count: i64, size: i64, flags: i64 = 0) -> None:
        write_settled(self.writer, queue, seq, count, size, flags)

    def keep(self, queue: i64, begin: i64, end: i64, flags: i64) -> None:
        write_kept(self.writer, queue, begin, end, flags)

    def owe(self, index: "QueueIndex") -> None:
        """The queue has something to release, or is deleted and had."""
        if not index.owing:
            index.owing = True
            self.owing.append(index)

    def write_bodies(self) -> None:
        """Write what happened in the message store since the last time."""
        self.bodies.write_records(self.writer)

    def wait(self, waiter: Waiter) -> i64:
        """Have the waiter told of the batch that is open now; return its number."""
        batch = self.batch
        if waiter.batch != batch.number:
            waiter.batch = batch.number
            batch.waiters.append(waiter)
        return batch.number

    def position(self) -> i64:
        """No record from now on has a smaller lsn."""
        return self.base + len(self.writer)

    def pending(self) -> i64:
        """Octets of records that no batch holds yet."""
        return self.base + len(self.writer) - self.batch.lsn - BATCH_HEADER

    def behind(self) -> i64:
        """Octets that are written down and not on the disk yet."""
        return self.pending() + self.bodies.open_bytes + self.sealed_bytes

    def seal(self) -> Batch:
        """Close the open batch for a commit, and open the next one."""
        self.write_bodies()
        self._flush_writer()
        batch = self.batch
        bodies_size = self.bodies.open_bytes
        batch.bodies = self.bodies.take_appends()
        batch.closed = self.bodies.take_closed()
        batch.dead = self.bodies.bury()
        batch.size = self.base - batch.lsn - BATCH_HEADER
        self.sealed_bytes = batch.size + bodies_size
        self.batch = Batch(batch.number + 1, batch.end())
        self.base = self.batch.lsn + BATCH_HEADER
        return batch

    def _flush_writer(self) -> None:
        writer = self.writer
        size: i64 = len(writer)
        if size > 0:
            self.batch.parts.append(writer.getvalue())
            self.base += size
            if size > WRITER_KEPT:
                self.writer = BytesWriter()
            else:
                writer.truncate(0)
