"""How far back the history of each queue goes: policies, and cursors that hold it (PL-5).

`history` is a time, `history-max-bytes` a size; what is reached first lets go of the oldest. Age is
counted from the publish. Nothing is looked at per message: at an interval `sweep` goes through the
queues that have a history, some of them a turn, and has floors rise (`store/keeping.py`).

- *By time*: a mark says which id was next at a moment. There are `MARKS` of them in the time of the
  policy, so a history is up to an eighth longer than asked for. Marks are in memory; behind a start
  segments count, which know when their first message came, and what came before the start is
  counted from the start at the latest.
- *By size*: octets of the records that are kept and not live, and of their bodies in the message
  store; estimated within a segment by how many of it are settled.
- *Cursors* are durable named positions: nothing from a position on is let go. A position counts
  from when it is stored; until a later one is stored, or the deletion, the one before holds. A
  cursor that was not moved for `cursor-max-age`, or behind which there is more than
  `cursor-max-lag-bytes`, is *lost*: it holds nothing any more, and whoever owns it is refused.

Invariant: the floor is at or below the position of every cursor that is not lost.

Transient messages are in no history, nor those that expire at once in front of an empty queue.
"""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.queues.turn import Chore
from warren.store import keeping
from warren.store.index import FOREVER, SEGMENT_SHIFT

if TYPE_CHECKING:
    from warren.queues.queue import Queue
    from warren.queues.storage import Storage
    from warren.store.index import QueueIndex

MARKS: Final = 8
# Queues that are looked at in one turn.
SLICE: Final = 128
# What a cursor may do unless a policy says otherwise.
CURSOR_AGE_MS: Final = 7 * 24 * 3600 * 1000
CURSOR_LAG_BYTES: Final = 16 << 30
# Why a cursor holds nothing any more.
BY_AGE: Final = "age"
BY_LAG: Final = "lag"
BEHIND: Final = "behind"


@final
class Cursor:
    """A position; `epoch` is the fencing token of who may move it."""

    def __init__(self, name: str, seq: int, epoch: int, at_ms: int) -> None:
        self.name = name
        self.seq = seq
        self.epoch = epoch
        # When it was moved last, wall clock.
        self.at_ms = at_ms
        self.lost = ""


@final
class Held:
    """A queue that has a history, or had one that is not gone."""

    def __init__(self, queue: "Queue") -> None:
        self.queue = queue
        # Which id was next, and when, in microseconds; oldest first.
        self.marks: list[tuple[int, int]] = []
        # What is older is let go by the rules, whatever cursors hold.
        self.floor = 0
        self.cursors: dict[str, Cursor] = {}
        # Positions that were left, and the ticket of the metadata that says so.
        self.left: list[tuple[int, int]] = []


@final
class SweepChore(Chore):
    def __init__(self, retention: "Retention", every: list[Held]) -> None:
        self.retention = retention
        self.every = every

    def step(self) -> bool:
        some = self.every[-SLICE:]
        del self.every[-SLICE:]
        for held in some:
            self.retention.look(held)
        if not self.every:
            self.retention.sweeping = False
        return not self.every


