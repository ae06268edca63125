"""What the queues of one node share of memory and disk: the store, page files, and their limits.

Hangs on `Turn.storage`, where every queue finds it; a node without a disk has none, and then
nothing survives it and nothing leaves memory. `Paging` decides for one backlog; what concerns all
of them is here: how much each may keep in memory, who waits for a commit, and the time of the wall
that expiries are stored in.
"""

from typing import TYPE_CHECKING, Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64

from warren.flow.wait import Handle, Kind, Reason, Subject, Wait, WaitBook
from warren.queues.backlog import BLOCK_SIZE
from warren.queues.message import Message
from warren.queues.paging import Paging, message_of
from warren.queues.ref import QueueRef
from warren.queues.retention import Retention
from warren.queues.stored import go_on, join_store, reduce
from warren.queues.timer import Timer
from warren.queues.turn import Chore
from warren.store.index import QueueIndex
from warren.store.journal import Waiter
from warren.store.pages import PageRead, Pages, PageWrite
from warren.store.persistence import Persistence
from warren.store.reading import Reading
from warren.store.record import PERSISTENT, Publish, join_keys, write_publish

if TYPE_CHECKING:
    from warren.core.log import EventLog
    from warren.core.seam import Files
    from warren.queues.queue import Queue
    from warren.queues.turn import Turn

# So many times as much: nobody who publishes goes on, whatever credit is left.
FAR: Final[i64] = 2
# Octets of pages on their way to page files at which no more leave. What leaves is in memory
# twice, at a time when there is little of it.
PAGES_MAX: Final[i64] = 8 * 1024 * 1024
REST_NS: Final[i64] = 1_000_000_000
# Consumers are read ahead for while fewer than so many messages are in memory before a block that
# is out, and so many octets of them are read in one go.
AHEAD: Final[i64] = 2048
AHEAD_OCTETS: Final[i64] = 1_048_576
# The store knows a level of a queue by the queue's incarnation and, in these bits, its priority,
# from 0 to 255; the messages of an exchange that delays them are its level 0.
LEVEL_BITS: Final = 9
# Behind the levels: the keys by which a queue tells duplicates.
KEYS_LEVEL: Final = 256
# Octets of keys that are read in one go.
KEYS_READ: Final[i64] = 1_048_576
# Queues whose share is enforced in one turn.
REDUCED: Final = 64
# What people know the store by.
STORE_NAME: Final = "message store"


def _nobody(reading: Reading, error: Exception | None) -> None:
    """Who reads at once needs not be told."""


@final
class RestTimer(Timer):
    """A queue whose messages could not be read tries again."""

    def __init__(self, queue: "Queue") -> None:
        super().__init__()
        self.queue = queue

    def fire(self, now_ns: i64) -> None:
        go_on(self.queue)


@final
class ReduceChore(Chore):
    """Has messages of queues leave that keep more than their share."""

    def __init__(self, queues: "list[Queue]") -> None:
        self.queues = queues

    def step(self) -> bool:
        done = 0
        while self.queues and done < REDUCED:
            done += 1
            queue = self.queues.pop()
            if reduce(queue):
                self.queues.append(queue)
                break
        return not self.queues


@final
class SlowQueue:
    """A queue that waits for the journal, and its wait in the book."""

    def __init__(self, queue: QueueRef, handle: Handle) -> None:
        self.queue = queue
        self.handle = handle


