"""What has to hold of queues and their store whenever nothing is under way.

The invariants that the modules of `warren.queues` and `warren.store.index` state of themselves,
counted anew from the messages.
"""

from collections.abc import Iterator

from tests.support.stored_machine import StoredMachine
from warren.protocol.properties import P_PERSISTENT
from warren.queues.backlog import HERE, IN_STORE, Backlog, Block, Returned
from warren.queues.part import parts
from warren.queues.queue import Queue
from warren.store.index import SEGMENT_SHIFT, QueueIndex


def levels_of(queue: Queue) -> list[tuple[Backlog, Returned, QueueIndex | None]]:
    """The levels of a queue, the highest priority first."""
    if queue.ruled is None:
        return [(queue.backlog, queue.returned, queue.index)]
    return [
        (level.backlog, level.returned, level.index)
        for level in reversed(queue.ruled.levels)
        if level is not None
    ]


def blocks_of(backlog: Backlog) -> Iterator[Block]:
    block = backlog.head if backlog.count else None
    while block is not None:
        yield block
        block = block.next


def waiting(backlog: Backlog) -> list[tuple[int, int, bool]]:
    """Of what waits in memory: id, octets, whether it is persistent."""
    found: list[tuple[int, int, bool]] = []
    for block in blocks_of(backlog):
        if block.place != HERE:
            continue
        first = int(backlog.head_index) if block is backlog.head else 0
        for place in range(first, len(block.items)):
            message = block.items[place]
            assert message is not None
            persistent = message.traits & P_PERSISTENT != 0
            found.append((int(block.seq_at(place)), int(message.size), persistent))
    return found


def places_away(queue: Queue) -> list[bool]:
    """Of each ready message, in order, whether it is on the disk only."""
    flags: list[bool] = []
    for backlog, returned, _ in levels_of(queue):
        flags += [False] * len(returned.heap)
        for block in blocks_of(backlog):
            count = int(block.count())
            if block is backlog.head and block.place == HERE:
                count -= int(backlog.head_index)
            flags += [block.place != HERE] * count
    return flags


def live_of(index: QueueIndex) -> list[int]:
    found: list[int] = []
    for segment in index.segments.values():
        first = int(segment.number) << SEGMENT_SHIFT
        live = [seq for seq in range(first, int(segment.end)) if not segment.is_settled(seq)]
        assert len(live) == segment.live, f"segment {segment.number} of {index.ident}"
        found += live
    assert len(found) == index.live
    return sorted(found)


def check_store(machine: StoredMachine) -> None:
    """Compare every queue with its store and its own counts."""
    out: dict[int, list[tuple[int, int, bool, int]]] = {}
    for peer in machine.peers:
        for channel in peer.connection.channels.values():
            for delivery in channel.outlet.unacked._outstanding():
                message = delivery.message
                persistent = message.traits & P_PERSISTENT != 0
                level = 0
                queue = delivery.queue
                assert isinstance(queue, Queue)
                if queue.ruled is not None and queue.rules.max_priority:
                    level = int(queue.ruled._index(message))
                one = (int(delivery.seq), int(message.size), persistent, level)
                out.setdefault(id(queue), []).append(one)
    for queue in machine.vhost.queues.values():
        check_queue(queue, out.get(id(queue), []))


def check_queue(queue: Queue, unacked: list[tuple[int, int, bool, int]]) -> None:
    out_count = out_octets = upper = octets = 0
    levels = levels_of(queue)
    for backlog, returned, index in levels:
        here = waiting(backlog)
        away = [block for block in blocks_of(backlog) if block.place != HERE]
        count = sum(int(block.out) for block in away)
        assert (backlog.outs, backlog.out_count) == (len(away), count), queue.name
        assert backlog.out_octets == sum(int(block.octets) for block in away), queue.name
        assert backlog.count == len(here) + count, queue.name
        before = 0
        for block in blocks_of(backlog):
            if block.place != HERE:
                break
            first = int(backlog.head_index) if block is backlog.head else 0
            before += len(block.items) - first
        assert backlog.here == before, queue.name
        check_order(backlog)
        out_count += count
        out_octets += int(backlog.out_octets)
        octets += sum(size for _, size, _ in here) + int(backlog.out_octets)
        octets += sum(int(item.message.size) for item in returned.heap)
        if backlog is not queue.backlog:
            upper += int(backlog.count) + len(returned.heap)
        if index is not None:
            check_index(queue, backlog, returned, index, unacked, here)
    check_parts(queue)
    assert (queue.out_count, queue.out_octets) == (out_count, out_octets), queue.name
    assert queue.ready_bytes == octets, queue.name
    assert queue.upper == upper, queue.name


def check_parts(queue: Queue) -> None:
    """VQ-2."""
    found = parts(queue)
    q1, q2, delta, q3, q4 = found.q1, found.q2, found.delta, found.q3, found.q4
    assert min(q1, q2, delta.count, q3, q4) >= 0, found
    assert q1 + q2 + delta.count + q3 + q4 == queue.ready(), found
    assert delta.transient <= delta.count, found
    if delta.count:
        assert 0 <= delta.start <= delta.start + delta.count <= delta.end, found
    if queue.rules.lazy:
        assert q1 == q2 == q4 == 0, found
        return
    assert q3 or not q1, found
    assert delta.count or not q2, found
    assert q3 or not delta.count, found
    assert (q3 + q4 == 0) == (queue.ready() == 0), found


def check_order(backlog: Backlog) -> None:
    """VQ-1: what waits is in the order of its ids."""
    last = -1
    for block in blocks_of(backlog):
        if block.place != HERE:
            assert last < block.first <= block.last
            assert 0 < block.out <= block.last + 1 - block.first
            last = int(block.last)
            continue
        begin = int(backlog.head_index) if block is backlog.head else 0
        for place in range(begin, len(block.items)):
            seq = int(block.seq_at(place))
            assert last < seq
            last = seq


def check_index(
    queue: Queue,
    backlog: Backlog,
    returned: Returned,
    index: QueueIndex,
    unacked: list[tuple[int, int, bool, int]],
    here: list[tuple[int, int, bool]],
) -> None:
    """What is live in the store is what waits there or is out with a client, and nothing else."""
    level = int(index.ident) & 0xFF
    known = [(seq, size) for seq, size, persistent in here if persistent]
    known += [
        (int(item.seq), int(item.message.size))
        for item in returned.heap
        if item.message.traits & P_PERSISTENT
    ]
    known += [(seq, size) for seq, size, persistent, at in unacked if persistent and at == level]
    live = set(live_of(index))
    octets = sum(size for _, size in known)
    for block in blocks_of(backlog):
        if block.place == IN_STORE:
            there = {seq for seq in live if block.first <= seq <= block.last}
            assert len(there) == block.out, f"{queue.name}: {there} for {block.out}"
            live -= there
            octets += int(block.octets)
        elif block.place != HERE:
            there = {seq for seq in live if block.first <= seq <= block.last}
            assert len(there) <= block.out
            live -= there
            octets += int(block.kept)
    assert live == {seq for seq, _ in known}, f"{queue.name}: the store has {sorted(live)}"
    assert index.live_bytes == octets, f"{queue.name}: {index.live_bytes} octets, not {octets}"
