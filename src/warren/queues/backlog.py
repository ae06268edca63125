"""The ready messages of one level of a queue: a chain of blocks, and a heap of returned ones.

Sequence ids are given by the queue, in order, and never reused. Messages leave at the head, so
whatever is handed back (requeue) is older than everything still in the chain: `Returned` messages
always go first, smallest sequence id first, which is the old place of AMQP 0-9-1 §1.8.3.13 (spec
AK-3).

A chain of blocks rather than one growing list: no doubling copy when millions wait, a purge frees
block by block, and a block may be *out*: its messages are on the disk only, in the store (all of
them are committed there) or in a page file, and the block has their ids and nothing else. Which
blocks go out and come back is decided in `paging.py`.
"""

from typing import TYPE_CHECKING, Final, final

from librt.vecs import append, vec
from mypy_extensions import i64, mypyc_attr

from warren.protocol.properties import P_PERSISTENT
from warren.queues.message import Message
from warren.queues.turn import Chore

if TYPE_CHECKING:
    from warren.queues.paging import Paging
    from warren.queues.turn import Turn

BLOCK_SIZE: Final = 256
# A block is full with this many octets of bodies, too: it is the unit that leaves memory.
BLOCK_OCTETS: Final = 262_144
# Returned messages freed in one turn: as many as of the blocks.
FREED_RETURNED: Final = 4096

# Where the messages of a block are.
HERE: Final[i64] = 0
IN_STORE: Final[i64] = 1
IN_PAGES: Final[i64] = 2


@mypyc_attr(acyclic=True)
@final
class Block:
    def __init__(self, first: i64 = 0) -> None:
        self.items: list[Message | None] = []
        self.next: Block | None = None
        # The id of the first message; the others follow it unless `seqs` says which.
        self.first: i64 = first
        self.seqs: vec[i64] = vec[i64]()
        self.sparse = False
        # Messages that were handed out before come as redelivered.
        self.again = False
        # Nothing is added any more.
        self.sealed = False
        self.place: i64 = HERE
        # Octets of the bodies, and of those the persistent ones'.
        self.octets: i64 = 0
        self.kept: i64 = 0
        # Of a block that is out: how many messages, and the id of the last.
        self.out: i64 = 0
        self.last: i64 = 0
        # Where it is in the page files: file, offset, size.
        self.page_file: i64 = 0
        self.page_offset: i64 = 0
        self.page_size: i64 = 0
        # The journal's position behind its last record.
        self.lsn: i64 = 0

    def count(self) -> i64:
        return self.out if self.place != HERE else len(self.items)

    def seq_at(self, index: i64) -> i64:
        return self.seqs[index] if self.sparse else self.first + index

    def add(self, message: Message, seq: i64) -> None:
        items = self.items
        count: i64 = len(items)
        if count == 0:
            self.first = seq
        if not self.sparse and seq != self.first + count:
            self._spread(count)
        if self.sparse:
            self.seqs = append(self.seqs, seq)
        items.append(message)
        self.octets += message.size
        if message.traits & P_PERSISTENT != 0:
            self.kept += message.size

    def _spread(self, count: i64) -> None:
        """The ids do not follow each other any more: have each of them."""
        seqs = vec[i64]()
        index: i64 = 0
        while index < count:
            seqs = append(seqs, self.first + index)
            index += 1
        self.seqs = seqs
        self.sparse = True

    def clear(self) -> None:
        """Begin anew: nothing in it waits any more."""
        self.items.clear()
        self.octets = 0
        self.kept = 0
        self.again = False
        if self.sparse:
            self.sparse = False
            self.seqs = vec[i64]()


def take_apart(block: Block | None) -> None:
    """Take a chain apart that nobody needs.

    Left to itself it would be freed from within itself, a call deep for each block. From 50 calls
    on CPython puts objects aside to free them later, in the header of the cycle collector, which
    acyclic objects do not have: it would write into what lies before them.
    """
    while block is not None:
        following = block.next
        block.next = None
        block = following


