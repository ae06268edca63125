"""One queue on this node: ready messages, consumers, and the hand-over between them.

Invariant: when messages are ready and a consumer is able, the queue is scheduled in `Turn`; so a
message that finds the backlog empty and a consumer able goes straight through, and one that finds
the backlog not empty waits behind it (order per queue, spec PB-6).

`gate` is zero for a queue without special rules. Features that must look at each message (limits,
TTL, priorities, a store) set a bit, and `publish` takes the long way; the short way never learns
of them.
"""

from typing import Final, final

from mypy_extensions import i64

from warren.protocol.value import Table
from warren.queues.backlog import Backlog, Returned, ReturnedMessage
from warren.queues.confirm import ConfirmLedger
from warren.queues.consumer import Consumer, Consumers
from warren.queues.message import Message
from warren.queues.outlet import ConsumerOwner
from warren.queues.ref import HELD, PENDING, TAKEN, QueueRef
from warren.queues.turn import Turn
from warren.queues.unacked import Delivery

GATE_DEAD: Final = 1
GATE_SUSPENDED: Final = 2


@final
class HeldPublish:
    """A publish that waits in front of a suspended queue."""

    def __init__(self, message: Message, ledger: ConfirmLedger | None, number: i64) -> None:
        self.message = message
        self.ledger = ledger
        self.number = number


@final
class Got:
    """What basic.get takes away."""

    def __init__(self, seq: i64, message: Message, again: bool, left: i64) -> None:
        self.seq = seq
        self.message = message
        self.again = again
        self.left = left


