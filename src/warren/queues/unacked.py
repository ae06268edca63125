"""Deliveries of one channel that await acknowledgement, by delivery tag (spec CS-6, AK-1).

A ring indexed by tag, so that an ack costs no hashing and `multiple` costs what it releases. Tags
handed to no-ack consumers leave holes; when the span between the oldest outstanding tag and the
newest grows far beyond the number outstanding, the ring turns into a dict, which keeps memory in
proportion to what is outstanding, and stays one until it is empty.

Invariant: every outstanding tag t has `base <= t < limit`, and `count` of them are outstanding.
"""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64, mypyc_attr

from warren.queues.message import Message
from warren.queues.ref import QueueRef

if TYPE_CHECKING:
    from warren.queues.consumer import Consumer

RING_MIN: Final = 16
# A ring may be this many times larger than what is outstanding before it turns into a dict.
SPARSE_FACTOR: Final = 16
SPARSE_MIN: Final = 4096


# Not seen by the cycle collector; a channel that ends empties its `Unacked`, which breaks the
# cycle through the consumer.
@mypyc_attr(acyclic=True, free_list_len=1)
@final
class Delivery:
    """One message handed out and not yet settled."""

    def __init__(
        self,
        tag: i64,
        seq: i64,
        message: Message,
        queue: QueueRef,
        consumer: "Consumer | None",
        at_ns: i64,
    ) -> None:
        self.tag = tag
        self.seq = seq
        self.message = message
        self.queue = queue
        self.consumer = consumer
        self.at_ns = at_ns


