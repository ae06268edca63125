"""Which ids of a queue may be read without consuming them, and what became of the others.

`is_readable` is the one place that decides: what is live may be read, and
of the history what is kept as well. `stable_below` says up to
where (PL-2): a record that is not committed may be gone after a crash, and nothing behind it is
shown before it. `missing` says what is known of an id that cannot be read (PL-1): while its entry
in the journal is there, whether it was stored; behind a checkpoint not even that.
"""

from typing import Final, final

from mypy_extensions import i64

from warren.store.index import SEGMENT_MASK, SEGMENT_SHIFT, QueueIndex

# It was stored, and is settled: acknowledged, expired, dropped, purged.
SETTLED: Final[i64] = 0
# It never was in the store: transient, given to a consumer that does not acknowledge, or passed
# over by a start of the node.
NOT_STORED: Final[i64] = 1
# Not there any more, or never was: the store does not know which.
GONE: Final[i64] = 2


@final
class Missing:
    """Neighbours of which the same is known: what, and the id behind the last."""

    def __init__(self, kind: i64, end: i64) -> None:
        self.kind = kind
        self.end = end


def is_readable(index: QueueIndex, seq: i64, history: bool = False) -> bool:
    return index.is_readable(seq) if history else index.is_live(seq)


def stable_below(index: QueueIndex, committed: i64) -> i64:
    """The first id whose record is not committed; behind the last one if all are."""
    stable = index.next_seq
    for segment in index.segments.values():
        lsns = segment.lsns
        place: i64 = len(lsns)
        first: i64 = -1
        while place > 0:
            place -= 1
            lsn = lsns[place]
            if lsn >= committed:
                first = place
            elif lsn > 0:
                break
        if first >= 0 and segment.first + first < stable:
            stable = segment.first + first
    return stable


def missing(index: QueueIndex, seq: i64, end: i64) -> Missing:
    """What became of this id and of those behind it, none of which can be read.

    It looks into one segment at most; those that are not there cost nothing.
    """
    if seq >= index.next_seq:
        return Missing(NOT_STORED, end)
    end = min(end, index.next_seq)
    segment = index.segments.get(int(seq >> SEGMENT_SHIFT))
    if segment is None:
        for other in index.segments.values():
            begin = other.number << SEGMENT_SHIFT
            if begin > seq and begin < end:
                end = begin
        return Missing(GONE, end)
    end = min(end, (seq & ~SEGMENT_MASK) + SEGMENT_MASK + 1)
    if seq >= segment.end:
        return Missing(NOT_STORED, end)
    end = min(end, segment.end)
    lsns = segment.lsns
    place = seq - segment.first
    if len(lsns) == 0 or place >= len(lsns):
        return Missing(GONE, end)
    if place < 0:
        return Missing(GONE, min(end, segment.first))
    settled = lsns[place] > 0
    while seq < end and place < len(lsns) and (lsns[place] > 0) == settled:
        place += 1
        seq += 1
    return Missing(SETTLED if settled else NOT_STORED, seq)


def live_runs(index: QueueIndex, number: i64, history: bool = False) -> list[tuple[int, int]]:
    """What may be read of a segment: first ids, and those behind the last."""
    found: list[tuple[int, int]] = []
    segment = index.segments.get(int(number))
    if segment is None:
        return found
    seq = number << SEGMENT_SHIFT
    begin: i64 = -1
    while seq < segment.end:
        if is_readable(index, seq, history):
            if begin < 0:
                begin = seq
        elif begin >= 0:
            found.append((int(begin), int(seq)))
            begin = -1
        seq += 1
    if begin >= 0:
        found.append((int(begin), int(seq)))
    return found
