"""Duplicates in front of one queue: which keys it has seen within a window of time.

The key of a message is its message-id or a header. A message whose key was seen is a duplicate: it
is confirmed and counted and goes no further. A message without the key is never one. Keys are kept
as digests of 128 bits in *buckets*, each for a sixteenth of the window: a bucket is forgotten as a
whole when its youngest key has been here for the window, so a key is remembered for the window at
least and for a sixteenth more at most. One timer stands at the end of the oldest bucket. When there
are too many keys the oldest bucket goes first, and its keys count as `forgotten`.

In a durable queue the key of a persistent message is a record of the store beside that of the
message, in the same batch, also when the message itself is not stored because a consumer took it at
once. It has no body, its tail is the digest, and it is settled when its bucket is forgotten. So
keys are as durable as messages, whatever becomes of those. The confirm of a duplicate waits for
what is written at that moment: the message it repeats may be among it.

A message that died in this queue and comes back (a retry through a dead-letter exchange) is not a
duplicate of itself.

Invariants: `count` is the number of keys in `buckets`; ends ascend; the stored keys of a bucket
have neighbouring sequence ids.
"""

from hashlib import blake2b
from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.protocol.header import header_at
from warren.protocol.properties import (
    MESSAGE_ID,
    P_HEADERS,
    P_PERSISTENT,
    property_octets,
    readable_headers_of,
)
from warren.protocol.table import value_end
from warren.protocol.value import LONG_STRING
from warren.queues.ref import REFUSED
from warren.queues.timer import Timer
from warren.queues.turn import Chore
from warren.store.index import QueueIndex
from warren.store.record import Publish

if TYPE_CHECKING:
    from warren.queues.confirm import ConfirmLedger
    from warren.queues.message import Message
    from warren.queues.queue import Queue
    from warren.queues.ruled import Ruled
    from warren.queues.rules import QueueRules

# Parts of the window, and of the number of keys, that are forgotten at once.
PARTS: Final[i64] = 16
DIGEST_SIZE: Final = 16
# Keys that are freed and settled in one turn.
FORGOTTEN: Final = 4096
MS: Final[i64] = 1_000_000
HEADER: Final = "header:"
DEATH_HEADER: Final = "x-death"
# This message was written by us: its x-death is no claim of a client. Above the bits of `scan`.
P_DIED: Final = 1 << 32


@final
class Bucket:
    """Keys that came within one part of the window, and how many of them are stored."""

    def __init__(self, end_ns: i64) -> None:
        self.end_ns = end_ns
        self.keys: set[bytes] = set()
        self.first_seq: i64 = 0
        self.stored: i64 = 0


@final
class ForgetChore(Chore):
    """Frees the keys of buckets, and settles those that are stored."""

    def __init__(self, buckets: list[Bucket], index: QueueIndex | None) -> None:
        self.buckets = buckets
        self.index = index

    def step(self) -> bool:
        left = FORGOTTEN
        while left > 0 and self.buckets:
            bucket = self.buckets[0]
            while left > 0 and bucket.keys:
                left -= 1
                bucket.keys.pop()
            while left > 0 and bucket.stored > 0 and self.index is not None:
                left -= 1
                self.index.settle(bucket.first_seq, 0)
                bucket.first_seq += 1
                bucket.stored -= 1
            if not bucket.keys and (bucket.stored == 0 or self.index is None):
                del self.buckets[0]
        return not self.buckets


@final
class WindowTimer(Timer):
    """The oldest keys of a queue are to be forgotten."""

    def __init__(self, keys: "Deduplication") -> None:
        super().__init__()
        self.keys: Deduplication | None = keys

    def fire(self, now_ns: i64) -> None:
        if self.keys is not None:
            self.keys.forget(now_ns)


