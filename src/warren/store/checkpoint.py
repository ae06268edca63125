"""Checkpoints: what lives in the oldest journal files moves into the segments of its queues.

A checkpoint of some closed journal files, the oldest ones, is

1. *planned* on the loop, a queue at a time: which ids have a live record there (`QueuePlan`);
2. *copied* on a lane of its own: each file is read once, and what lives is appended to segment
   files as chunks; then all of them are synced;
3. *noted* on the loop: the indexes point at the chunks, and one batch for the state log says so,
   and from which lsn on the journal counts now;
4. *cleaned up*, when that batch is synced: the journal files and the files of segments that have
   died are removed.

Steps 1 and 3 are done for some queues at a time, so that fifty thousand do not stop the loop.

A disk without room ends a checkpoint in step 2, too; it is begun again when there is some.

A source that is not what was written to it ends a checkpoint in step 2: the messages in its bad
blocks are lost, and it is planned again without them.

A crash before the batch of step 3 is whole leaves segment files with octets that nobody knows of
and the journal as it was; a crash after it leaves files that the next start removes. What is
settled between 1 and 3 was copied for nothing. An id whose record is neither live nor kept is never
copied, so a message that is settled before its file is checkpointed is written once, to the
journal, unless its queue has a history.
"""

import zlib
from contextlib import suppress
from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.store.batch import FILE_HEADER
from warren.store.commit import journal_path
from warren.store.full import if_full
from warren.store.index import SEGMENT_SHIFT, QueueIndex
from warren.store.segment import (
    CHUNK_HEADER,
    CHUNK_SIZE,
    chunk_header,
    file_header,
    queue_folder,
    segment_path,
)
from warren.store.segment import (
    FILE_HEADER as SEGMENT_HEADER,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from warren.core.seam import Files
    from warren.store.journal_file import JournalFile

# Up to so many files are synced one by one; more are cheaper with one sync of everything.
SYNCED_SINGLY: Final = 32


@final
class ChunkPlan:
    """Records of one segment that will be a chunk: ids, and places in the journal."""

    def __init__(self, segment: int) -> None:
        self.segment = segment
        self.first: i64 = 0
        self.last: i64 = 0
        self.offset = 0
        self.size: i64 = 0
        # Where octets begin and end in the journal; neighbours there are one piece.
        self.pieces: list[tuple[int, int]] = []
        self.begin: i64 = 0
        self.end: i64 = 0
        self.count: i64 = 0

    def add(self, seq: i64, lsn: i64, size: i64) -> None:
        if self.count == 0:
            self.first = seq
        self.last = seq
        self.count += 1
        self.size += size
        if lsn != self.end:
            self.close()
            self.begin = lsn
        self.end = lsn + size

    def close(self) -> None:
        """The piece ends here."""
        if self.end > self.begin:
            self.pieces.append((int(self.begin), int(self.end)))
            self.begin = self.end


@final
class QueuePlan:
    """What a checkpoint moves of one queue."""

    def __init__(self, index: QueueIndex, below: int) -> None:
        self.index = index
        # Ids below this one have no record in the journal that is not checkpointed.
        self.disk_seq = 0
        self.chunks: list[ChunkPlan] = []
        # How large the files of the segments are; 0 is none.
        self.sizes: dict[int, int] = {}
        self._collect(below)
        if self.chunks:
            self.chunks[-1].close()

    def _collect(self, below: int) -> None:
        """Find the live and kept records with an lsn below this one."""
        index = self.index
        chunk: ChunkPlan | None = None
        seq: i64 = index.disk_seq
        lsn: i64 = 0
        while seq < index.next_seq:
            segment = index.segments.get(int(seq >> SEGMENT_SHIFT))
            following = ((seq >> SEGMENT_SHIFT) + 1) << SEGMENT_SHIFT
            if segment is None:
                seq = following
                continue
            number = int(segment.number)
            self.sizes[number] = int(segment.size)
            stop: i64 = min(following, segment.end)
            while seq < stop:
                lsn = segment.lsn_of(seq)
                if lsn >= below:
                    self.disk_seq = int(seq)
                    return
                if lsn > 0 and (not segment.is_settled(seq) or index.is_kept(seq)):
                    if chunk is None or chunk.segment != number or chunk.size >= CHUNK_SIZE:
                        if chunk is not None:
                            chunk.close()
                        chunk = ChunkPlan(number)
                        self.chunks.append(chunk)
                    chunk.add(seq, lsn, i64(segment.sizes[seq - segment.first]))
                seq += 1
            seq = following
        self.disk_seq = int(index.next_seq)

    def note(self) -> list[str]:
        """The chunks are on the disk: point the index at them; return the files it leaves."""
        index = self.index
        index.disk_seq = self.disk_seq
        for chunk in self.chunks:
            segment = index.segments.get(chunk.segment)
            if segment is not None:
                segment.add_chunk(chunk.first, chunk.last, chunk.offset, chunk.size + CHUNK_HEADER)
        left = self._died()
        left += [segment_path(int(index.ident), int(old.number)) for old in index.dropped]
        index.dropped = []
        for segment in index.segments.values():
            segment.forget_below(self.disk_seq)
            if segment.live == 0 and segment.size > 0 and not index.keeps(segment):
                # The queue has not passed it, but what is in it is settled.
                left.append(segment_path(int(index.ident), int(segment.number)))
                segment.forget_file()
        return left

    def _died(self) -> list[str]:
        """Files that were written for segments that died meanwhile."""
        return [
            segment_path(int(self.index.ident), chunk.segment)
            for chunk in self.chunks
            if chunk.segment not in self.index.segments
        ]


@final
class CopyJob:
    """Step 2."""

    def __init__(
        self,
        sources: "list[JournalFile]",
        plans: list[QueuePlan],
        ended: "Callable[[CopyJob, Exception | None], None]",
    ) -> None:
        self.sources = sources
        self.plans = plans
        self.ended = ended
        self.written = 0
        # Parts of the journal that are not what was written: then nothing is copied.
        self.bad: list[tuple[int, int]] = []

    def run(self, files: "Files") -> None:
        data = [(source.lsn, source.end, self._read(files, source)) for source in self.sources]
        if self.bad:
            return
        touched: list[str] = []
        try:
            for plan in self.plans:
                self._write(files, plan, data, touched)
        except OSError as failure:
            raise if_full(failure) from failure
        self._sync(files, touched)

    def _read(self, files: "Files", source: "JournalFile") -> bytes:
        """A journal file without its header, each block of it checked."""
        handle = -1
        blob = b""
        with suppress(FileNotFoundError):
            handle = files.open(journal_path(source.number))
        if handle >= 0:
            try:
                blob = files.read(handle, FILE_HEADER, source.size())
            finally:
                files.close(handle)
        view = memoryview(blob)
        for begin, end, wanted in source.blocks(source.lsn, source.end):
            found = zlib.crc32(view[begin - source.lsn : end - source.lsn])
            if found.to_bytes(4, "little") != wanted:
                self.bad.append((begin, end))
        return blob

    def _write(
        self,
        files: "Files",
        plan: QueuePlan,
        data: list[tuple[int, int, bytes]],
        touched: list[str],
    ) -> None:
        ident = int(plan.index.ident)
        handle = -1
        number = -1
        try:
            for chunk in plan.chunks:
                if chunk.segment != number:
                    if handle >= 0:
                        files.close(handle)
                        handle = -1
                    number = chunk.segment
                    handle = self._open(files, plan, ident, number)
                    touched.append(segment_path(ident, number))
                parts = [_piece(data, begin, end) for begin, end in chunk.pieces]
                chunk.offset = plan.sizes[number]
                header = chunk_header(int(chunk.first), int(chunk.last), int(chunk.count), parts)
                files.write(handle, chunk.offset, [header, *parts])
                plan.sizes[number] += CHUNK_HEADER + int(chunk.size)
                self.written += CHUNK_HEADER + int(chunk.size)
        finally:
            if handle >= 0:
                files.close(handle)

    def _open(self, files: "Files", plan: QueuePlan, ident: int, number: int) -> int:
        path = segment_path(ident, number)
        if plan.sizes[number] > 0:
            # A file that somebody removed is begun again: what it had is lost, what comes is not.
            with suppress(FileNotFoundError):
                return files.open(path)
        files.make_folder(queue_folder(ident))
        handle = files.create(path)
        files.write(handle, 0, [file_header(ident, number)])
        plan.sizes[number] = max(plan.sizes[number], SEGMENT_HEADER)
        return handle

    def _sync(self, files: "Files", touched: list[str]) -> None:
        if len(touched) > SYNCED_SINGLY:
            files.sync_all()
            return
        for path in touched:
            handle = files.open(path)
            try:
                files.sync(handle)
            finally:
                files.close(handle)
        for folder in sorted({path.rpartition("/")[0] for path in touched}):
            files.sync_folder(folder)
        if touched:
            files.sync_folder("queues")

    def done(self, error: Exception | None) -> None:
        self.ended(self, error)


def _piece(data: list[tuple[int, int, bytes]], lsn: int, end: int) -> bytes:
    for start, stop, blob in data:
        if start <= lsn < stop:
            return blob[lsn - start : end - start]
    raise LookupError(f"no journal file of the checkpoint has lsn {lsn}")
