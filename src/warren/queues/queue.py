"""One queue on this node: ready messages, consumers, and the hand-over between them.

Invariant: when messages are ready and a consumer is able, the queue is scheduled in `Turn`; so a
message that finds the backlog empty and a consumer able goes straight through, and one that finds
the backlog not empty waits behind it (order per queue, spec PB-6).

`gate` is zero for a queue without special rules. What must look at each message (limits, TTL,
priorities, counted deliveries, a store) sets a bit, and the queue takes the long way of `Ruled`;
the short way never learns of them.
"""

from typing import Final, final

from mypy_extensions import i64

from warren.protocol.properties import P_EXPIRATION
from warren.protocol.value import Table
from warren.queues.backlog import Backlog, Returned, ReturnedMessage
from warren.queues.confirm import ConfirmLedger
from warren.queues.consumer import Consumer, Consumers
from warren.queues.keeper import QueueKeeper
from warren.queues.message import Message
from warren.queues.outlet import ConsumerOwner
from warren.queues.ref import HELD, PENDING, REFUSED, TAKEN, QueueRef
from warren.queues.ruled import MS, P_COUNTED, Ruled, with_count
from warren.queues.rules import NO_RULES, REJECTED, QueueRules
from warren.queues.timer import Timer
from warren.queues.turn import Turn
from warren.queues.unacked import Delivery