@final
class Queue(QueueRef):
    def __init__(
        self,
        name: str,
        vhost: str,
        turn: Turn,
        *,
        durable: bool,
        auto_delete: bool,
        owner: int,
        arguments: Table,
    ) -> None:
        super().__init__(name)
        self.vhost = vhost
        self.turn = turn
        self.durable = durable
        self.auto_delete = auto_delete
        # The connection that declared it exclusively; 0 when it is not exclusive.
        self.owner = owner
        self.arguments = arguments
        self.gate: i64 = 0
        self.backlog = Backlog()
        self.returned = Returned()
        self.ready_bytes: i64 = 0
        self.unacked_count: i64 = 0
        self.settled_count: i64 = 0
        self.consumers = Consumers()
        self.had_consumer = False
        self.scheduled = False
        self.held: list[HeldPublish] = []
        self.watchers: list[ConsumerOwner] = []

    # -- publishing ----------------------------------------------------------------------------

    def publish(self, message: Message, ledger: ConfirmLedger | None, number: i64) -> i64:
        if self.gate != 0:
            return self._publish_gated(message, ledger, number)
        backlog = self.backlog
        if backlog.count == 0 and not self.returned.heap:
            consumer = self.consumers.next()
            if consumer is not None:
                consumer.send(backlog.skip(), message, False)
                return TAKEN
        backlog.push(message)
        self.ready_bytes += message.size
        return TAKEN

    def _publish_gated(self, message: Message, ledger: ConfirmLedger | None, number: i64) -> i64:
        if self.gate & GATE_DEAD:
            # Deleted in the moment: responsibility ends with the queue (QD-8).
            return TAKEN
        self.held.append(HeldPublish(message, ledger, number))
        return HELD if ledger is None else PENDING

    def watch(self, owner: ConsumerOwner) -> None:
        self.watchers.append(owner)

    def _open_gate(self) -> None:
        watchers = self.watchers
        self.watchers = []
        for owner in watchers:
            owner.on_queue_open(self.name)

    # -- delivering ----------------------------------------------------------------------------

    def ready(self) -> i64:
        return self.backlog.count + len(self.returned.heap)

    def pressure(self) -> i64:
        if not self.consumers.every:
            return 0
        return self.backlog.count

    def schedule(self) -> None:
        """Have ready messages handed out at the end of this turn."""
        if not self.scheduled and (self.backlog.count > 0 or self.returned.heap):
            self.scheduled = True
            self.turn.queues.append(self)

    def pump(self, most: i64) -> bool:
        """Hand out up to `most` ready messages; True if more could go."""
        if self.gate & GATE_SUSPENDED:
            return False
        backlog = self.backlog
        returned = self.returned
        while backlog.count > 0 or returned.heap:
            consumer = self.consumers.next()
            if consumer is None:
                return False
            if most == 0:
                return True
            most -= 1
            if returned.heap:
                item = returned.pop()
                self.ready_bytes -= item.message.size
                consumer.send(item.seq, item.message, True)
            else:
                seq = backlog.head_seq
                message = backlog.pop()
                self.ready_bytes -= message.size
                consumer.send(seq, message, False)
        return False

    def get(self) -> Got | None:
        """Take the oldest ready message for basic.get, whatever consumers there are (GT-1)."""
        if self.returned.heap:
            item = self.returned.pop()
            self.ready_bytes -= item.message.size
            return Got(item.seq, item.message, True, self.ready())
        if self.backlog.count == 0:
            return None
        seq = self.backlog.head_seq
        message = self.backlog.pop()
        self.ready_bytes -= message.size
        return Got(seq, message, False, self.ready())

    # -- settling ------------------------------------------------------------------------------

    def lend(self, delivery: Delivery) -> None:
        """A message taken by `get` is out until it is settled."""
        self.unacked_count += 1

    def settle(self, delivery: Delivery) -> None:
        self.unacked_count -= 1
        self.settled_count += 1

    def discard(self, delivery: Delivery) -> None:
        # Without a dead-letter exchange a rejected message is dropped.
        self.unacked_count -= 1
        self.settled_count += 1

    def requeue(self, deliveries: list[Delivery]) -> None:
        if self.gate & GATE_DEAD:
            return
        for delivery in deliveries:
            message = delivery.message
            self.returned.push(ReturnedMessage(delivery.seq, message))
            self.ready_bytes += message.size
        self.unacked_count -= len(deliveries)
        self.schedule()

    # -- consumers -----------------------------------------------------------------------------

    def add_consumer(self, consumer: Consumer) -> None:
        self.had_consumer = True
        self.consumers.add(consumer)
        self.schedule()

    def remove_consumer(self, consumer: Consumer) -> bool:
        """Take a consumer away; True if the queue is to be deleted now (QD-6)."""
        if consumer.gone:
            return False
        self.consumers.remove(consumer)
        return self.auto_delete and not self.consumers.every and not self.gate & GATE_DEAD

    def has_exclusive_consumer(self) -> bool:
        return any(consumer.exclusive for consumer in self.consumers.every)

    # -- the whole queue -----------------------------------------------------------------------

    def purge(self) -> i64:
        """Drop all ready messages; their memory is freed in slices. Return how many."""
        count = self.ready()
        blocks = self.backlog.drop_all()
        if blocks is not None:
            self.turn.garbage.append(blocks)
        self.returned.heap = []
        self.ready_bytes = 0
        self.settled_count += count
        return count

    def close(self) -> list[Consumer]:
        """End this incarnation; return the consumers that were cut off, for them to be told."""
        self.gate |= GATE_DEAD
        self.purge()
        held = self.held
        self.held = []
        for publish in held:
            if publish.ledger is not None:
                publish.ledger.answer(publish.number, True)
        self._open_gate()
        cut = list(self.consumers.every)
        for consumer in cut:
            self.consumers.remove(consumer)
        return cut

    def suspend(self) -> None:
        """Stop taking and handing out messages; publishes wait in front."""
        self.gate |= GATE_SUSPENDED

    def resume(self) -> None:
        """Go on with what was held, in order."""
        self.gate &= ~GATE_SUSPENDED
        held = self.held
        self.held = []
        for publish in held:
            self.publish(publish.message, None, 0)
            if publish.ledger is not None:
                publish.ledger.answer(publish.number, True)
        self.schedule()
        self._open_gate()