@final
class Deduplication:
    def __init__(self, queue: "Queue", rules: "QueueRules") -> None:
        self.queue = queue
        # The name of the header that has the key; empty is the property message-id.
        self.header = b""
        self.window_ns: i64 = 0
        self.keys_max: i64 = 0
        self.buckets: list[Bucket] = []
        self.count: i64 = 0
        # When the youngest key came.
        self.last_ns: i64 = 0
        # Keys that were given up before their window had ended.
        self.forgotten: i64 = 0
        # When the oldest bucket goes.
        self.due_ns: i64 = 0
        self.timer = WindowTimer(self)
        self.index: QueueIndex | None = None
        self.next_seq: i64 = 0
        self.configure(rules)

    def configure(self, rules: "QueueRules") -> None:
        """Take over what arguments and policies come to now; what was seen stays."""
        by = rules.deduplicate_by
        self.header = by[len(HEADER) :].encode() if by.startswith(HEADER) else b""
        self.window_ns = max(i64(1), rules.deduplicate_window_ms) * MS
        self.keys_max = max(i64(1), rules.deduplicate_keys_max)
        self._trim()
        self._arm()

    # -- publishing ------------------------------------------------------------------------------

    def publish(
        self, ruled: "Ruled", message: "Message", ledger: "ConfirmLedger | None", number: i64
    ) -> i64:
        """Take a message as the queue does, unless it is a duplicate."""
        queue = self.queue
        key = self.key_of(message)
        if not key:
            return ruled.take_in(message, ledger, number)
        now_ns = queue.turn.now_ns
        if self.buckets and now_ns >= self.due_ns:
            self.forget(now_ns)
        if self._has(key):
            if message.traits & P_DIED != 0 and self._died_here(message):
                return ruled.take_in(message, ledger, number)
            if ledger is not None and message.traits & P_PERSISTENT != 0:
                if queue.is_broken():
                    queue.refused_count += 1
                    return REFUSED
                self._wait(ledger, number)
            queue.deduplicated_count += 1
            return 0
        answer = ruled.take_in(message, ledger, number)
        if answer != REFUSED:
            self._note(key, now_ns, message.traits & P_PERSISTENT != 0, ledger, number)
        return answer

    def key_of(self, message: "Message") -> bytes:
        """The digest of a message's key; empty if it has none."""
        props = message.props
        if not self.header:
            found = property_octets(props, MESSAGE_ID)
        else:
            if message.traits & P_HEADERS == 0:
                return b""
            at = header_at(props, self.header)
            if at < 0:
                return b""
            # With the letter of its type: the number 1 is not the text "1".
            found = props[at : value_end(props, at, len(props))]
            if len(found) == 1 or (found[0] == LONG_STRING and len(found) == 5):
                return b""
        if not found:
            return b""
        # Under another name the same octets are another key.
        return blake2b(found, digest_size=DIGEST_SIZE, key=self.header[:64]).digest()

    def _has(self, key: bytes) -> bool:
        at = len(self.buckets) - 1
        while at >= 0:
            if key in self.buckets[at].keys:
                return True
            at -= 1
        return False

    def _died_here(self, message: "Message") -> bool:
        deaths = readable_headers_of(message.props).get(DEATH_HEADER)
        if deaths is None or not isinstance(deaths.value, list):
            return False
        name = self.queue.name.encode()
        for death in deaths.value:
            if isinstance(death.value, dict):
                queue = death.value.get("queue")
                if queue is not None and queue.value == name:
                    return True
        return False

    def _wait(self, ledger: "ConfirmLedger", number: i64) -> None:
        """A duplicate is as safe as what it repeats."""
        queue = self.queue
        storage = queue.turn.storage
        if storage is not None and queue.index is not None and storage.open_batch() > 0:
            storage.fill_batch()
            ledger.mark(number, storage.journal)

    def _note(
        self,
        key: bytes,
        now_ns: i64,
        persistent: bool,
        ledger: "ConfirmLedger | None",
        number: i64,
    ) -> None:
        """A key was taken; in the batch of its message, if it is stored at all."""
        queue = self.queue
        storage = queue.turn.storage
        seq: i64 = -1
        durable = queue.index is not None and not queue.is_broken()
        if persistent and durable and storage is not None:
            if self.index is None:
                self.index = storage.keys_of(queue)
                self.next_seq = self.index.next_seq
            seq = self.next_seq
            self.next_seq = seq + 1
            storage.keep_key(self.index, seq, key, now_ns, self.window_ns)
            if ledger is not None:
                ledger.mark(number, storage.journal)
        self._add(key, now_ns, seq)
        if self.count > self.keys_max:
            self._trim()

    def _add(self, key: bytes, at_ns: i64, seq: i64) -> None:
        # Keys come in the order of their time, or count as if they did.
        at_ns = max(at_ns, self.last_ns)
        self.last_ns = at_ns
        buckets = self.buckets
        if not buckets:
            buckets.append(Bucket(at_ns + self._part()))
            self._arm()
        bucket = buckets[len(buckets) - 1]
        if at_ns >= bucket.end_ns or len(bucket.keys) >= max(i64(1), self.keys_max // PARTS):
            bucket.end_ns = min(bucket.end_ns, at_ns)
            bucket = Bucket(at_ns + self._part())
            buckets.append(bucket)
        before = len(bucket.keys)
        bucket.keys.add(key)
        self.count += len(bucket.keys) - before
        if seq >= 0:
            if bucket.stored == 0:
                bucket.first_seq = seq
            bucket.stored = seq + 1 - bucket.first_seq

    def _part(self) -> i64:
        return max(MS, self.window_ns // PARTS)

    # -- forgetting ------------------------------------------------------------------------------

    def forget(self, now_ns: i64) -> None:
        """Forget the buckets whose window has ended."""
        gone: list[Bucket] = []
        buckets = self.buckets
        while buckets and buckets[0].end_ns + self.window_ns <= now_ns:
            gone.append(buckets.pop(0))
        self._let_go(gone)
        self._arm()

    def _trim(self) -> None:
        """Give up the oldest keys while there are too many."""
        gone: list[Bucket] = []
        over = self.count - self.keys_max
        while over > 0 and len(self.buckets) > 1:
            bucket = self.buckets.pop(0)
            over -= len(bucket.keys)
            gone.append(bucket)
        if gone:
            if self.forgotten == 0:
                self.queue.keeper.keys_full(self.queue)
            self.forgotten += sum_of(gone)
            self._let_go(gone)
            self._arm()

    def _let_go(self, gone: list[Bucket]) -> None:
        if gone:
            self.count -= sum_of(gone)
            self.queue.turn.chores.append(ForgetChore(gone, self.index))

    def _arm(self) -> None:
        timers = self.queue.turn.timers
        if not self.buckets:
            timers.cancel(self.timer)
            return
        self.due_ns = self.buckets[0].end_ns + self.window_ns
        timers.arm(self.timer, self.due_ns)

    # -- a start, an end -------------------------------------------------------------------------

    def join(self, index: QueueIndex) -> None:
        """The store may have keys of this queue."""
        self.index = index
        self.next_seq = index.next_seq

    def take_back(self, record: Publish, epoch_ns: i64) -> None:
        """A key that was stored before the node started; oldest first."""
        now_ns = self.queue.turn.now_ns
        # A clock that was set back in the meantime makes no key younger than now.
        at_ns = min(now_ns, record.at_us * 1000 - epoch_ns)
        if at_ns + self.window_ns + self._part() <= now_ns:
            if self.index is not None:
                self.index.settle(record.seq, 0)
            return
        self._add(record.tail, at_ns, record.seq)
        if self.count > self.keys_max:
            self._trim()

    def close(self, *, settled: bool) -> None:
        """Nothing is remembered any more; `settled` in a queue that goes on without."""
        self.queue.turn.timers.cancel(self.timer)
        self.timer.keys = None
        gone = self.buckets
        self.buckets = []
        self.count = 0
        if gone:
            self.queue.turn.chores.append(ForgetChore(gone, None))
        index = self.index
        if settled and index is not None and index.live > 0:
            index.settle_from(index.first_live(), index.live_bytes)
        self.index = None


def sum_of(buckets: list[Bucket]) -> i64:
    """How many keys are in these buckets."""
    count: i64 = 0
    for bucket in buckets:
        count += len(bucket.keys)
    return count
