"""Reading a queue by sequence ids without consuming: ready and unacknowledged messages, in order.

A `RangeRead` is one answer, made in slices: whoever drives it calls `step` once a turn, and waits
for `wake` while it is `waiting` for the disk. Nothing of the queue changes by it: no order, flag or
counter, nothing is read ahead for consumers or brought into memory.

What is committed to the store is read from the store (PL-2: nothing at or behind the first id that
is not committed), whatever else is where it is: in memory, in page files, out with consumers. Much
may happen between two slices, and a message that is in the queue all the while is told exactly
once:

1. The store is read. What lives there when it has been read is told, wherever it is by then.
2. Blocks are walked from the head. Messages only leave them: into channels.
3. What came back is copied at one moment. From then on the queue tells of whatever comes back.
4. Channels are walked. What left them before their turn came back (3), or is settled.

Each stage lowers `bound`: all that is known lies below it, and so the answer ends there. An answer
is as long as its limits of messages and octets allow; the next one begins at `next_seq`. Ids in it
without a message are reported with what is known of them (PL-1); a purge or the end of the queue
while it is made ends it (PL-4).
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, final

from warren.queues.backlog import HERE, IN_PAGES, Backlog, Block, Returned
from warren.queues.gate import GATE_DEAD
from warren.queues.keeper import Witness
from warren.store.pages import PageRead
from warren.store.readable import NOT_STORED, SETTLED, is_readable, missing, stable_below

if TYPE_CHECKING:
    from warren.queues.message import Message
    from warren.queues.paging import Paging
    from warren.queues.queue import Queue
    from warren.queues.unacked import Delivery
    from warren.store.index import QueueIndex
    from warren.store.reading import Reading
    from warren.store.record import Publish

# What a message counts besides its body, exchange, key and properties.
RECORD_COST: Final = 64
# What a record in the store has besides its body, about.
RECORD_OCTETS: Final = 128
# Work of one slice, and gaps that are told in one answer.
SLICE_BLOCKS: Final = 512
SLICE_MESSAGES: Final = 2048
# What is looked into costs as much as so many blocks that are passed over.
PASSED_BLOCKS: Final = 16
SLICE_GAPS: Final = 4
GAPS_MAX: Final = 256
# Of what may be told some more is noted, so that it is not sorted again with each message.
SPARE: Final = 1024
# Readings that find their place moved; each time it is another checkpoint.
MOVES_MAX: Final = 100


class Gap(StrEnum):
    """What is known of an id without a message."""

    SETTLED = "settled"
    NOT_STORED = "not_stored"
    GONE = "gone"
    UNREADABLE = "unreadable"


class Ended(StrEnum):
    """What ends a read (PL-4)."""

    PURGED = "purged"
    DELETED = "deleted"
    FAILED = "failed"


class RangeError(Exception):
    """The range cannot be read any more."""

    def __init__(self, reason: Ended, detail: str = "") -> None:
        super().__init__(detail or reason.value)
        self.reason = reason


@dataclass(slots=True, frozen=True, kw_only=True)
class Range:
    """Which messages: ids from one to before another; how much of them in one answer.

    `body_from`, `body_max`: the part of each body that is wanted. `stored` False leaves out what
    the store has; `history` has what is settled and kept, too.
    """

    from_seq: int
    to_seq: int
    limit: int
    octets: int
    body_from: int = 0
    body_max: int = 1 << 62
    stored: bool = True
    history: bool = False


@dataclass(slots=True, frozen=True)
class RangeRecord:
    """One message; `at_us` is when it was published, 0 if it is not in the store.

    `redelivered`: it was handed out before, or is out now.
    """

    seq: int
    ready: bool
    redelivered: bool
    at_us: int
    tail: bytes
    props: bytes
    size: int
    body: bytes
    # It is no message of the queue any more: a part of its history.
    settled: bool = False


@final
class LevelView:
    """What a level of a queue consists of."""

    def __init__(
        self, backlog: Backlog, returned: Returned, index: "QueueIndex | None", number: int
    ) -> None:
        self.backlog = backlog
        self.returned = returned
        self.index = index
        self.number = number


def levels_of(queue: "Queue") -> list[LevelView]:
    """The levels of a queue, from the lowest up."""
    ruled = queue.ruled
    if ruled is None:
        return [LevelView(queue.backlog, queue.returned, queue.index, 0)]
    return [
        LevelView(level.backlog, level.returned, level.index, number)
        for number, level in enumerate(ruled.levels)
        if level is not None
    ]


def stable_of(queue: "Queue") -> int:
    """The id below which everything that is to be stored is on the disk (PL-2)."""
    stable = int(queue.next_seq)
    for level in levels_of(queue):
        index = level.index
        if index is not None and not index.journal.broken:
            below = int(stable_below(index, index.journal.committed))
            if below < index.next_seq:
                stable = min(stable, below)
    return stable


@final
class RangeRead:
    def __init__(
        self, queue: "Queue", wanted: Range, channels: "Callable[[], Iterable[list[Delivery]]]"
    ) -> None:
        self.queue = queue
        self.wanted = wanted
        # What all channels hold, of any queue, a slice at a time.
        self.channels = channels
        self.stable = stable_of(queue)
        self.end = max(wanted.from_seq, min(wanted.to_seq, self.stable))
        self.bound = self.end
        # The answer.
        self.records: list[RangeRecord] = []
        self.gaps: list[tuple[int, int, Gap]] = []
        self.next_seq = wanted.from_seq
        # A job on the disk is under way; `wake` is called at its end.
        self.waiting = False
        self.wake: Callable[[], None] = _nobody
        self._witness = Witness()
        self._levels = levels_of(queue)
        self._purges = int(queue.purge_count)
        self._stored: dict[int, tuple[Publish, LevelView]] = {}
        self._memory: dict[int, tuple[Message, bool]] = {}
        self._came_back: dict[int, Message] = {}
        self._out: dict[int, Message] = {}
        # Ids in blocks of messages that had been handed out before the node started.
        self._again: list[tuple[int, int]] = []
        self._lost: list[tuple[int, int]] = []
        self._reading: Reading | None = None
        self._page: PageRead | None = None
        self._error: Exception | None = None
        self._steps = self._work()

    def step(self) -> bool:
        """Do one slice; True when the answer is there. `RangeError` if there will be none."""
        for _ in self._steps:
            self._note_witnessed()
            return False
        return True

    def close(self) -> None:
        """Nobody wants the answer any more, or has it."""
        self._steps.close()

    def _work(self) -> Generator[None]:
        queue = self.queue
        if self.bound <= self.wanted.from_seq:
            return
        queue.witnesses.append(self._witness)
        try:
            if self.wanted.stored:
                for level in self._levels:
                    yield from self._read_store(level)
            for level in self._levels:
                yield from self._walk_blocks(level)
            for level in self._levels:
                yield from self._note_returned(level)
            yield from self._walk_channels()
            self._check()
            self._note_witnessed()
            self._merge()
            if self.wanted.stored:
                yield from self._find_gaps()
        finally:
            queue.witnesses.remove(self._witness)

    def _check(self) -> None:
        """Raise if what was read is not the queue any more."""
        queue = self.queue
        if queue.gate & GATE_DEAD:
            raise RangeError(Ended.DELETED)
        if queue.purge_count != self._purges:
            raise RangeError(Ended.PURGED)

    def _is_full(self, count: int, octets: int) -> bool:
        return count >= self.wanted.limit or octets >= self.wanted.octets

    # -- 1: the store ----------------------------------------------------------------------------

    def _read_store(self, level: LevelView) -> Iterator[None]:
        index = level.index
        storage = self.queue.turn.storage
        if index is None or storage is None:
            return
        history = self.wanted.history
        if index.live == 0 and not (history and index.kept_from < index.kept_to):
            return
        seq = self.wanted.from_seq
        count = octets = moves = 0
        while seq < self.bound and not self._is_full(count, octets):
            most = min(self.wanted.octets - octets, _expected(index, self.wanted.limit - count))
            if not storage.persistence.read(index, seq, self._on_read, most, history=history):
                return
            self.waiting = True
            while self.waiting:
                yield
            self._check()
            reading = self._reading
            if self._error is not None or reading is None:
                raise RangeError(Ended.FAILED, str(self._error))
            records = reading.records()
            if reading.moved:
                moves += 1
                if moves > MOVES_MAX:
                    raise RangeError(Ended.FAILED, "the files of the queue change too often")
                continue
            self._lost += reading.lost
            for record in records:
                found = int(record.seq)
                if found < self.bound and is_readable(index, found, history):
                    self._stored[found] = record, level
                    count += 1
                    octets += _size_of(
                        record.tail, record.props, int(record.body_size), self.wanted
                    )
            octets += RECORD_COST
            seq = max(seq + 1, int(reading.next_seq))
            yield
        self.bound = min(self.bound, max(seq, self.wanted.from_seq + 1))

    def _on_read(self, reading: "Reading", error: Exception | None) -> None:
        self._reading = reading
        self._error = error
        self.waiting = False
        self.wake()

    # -- 2: blocks -------------------------------------------------------------------------------

    def _walk_blocks(self, level: LevelView) -> Iterator[None]:
        """Note what waits in blocks and is not in the store."""
        backlog = level.backlog
        block: Block | None = backlog.head if backlog.count > 0 else None
        walked = count = octets = 0
        while block is not None and block.first < self.bound:
            last = int(block.last)
            if block.place == HERE:
                last = int(block.seq_at(len(block.items) - 1)) if block.items else int(block.first)
                found, size = self._take_block(level, block)
                count, octets = count + found, octets + size
            elif block.out == 0:
                # It came into memory before we were there: its messages stand before it now.
                block = backlog.head if backlog.count > 0 else None
                count = octets = 0
                continue
            elif block.place == IN_PAGES and block.last >= self.wanted.from_seq:
                yield from self._read_page(block)
                if self._page is None:
                    continue
                count, octets = count + len(self._page.records), octets + int(block.octets)
            if self._is_full(count, octets):
                self.bound = min(self.bound, last + 1)
                return
            block = _after(backlog, block)
            walked += 1 if last < self.wanted.from_seq else PASSED_BLOCKS
            if walked >= SLICE_BLOCKS:
                walked = 0
                yield
                self._check()

    def _take_block(self, level: LevelView, block: Block) -> tuple[int, int]:
        items = block.items
        count = len(items)
        if count == 0 or block.seq_at(count - 1) < self.wanted.from_seq:
            return 0, 0
        if block.again:
            self._again.append((int(block.seq_at(0)), int(block.seq_at(count - 1)) + 1))
        found = octets = 0
        for place in range(count):
            message = items[place]
            seq = int(block.seq_at(place))
            if message is None or seq < self.wanted.from_seq:
                continue
            if seq >= self.bound:
                break
            if not _has(level, seq):
                self._memory[seq] = message, bool(block.again)
                found += 1
                octets += _size_of(message.tail, message.props, int(message.size), self.wanted)
        return found, octets

    def _read_page(self, block: Block) -> Iterator[None]:
        """Read a block that is in a page file; `_page` is None if it came back meanwhile."""
        storage = self.queue.turn.storage
        assert storage is not None
        self.waiting = True
        storage.read_page(PageRead(block.page_file, block.page_offset, block.page_size, self))
        first, last, again = int(block.first), int(block.last), bool(block.again)
        while self.waiting:
            yield
        self._check()
        if self._error is not None:
            self._page = None
            if block.out == 0:
                return
            raise RangeError(Ended.FAILED, str(self._error))
        page = self._page
        assert page is not None
        for record in page.records:
            seq = int(record.seq)
            if self.wanted.from_seq <= seq < self.bound and first <= seq <= last:
                self._memory[seq] = storage.message_of(record), again

    def ended(self, page: PageRead, error: Exception | None) -> None:
        """A page has been read."""
        self._page = page
        self._error = error
        self.waiting = False
        self.wake()

    # -- 3 and 4: what came back, what is out ----------------------------------------------------

    def _note_returned(self, level: LevelView) -> Iterator[None]:
        items = list(level.returned.heap)
        for begin in range(0, len(items), SLICE_MESSAGES):
            for item in items[begin : begin + SLICE_MESSAGES]:
                self._note(self._came_back, int(item.seq), item.message)
            if begin + SLICE_MESSAGES < len(items):
                yield

    def _note_witnessed(self) -> None:
        """Take over what came back since the last slice."""
        deliveries = self._witness.returned
        self._witness.returned = []
        for delivery in deliveries:
            self._note(self._came_back, int(delivery.seq), delivery.message)

    def _walk_channels(self) -> Iterator[None]:
        queue = self.queue
        if queue.unacked_count == 0:
            return
        for deliveries in self.channels():
            for delivery in deliveries:
                if delivery.queue is queue:
                    self._note(self._out, int(delivery.seq), delivery.message)
            yield

    def _note(self, found: "dict[int, Message]", seq: int, message: "Message") -> None:
        """Note a message, but no more of them than may be told."""
        if not self.wanted.from_seq <= seq < self.bound:
            return
        found[seq] = message
        if len(found) >= 2 * self.wanted.limit + SPARE:
            kept = sorted(found)[: self.wanted.limit]
            self.bound = kept[-1] + 1
            for one in [one for one in found if one >= self.bound]:
                del found[one]

    # -- the answer ------------------------------------------------------------------------------

    def _merge(self) -> None:
        every = {*self._stored, *self._memory, *self._came_back, *self._out}
        octets = 0
        for seq in sorted(every):
            if seq >= self.bound:
                break
            record = self._record(seq)
            if record is None:
                continue
            if self.records and octets + _cost(record) > self.wanted.octets:
                self.bound = seq
                break
            octets += _cost(record)
            self.records.append(record)
            if len(self.records) >= self.wanted.limit:
                self.bound = seq + 1
                break
        self.next_seq = self.bound

    def _record(self, seq: int) -> RangeRecord | None:
        found = self._stored.get(seq)
        if found is not None:
            record, level = found
            settled = level.index is not None and not level.index.is_live(seq)
            ready, again = (False, True) if settled else self._state(seq, level)
            begin = self.wanted.body_from
            body = record.body[begin : begin + self.wanted.body_max]
            size = int(record.body_size)
            at_us = int(record.at_us)
            return RangeRecord(
                seq, ready, again, at_us, record.tail, record.props, size, body, settled
            )
        again = True
        ready = seq not in self._out
        message = self._out.get(seq) or self._came_back.get(seq)
        if message is None:
            message, again = self._memory[seq]
        if any(_has(level, seq) for level in self._levels):
            # The store has it, and it was not wanted, or could not be read.
            return None
        body = _part(message, self.wanted.body_from, self.wanted.body_max)
        size = int(message.size)
        return RangeRecord(seq, ready, again, 0, message.tail, message.props, size, body)

    def _state(self, seq: int, level: LevelView) -> tuple[bool, bool]:
        """Whether a stored message is ready, and whether it was handed out before.

        What was handed out is older than everything in the blocks, so no block is looked at.
        """
        if seq in self._came_back and seq not in self._out:
            return True, True
        backlog = level.backlog
        if backlog.count == 0 or seq < backlog.first_seq():
            return False, True
        if any(first <= seq < end for first, end in self._again):
            return True, True
        return True, backlog.paging is not None and _again_out(backlog.paging, seq)

    def _find_gaps(self) -> Iterator[None]:
        """Say what is known of the ids that have no message."""
        seq = self.wanted.from_seq
        done = 0
        for end in [*(record.seq for record in self.records), self.next_seq]:
            while seq < end:
                kind, stop = self._gap(seq, end)
                self._add_gap(seq, stop, kind)
                seq = stop
                done += 1
                if len(self.gaps) >= GAPS_MAX:
                    self._cut(seq)
                    return
                if done % SLICE_GAPS == 0:
                    yield
            seq = max(seq, end + 1)

    def _cut(self, seq: int) -> None:
        self.next_seq = seq
        self.records = [record for record in self.records if record.seq < seq]

    def _add_gap(self, begin: int, end: int, kind: Gap) -> None:
        if self.gaps and self.gaps[-1][1] == begin and self.gaps[-1][2] is kind:
            self.gaps[-1] = self.gaps[-1][0], end, kind
        else:
            self.gaps.append((begin, end, kind))

    def _gap(self, seq: int, end: int) -> tuple[Gap, int]:
        """What is known of an id, and up to where the same is."""
        for first, last in self._lost:
            if first <= seq <= last:
                return Gap.UNREADABLE, min(end, last + 1)
            if seq < first < end:
                end = first
        kinds: list[int] = []
        for level in self._levels:
            if level.index is not None:
                found = missing(level.index, seq, end)
                end = int(found.end)
                kinds.append(int(found.kind))
        if not kinds or int(SETTLED) in kinds:
            # Without a store every id was given to a message.
            return Gap.SETTLED, end
        return (Gap.NOT_STORED if set(kinds) == {int(NOT_STORED)} else Gap.GONE), end


def _nobody() -> None:
    """Nobody waits."""


def _has(level: LevelView, seq: int) -> bool:
    """Whether the store has a message of a level."""
    return level.index is not None and bool(is_readable(level.index, seq))


def _expected(index: "QueueIndex", count: int) -> int:
    """About so many octets have this many records."""
    return count * (int(index.live_bytes // max(1, index.live)) + RECORD_OCTETS)


def _after(backlog: Backlog, block: Block) -> Block | None:
    """The next block; the first one if this one has left the chain since it was come to.

    A chain of blocks must never end by its first one being let go of: they are native objects
    without a header for the collector, and so deep a recursion of deallocations spoils memory.
    """
    following = block.next
    if following is None and block is not backlog.tail and backlog.count > 0:
        return backlog.head
    return following


def _again_out(paging: "Paging", seq: int) -> bool:
    """Whether a message on the disk had been handed out before the node started."""
    if seq >= paging.again_below:
        return False
    runs = paging.again_runs
    return runs is None or any(first <= seq < end for first, end in runs)


def _size_of(tail: bytes, props: bytes, size: int, wanted: Range) -> int:
    body = min(max(0, size - wanted.body_from), wanted.body_max)
    return RECORD_COST + len(tail) + len(props) + body


def _cost(record: RangeRecord) -> int:
    return RECORD_COST + len(record.tail) + len(record.props) + len(record.body)


def _part(message: "Message", begin: int, most: int) -> bytes:
    """A part of a body; what is not wanted is not joined."""
    if message.more is None:
        return message.body[begin : begin + most]
    parts: list[bytes] = []
    for chunk in message.more:
        if most <= 0:
            break
        piece = chunk[begin : begin + most]
        begin = max(0, begin - len(chunk))
        most -= len(piece)
        parts.append(piece)
    return b"".join(parts)
