"""What is held for later against a model of it: a sorted list of times.

The calendar must give every message at its time, in the order of the times and, among equal ones,
of arrival; not earlier, not twice, none lost, whatever is cancelled and however far time jumps.
The instructions it notes must lead a replica to the same content.
"""

import bisect
import os
from typing import Final

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.unit.queues.rig import message
from warren.queues import Message, Turn
from warren.queues.calendar import due_of, seq_of
from warren.queues.delay_instruction import DelayJournal, Instruction
from warren.queues.delayed import CANCELLED, ENDS, RELEASED, Delayed, DelayKeeper

SEQUENCES: Final = int(os.environ.get("WARREN_MODEL_SEQUENCES", "300"))
MS: Final = 1_000_000
BEGIN_MS: Final = 1_790_000_000_000
TURNS_MAX: Final = 10_000
DAY_MS: Final = 86_400_000

# Delays about the widths of buckets, and all others.
delays = st.one_of(
    st.integers(0, 300),
    st.integers(0, 20_000),
    st.integers(0, 3 * DAY_MS),
    st.integers(0, 3650 * DAY_MS),
    st.sampled_from([127, 128, 129, 8191, 8192, 524_288, 33_554_432, 2_147_483_648]),
)


class Keeper(DelayKeeper):
    """Time that a test sets, and what came out."""

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self.given: list[int] = []

    def now_ms(self) -> int:
        return int(self.turn.now_ns) // MS

    def at_ms(self, now_ns: int) -> int:
        return now_ns // MS

    def hand_on(self, message: Message) -> int:
        self.given.append(int(message.whole_body()[:20].strip()))
        return RELEASED


class Noted(DelayJournal):
    def __init__(self) -> None:
        self.noted: list[Instruction] = []

    def note(self, instruction: Instruction) -> None:
        self.noted.append(instruction)


def new(turn: Turn) -> Delayed:
    return Delayed("x", turn, Keeper(turn))


def content(delayed: Delayed) -> list[tuple[int, int]]:
    """What is held, by time and sequence id."""
    return sorted(
        (int(due_of(record)), int(seq_of(record)))
        for _, blocks in delayed.calendar.sources()
        for block in blocks
        for record in block
    )


class Calendars(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.turn = Turn()
        self.turn.now_ns = BEGIN_MS * MS
        self.delayed = new(self.turn)
        self.keeper = self.delayed.keeper
        self.journal = Noted()
        self.delayed.journal = self.journal
        # Those that wait, sorted: when, sequence id.
        self.model: list[tuple[int, int]] = []
        self.expected: list[int] = []
        self.cancelled = 0

    def now_ms(self) -> int:
        return int(self.turn.now_ns) // MS

    def hold(self, delay_ms: int, size: int = 0) -> None:
        due = self.now_ms() + delay_ms
        seq = int(self.delayed.last_seq) + 1
        self.delayed.hold(message(b"%20d" % seq + b"." * size), due)
        bisect.insort(self.model, (due, seq))

    @rule(delay_ms=delays, count=st.sampled_from([1, 1, 3, 600]))
    def hold_some(self, delay_ms: int, count: int) -> None:
        for number in range(count):
            self.hold(delay_ms + number % 3)

    @rule(count=st.integers(1, 3000), begin_ms=st.integers(0, 100_000), step=st.integers(1, 200))
    def hold_a_crowd(self, count: int, begin_ms: int, step: int) -> None:
        for number in range(count):
            self.hold(begin_ms + number * 7919 * step % 60_000)

    @rule(delay_ms=delays)
    def hold_a_large_one(self, delay_ms: int) -> None:
        self.hold(delay_ms, 20_000)

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        due, seq = data.draw(st.sampled_from(self.model))
        if self.delayed.cancel(due, seq):
            self.model.remove((due, seq))
            self.cancelled += 1
        else:
            # Only what is about to go cannot be cancelled any more.
            assert due < self.delayed.calendar.bounds[0]
        assert not self.delayed.cancel(due, seq + 1_000_000)

    @rule()
    def drop_all(self) -> None:
        assert self.delayed.drop_all(CANCELLED) == len(self.model)
        self.cancelled += len(self.model)
        self.model.clear()

    @rule(ms=st.one_of(st.integers(0, 200), st.integers(0, 70_000), delays))
    def pass_time(self, ms: int) -> None:
        self.turn.now_ns += ms * MS
        self.finish()

    @precondition(lambda self: self.model)
    @rule(ms=st.integers(-3, 3))
    def go_to_the_next(self, ms: int) -> None:
        ahead = max(0, self.model[0][0] + ms - self.now_ms())
        self.turn.now_ns += ahead * MS
        self.finish()

    @rule(ms=st.integers(0, 5000))
    def pass_time_but_for_one_slice(self, ms: int) -> None:
        """A busy node: time goes on before everything is done."""
        self.turn.now_ns += ms * MS
        self.turn.run()
        keeper = self.keeper
        assert isinstance(keeper, Keeper)
        while self.model and len(self.expected) < len(keeper.given):
            due, seq = self.model.pop(0)
            assert due <= self.now_ms()
            self.expected.append(seq)

    def finish(self) -> None:
        for _ in range(TURNS_MAX):
            if not self.turn.run():
                break
        else:
            raise AssertionError("turns without end")
        assert not self.turn.failures
        while self.model and self.model[0][0] <= self.now_ms():
            self.expected.append(self.model.pop(0)[1])

    @rule()
    def replay(self) -> None:
        turn = Turn()
        turn.now_ns = BEGIN_MS * MS
        replica = new(turn)
        for instruction in self.journal.noted:
            replica.apply(instruction)
        assert content(replica) == self.model
        assert replica.held.count == len(self.model)
        assert replica.held.octets == self.delayed.held.octets
        assert replica.apart.keys() == self.delayed.apart.keys()

    @invariant()
    def nothing_is_lost_early_or_twice(self) -> None:
        keeper = self.keeper
        assert isinstance(keeper, Keeper)
        assert keeper.given == self.expected
        assert self.delayed.held.count == len(self.model)
        assert (self.delayed.held.octets == 0) == (not self.model)
        ended = dict(zip(ENDS, self.delayed.held.ended, strict=True))
        assert ended["released"] == len(self.expected)
        assert ended["cancelled"] == self.cancelled
        assert list(self.delayed.calendar.bounds) == sorted(self.delayed.calendar.bounds)
        if self.model and not self.delayed.timer.waiting:
            assert self.delayed.timer.index >= 0
            due_ns = self.model[0][0] * MS
            assert self.delayed.timer.at_ns <= max(due_ns, self.turn.now_ns) + MS


TestCalendars = Calendars.TestCase
TestCalendars.settings = settings(
    max_examples=max(1, SEQUENCES // 4), stateful_step_count=40, deadline=None
)
