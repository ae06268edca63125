"""Sequence verification: what was lost, doubled or out of order, compiled.

A body begins with magic u16, producer u16, sequence u64 (big endian), so 12 octets are the least a
verified body can have. A `Track` judges one producer's messages in one queue, whichever consumer
saw them; a `Cursor` is one consumer's view of that track and judges order.

Invariant: every sequence number a queue should hold is below `expect`, in `ahead` (arrived early),
or not yet seen; those below `expect` have arrived or are in `missing`.
With variable routing keys a queue holds every `step`-th number from `start` on.
"""

from typing import Final, final

from mypy_extensions import i64

MAGIC: Final = 0x5150
HEAD_OCTETS: Final = 12
STAMPED_HEAD_OCTETS: Final = 20

# A hole is given up when this many later messages have arrived: bounds memory when messages are
# really lost. Ten prefetch windows of 1000 from a hundred consumers stay far below it.
AHEAD_MAX: Final = 1 << 20
# How many given-up numbers are remembered, to tell a late arrival from a duplicate.
MISSING_MAX: Final = 1 << 20


@final
class Track:
    """One producer's messages in one queue."""

    def __init__(self, start: i64, step: i64, ahead_max: i64 = AHEAD_MAX) -> None:
        self.ahead_max: i64 = ahead_max
        self.start: i64 = start
        self.step: i64 = step
        self.expect: i64 = start
        self.holes: i64 = 0  # 1 while anything is in `ahead`: keeps the fast path to two compares
        self.ahead: set[int] = set()
        self.missing: set[int] = set()
        self.skipped: i64 = 0

    def unique(self) -> int:
        """How many different messages have arrived."""
        return (self.expect - self.start) // self.step + len(self.ahead) - self.skipped

    def reach(self) -> int:
        """How many messages there are up to the highest one seen."""
        top = max(self.ahead) + self.step if self.ahead else self.expect
        return int((top - self.start) // self.step)

    def is_duplicate(self, sequence: i64) -> bool:
        """Enter a number that is not the expected one; True when it was here before."""
        number: int = sequence
        if sequence < self.expect:
            if number in self.missing:
                self.missing.remove(number)
                self.skipped -= 1
                return False
            return True
        if number in self.ahead:
            return True
        self.ahead.add(number)
        self.absorb()
        if len(self.ahead) > self.ahead_max:
            self.give_up_holes()
        self.holes = 1 if self.ahead else 0
        return False

    def absorb(self) -> None:
        expect: int = self.expect
        step: int = self.step
        while expect in self.ahead:
            self.ahead.remove(expect)
            expect += step
        self.expect = expect

    def give_up_holes(self) -> None:
        """Skip the oldest holes until half of the early arrivals are absorbed."""
        for number in sorted(self.ahead)[: self.ahead_max // 2]:
            expect: int = self.expect
            if number < expect:
                continue
            gap = (number - expect) // int(self.step)
            if len(self.missing) + gap <= MISSING_MAX:
                self.missing.update(range(expect, number, int(self.step)))
            self.skipped += gap
            self.expect = number
            self.absorb()


@final
class Cursor:
    """One consumer's view of a track."""

    def __init__(self, track: Track) -> None:
        self.track: Track = track
        self.high: i64 = 0  # highest number this consumer saw, plus one


@final
class Verdict:
    """Totals of one consumer process."""

    def __init__(self) -> None:
        self.duplicated: i64 = 0
        self.reordered: i64 = 0
        self.bad: i64 = 0
        self.redelivered: i64 = 0


def check_slow(verdict: Verdict, cursor: Cursor, sequence: i64) -> None:
    """Judge a message that is not simply the next one of its track."""
    track = cursor.track
    if sequence < track.start or (sequence - track.start) % track.step != 0:
        verdict.bad += 1  # a message of another queue's key: misrouted
        return
    if track.is_duplicate(sequence):
        verdict.duplicated += 1
    elif sequence < cursor.high:
        verdict.reordered += 1
    if sequence >= cursor.high:
        cursor.high = sequence + 1
