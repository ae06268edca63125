"""What is left to do at the end of a loop turn: queues with messages for ready consumers, garbage.

Work is done in bounded slices, so that a queue with a million messages and a purge of ten million
cost every turn the same.
"""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64, mypyc_attr

from warren.core import Clock
from warren.queues.timer import Timer, Timers

if TYPE_CHECKING:
    from warren.queues.backlog import Block
    from warren.queues.queue import Queue
    from warren.queues.storage import Storage

# Messages one queue may hand out in one turn before others have theirs.
PUMP_MESSAGES: Final = 1024
# Queues that have their share in one turn, and what all of them together may hand out or drop: a
# new length limit for 50,000 queues would otherwise be one turn of minutes.
TURN_QUEUES: Final = 256
TURN_MESSAGES: Final = 8192
# Messages that are costly, such as dead letters with large headers, end a turn earlier.
TURN_NS: Final = 5_000_000
# Blocks of purged messages freed in one turn.
FREED_BLOCKS: Final = 16
# Timers fired in one turn; most only note that there is something to do, some delete a queue.
FIRED_TIMERS: Final = 128
# What all that is due together may do in one turn, in messages.
DUE_MESSAGES: Final[i64] = 512
# How long something that is due rests after a mistake of ours.
REST_NS: Final[i64] = 1_000_000_000


# Tests and later parts may bring interpreted chores: a step is far above the cost of the call.
@mypyc_attr(allow_interpreted_subclasses=True)
class Chore:
    """Background work in slices."""

    def step(self) -> bool:
        """Do one bounded slice; True when all is done."""
        return True


@mypyc_attr(allow_interpreted_subclasses=True)
class Due(Timer):
    """A timer behind which there may be much to do: it has a slice of every turn until it is done.

    Unlike chores, which wait for each other, all that is due goes on in every turn.
    """

    def __init__(self, turn: "Turn") -> None:
        super().__init__()
        self.turn = turn
        # It is in `Turn.due`; `step` takes this back when nothing is left to do now.
        self.waiting = False

    def fire(self, now_ns: i64) -> None:
        if not self.waiting:
            self.waiting = True
            self.turn.due.append(self)

    def step(self, now_ns: i64, most: i64) -> i64:
        """Do up to `most` messages' work; return how much it was."""
        self.waiting = False
        return 0


@final
class Failure:
    """A mistake of ours in what a turn does; the queue it happened in is suspended."""

    def __init__(self, queue: "Queue | None", error: Exception) -> None:
        self.queue = queue
        self.error = error


@final
class Turn:
    def __init__(self, clock: Clock | None = None) -> None:
        # Only to end a turn of many queues; what happens by the clock happens at `now_ns`.
        self.clock = clock
        # What the queues share of memory and disk; without it nothing survives the node.
        self.storage: Storage | None = None
        self.queues: list[Queue] = []
        self.garbage: list[Block] = []
        self.chores: list[Chore] = []
        self.due: list[Due] = []
        self.timers = Timers()
        # For the driver to tell and to clear.
        self.failures: list[Failure] = []
        # The time at which this turn began, set by the driver once per turn.
        self.now_ns: i64 = 0
        # How long turns took in all: what is not in here, the loop had nothing to do.
        self.busy_ns: i64 = 0

    def __del__(self) -> None:
        # Block by block: see `backlog.take_apart`.
        while self.garbage:
            self._free()

    def run(self) -> bool:
        """Do one slice of everything pending; True if something is left for the next turn."""
        more = bool(self.timers.heap) and self._fire()
        if self.due:
            self._step_due()
        if self.queues:
            self._pump(self._next_queues())
        if self.garbage:
            self._free()
        if self.chores and self._step():
            del self.chores[0]
        if self.due or self.queues:
            return True
        return more or bool(self.garbage) or bool(self.chores)

    def _next_queues(self) -> "list[Queue]":
        """Take the queues that have waited longest; at most `TURN_QUEUES`."""
        queues = self.queues
        if len(queues) <= TURN_QUEUES:
            self.queues = []
            return queues
        self.queues = queues[TURN_QUEUES:]
        return queues[:TURN_QUEUES]

    def _pump(self, queues: "list[Queue]") -> None:
        """Give each queue its share, until the time is over; the others go first next time."""
        clock = self.clock if len(queues) > 1 else None
        until = 0 if clock is None else clock.monotonic_ns() + TURN_NS
        most = min(PUMP_MESSAGES, TURN_MESSAGES // len(queues))
        done = 0
        for queue in queues:
            queue.scheduled = False
            done += 1
            try:
                if queue.pump(most):
                    queue.schedule()
            except Exception as error:  # A supervisor: one queue stops, the others go on.
                queue.suspend()
                self.failures.append(Failure(queue, error))
            if clock is not None and clock.monotonic_ns() >= until:
                break
        if done < len(queues):
            self.queues = queues[done:] + self.queues

    def _step(self) -> bool:
        try:
            return self.chores[0].step()
        except Exception as error:  # A supervisor: this chore ends, the others go on.
            self.failures.append(Failure(None, error))
            return True

    def _fire(self) -> bool:
        try:
            return self.timers.run(self.now_ns, FIRED_TIMERS)
        except Exception as error:  # A supervisor: the timer that failed is gone already.
            self.failures.append(Failure(None, error))
            return True

    def _step_due(self) -> None:
        """Share one slice among all that is due; who had none is first in the next turn."""
        every = self.due
        self.due = []
        left = DUE_MESSAGES
        index: i64 = 0
        while index < len(every) and left > 0:
            one = every[index]
            index += 1
            try:
                left -= one.step(self.now_ns, left)
            except Exception as error:  # A supervisor: it goes on after a rest.
                self.failures.append(Failure(None, error))
                one.waiting = False
                self.timers.arm(one, self.now_ns + REST_NS)
            if one.waiting:
                self.due.append(one)
        if index < len(every):
            self.due = every[index:] + self.due

    def _free(self) -> None:
        left = FREED_BLOCKS
        while left > 0 and self.garbage:
            block = self.garbage.pop()
            following = block.next
            block.next = None
            block.items = []
            if following is not None:
                self.garbage.append(following)
            left -= 1