@final
class Unacked:
    def __init__(self) -> None:
        self.slots: list[Delivery | None] = []
        self.mask: i64 = -1
        self.base: i64 = 1
        self.limit: i64 = 1
        self.count: i64 = 0
        self.sparse: dict[int, Delivery] | None = None

    def add(self, delivery: Delivery) -> None:
        """Record a delivery; tags come in rising order."""
        tag = delivery.tag
        sparse = self.sparse
        if sparse is not None:
            sparse[int(tag)] = delivery
            self.count += 1
            self.limit = tag + 1
            return
        if self.count == 0:
            self.base = tag
        if tag - self.base > self.mask:
            self._grow(tag)
            sparse = self.sparse
            if sparse is not None:
                sparse[int(tag)] = delivery
                self.count += 1
                self.limit = tag + 1
                return
        self.slots[tag & self.mask] = delivery
        self.count += 1
        self.limit = tag + 1

    def _grow(self, tag: i64) -> None:
        """Make room for `tag`: advance past settled tags, else double, else go sparse."""
        self._advance()
        span = tag - self.base + 1
        if span <= self.mask + 1:
            return
        if span > SPARSE_MIN and span > self.count * SPARSE_FACTOR:
            self.sparse = {int(d.tag): d for d in self._outstanding()}
            self.slots = []
            self.mask = -1
            return
        size: i64 = RING_MIN
        while size < span:
            size <<= 1
        kept = self._outstanding()
        slots: list[Delivery | None] = [None] * size
        for delivery in kept:
            slots[delivery.tag & (size - 1)] = delivery
        self.slots = slots
        self.mask = size - 1

    def _advance(self) -> None:
        base = self.base
        slots = self.slots
        if self.count == 0:
            return
        while slots[base & self.mask] is None:
            base += 1
        self.base = base

    def _outstanding(self) -> list[Delivery]:
        found: list[Delivery] = []
        sparse = self.sparse
        if sparse is not None:
            found.extend(sparse.values())
            return found
        left = self.count
        tag = self.base
        while left > 0:
            delivery = self.slots[tag & self.mask]
            if delivery is not None:
                found.append(delivery)
                left -= 1
            tag += 1
        return found

    def part(self, tag: i64, most: i64) -> list[Delivery]:
        """What is outstanding of the next `most` tags from one on; of all when it is sparse."""
        found: list[Delivery] = []
        sparse = self.sparse
        if sparse is not None:
            found.extend([sparse[key] for key in sparse if key >= tag])
            return found
        end = min(tag + most, self.limit)
        tag = max(tag, self.base)
        while tag < end and self.count > 0:
            delivery = self.slots[tag & self.mask]
            if delivery is not None and delivery.tag == tag:
                found.append(delivery)
            tag += 1
        return found

    def take(self, tag: i64) -> Delivery | None:
        """Remove and return the delivery with this tag, or None if it is not outstanding."""
        sparse = self.sparse
        if sparse is not None:
            found = sparse.pop(int(tag), None)
            if found is not None:
                self.count -= 1
                if self.count == 0:
                    self.sparse = None
            return found
        if self.count == 0 or tag < self.base or tag >= self.limit:
            return None
        index = tag & self.mask
        delivery = self.slots[index]
        if delivery is None or delivery.tag != tag:
            return None
        self.slots[index] = None
        self.count -= 1
        if tag == self.base:
            self.base = tag + 1
        return delivery

    def holds(self, tag: i64) -> bool:
        sparse = self.sparse
        if sparse is not None:
            return int(tag) in sparse
        if self.count == 0 or tag < self.base or tag >= self.limit:
            return False
        return self.slots[tag & self.mask] is not None

    def take_through(self, tag: i64) -> list[Delivery]:
        """Remove and return all outstanding deliveries up to and including `tag`, in order."""
        taken: list[Delivery] = []
        sparse = self.sparse
        if sparse is not None:
            for key in list(sparse):
                if key > tag:
                    break
                taken.append(sparse.pop(key))
            self.count -= len(taken)
            if self.count == 0:
                self.sparse = None
            return taken
        slots = self.slots
        mask = self.mask
        base = self.base
        left = self.count
        if tag >= self.limit:
            tag = self.limit - 1
        while base <= tag and left > 0:
            index = base & mask
            delivery = slots[index]
            if delivery is not None:
                taken.append(delivery)
                slots[index] = None
                left -= 1
            base += 1
        self.base = base
        self.count = left
        return taken

    def take_all(self) -> list[Delivery]:
        """Remove and return everything outstanding, in tag order, and free the ring."""
        taken = self._outstanding()
        self.slots = []
        self.mask = -1
        self.base = self.limit
        self.count = 0
        self.sparse = None
        return taken

    def restore(self, deliveries: list[Delivery]) -> None:
        """Put deliveries back that a rolled back transaction had taken (TX-4), in tag order."""
        if not deliveries:
            return
        every = self.take_all()
        every.extend(deliveries)
        by_tag = {int(d.tag): d for d in every}
        for tag in sorted(by_tag):
            self.add(by_tag[tag])

    def oldest(self) -> Delivery | None:
        """Return the delivery that waits longest."""
        if self.count == 0:
            return None
        sparse = self.sparse
        if sparse is not None:
            return sparse[next(iter(sparse))]
        self._advance()
        return self.slots[self.base & self.mask]

    def older(self, at_ns: i64, most: i64) -> list[Delivery]:
        """Return the deliveries that were handed out before a time, the oldest first."""
        found: list[Delivery] = []
        sparse = self.sparse
        if sparse is not None:
            for delivery in sparse.values():
                if delivery.at_ns >= at_ns or len(found) >= most:
                    break
                found.append(delivery)
            return found
        left = min(self.count, most)
        tag = self.base
        while left > 0:
            outstanding = self.slots[tag & self.mask]
            tag += 1
            if outstanding is None:
                continue
            if outstanding.at_ns >= at_ns:
                break
            found.append(outstanding)
            left -= 1
        return found

    def idle(self) -> None:
        """Free the ring of a channel that has nothing outstanding."""
        if self.count == 0 and self.mask >= 0:
            self.slots = []
            self.mask = -1
