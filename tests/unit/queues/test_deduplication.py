"""Duplicates in front of a queue: keys, windows, bounds, slices."""

from typing import Any

import pytest

from tests.unit.queues.rig import Rig
from warren.protocol.properties import Properties, scan
from warren.protocol.value import Field, Table, field
from warren.queues import REFUSED, TAKEN, Message, Queue, QueueKeeper, QueueRules, Turn
from warren.queues.deduplication import FORGOTTEN, MS, P_DIED
from warren.queues.rules import REJECT_PUBLISH

WINDOW_MS = 1600
PART_MS = 100


class Keeper(QueueKeeper):
    def __init__(self) -> None:
        self.full = 0

    def keys_full(self, queue: Queue) -> None:
        self.full += 1


def rules(**options: Any) -> QueueRules:
    options.setdefault("deduplicate_by", "message-id")
    options.setdefault("deduplicate_window_ms", WINDOW_MS)
    return QueueRules(**options)


def message(
    message_id: str | None = None, headers: Table | None = None, traits: int = 0
) -> Message:
    props = Properties(message_id=message_id, headers=headers).encode()
    return Message(b"\0\1q", props, b"m", None, 1, int(scan(props, 0, len(props))) | traits)


@pytest.fixture
def rig() -> Rig:
    rig = Rig()
    rig.turn.now_ns = 10**15
    return rig


def queue_of(rig: Rig, made: QueueRules | None = None, keeper: QueueKeeper | None = None) -> Queue:
    return Queue(
        "q",
        "/",
        rig.turn,
        durable=False,
        auto_delete=False,
        owner=0,
        arguments={},
        rules=made or rules(),
        keeper=keeper,
    )


def send(queue: Queue, message_id: str | None) -> bool:
    """Publish; tell whether it was enqueued."""
    before = queue.ready()
    assert queue.publish(message(message_id), None, 0) == TAKEN
    return bool(queue.ready() > before)


def keys_in(queue: Queue) -> int:
    assert queue.deduplication is not None
    return int(queue.deduplication.count)


def finish(turn: Turn) -> int:
    count = 1
    while turn.run():
        count += 1
        assert count < 10_000
    return count


def test_the_second_is_counted_and_goes_no_further(rig: Rig) -> None:
    queue = queue_of(rig)
    assert [send(queue, one) for one in "abaacb"] == [True, True, False, False, True, False]
    assert (queue.ready(), queue.deduplicated_count, keys_in(queue)) == (3, 3, 3)


def test_what_has_no_key_is_no_duplicate(rig: Rig) -> None:
    queue = queue_of(rig)
    for one in (None, None, "", ""):
        assert send(queue, one)
    assert keys_in(queue) == 0


def test_a_queue_without_the_rule_has_no_gate_for_it(rig: Rig) -> None:
    queue = queue_of(rig, QueueRules())
    assert queue.gate == 0
    assert queue.deduplication is None
    assert send(queue, "a")
    assert send(queue, "a")


def void() -> Field:
    return Field(ord("V"), None)


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (field("a"), field("a"), True),
        (field("a"), field("b"), False),
        (field("1"), field(1), False),
        (field(1), field(1), True),
        (field(True), field(False), False),
        (field({"x": [1, "y"]}), field({"x": [1, "y"]}), True),
        (field({"x": [1, "y"]}), field({"x": [1, "z"]}), False),
        (field(""), field(""), False),
        (void(), void(), False),
    ],
)
def test_a_header_is_a_key_with_its_type(rig: Rig, first: Field, second: Field, same: bool) -> None:
    queue = queue_of(rig, rules(deduplicate_by="header:k"))
    for number, value in enumerate((first, second)):
        headers = {"a": field(number), "k": value, "z": field(number)}
        queue.publish(message("same", headers), None, 0)
    assert queue.ready() == (1 if same else 2)
    queue.publish(message("same", {"other": first}), None, 0)
    queue.publish(message("same"), None, 0)
    assert queue.ready() == (3 if same else 4)


def test_a_key_is_remembered_for_the_window_and_a_part_at_most(rig: Rig) -> None:
    queue = queue_of(rig)
    send(queue, "a")
    start = rig.turn.now_ns
    rig.turn.now_ns = start + WINDOW_MS * MS
    finish(rig.turn)
    assert not send(queue, "a")
    rig.turn.now_ns = start + (WINDOW_MS + PART_MS) * MS
    # Before the timer had its turn, too.
    assert send(queue, "a")
    assert not send(queue, "a")
    # A duplicate does not make the window longer.
    rig.turn.now_ns += (WINDOW_MS - 1) * MS
    assert not send(queue, "a")
    rig.turn.now_ns += (PART_MS + 1) * MS
    finish(rig.turn)
    assert keys_in(queue) == 0
    assert not rig.turn.timers.heap


