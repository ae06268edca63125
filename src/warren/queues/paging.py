"""Which messages of one backlog are in memory, and how the others come back.

Messages enter in memory (alpha). What is persistent is in the journal from the moment it is taken,
so it leaves memory without any writing, once its batch is committed (gamma: the index has its
place in memory; delta: it is in a segment, and only the chunk's place is known). What is transient
is written to a page file first. A block goes as a whole, never the head of the backlog, and those
farthest from the head first: they stay longest. Neighbours in the store become one, so ten million
messages that wait there are one block.

Messages come back in order, read ahead of the consumers; a queue whose head is not in memory
stands still until it is.

`limit` is what the resident messages may cost: 0 in lazy mode, otherwise the setting, or what the
memory of the node allows (`storage.py`).
"""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.protocol.properties import P_PERSISTENT
from warren.queues.backlog import HERE, IN_PAGES, IN_STORE, Backlog, Block
from warren.queues.message import Message
from warren.store.index import QueueIndex
from warren.store.pages import PageRead, PageWrite
from warren.store.reading import Reading
from warren.store.record import Publish, split_keys

if TYPE_CHECKING:
    from warren.queues.queue import Queue
    from warren.queues.storage import Storage

# What a message in memory costs besides its body, on average.
MESSAGE_COST: Final[i64] = 240
# Messages with large bodies: no more is read ahead than this.
AHEAD_OCTETS_MAX: Final[i64] = 4_194_304
# Blocks that leave in one go.
SLICE: Final = 64
# How long a queue rests after a read that failed.
REST_NS: Final[i64] = 1_000_000_000


