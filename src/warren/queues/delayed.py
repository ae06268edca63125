"""The messages of one x-delayed-message exchange that wait for their time.

Stands behind the exchange as a queue does: what the exchange does not route at once is published
here, held as one packed record in a `Calendar`, and handed to the keeper when it is due. The node
sees one timer for each exchange, whatever it holds.

A record: when it is due (milliseconds of the keeper's time), its sequence id, traits, the sizes of
tail and properties, then tail, properties and body. What has more than `APART_SIZE` octets of
body, chunks or hidden keys stays a `Message`, in `apart`, under its sequence id.

Invariants: `Held` has the number and the octets of what is in calendar and `apart`; what is due
later than the last released record, and only that, is held; while something is held, the timer
is armed or this is in `Turn.due`, or the store is being read (`DelayStore`).

With a `store`, that of a durable exchange, what is persistent is in it as long as it is held.
"""

from typing import TYPE_CHECKING, Final, final

from librt.strings import BytesWriter, read_i32_be, read_i64_be, write_i32_be, write_i64_be
from mypy_extensions import i32, i64, mypyc_attr

from warren.protocol.delay import as_held, delay_of
from warren.queues.calendar import BLOCK_RECORDS, Calendar, due_of, seq_of
from warren.queues.delay_instruction import (
    Cancel,
    DelayJournal,
    Drop,
    Hold,
    Instruction,
    Release,
)
from warren.queues.delay_store import DelayStore
from warren.queues.message import Message
from warren.queues.outlet import ConsumerOwner
from warren.queues.ref import REFUSED, TAKEN, QueueRef
from warren.queues.turn import Chore, Due, Turn
from warren.store.index import QueueIndex

if TYPE_CHECKING:
    from warren.queues.confirm import ConfirmLedger
    from warren.queues.storage import Storage

# Bodies up to this size are in the record.
APART_SIZE: Final = 16384
HEAD_SIZE: Final = 32
# What a record costs besides its octets: the object's head, rounding, its place in a block.
RECORD_COST: Final = 56
# What a message apart costs besides: the object, its head, its place.
APART_COST: Final = 300
# Records that move in the calendar in one turn, and how many are as much work as one release.
MOVES: Final = 8192
MOVES_PER_RELEASE: Final = 16
# Blocks of dropped records, and messages apart, that are freed in one turn.
FREED_BLOCKS: Final = 16
FREED_APART: Final = 1024

MS: Final[i64] = 1_000_000

# How a delayed message ends, in the order of `ENDS`.
RELEASED: Final[i64] = 0  # it came to a queue at its time
UNROUTABLE: Final[i64] = 1  # at its time no queue was bound
REFUSED_THEN: Final[i64] = 2  # at its time a queue refused it (x-overflow)
CANCELLED: Final[i64] = 3
EXCHANGE_DELETED: Final[i64] = 4
ENDS: Final[tuple[str, ...]] = (
    "released",
    "unroutable",
    "refused",
    "cancelled",
    "exchange_deleted",
)


@final
class Held:
    """What is held, and what became of what was: of one exchange, or of a node."""

    def __init__(self, node: "Held | None" = None) -> None:
        self.count: i64 = 0
        self.octets: i64 = 0
        self.ended: list[int] = [0] * len(ENDS)
        # The sum of which this is a part.
        self.node = node

    def take(self, octets: i64) -> None:
        self.count += 1
        self.octets += octets
        if self.node is not None:
            self.node.take(octets)

    def end(self, count: i64, octets: i64, how: i64) -> None:
        self.count -= count
        self.octets -= octets
        self.ended[how] += int(count)
        if self.node is not None:
            self.node.end(count, octets, how)


@mypyc_attr(allow_interpreted_subclasses=True)
class DelayKeeper:
    """What delayed messages need of their surroundings."""

    def now_ms(self) -> i64:
        """The keeper's time: epoch milliseconds that never go back; not early."""
        return 0

    def at_ms(self, now_ns: i64) -> i64:
        """The keeper's time at a moment of the node's clock; not late."""
        return now_ns // MS

    def wall_ms(self) -> i64:
        """The time of day."""
        return 0

    def hand_on(self, message: Message) -> i64:
        """Route a message whose time has come; return how it ends."""
        return RELEASED


@final
class DelayTimer(Due):
    def __init__(self, turn: Turn, delayed: "Delayed") -> None:
        super().__init__(turn)
        self.delayed: Delayed | None = delayed

    def step(self, now_ns: i64, most: i64) -> i64:
        if self.delayed is None:
            self.waiting = False
            return 0
        return self.delayed.release(now_ns, most)


