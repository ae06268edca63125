"""What can be listed of queues: the columns of `list_queues` in RabbitMQ's words.

Cells without a value are None. Some columns say less here than there: a queue does not count the
octets of messages that are out with clients.
"""

from collections.abc import Iterator
from typing import Final

from msgspec import Raw
from mypy_extensions import i64

from warren.protocol.properties import decode
from warren.queues import Queue
from warren.queues.backlog import IN_PAGES, Backlog, Block
from warren.queues.message import Message
from warren.queues.part import UNDEFINED, parts, target_ram_count
from warren.server.list_cell import Cell, typed_table
from warren.server.pid import Pid
from warren.store.index import QueueIndex
from warren.vhost.policy_effect import as_json
from warren.vhost.policy_force import in_force

# What a message in memory costs besides its octets, on average.
MESSAGE_COST: Final = 120
QUEUE_COST: Final = 2048

QueueCell = Cell[Queue]


def head(queue: Queue) -> Message | None:
    """Return the message that would be delivered next, if it is in memory."""
    if queue.ready() == 0:
        return None
    if queue.upper > 0 and queue.ruled is not None:
        for level in reversed(queue.ruled.levels):
            if level is not None and level.count() > 0:
                return level.first() if level.here() else None
    if queue.returned.heap:
        return queue.returned.heap[0].message
    return queue.backlog.peek() if queue.backlog.here > 0 else None


def head_timestamp(queue: Queue) -> int | None:
    first = head(queue)
    return None if first is None else decode(first.props).timestamp


def state(queue: Queue) -> str:
    return "flow" if queue.in_flow() else "running"


def queue_type(queue: Queue) -> str:
    given = queue.arguments.get("x-queue-type")
    value = None if given is None else given.value
    return value.decode(errors="replace") if isinstance(value, bytes) else "classic"


def memory(queue: Queue) -> int:
    """Estimate what the queue holds in memory."""
    count: i64 = queue.ready() + queue.unacked_count - queue.out_count
    return QUEUE_COST + MESSAGE_COST * int(count) + int(queue.ready_bytes - queue.out_octets)


def capacity(queue: Queue) -> int:
    """Tell whether a consumer could take a message at this moment: 1 or 0."""
    return int(any(not one.passed_over for one in queue.consumers.every))


def _exclusive_tag(queue: Queue) -> str | None:
    return next((one.tag for one in queue.consumers.every if one.exclusive), None)


def backlogs(queue: Queue) -> Iterator[tuple[Backlog, QueueIndex | None]]:
    """Return what waits at each level, and what the store has of it."""
    if queue.ruled is None:
        yield queue.backlog, queue.index
        return
    for level in queue.ruled.levels:
        if level is not None:
            yield level.backlog, level.index


def paged(queue: Queue) -> tuple[int, int]:
    """Count messages in page files, and their octets."""
    count = octets = 0
    for backlog, _ in backlogs(queue):
        block: Block | None = backlog.head if backlog.outs else None
        while block is not None:
            if block.place == IN_PAGES:
                count += int(block.out)
                octets += int(block.octets)
            block = block.next
    return count, octets


def persistent(queue: Queue) -> tuple[int, int]:
    """Count the messages that are in the store, and their octets; also those out with clients."""
    stored = [index for _, index in backlogs(queue) if index is not None]
    return sum(int(one.live) for one in stored), sum(int(one.live_bytes) for one in stored)


def disk_reads(queue: Queue) -> int:
    return sum(int(each.paging.reads) for each, _ in backlogs(queue) if each.paging is not None)


def disk_writes(queue: Queue) -> int:
    paged_out = (int(each.paging.writes) for each, _ in backlogs(queue) if each.paging is not None)
    return sum(paged_out) + sum(int(one.written) for _, one in backlogs(queue) if one is not None)