GATE_DEAD: Final = 1
GATE_SUSPENDED: Final = 2
GATE_RULES: Final = 4


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
class UnusedTimer(Timer):
    """A queue may have been unused for its time (QD-7)."""

    def __init__(self, queue: "Queue") -> None:
        super().__init__()
        self.queue: Queue | None = queue

    def fire(self, now_ns: i64) -> None:
        queue = self.queue
        if queue is not None:
            queue.retire_if_unused(now_ns)


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
        rules: QueueRules | None = None,
        keeper: QueueKeeper | None = None,
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
        self.keeper = keeper or QueueKeeper()
        # What is in force here; whoever makes the rules notes it, the queue never looks at it.
        self.policy: object | None = None
        self.rules = NO_RULES
        self.ruled: Ruled | None = None
        # Ready messages of a priority above the lowest, which `ruled` holds.
        self.upper: i64 = 0
        self.unused_timer: UnusedTimer | None = None
        self.used_ns: i64 = turn.now_ns
        # What became of messages that nobody settled, and publishes that were not taken.
        self.expired_count: i64 = 0
        self.dropped_count: i64 = 0
        self.over_limit_count: i64 = 0
        self.refused_count: i64 = 0
        if rules is not None:
            self.set_rules(rules)

    # -- rules ---------------------------------------------------------------------------------

    def set_rules(self, rules: QueueRules) -> None:
        """Take over what arguments and policies come to now (PO-8)."""
        self.rules = rules
        self.consumers.single = rules.single_active
        if rules.look_at_publishes():
            self._long_way()
            self.gate |= GATE_RULES
        else:
            self.gate &= ~GATE_RULES
        self._watch_use()
        # What is over a new limit goes at the end of this turn.
        self.schedule()

    def _long_way(self) -> Ruled:
        ruled = self.ruled
        if ruled is None:
            ruled = Ruled(self)
            self.ruled = ruled
        return ruled

    def touch(self) -> None:
        """The queue is used: its time without use begins anew."""
        self.used_ns = self.turn.now_ns

    def _watch_use(self) -> None:
        timer = self.unused_timer
        if self.rules.expires_ms < 0 or self.gate & GATE_DEAD:
            if timer is not None:
                self.turn.timers.cancel(timer)
            return
        if timer is None:
            timer = UnusedTimer(self)
            self.unused_timer = timer
        self.touch()
        self.turn.timers.arm(timer, self.used_ns + self.rules.expires_ms * MS)

    def retire_if_unused(self, now_ns: i64) -> None:
        timer = self.unused_timer
        if timer is None or self.consumers.every or self.rules.expires_ms < 0:
            return
        due = self.used_ns + self.rules.expires_ms * MS
        if now_ns < due:
            self.turn.timers.arm(timer, due)
        else:
            self.keeper.retire(self)

    # -- publishing ----------------------------------------------------------------------------

    def publish(self, message: Message, ledger: ConfirmLedger | None, number: i64) -> i64:
        if self.gate != 0 or message.traits & P_EXPIRATION != 0:
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
        if self.gate & GATE_SUSPENDED:
            self.held.append(HeldPublish(message, ledger, number))
            return HELD if ledger is None else PENDING
        return self._long_way().publish(message)

    def watch(self, owner: ConsumerOwner) -> None:
        self.watchers.append(owner)

    def _open_gate(self) -> None:
        watchers = self.watchers
        self.watchers = []
        for owner in watchers:
            owner.on_queue_open(self.name)

    # -- delivering ----------------------------------------------------------------------------

    def ready(self) -> i64:
        return self.backlog.count + len(self.returned.heap) + self.upper

    def pressure(self) -> i64:
        if not self.consumers.every:
            return 0
        return self.backlog.count + self.upper

    def schedule(self) -> None:
        """Have ready messages handed out at the end of this turn."""
        if not self.scheduled and (self.backlog.count > 0 or self.returned.heap or self.upper > 0):
            self.scheduled = True
            self.turn.queues.append(self)

    def pump(self, most: i64) -> bool:
        """Hand out up to `most` ready messages; True if more could go."""
        if self.gate != 0:
            if self.gate & (GATE_SUSPENDED | GATE_DEAD):
                return False
            return self._long_way().pump(most)
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
        self.used_ns = self.turn.now_ns
        if self.gate != 0:
            ruled = self._long_way()
            level = ruled.next()
            if level is None:
                return None
            message = ruled.take(level)
            if self.rules.counts_deliveries and not message.traits & P_COUNTED:
                message = with_count(message, 0)
            return Got(level.seq, message, level.again, self.ready())
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
        self.unacked_count -= 1
        self.settled_count += 1
        # Without a dead-letter exchange a rejected message is dropped.
        if self.rules.dead_letter_exchange is not None and not self.gate & GATE_DEAD:
            self.keeper.bury(self, delivery.message, REJECTED)

    def requeue(self, deliveries: list[Delivery]) -> None:
        if self.gate & GATE_DEAD:
            return
        self.unacked_count -= len(deliveries)
        ruled = self.ruled
        if ruled is not None:
            ruled.requeue(deliveries)
            self.schedule()
            return
        for delivery in deliveries:
            message = delivery.message
            self.returned.push(ReturnedMessage(delivery.seq, message))
            self.ready_bytes += message.size
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
        if self.consumers.single:
            # Another one may be the active one now.
            self.schedule()
        if self.rules.expires_ms >= 0 and not self.consumers.every:
            self._watch_use()
        return self.auto_delete and not self.consumers.every and not self.gate & GATE_DEAD

    def has_exclusive_consumer(self) -> bool:
        return any(consumer.exclusive for consumer in self.consumers.every)

    # -- the whole queue -----------------------------------------------------------------------

    def purge(self) -> i64:
        """Drop all ready messages; their memory is freed in slices. Return how many."""
        count = self.ready()
        if self.ruled is not None:
            self.ruled.empty()
        blocks = self.backlog.drop_all()
        if blocks is not None:
            self.turn.garbage.append(blocks)
        self.returned.drop_all(self.turn)
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
        self._let_go()
        return cut

    def _let_go(self) -> None:
        """Break what refers to this queue in a circle: the cycle collector does not run."""
        if self.ruled is not None:
            self.ruled.close()
            self.ruled = None
        if self.unused_timer is not None:
            self.turn.timers.cancel(self.unused_timer)
            self.unused_timer.queue = None
            self.unused_timer = None

    def suspend(self) -> None:
        """Stop taking and handing out messages; publishes wait in front."""
        self.gate |= GATE_SUSPENDED

    def resume(self) -> None:
        """Go on with what was held, in order."""
        self.gate &= ~GATE_SUSPENDED
        held = self.held
        self.held = []
        for publish in held:
            taken = self.publish(publish.message, None, 0) != REFUSED
            if publish.ledger is not None:
                publish.ledger.answer(publish.number, taken)
        self.schedule()
        self._open_gate()
