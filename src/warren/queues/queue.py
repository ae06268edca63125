"""One queue on this node: ready messages, consumers, and the hand-over between them.

Invariant: when messages are ready and a consumer is able, the queue is scheduled in `Turn`; so a
message that finds the backlog empty and a consumer able goes straight through, and one that finds
the backlog not empty waits behind it (order per queue, spec PB-6).

`gate` is zero for a queue without special rules. What must look at each message (limits, TTL,
priorities, counted deliveries, tracing, a store) sets a bit, and the queue takes the long way of
`Ruled`; the short way never learns of them.
"""

from typing import Final, final

from mypy_extensions import i64

from warren.flow.credit import LINGER_NS
from warren.protocol.properties import P_EXPIRATION, P_PERSISTENT
from warren.protocol.value import Table
from warren.queues.backlog import Backlog, Returned, ReturnedMessage
from warren.queues.confirm import ConfirmLedger
from warren.queues.consumer import Consumer, Consumers
from warren.queues.deduplication import Deduplication
from warren.queues.gate import (
    GATE_DEAD,
    GATE_LONG,
    GATE_RULES,
    GATE_STORE,
    GATE_SUSPENDED,
    GATE_TRACED,
)
from warren.queues.keeper import QueueKeeper, Witness
from warren.queues.message import Message
from warren.queues.outlet import ConsumerOwner
from warren.queues.paging import Paging
from warren.queues.ref import HELD, OVERDRAWN, PENDING, REFUSED, TAKEN, QueueRef
from warren.queues.ruled import P_COUNTED, Ruled, drop_blocks, with_count
from warren.queues.rules import NO_RULES, REJECTED, QueueRules
from warren.queues.stored import settle_level
from warren.queues.turn import Turn
from warren.queues.unacked import Delivery
from warren.queues.unused import UnusedTimer, watch_use
from warren.store.index import QueueIndex

