"""What is due when: millions of records with a time, ordered only as far as it is near.

A record is octets that begin with its time in milliseconds and its sequence id, eight octets each,
so records compare as what they are due by, first come first served. What is due soon, before
`bounds[0]`, is a heap, `near`. All else is in buckets: those of level 0 are 128 ms wide, of each
level above 64 times as much, up to years. A bucket is a chain of blocks in the order of arrival
and is not looked into until its time approaches; then its records move one level down, so that a
record moves at most `LEVELS` times, and nothing is ever sorted at once.

Moving is done ahead of time and in slices (`advance`): a bucket is opened a quarter of its width
before it begins, one of level 0 a whole width before. `bounds[level]` is where the first bucket
begins that is not opened yet, and it counts as opened when its last record has moved; so whatever
comes for a bucket that is being opened is appended to it, and order of arrival stays.

Invariants: `bounds` ascends. A record due at `t` is in `near` if `t < bounds[0]`, else in the
bucket of the highest level whose bound it reaches. Records of a bucket ascend by sequence id. None
is taken before all that are due earlier are in `near`.
"""

from heapq import heappop, heappush
from typing import Final, final

from librt.strings import read_i64_be
from mypy_extensions import i64

BLOCK_RECORDS: Final = 256
LEVELS: Final = 6
# The width of a bucket of level 0, and how many of those one of the next level has, as shifts.
NARROW: Final[i64] = 7
STEP: Final[i64] = 6


def due_of(record: bytes) -> i64:
    return read_i64_be(record, 0)


def seq_of(record: bytes) -> i64:
    return read_i64_be(record, 8)


def between(block: list[bytes], after: bytes, before: bytes) -> list[bytes]:
    """Return the records of a block between two others, or what begins like them."""
    found: list[bytes] = []
    for record in block:
        if after < record < before:
            found.append(record)  # noqa: PERF401 - a plain loop compiles better
    return found


@final
class Bucket:
    """Records of one span of time, in the order of their sequence ids."""

    def __init__(self) -> None:
        self.blocks: list[list[bytes]] = []
        # Where what is left begins, while the bucket is being opened.
        self.block: i64 = 0
        self.index: i64 = 0

    def append(self, record: bytes) -> None:
        blocks = self.blocks
        if not blocks or len(blocks[-1]) >= BLOCK_RECORDS or self.block == len(blocks):
            blocks.append([record])
        else:
            blocks[-1].append(record)

    def shift(self) -> bytes | None:
        """Take the first record that is left."""
        while self.block < len(self.blocks):
            block = self.blocks[self.block]
            if self.index < len(block):
                record = block[self.index]
                self.index += 1
                return record
            # Emptied here, so that what has moved is freed with its block.
            self.blocks[self.block] = []
            self.block += 1
            self.index = 0
        return None

    def remove(self, due: i64, seq: i64) -> bytes | None:
        """Take out the record with this time and sequence id."""
        low = self.block
        high: i64 = len(self.blocks)
        while low < high:
            middle = (low + high) >> 1
            block = self.blocks[middle]
            if not block or seq_of(block[len(block) - 1]) < seq:
                low = middle + 1
            else:
                high = middle
        if low == len(self.blocks):
            return None
        block = self.blocks[low]
        first: i64 = self.index if low == self.block else 0
        after: i64 = len(block)
        while first < after:
            middle = (first + after) >> 1
            if seq_of(block[middle]) < seq:
                first = middle + 1
            else:
                after = middle
        if first == len(block):
            return None
        record = block[first]
        if seq_of(record) != seq or due_of(record) != due:
            return None
        del block[first]
        if not block:
            del self.blocks[low]
        return record


