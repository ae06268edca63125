"""The ready messages of one priority: a backlog, and what came back before it.

A queue without priorities has one level; one with `x-max-priority` n has up to n + 1. All share the
sequence ids of the queue; each has an index of its own in the store (storage PQ-1), so that what is
handed back finds its old place (PQ-3), and what is on the disk is found by priority.
"""

from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from warren.queues.backlog import Backlog, Returned, ReturnedMessage
from warren.queues.message import Message

if TYPE_CHECKING:
    from warren.store.index import QueueIndex


@final
class Level:
    def __init__(self, backlog: Backlog, returned: Returned) -> None:
        self.backlog = backlog
        self.returned = returned
        self.index: QueueIndex | None = None
        # What `take` took last: its sequence id, and whether it had been handed out before.
        self.seq: i64 = 0
        self.again = False

    def count(self) -> i64:
        return self.backlog.count + len(self.returned.heap)

    def here(self) -> bool:
        """Whether the next message is in memory."""
        return self.backlog.here > 0 or bool(self.returned.heap)

    def first(self) -> Message:
        """Look at the next message; the caller knows that it is in memory."""
        heap = self.returned.heap
        return heap[0].message if heap else self.backlog.peek()

    def take(self) -> Message:
        """Take the next message; the caller knows that it is in memory."""
        if self.returned.heap:
            item = self.returned.pop()
            self.seq = item.seq
            self.again = True
            return item.message
        message = self.backlog.pop()
        self.seq = self.backlog.seq
        self.again = self.backlog.again
        return message

    def put_back(self, seq: i64, message: Message) -> None:
        self.returned.push(ReturnedMessage(seq, message))
