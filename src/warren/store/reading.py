"""Reading messages of a queue back by sequence id, from segment files or from the journal.

A `Reading` asks for the live records from an id on, about so many octets of them. Planned on the
loop, read and checked on the reading lane, handed over on the loop as `Publish`es in the order of
their ids. Only what is committed can be read. When the file was checkpointed away meanwhile
(`moved`), the records are in a segment by then, and whoever asked asks again.

Nothing is handed over whose checksum is wrong: that of its chunk in a segment, those of its blocks
in the journal. The ids that were to be read and cannot be are in `lost`, and `problem` says why;
the others are handed over. `QueueIndex.lose` settles those that are lost.

A reading of the *history* is about what is kept, too (`keeping.py`): of a message that was settled
before the history began there may be a record without a body, which is passed over.

Bodies that are in the message store are read by the same job (`body_read.py`), so that `most` is
about them, too: `next_seq` is where the next reading begins, and is known when this one has ended.
"""

import zlib
from contextlib import suppress
from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.store.batch import FILE_HEADER, FormatError
from warren.store.body_read import Fetch, Wanted
from warren.store.commit import journal_path
from warren.store.index import SEGMENT_SHIFT, QueueIndex
from warren.store.journal_file import JournalFile
from warren.store.record import Publish, RecordSink, place_at, walk
from warren.store.segment import CHUNK_HEADER, check_chunk, segment_path

if TYPE_CHECKING:
    from collections.abc import Callable

    from warren.core.seam import Files

# Records further apart than this are read one by one.
SPARSE: Final = 65536


@final
class ChunkSpan:
    """A chunk of a segment file: the first id that is asked for, the last one it has."""

    def __init__(self, path: str, seq: int, last: int, offset: int, size: int) -> None:
        self.path = path
        self.seq = seq
        self.last = last
        self.offset = offset
        self.size = size
        self.data = b""
        # It is not what was written.
        self.problem = ""

    def read(self, files: "Files", handle: int) -> None:
        self.data = files.read(handle, self.offset, self.size)
        try:
            check_chunk(self.data, self.size)
        except FormatError as problem:
            self.problem = str(problem)


@final
class JournalSpan:
    """A part of a journal file with records of one queue: where they begin and end, their ids."""

    def __init__(self, file: JournalFile, lsn: int) -> None:
        self.file = file
        self.path = journal_path(file.number)
        self.begin = lsn
        self.end = lsn
        self.seqs: list[int] = []
        self.lsns: list[int] = []
        self.ends: list[int] = []
        self.data = b""
        # The lsn of the first octet of `data`, and parts that are not what was written.
        self.start = 0
        self.bad: list[tuple[int, int]] = []

    def add(self, seq: int, lsn: int, end: int) -> None:
        self.seqs.append(seq)
        self.lsns.append(lsn)
        self.ends.append(end)
        self.end = end

    def read(self, files: "Files", handle: int) -> None:
        """Read whole blocks, and check each."""
        blocks = self.file.blocks(self.begin, self.end)
        self.start = min(self.begin, blocks[0][0]) if blocks else self.begin
        stop = max(self.end, blocks[-1][1]) if blocks else self.end
        place = FILE_HEADER + self.start - self.file.lsn
        self.data = files.read(handle, place, stop - self.start)
        view = memoryview(self.data)
        for begin, end, wanted in blocks:
            found = zlib.crc32(view[begin - self.start : end - self.start])
            if found.to_bytes(4, "little") != wanted:
                self.bad.append((begin, end))

    def is_bad(self, lsn: int, end: int) -> bool:
        return any(begin < end and lsn < stop for begin, stop in self.bad)

    def walk(self, sink: RecordSink) -> None:
        """Tell the sink of the records that are what was written."""
        for place, lsn in enumerate(self.lsns):
            end = self.ends[place]
            if not self.bad or not self.is_bad(lsn, end):
                walk(self.data, lsn - self.start, end - self.start, sink)


@final
class Collector(RecordSink):
    """Takes the records of a chunk that are wanted."""

    def __init__(self, index: QueueIndex, seq: i64, end: i64, history: bool = False) -> None:
        self.index = index
        self.seq = seq
        self.end = end
        self.history = history
        self.found: list[Publish] = []

    def on_publish(self, queue: i64, seq: i64, position: i64, size: i64, data: bytes) -> None:
        if seq < self.seq or seq >= self.end:
            return
        index = self.index
        if not self.history:
            if index.is_live(seq):
                self.found.append(Publish(data, position))
        elif index.is_readable(seq) and (place_at(data, position) == 0 or index.has_body(seq)):
            self.found.append(Publish(data, position))


