"""Latency histogram: log-linear buckets with a resolution of 1/64, compiled.

Owns bucket arithmetic and percentiles. Values are nanoseconds, not negative. Invariant: `total` is
the sum of `counts`; a percentile never exceeds the largest value added. A histogram travels
between processes as its `counts` list and `largest`.
"""

from typing import Final, final

from mypy_extensions import i64

# 64 linear steps per power of two: an error below 1.6 %, and 3,712 buckets reach 2**63.
STEP_BITS: Final = 6
STEPS: Final = 1 << STEP_BITS
BUCKET_COUNT: Final = (64 - STEP_BITS) * STEPS


def bucket_index(value: i64) -> i64:
    """The bucket of a value: linear below 2 * STEPS, then STEPS buckets per power of two."""
    shift: i64 = 0
    while value >= 2 * STEPS:
        value >>= 1
        shift += 1
    return shift * STEPS + value


def bucket_value(index: i64) -> i64:
    """The smallest value that falls into a bucket."""
    if index < 2 * STEPS:
        return index
    shift = index // STEPS - 1
    return (index - shift * STEPS) << shift


@final
class Histogram:
    """Counts of values; merge and difference make per-second views cheap."""

    def __init__(self) -> None:
        self.counts: list[int] = [0] * BUCKET_COUNT
        self.total: i64 = 0
        self.largest: i64 = 0
        self.sum: i64 = 0

    def add(self, value: i64) -> None:
        if value < 0:
            value = 0
        index = bucket_index(value)
        self.counts[index] += 1
        self.total += 1
        self.sum += value
        if value > self.largest:
            self.largest = value

    def merge(self, counts: list[int], largest: int, total_ns: int) -> None:
        """Take over what another process has counted."""
        for index, count in enumerate(counts):
            if count:
                self.counts[index] += count
                self.total += count
        self.sum += total_ns
        self.largest = max(self.largest, largest)

    def percentile(self, part: float) -> int:
        """The value below or at which `part` (0..1) of all values lie; 0 when empty."""
        return percentile_of(self.counts, self.total, self.largest, part)


def percentile_of(counts: list[int], total: int, largest: int, part: float) -> int:
    if total == 0:
        return 0
    wanted = int(part * total)
    seen = 0
    for index, count in enumerate(counts):
        seen += count
        if seen > wanted:
            return min(int(bucket_value(index)), largest)
    return largest
