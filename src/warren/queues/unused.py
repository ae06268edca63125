"""A queue that nobody uses for its time is deleted (QD-7): the timer, and looking when it fires."""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.queues.gate import GATE_DEAD
from warren.queues.timer import Timer

if TYPE_CHECKING:
    from warren.queues.queue import Queue

MS: Final[i64] = 1_000_000


@final
class UnusedTimer(Timer):
    """A queue may have been unused for its time."""

    def __init__(self, queue: "Queue") -> None:
        super().__init__()
        self.queue: Queue | None = queue

    def fire(self, now_ns: i64) -> None:
        queue = self.queue
        if queue is None or queue.consumers.every or queue.rules.expires_ms < 0:
            return
        due = queue.used_ns + queue.rules.expires_ms * MS
        if now_ns < due:
            queue.turn.timers.arm(self, due)
        else:
            queue.keeper.retire(queue)


def watch_use(queue: "Queue") -> None:
    """Have the time of a queue without use begin now, if it has one."""
    timer = queue.unused_timer
    if queue.rules.expires_ms < 0 or queue.gate & GATE_DEAD:
        if timer is not None:
            queue.turn.timers.cancel(timer)
        return
    if timer is None:
        timer = UnusedTimer(queue)
        queue.unused_timer = timer
    queue.touch()
    queue.turn.timers.arm(timer, queue.used_ns + queue.rules.expires_ms * MS)
