"""What can be saved of a queue after damage to the journal or the state log.

Reads what a start without damage never reads: all records of the queue. It is right about what is
there and slow, and nothing else is done before it has ended.

1. `adopt`, before the journal is replayed and only if the state log is damaged: chunks that stand
   in segment files and that the state log does not know. Messages of which only the lost part of
   the state log knew that they are settled come back.
2. `recount`, after it: every id that counts as live and of which there is no record, or one whose
   checksum is wrong, is settled; live ids and the octets of their bodies are counted anew, and what
   the history refers to in the message store. What owed releases to it is settled as well: all
   references are counted here.
"""

from collections import Counter
from typing import TYPE_CHECKING, final

from librt.vecs import vec
from mypy_extensions import i64, u8

from warren.store.batch import FILE_HEADER, FormatError
from warren.store.commit import journal_path
from warren.store.index import SEGMENT_SHIFT, QueueIndex, Segment
from warren.store.record import RecordSink, body_size_at, place_at, walk
from warren.store.segment import (
    CHUNK_HEADER,
    CHUNK_MAGIC,
    check_chunk,
    queue_folder,
    segment_path,
)

if TYPE_CHECKING:
    from warren.core.seam import Files
    from warren.store.journal_file import JournalFile


@final
class Contents(RecordSink):
    """The ids of the records of a chunk, and the sizes of their bodies."""

    def __init__(self, ident: i64) -> None:
        self.ident = ident
        self.sizes: dict[int, int] = {}
        # Where the message store has the bodies of those that it has.
        self.places: dict[int, int] = {}

    def on_publish(self, queue: i64, seq: i64, position: i64, size: i64, data: bytes) -> None:
        if queue == self.ident:
            self.sizes[int(seq)] = int(body_size_at(data, position))
            place = place_at(data, position)
            if place != 0:
                self.places[int(seq)] = int(place)


@final
class Repair:
    def __init__(self, files: "Files", journal_files: "list[JournalFile]") -> None:
        self.files = files
        self.journal_files = journal_files
        # The journal file that was read last.
        self.number = -1
        self.data = b""
        # How often live records name each place of the message store.
        self.references: Counter[int] = Counter()

    # -- chunks that the state log does not know -------------------------------------------------

    def adopt(self, index: QueueIndex) -> None:
        folder = queue_folder(int(index.ident))
        stems = [name.removesuffix(".idx") for name in self.files.names(folder)]
        for number in sorted(int(stem) for stem in stems if stem.isdigit()):
            data = self._whole(segment_path(int(index.ident), number))
            segment = index.segments.get(number)
            at = FILE_HEADER if segment is None else max(FILE_HEADER, int(segment.size))
            while True:
                at = data.find(CHUNK_MAGIC, at)
                if at < 0:
                    break
                size = CHUNK_HEADER + int.from_bytes(data[at + 24 : at + 32], "little")
                chunk = data[at : at + size]
                try:
                    check_chunk(chunk, size)
                except FormatError:
                    at += 1
                    continue
                self._adopt_chunk(index, number, at, chunk)
                at += size
        for segment in index.segments.values():
            if index.last is None or segment.number > index.last.number:
                index.last = segment

    def _adopt_chunk(self, index: QueueIndex, number: int, at: int, chunk: bytes) -> None:
        contents = Contents(index.ident)
        walk(chunk, CHUNK_HEADER, len(chunk), contents)
        seqs = list(contents.sizes)
        segment = index.segments.get(number)
        known = -1 if segment is None or not segment.chunks else int(segment.chunks[-3])
        if not seqs or seqs != sorted(seqs) or seqs[0] <= known:
            return
        if seqs[0] >> SEGMENT_SHIFT != number or seqs[-1] >> SEGMENT_SHIFT != number:
            return
        if segment is None:
            segment = Segment(number)
            index.segments[number] = segment
        for seq in seqs:
            if seq >= segment.end:
                segment.enter(seq)
                index.live += 1
        segment.add_chunk(seqs[0], seqs[-1], at, len(chunk))
        index.disk_seq = max(index.disk_seq, i64(seqs[-1] + 1))
        index.next_seq = max(index.next_seq, i64(seqs[-1] + 1))

    # -- counting --------------------------------------------------------------------------------

    def recount(self, index: QueueIndex) -> int:
        """Settle what is not there, count what is; return how many messages are lost."""
        lost = 0
        live = 0
        octets = 0
        while len(index.owed) > 0:
            index.replay_settled(index.owed[0], index.owed[1] - index.owed[0])
            index.trim_owed(index.owed[1])
        index.stored_live = 0
        for number, segment in list(index.segments.items()):
            contents = Contents(index.ident)
            self._in_chunks(index, number, segment, contents)
            self._in_journal(index, segment, contents)
            sizes = contents.sizes
            there = [seq for seq in sizes if seq < segment.end and not segment.is_settled(seq)]
            kept = [
                seq
                for seq in contents.places
                if seq < segment.end
                and segment.is_settled(seq)
                and index.is_kept(seq)
                # Without one its body went before the history began.
                and segment.is_stored(seq)
            ]
            for seq in range(number << SEGMENT_SHIFT, int(segment.end)):
                if seq not in sizes and not segment.is_settled(seq):
                    segment.mark(seq)
                    lost += 1
            segment.live = len(there)
            live += len(there)
            octets += sum(sizes[seq] for seq in there)
            segment.stored = vec[u8]()
            for seq in (*there, *kept):
                if seq in contents.places:
                    segment.mark_stored(seq)
                    index.stored_live += 1
                    self.references[contents.places[seq]] += 1
            if not there and segment is not index.last and not index.keeps(segment):
                index.leave(segment)
        index.live = live
        index.live_bytes = octets
        return lost

    def _in_chunks(
        self, index: QueueIndex, number: int, segment: Segment, contents: Contents
    ) -> None:
        """Note what the file of a segment has."""
        if not segment.chunks:
            return
        try:
            data = self._whole(segment_path(int(index.ident), number))
        except FileNotFoundError:
            return
        for place in range(0, len(segment.chunks), 4):
            at, size = int(segment.chunks[place + 2]), int(segment.chunks[place + 3])
            chunk = data[at : at + size]
            try:
                check_chunk(chunk, size)
            except FormatError:
                continue
            walk(chunk, CHUNK_HEADER, size, contents)

    def _in_journal(self, index: QueueIndex, segment: Segment, contents: Contents) -> None:
        """The same of what the journal has."""
        for place in range(len(segment.lsns)):
            lsn = int(segment.lsns[place])
            seq = int(segment.first) + place
            wanted = not segment.is_settled(seq) or index.is_kept(seq)
            if lsn and seq >= index.disk_seq and wanted:
                for file in self.journal_files:
                    if file.lsn <= lsn < file.end:
                        at = FILE_HEADER + lsn - file.lsn
                        end = at + int(segment.sizes[place])
                        walk(self._journal(file), at, end, contents)

    def _journal(self, file: "JournalFile") -> bytes:
        if self.number != file.number:
            self.number = file.number
            self.data = self._whole(journal_path(file.number))
        return self.data

    def _whole(self, path: str) -> bytes:
        handle = self.files.open(path)
        try:
            return self.files.read(handle, 0, self.files.size(handle))
        finally:
            self.files.close(handle)
