"""The long way of a queue that has rules: limits, expiry, priorities, counted deliveries, tracing.

`Queue` hands over here when its gate is not zero, so that a queue without rules never pays for
them. What is true of both ways: messages that wait leave in the order of their level, highest
first (PQ-2); a message that finds the queue empty and a consumer able goes straight through.

Only the head expires (TT-3) and only the head is dropped for a length limit (LE-2). Both happen
where the queue is touched and, for what nobody touches, in slices at the end of a turn: the
timer of the queue stands at the expiry of its head, or earlier.
"""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.protocol.properties import (
    P_EXPIRATION,
    P_HEADERS,
    P_PERSISTENT,
    P_PRIORITY_MASK,
    P_PRIORITY_SHIFT,
    expiration_of,
    readable_headers_of,
    sorted_table,
    with_headers,
)
from warren.protocol.value import Field
from warren.queues.backlog import Backlog, Returned
from warren.queues.gate import GATE_EXPIRY, GATE_TRACED
from warren.queues.level import Level
from warren.queues.message import Message
from warren.queues.paging import Paging
from warren.queues.ref import REFUSED, TAKEN
from warren.queues.rules import DELIVERY_LIMIT, DROP_HEAD, EXPIRED, MAXLEN, REJECT_PUBLISH_DLX
from warren.queues.stored import index_of_level, settle_level
from warren.queues.timer import Timer
from warren.store.index import QueueIndex

if TYPE_CHECKING:
    from warren.queues.confirm import ConfirmLedger
    from warren.queues.consumer import Consumer
    from warren.queues.queue import Queue
    from warren.queues.turn import Turn
    from warren.queues.unacked import Delivery


MS: Final[i64] = 1_000_000
NEVER: Final[i64] = -1
# Dead messages that one basic.get passes; more are left to the end of the turn.
GET_MAX: Final[i64] = 20_000
# What one publish or requeue drops itself; more are left to the end of the turn.
TRIM_MAX: Final[i64] = 256
COUNT_HEADER: Final = "x-delivery-count"
_SIGNED_LONG: Final = 0x6C
# The count of returns in a message's headers is ours. Above the bits of `scan`.
P_COUNTED: Final = 1 << 33


@final
class HeadTimer(Timer):
    """The head of a queue expires."""

    def __init__(self, queue: "Queue") -> None:
        super().__init__()
        self.queue: Queue | None = queue

    def fire(self, now_ns: i64) -> None:
        queue = self.queue
        if queue is not None:
            queue.schedule()