@final
class Paging:
    def __init__(
        self, storage: "Storage", queue: "Queue", backlog: Backlog, index: QueueIndex | None
    ) -> None:
        self.storage = storage
        self.queue: Queue | None = queue
        self.backlog = backlog
        backlog.block_size = storage.block_messages
        self.index = index
        # Full blocks of committed or soon committed messages that are to go, in order.
        self.waiting: list[Block] = []
        self.listed = False
        # In the storage's list of lazy backlogs with messages in memory.
        self.lazy_listed = False
        # The last block that went into the store, for its neighbour to join.
        self.last_out: Block | None = None
        self.loading = False
        # Changes when everything that is out is forgotten: what is read then comes too late.
        self.life: i64 = 0
        # Ids below this one were handed out before the node started, or may have been.
        self.again_below: i64 = 0
        # After a clean stop the runs of those that were: first id, id behind the last.
        self.again_runs: list[tuple[int, int]] | None = None
        # Messages that were read, and written to page files.
        self.reads: i64 = 0
        self.writes: i64 = 0

    def close(self) -> None:
        """The queue is gone."""
        self.forget()
        self.queue = None
        self.index = None

    def forget(self) -> None:
        """All that waits is dropped: nothing that is out comes back."""
        self.life += 1
        self.loading = False
        self.waiting = []
        self.last_out = None
        self.again_below = 0
        self.again_runs = None

    def drop_pages(self) -> None:
        """The pages of all blocks are not needed any more."""
        if self.backlog.outs == 0:
            return
        block: Block | None = self.backlog.head
        while block is not None:
            if block.place == IN_PAGES:
                self.storage.drop_page(block.page_file, block.page_size)
            block = block.next

    # -- leaving ---------------------------------------------------------------------------------

    def cost(self) -> i64:
        """What the messages that wait in memory cost."""
        queue = self.queue
        if queue is None:
            return 0
        count = queue.ready() - queue.out_count
        return queue.ready_bytes - queue.out_octets + count * MESSAGE_COST

    def on_full(self, backlog: Backlog, block: Block) -> None:
        """A block will not grow any more."""
        queue = self.queue
        storage = self.storage
        if queue is None:
            return
        storage.note_large(queue)
        limit = storage.limit_of(queue)
        if self.cost() <= limit:
            return
        if self.index is not None and all_persistent(block, self.backlog):
            self._wait(block)
        elif queue.rules.lazy or storage.pressed:
            self.write(block)

    def _wait(self, block: Block) -> None:
        """Let a block go when what is written now is committed."""
        index = self.index
        assert index is not None
        journal = index.journal
        block.sealed = True
        # Behind what is written down by now.
        block.lsn = journal.position() if journal.pending() > 0 else journal.batch.lsn
        if block.lsn <= journal.committed and not self.waiting:
            self._take_out(block)
            return
        self.waiting.append(block)
        self.storage.note_waiting(self)

    def on_committed(self, lsn: i64) -> bool:
        """The journal is committed up to an lsn; True if something still waits."""
        waiting = self.waiting
        done = 0
        for block in waiting:
            if block.lsn > lsn:
                break
            done += 1
            self._take_out(block)
        if done:
            self.waiting = waiting[done:]
        return bool(self.waiting)

    def _take_out(self, block: Block) -> None:
        backlog = self.backlog
        queue = self.queue
        if queue is None:
            return
        block.lsn = 0
        if block is backlog.head and queue.rules.lazy:
            backlog.trim_head()
        elif block is backlog.head:
            return
        if not is_whole(block):
            return
        self._count_out(block)
        backlog.take_out(block, IN_STORE)
        before = self.last_out
        if before is not None and before.next is block and before.place == IN_STORE:
            backlog.join_out(before, block)
        else:
            self.last_out = block

    def _count_out(self, block: Block) -> None:
        queue = self.queue
        assert queue is not None
        queue.out_count += len(block.items)
        queue.out_octets += block.octets

    def reduce(self, most: i64) -> bool:
        """Have blocks leave until what is in memory costs no more than this.

        A slice at a time: True if more could leave now.
        """
        queue = self.queue
        excess = self.cost() - most
        if queue is None or excess <= 0:
            return False
        found = self._resident(excess)
        some = found[-SLICE:]
        went = 0
        for block in some:
            block.sealed = True
            if self.index is not None and all_persistent(block, self.backlog):
                self._wait(block)
            elif block is not self.backlog.head:
                self.write(block)
            if block.place != HERE or block.lsn != 0:
                went += 1
        # Those for which there is no room have their turn when there is.
        return went > 0 and len(found) > len(some) and id(queue) not in self.storage.unpaged

    def _resident(self, excess: i64) -> list[Block]:
        """The blocks in memory that may leave, those farthest from the head, in order."""
        blocks: list[Block] = []
        left = excess
        queue = self.queue
        lazy = queue is not None and queue.rules.lazy
        at: Block | None = self.backlog.head
        if not lazy and at is not None:
            at = at.next
        while at is not None:
            if at.place == HERE and at.items:
                if at.lsn == 0:
                    blocks.append(at)
                else:
                    # It is on its way.
                    left -= at.octets + len(at.items) * MESSAGE_COST
            at = at.next
        first = len(blocks)
        while first > 0 and left > 0:
            first -= 1
            left -= blocks[first].octets + len(blocks[first].items) * MESSAGE_COST
        return blocks[first:]

    def seal_tail(self) -> None:
        """Lazy mode: what came since the last commit goes, too, unless it is handed out now."""
        backlog = self.backlog
        tail = backlog.tail
        if backlog.count == 0 or tail.place != HERE or tail.sealed or not tail.items:
            return
        if self.index is not None and all_persistent(tail, backlog):
            self._wait(tail)
        elif tail is not backlog.head:
            tail.sealed = True
            self.write(tail)

    # -- page files ------------------------------------------------------------------------------

    def write(self, block: Block) -> None:
        """Write the messages of a block to a page file; they leave when that is done."""
        queue = self.queue
        if queue is None or not self.storage.may_page() or block.lsn != 0:
            return
        if not self.storage.has_page_room(queue):
            return
        block.lsn = -1
        self.writes += len(block.items)
        self.storage.write_page(PageWrite(self._encode(block), Written(self, block, self.life)))

    def _encode(self, block: Block) -> bytes:
        index: i64 = 0
        count: i64 = len(block.items)
        storage = self.storage
        writer = storage.page_writer()
        while index < count:
            message = block.items[index]
            if message is not None:
                storage.write_record(writer, block.seq_at(index), message)
            index += 1
        return writer.getvalue()

    def on_written(self, block: Block, life: i64, page: PageWrite, error: Exception | None) -> None:
        """A block is in a page file."""
        block.lsn = 0
        self.storage.on_page_written()
        whole = error is None and life == self.life and is_whole(block)
        if not whole or self.queue is None or block is self.backlog.head:
            self.storage.drop_page(page.file, page.size)
            return
        block.page_file = page.file
        block.page_offset = page.offset
        block.page_size = page.size
        self._count_out(block)
        self.backlog.take_out(block, IN_PAGES)

    # -- coming back -----------------------------------------------------------------------------

    def read_ahead(self) -> None:
        """Begin to read what comes next, if little of it is in memory."""
        backlog = self.backlog
        if self.loading or backlog.outs == 0 or backlog.here >= self.storage.ahead:
            return
        queue = self.queue
        if queue is None or queue.octets_of(backlog.here) > AHEAD_OCTETS_MAX:
            return
        block: Block | None = backlog.head
        while block is not None and block.place == HERE:
            block = block.next
        assert block is not None
        self._read(block)

    def _read(self, block: Block) -> None:
        self.loading = True
        if block.place == IN_PAGES:
            page = PageRead(
                block.page_file, block.page_offset, block.page_size, Paged(self, block, self.life)
            )
            self.storage.read_page(page)
            return
        index = self.index
        assert index is not None
        wanted = Loaded(self, block, self.life)
        if not self.storage.persistence.read(
            index, block.first, wanted.ended, self.storage.ahead_octets
        ):
            self.loading = False
            self._give_up(block)

    def _give_up(self, block: Block) -> None:
        """The store has nothing of what should be there."""
        lost = block.out
        self._came_in(block, [], 0, 0)
        self._tell_lost(lost, "no record of them is in the store")

    def on_loaded(self, block: Block, life: i64, reading: Reading, error: Exception | None) -> None:
        """The store has read what comes next."""
        if life != self.life or self.queue is None:
            return
        self.loading = False
        index = self.index
        assert index is not None
        if error is not None:
            self._rest(str(error))
            return
        records = reading.records()
        if reading.moved:
            self._read(block)
            return
        lost: i64 = 0
        for first, last in reading.lost:
            lost += index.lose(first, last)
        blocks: list[Block] = []
        last_seq = block.last
        octets: i64 = 0
        count: i64 = 0
        for record in records:
            if record.seq > last_seq:
                break
            self._add(blocks, record)
            octets += record.body_size
            count += 1
        done = reading.next_seq > last_seq
        left = 0 if done else block.out - count - lost
        octets_left = 0 if done else max(i64(0), block.octets - octets)
        block.first = reading.next_seq
        self._came_in(block, blocks, left, octets_left)
        if lost > 0:
            self._tell_lost(lost, reading.problem)

    def _add(self, blocks: list[Block], record: Publish) -> None:
        again = self._again(record.seq)
        if not blocks or blocks[-1].again != again:
            block = Block(record.seq)
            block.again = again
            blocks.append(block)
        blocks[-1].add(self.storage.message_of(record), record.seq)

    def _again(self, seq: i64) -> bool:
        """Whether a message was handed out before the node started."""
        if seq >= self.again_below:
            return False
        runs = self.again_runs
        if runs is None:
            return True
        # What came into memory may leave it once more: no run is forgotten before the last.
        low = 0
        high = len(runs)
        while low < high:
            middle = (low + high) >> 1
            if runs[middle][1] <= seq:
                low = middle + 1
            else:
                high = middle
        return low < len(runs) and runs[low][0] <= seq

    def on_paged(self, block: Block, life: i64, page: PageRead, error: Exception | None) -> None:
        """A page has been read."""
        if life != self.life or self.queue is None:
            return
        self.loading = False
        if error is not None and isinstance(error, OSError):
            self._rest(str(error))
            return
        self.storage.drop_page(block.page_file, block.page_size)
        if error is not None:
            lost = block.out
            self._came_in(block, [], 0, 0)
            self._tell_lost(lost, str(error))
            return
        fresh = Block(block.first)
        fresh.again = block.again
        for record in page.records:
            fresh.add(self.storage.message_of(record), record.seq)
        self._came_in(block, [fresh], 0, 0)

    def _came_in(self, block: Block, blocks: list[Block], left: i64, octets: i64) -> None:
        queue = self.queue
        assert queue is not None
        count: i64 = 0
        got: i64 = 0
        for one in blocks:
            count += len(one.items)
            got += one.octets
        queue.out_count -= block.out - left
        queue.out_octets -= block.octets - octets
        queue.ready_bytes -= block.octets - octets - got
        if left == 0:
            if self.last_out is block:
                self.last_out = None
            index = self.index
            if block.place == IN_STORE and index is not None:
                # What is left over was lost.
                index.live_bytes = max(i64(0), index.live_bytes - (block.octets - got))
        self.storage.note_large(queue)
        self.reads += count
        self.backlog.bring_in(block, blocks, left=left, octets=octets)
        queue.on_here()

    def _tell_lost(self, lost: i64, why: str) -> None:
        queue = self.queue
        if queue is not None and lost > 0:
            queue.lost_count += lost
            self.storage.tell_lost(queue, lost, why)

    def _rest(self, why: str) -> None:
        """Reading failed: try again after a while."""
        self.loading = True
        queue = self.queue
        if queue is not None:
            self.storage.rest(queue, why)


