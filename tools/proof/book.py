"""What the broker promised for one place, and what is found there after it was ended.

A *place* is one queue, or a few of which each message is in exactly one (a queue with a TTL and
the queue of its dead letters). Every message of a place is in one of four states: confirmed and
not acknowledged (it must be there), published and not confirmed (it may be there), acknowledged,
or transient (after a restart it must not be there). `judge` compares, says every fault, and takes
what it found as the new truth: what was unconfirmed and is not there must never come back.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from tools.proof.message import name_of, publisher_of

SHOWN: Final = 5


@dataclass(slots=True)
class Verdict:
    """Counts of one look at one place, and the faults in words."""

    present: int = 0
    unconfirmed: int = 0  # came through although nobody had been told so
    in_window: int = 0  # acknowledged shortly before the end, and back
    excused: int = 0  # faults that the broker does not promise to be free of
    faults: dict[str, int] = field(default_factory=dict)
    words: list[str] = field(default_factory=list)

    def add(self, kind: str, place: str, idents: Iterable[int]) -> None:
        found = list(idents)
        if found:
            self.faults[kind] = self.faults.get(kind, 0) + len(found)
            some = ", ".join(name_of(ident) for ident in found[:SHOWN])
            more = ", ..." if len(found) > SHOWN else ""
            self.words.append(f"{kind} {len(found)} in {place}: {some}{more}")

    def merge(self, other: "Verdict") -> None:
        self.present += other.present
        self.unconfirmed += other.unconfirmed
        self.in_window += other.in_window
        self.excused += other.excused
        for kind, count in other.faults.items():
            self.faults[kind] = self.faults.get(kind, 0) + count
        self.words += other.words

    def excuse(self, kinds: Iterable[str]) -> None:
        """Count these faults apart."""
        for kind in kinds:
            self.excused += self.faults.pop(kind, 0)
        self.words = [words for words in self.words if words.partition(" ")[0] in self.faults]


def no_priority(ident: int) -> int:
    return 0


class Book:
    """Everything known about the messages of one place."""

    def __init__(self, place: str, priority_of: Callable[[int], int] = no_priority) -> None:
        self.place = place
        self.priority_of = priority_of
        self.must: set[int] = set()
        self.may: set[int] = set()
        self.acked_at: dict[int, float] = {}
        self.transient: set[int] = set()
        self.confirmed = 0
        self.acked = 0

    def sent(self, ident: int, *, persistent: bool = True) -> None:
        (self.may if persistent else self.transient).add(ident)

    def confirm(self, ident: int) -> None:
        """The broker took it. It may have been consumed already."""
        if ident in self.may:
            self.may.discard(ident)
            self.must.add(ident)
        self.confirmed += 1

    def acknowledge(self, ident: int, at_s: float) -> None:
        self.must.discard(ident)
        self.may.discard(ident)
        self.acked_at[ident] = at_s
        self.acked += 1

    def empty(self, found: Iterable[int]) -> None:
        """All of these were taken away by the proof itself, long ago: none may come back."""
        for ident in found:
            self.must.discard(ident)
            self.acked_at[ident] = 0.0

    def judge(
        self, found: list[int], *, ended_s: float, ack_window_s: float, restarted: bool = True
    ) -> Verdict:
        """Compare with what is there, in the order of each queue; this becomes the truth."""
        verdict = Verdict(present=len(found))
        there = set(found)
        verdict.add("lost", self.place, sorted(self.must - there))
        verdict.add("doubled", self.place, (i for i, n in Counter(found).items() if n > 1))
        verdict.unconfirmed = len(there & self.may)
        came_back = there & self.acked_at.keys()
        late = {ident for ident in came_back if ended_s - self.acked_at[ident] > ack_window_s}
        verdict.in_window = len(came_back) - len(late)
        verdict.add("returned", self.place, sorted(late))
        known = self.must | self.may | self.acked_at.keys()
        if restarted:
            verdict.add("transient kept", self.place, sorted(there & self.transient))
            known |= self.transient
            self.transient.clear()
        else:
            known |= self.transient
        verdict.add("unknown", self.place, sorted(there - known))
        self.must = there - self.transient
        self.may.clear()
        self.acked_at.clear()
        return verdict

    def disorder(self, queue: str, found: list[int]) -> Verdict:
        """What is behind a later message of the same publisher and priority in one queue."""
        verdict = Verdict()
        highest: dict[tuple[int, int], int] = {}
        wrong: list[int] = []
        for ident in found:
            line = (publisher_of(ident), self.priority_of(ident))
            if ident < highest.get(line, -1):
                wrong.append(ident)
            highest[line] = max(ident, highest.get(line, -1))
        verdict.add("reordered", queue, wrong)
        return verdict
