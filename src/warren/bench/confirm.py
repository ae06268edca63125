"""Ledger of publisher confirms on one channel, compiled (RabbitMQ's publisher confirms).

Owns delivery tags 1, 2, ... of what was sent. Invariant: `low` is the lowest tag not settled,
`early` holds settled tags above it, so `settled == low - 1 + len(early)`.
Confirm latency is sampled: one mark per block sent, at the block's last tag, recorded when every
tag up to the mark is settled.
"""

from collections import deque
from typing import final

from mypy_extensions import i64

from warren.bench.histogram import Histogram


@final
class Ledger:
    """What was sent, what came back."""

    def __init__(self) -> None:
        self.sent: i64 = 0
        self.low: i64 = 1
        self.settled: i64 = 0
        self.nacked: i64 = 0
        self.duplicates: i64 = 0
        self.unsent: i64 = 0  # confirms for tags never sent
        self.early: set[int] = set()
        self.marks: deque[tuple[int, int]] = deque()
        self.latency: Histogram = Histogram()

    def outstanding(self) -> i64:
        return self.sent - self.settled

    def mark(self, sent_ns: i64) -> None:
        """Remember when the block that ends with the last sent tag went out."""
        self.marks.append((int(self.sent), int(sent_ns)))

    def settle(self, tag: i64, multiple: bool, nack: bool, now_ns: i64) -> None:
        """Enter one ack or nack frame."""
        if multiple and tag == 0:
            tag = self.sent
        if tag > self.sent:
            self.unsent += 1
            return
        count: i64 = 0
        if multiple:
            count = self.settle_up_to(tag)
        elif tag < self.low or (len(self.early) > 0 and int(tag) in self.early):
            self.duplicates += 1
        else:
            count = 1
            if tag == self.low:
                self.low += 1
            else:
                self.early.add(int(tag))
        if len(self.early) > 0:
            self.absorb()
        self.settled += count
        if nack:
            self.nacked += count
        if self.marks and self.marks[0][0] < self.low:
            self.record(now_ns)

    def settle_up_to(self, tag: i64) -> i64:
        if tag < self.low:
            return 0
        count = tag - self.low + 1
        if len(self.early) > 0:
            last: int = tag
            passed = [early for early in self.early if early <= last]
            count -= len(passed)
            self.early.difference_update(passed)
        self.low = tag + 1
        return count

    def absorb(self) -> None:
        low: int = self.low
        while low in self.early:
            self.early.remove(low)
            low += 1
        self.low = low

    def record(self, now_ns: i64) -> None:
        while self.marks and self.marks[0][0] < self.low:
            mark = self.marks.popleft()
            self.latency.add(now_ns - mark[1])
