"""How far back histories go, without a disk: marks, sizes, and what cursors hold."""

from typing import Any, final

import pytest

from warren.queues.queue import Queue
from warren.queues.retention import MARKS, Cursor, Retention, held_from
from warren.queues.rules import QueueRules
from warren.queues.turn import Turn
from warren.store import keeping
from warren.store.index import SEGMENT_ENTRIES, QueueIndex
from warren.store.journal import Journal

MS = 1_000_000


@final
class Layer:
    """Floors rise at once."""

    def lift(self, index: QueueIndex, floor: int) -> None:
        if index.kept_from < min(floor, index.kept_to):
            keeping.pass_floor(index, min(floor, index.kept_to), 0)


@final
class Rig:
    """What retention needs of `Storage`."""

    def __init__(self, rules: QueueRules) -> None:
        self.turn = Turn()
        self.epoch_ns = 0
        self.persistence = Layer()
        self.log = self
        self.events: list[dict[str, Any]] = []
        self.retention = Retention(self)  # type: ignore[arg-type]
        self.journal = Journal(1, 1)
        self.queue = Queue(
            "q", "/", self.turn, durable=True, auto_delete=False, owner=0, arguments={}, rules=rules
        )
        self.queue.incarnation = 7
        self.index = QueueIndex(7 << 8, self.journal)
        self.queue.index = self.index
        self.retention.apply(self.queue)

    def event(self, level: str, name: str, fields: dict[str, Any]) -> None:
        self.events.append({"event": name, **fields})

    def publish(self, count: int, *, settle: bool = True, size: int = 100) -> None:
        for _ in range(count):
            seq = self.queue.next_seq
            self.queue.next_seq = seq + 1
            self.journal.at_us = self.turn.now_ns // 1000
            self.index.enter(seq, self.journal.position(), size, 10)
            if settle:
                self.index.finish(seq, 10, 0)

    def sweep(self, after_ms: int = 0) -> int | None:
        self.turn.now_ns += after_ms * MS
        self.retention.sweep()
        while self.turn.chores:
            self.turn.run()
        return held_from(self.queue)

    def put(self, name: str, seq: int, epoch: int = 1, ticket: int = 0) -> bool:
        cursor = Cursor(name, seq, epoch, int(self.turn.now_ns) // MS)
        return self.retention.put_cursor(self.queue, cursor, ticket)


def test_without_rules_and_cursors_nothing_is_kept() -> None:
    rig = Rig(QueueRules())
    rig.publish(10)
    assert rig.sweep(1000) is None
    assert not rig.queue.keeping
    assert rig.retention.queues == {}


def test_time_lets_go_by_marks() -> None:
    rig = Rig(QueueRules(history_ms=8000))
    for _ in range(30):
        rig.publish(10)
        found = rig.sweep(1000)
        assert found is not None
        published = int(rig.queue.next_seq)
        # Nothing is let go too soon, and nothing much too late.
        assert found <= max(0, published - 80)
        assert found >= published - 10 * (8 + 8 // MARKS + 2)
    assert rig.sweep(9000) == 300


def test_behind_a_start_segments_say_how_old_they_are() -> None:
    rig = Rig(QueueRules(history_ms=8000))
    rig.turn.now_ns = MS
    rig.publish(SEGMENT_ENTRIES)
    rig.turn.now_ns += 5000 * MS
    rig.publish(10)
    rig.retention.queues[7].marks = [(int(rig.queue.next_seq), int(rig.turn.now_ns) // 1000)]
    assert rig.sweep(4000) == 0
    assert rig.sweep(3999) == 0
    assert rig.sweep(10) == SEGMENT_ENTRIES + 10


def test_size_lets_go_of_the_oldest() -> None:
    rig = Rig(QueueRules(history_bytes=2000))
    rig.publish(50)
    rig.publish(10, settle=False)
    assert rig.sweep() == 30
    rig.publish(SEGMENT_ENTRIES)
    floor = rig.sweep()
    assert floor is not None
    assert abs(floor - (SEGMENT_ENTRIES + 60 - 20)) <= 2


def test_both_limits_count() -> None:
    rig = Rig(QueueRules(history_ms=1000, history_bytes=10**9))
    rig.publish(10)
    assert rig.sweep(500) == 0
    rig.sweep(2000)
    assert rig.sweep(2000) == 10


@pytest.mark.rule("PL-5")
def test_a_cursor_holds_what_rules_let_go() -> None:
    rig = Rig(QueueRules(history_ms=1000))
    rig.publish(10)
    assert rig.put("c", 4)
    rig.sweep(5000)
    assert rig.sweep(5000) == 4
    assert not rig.put("c", 6, epoch=0)
    # It counts when it is stored.
    assert rig.put("c", 6, ticket=9)
    assert rig.sweep() == 4
    rig.retention.on_metadata(8)
    assert rig.sweep() == 4
    rig.retention.on_metadata(9)
    assert rig.sweep() == 6
    assert rig.retention.delete_cursor(rig.queue, "c", 12)
    assert rig.sweep() == 6
    rig.retention.on_metadata(12)
    assert rig.sweep() == 10


@pytest.mark.rule("PL-5")
def test_a_history_of_cursors_ends_with_them() -> None:
    rig = Rig(QueueRules())
    rig.publish(3, settle=False)
    assert rig.put("c", 0)
    rig.publish(5)
    assert rig.sweep() == 0
    assert rig.retention.delete_cursor(rig.queue, "c", 3)
    assert rig.sweep() == 0
    rig.retention.on_metadata(3)
    assert rig.sweep() is None
    assert not rig.queue.keeping
    rig.sweep()
    assert rig.retention.queues == {}


@pytest.mark.rule("PL-5")
def test_forgotten_cursors_are_lost_once() -> None:
    rig = Rig(QueueRules(cursor_age_ms=1000, cursor_lag_bytes=2000))
    rig.publish(5)
    rig.put("old", 5)
    rig.publish(30)
    rig.put("far", 10)
    rig.sweep()
    assert [(one["cursor"], one["reason"]) for one in rig.events] == [
        ("old", "lag"), ("far", "lag")
    ]  # fmt: skip
    rig.put("young", 35)
    assert rig.sweep(500) == 35
    rig.sweep(1000)
    rig.sweep(1000)
    assert [(one["cursor"], one["reason"]) for one in rig.events[2:]] == [("young", "age")]
    assert rig.retention.lost_count == 3
