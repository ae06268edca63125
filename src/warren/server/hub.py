"""The loop turn: who has output, which queues go on, whose time is up.

All links of a node hang on one hub. What sockets bring in is handled as it comes; what follows
from it leaves once, at the end of the turn: queues hand out what waits, then each link with output
is flushed with one system call. So a turn costs one send per peer, however many messages moved.
"""

import asyncio
import traceback
from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64, mypyc_attr

from warren.core import AmqpError, Clock, reply
from warren.protocol.output import Outbox
from warren.session import RUNNING
from warren.vhost import Broker

if TYPE_CHECKING:
    from collections.abc import Callable

    from warren.session import Connection

# Links are looked at by the clock in turns: each one every `TICK_SLOTS` x `TICK_S`.
TICK_SLOTS: Final = 8
TICK_S: Final = 0.05
# Octets taken after which memory is measured, whatever the clock says.
TAKEN_MAX: Final = 64 * 1024 * 1024


def place_of(failure: Exception) -> str:
    """Where a mistake happened."""
    frames = traceback.extract_tb(failure.__traceback__)
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "unknown"


def receive(connection: "Connection", data: bytes) -> None:
    """Hand octets to a session; a mistake of ours ends that connection and nothing else."""
    try:
        connection.receive(data)
    except Exception as failure:
        connection.broker.log.event(
            "error",
            "connection.internal_error",
            {
                "connection": connection.subject.name,
                "error": repr(failure),
                "at": place_of(failure),
            },
        )
        try:
            connection.close(AmqpError(reply.INTERNAL_ERROR, ""))
        except Exception:
            connection.lost("internal error")


# TlsLink is an interpreted subclass: asyncio wants a Protocol of its own making.
@mypyc_attr(allow_interpreted_subclasses=True)
class Link:
    """One connection's way to its peer: a socket, or a TLS transport."""

    def __init__(self, hub: "Hub") -> None:
        self.hub = hub
        self.connection: Connection | None = None
        # Its output waits for a commit of the metadata.
        self.held = False

    def keep_back(self) -> None:
        """Have the output flushed when what it promises is committed."""
        if not self.held:
            self.held = True
            self.hub.held.append(self)

    def refuse(self, error: AmqpError) -> None:
        """What the output promises will not come true: send the error instead of it."""
        connection = self.connection
        if connection is None:
            return
        output = connection.output
        output.hold = 0
        output.hold_batch = 0
        if connection.phase != RUNNING or output.torn:
            # The peer has half a frame, or a farewell: there is nothing that could follow it.
            connection.lost(error.text())
        else:
            output.discard()
            connection.close(error)
        self.look()

    def flush(self) -> None:
        """Send what waits in the connection's output."""

    def look(self) -> None:
        """Do what the connection's phase asks for: stop or resume reading, close."""

    def abort(self) -> None:
        """Drop the peer at once."""