# More than any channel has.
ALL_CREDIT: Final[i64] = 1 << 40
# A queue of which one in so many of the last messages was written down has work with that.
STORED_LATELY: Final[i64] = 256


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
        self.incarnation: i64 = 0  # Never given twice.
        self.next_seq: i64 = 0  # The id the next message gets.
        self.backlog = Backlog()
        self.returned = Returned()
        self.index: QueueIndex | None = None  # What the store has of the lowest level.
        # What is settled stays readable: nothing is handed over without being stored (PL-1).
        self.keeping = False
        # Messages that are not in memory, of all levels, and the octets of their bodies.
        self.out_count: i64 = 0
        self.out_octets: i64 = 0
        # What the messages in memory may cost while memory is low; -1 is what they like.
        self.memory_target: i64 = -1
        # Who waits for messages that are not in memory: channels with a basic.get.
        self.getters: list[ConsumerOwner] = []
        # The journal does not keep up: publishes cost credit. Since when, or when it was so last.
        self.slow = False
        self.slow_since_ns: i64 = -1
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
        self.upper: i64 = 0  # Ready messages of a priority above the lowest, in `ruled`.
        self.unused_timer: UnusedTimer | None = None
        self.used_ns: i64 = turn.now_ns
        # What became of messages that nobody settled, and publishes that were not taken.
        self.expired_count: i64 = 0
        self.dropped_count: i64 = 0
        self.over_limit_count: i64 = 0
        self.refused_count: i64 = 0
        self.deduplicated_count: i64 = 0
        self.deduplication: Deduplication | None = None
        self.lost_count: i64 = 0  # Stored messages that could not be read.
        self.purge_count: i64 = 0
        self.witnesses: list[Witness] = []  # Who reads it without consuming at the moment.
        storage = turn.storage
        if storage is not None:
            self.backlog.paging = Paging(storage, self, self.backlog, None)
        if rules is not None:
            self.set_rules(rules)

    # -- rules ---------------------------------------------------------------------------------

    def set_rules(self, rules: QueueRules) -> None:
        """Take over what arguments and policies come to now (PO-8)."""
        was_lazy = self.rules.lazy
        self.rules = rules
        self.consumers.single = rules.single_active
        if rules.look_at_publishes():
            self.long_way()
            self.gate |= GATE_RULES
        else:
            self.gate &= ~GATE_RULES
        self._tell_duplicates()
        watch_use(self)
        storage = self.turn.storage
        if storage is not None and self.index is not None:
            storage.retention.apply(self)
        if rules.lazy and not was_lazy and storage is not None and self.ready() > self.out_count:
            # It goes on meanwhile (LZ-8): fetching looks at all parts in either mode.
            storage.convert(self)
        # What is over a new limit goes at the end of this turn.
        self.schedule()

    def _tell_duplicates(self) -> None:
        keys = self.deduplication
        if self.rules.deduplicate_by == "":
            if keys is not None:
                keys.close(settled=True)
                self.deduplication = None
        elif keys is None:
            self.deduplication = Deduplication(self, self.rules)
        else:
            keys.configure(self.rules)

    def long_way(self) -> Ruled:
        ruled = self.ruled
        if ruled is None:
            ruled = Ruled(self)
            self.ruled = ruled
        return ruled

    def trace(self, on: bool) -> None:
        """Have the keeper told of what is handed out, or no longer (O-10.1)."""
        if self.gate & GATE_DEAD:
            return
        if on:
            self.long_way()
            self.gate |= GATE_TRACED
        else:
            self.gate &= ~GATE_TRACED

    def touch(self) -> None:
        """The queue is used: its time without use begins anew."""
        self.used_ns = self.turn.now_ns

    # -- the store -----------------------------------------------------------------------------

    def place(self, message: Message) -> None:
        """Have a large body in the message store before copies of the message are made."""
        storage = self.turn.storage
        if storage is not None and not self.is_broken():
            storage.place(message)

    def is_broken(self) -> bool:
        """Whether nothing can be stored any more, until the node is started again."""
        index = self.index
        return index is not None and index.journal.broken != ""

    def keep(
        self,
        index: QueueIndex,
        seq: i64,
        message: Message,
        ledger: ConfirmLedger | None,
        number: i64,
    ) -> None:
        """Write a message down; its publisher hears of it when it is on the disk."""
        journal = index.journal
        if journal.broken:
            # Nobody is told that it is safe: it is a message in memory now.
            return
        storage = self.turn.storage
        assert storage is not None
        storage.keep(index, seq, message)
        if ledger is not None:
            ledger.mark(number, journal)

    def answer(self) -> i64:
        """What a publisher is told whose message was stored: that it overdraws, maybe (CF-4)."""
        storage = self.turn.storage
        if storage is None or not storage.is_behind():
            return TAKEN
        if not self.slow:
            self.slow = True
            self.slow_since_ns = self.turn.now_ns
            storage.slow_down(self, self.vhost)
        return OVERDRAWN

    def cost(self) -> i64:
        storage = self.turn.storage
        if self.slow and storage is not None and storage.is_far_behind():
            return ALL_CREDIT
        return 1

    def state(self) -> str:
        """The state in listings that know of suspended queues."""
        if self.gate & GATE_SUSPENDED:
            return "suspended"
        return "flow" if self.in_flow() else "running"

    def in_flow(self) -> bool:
        """Whether listings show `flow`: now, or it began a short while ago."""
        if self.slow or self.gate & GATE_SUSPENDED:
            return True
        since = self.slow_since_ns
        return since >= 0 and self.turn.now_ns - since < LINGER_NS

    def on_store_open(self) -> None:
        """The journal has caught up."""
        self.slow = False
        self._open_gate()

    def on_here(self) -> None:
        """Messages came back into memory."""
        self.schedule()
        self.tell_getters()

    def tell_getters(self) -> None:
        if self.getters:
            getters = self.getters
            self.getters = []
            for owner in getters:
                owner.on_messages_here()

    def wait_here(self, owner: ConsumerOwner) -> None:
        """Have `owner` told when messages that were out are in memory."""
        self.getters.append(owner)
        self._read_ahead()

    def octets_of(self, count: i64) -> i64:
        """About so many octets have this many of the waiting messages."""
        ready = self.ready()
        return 0 if ready == 0 else count * (self.ready_bytes // ready)

    def _read_ahead(self) -> None:
        if self.ruled is not None:
            self.ruled.read_ahead()
            return
        paging = self.backlog.paging
        if paging is not None:
            paging.read_ahead()

    # -- publishing ----------------------------------------------------------------------------

    def publish(self, message: Message, ledger: ConfirmLedger | None, number: i64) -> i64:
        if self.gate != 0 or message.traits & P_EXPIRATION != 0:
            return self._publish_gated(message, ledger, number)
        seq = self.next_seq
        self.next_seq = seq + 1
        backlog = self.backlog
        if backlog.count == 0 and not self.returned.heap:
            consumer = self.consumers.next()
            if consumer is not None:
                consumer.send(seq, message, False)
                return TAKEN
        backlog.push(message, seq)
        self.ready_bytes += message.size
        return TAKEN

    def _publish_gated(self, message: Message, ledger: ConfirmLedger | None, number: i64) -> i64:
        gate = self.gate
        if gate == GATE_STORE and message.traits & P_EXPIRATION == 0:
            return self._publish_stored(message, ledger, number)
        if gate & GATE_DEAD:
            # Deleted in the moment: responsibility ends with the queue (QD-8).
            return TAKEN
        if gate & GATE_SUSPENDED:
            self.held.append(HeldPublish(message, ledger, number))
            return HELD if ledger is None else PENDING
        return self.long_way().publish(message, ledger, number)

    def _publish_stored(self, message: Message, ledger: ConfirmLedger | None, number: i64) -> i64:
        """A publish into a durable queue without other rules."""
        index = self.index
        if message.traits & P_PERSISTENT == 0:
            index = None
        elif ledger is not None and self.is_broken():
            self.refused_count += 1
            return REFUSED
        seq = self.next_seq
        self.next_seq = seq + 1
        backlog = self.backlog
        if backlog.count == 0 and not self.returned.heap:
            consumer = self.consumers.next()
            if consumer is not None:
                # What is handed out and never acknowledged is not stored at all (VQ-4).
                if index is not None and (self.keeping or not consumer.no_ack):
                    self.keep(index, seq, message, ledger, number)
                    consumer.send(seq, message, False)
                    if consumer.no_ack:
                        index.finish(seq, message.size, message.place)
                    return self.answer()
                consumer.send(seq, message, False)
                return TAKEN
        if index is not None:
            self.keep(index, seq, message, ledger, number)
        backlog.push(message, seq)
        self.ready_bytes += message.size
        if self.rules.lazy and backlog.paging is not None:
            backlog.paging.storage.note_lazy(backlog.paging)
        return TAKEN if index is None else self.answer()

    def watch(self, owner: ConsumerOwner) -> None:
        self.watchers.append(owner)

    def _open_gate(self) -> None:
        """Give publishers their credit back, unless something else still holds it."""
        if (self.slow or self.gate & GATE_SUSPENDED) and not self.gate & GATE_DEAD:
            return
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

    def stores(self) -> bool:
        index = self.index
        return index is not None and self.next_seq - index.next_seq < STORED_LATELY

    def is_held_up(self) -> bool:
        return bool(self.consumers.every) and self.ready() > 0 and not self.consumers.is_able()

    def schedule(self) -> None:
        """Have ready messages handed out at the end of this turn."""
        if not self.scheduled and (self.backlog.count > 0 or self.returned.heap or self.upper > 0):
            self.scheduled = True
            self.turn.queues.append(self)

    def pump(self, most: i64) -> bool:
        """Hand out up to `most` ready messages; True if more could go."""
        if self.gate & GATE_LONG != 0:
            if self.gate & (GATE_SUSPENDED | GATE_DEAD):
                return False
            return self.long_way().pump(most)
        backlog = self.backlog
        returned = self.returned
        while backlog.here > 0 or returned.heap:
            consumer = self.consumers.next()
            if consumer is None:
                break
            if most == 0:
                if backlog.outs > 0:
                    self._read_ahead()
                return True
            most -= 1
            if returned.heap:
                item = returned.pop()
                self.ready_bytes -= item.message.size
                consumer.send(item.seq, item.message, True)
                if consumer.no_ack and self.index is not None:
                    self.index.finish(item.seq, item.message.size, item.message.place)
            else:
                message = backlog.pop()
                self.ready_bytes -= message.size
                consumer.send(backlog.seq, message, backlog.again)
                if consumer.no_ack and self.index is not None:
                    self.index.finish(backlog.seq, message.size, message.place)
        if backlog.outs > 0 and self.consumers.every:
            self._read_ahead()
        return False

    def get(self) -> Got | None:
        """Take the oldest ready message for basic.get, whatever consumers there are (GT-1).

        None with `is_behind` means: not yet.
        """
        self.used_ns = self.turn.now_ns
        if self.gate & GATE_LONG != 0:
            ruled = self.long_way()
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
        backlog = self.backlog
        if backlog.here == 0:
            return None
        message = backlog.pop()
        self.ready_bytes -= message.size
        return Got(backlog.seq, message, backlog.again, self.ready())

    def is_behind(self) -> bool:
        """Whether messages wait that are not in memory, and none before them."""
        return self.ready() > 0 and self.out_count > 0

    # -- settling ------------------------------------------------------------------------------

    def lend(self, delivery: Delivery) -> None:
        """A message taken by `get` is out until it is settled."""
        self.unacked_count += 1

    def settle(self, delivery: Delivery) -> None:
        self.unacked_count -= 1
        self.settled_count += 1
        if self.index is not None:
            self._settle_stored(delivery.seq, delivery.message)

    def _settle_stored(self, seq: i64, message: Message) -> None:
        """A message that may be in the store will not come back."""
        index = self.index
        if self.rules.max_priority > 0 and self.ruled is not None:
            index = self.ruled.index_of(message)
        if index is not None and message.traits & P_PERSISTENT != 0:
            index.finish(seq, message.size, message.place)

    def discard(self, delivery: Delivery) -> None:
        self.unacked_count -= 1
        self.settled_count += 1
        # Without a dead-letter exchange a rejected message is dropped.
        if self.rules.dead_letter_exchange is not None and not self.gate & GATE_DEAD:
            self.keeper.bury(self, delivery.message, REJECTED)
        # In the same turn, so in the same batch: it is in one of the two queues, whatever happens.
        if self.index is not None:
            self._settle_stored(delivery.seq, delivery.message)

    def requeue(self, deliveries: list[Delivery]) -> None:
        if self.gate & GATE_DEAD:
            return
        self.unacked_count -= len(deliveries)
        for witness in self.witnesses:
            witness.returned.extend(deliveries)
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
            watch_use(self)
        return self.auto_delete and not self.consumers.every and not self.gate & GATE_DEAD

    def has_exclusive_consumer(self) -> bool:
        return any(consumer.exclusive for consumer in self.consumers.every)

    # -- the whole queue -----------------------------------------------------------------------

    def purge(self) -> i64:
        """Drop all ready messages; their memory is freed in slices. Return how many."""
        count = self.ready()
        self.purge_count += 1
        if self.index is not None and not self.gate & GATE_DEAD:
            settle_level(self.backlog, self.returned, self.index)
        if self.ruled is not None:
            self.ruled.empty()
        drop_blocks(self.backlog, self.turn)
        self.returned.drop_all(self.turn)
        self.ready_bytes = 0
        self.out_count = 0
        self.out_octets = 0
        self.settled_count += count
        # Who waited for messages from the disk waits for nothing any more.
        self.tell_getters()
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
        self.tell_getters()
        cut = list(self.consumers.every)
        for consumer in cut:
            self.consumers.remove(consumer)
        self._let_go()
        return cut

    def _let_go(self) -> None:
        """Break what refers to this queue in a circle: the cycle collector does not run."""
        storage = self.turn.storage
        if storage is not None:
            storage.forget(self)
            storage.retention.forget(self)
        if self.backlog.paging is not None:
            self.backlog.paging.close()
            self.backlog.paging = None
        self.index = None
        if self.deduplication is not None:
            self.deduplication.close(settled=False)
            self.deduplication = None
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
