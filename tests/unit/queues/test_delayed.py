"""Delayed messages of exchanges: slices, shares, mistakes, and what is left of them."""

import gc
import weakref

import pytest

from tests.unit.queues.rig import message
from warren.queues import Message, Turn
from warren.queues.delayed import (
    APART_SIZE,
    CANCELLED,
    ENDS,
    EXCHANGE_DELETED,
    RELEASED,
    Delayed,
    DelayKeeper,
    Held,
    cost_of,
    pack,
    unpack,
)
from warren.queues.turn import DUE_MESSAGES, REST_NS

MS = 1_000_000
NOW_MS = 1_790_000_000_000


class Keeper(DelayKeeper):
    def __init__(self, turn: Turn, *, fails: bool = False) -> None:
        self.turn = turn
        self.fails = fails
        self.given: list[Message] = []

    def now_ms(self) -> int:
        return int(self.turn.now_ns) // MS

    def hand_on(self, message: Message) -> int:
        if self.fails:
            raise ZeroDivisionError
        self.given.append(message)
        return RELEASED


@pytest.fixture
def turn() -> Turn:
    made = Turn()
    made.now_ns = NOW_MS * MS
    return made


def finish(turn: Turn) -> int:
    """Have all turns there is work for; return how many."""
    count = 1
    while turn.run():
        count += 1
        assert count < 10_000
    return count


def test_a_record_has_all_of_a_message() -> None:
    before = Message(b"\x01x\x01k", b"\x20\x00\0\0\0\0", b"body", None, 4, 1 << 32 | 8)
    record = pack(before, due_ms=5, seq=7, props=before.props, body=before.body)
    after = unpack(record)
    for name in ("tail", "props", "body", "more", "size", "traits", "expires_at", "hidden_keys"):
        assert getattr(after, name) == getattr(before, name)
    assert cost_of(record, None) < len(record) + 64


def test_a_turn_hands_on_one_slice_whoever_it_comes_from(turn: Turn) -> None:
    keepers = [Keeper(turn) for _ in range(3)]
    every = [Delayed("x", turn, keeper) for keeper in keepers]
    for one in every:
        for _ in range(1000):
            one.hold(message(b"m"), NOW_MS + 1000)
    turn.now_ns += 1001 * MS
    last = 0
    while turn.run():
        given = sum(len(keeper.given) for keeper in keepers)
        assert given - last <= DUE_MESSAGES
        last = given
    assert [len(keeper.given) for keeper in keepers] == [1000] * 3


def test_nobody_waits_for_a_crowd(turn: Turn) -> None:
    crowd, other = Keeper(turn), Keeper(turn)
    many, one = Delayed("x", turn, crowd), Delayed("y", turn, other)
    for _ in range(10 * DUE_MESSAGES):
        many.hold(message(b"m"), NOW_MS)
    one.hold(message(b"m"), NOW_MS)
    for _ in range(3):
        turn.run()
    assert len(other.given) == 1
    assert len(crowd.given) < 3 * DUE_MESSAGES


def test_chores_do_not_hold_it_up(turn: Turn) -> None:
    keeper = Keeper(turn)
    old = Delayed("old", turn, Keeper(turn))
    for _ in range(300_000):
        old.hold(message(b""), NOW_MS + 60_000)
    delayed = Delayed("x", turn, keeper)
    delayed.hold(message(b"m"), NOW_MS + 5)
    assert old.close() == 300_000
    turn.now_ns += 6 * MS
    turn.run()
    assert len(keeper.given) == 1
    # It goes in slices.
    assert turn.chores
    assert finish(turn) > 50
    assert not turn.chores


def test_a_mistake_costs_one_message_and_a_rest(turn: Turn) -> None:
    keeper = Keeper(turn, fails=True)
    delayed = Delayed("x", turn, keeper)
    for _ in range(3):
        delayed.hold(message(b"m"), NOW_MS)
    turn.run()
    assert [type(failure.error) for failure in turn.failures] == [ZeroDivisionError]
    assert delayed.held.count == 2
    turn.failures.clear()
    keeper.fails = False
    assert not turn.run()
    turn.now_ns += REST_NS
    finish(turn)
    assert len(keeper.given) == 2
    assert delayed.held.count == 0
    assert not turn.failures


def test_sums_of_a_node(turn: Turn) -> None:
    node = Held()
    first = Delayed("x", turn, Keeper(turn), node)
    second = Delayed("y", turn, Keeper(turn), node)
    first.hold(message(b"m"), NOW_MS + 1)
    first.hold(message(b"m" * (APART_SIZE + 1)), NOW_MS + 5000)
    second.hold(message(b"m"), NOW_MS + 5000)
    second.hold(message(b"m"), NOW_MS + 5000)
    assert node.count == 4
    assert node.octets == first.held.octets + second.held.octets > APART_SIZE
    turn.now_ns += 2 * MS
    finish(turn)
    assert second.drop_all(CANCELLED) == 2
    assert first.close() == 1
    assert (node.count, node.octets) == (0, 0)
    assert dict(zip(ENDS, node.ended, strict=True)) == {
        "released": 1,
        "unroutable": 0,
        "refused": 0,
        "cancelled": 2,
        "exchange_deleted": 1,
    }
    assert first.held.ended[EXCHANGE_DELETED] == 1


def test_what_is_closed_takes_nothing_and_leaves_nothing(turn: Turn) -> None:
    keeper = Keeper(turn)
    seen = weakref.ref(keeper)
    delayed = Delayed("x", turn, keeper)
    delayed.hold(message(b"m"), NOW_MS + 1000)
    delayed.hold(message(b"m"), NOW_MS)
    # It is due, and waits for its slice, when its exchange goes.
    turn.timers.run(turn.now_ns, 10)
    assert delayed.close() == 2
    delayed.publish(message(b"m"), None, 0)
    assert delayed.held.count == 0
    finish(turn)
    assert not turn.timers.heap
    assert not turn.due
    assert keeper.given == []
    gc.disable()
    try:
        del keeper
        assert seen() is None
    finally:
        gc.enable()