@final
class Hub:
    def __init__(self, loop: asyncio.AbstractEventLoop, broker: Broker, clock: Clock) -> None:
        self.loop = loop
        self.broker = broker
        self.clock = clock
        self.outbox = Outbox()
        self.links: dict[int, Link] = {}
        self.slots: list[dict[int, Link]] = [{} for _ in range(TICK_SLOTS)]
        self.slot = 0
        self.turn_pending = False
        # Turns so far: whoever waits until nothing is left to do compares.
        self.turns: i64 = 0
        # Whose octets came last, and the turn until which several peers are being heard.
        self.heard = 0
        self.shared_until: i64 = 0
        self.next_identity = 1
        self.ticker: asyncio.TimerHandle | None = None
        self.last_tick_ns: i64 = 0
        self.late_ns_max: i64 = 0
        # The last ticket of the metadata that is committed, and the links that wait for later ones.
        self.committed: i64 = 0
        self.held: list[Link] = []
        # The last batch of the journal that was told to be safe.
        self.safe_batch: i64 = 0
        # Octets taken from peers since memory was measured, and after how many it is again: what
        # comes in a second may be more than there is.
        self.taken: i64 = 0
        self.taken_max: i64 = TAKEN_MAX
        self.measure: Callable[[], None] | None = None
        # The alarm clock of the turn's timers, and the time it is set to.
        self.waker: asyncio.TimerHandle | None = None
        self.wake_ns: i64 = 0

    def add(self, link: Link) -> int:
        identity = self.next_identity
        self.next_identity = identity + 1
        self.links[identity] = link
        self.slots[identity % TICK_SLOTS][identity] = link
        return identity

    def remove(self, identity: int) -> None:
        self.links.pop(identity, None)
        self.slots[identity % TICK_SLOTS].pop(identity, None)

    def took(self, count: int) -> None:
        """Octets came from a peer."""
        self.taken += count
        if self.taken >= self.taken_max:
            self.taken = 0
            if self.measure is not None:
                self.measure()

    def begin(self) -> None:
        """Something happens now: have the turn ended after everything that is ready."""
        if not self.turn_pending:
            self.turn_pending = True
            self.broker.turn.now_ns = self.clock.monotonic_ns()
            self.loop.call_soon(self.end_turn)

    def end_turn(self) -> None:
        self.turn_pending = False
        self.turns += 1
        turn = self.broker.turn
        more = turn.run()
        if turn.storage is not None:
            # Before anything is sent: the disk works meanwhile.
            turn.storage.persistence.end_turn()
        if self.broker.turn.failures:
            self.tell_failures()
        for output in self.outbox.take_dirty():
            link = output.owner
            if isinstance(link, Link):
                link.flush()
            else:
                output.discard()
        turn.busy_ns += self.clock.monotonic_ns() - turn.now_ns
        if more or self.broker.turn.queues or self.outbox.dirty:
            self.begin()
        elif self.broker.turn.timers.heap:
            self.set_waker()

    def tell_failures(self) -> None:
        """What went wrong in a turn: the queue it happened in stands still, and the log says so."""
        failures = self.broker.turn.failures
        self.broker.turn.failures = []
        for failure in failures:
            queue = failure.queue
            self.broker.log.event(
                "error",
                "queue.failed",
                {
                    "queue": "" if queue is None else queue.name,
                    "vhost": "" if queue is None else queue.vhost,
                    "error": repr(failure.error),
                    "at": place_of(failure.error),
                },
            )

    def set_waker(self) -> None:
        """Have a turn begin when the next timer is due, if nothing else brings one earlier."""
        next_ns = self.broker.turn.timers.next_ns()
        if self.waker is not None:
            if self.wake_ns <= next_ns:
                return
            self.waker.cancel()
        self.wake_ns = next_ns
        delay_ns = next_ns - self.clock.monotonic_ns()
        # A timer of the loop may be early by its resolution; a turn that is does nothing.
        self.waker = self.loop.call_later(max(float(delay_ns) / 1e9, 0.0) + 0.001, self.wake)

    def wake(self) -> None:
        self.waker = None
        self.begin()

    def release(self) -> None:
        """Flush what was kept back; what waits for a later commit is kept back again."""
        held = self.held
        self.held = []
        for link in held:
            link.held = False
            link.flush()

    def refuse_held(self, error: AmqpError) -> None:
        """End the connections whose answers will not come true."""
        held = self.held
        self.held = []
        for link in held:
            link.held = False
            connection = link.connection
            if connection is not None and not self.lost(connection):
                link.keep_back()
            else:
                link.refuse(error)

    def lost(self, connection: "Connection") -> bool:
        """Whether what a connection was promised is lost with the store that failed."""
        storage = self.broker.turn.storage
        output = connection.output
        if output.hold > self.committed and self.broker.metadata.backend.failure:
            return True
        broken = storage is not None and bool(storage.journal.broken)
        return broken and output.hold_batch > self.safe_batch

    def is_held(self, connection: "Connection") -> bool:
        """Whether what a connection is about to be told is not stored yet."""
        output = connection.output
        return output.hold > self.committed or output.hold_batch > self.safe_batch

    def start_ticking(self) -> None:
        self.last_tick_ns = self.clock.monotonic_ns()
        self.ticker = self.loop.call_later(TICK_S, self.tick)

    def tick(self) -> None:
        """Let an eighth of the connections look at the clock."""
        now: i64 = self.clock.monotonic_ns()
        late = now - self.last_tick_ns - 50_000_000
        if late > self.late_ns_max:
            self.late_ns_max = late
        self.last_tick_ns = now
        self.slot = (self.slot + 1) % TICK_SLOTS
        self.look_at_clock(self.slots[self.slot], now)
        self.ticker = self.loop.call_later(TICK_S, self.tick)

    def look_at_clock(self, links: dict[int, Link], now: i64) -> None:
        """Let these connections look at the clock."""
        self.begin()
        for link in list(links.values()):
            connection = link.connection
            if connection is not None:
                connection.tick(now)
                link.look()

    def stop_ticking(self) -> None:
        if self.ticker is not None:
            self.ticker.cancel()

    def stop_waking(self) -> None:
        """The node has ended: no timer brings a turn any more."""
        if self.waker is not None:
            self.waker.cancel()