@final
class Delayed(QueueRef):
    def __init__(
        self, name: str, turn: Turn, keeper: DelayKeeper, node: Held | None = None
    ) -> None:
        super().__init__(name)
        self.turn = turn
        self.keeper: DelayKeeper | None = keeper
        self.calendar = Calendar(keeper.now_ms())
        self.apart: dict[int, Message] = {}
        self.held = Held(node)
        self.last_seq: i64 = 0
        self.timer = DelayTimer(turn, self)
        self.journal: DelayJournal | None = None
        self.store: DelayStore | None = None
        self.watchers: list[ConsumerOwner] = []

    # -- the store -----------------------------------------------------------------------------

    def join_store(self, storage: "Storage", vhost: str, index: QueueIndex) -> None:
        """Have what is persistent stored, and take over what is."""
        store = DelayStore(storage, self, vhost, index)
        self.store = store
        self.last_seq = max(self.last_seq, store.begin())

    def take_back(self, message: Message, due_ms: i64, seq: i64) -> None:
        """A message that was held before the node started."""
        record, apart = packed(message, due_ms, seq)
        self._keep(record, apart)

    def on_loaded(self) -> None:
        """All that is held is in the calendar."""
        wake = self.calendar.next_ms()
        if wake >= 0:
            self._wake(wake)

    def watch(self, owner: ConsumerOwner) -> None:
        self.watchers.append(owner)

    def on_store_open(self) -> None:
        if self.store is not None:
            self.store.slow = False
        watchers = self.watchers
        self.watchers = []
        for owner in watchers:
            owner.on_queue_open(self.name)

    # -- holding -------------------------------------------------------------------------------

    def publish(self, message: Message, ledger: "ConfirmLedger | None", number: i64) -> i64:
        """Hold a message until its headers say; that it is held is what is confirmed."""
        keeper = self.keeper
        if keeper is None:
            return TAKEN
        store = self.store
        stored = store is not None and store.has(message)
        if store is not None and stored and ledger is not None and store.is_broken():
            return REFUSED
        delay = delay_of(message.props, keeper.wall_ms())
        self.hold(message, keeper.now_ms() + max(delay, 0))
        if store is None or not stored:
            return TAKEN
        if ledger is not None:
            ledger.mark(number, store.index.journal)
        return store.answer()

    def hold(self, message: Message, due_ms: i64) -> i64:
        """Hold a message until then; return its sequence id."""
        self.last_seq += 1
        seq = self.last_seq
        props = as_held(message.props)
        if props is not message.props:
            message = message.with_props(props, message.traits)
        if self.store is not None and self.store.has(message):
            self.store.keep(seq, message, due_ms)
        record, apart = packed(message, due_ms, seq)
        self._keep(record, apart)
        if self.journal is not None:
            self.journal.note(Hold(record, apart))
        return seq

    def _keep(self, record: bytes, apart: Message | None) -> None:
        if apart is not None:
            self.apart[int(seq_of(record))] = apart
        self.held.take(cost_of(record, apart))
        store = self.store
        if store is None or not store.loading:
            self._wake(self.calendar.add(record))
        elif seq_of(record) < store.end_seq:
            self.calendar.add(record)
        else:
            store.waiting.append(record)

    # -- releasing -----------------------------------------------------------------------------

    def release(self, now_ns: i64, most: i64) -> i64:
        """Hand on up to `most` messages that are due, and look ahead; return what it cost."""
        keeper = self.keeper
        if keeper is None:
            return 0
        now_ms = keeper.at_ms(now_ns)
        calendar = self.calendar
        cost = 1 + calendar.advance(now_ms, MOVES) // MOVES_PER_RELEASE
        record = calendar.first(now_ms)
        last: bytes | None = None
        while record is not None and most > 0:
            most -= 1
            cost += 1
            last = calendar.take()
            self._hand_on(keeper, last)
            record = calendar.first(now_ms)
        if last is not None and self.journal is not None:
            self.journal.note(Release(int(due_of(last)), int(seq_of(last))))
        wake = calendar.next_ms()
        if wake < 0 or wake > now_ms:
            self.timer.waiting = False
            if wake > 0:
                self._wake(wake)
        return cost

    def _hand_on(self, keeper: DelayKeeper, record: bytes) -> None:
        apart = self._apart_of(record)
        how = UNROUTABLE
        try:
            how = keeper.hand_on(unpack(record) if apart is None else apart)
        finally:
            # In the turn of what follows from it, so in the same batch.
            self._end(record, apart, how)

    def _end(self, record: bytes, apart: Message | None, how: i64) -> None:
        """A message is not held any more."""
        self.held.end(1, cost_of(record, apart), how)
        if self.store is not None:
            self.store.settle(seq_of(record), body_size_of(record) if apart is None else apart.size)

    def _apart_of(self, record: bytes) -> Message | None:
        """Take what is kept of a message beside its record."""
        return self.apart.pop(int(seq_of(record)), None) if self.apart else None

    def _wake(self, wake_ms: i64) -> None:
        """Have the timer fire then, or earlier."""
        keeper = self.keeper
        timer = self.timer
        if timer.waiting or keeper is None:
            return
        now_ns = self.turn.now_ns
        at_ns = now_ns + (wake_ms - keeper.at_ms(now_ns)) * MS
        if timer.index < 0 or at_ns < timer.at_ns:
            self.turn.timers.arm(timer, at_ns)

    # -- cancelling ----------------------------------------------------------------------------

    def cancel(self, due_ms: i64, seq: i64) -> bool:
        """Drop one message; False if it is not there, or too near to its time."""
        record = self.calendar.remove(due_ms, seq)
        store = self.store
        if record is None and store is not None and store.loading:
            if store.cancel_unread(seq):
                self.held.ended[CANCELLED] += 1
                return True
            record = store.take_waiting(due_ms, seq)
        if record is None:
            return False
        self._end(record, self._apart_of(record), CANCELLED)
        if self.journal is not None:
            self.journal.note(Cancel(int(due_ms), int(seq)))
        return True

    def drop_all(self, how: i64) -> int:
        """Drop everything; the memory is freed in slices. Return how many there were."""
        unread: i64 = 0
        if self.store is not None:
            unread = self.store.drop_all()
        return int(self._drop(how) + unread)

    def _drop(self, how: i64) -> i64:
        count = self.held.count
        if count > 0:
            self.turn.chores.append(DropChore(self.calendar.blocks(), self.apart))
            self.apart = {}
            self.held.end(count, self.held.octets, how)
            if self.journal is not None:
                self.journal.note(Drop())
        return count

    def close(self) -> int:
        """The exchange is gone; return how many messages went with it.

        The store knows of it by the metadata: after a crash before that is stored, all is there.
        """
        count = self._drop(EXCHANGE_DELETED)
        if self.store is not None:
            count += self.store.close()
            self.store = None
        self.on_store_open()
        self.turn.timers.cancel(self.timer)
        self.timer.delayed = None
        self.keeper = None
        return int(count)

    # -- replaying -----------------------------------------------------------------------------

    def apply(self, instruction: Instruction) -> None:
        """Do what an instruction says, without handing anything on: a restart, or a mirror."""
        if isinstance(instruction, Hold):
            self.last_seq = max(self.last_seq, seq_of(instruction.record))
            self._keep(instruction.record, instruction.apart)
        elif isinstance(instruction, Cancel):
            self.cancel(instruction.due_ms, instruction.seq)
        elif isinstance(instruction, Drop):
            self.drop_all(CANCELLED)
        else:
            self._forget_until(instruction.due_ms, instruction.seq)

    def _forget_until(self, due_ms: i64, seq: i64) -> None:
        """Take out what was released up to this record."""
        calendar = self.calendar
        while 0 <= calendar.next_ms() <= due_ms:
            moved = calendar.advance(due_ms, MOVES)
            record = calendar.first(due_ms)
            if record is not None and (due_of(record) < due_ms or seq_of(record) <= seq):
                calendar.take()
                self.held.end(1, cost_of(record, self._apart_of(record)), RELEASED)
            elif moved == 0:
                return


