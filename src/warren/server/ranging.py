"""Driving a range read on the node: slices of it between turns, and what all channels hold.

Known shortcoming: transient messages that `get` of the control interface has taken and not given
back yet are on no connection, and so in no answer that is made meanwhile.
"""

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from warren.queues import Delivery, Queue
from warren.queues.ranged import Ended, Range, RangeError, RangeRead
from warren.server.control import Code, ControlError

if TYPE_CHECKING:
    from warren.server.node import Node

# Tags that are looked at in one slice, and channels.
SLICE_TAGS: Final = 2048
SLICE_CHANNELS: Final = 256

_CODES: Final = {Ended.PURGED: Code.PURGED, Ended.DELETED: Code.DELETED}


async def read_range(node: "Node", queue: Queue, wanted: Range) -> RangeRead:
    """Return one answer; a `ControlError` if the queue was purged or deleted meanwhile."""
    read = RangeRead(queue, wanted, partial(held, node))
    woken = asyncio.Event()
    read.wake = woken.set
    try:
        while not read.step():
            if read.waiting:
                await woken.wait()
                woken.clear()
            else:
                await asyncio.sleep(0)
    except RangeError as ended:
        raise refused(queue, ended) from None
    finally:
        read.close()
    return read


def refused(queue: Queue, ended: RangeError) -> ControlError:
    name = f"queue '{queue.name}' in vhost '{queue.vhost}'"
    code = _CODES.get(ended.reason)
    if code is None:
        return ControlError(Code.REFUSED, f"{name} cannot be read: {ended}", "see the node's log")
    return ControlError(code, f"{name} was {ended.reason.value} while it was read", _advice(code))


def check(queue: Queue, incarnation: int | None, purges: int | None) -> None:
    """Refuse to go on with another queue than the one that was begun with (PL-4)."""
    name = f"queue '{queue.name}' in vhost '{queue.vhost}'"
    if incarnation is not None and incarnation != queue.incarnation:
        message = f"{name} is not {incarnation} but {queue.incarnation}: it was made anew"
        raise ControlError(Code.WRONG_INCARNATION, message, _advice(Code.DELETED))
    if purges is not None and purges != queue.purge_count:
        raise ControlError(Code.PURGED, f"{name} was purged", _advice(Code.PURGED))


def _advice(code: Code) -> str:
    if code is Code.PURGED:
        return "what was left of it is gone; begin anew with what range_info says now"
    return "its messages went with it; begin anew if there is one of that name"


def held(node: "Node") -> Iterator[list[Delivery]]:
    """All that channels hold unacknowledged, some at a time."""
    found: list[Delivery] = []
    looked = 0
    for link in list(node.hub.links.values()):
        connection = link.connection
        for channel in [] if connection is None else list(connection.channels.values()):
            unacked = channel.outlet.unacked
            tag = 0
            while unacked.count > 0 and tag < unacked.limit:
                found += unacked.part(tag, SLICE_TAGS)
                if unacked.sparse is not None:
                    break
                tag = max(tag, int(unacked.base)) + SLICE_TAGS
                if len(found) >= SLICE_TAGS:
                    yield found
                    found = []
            if channel.tx is not None:
                # Settled in a transaction that is open: not yet for the queue.
                for settlement in channel.tx.settlements:
                    found += settlement.deliveries
            looked += 1
            if looked % SLICE_CHANNELS == 0 or len(found) >= SLICE_TAGS:
                yield found
                found = []
    yield found