@final
class Storage:
    def __init__(
        self,
        turn: "Turn",
        log: "EventLog",
        persistence: Persistence,
        pages: Pages,
        *,
        epoch_ns: int,
        resident_octets: int = 32 * 1024 * 1024,
        waits: WaitBook | None = None,
        pending_max: int = 32 * 1024 * 1024,
        files: "Files | None" = None,
    ) -> None:
        self.turn = turn
        self.log = log
        self.persistence = persistence
        self.journal = persistence.journal
        self.pages = pages
        # Where keys are read back at a start; nothing is read by whoever holds this otherwise.
        self.files = files
        # Wall clock minus the node's clock.
        self.epoch_ns: i64 = epoch_ns
        self.resident_octets: i64 = resident_octets
        self.waits = waits or WaitBook()
        self.block_messages: i64 = BLOCK_SIZE
        self.ahead = AHEAD
        self.ahead_octets = AHEAD_OCTETS
        # Memory runs low: transient messages go to page files, too.
        self.pressed = False
        # The disk runs low: nothing that is transient is written to it (DA-2).
        self.disk_low = False
        # Backlogs with blocks that wait for a commit.
        self.waiting: list[Paging] = []
        # Backlogs of lazy queues with messages that came since the last commit.
        self.lazy: list[Paging] = []
        # Queues that had more than a block of messages, for whoever looks after memory, and what is
        # known of their rates: messages in and out a second, of these to be settled, and settled.
        self.large: dict[int, Queue] = {}
        self.rates: dict[int, list[float]] = {}
        # Queues that are slowed down because the journal does not keep up.
        self.slow: list[SlowQueue] = []
        self.pending_max: i64 = pending_max
        # The journal has outgrown its checkpoints (`Persistence.overgrown`).
        self.overgrown = False
        # Octets of pages that are on their way at a time.
        self.pages_max = PAGES_MAX
        # Queues with blocks that leave when there is room for pages on their way.
        self.unpaged: dict[int, Queue] = {}
        # What a start found: whether the last stop was clean, and then what was handed out.
        self.clean = True
        self.handed_out: dict[int, list[tuple[int, int]]] = {}
        # Deleted queues whose deletion is not stored yet: the ticket it has, what the store knows.
        self.leaving: list[tuple[int, int]] = []
        self.lost_count: i64 = 0
        self.retention = Retention(self)

    # -- queues ----------------------------------------------------------------------------------

    def join(self, queue: "Queue") -> None:
        """Have what is persistent in a durable queue stored, and take over what is."""
        for level, ident in enumerate(self.idents_of(queue)):
            index = self.persistence.indexes.get(ident)
            if index is None:
                if level > 0:
                    # Made when the first message of this priority comes.
                    continue
                index = self.persistence.open(ident)
            join_store(queue, index, level, clean=self.clean, runs=self.handed_out.pop(ident, []))
        keys = self.persistence.indexes.get(int(queue.incarnation) << LEVEL_BITS | KEYS_LEVEL)
        if keys is not None:
            self._join_keys(queue, keys)
        self.retention.apply(queue, starting=True)

    def _join_keys(self, queue: "Queue", index: QueueIndex) -> None:
        """Have a queue know the keys that are stored, before anybody publishes to it.

        They are read at once: a node that starts has no clients yet, and what waited in front of
        the queue until they are read would not be where it came from any more.
        """
        keys = queue.deduplication
        if keys is None:
            # It went on without before the last stop, and nobody settled them.
            if index.live > 0:
                index.settle_from(index.first_live(), index.live_bytes)
            return
        keys.join(index)
        files = self.files
        if files is None or index.live == 0:
            return
        seq: i64 = index.first_live()
        while True:
            reading = Reading(index, seq, _nobody)
            if not reading.plan(self.journal.committed, self.persistence.files, KEYS_READ):
                return
            if reading.next_seq <= seq:
                return
            try:
                reading.run(files)
            except OSError as error:
                lost = index.lose(seq, reading.next_seq - 1)
                self.tell_lost_keys(queue, lost, str(error))
            else:
                for record in reading.records():
                    keys.take_back(record, self.epoch_ns)
                for first, last in reading.lost:
                    self.tell_lost_keys(queue, index.lose(first, last), reading.problem)
            seq = reading.next_seq

    def keys_of(self, queue: "Queue") -> QueueIndex:
        """What the store is to have of the keys by which a queue tells duplicates."""
        return self.persistence.open(int(queue.incarnation) << LEVEL_BITS | KEYS_LEVEL)

    def keep_key(
        self, index: QueueIndex, seq: i64, key: bytes, now_ns: i64, window_ns: i64
    ) -> None:
        """Write a key down: a record without a body."""
        journal = self.journal
        before = journal.position()
        at_us = (now_ns + self.epoch_ns) // 1000
        lsn = journal.publish(
            index.ident, seq, PERSISTENT, at_us, at_us + window_ns // 1000, key, b"", b"", b"",
            None, 0, 0,
        )  # fmt: skip
        index.enter(seq, lsn, journal.position() - before, 0)

    def leave(self, queue: "Queue", ticket: int) -> None:
        """A durable queue is deleted; its files go when that has been stored."""
        keys = int(queue.incarnation) << LEVEL_BITS | KEYS_LEVEL
        self._leave([*self.idents_of(queue), keys], ticket)

    def leave_exchange(self, index: QueueIndex, ticket: int) -> None:
        """The same of an exchange that keeps messages."""
        self._leave([int(index.ident)], ticket)

    def _leave(self, idents: list[int], ticket: int) -> None:
        persistence = self.persistence
        for ident in idents:
            index = persistence.indexes.get(ident)
            if index is not None:
                persistence.drop(index)
                self.leaving.append((ticket, ident))

    def index_of_exchange(self, incarnation: int) -> QueueIndex:
        """What the store has, and will have, of the messages that an exchange keeps."""
        return self.persistence.open(incarnation << LEVEL_BITS)

    def idents_of(self, queue: "Queue") -> list[int]:
        """What the store knows a queue by, from the lowest level up."""
        lowest = int(queue.incarnation) << LEVEL_BITS
        return [lowest | level for level in range(int(queue.rules.max_priority) + 1)]

    def on_metadata(self, ticket: int) -> None:
        """The metadata is stored up to this ticket."""
        self.persistence.on_metadata(ticket)
        self.retention.on_metadata(ticket)
        leaving = self.leaving
        done = 0
        for wanted, ident in leaving:
            if wanted > ticket:
                break
            done += 1
            self.persistence.forget(ident)
        if done:
            self.leaving = leaving[done:]

    # -- what is stored --------------------------------------------------------------------------

    def keep(self, index: QueueIndex, seq: i64, message: Message) -> None:
        """Write a message of a durable queue into the journal."""
        expires_us: i64 = 0
        if message.expires_at != 0:
            expires_us = (message.expires_at + self.epoch_ns) // 1000
        if expires_us != 0:
            index.expires = True
        self.place(message)
        self._write(index, seq, message, expires_us, message.place)
        index.written += 1

    def hold(self, index: QueueIndex, seq: i64, message: Message, expires_us: i64) -> None:
        """Write a message and a moment until when an exchange holds it; its body is embedded."""
        self._write(index, seq, message, expires_us, 0)

    def _write(
        self, index: QueueIndex, seq: i64, message: Message, expires_us: i64, place: i64
    ) -> None:
        journal = self.journal
        keys = message.hidden_keys
        before = journal.position()
        at_us = (self.turn.now_ns + self.epoch_ns) // 1000
        hidden = b"" if keys is None else join_keys(keys)
        if place != 0:
            lsn = journal.publish_stored(
                index.ident,
                seq,
                PERSISTENT,
                at_us,
                expires_us,
                message.tail,
                message.props,
                hidden,
                place,
                message.size,
                message.traits,
            )
        else:
            lsn = journal.publish(
                index.ident,
                seq,
                PERSISTENT,
                at_us,
                expires_us,
                message.tail,
                message.props,
                hidden,
                message.body,
                message.more,
                message.size,
                message.traits,
            )
        index.enter(seq, lsn, journal.position() - before, message.size)

    def place(self, message: Message) -> None:
        """Have a large body in the message store, once for all queues (ST-2, ST-4)."""
        bodies = self.journal.bodies
        place = message.place
        if place != 0:
            if bodies.holds(place):
                return
        elif message.size + len(message.props) < bodies.embed_below:
            return
        message.place = bodies.put(message.body, message.more, message.size)

    def message_of(self, record: Publish) -> Message:
        return message_of(record, self.epoch_ns)

    def page_writer(self) -> BytesWriter:
        return BytesWriter()

    def write_record(self, writer: BytesWriter, seq: i64, message: Message) -> None:
        """Write a message for a page."""
        keys = message.hidden_keys
        expires_us: i64 = 0
        if message.expires_at != 0:
            expires_us = (message.expires_at + self.epoch_ns) // 1000
        write_publish(
            writer,
            0,
            seq,
            0,
            0,
            expires_us,
            message.tail,
            message.props,
            b"" if keys is None else join_keys(keys),
            message.size,
            message.traits,
            message.size,
        )
        if message.more is None:
            writer.write(message.body)
        else:
            for chunk in message.more:
                writer.write(chunk)

    # -- memory ----------------------------------------------------------------------------------

    def limit_of(self, queue: "Queue") -> i64:
        """What the waiting messages of a queue may cost in memory."""
        if queue.rules.lazy:
            return 0
        target = queue.memory_target
        if target >= 0 and target < self.resident_octets:
            return target
        return self.resident_octets

    def convert(self, queue: "Queue") -> None:
        """A queue became lazy: what it has in memory leaves, in slices."""
        self.turn.chores.append(ReduceChore([queue]))

    def may_page(self) -> bool:
        return not self.disk_low

    def note_large(self, queue: "Queue") -> None:
        self.large[id(queue)] = queue

    def forget(self, queue: "Queue") -> None:
        """A queue is gone."""
        self.large.pop(id(queue), None)
        self.rates.pop(id(queue), None)
        self.unpaged.pop(id(queue), None)
        if queue.slow:
            for one in self.slow:
                if one.queue is queue:
                    self.waits.end(one.handle, int(self.turn.now_ns))
            self.slow = [one for one in self.slow if one.queue is not queue]

    def has_page_room(self, queue: "Queue") -> bool:
        """Whether a page may be written now; if not, the queue has its turn later."""
        if self.pages.pending_bytes < self.pages_max:
            return True
        self.unpaged[id(queue)] = queue
        return False

    def on_page_written(self) -> None:
        """There may be room for more."""
        if self.unpaged and self.pages.pending_bytes <= self.pages_max // 2:
            queues = list(self.unpaged.values())
            self.unpaged = {}
            self.turn.chores.append(ReduceChore(queues))

    def write_page(self, page: PageWrite) -> None:
        self.pages.write(page)

    def read_page(self, page: PageRead) -> None:
        self.pages.read(page)

    def drop_page(self, file: i64, size: i64) -> None:
        self.pages.drop(file, size)

    def open_batch(self) -> i64:
        """The batch to wait for so that all that is written down is safe; 0 when it is."""
        journal = self.journal
        if journal.broken:
            return 0
        if journal.pending() > 0 or journal.running:
            return journal.batch.number
        last = journal.batch.number - 1
        return last if last > self.persistence.safe_batch else 0

    def await_batch(self, waiter: Waiter) -> None:
        """Have the waiter told when what is written by now is on the disk."""
        self.fill_batch()
        self.journal.wait(waiter)

    def fill_batch(self) -> None:
        """Have something in the open batch, so that whoever waits for it is told."""
        if self.journal.pending() == 0:
            self.journal.settle(0, 0, 0, 0)

    # -- commits ---------------------------------------------------------------------------------

    def note_waiting(self, paging: Paging) -> None:
        if not paging.listed:
            paging.listed = True
            self.waiting.append(paging)

    def note_lazy(self, paging: Paging) -> None:
        """Messages came to a queue that keeps none in memory."""
        if not paging.lazy_listed:
            paging.lazy_listed = True
            self.lazy.append(paging)

    def on_committed(self) -> None:
        """A batch is on the disk: what waited for it may leave memory, slow queues may go on."""
        if self.lazy:
            lazy = self.lazy
            self.lazy = []
            for paging in lazy:
                paging.lazy_listed = False
                paging.seal_tail()
        if self.waiting:
            waiting = self.waiting
            self.waiting = []
            lsn = self.journal.committed
            for paging in waiting:
                paging.listed = False
                if paging.on_committed(lsn):
                    self.note_waiting(paging)
        self.overgrown = self.persistence.overgrown
        self._consider_slow()

    def on_shorter(self) -> None:
        """A checkpoint has caught up with the journal."""
        self.overgrown = False
        self._consider_slow()

    def _consider_slow(self) -> None:
        if self.slow and not self.overgrown and self.journal.behind() <= self.pending_max // 2:
            self._open_slow()

    def _open_slow(self) -> None:
        slow = self.slow
        self.slow = []
        for one in slow:
            self.waits.end(one.handle, int(self.turn.now_ns))
            one.queue.on_store_open()

    def on_broken(self) -> None:
        """Nothing is stored any more: who is slowed down for it is not any longer."""
        self._open_slow()

    def is_behind(self) -> bool:
        """Whether more is on its way to the disk than there should be."""
        return self.overgrown or self.journal.behind() > self.pending_max

    def is_far_behind(self) -> bool:
        """Whether it is so much more that memory is at stake."""
        return self.journal.behind() > self.pending_max * FAR

    def slow_down(self, queue: QueueRef, vhost: str) -> None:
        """A queue stores more than the disk takes: its publishers overdraw their credit."""
        setting: str | None = "journal_pending_bytes_max"
        detail = f"{self.journal.behind()} octets are on their way to the disk"
        if self.overgrown:
            setting = None
            octets = self.persistence.closed_bytes()
            detail = f"{octets} octets of journal files wait for a checkpoint"
        wait = Wait(
            Reason.JOURNAL_FULL,
            Subject(Kind.QUEUE, queue.name, vhost),
            Subject(Kind.STORE, STORE_NAME),
            int(self.turn.now_ns),
            setting=setting,
            detail=detail,
        )
        self.slow.append(SlowQueue(queue, self.waits.begin(wait)))

    # -- what goes wrong -------------------------------------------------------------------------

    def tell_lost(self, queue: "Queue", lost: i64, why: str) -> None:
        self.lost_count += lost
        fields = {"queue": queue.name, "vhost": queue.vhost, "messages": int(lost), "why": why}
        self.log.event("error", "queue.messages_lost", fields)

    def tell_lost_keys(self, queue: "Queue", lost: i64, why: str) -> None:
        fields = {"queue": queue.name, "vhost": queue.vhost, "keys": int(lost), "why": why}
        self.log.event("error", "queue.keys_lost", fields)

    def rest(self, queue: "Queue", why: str) -> None:
        fields = {"queue": queue.name, "vhost": queue.vhost, "why": why}
        self.log.event("error", "queue.read_failed", fields)
        self.turn.timers.arm(RestTimer(queue), self.turn.now_ns + REST_NS)