@final
class Reading:
    """One request for records: a job."""

    def __init__(
        self,
        index: QueueIndex,
        seq: i64,
        ended: "Callable[[Reading, Exception | None], None]",
        *,
        owed: bool = False,
        history: bool = False,
    ) -> None:
        self.index = index
        self.seq = seq
        # It is about what is owed and not about what is live, and without bodies.
        self.owed = owed
        # It is about what is kept as well.
        self.history = history
        # Ids below this one have been looked at when the reading is done.
        self.next_seq = seq
        self.most: i64 = 0
        self.fetch = Fetch(index.journal.bodies)
        self.ended = ended
        self.chunks: list[ChunkSpan] = []
        self.spans: list[JournalSpan] = []
        self.moved = False
        # First and last id of what was live and cannot be read.
        self.lost: list[tuple[int, int]] = []
        self.problem = ""

    def plan(self, committed: i64, files: list[JournalFile], most: i64) -> bool:
        """Find what to read; False if nothing that is asked for and committed is left.

        `files` are those of the journal, in order.
        """
        index = self.index
        self.most = most
        seq = self._first()
        if seq < index.disk_seq:
            if self._plan_chunks(seq, most):
                return True
            seq = index.disk_seq
        return self._plan_journal(seq, committed, files, most)

    def _first(self) -> i64:
        """The first id that may be wanted."""
        return self.seq if self.owed else self.index.behind_owed(self.seq)

    def _plan_chunks(self, seq: i64, most: i64) -> bool:
        """Find the chunks that come next, about so many octets of them."""
        index = self.index
        total: i64 = 0
        while total < most and seq < index.disk_seq:
            chunk = index.chunk_at(seq, self.history)
            if chunk is None or (total > 0 and total + chunk.size > most):
                break
            path = segment_path(int(index.ident), int(chunk.segment))
            self.chunks.append(
                ChunkSpan(path, int(seq), int(chunk.last), int(chunk.offset), int(chunk.size))
            )
            total += chunk.size
            seq = chunk.last + 1
            self.next_seq = seq
            if self.owed:
                break
            seq = index.behind_owed(seq)
        return bool(self.chunks)

    def _plan_journal(self, seq: i64, committed: i64, files: list[JournalFile], most: i64) -> bool:
        index = self.index
        total: i64 = 0
        end: i64 = 0
        span: JournalSpan | None = None
        while seq < index.next_seq and total < most:
            segment = index.segments.get(int(seq >> SEGMENT_SHIFT))
            if segment is None or seq >= segment.end:
                seq = ((seq >> SEGMENT_SHIFT) + 1) << SEGMENT_SHIFT
                continue
            lsn = segment.lsn_of(seq)
            if lsn >= committed:
                break
            if lsn > 0 and (not segment.is_settled(seq) or (self.history and index.is_kept(seq))):
                size = i64(segment.sizes[seq - segment.first])
                if span is None or lsn >= span.file.end or lsn > end + SPARSE:
                    span = JournalSpan(_file_of(files, int(lsn)), int(lsn))
                    self.spans.append(span)
                end = lsn + size
                span.add(int(seq), int(lsn), int(end))
                total += size
            seq += 1
            if len(index.owed) > 0 and not self.owed:
                seq = index.behind_owed(seq)
        self.next_seq = seq
        return bool(self.spans)

    def run(self, files: "Files") -> None:
        path = ""
        handle = -1
        if self.chunks:
            self._run_chunks(files)
        try:
            for span in self.spans:
                if span.path != path:
                    if handle >= 0:
                        files.close(handle)
                        handle = -1
                    handle = files.open(span.path)
                    path = span.path
                span.read(files, handle)
        except FileNotFoundError:
            self.moved = True
        finally:
            if handle >= 0:
                files.close(handle)
        if not self.moved and not self.owed and self.index.stored_live > 0:
            self._fetch(files)

    def _run_chunks(self, files: "Files") -> None:
        path = ""
        handle = -1
        try:
            for chunk in self.chunks:
                if chunk.path != path:
                    if handle >= 0:
                        files.close(handle)
                        handle = -1
                    path = chunk.path
                    with suppress(FileNotFoundError):
                        handle = files.open(path)
                if handle < 0:
                    chunk.problem = "the file of the segment is not there"
                else:
                    chunk.read(files, handle)
        finally:
            if handle >= 0:
                files.close(handle)

    def _fetch(self, files: "Files") -> None:
        """Read the bodies that the records do not have, as many as there is room for."""
        wanted = Wanted(self.index, self.seq, self.next_seq, self.most, self.history)
        for chunk in self.chunks:
            if not chunk.problem:
                walk(chunk.data, CHUNK_HEADER, chunk.size, wanted)
        for span in self.spans:
            span.walk(wanted)
        if wanted.places:
            self.next_seq = wanted.end
            self.fetch.run(files, wanted.places)

    def done(self, error: Exception | None) -> None:
        self.ended(self, error)

    def records(self) -> list[Publish]:
        """What was read and is still there; then look at `moved` and `lost`."""
        collector = Collector(self.index, self.seq, self.next_seq, self.history)
        self.walk(collector)
        return self._with_bodies(collector.found)

    def walk(self, sink: RecordSink) -> None:
        """Tell the sink of what was read; then look at `moved` and `lost`."""
        for chunk in self.chunks:
            if chunk.seq >= self.next_seq or not self._take_chunk(chunk, sink):
                break
        if self.moved and not self.chunks:
            self._look_again()
        for span in self.spans:
            if not self.moved:
                self._take_span(span, sink)
            span.data = b""

    def _with_bodies(self, records: list[Publish]) -> list[Publish]:
        """Give their bodies to those that have none; without those of which it is lost."""
        whole: list[Publish] = []
        for record in records:
            if record.place != 0:
                body = self.fetch.found.get(int(record.place))
                if body is None:
                    self.problem = self.fetch.problem
                    if self.index.is_live(record.seq):
                        if self.index.unread is None:
                            self.index.unread = {}
                        self.index.unread[int(record.seq)] = int(record.place)
                    self._lose(int(record.seq), int(record.seq))
                    continue
                record.body = body
            whole.append(record)
        self.fetch.found = {}
        return whole

    def _take_chunk(self, chunk: ChunkSpan, sink: RecordSink) -> bool:
        """Take what is wanted of a chunk; False if what comes from it on is to be asked again."""
        there = self.index.chunk_at(chunk.seq, self.history)
        if there is None or there.offset != chunk.offset or there.last != chunk.last:
            # The segment has died meanwhile, and its file may be another one now.
            self.moved = chunk is self.chunks[0]
            self.next_seq = chunk.seq
            return False
        if chunk.problem:
            self.problem = f"{chunk.path} at {chunk.offset}: {chunk.problem}"
            self._lose(max(chunk.seq, int(self.seq)), chunk.last)
            return True
        walk(chunk.data, CHUNK_HEADER, chunk.size, sink)
        chunk.data = b""
        return True

    def _take_span(self, span: JournalSpan, sink: RecordSink) -> None:
        if span.bad:
            for place, seq in enumerate(span.seqs):
                lsn = span.lsns[place]
                if seq < self.next_seq and span.is_bad(lsn, span.ends[place]):
                    self.problem = f"{span.path}: a block with lsn {lsn} is not what was written"
                    self._lose(seq, seq)
        span.walk(sink)

    def _look_again(self) -> None:
        """A journal file is not there: it was checkpointed, or somebody removed it."""
        segment_of = self.index.segments
        for span in self.spans:
            for place, seq in enumerate(span.seqs):
                segment = segment_of.get(seq >> SEGMENT_SHIFT)
                if (
                    seq < self.index.disk_seq
                    or segment is None
                    or segment.lsn_of(seq) != span.lsns[place]
                ):
                    return
        self.moved = False
        self.problem = "a file of the journal is not there"
        for span in self.spans:
            for seq in span.seqs:
                self._lose(seq, seq)
        self.spans = []

    def _lose(self, first: int, last: int) -> None:
        for seq in range(first, last + 1):
            if self.index.is_live(seq) or (self.history and self.index.is_readable(seq)):
                if self.lost and self.lost[-1][1] == seq - 1:
                    self.lost[-1] = self.lost[-1][0], seq
                else:
                    self.lost.append((seq, seq))


def _file_of(files: list[JournalFile], lsn: int) -> JournalFile:
    place = len(files) - 1
    while place > 0 and files[place].lsn > lsn:
        place -= 1
    return files[place]
