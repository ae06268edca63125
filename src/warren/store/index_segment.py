"""What the index of a queue (`index.py`) knows of 16384 ids, and the chunks of their file."""

from typing import Final, final

from librt.vecs import append, vec
from mypy_extensions import i32, i64, u8

SEGMENT_SHIFT: Final = 14
SEGMENT_ENTRIES: Final = 1 << SEGMENT_SHIFT
SEGMENT_MASK: Final = SEGMENT_ENTRIES - 1


@final
class Segment:
    def __init__(self, number: i64) -> None:
        self.number = number
        # Behind the last id that entered, and how many of all are not settled.
        self.end: i64 = number << SEGMENT_SHIFT
        self.live: i64 = 0
        # One bit for each id of the segment; shorter than the segment when the rest is zero.
        self.settled: vec[u8] = vec[u8]()
        # The same of those whose body is in the message store.
        self.stored: vec[u8] = vec[u8]()
        # The file: valid octets (0 is none), and its chunks: first id, last id, offset, size.
        self.size: i64 = 0
        self.chunks: vec[i64] = vec[i64]()
        # The journal: the id of the first entry; an lsn of 0 is a gap.
        self.first: i64 = 0
        self.lsns: vec[i64] = vec[i64]()
        self.sizes: vec[i32] = vec[i32]()
        # For the history: when the first id entered, wall clock in microseconds, 0 is not known;
        # how many entered from the floor on, and the octets of their records and stored bodies.
        self.at_us: i64 = 0
        self.entered: i64 = 0
        self.octets: i64 = 0

    def is_settled(self, seq: i64) -> bool:
        place = seq & SEGMENT_MASK
        octet = place >> 3
        if octet >= len(self.settled):
            return False
        return (i64(self.settled[octet]) >> (place & 7)) & 1 == 1

    def mark(self, seq: i64) -> None:
        place = seq & SEGMENT_MASK
        octet = place >> 3
        settled = self.settled
        while octet >= len(settled):
            settled = append(settled, u8(0))
        settled[octet] = u8(i64(settled[octet]) | (1 << (place & 7)))
        self.settled = settled

    def unmark(self, seq: i64) -> None:
        """An id that was settled is not."""
        place = seq & SEGMENT_MASK
        settled = self.settled
        settled[place >> 3] = u8(i64(settled[place >> 3]) & ~(1 << (place & 7)) & 255)
        self.settled = settled

    def is_stored(self, seq: i64) -> bool:
        place = seq & SEGMENT_MASK
        octet = place >> 3
        if octet >= len(self.stored):
            return False
        return (i64(self.stored[octet]) >> (place & 7)) & 1 == 1

    def mark_stored(self, seq: i64) -> None:
        place = seq & SEGMENT_MASK
        octet = place >> 3
        stored = self.stored
        while octet >= len(stored):
            stored = append(stored, u8(0))
        stored[octet] = u8(i64(stored[octet]) | (1 << (place & 7)))
        self.stored = stored

    def enter(self, seq: i64) -> None:
        """An id is taken; those that were passed over never will be."""
        passed = self.end
        while passed < seq:
            self.mark(passed)
            passed += 1
        self.end = seq + 1
        self.live += 1

    def put(self, seq: i64, lsn: i64, size: i64) -> None:
        """Note where the journal has a record; ids come in rising order."""
        entries: i64 = len(self.lsns)
        if entries == 0:
            self.first = seq
        lsns = self.lsns
        sizes = self.sizes
        while self.first + entries < seq:
            lsns = append(lsns, i64(0))
            sizes = append(sizes, i32(0))
            entries += 1
        self.lsns = append(lsns, lsn)
        self.sizes = append(sizes, i32(size))

    def lsn_of(self, seq: i64) -> i64:
        """Where the journal has this id; 0 when it has not."""
        place = seq - self.first
        if place < 0 or place >= len(self.lsns):
            return 0
        return self.lsns[place]

    def forget_below(self, seq: i64) -> None:
        """The journal's entries below this id are in the file now."""
        entries: i64 = len(self.lsns)
        cut = seq - self.first
        if entries == 0 or cut <= 0:
            return
        lsns = vec[i64]()
        sizes = vec[i32]()
        while cut < entries:
            lsns = append(lsns, self.lsns[cut])
            sizes = append(sizes, self.sizes[cut])
            cut += 1
        self.lsns = lsns
        self.sizes = sizes
        self.first = seq

    def forget_file(self) -> None:
        """Nothing in the file lives."""
        self.size = 0
        self.chunks = vec[i64]()

    def add_chunk(self, first: i64, last: i64, offset: i64, size: i64) -> None:
        chunks = append(self.chunks, first)
        chunks = append(chunks, last)
        chunks = append(chunks, offset)
        self.chunks = append(chunks, size)
        self.size = offset + size


@final
class Chunk:
    """A place in a segment's file."""

    def __init__(self, segment: i64, last: i64, offset: i64, size: i64) -> None:
        self.segment = segment
        self.last = last
        self.offset = offset
        self.size = size


def find_chunk(segment: Segment, seq: i64) -> Chunk | None:
    """The first chunk of a segment whose last id is not below this one."""
    chunks = segment.chunks
    low: i64 = 0
    high: i64 = len(chunks) >> 2
    while low < high:
        middle = (low + high) >> 1
        if chunks[(middle << 2) + 1] < seq:
            low = middle + 1
        else:
            high = middle
    at = low << 2
    if at >= len(chunks):
        return None
    return Chunk(segment.number, chunks[at + 1], chunks[at + 2], chunks[at + 3])