@final
class Calendar:
    def __init__(self, now_ms: i64) -> None:
        self.near: list[bytes] = []
        self.levels: list[dict[int, Bucket]] = [{} for _ in range(LEVELS)]
        # Everything about now is open, so that what is due soon goes straight to `near`.
        self.bounds: list[int] = [
            int(((now_ms >> _shift(level)) + 1) << _shift(level)) for level in range(LEVELS)
        ]
        # Records that came for a bucket that is being opened, since the last `advance`: more than
        # these move, so that it comes to an end.
        self.added: i64 = 0

    def add(self, record: bytes) -> i64:
        """Take a record; return when `advance` or `take` will have to do with it at the latest."""
        due = due_of(record)
        level = self._level_of(due)
        if level < 0:
            heappush(self.near, record)
            return due
        shift = _shift(level)
        index = due >> shift
        buckets = self.levels[level]
        bucket = buckets.get(int(index))
        if bucket is None:
            bucket = Bucket()
            buckets[int(index)] = bucket
        elif bucket.block > 0 or bucket.index > 0:
            self.added += 1
        bucket.append(record)
        return (index << shift) - _lead(level)

    def remove(self, due: i64, seq: i64) -> bytes | None:
        """Take a record out; what is in `near` already is not found."""
        level = self._level_of(due)
        # While a bucket is being opened, part of it is one level below.
        while level >= 0:
            index = int(due >> _shift(level))
            bucket = self.levels[level].get(index)
            if bucket is not None:
                record = bucket.remove(due, seq)
                if not bucket.blocks:
                    del self.levels[level][index]
                if record is not None:
                    return record
            level -= 1
        return None

    def advance(self, now_ms: i64, most: i64) -> i64:
        """Move up to `most` records that are near one level down; return how many moved.

        What is nearest goes first: a large bucket that is opened ahead of time holds up nothing.
        """
        left = max(most, 2 * self.added)
        self.added = 0
        done: i64 = 0
        level: i64 = 0
        while level < LEVELS and done < left:
            done += self._advance_level(level, now_ms, left - done)
            level += 1
        return done

    def _advance_level(self, level: i64, now_ms: i64, most: i64) -> i64:
        shift = _shift(level)
        goal = ((now_ms + _lead(level)) >> shift) + 1
        if level < LEVELS - 1:
            goal = min(goal, i64(self.bounds[level + 1]) >> shift)
        done: i64 = 0
        while i64(self.bounds[level]) >> shift < goal:
            index = self._first(level)
            if index < 0 or index >= goal:
                self.bounds[level] = int(goal << shift)
                break
            self.bounds[level] = int(index << shift)
            done += self._open(level, index, most - done)
            if int(index) in self.levels[level]:
                break
            self.bounds[level] = int((index + 1) << shift)
        return done

    def first(self, now_ms: i64) -> bytes | None:
        """Return the first record, if it is due."""
        near = self.near
        if not near:
            return None
        due = due_of(near[0])
        return None if due > now_ms or due >= i64(self.bounds[0]) else near[0]

    def take(self) -> bytes:
        """Take the record that `first` has returned."""
        return heappop(self.near)

    def next_ms(self) -> i64:
        """Return when there is something to do, -1 if never."""
        found: i64 = due_of(self.near[0]) if self.near else -1
        level: i64 = 0
        while level < LEVELS:
            index = self._first(level)
            if index >= 0:
                begin = (index << _shift(level)) - _lead(level)
                if found < 0 or begin < found:
                    found = begin
            level += 1
        return found

    def sources(self) -> list[tuple[int, list[list[bytes]]]]:
        """Return what is held as it is now: not earlier than when, and blocks, by that time."""
        found: list[tuple[int, list[list[bytes]]]] = []
        if self.near:
            found.append((0, [list(self.near)]))
        level: i64 = 0
        while level < LEVELS:
            shift = _shift(level)
            for index, bucket in self.levels[level].items():
                blocks = bucket.blocks[bucket.block :]
                if blocks and bucket.index > 0:
                    blocks[0] = blocks[0][bucket.index :]
                found.append((int(i64(index) << shift), blocks))
            level += 1
        found.sort(key=_begin)
        return found

    def blocks(self) -> list[list[bytes]]:
        """Return all that is held, for whoever frees it in slices; the calendar is done with."""
        found = [self.near]
        self.near = []
        for buckets in self.levels:
            for bucket in buckets.values():
                found.extend(bucket.blocks)
            buckets.clear()
        return found

    def _level_of(self, due: i64) -> i64:
        level: i64 = 0
        while level < LEVELS and due >= i64(self.bounds[level]):
            level += 1
        return level - 1

    def _first(self, level: i64) -> i64:
        """The first bucket of a level, -1 without one; there are about a hundred at most."""
        buckets = self.levels[level]
        return i64(min(buckets)) if buckets else -1

    def _open(self, level: i64, index: i64, most: i64) -> i64:
        """Move up to `most` records of a bucket one level down; it is gone when none is left."""
        bucket = self.levels[level][int(index)]
        shift = _shift(level - 1)
        below = self.levels[level - 1] if level > 0 else None
        moved: i64 = 0
        while moved < most:
            record = bucket.shift()
            if record is None:
                del self.levels[level][int(index)]
                break
            moved += 1
            if below is None:
                heappush(self.near, record)
                continue
            part = int(due_of(record) >> shift)
            into = below.get(part)
            if into is None:
                into = Bucket()
                below[part] = into
            into.append(record)
        return moved


def _begin(source: tuple[int, list[list[bytes]]]) -> int:
    return source[0]


def _shift(level: i64) -> i64:
    return NARROW + STEP * level


def _lead(level: i64) -> i64:
    """How long before it begins a bucket is opened."""
    # In two steps: mypyc shifts a literal in 32 bits.
    width: i64 = 1
    width <<= _shift(level)
    return width if level == 0 else width >> 2
