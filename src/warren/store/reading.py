"""Reading messages of a queue back by sequence id, from segment files or from the journal.

A `Reading` asks for the live records from an id on, about so many octets of them. Planned on the
loop, read on the reading lane, handed over on the loop as `Publish`es in the order of their ids.
Only what is committed can be read. When the file was checkpointed away meanwhile (`moved`), the
records are in a segment by then, and whoever asked asks again.
"""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.store.batch import FILE_HEADER
from warren.store.commit import journal_path
from warren.store.index import SEGMENT_SHIFT, QueueIndex
from warren.store.record import Publish, RecordSink, walk
from warren.store.segment import CHUNK_HEADER, check_chunk, segment_path

if TYPE_CHECKING:
    from collections.abc import Callable

    from warren.core.seam import Files

# Records further apart than this are read one by one.
SPARSE: Final = 65536


@final
class Span:
    """Octets of one file, and where records begin in them."""

    def __init__(self, path: str, offset: int, size: int, *, chunk: bool) -> None:
        self.path = path
        self.offset = offset
        self.size = size
        self.chunk = chunk
        self.places: list[int] = []
        self.data = b""


@final
class Collector(RecordSink):
    """Takes the records of a chunk that are wanted."""

    def __init__(self, index: QueueIndex, seq: i64) -> None:
        self.index = index
        self.seq = seq
        self.found: list[Publish] = []

    def on_publish(self, queue: i64, seq: i64, position: i64, size: i64, data: bytes) -> None:
        if seq >= self.seq and self.index.is_live(seq):
            self.found.append(Publish(data, position))


@final
class Reading:
    """One request for records: a job."""

    def __init__(
        self,
        index: QueueIndex,
        seq: i64,
        ended: "Callable[[Reading, Exception | None], None]",
    ) -> None:
        self.index = index
        self.seq = seq
        # Ids below this one have been looked at when the reading is done.
        self.next_seq = seq
        self.ended = ended
        self.spans: list[Span] = []
        self.moved = False

    def plan(self, committed: i64, starts: list[tuple[int, int]], most: i64) -> bool:
        """Find what to read; False if nothing that is live and committed is left.

        `starts` has number and first lsn of every journal file, in order.
        """
        index = self.index
        seq = self.seq
        if seq < index.disk_seq:
            chunk = index.chunk_at(seq)
            if chunk is not None:
                self.spans.append(
                    Span(
                        segment_path(int(index.ident), int(chunk.segment)),
                        int(chunk.offset),
                        int(chunk.size),
                        chunk=True,
                    )
                )
                self.next_seq = chunk.last + 1
                return True
            seq = index.disk_seq
        return self._plan_journal(seq, committed, starts, most)

    def _plan_journal(
        self, seq: i64, committed: i64, starts: list[tuple[int, int]], most: i64
    ) -> bool:
        index = self.index
        total: i64 = 0
        place = len(starts) - 1
        span: Span | None = None
        while seq < index.next_seq and total < most:
            segment = index.segments.get(int(seq >> SEGMENT_SHIFT))
            if segment is None or seq >= segment.end:
                seq = ((seq >> SEGMENT_SHIFT) + 1) << SEGMENT_SHIFT
                continue
            lsn = segment.lsn_of(seq)
            if lsn >= committed:
                break
            if lsn > 0 and not segment.is_settled(seq):
                size = int(segment.sizes[seq - segment.first])
                if span is None:
                    place = _file_of(starts, int(lsn))
                number, start = starts[place]
                inside = place + 1 == len(starts) or lsn < starts[place + 1][1]
                if not inside:
                    place = _file_of(starts, int(lsn))
                    number, start = starts[place]
                offset = FILE_HEADER + int(lsn) - start
                if span is None or not inside or offset > span.offset + span.size + SPARSE:
                    span = Span(journal_path(number), offset, 0, chunk=False)
                    self.spans.append(span)
                span.places.append(offset - span.offset)
                span.size = offset + size - span.offset
                total += size
            seq += 1
        self.next_seq = seq
        return bool(self.spans)

    def run(self, files: "Files") -> None:
        path = ""
        handle = -1
        try:
            for span in self.spans:
                if span.path != path:
                    if handle >= 0:
                        files.close(handle)
                        handle = -1
                    handle = files.open(span.path)
                    path = span.path
                span.data = files.read(handle, span.offset, span.size)
        except FileNotFoundError:
            self.moved = True
        finally:
            if handle >= 0:
                files.close(handle)

    def done(self, error: Exception | None) -> None:
        self.ended(self, error)

    def records(self) -> list[Publish]:
        """What was read and is still live."""
        collector = Collector(self.index, self.seq)
        for span in self.spans:
            if span.chunk:
                check_chunk(span.data, span.size)
                walk(span.data, CHUNK_HEADER, span.size, collector)
            else:
                for at in span.places:
                    # The data of a record is checked when the batch is replayed, not here; what
                    # is no record raises.
                    walk(span.data, at, at + _size_at(span.data, at), collector)
            span.data = b""
        return collector.found


def _size_at(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


def _file_of(starts: list[tuple[int, int]], lsn: int) -> int:
    place = len(starts) - 1
    while place > 0 and starts[place][1] > lsn:
        place -= 1
    return place