def test_windows_of_many_keys(rig: Rig) -> None:
    queue = queue_of(rig)
    sent: list[tuple[int, str]] = []
    for number in range(4000):
        rig.turn.now_ns += MS
        key = f"k{number * 7919 % 3000}"
        now = int(rig.turn.now_ns)
        ages = [now - at for at, other in sent if other == key]
        fresh = send(queue, key)
        if ages and min(ages) < WINDOW_MS * MS:
            assert not fresh
        elif not ages or min(ages) >= (WINDOW_MS + PART_MS) * MS:
            assert fresh
        if fresh:
            sent.append((now, key))
        assert len(queue.deduplication.buckets) <= 18  # type: ignore[union-attr]
        if number % 50 == 0:
            finish(rig.turn)
    young = [at for at, _ in sent if rig.turn.now_ns - at < WINDOW_MS * MS]
    assert len(young) <= keys_in(queue) <= len(young) + PART_MS


def test_the_oldest_go_when_there_are_too_many(rig: Rig) -> None:
    keeper = Keeper()
    queue = queue_of(rig, rules(deduplicate_keys_max=160), keeper)
    for number in range(1000):
        send(queue, f"{number}")
        assert keys_in(queue) <= 160
    keys = queue.deduplication
    assert keys is not None
    assert keys.count + keys.forgotten == 1000
    assert keys.count >= 150
    assert keeper.full == 1
    assert not send(queue, "999")
    assert not send(queue, "860")
    assert send(queue, "0")


def test_one_key_is_enough_to_tell_the_next(rig: Rig) -> None:
    queue = queue_of(rig, rules(deduplicate_keys_max=1))
    assert [send(queue, one) for one in "aabba"] == [True, False, True, False, True]


def test_keys_are_freed_in_slices(rig: Rig) -> None:
    queue = queue_of(rig)
    for number in range(3 * FORGOTTEN):
        send(queue, f"{number}")
    queue.purge()
    finish(rig.turn)
    rig.turn.now_ns += 2 * WINDOW_MS * MS
    assert finish(rig.turn) >= 3
    assert keys_in(queue) == 0
    assert send(queue, "0")


def test_what_was_refused_was_not_seen(rig: Rig) -> None:
    queue = queue_of(rig, rules(max_length=1, overflow=REJECT_PUBLISH))
    assert send(queue, "a")
    assert queue.publish(message("b"), None, 0) == REFUSED
    # A duplicate is no publish that a full queue would refuse.
    assert queue.publish(message("a"), None, 0) == TAKEN
    queue.get()
    assert send(queue, "b")


def test_what_became_of_the_first_does_not_matter(rig: Rig) -> None:
    queue = queue_of(rig, rules(message_ttl_ms=0))
    queue.publish(message("a"), None, 0)
    assert queue.expired_count == 1
    queue.publish(message("a"), None, 0)
    assert (queue.expired_count, queue.deduplicated_count) == (1, 1)
    queue.purge()
    queue.publish(message("a"), None, 0)
    assert queue.deduplicated_count == 2


def test_rules_that_come_change_and_go(rig: Rig) -> None:
    queue = queue_of(rig, QueueRules())
    assert send(queue, "a")
    queue.set_rules(rules())
    # What was not looked at is not known.
    assert send(queue, "a")
    assert not send(queue, "a")
    queue.set_rules(rules(deduplicate_window_ms=160))
    rig.turn.now_ns += 171 * MS + PART_MS * MS
    finish(rig.turn)
    assert send(queue, "a")
    queue.set_rules(rules(deduplicate_by="header:message-id"))
    assert send(queue, "a")
    assert send(queue, "a")
    queue.set_rules(rules(deduplicate_keys_max=1))
    assert not send(queue, "a")
    queue.set_rules(QueueRules())
    assert send(queue, "a")
    assert queue.gate == 0
    finish(rig.turn)
    assert not rig.turn.timers.heap
    assert queue.deduplicated_count == 2


def test_a_message_is_no_duplicate_of_itself(rig: Rig) -> None:
    """It died here and comes back; what a client claims to have died does not."""
    queue = queue_of(rig)
    death = {"queue": field("q"), "reason": field("rejected")}
    other = {"queue": field("other"), "reason": field("expired")}
    send(queue, "a")
    for deaths, traits, taken in (
        ([other], P_DIED, False),
        ([other, death], P_DIED, True),
        ([death], 0, False),
    ):
        before = queue.ready()
        queue.publish(message("a", {"x-death": field(deaths)}, traits), None, 0)
        assert bool(queue.ready() > before) is taken


def test_a_deleted_queue_leaves_nothing(rig: Rig) -> None:
    queue = queue_of(rig)
    for number in range(100):
        send(queue, f"{number}")
    queue.close()
    assert queue.deduplication is None
    finish(rig.turn)
    assert not rig.turn.timers.heap
    assert not rig.turn.chores
    assert queue.publish(message("a"), None, 0) == TAKEN