@final
class Backlog:
    """First in, first out, with the sequence id of each message.

    Invariants: `count` messages wait, `here` of them before the first block that is out; `outs`
    blocks are out, with `out_count` messages. The head block is out only if `here` is 0. `seq` and
    `again` are of the message that was popped last.
    """

    def __init__(self) -> None:
        self.head = Block()
        self.tail = self.head
        self.head_index: i64 = 0
        self.count: i64 = 0
        self.here: i64 = 0
        self.outs: i64 = 0
        self.out_count: i64 = 0
        self.out_octets: i64 = 0
        self.seq: i64 = 0
        self.again = False
        # Messages of a block.
        self.block_size: i64 = BLOCK_SIZE
        # Who takes blocks out of memory and brings them back.
        self.paging: Paging | None = None

    def __del__(self) -> None:
        # Block by block: see `take_apart`.
        take_apart(self.head)

    def push(self, message: Message, seq: i64) -> None:
        tail = self.tail
        if self.count == 0:
            if tail.sealed:
                # Somebody waits to take it out of memory: it is not used again.
                tail = Block(seq)
                self.head = tail
                self.tail = tail
            else:
                tail.clear()
            self.head_index = 0
        elif len(tail.items) >= self.block_size or tail.octets >= BLOCK_OCTETS or tail.sealed:
            tail = self._extend(tail, seq)
        tail.add(message, seq)
        self.count += 1
        if self.outs == 0:
            self.here += 1

    def _extend(self, tail: Block, seq: i64) -> Block:
        block = Block(seq)
        tail.next = block
        self.tail = block
        paging = self.paging
        if paging is not None and not tail.sealed:
            tail.sealed = True
            paging.on_full(self, tail)
        return block

    def pop(self) -> Message:
        """Take the head; the caller knows that `here` is not 0."""
        head = self.head
        index = self.head_index
        message = head.items[index]
        assert message is not None
        head.items[index] = None
        self.seq = head.seqs[index] if head.sparse else head.first + index
        self.again = head.again
        index += 1
        self.count -= 1
        self.here -= 1
        if index == len(head.items):
            following = head.next
            if following is not None:
                # Whoever still looks at it holds this block only, and not a chain of them.
                head.next = None
                self.head = following
                index = 0
        self.head_index = index
        return message

    def peek(self) -> Message:
        """Look at the head; the caller knows that `here` is not 0."""
        message = self.head.items[self.head_index]
        assert message is not None
        return message

    def first_seq(self) -> i64:
        """The id of the head; the caller knows that `count` is not 0."""
        head = self.head
        return head.first if head.place != HERE else head.seq_at(self.head_index)

    def kept_octets(self) -> i64:
        """The octets of the persistent messages that wait."""
        if self.count == 0:
            return 0
        head = self.head
        octets: i64 = 0
        if head.place == HERE:
            index = self.head_index
            while index < len(head.items):
                message = head.items[index]
                if message is not None and message.traits & P_PERSISTENT != 0:
                    octets += message.size
                index += 1
        else:
            octets = head.kept
        block = head.next
        while block is not None:
            octets += block.kept
            block = block.next
        return octets

    def drop_all(self) -> Block | None:
        """Empty the chain and return its blocks, for the caller to free in slices."""
        if self.count == 0:
            return None
        blocks = self.head
        self.count = 0
        self.here = 0
        self.outs = 0
        self.out_count = 0
        self.out_octets = 0
        self.head = Block()
        self.tail = self.head
        self.head_index = 0
        return blocks

    # -- blocks that are out ---------------------------------------------------------------------

    def begin_out(self, block: Block) -> None:
        """An empty backlog begins with messages that are in the store (at a start)."""
        self.head = block
        self.tail = block
        self.head_index = 0
        self.count = block.out
        self.here = 0
        self.outs = 1
        self.out_count = block.out
        self.out_octets = block.octets

    def trim_head(self) -> None:
        """Let go of what was handed out of the head block already."""
        head = self.head
        index = self.head_index
        if index == 0 or head.place != HERE:
            return
        rest = Block()
        count: i64 = len(head.items)
        while index < count:
            message = head.items[index]
            assert message is not None
            rest.add(message, head.seq_at(index))
            index += 1
        head.items = rest.items
        head.seqs = rest.seqs
        head.sparse = rest.sparse
        head.first = rest.first
        head.octets = rest.octets
        head.kept = rest.kept
        self.head_index = 0

    def take_out(self, block: Block, place: i64) -> None:
        """Empty a whole block: its messages are there now."""
        count: i64 = len(block.items)
        block.last = block.seq_at(count - 1)
        block.out = count
        block.place = place
        block.items = []
        if block.sparse:
            block.seqs = vec[i64]()
        self.outs += 1
        self.out_count += count
        self.out_octets += block.octets
        self.recount_here()

    def join_out(self, before: Block, block: Block) -> None:
        """Make two neighbours that are out one."""
        before.out += block.out
        before.octets += block.octets
        before.kept += block.kept
        before.last = block.last
        before.next = block.next
        block.next = None
        if self.tail is block:
            self.tail = before
        self.outs -= 1

    def bring_in(self, block: Block, blocks: list[Block], *, left: i64, octets: i64) -> None:
        """Put what was read of a block that is out before it; `left` messages of it stay out."""
        before = self._before(block)
        count: i64 = 0
        for one in blocks:
            one.sealed = True
            count += len(one.items)
            if before is None:
                self.head = one
                self.head_index = 0
            else:
                before.next = one
            before = one
        gone = block.out - left
        self.out_count -= gone
        self.out_octets -= block.octets - octets
        # What could not be read does not wait any more.
        self.count -= gone - count
        block.out = left
        block.octets = octets
        # Only in the store there is a part of a block.
        block.kept = octets
        if left > 0:
            if before is not None:
                before.next = block
            else:
                self.head = block
                self.head_index = 0
        else:
            self._unlink(before, block)
        self.recount_here()

    def _before(self, block: Block) -> Block | None:
        """The block before one that is out; None if that is the head."""
        before: Block | None = None
        at: Block | None = self.head
        while at is not block:
            assert at is not None
            before = at
            at = at.next
        return before

    def _unlink(self, before: Block | None, block: Block) -> None:
        self.outs -= 1
        following = block.next
        block.next = None
        if before is not None:
            before.next = following
            if following is None:
                self.tail = before
        elif following is not None:
            self.head = following
            self.head_index = 0
        else:
            self.head = Block()
            self.head_index = 0
            self.tail = self.head

    def recount_here(self) -> None:
        """Count what waits before the first block that is out, if there is one."""
        if self.outs == 0:
            self.here = self.count
            return
        here: i64 = 0
        block: Block | None = self.head
        if block is not None and block.place == HERE:
            here = -self.head_index
        while block is not None and block.place == HERE:
            here += len(block.items)
            block = block.next
        self.here = here


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