@final
class Written:
    """Who hears of a page that was written."""

    def __init__(self, paging: Paging, block: Block, life: i64) -> None:
        self.paging = paging
        self.block = block
        self.life = life

    def ended(self, page: PageWrite, error: Exception | None) -> None:
        self.paging.on_written(self.block, self.life, page, error)


@final
class Paged:
    """Who hears of a page that was read."""

    def __init__(self, paging: Paging, block: Block, life: i64) -> None:
        self.paging = paging
        self.block = block
        self.life = life

    def ended(self, page: PageRead, error: Exception | None) -> None:
        self.paging.on_paged(self.block, self.life, page, error)


@final
class Loaded:
    """Who hears of records that were read."""

    def __init__(self, paging: Paging, block: Block, life: i64) -> None:
        self.paging = paging
        self.block = block
        self.life = life

    def ended(self, reading: Reading, error: Exception | None) -> None:
        self.paging.on_loaded(self.block, self.life, reading, error)


def all_persistent(block: Block, backlog: Backlog) -> bool:
    """Whether everything in a block that still waits is in the store."""
    index: i64 = backlog.head_index if block is backlog.head else 0
    count: i64 = len(block.items)
    while index < count:
        message = block.items[index]
        if message is None or message.traits & P_PERSISTENT == 0:
            return False
        index += 1
    return True


def is_whole(block: Block) -> bool:
    """Whether a block still waits in memory, and nothing of it was handed out."""
    return block.place == HERE and bool(block.items) and block.items[0] is not None


def message_of(record: Publish, epoch_ns: i64) -> Message:
    """The message that a record was written of, as its queue holds it."""
    expires_at: i64 = 0
    if record.expires_us != 0:
        expires_at = max(i64(1), record.expires_us * 1000 - epoch_ns)
    message = Message(
        record.tail,
        record.props,
        record.body,
        None,
        record.body_size,
        record.traits,
        expires_at,
        split_keys(record.hidden) if record.hidden else None,
    )
    message.place = record.place
    return message