@final
class Ruled:
    def __init__(self, queue: "Queue") -> None:
        self.queue = queue
        lowest = Level(queue.backlog, queue.returned)
        lowest.index = queue.index
        # By priority; made when the first message of a priority waits.
        self.levels: list[Level | None] = [lowest]
        self.lowest = lowest
        index: i64 = 0
        while index < queue.rules.max_priority:
            self.levels.append(None)
            index += 1
        # No level above this one has messages.
        self.top: i64 = 0
        self.timer = HeadTimer(queue)
        # The last properties that were looked into, and what was found: runs of equal ones share.
        self.ttl_props = b""
        self.ttl_ns: i64 = NEVER
        # A message is on its way out, and may come back before what was begun is done.
        self.busy = False

    # -- publishing ----------------------------------------------------------------------------

    def publish(self, message: Message, ledger: "ConfirmLedger | None", number: i64) -> i64:
        keys = self.queue.deduplication
        if keys is not None:
            return keys.publish(self, message, ledger, number)
        return self.take_in(message, ledger, number)

    def take_in(self, message: Message, ledger: "ConfirmLedger | None", number: i64) -> i64:
        """Take a message that is no duplicate, or refuse it."""
        queue = self.queue
        rules = queue.rules
        stored = queue.index is not None and message.traits & P_PERSISTENT != 0
        if stored and ledger is not None and queue.is_broken():
            queue.refused_count += 1
            return REFUSED
        ttl = self._ttl(message)
        if queue.scheduled and not self.busy and (ttl == 0 or self._is_full(message.size)):
            # What was settled before in this turn counts: consumers with room take what waits.
            self.pump(TRIM_MAX)
        if rules.overflow != DROP_HEAD and self._is_full(message.size):
            return self._refuse(message)
        empty = queue.ready() == 0
        if empty and self._at_once(message, ttl, stored, ledger, number):
            return queue.answer() if stored else TAKEN
        if ttl >= 0:
            if stored:
                # All queues have one body, each an expiry of its own.
                queue.place(message)
            message = message.expiring(queue.turn.now_ns + ttl)
            queue.gate |= GATE_EXPIRY
        self._push(message, stored, ledger, number)
        # A higher priority may have come before a head that lives longer.
        self._make_room((empty and ttl >= 0) or rules.max_priority > 0)
        return queue.answer() if stored else TAKEN

    def _make_room(self, other_head: bool) -> None:
        """Drop what is over the limits now, and what is expired and comes to the head by that."""
        left = self._trim(TRIM_MAX)
        if left < TRIM_MAX or other_head:
            left = self._expire(left)
            if left == 0:
                self.queue.schedule()
            else:
                self._arm()

    def _at_once(
        self,
        message: Message,
        ttl: i64,
        stored: bool,
        ledger: "ConfirmLedger | None",
        number: i64,
    ) -> bool:
        """Give a message that finds the queue empty to a consumer, or let it die (TT-4)."""
        queue = self.queue
        consumer = queue.consumers.next()
        if consumer is not None:
            # What is never settled never comes back, so its expiry does not matter any more.
            if ttl >= 0 and not consumer.no_ack:
                message = message.expiring(queue.turn.now_ns + ttl)
            seq = queue.next_seq
            queue.next_seq = seq + 1
            if stored and (queue.keeping or not consumer.no_ack):
                self._keep(self._index(message), seq, message, ledger, number)
            self._hand_out(consumer, seq, message, False)
            if stored and consumer.no_ack and queue.keeping:
                level = self._level(self._index(message))
                self._settle(level, seq, message)
            return True
        if ttl == 0:
            queue.expired_count += 1
            self._gone(message, EXPIRED)
            return True
        return False

    def _refuse(self, message: Message) -> i64:
        """LE-3, LE-4: the publisher hears of it by a nack, if it listens."""
        queue = self.queue
        queue.refused_count += 1
        if queue.rules.overflow == REJECT_PUBLISH_DLX:
            self._bury(message, MAXLEN)
        return REFUSED

    def _is_full(self, size: i64) -> bool:
        queue = self.queue
        rules = queue.rules
        if rules.max_length >= 0 and queue.ready() + 1 > rules.max_length:
            return True
        return rules.max_bytes >= 0 and queue.ready_bytes + size > rules.max_bytes

    def _push(
        self, message: Message, stored: bool, ledger: "ConfirmLedger | None", number: i64
    ) -> None:
        queue = self.queue
        queue.ready_bytes += message.size
        seq = queue.next_seq
        queue.next_seq = seq + 1
        index = self._index(message)
        if stored:
            self._keep(index, seq, message, ledger, number)
        backlog = self._level(index).backlog
        backlog.push(message, seq)
        if index > 0:
            queue.upper += 1
        if queue.rules.lazy and backlog.paging is not None:
            backlog.paging.storage.note_lazy(backlog.paging)

    def _keep(
        self,
        index: i64,
        seq: i64,
        message: Message,
        ledger: "ConfirmLedger | None",
        number: i64,
    ) -> None:
        """Write a message of a level down."""
        level = self._level(index)
        if level.index is None:
            level.index = index_of_level(self.queue, index)
            paging = level.backlog.paging
            if paging is not None:
                paging.index = level.index
        if level.index is not None:
            self.queue.keep(level.index, seq, message, ledger, number)

    def index_of(self, message: Message) -> QueueIndex | None:
        """What the store has of the messages of this one's level."""
        level = self.levels[self._index(message)]
        return None if level is None else level.index

    def restore(self, index: i64, level_index: QueueIndex) -> Level:
        """A level above the lowest that the store has messages of (at a start)."""
        level = self._level(index)
        level.index = level_index
        self.queue.upper += level_index.live
        return level

    def _index(self, message: Message) -> i64:
        if self.queue.rules.max_priority == 0:
            return 0
        priority = ((message.traits >> P_PRIORITY_SHIFT) & P_PRIORITY_MASK) - 1
        if priority <= 0:
            return 0
        most = self.queue.rules.max_priority
        return min(most, priority)

    def _level(self, index: i64) -> Level:
        """The level of a priority that is about to have a message."""
        if index == 0:
            return self.lowest
        if index > self.top:
            self.top = index
        level = self.levels[index]
        if level is None:
            level = Level(Backlog(), Returned())
            storage = self.queue.turn.storage
            if storage is not None:
                level.backlog.paging = Paging(storage, self.queue, level.backlog, None)
            self.levels[index] = level
        return level

    def _ttl(self, message: Message) -> i64:
        """How long a message lives from now, in ns; -1 is for ever (TT-1)."""
        ttl = self.queue.rules.message_ttl_ms
        if ttl >= 0:
            ttl *= MS
        if message.traits & P_EXPIRATION != 0:
            if message.props is not self.ttl_props:
                self.ttl_props = message.props
                self.ttl_ns = i64(int(expiration_of(message.props) or "0")) * MS
            if ttl < 0 or self.ttl_ns < ttl:
                ttl = self.ttl_ns
        return ttl

    # -- handing out ---------------------------------------------------------------------------

    def pump(self, most: i64) -> bool:
        """Hand out, expire and drop up to `most` ready messages; True if more could go."""
        queue = self.queue
        left = self._trim(most)
        while self._is_here():
            left = self._expire(left)
            if left == 0:
                return True
            if not self._is_here():
                break
            consumer = queue.consumers.next()
            if consumer is None:
                break
            left -= 1
            level = self._first()
            message = self._take(level)
            seq = level.seq
            self._hand_out(consumer, seq, message, level.again)
            if consumer.no_ack:
                self._settle(level, seq, message)
        if queue.out_count > 0 and (queue.consumers.every or not self._is_here()):
            self.read_ahead()
        self._settle_gate()
        return False

    def _is_here(self) -> bool:
        """Whether a message waits, and the next one is in memory."""
        return self.queue.ready() > 0 and self._first().here()

    def _settle(self, level: Level, seq: i64, message: Message) -> None:
        """What was taken from a level does not come back."""
        index = level.index
        if index is not None and message.traits & P_PERSISTENT != 0:
            index.finish(seq, message.size, message.place)

    def read_ahead(self) -> None:
        """Have the next messages brought into memory."""
        if self.queue.ready() > 0:
            paging = self._first().backlog.paging
            if paging is not None:
                paging.read_ahead()

    def reduce(self, target: i64) -> bool:
        """Have messages leave memory, those of the lowest priority first: they stay longest."""
        for level in self.levels:
            paging = None if level is None else level.backlog.paging
            if paging is not None and paging.reduce(target):
                return True
        return False

    def read_again(self) -> None:
        """A read of some level failed a while ago."""
        for level in self.levels:
            if level is not None and level.backlog.paging is not None:
                level.backlog.paging.loading = False

    def _hand_out(self, consumer: "Consumer", seq: i64, message: Message, again: bool) -> None:
        """Send a message; nothing of it is open any more when it is traced."""
        consumer.send(seq, message, again)
        queue = self.queue
        if queue.gate & GATE_TRACED:
            queue.keeper.handed_out(queue, consumer.outlet.owner, message, again)

    def next(self) -> Level | None:
        """Take the next message that is alive for basic.get; the level says what was taken."""
        queue = self.queue
        if self._expire(GET_MAX) == 0:
            queue.schedule()
            return None
        return self._first() if self._is_here() else None

    def take(self, level: Level) -> Message:
        """Take what `next` found."""
        message = self._take(level)
        self._arm()
        return message

    def _first(self) -> Level:
        """The level whose turn it is; the caller knows that a message waits."""
        top = self.top
        while top > 0:
            level = self.levels[top]
            if level is not None and level.count() > 0:
                self.top = top
                return level
            top -= 1
        self.top = 0
        return self.lowest

    def _take(self, level: Level) -> Message:
        message = level.take()
        queue = self.queue
        queue.ready_bytes -= message.size
        if level is not self.lowest:
            queue.upper -= 1
        return message

    def _settle_gate(self) -> None:
        """After a round: the timer stands at the head, and an empty queue forgets expiry."""
        queue = self.queue
        if queue.ready() == 0:
            queue.gate &= ~GATE_EXPIRY
        else:
            self._arm()

    def _arm(self) -> None:
        queue = self.queue
        if not self._is_here():
            if queue.gate & GATE_EXPIRY:
                # It has to be in memory for anybody to know when it expires.
                self.read_ahead()
            return
        at_ns = self._first().first().expires_at
        timer = self.timer
        # An earlier time than needed is harmless: the pump finds nothing and arms again.
        if at_ns != 0 and (timer.index < 0 or at_ns < timer.at_ns):
            queue.turn.timers.arm(timer, at_ns)

    # -- coming back, dying --------------------------------------------------------------------

    def requeue(self, deliveries: "list[Delivery]") -> None:
        """Deliveries come back to their old places, or have come back too often (LE-2, TT-5)."""
        queue = self.queue
        rules = queue.rules
        for delivery in deliveries:
            message = delivery.message
            if rules.counts_deliveries:
                count = returns_of(message) + 1
                if rules.delivery_limit >= 0 and count > rules.delivery_limit:
                    queue.over_limit_count += 1
                    self._gone(message, DELIVERY_LIMIT)
                    stored = self.index_of(message)
                    if stored is not None and message.traits & P_PERSISTENT != 0:
                        stored.finish(delivery.seq, message.size, message.place)
                    continue
                message = with_count(message, count)
            index = self._index(message)
            self._level(index).put_back(delivery.seq, message)
            queue.ready_bytes += message.size
            if index > 0:
                queue.upper += 1
            if message.expires_at != 0:
                queue.gate |= GATE_EXPIRY
        self._make_room(True)

    def _expire(self, most: i64) -> i64:
        """Drop what is expired at the head, up to `most`; return what is left of it (TT-3)."""
        queue = self.queue
        now = queue.turn.now_ns
        while most > 0 and self._is_here():
            level = self._first()
            message = level.first()
            if message.expires_at == 0 or message.expires_at > now:
                break
            self._take(level)
            seq = level.seq
            queue.expired_count += 1
            # What follows from it may take more of this level.
            self._gone(message, EXPIRED)
            self._settle(level, seq, message)
            most -= 1
        return most

    def _trim(self, most: i64) -> i64:
        """Drop from the head what is over the limits, up to `most`; return what is left of it."""
        queue = self.queue
        rules = queue.rules
        if rules.overflow != DROP_HEAD:
            return most
        while most > 0 and (
            (rules.max_length >= 0 and queue.ready() > rules.max_length)
            or (rules.max_bytes >= 0 and queue.ready_bytes > rules.max_bytes)
        ):
            level = self._first()
            if not level.here():
                # They go when they have come into memory.
                self.read_ahead()
                break
            message = self._take(level)
            seq = level.seq
            queue.dropped_count += 1
            self._gone(message, MAXLEN)
            self._settle(level, seq, message)
            most -= 1
        return most

    def _gone(self, message: Message, reason: i64) -> None:
        """A message leaves the queue for good without having been settled."""
        self.queue.settled_count += 1
        busy = self.busy
        self.busy = True
        self._bury(message, reason)
        self.busy = busy

    def _bury(self, message: Message, reason: i64) -> None:
        queue = self.queue
        if queue.rules.dead_letter_exchange is not None:
            queue.keeper.bury(queue, message, reason)

    def empty(self) -> i64:
        """Drop everything above the lowest level; return how many. Their memory goes in slices."""
        queue = self.queue
        count: i64 = 0
        for level in self.levels:
            if level is None or level is self.lowest:
                continue
            count += level.count()
            if level.index is not None:
                settle_level(level.backlog, level.returned, level.index)
            drop_blocks(level.backlog, queue.turn)
            level.returned.drop_all(queue.turn)
        self.top = 0
        queue.upper = 0
        queue.gate &= ~GATE_EXPIRY
        return count

    def close(self) -> None:
        """The queue is gone: nothing here may keep it in memory."""
        self.queue.turn.timers.cancel(self.timer)
        self.timer.queue = None
        for level in self.levels:
            if level is not None and level.backlog.paging is not None:
                level.backlog.paging.close()
                level.backlog.paging = None
        self.levels = []


def drop_blocks(backlog: Backlog, turn: "Turn") -> None:
    """Empty a backlog: its memory is freed in slices, its pages at once."""
    paging = backlog.paging
    if paging is not None:
        paging.drop_pages()
        paging.forget()
    blocks = backlog.drop_all()
    if blocks is not None:
        turn.garbage.append(blocks)


def returns_of(message: Message) -> i64:
    """How often a message came back, as the header says that we wrote."""
    if not message.traits & P_COUNTED:
        return 0
    item = readable_headers_of(message.props).get(COUNT_HEADER)
    if item is None or not isinstance(item.value, int):
        return 0
    return i64(item.value)


def with_count(message: Message, count: i64) -> Message:
    """The same message with a count of its returns (spec 6.9)."""
    headers = readable_headers_of(message.props)
    headers[COUNT_HEADER] = Field(_SIGNED_LONG, int(count))
    props = with_headers(message.props, sorted_table(headers))
    return message.with_props(props, message.traits | P_HEADERS | P_COUNTED)
