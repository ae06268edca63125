"""What is left to do at the end of a loop turn: queues with messages for ready consumers, garbage.

Work is done in bounded slices, so that a queue with a million messages and a purge of ten million
cost every turn the same.
"""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import mypyc_attr

from warren.queues.timer import Timers

if TYPE_CHECKING:
    from mypy_extensions import i64

    from warren.queues.backlog import Block
    from warren.queues.queue import Queue

# Messages one queue may hand out in one turn before others have theirs.
PUMP_MESSAGES: Final = 1024
# Queues that have their share in one turn, and what all of them together may hand out or drop: a
# new length limit for 50,000 queues would otherwise be one turn of minutes.
TURN_QUEUES: Final = 256
TURN_MESSAGES: Final = 8192
# Blocks of purged messages freed in one turn.
FREED_BLOCKS: Final = 16
# Timers fired in one turn; most only note that there is something to do, some delete a queue.
FIRED_TIMERS: Final = 128


# Tests and later parts may bring interpreted chores: a step is far above the cost of the call.
@mypyc_attr(allow_interpreted_subclasses=True)
class Chore:
    """Background work in slices."""

    def step(self) -> bool:
        """Do one bounded slice; True when all is done."""
        return True


@final
class Failure:
    """A mistake of ours in what a turn does; the queue it happened in is suspended."""

    def __init__(self, queue: "Queue | None", error: Exception) -> None:
        self.queue = queue
        self.error = error


@final
class Turn:
    def __init__(self) -> None:
        self.queues: list[Queue] = []
        self.garbage: list[Block] = []
        self.chores: list[Chore] = []
        self.timers = Timers()
        # For the driver to tell and to clear.
        self.failures: list[Failure] = []
        # The time at which this turn began, set by the driver once per turn.
        self.now_ns: i64 = 0

    def run(self) -> bool:
        """Do one slice of everything pending; True if something is left for the next turn."""
        due = bool(self.timers.heap) and self._fire()
        if self.queues:
            queues = self._next_queues()
            most = min(PUMP_MESSAGES, TURN_MESSAGES // len(queues))
            for queue in queues:
                queue.scheduled = False
                try:
                    if queue.pump(most):
                        queue.schedule()
                except Exception as error:  # A supervisor: one queue stops, the others go on.
                    queue.suspend()
                    self.failures.append(Failure(queue, error))
        if self.garbage:
            self._free()
        if self.chores and self._step():
            del self.chores[0]
        return due or bool(self.queues) or bool(self.garbage) or bool(self.chores)

    def _next_queues(self) -> "list[Queue]":
        """Take the queues that have waited longest; at most `TURN_QUEUES`."""
        queues = self.queues
        if len(queues) <= TURN_QUEUES:
            self.queues = []
            return queues
        self.queues = queues[TURN_QUEUES:]
        return queues[:TURN_QUEUES]

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
