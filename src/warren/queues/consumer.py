"""Consumers of a queue: who is able to take a message, and whose turn it is (spec CS-3, QO-*).

Consumers of one priority that are able form a circle; one that is not (prefetch full, its peer
does not read) leaves the circle until an ack or a drained socket lets it back in. So choosing the
next consumer never looks at those that cannot take anything.
"""

from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from warren.protocol.output import deliver_method
from warren.protocol.value import Table
from warren.queues.message import Message
from warren.queues.outlet import Outlet
from warren.queues.unacked import Delivery

if TYPE_CHECKING:
    from warren.queues.queue import Queue


@final
class Consumer:
    def __init__(
        self,
        tag: str,
        queue: "Queue",
        outlet: Outlet,
        *,
        no_ack: bool,
        exclusive: bool,
        priority: int,
        prefetch: int,
        arguments: Table,
    ) -> None:
        self.tag = tag
        self.queue = queue
        self.outlet = outlet
        self.no_ack = no_ack
        self.exclusive = exclusive
        self.priority = priority
        self.arguments = arguments
        # The per-consumer prefetch limit (QO-1); no_ack consumers have none (QO-4).
        self.limit: i64 = 0 if no_ack else prefetch
        self.unacked: i64 = 0
        self.passed_over = False
        self.gone = False
        # The neighbours in the circle; None outside it.
        self.next: Consumer | None = None
        self.previous: Consumer | None = None
        self.group: ConsumerGroup | None = None
        self.method = deliver_method(tag)

    def able(self) -> bool:
        """Whether this consumer can take one more message now."""
        outlet = self.outlet
        limit = self.limit
        if limit != 0 and self.unacked >= limit:
            return False
        if outlet.limit != 0 and outlet.unacked.count + outlet.deferred >= outlet.limit:
            return False
        output = outlet.output
        if output.size() > output.bound:
            output.stalled = True
            return False
        return True

    def send(self, seq: i64, message: Message, again: bool) -> None:
        """Write one message to the peer; the next message is the next consumer's turn."""
        outlet = self.outlet
        tag = outlet.next_tag
        outlet.next_tag = tag + 1
        outlet.delivered += 1
        if message.more is None:
            outlet.output.deliver(
                self.method, tag, again, outlet.number, message.tail, message.props, message.body
            )
        else:
            outlet.output.deliver_chunks(
                self.method, tag, again, outlet.number, message.tail, message.props, message.more
            )
        queue = self.queue
        if self.no_ack:
            queue.settled_count += 1
        else:
            outlet.unacked.add(Delivery(tag, seq, message, queue, self, outlet.turn.now_ns))
            self.unacked += 1
            queue.unacked_count += 1
        group = self.group
        if group is not None:
            group.cursor = self.next

    def rejoin(self) -> None:
        """Take part again."""
        self.passed_over = False
        self.outlet.waiting -= 1
        group = self.group
        if group is not None:
            group.join(self)
            self.queue.schedule()


@final
class ConsumerGroup:
    """The able consumers of one priority, in a circle; `cursor` is whose turn it is."""

    def __init__(self, priority: int) -> None:
        self.priority = priority
        self.cursor: Consumer | None = None
        # Consumers of this priority, in the circle or passed over.
        self.members: i64 = 0

    def join(self, consumer: Consumer) -> None:
        """Add as the last of this round."""
        cursor = self.cursor
        if cursor is None:
            consumer.next = consumer
            consumer.previous = consumer
            self.cursor = consumer
        else:
            last = cursor.previous
            assert last is not None
            last.next = consumer
            consumer.previous = last
            consumer.next = cursor
            cursor.previous = consumer

    def leave(self, consumer: Consumer) -> None:
        following = consumer.next
        before = consumer.previous
        assert following is not None
        assert before is not None
        if following is consumer:
            self.cursor = None
        else:
            before.next = following
            following.previous = before
            if self.cursor is consumer:
                self.cursor = following
        consumer.next = None
        consumer.previous = None


@final
class Consumers:
    """All consumers of one queue.

    With `single` only the active one is in a group and gets messages; the others are known in
    `every`, in the order they came, and wait (SA-1).
    """

    def __init__(self) -> None:
        self.every: list[Consumer] = []
        self.single = False
        self.active: Consumer | None = None
        # Highest priority first; a group stays while a consumer of its priority exists.
        self.groups: list[ConsumerGroup] = []

    def next(self) -> Consumer | None:
        """Return the consumer whose turn it is, or None when none is able."""
        for group in self.groups:
            cursor = group.cursor
            while cursor is not None:
                if cursor.able():
                    return cursor
                cursor.passed_over = True
                cursor.outlet.waiting += 1
                group.leave(cursor)
                cursor = group.cursor
        return None

    def is_able(self) -> bool:
        """Whether some consumer would take a message now."""
        for group in self.groups:
            cursor = group.cursor
            if cursor is not None and cursor.able():
                return True
        return False

    def add(self, consumer: Consumer) -> None:
        self.every.append(consumer)
        if self.single:
            if self.active is not None:
                return
            self.active = consumer
        self._enter(consumer)

    def _enter(self, consumer: Consumer) -> None:
        group = self._group(consumer.priority)
        group.members += 1
        consumer.group = group
        group.join(consumer)

    def remove(self, consumer: Consumer) -> None:
        consumer.gone = True
        self.every.remove(consumer)
        self._leave(consumer)
        if self.active is consumer:
            self.active = self._successor()
            if self.active is not None:
                self._enter(self.active)

    def _successor(self) -> Consumer | None:
        """Who becomes active: the highest priority, then the one that waits longest."""
        best: Consumer | None = None
        for consumer in self.every:
            if best is None or consumer.priority > best.priority:
                best = consumer
        return best

    def _leave(self, consumer: Consumer) -> None:
        group = consumer.group
        if group is None:
            return
        if consumer.passed_over:
            consumer.passed_over = False
            consumer.outlet.waiting -= 1
        else:
            group.leave(consumer)
        consumer.group = None
        group.members -= 1
        if group.members == 0:
            self.groups.remove(group)

    def _group(self, priority: int) -> ConsumerGroup:
        index = 0
        for group in self.groups:
            if group.priority == priority:
                return group
            if group.priority < priority:
                break
            index += 1
        created = ConsumerGroup(priority)
        self.groups.insert(index, created)
        return created
