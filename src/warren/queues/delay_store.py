"""What the store has of the messages that one durable exchange delays.

A persistent message is written into the journal when it is held, under the sequence id it has in
the calendar and with the moment it is due in place of an expiry, so that a record says all there
is to know of it. It is settled in the turn in which it is handed on, cancelled or dropped: what
follows from it is in the same batch, so after a crash it is held, or it is in its queues.

After a start the records are read back in slices, while clients are connected. Nothing is handed on
before the last of them is in the calendar, because a record that is read late may be due first. New
messages have ids behind them and wait here meanwhile: a bucket of the calendar is in the order of
the ids. Then they follow in slices, too.

Invariant: every live id of the index is in the calendar, or is to be read (`next_seq` up to
`end_seq`), or waits here.
"""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.protocol.properties import P_PERSISTENT
from warren.queues.calendar import due_of, seq_of
from warren.queues.message import Message
from warren.queues.ref import OVERDRAWN, TAKEN
from warren.queues.timer import Timer
from warren.queues.turn import Chore
from warren.store.index import SEGMENT_MASK, QueueIndex
from warren.store.reading import Reading
from warren.store.record import Publish, split_keys

if TYPE_CHECKING:
    from warren.queues.delayed import Delayed
    from warren.queues.storage import Storage

# What is read in one go, and how many of those that wait follow in one turn.
READ_OCTETS: Final[i64] = 524_288
FOLLOWING: Final = 2048
# How long it rests after a read that failed.
REST_NS: Final[i64] = 1_000_000_000


@final
class AgainTimer(Timer):
    """What could not be read is tried again."""

    def __init__(self, store: "DelayStore") -> None:
        super().__init__()
        self.store: DelayStore | None = store

    def fire(self, now_ns: i64) -> None:
        if self.store is not None:
            self.store.read()


@final
class FollowChore(Chore):
    """What came while the store was read goes into the calendar."""

    def __init__(self, store: "DelayStore") -> None:
        self.store = store

    def step(self) -> bool:
        return self.store.follow()