def backing_queue_status(queue: Queue) -> dict[str, object]:
    """Tell where the messages are, in the words of the reference."""
    found = parts(queue)
    delta = found.delta
    start, end = ("undefined" if each == UNDEFINED else each for each in (delta.start, delta.end))
    target = target_ram_count(queue)
    storage = queue.turn.storage
    rates = None if storage is None else storage.rates.get(id(queue))
    ingress, egress, ack_ingress, ack_egress = rates or (0.0, 0.0, 0.0, 0.0)
    return {
        "mode": "lazy" if queue.rules.lazy else "default",
        "q1": found.q1,
        "q2": found.q2,
        "delta": ["delta", start, delta.count, delta.transient, end],
        "q3": found.q3,
        "q4": found.q4,
        "len": int(queue.ready()),
        "target_ram_count": "infinity" if target is None else target,
        "next_seq_id": int(queue.next_seq),
        "avg_ingress_rate": ingress,
        "avg_egress_rate": egress,
        "avg_ack_ingress_rate": ack_ingress,
        "avg_ack_egress_rate": ack_egress,
    }


def queue_cells(node: str, creation: int) -> dict[str, QueueCell]:
    """Return the columns of queues on this node."""
    pid = str(Pid(node, creation, 0))
    plain: dict[str, QueueCell] = {
        "name": lambda one: one.name,
        "vhost": lambda one: one.vhost,
        "durable": lambda one: one.durable,
        "auto_delete": lambda one: one.auto_delete,
        "arguments": lambda one: typed_table(one.arguments),
        "policy": lambda one: in_force(one).policy or None,
        "operator_policy": lambda one: in_force(one).operator_policy or None,
        "effective_policy_definition": lambda one: Raw(as_json(in_force(one).effective)),
        "pid": lambda one: pid,
        "owner_pid": lambda one: str(Pid(node, creation, one.owner)) if one.owner else None,
        "exclusive": lambda one: one.owner != 0,
        "exclusive_consumer_pid": lambda one: None if _exclusive_tag(one) is None else pid,
        "exclusive_consumer_tag": _exclusive_tag,
        "state": state,
        "type": queue_type,
        "memory": memory,
        "consumers": lambda one: len(one.consumers.every),
        "consumer_utilisation": capacity,
        "consumer_capacity": capacity,
    }
    plain |= dict.fromkeys(("slave_pids", "synchronised_slave_pids"), _nothing)
    plain |= dict.fromkeys(("leader", "members", "online"), _nothing)
    return plain | _MESSAGES


def _nothing(queue: Queue) -> None:
    return None


def _keys(queue: Queue) -> tuple[int, int]:
    """Count the keys that tell duplicates, and those that were given up before their time."""
    keys = queue.deduplication
    return (0, 0) if keys is None else (int(keys.count), int(keys.forgotten))


_MESSAGES: Final[dict[str, QueueCell]] = {
    "messages": lambda one: int(one.ready() + one.unacked_count),
    "messages_ready": lambda one: int(one.ready()),
    "messages_unacknowledged": lambda one: int(one.unacked_count),
    "messages_ram": lambda one: int(one.ready() + one.unacked_count - one.out_count),
    "messages_ready_ram": lambda one: int(one.ready() - one.out_count),
    "messages_unacknowledged_ram": lambda one: int(one.unacked_count),
    "messages_persistent": lambda one: persistent(one)[0],
    "messages_paged_out": lambda one: paged(one)[0],
    "message_bytes": lambda one: int(one.ready_bytes),
    "message_bytes_ready": lambda one: int(one.ready_bytes),
    "message_bytes_ram": lambda one: int(one.ready_bytes - one.out_octets),
    "message_bytes_unacknowledged": _nothing,
    "message_bytes_persistent": lambda one: persistent(one)[1],
    "message_bytes_paged_out": lambda one: paged(one)[1],
    "head_message_timestamp": head_timestamp,
    "messages_deduplicated": lambda one: int(one.deduplicated_count),
    "deduplication_keys": lambda one: _keys(one)[0],
    "deduplication_keys_forgotten": lambda one: _keys(one)[1],
    "disk_reads": disk_reads,
    "disk_writes": disk_writes,
    "backing_queue_status": backing_queue_status,
}
