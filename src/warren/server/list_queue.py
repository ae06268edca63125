"""What can be listed of queues: the columns of `list_queues` in RabbitMQ's words.

Cells without a value are None. Some columns say less here than there: a queue does not count the
octets of messages that are out, nor which of its messages are persistent.
"""

from typing import Final

from msgspec import Raw
from mypy_extensions import i64

from warren.protocol.properties import decode
from warren.queues import Queue
from warren.queues.message import Message
from warren.queues.queue import GATE_SUSPENDED
from warren.server.list_cell import Cell, typed_table
from warren.server.pid import Pid
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
    return "flow" if queue.slow or queue.gate & GATE_SUSPENDED else "running"


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


_MESSAGES: Final[dict[str, QueueCell]] = {
    "messages": lambda one: int(one.ready() + one.unacked_count),
    "messages_ready": lambda one: int(one.ready()),
    "messages_unacknowledged": lambda one: int(one.unacked_count),
    "messages_ram": lambda one: int(one.ready() + one.unacked_count - one.out_count),
    "messages_ready_ram": lambda one: int(one.ready() - one.out_count),
    "messages_unacknowledged_ram": lambda one: int(one.unacked_count),
    "messages_persistent": _nothing,
    "message_bytes": lambda one: int(one.ready_bytes),
    "message_bytes_ready": lambda one: int(one.ready_bytes),
    "message_bytes_ram": lambda one: int(one.ready_bytes - one.out_octets),
    "message_bytes_unacknowledged": _nothing,
    "message_bytes_persistent": _nothing,
    "head_message_timestamp": head_timestamp,
    "disk_reads": lambda one: 0,
    "disk_writes": lambda one: 0,
}