@final
class DropChore(Chore):
    """Frees what was dropped, in slices."""

    def __init__(self, blocks: list[list[bytes]], apart: dict[int, Message]) -> None:
        self.blocks = blocks
        self.apart = apart

    def step(self) -> bool:
        left = FREED_BLOCKS
        while left > 0 and self.blocks:
            left -= 1
            last = self.blocks[-1]
            # What was near is one long list.
            if len(last) > BLOCK_RECORDS:
                del last[-BLOCK_RECORDS:]
            else:
                self.blocks.pop()
        for _ in range(min(FREED_APART, len(self.apart))):
            self.apart.popitem()
        return not self.blocks and not self.apart


# -- records ---------------------------------------------------------------------------------------


def packed(message: Message, due_ms: i64, seq: i64) -> tuple[bytes, Message | None]:
    """The record of a message, and the message itself if it does not fit."""
    body = message.body
    apart: Message | None = None
    if message.more is not None or message.hidden_keys is not None or len(body) > APART_SIZE:
        apart = message
        body = b""
    return pack(message, due_ms=due_ms, seq=seq, props=message.props, body=body), apart


def pack(message: Message, *, due_ms: i64, seq: i64, props: bytes, body: bytes) -> bytes:
    out = BytesWriter()
    write_i64_be(out, due_ms)
    write_i64_be(out, seq)
    write_i64_be(out, message.traits)
    write_i32_be(out, i32(len(message.tail)))
    write_i32_be(out, i32(len(props)))
    out.write(message.tail)
    out.write(props)
    out.write(body)
    return out.getvalue()


def unpack(record: bytes) -> Message:
    """Return the message of a record that has all of it."""
    props_at = HEAD_SIZE + i64(read_i32_be(record, 24))
    body_at = props_at + i64(read_i32_be(record, 28))
    body = record[body_at:]
    return Message(
        record[HEAD_SIZE:props_at],
        record[props_at:body_at],
        body,
        None,
        len(body),
        read_i64_be(record, 16),
    )


def body_size_of(record: bytes) -> i64:
    """Return the size of the body of a record that has all of it."""
    head = HEAD_SIZE + i64(read_i32_be(record, 24)) + i64(read_i32_be(record, 28))
    return len(record) - head


def cost_of(record: bytes, apart: Message | None) -> i64:
    """Return how much memory a held message takes."""
    cost: i64 = len(record) + RECORD_COST
    return cost if apart is None else cost + apart.size + len(apart.props) + APART_COST