@final
class Retention:
    def __init__(self, storage: "Storage") -> None:
        self.storage = storage
        # By incarnation.
        self.queues: dict[int, Held] = {}
        self.sweeping = False
        # Those with positions that were left.
        self.leaving: list[Held] = []
        # Cursors that were lost since the start.
        self.lost_count = 0

    # -- queues ----------------------------------------------------------------------------------

    def apply(self, queue: "Queue", *, starting: bool = False) -> None:
        """The rules of a queue, its levels or its cursors are others now.

        While the node starts nothing ends: its cursors come later than the queue.
        """
        indexes = indexes_of(queue)
        held = self.queues.get(int(queue.incarnation))
        wanted = queue.rules.has_history() or (held is not None and bool(held.cursors))
        queue.keeping = wanted
        if not wanted and held is None and not any(_keeps(index) for index in indexes):
            return
        if held is None:
            held = Held(queue)
            self.queues[int(queue.incarnation)] = held
        for index in indexes:
            if wanted and not _keeps(index):
                keeping.begin(index, queue.next_seq)
            elif not wanted and not starting and _keeps(index):
                keeping.end(index)
                self.storage.persistence.lift(index, index.kept_to)
        if wanted and not held.marks:
            held.marks = [(int(queue.next_seq), self._now_us())]

    def join(self, queue: "Queue", index: "QueueIndex") -> None:
        """A level of a queue is about to have its first message: the one with the last id."""
        if queue.keeping and not _keeps(index):
            keeping.begin(index, queue.next_seq - 1)

    def forget(self, queue: "Queue") -> None:
        """The queue is gone, and its cursors with it."""
        self.queues.pop(int(queue.incarnation), None)

    # -- cursors ---------------------------------------------------------------------------------

    def cursors(self, queue: "Queue") -> dict[str, Cursor]:
        held = self.queues.get(int(queue.incarnation))
        return {} if held is None else held.cursors

    def put_cursor(self, queue: "Queue", cursor: Cursor, ticket: int) -> bool:
        """Make or move a cursor; False if one with a newer token is there."""
        held = self.queues.get(int(queue.incarnation))
        if held is None:
            held = Held(queue)
            self.queues[int(queue.incarnation)] = held
        before = held.cursors.get(cursor.name)
        if before is not None:
            if before.epoch > cursor.epoch:
                return False
            self._leave(held, ticket, before)
        held.cursors[cursor.name] = cursor
        self.apply(queue)
        return True

    def delete_cursor(self, queue: "Queue", name: str, ticket: int) -> bool:
        held = self.queues.get(int(queue.incarnation))
        gone = None if held is None else held.cursors.pop(name, None)
        if held is None or gone is None:
            return False
        # If nobody else wants the history, it ends when this is stored (`look`).
        self._leave(held, ticket, gone)
        return True

    def on_metadata(self, ticket: int) -> None:
        """The metadata is stored up to this ticket."""
        leaving = self.leaving
        if not leaving:
            return
        self.leaving = []
        for held in leaving:
            held.left = [one for one in held.left if one[0] > ticket]
            if held.left:
                self.leaving.append(held)

    def _leave(self, held: Held, ticket: int, cursor: Cursor) -> None:
        """Until it is stored that a cursor is somewhere else, it holds what it held."""
        if not cursor.lost:
            if not held.left:
                self.leaving.append(held)
            held.left.append((ticket, cursor.seq))

    # -- sweeping --------------------------------------------------------------------------------

    def sweep(self) -> None:
        """Look at every queue with a history, in slices."""
        if self.queues and not self.sweeping:
            self.sweeping = True
            self.storage.turn.chores.append(SweepChore(self, list(self.queues.values())))

    def look(self, held: Held) -> None:
        """Have the floors of one queue rise as far as its rules and cursors allow."""
        queue = held.queue
        if self.queues.get(int(queue.incarnation)) is not held or queue.index is None:
            return
        if not held.left:
            self.apply(queue)
        indexes = indexes_of(queue)
        if not queue.keeping:
            for index in indexes:
                self.storage.persistence.lift(index, index.kept_to)
            if not any(_keeps(index) for index in indexes):
                del self.queues[int(queue.incarnation)]
            return
        floor = self._floor_of(held, indexes)
        for cursor in held.cursors.values():
            self._check(held, cursor, indexes)
            if not cursor.lost:
                floor = min(floor, cursor.seq)
        for _, seq in held.left:
            floor = min(floor, seq)
        for index in indexes:
            self.storage.persistence.lift(index, i64(floor))

    def _now_us(self) -> int:
        storage = self.storage
        return int((storage.turn.now_ns + storage.epoch_ns) // 1000)

    def _floor_of(self, held: Held, indexes: "list[QueueIndex]") -> int:
        """What the rules of the queue alone let go."""
        rules = held.queue.rules
        if not rules.has_history():
            return int(held.queue.next_seq)
        if rules.history_ms >= 0:
            floor = self._by_time(held, indexes, int(rules.history_ms) * 1000)
            held.floor = max(held.floor, floor)
        if rules.history_bytes >= 0:
            held.floor = max(held.floor, by_size(indexes, int(rules.history_bytes)))
        return held.floor

    def _by_time(self, held: Held, indexes: "list[QueueIndex]", most_us: int) -> int:
        now_us = self._now_us()
        seq = int(held.queue.next_seq)
        marks = held.marks
        if not marks or (marks[-1][0] != seq and now_us - marks[-1][1] >= most_us // MARKS):
            marks.append((seq, now_us))
        floor = 0
        while marks and marks[0][1] <= now_us - most_us:
            floor = marks.pop(0)[0]
        for index in indexes:
            for segment in index.segments.values():
                if 0 < segment.at_us <= now_us - most_us:
                    floor = max(floor, int(segment.number) << SEGMENT_SHIFT)
        return floor

    def _check(self, held: Held, cursor: Cursor, indexes: "list[QueueIndex]") -> None:
        """Have a cursor that is forgotten hold nothing any more."""
        if cursor.lost:
            return
        rules = held.queue.rules
        age_ms = CURSOR_AGE_MS if rules.cursor_age_ms < 0 else int(rules.cursor_age_ms)
        most = CURSOR_LAG_BYTES if rules.cursor_lag_bytes < 0 else int(rules.cursor_lag_bytes)
        if cursor.seq < (held_from(held.queue) or 0):
            cursor.lost = BEHIND
        elif self._now_us() // 1000 - cursor.at_ms > age_ms:
            cursor.lost = BY_AGE
        elif lag_of(indexes, cursor.seq) > most:
            cursor.lost = BY_LAG
        if cursor.lost:
            self.lost_count += 1
            queue = held.queue
            fields = {
                "cursor": cursor.name,
                "queue": queue.name,
                "vhost": queue.vhost,
                "seq": cursor.seq,
                "reason": cursor.lost,
            }
            self.storage.log.event("warning", "cursor.lost", fields)


def indexes_of(queue: "Queue") -> "list[QueueIndex]":
    """What the store has of each level of a queue."""
    if queue.ruled is None:
        return [] if queue.index is None else [queue.index]
    levels = queue.ruled.levels
    return [level.index for level in levels if level is not None and level.index is not None]


def held_from(queue: "Queue") -> int | None:
    """The first id that is kept when it is settled; None without a history."""
    return min((int(index.kept_from) for index in indexes_of(queue) if _keeps(index)), default=None)


def by_size(indexes: "list[QueueIndex]", most: int) -> int:
    """Where the floor has to be so that about so many octets are kept."""
    every = [
        (int(segment.number), int(keeping.octets_of(index, segment)), index, segment)
        for index in indexes
        for segment in index.segments.values()
    ]
    excess = sum(one[1] for one in every) - most
    floor = 0
    for _, octets, index, segment in sorted(every, key=lambda one: one[0]):
        if excess <= 0:
            break
        if octets > 0:
            floor = max(floor, int(keeping.behind(index, segment, excess)))
            excess -= octets
    return floor


def lag_of(indexes: "list[QueueIndex]", seq: int) -> int:
    """About so many octets are behind a position."""
    lag = 0
    for index in indexes:
        for segment in index.segments.values():
            first = max(int(index.kept_from), int(segment.number) << SEGMENT_SHIFT)
            end = int(segment.end)
            if first < end and end > seq:
                lag += int(segment.octets) * (end - max(first, seq)) // (end - first)
    return lag


def _keeps(index: "QueueIndex") -> bool:
    return bool(index.kept_from < index.kept_to <= FOREVER)
