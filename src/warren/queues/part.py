"""The five parts of a queue as the reference counts them: q4, q3, delta, q2, q1 (storage VQ-1).

Here a queue is a chain of blocks, in memory or out. What people ask for in the reference's words is
counted from it, by where a message is:

    q4     in memory, before everything that is out
    q3     what is read next: a chunk of a segment, a page, or what only the journal has
    delta  behind that, up to the last message in a segment
    q2     behind that, up to the last one that is out
    q1     in memory, behind everything that is out

So the order is that of the ids, and the invariants of VQ-2 hold by the way it is counted. A lazy
queue has q3 in memory and delta for the rest. With priorities the parts of all levels are added.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from warren.queues.backlog import HERE, IN_PAGES, IN_STORE, Backlog, Block
from warren.queues.paging import MESSAGE_COST
from warren.store.index import SEGMENT_ENTRIES, SEGMENT_SHIFT, QueueIndex

if TYPE_CHECKING:
    from warren.queues.queue import Queue

UNDEFINED: Final = -1


@dataclass(frozen=True, slots=True)
class Delta:
    """Ids from `start` on, below `end`; `UNDEFINED` both when it is empty."""

    start: int = UNDEFINED
    count: int = 0
    transient: int = 0
    end: int = UNDEFINED

    def __add__(self, other: "Delta") -> "Delta":
        if not self.count or not other.count:
            return self if self.count else other
        return Delta(
            min(self.start, other.start),
            self.count + other.count,
            self.transient + other.transient,
            max(self.end, other.end),
        )


@dataclass(frozen=True, slots=True)
class Parts:
    q1: int = 0
    q2: int = 0
    delta: Delta = Delta()
    q3: int = 0
    q4: int = 0

    def __add__(self, other: "Parts") -> "Parts":
        return Parts(
            self.q1 + other.q1,
            self.q2 + other.q2,
            self.delta + other.delta,
            self.q3 + other.q3,
            self.q4 + other.q4,
        )

    def count(self) -> int:
        return self.q1 + self.q2 + self.delta.count + self.q3 + self.q4


def parts(queue: "Queue") -> Parts:
    """Count the parts of a queue."""
    lazy = queue.rules.lazy
    if queue.ruled is None:
        return _of_level(queue.backlog, len(queue.returned.heap), queue.index, lazy)
    total = Parts()
    for level in queue.ruled.levels:
        if level is not None and level.count() > 0:
            total += _of_level(level.backlog, len(level.returned.heap), level.index, lazy)
    return total


def target_ram_count(queue: "Queue") -> int | None:
    """How many messages the queue may keep in memory; None is as many as it likes."""
    if queue.rules.lazy:
        return 0
    if queue.memory_target < 0:
        return None
    ready = int(queue.ready())
    size = int(queue.ready_bytes) // ready if ready else 0
    return int(queue.memory_target) // (size + int(MESSAGE_COST))


def _of_level(backlog: Backlog, returned: int, index: QueueIndex | None, lazy: bool) -> Parts:
    lead = returned + int(backlog.here)
    if backlog.outs == 0:
        return Parts(q3=lead) if lazy else Parts(q4=lead)
    blocks = _from_first_out(backlog)
    if lazy:
        paged = sum(int(block.out) for block in blocks if block.place == IN_PAGES)
        count = int(backlog.count - backlog.here)
        delta = Delta(int(blocks[0].first), count, paged, _end(blocks[-1]))
        return Parts(q3=lead, delta=delta)
    first = blocks[0]
    q3, behind = _read_next(first, index)
    delta, until, place = Delta(), 0, 0
    paged, start = 0, UNDEFINED
    for block in blocks:
        if block is first:
            count, begin = int(block.out) - q3, behind
        else:
            count, begin = int(block.count()), int(block.first)
        if count > 0 and start == UNDEFINED:
            start = begin
        if block.place == IN_STORE and index is not None:
            stop = min(int(index.disk_seq), int(block.last) + 1)
            in_segments = live_between(index, begin, stop)
            if in_segments > 0:
                delta = Delta(start, place + in_segments, paged, stop)
        elif block.place == IN_PAGES:
            paged += count
        place += count
        if block.place != HERE:
            until = place
    rest = until - delta.count
    q1 = int(backlog.count - backlog.here) - q3 - until
    if delta.count == 0:
        return Parts(q1=q1, q3=q3 + rest, q4=lead)
    return Parts(q1=q1, q2=rest, delta=delta, q3=q3, q4=lead)


def _from_first_out(backlog: Backlog) -> list[Block]:
    block: Block | None = backlog.head
    while block is not None and block.place == HERE:
        block = block.next
    found: list[Block] = []
    while block is not None:
        found.append(block)
        block = block.next
    return found


def _end(block: Block) -> int:
    """The id behind the last one of a block."""
    if block.place != HERE:
        return int(block.last) + 1
    return int(block.seq_at(len(block.items) - 1)) + 1


def _read_next(block: Block, index: QueueIndex | None) -> tuple[int, int]:
    """How many messages of a block are read in one go at least, and the first id behind them."""
    if block.place == IN_STORE and index is not None:
        seq = int(block.first)
        count = 0
        while seq <= block.last and seq < index.disk_seq:
            chunk = index.chunk_at(seq)
            if chunk is None:
                break
            following = min(int(chunk.last), int(block.last)) + 1
            count = live_between(index, seq, following)
            seq = following
            if count > 0:
                return count, seq
    return int(block.out), int(block.last) + 1


def live_between(index: QueueIndex, begin: int, end: int) -> int:
    """How many ids from `begin` on, below `end`, are live."""
    count = 0
    while begin < end:
        number = begin >> SEGMENT_SHIFT
        following = (number + 1) << SEGMENT_SHIFT
        segment = index.segments.get(number)
        if segment is not None:
            stop = min(end, int(segment.end))
            whole = begin == following - SEGMENT_ENTRIES and stop == segment.end
            if whole:
                count += int(segment.live)
            else:
                count += sum(not segment.is_settled(seq) for seq in range(begin, stop))
        begin = following
    return count
