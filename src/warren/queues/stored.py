"""What a queue has in the store: taking it over at a start, settling a level, leaving memory.

Functions of a queue for what happens once in a while; what happens for each message is in
`queue.py` and `ruled.py`.
"""

from typing import TYPE_CHECKING

from mypy_extensions import i64

from warren.protocol.properties import P_PERSISTENT
from warren.queues.backlog import IN_STORE, Backlog, Block, Returned
from warren.queues.gate import GATE_DEAD, GATE_EXPIRY, GATE_LONG, GATE_STORE
from warren.store.index import SEGMENT_MASK, QueueIndex

if TYPE_CHECKING:
    from warren.queues.queue import Queue


def join_store(
    queue: "Queue", index: QueueIndex, level: int, *, clean: bool, runs: list[tuple[int, int]]
) -> None:
    """Have the messages of a level stored, and take over those that are there (VQ-20).

    After an unclean stop all of them may have been handed out; otherwise those in `runs`.
    """
    queue.gate |= GATE_STORE
    if index.next_seq > queue.next_seq:
        # IX-12: what was given to messages that were not stored is not given again.
        queue.next_seq = (index.next_seq + SEGMENT_MASK) & ~SEGMENT_MASK
    backlog = queue.backlog
    if level == 0:
        queue.index = index
        if queue.ruled is not None:
            queue.ruled.lowest.index = index
    else:
        backlog = queue.long_way().restore(level, index).backlog
    paging = backlog.paging
    assert paging is not None
    paging.index = index
    if index.live == 0:
        # What damage took was not counted in octets.
        index.live_bytes = 0
        return
    block = Block(index.first_live())
    block.place = IN_STORE
    block.sealed = True
    block.out = index.live
    block.last = index.next_seq - 1
    block.octets = index.live_bytes
    block.kept = index.live_bytes
    backlog.begin_out(block)
    paging.last_out = block
    paging.again_below = index.next_seq
    paging.again_runs = [(first, first + count) for first, count in runs] if clean else None
    queue.out_count += index.live
    queue.out_octets += index.live_bytes
    queue.ready_bytes += index.live_bytes
    if index.expires:
        queue.gate |= GATE_EXPIRY
    if queue.gate & GATE_LONG != 0:
        # What expired meanwhile, or is over a limit, goes.
        queue.schedule()


def index_of_level(queue: "Queue", priority: i64) -> QueueIndex | None:
    """What the store is to have of the messages of a priority."""
    storage = queue.turn.storage
    if storage is None or queue.index is None:
        return None
    index = storage.persistence.open(int(queue.index.ident | priority))
    if queue.keeping:
        storage.retention.join(queue, index)
    return index


def settle_level(backlog: Backlog, returned: Returned, index: QueueIndex) -> None:
    """Settle what waits of one level; what is out with consumers stays (VQ-19)."""
    for item in returned.heap:
        if item.message.traits & P_PERSISTENT != 0:
            index.finish(item.seq, item.message.size, item.message.place)
    if backlog.count > 0:
        index.settle_from(backlog.first_seq(), backlog.kept_octets())


def reduce(queue: "Queue") -> bool:
    """Have messages leave until the rest costs no more than the share of this queue.

    A slice of them: True if there is more to do.
    """
    target: i64 = 0 if queue.rules.lazy else queue.memory_target
    if target < 0 or queue.gate & GATE_DEAD:
        return False
    if queue.ruled is not None:
        return queue.ruled.reduce(target)
    paging = queue.backlog.paging
    return paging is not None and paging.reduce(target)


def go_on(queue: "Queue") -> None:
    """Reading failed a while ago: try again."""
    paging = queue.backlog.paging
    if paging is not None and not queue.gate & GATE_DEAD:
        paging.loading = False
    if queue.ruled is not None:
        queue.ruled.read_again()
    queue.schedule()
    queue.tell_getters()
