"""The history of a queue: what is settled stays readable until the floor has passed it.

`begin` has an index keep what is settled from its first live id on; `end` has it keep nothing that
enters from now on. In between and behind, the *floor* (`QueueIndex.kept_from`) rises: what is
settled below it is gone, what is live below it is settled as in a queue without a history. It never
falls, and a history that ends has ended when the floor has passed all of it.

A settled message above the floor refers to its body in the message store like a live one. So the
floor is raised by `Floors` in the background, one reading at a time:

1. as long as nothing refers to the message store, at once, segment by segment;
2. otherwise the records of some ids are read (lane READING; places only, no bodies), and on the
   loop their places are released and the floor raised, in one batch.

Every change is a record of the journal (kept, `record.py`) and does the same when it is replayed,
because what is settled before is written before. A crash between two of them leaves the floor where
it was. When a queue is deleted, what its history refers to is *owed* (`owed.py`) from then on, and
is no history any more.

A record that cannot be read leaves its body with a reference: that is noted (`leaked`), and the
next start counts all references.

What was settled before a history began and lies above its first live id may be readable, if its
record is still there and has its body with it.
"""

from collections import deque
from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64, u8

from warren.store.index import FOREVER, SEGMENT_SHIFT, QueueIndex, Segment
from warren.store.reading import Reading
from warren.store.record import LEAKED, OWED, RecordSink, place_at

if TYPE_CHECKING:
    from warren.store.journal import Journal
    from warren.store.journal_file import JournalFile

# Steps of one turn: segments that are looked at, floors that are raised.
STEPS: Final = 64


def begin(index: QueueIndex, next_seq: i64 = 0) -> None:
    """Keep what is settled from now on; the caller knows that nothing is kept.

    If nothing lives, from the next id of the queue on, of which this may be one level.
    """
    index.write_run()
    _begin(index, first_floor(index, next_seq), FOREVER)
    _write(index, 0)


def first_floor(index: QueueIndex, next_seq: i64) -> i64:
    """From where on a history that begins now keeps what is settled."""
    floor = index.first_live() if index.live > 0 else max(next_seq, index.next_seq)
    owed: i64 = len(index.owed)
    return max(floor, index.owed[owed - 1]) if owed > 0 else floor


def end(index: QueueIndex) -> None:
    """Keep nothing that enters from now on; the floor has to rise to what this leaves."""
    if index.kept_to == FOREVER:
        index.write_run()
        index.kept_to = max(index.kept_from, index.next_seq)
        _write(index, 0)


def pass_floor(index: QueueIndex, floor: i64, released: i64) -> None:
    """What is kept below this id is gone, with so many bodies that were released."""
    index.write_run()
    flags: i64 = 0
    if _let_go(index, floor) != released:
        index.journal.bodies.leaked = True
        flags = LEAKED
    _write(index, flags)


def owe(index: QueueIndex) -> None:
    """The queue is deleted: what only its history refers to is owed."""
    if index.kept_from < index.kept_to:
        index.write_run()
        _write(index, OWED)
        _owe(index)


def replay(index: QueueIndex, floor: i64, stop: i64, flags: i64) -> None:
    """Do what a record says (at a start)."""
    if flags & OWED:
        _owe(index)
    elif index.kept_from >= index.kept_to:
        if floor < stop:
            _begin(index, floor, stop)
    else:
        index.kept_to = min(index.kept_to, stop)
        _let_go(index, floor)


def _write(index: QueueIndex, flags: i64) -> None:
    index.journal.keep(index.ident, index.kept_from, index.kept_to, flags)
    index.join_batch()


def _begin(index: QueueIndex, floor: i64, stop: i64) -> None:
    for segment in index.segments.values():
        segment.entered = 0
        segment.octets = 0
        if segment.end > floor:
            _forget_bodies(segment)
            segment.entered = segment.live
            if index.live > 0:
                segment.octets = index.live_bytes // index.live * segment.live
    index.kept_from = floor
    index.kept_to = stop
    index.floor_wanted = floor


def _forget_bodies(segment: Segment) -> None:
    """What is settled already has no body in the message store any more."""
    stored = segment.stored
    at: i64 = 0
    most = min(i64(len(stored)), i64(len(segment.settled)))
    while at < most:
        stored[at] = u8(i64(stored[at]) & ~i64(segment.settled[at]) & 255)
        at += 1
    segment.stored = stored


def _let_go(index: QueueIndex, floor: i64) -> i64:
    """Raise the floor; return how many bodies are not referred to any more by that."""
    floor = min(floor, index.kept_to)
    released: i64 = 0
    for segment in index.segments.values():
        first = max(index.kept_from, segment.number << SEGMENT_SHIFT)
        stop = min(floor, segment.end)
        if first >= stop:
            continue
        whole = segment.end - first
        segment.entered = segment.entered * (segment.end - stop) // whole
        segment.octets = segment.octets // whole * (segment.end - stop)
        if len(segment.stored) > 0:
            while first < stop:
                if segment.is_stored(first) and segment.is_settled(first):
                    released += 1
                first += 1
    index.stored_live -= released
    index.kept_from = max(index.kept_from, floor)
    for segment in list(index.segments.values()):
        if segment.live == 0 and segment is not index.last and not index.keeps(segment):
            index.leave(segment)
    return released