@final
class DelayStore:
    def __init__(
        self, storage: "Storage", delayed: "Delayed", vhost: str, index: QueueIndex
    ) -> None:
        self.storage = storage
        self.vhost = vhost
        self.delayed: Delayed | None = delayed
        self.index = index
        # The next id to be read, and the one behind the last that is.
        self.next_seq: i64 = 0
        self.end_seq: i64 = index.next_seq
        # Some of what is held is not in the calendar yet.
        self.loading = False
        # How many that is, but for those that wait.
        self.unread: i64 = 0
        # Records that came meanwhile, and how many of them have followed.
        self.waiting: list[bytes] = []
        self.followed: i64 = 0
        self.timer = AgainTimer(self)
        # The journal does not keep up: publishes cost credit.
        self.slow = False

    # -- writing -------------------------------------------------------------------------------

    def has(self, message: Message) -> bool:
        """Whether a message is for the store."""
        return message.traits & P_PERSISTENT != 0

    def is_broken(self) -> bool:
        return self.index.journal.broken != ""

    def keep(self, seq: i64, message: Message, due_ms: i64) -> None:
        """Write down a message that is held; without a journal it is in memory only."""
        if not self.is_broken():
            self.storage.hold(self.index, seq, message, due_ms * 1000)

    def settle(self, seq: i64, size: i64) -> None:
        """A message is not held any more."""
        self.index.settle(seq, size)

    def answer(self) -> i64:
        """What a publisher is told whose message was stored: that it overdraws, maybe (CF-4)."""
        if not self.storage.is_behind():
            return TAKEN
        delayed = self.delayed
        if not self.slow and delayed is not None:
            self.slow = True
            self.storage.slow_down(delayed, self.vhost)
        return OVERDRAWN

    # -- reading back --------------------------------------------------------------------------

    def begin(self) -> i64:
        """Begin to read what is there; return the last id that may have been given."""
        index = self.index
        if index.live > 0:
            self.loading = True
            self.unread = index.live
            self.next_seq = index.first_live()
            self.read()
        # What was given to messages that were not stored is not given again (IX-12).
        return (self.end_seq + SEGMENT_MASK) & ~SEGMENT_MASK

    def read(self) -> None:
        """Read some more, or have what waits follow when there is nothing left."""
        if self.next_seq < self.end_seq:
            persistence = self.storage.persistence
            if persistence.read(self.index, self.next_seq, self.ended, READ_OCTETS):
                return
        self.next_seq = self.end_seq
        if self.unread > 0:
            # Not a record of them was found.
            lost = self.index.lose(self.index.first_live(), self.end_seq - 1)
            self._tell_lost(lost, "no record of them is in the store")
            self.unread = 0
        self.storage.turn.chores.append(FollowChore(self))

    def ended(self, reading: Reading, error: Exception | None) -> None:
        """Some of it was read."""
        delayed = self.delayed
        if delayed is None or not self.loading:
            return
        if error is not None:
            fields = self._fields(self.unread, str(error))
            self.storage.log.event("error", "delayed.read_failed", fields)
            self.storage.turn.timers.arm(self.timer, self.storage.turn.now_ns + REST_NS)
            return
        records = reading.records()
        if reading.moved:
            self.read()
            return
        lost: i64 = 0
        for first, last in reading.lost:
            lost += self.index.lose(first, last)
        self.unread -= lost
        for record in records:
            if record.seq >= self.end_seq:
                break
            delayed.take_back(held_of(record), record.expires_us // 1000, record.seq)
            self.unread -= 1
        self.next_seq = reading.next_seq
        if lost > 0:
            self._tell_lost(lost, reading.problem)
        self.read()

    def _tell_lost(self, count: i64, why: str) -> None:
        self.storage.log.event("error", "delayed.lost", self._fields(count, why))

    def _fields(self, count: i64, why: str) -> dict[str, object]:
        name = "" if self.delayed is None else self.delayed.name
        return {"exchange": name, "vhost": self.vhost, "messages": int(count), "why": why}

    def follow(self) -> bool:
        """Put some of what waits into the calendar; True when all of it is there."""
        delayed = self.delayed
        if delayed is None or not self.loading:
            return True
        end = min(self.followed + FOLLOWING, i64(len(self.waiting)))
        while self.followed < end:
            delayed.calendar.add(self.waiting[self.followed])
            self.followed += 1
        if self.followed < len(self.waiting):
            return False
        self.stop()
        delayed.on_loaded()
        return True

    def stop(self) -> i64:
        """Nothing is left to be read, or nobody wants it; return how many were."""
        unread = self.unread
        self.unread = 0
        self.loading = False
        self.next_seq = self.end_seq
        self.waiting = []
        self.followed = 0
        return unread

    # -- ending --------------------------------------------------------------------------------

    def take_waiting(self, due_ms: i64, seq: i64) -> bytes | None:
        """Take out a record that came while the store was read."""
        place = self.followed
        while place < len(self.waiting):
            record = self.waiting[place]
            if seq_of(record) == seq and due_of(record) == due_ms:
                del self.waiting[place]
                return record
            place += 1
        return None

    def cancel_unread(self, seq: i64) -> bool:
        """Settle a message that is not read yet: it will not be."""
        if not self.loading or seq < self.next_seq or seq >= self.end_seq:
            return False
        if self.index.lose(seq, seq) == 0:
            return False
        self.unread -= 1
        return True

    def drop_all(self) -> i64:
        """Settle everything; return how many were still to be read."""
        if self.index.live > 0:
            self.index.settle_from(self.index.first_live(), self.index.live_bytes)
        return self.stop()

    def close(self) -> i64:
        """The exchange is gone; return how many messages were still to be read."""
        self.storage.turn.timers.cancel(self.timer)
        self.timer.store = None
        self.delayed = None
        return self.stop()


def held_of(record: Publish) -> Message:
    """The message that a record was written of."""
    return Message(
        record.tail,
        record.props,
        record.body,
        None,
        record.body_size,
        record.traits,
        0,
        split_keys(record.hidden) if record.hidden else None,
    )
