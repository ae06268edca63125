"""Timers on a node's clock: one heap, whatever has a time, no timer of the event loop for each.

A queue has at most two (the expiry of its head, its own expiry), delayed messages one for all of
them. Whoever drives the turn sleeps until `next_ns` and then lets `run` fire what is due.

Invariants: a timer is in the heap once or not at all, `index` is its place, -1 outside; no timer
is earlier than its parent.
"""

from typing import final

from mypy_extensions import i64, mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True)
class Timer:
    """Something that has a time; `fire` is called once per arming, at or after it."""

    def __init__(self) -> None:
        self.at_ns: i64 = 0
        self.index: i64 = -1

    def fire(self, now_ns: i64) -> None:
        """The time has come; the timer is not armed any more and may be armed again."""


@final
class Timers:
    def __init__(self) -> None:
        self.heap: list[Timer] = []

    def next_ns(self) -> i64:
        """The earliest time, or 0 without one."""
        return self.heap[0].at_ns if self.heap else 0

    def arm(self, timer: Timer, at_ns: i64) -> None:
        """Have the timer fire at this time, instead of the one it had."""
        index = timer.index
        if index < 0:
            timer.at_ns = at_ns
            self.heap.append(timer)
            self._up(timer, len(self.heap) - 1)
            return
        earlier = at_ns < timer.at_ns
        timer.at_ns = at_ns
        if earlier:
            self._up(timer, index)
        else:
            self._down(timer, index)

    def cancel(self, timer: Timer) -> None:
        index = timer.index
        if index < 0:
            return
        timer.index = -1
        last = self.heap.pop()
        if last is not timer:
            if index > 0 and last.at_ns < self.heap[(index - 1) >> 1].at_ns:
                self._up(last, index)
            else:
                self._down(last, index)

    def run(self, now_ns: i64, most: i64) -> bool:
        """Fire up to `most` timers that are due; True if more are."""
        heap = self.heap
        while heap and heap[0].at_ns <= now_ns:
            if most == 0:
                return True
            most -= 1
            timer = heap[0]
            self.cancel(timer)
            timer.fire(now_ns)
        return False

    def _up(self, timer: Timer, index: i64) -> None:
        heap = self.heap
        at_ns = timer.at_ns
        while index > 0:
            parent = (index - 1) >> 1
            above = heap[parent]
            if above.at_ns <= at_ns:
                break
            heap[index] = above
            above.index = index
            index = parent
        heap[index] = timer
        timer.index = index

    def _down(self, timer: Timer, index: i64) -> None:
        heap = self.heap
        size: i64 = len(heap)
        at_ns = timer.at_ns
        child = 2 * index + 1
        while child < size:
            if child + 1 < size and heap[child + 1].at_ns < heap[child].at_ns:
                child += 1
            below = heap[child]
            if below.at_ns >= at_ns:
                break
            heap[index] = below
            below.index = index
            index = child
            child = 2 * index + 1
        heap[index] = timer
        timer.index = index
