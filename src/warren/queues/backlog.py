"""The ready messages of one queue in memory: a chain of blocks, and a heap of returned ones.

Sequence ids are given in order and never reused. Messages leave at the head, so whatever is handed
back (requeue) is older than everything still in the chain: `Returned` messages always go first,
smallest sequence id first, which is the old place of AMQP 0-9-1 §1.8.3.13 (spec AK-3).

A chain of blocks rather than one growing list: no doubling copy when millions wait, and a purge
frees block by block.
"""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64, mypyc_attr

from warren.queues.message import Message
from warren.queues.turn import Chore

if TYPE_CHECKING:
    from warren.queues.turn import Turn

BLOCK_SIZE: Final = 256
# Returned messages freed in one turn: as many as of the blocks.
FREED_RETURNED: Final = 4096


@mypyc_attr(acyclic=True)
@final
class Block:
    def __init__(self) -> None:
        self.items: list[Message | None] = []
        self.next: Block | None = None


@final
class Backlog:
    """First in, first out, with a sequence id per message.

    Invariant: the message at the head has sequence id `head_seq`; `count` is the number held and
    `head_seq + count` is the id the next one gets.
    """

    def __init__(self) -> None:
        self.head = Block()
        self.tail = self.head
        self.head_index: i64 = 0
        self.head_seq: i64 = 0
        self.count: i64 = 0

    def push(self, message: Message) -> None:
        tail = self.tail
        if len(tail.items) == BLOCK_SIZE:
            block = Block()
            tail.next = block
            self.tail = block
            tail = block
        tail.items.append(message)
        self.count += 1

    def pop(self) -> Message:
        """Take the head; the caller knows that there is one."""
        head = self.head
        index = self.head_index
        message = head.items[index]
        assert message is not None
        head.items[index] = None
        index += 1
        if index == BLOCK_SIZE:
            following = head.next
            if following is None:
                head.items = []
            else:
                self.head = following
            index = 0
        self.head_index = index
        self.head_seq += 1
        self.count -= 1
        return message

    def peek(self) -> Message:
        """Look at the head; the caller knows that there is one."""
        message = self.head.items[self.head_index]
        assert message is not None
        return message

    def skip(self) -> i64:
        """Give the next id to a message that never waits (direct hand-over); return the id."""
        seq = self.head_seq
        self.head_seq = seq + 1
        return seq

    def drop_all(self) -> Block | None:
        """Empty the chain and return its blocks, for the caller to free in slices."""
        if self.count == 0:
            return None
        blocks = self.head
        self.head_seq += self.count
        self.count = 0
        self.head = Block()
        self.tail = self.head
        self.head_index = 0
        return blocks


@mypyc_attr(acyclic=True)
@final
class ReturnedMessage:
    def __init__(self, seq: i64, message: Message) -> None:
        self.seq = seq
        self.message = message


@final
class Returned:
    """Messages handed back, smallest sequence id first: a binary heap."""

    def __init__(self) -> None:
        self.heap: list[ReturnedMessage] = []

    def drop_all(self, turn: "Turn") -> None:
        """Forget them; the memory of very many is freed turn by turn."""
        if len(self.heap) > FREED_RETURNED:
            turn.chores.append(FreeChore(self.heap))
        self.heap = []

    def push(self, item: ReturnedMessage) -> None:
        heap = self.heap
        heap.append(item)
        index: i64 = len(heap) - 1
        seq = item.seq
        while index > 0:
            parent = (index - 1) >> 1
            above = heap[parent]
            if above.seq <= seq:
                break
            heap[index] = above
            index = parent
        heap[index] = item

    def pop(self) -> ReturnedMessage:
        """Take the oldest; the caller knows that there is one."""
        heap = self.heap
        last = heap.pop()
        size: i64 = len(heap)
        if size == 0:
            return last
        first = heap[0]
        seq = last.seq
        index: i64 = 0
        child: i64 = 1
        while child < size:
            if child + 1 < size and heap[child + 1].seq < heap[child].seq:
                child += 1
            below = heap[child]
            if below.seq >= seq:
                break
            heap[index] = below
            index = child
            child = 2 * index + 1
        heap[index] = last
        return first


@final
class FreeChore(Chore):
    """Frees what was dropped of a large heap."""

    def __init__(self, heap: list[ReturnedMessage]) -> None:
        self.heap = heap

    def step(self) -> bool:
        del self.heap[-FREED_RETURNED:]
        return not self.heap