def _owe(index: QueueIndex) -> None:
    """Have what is kept and has a body count as live, then as owed."""
    first = index.kept_from
    stop = min(index.kept_to, index.next_seq)
    index.kept_to = index.kept_from
    for segment in index.segments.values():
        seq = max(first, segment.number << SEGMENT_SHIFT)
        behind = min(stop, segment.end)
        while seq < behind and len(segment.stored) > 0:
            if segment.is_stored(seq) and segment.is_settled(seq):
                segment.unmark(seq)
                segment.live += 1
                index.live += 1
            seq += 1
    if first < stop:
        index.owe(first, stop)


def octets_of(index: QueueIndex, segment: Segment) -> i64:
    """About so many octets of a segment are kept and not live."""
    if segment.entered <= 0 or not index.keeps(segment):
        return 0
    settled = max(i64(0), segment.entered - segment.live)
    return segment.octets // segment.entered * settled


def behind(index: QueueIndex, segment: Segment, octets: i64) -> i64:
    """Where the floor has to be so that about so many octets of a segment are not kept any more."""
    seq = max(index.kept_from, segment.number << SEGMENT_SHIFT)
    stop = min(index.kept_to, segment.end)
    each = max(i64(1), segment.octets // max(i64(1), segment.entered))
    while seq < stop and octets > 0:
        if segment.is_settled(seq):
            octets -= each
        seq += 1
    return seq


@final
class Places(RecordSink):
    """Releases what settled records below an id refer to."""

    def __init__(self, index: QueueIndex, end: i64) -> None:
        self.index = index
        self.end = end
        self.released: i64 = 0

    def on_publish(self, queue: i64, seq: i64, position: i64, size: i64, data: bytes) -> None:
        index = self.index
        if seq >= self.end or not index.is_kept(seq) or not index.is_settled(seq):
            return
        place = place_at(data, position)
        if place != 0 and index.has_body(seq):
            index.journal.bodies.release(place)
            self.released += 1


@final
class Floors:
    def __init__(self, journal: "Journal") -> None:
        self.journal = journal
        # Queues whose floor is to rise.
        self.waiting: deque[QueueIndex] = deque()
        self.reading: Reading | None = None
        # Whose records were lost, for the log.
        self.problem = ""

    def lift(self, index: QueueIndex, floor: i64) -> None:
        """Have the floor of a queue rise to this id."""
        floor = min(floor, index.kept_to)
        if floor <= index.kept_from or floor <= index.floor_wanted:
            return
        index.floor_wanted = floor
        if not index.passing:
            index.passing = True
            self.waiting.append(index)

    def plan(self, files: "list[JournalFile]", most: i64) -> Reading | None:
        """Raise floors as far as nothing has to be read, some of them; then the next reading."""
        later: list[QueueIndex] = []
        found: Reading | None = None
        left = STEPS
        while self.waiting and found is None and left > 0:
            left -= 1
            index = self.waiting[0]
            wanted = min(index.floor_wanted, index.kept_to)
            if index.gone or index.deleted or wanted <= index.kept_from:
                index.passing = False
                self.waiting.popleft()
                continue
            free = _free_below(index, wanted)
            if free > index.kept_from:
                pass_floor(index, free, 0)
                continue
            reading = Reading(index, index.kept_from, _never, owed=True, history=True)
            if reading.plan(self.journal.committed, files, most):
                found = reading
            elif reading.next_seq < wanted:
                # The rest is not committed.
                later.append(self.waiting.popleft())
            else:
                pass_floor(index, wanted, 0)
        self.waiting.extend(later)
        self.reading = found
        return found

    def take(self, reading: Reading) -> None:
        """A reading has ended: release, and raise the floor."""
        self.reading = None
        index = reading.index
        stop = min(reading.next_seq, min(index.floor_wanted, index.kept_to))
        if index.gone or index.deleted or index.kept_from != reading.seq or stop <= reading.seq:
            # The history is another one than when it was planned.
            return
        sink = Places(index, stop)
        reading.walk(sink)
        if reading.moved:
            return
        pass_floor(index, stop, sink.released)
        self.problem = reading.problem

    def drop(self, reading: Reading) -> None:
        """It could not be made. Others may go better; who wants it asks again."""
        self.reading = None
        index = reading.index
        index.passing = False
        index.floor_wanted = index.kept_from
        self.waiting.remove(index)


def _free_below(index: QueueIndex, wanted: i64) -> i64:
    """Up to where, or to this id, nothing that is kept refers to the message store.

    Looks at `STEPS` segments at most.
    """
    seq = index.kept_from
    left = STEPS
    while seq < wanted and left > 0:
        left -= 1
        segment = index.segments.get(int(seq >> SEGMENT_SHIFT))
        stop = min(wanted, ((seq >> SEGMENT_SHIFT) + 1) << SEGMENT_SHIFT)
        if segment is not None and len(segment.stored) > 0:
            while seq < stop:
                if segment.is_stored(seq) and segment.is_settled(seq):
                    return seq
                seq += 1
        seq = stop
    return seq


def _never(reading: Reading, error: Exception | None) -> None:
    """Somebody else says what is called when the reading has ended."""
