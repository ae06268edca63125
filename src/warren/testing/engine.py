"""One node on a thread of its own, and the way from the test's thread to its event loop.

The thread, its loop and its clock live as long as the broker; nodes come and go on them with
`restart`. Everything of a node is touched on its loop's thread only: `call` and `run` go there and
wait, with a limit in real time, whatever the broker's clock says.
"""

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Final, TypeVar, final

from warren.server.config import Settings
from warren.server.node import Node
from warren.server.socket_link import SocketLink
from warren.session.watch import next_look_ns, restart_check
from warren.testing.clock import VirtualClock, VirtualLoop
from warren.testing.errors import StoppedError
from warren.testing.files import DirectLanes, MemoryFiles
from warren.testing.log import KeptLog
from warren.testing.metadata import KeptMetadata

if TYPE_CHECKING:
    from concurrent.futures import Future
from warren.vhost.change import Change

T = TypeVar("T")

# Octets of the journal until what is left of it goes into segments: all of it is memory here.
JOURNAL_KEPT: Final = 8 * 1024 * 1024

# How long an answer of the loop may take: far above everything but a deadlock.
ANSWER_S_MAX: Final = 60.0
# Rounds of the loop without anything to do until it counts as idle: what a socket brings is read
# in the round after it came, handled, and sent at the end of the turn in the one after that.
IDLE_ROUNDS: Final = 3
# Work that begets work for ever is a mistake; a purge of ten million messages takes 2,500 turns.
ROUNDS_MAX: Final = 1_000_000


@final
class Engine:
    def __init__(self, settings: Settings, held_ports: list[socket.socket]) -> None:
        self.settings = settings
        self.clock = VirtualClock()
        self.loop = VirtualLoop(self.clock)
        self.log = KeptLog(self.clock)
        self.loop.set_exception_handler(self.log.on_loop_error)
        self._held_ports = held_ports
        self._metadata = KeptMetadata()
        self._files = MemoryFiles()
        self._node: Node | None = None
        self._closing = self.loop.create_future()
        self._advancing = asyncio.Lock()
        self._thread = threading.Thread(target=self._work, name="warren-testing", daemon=True)

    # From the test's thread.

    def start(self) -> None:
        """Start the thread and the node; return when clients may connect."""
        self._thread.start()
        try:
            self.run(self._start_node())
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the node and the thread; a second call does nothing."""
        if self._thread.is_alive():
            self.run(self._end_node(kill=False))
            self.loop.call_soon_threadsafe(self._closing.set_result, None)
            self._thread.join(ANSWER_S_MAX)
        self.loop.close()
        self._metadata.forget()
        for one in self._held_ports:
            one.close()

    def call(self, function: Callable[[], T]) -> T:
        """Call a function on the loop's thread."""

        async def called() -> T:
            return function()

        return self.run(called())

    def change(self, *changes: Change) -> None:
        """Make changes of metadata true."""

        def make() -> None:
            self.node.hub.begin()
            self.node.broker.metadata.apply(changes)

        self.call(make)

    def run(self, work: Coroutine[object, object, T]) -> T:
        """Run a coroutine on the loop and wait for what it returns."""
        done = self.submit(work)
        try:
            return done.result(ANSWER_S_MAX)
        except TimeoutError:
            if done.done():
                raise
            done.cancel()
            raise StoppedError(f"the broker has not answered for {ANSWER_S_MAX:.0f} s") from None

    def submit(self, work: Coroutine[object, object, T]) -> "Future[T]":
        """Begin a coroutine on the loop."""
        if self.loop.is_closed() or not self._thread.is_alive():
            work.close()
            raise StoppedError("the broker is not running: use it inside its `with` block")
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def wait_held(self, release: threading.Event) -> None:
        """Hold the loop's thread until the event: the broker hangs."""
        self.submit(_hang(release))

    # On the loop's thread.

    @property
    def node(self) -> Node:
        if self._node is None:
            raise StoppedError("the broker is not running")
        return self._node

    def _work(self) -> None:
        loop = self.loop
        loop.run_until_complete(self._closing)
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())

    async def _start_node(self) -> None:
        node = Node(
            self.settings,
            self.loop,
            self.clock,
            self.log,
            store=self._metadata,
            files=self._files,
            lanes=DirectLanes,
        )
        storage = node.broker.turn.storage
        if storage is not None:
            storage.persistence.kept = JOURNAL_KEPT
        await node.start()
        self._node = node

    async def _end_node(self, *, kill: bool) -> None:
        node, self._node = self._node, None
        if node is None:
            return
        node.stop("the test is over")
        if not kill:
            # Clients are told why; their answers are not waited for.
            await self._idle(node)
        if not node.stopped.done():
            node.stop("the test is over")
        await node.ended()
        # TLS transports tell of their end one round later.
        await self._idle(node)

    async def restart(self, *, kill: bool) -> None:
        """End the node and start another one on the same ports."""
        if kill:
            # The disk as it is at this moment: what the node does on its way out is not on it.
            self._files = self._files.copy()
        await self._end_node(kill=kill)
        await self._start_node()

    async def refuse(self) -> None:
        """Stop listening: who connects is refused."""
        self.node.listeners.stop()

    async def listen(self) -> None:
        """Listen again."""
        listeners = self.node.listeners
        if not listeners.rows:
            await listeners.start()

    async def settle(self) -> None:
        """Return when everything that was sent to the node before is done and answered."""
        await self._idle(self.node)

    async def _idle(self, node: Node) -> None:
        hub = node.hub
        idle = rounds = 0
        while idle < IDLE_ROUNDS + _rest_turns(node):
            before = hub.turns
            await asyncio.sleep(0)
            idle = 0 if hub.turns != before or hub.turn_pending else idle + 1
            rounds += 1
            if rounds > ROUNDS_MAX:
                raise StoppedError("the broker has not come to rest: something goes round for ever")

    async def advance(self, span_ns: int, *, heartbeats: bool) -> None:
        """Let time pass, from one deadline to the next, each with all that follows from it."""
        async with self._advancing:
            was_held = self.clock.held
            self.loop.hold()
            node = self.node
            node.stop_beats()
            try:
                await self._advance(node, self.clock.monotonic_ns() + span_ns, heartbeats)
            finally:
                if not node.stopped.done():
                    node.start_beats()
                if not was_held:
                    self.loop.release()
            await self._idle(node)

    async def _advance(self, node: Node, until_ns: int, heartbeats: bool) -> None:
        await self._idle(node)
        while not node.stopped.done():
            if not heartbeats:
                _excuse_silence(node)
            due_ns = self._next_due_ns(node)
            now_ns = self.clock.monotonic_ns()
            last = due_ns is None or due_ns > until_ns
            if due_ns is None or due_ns > until_ns:
                due_ns = until_ns
            # At least a step: a deadline that is moved by what it causes must not hold time up.
            now_ns = max(due_ns, now_ns if last else now_ns + 1)
            self.loop.go_to(now_ns)
            node.hub.look_at_clock(node.hub.links, now_ns)
            await self._idle(node)
            if last:
                return

    def _next_due_ns(self, node: Node) -> int | None:
        """When something happens next if no client does anything."""
        found = [
            int(next_look_ns(one.connection))
            for one in node.hub.links.values()
            if one.connection is not None
        ]
        due = [at for at in found if at > 0]
        timer = self.loop.next_deadline_ns()
        if timer is not None:
            due.append(timer)
        return min(due, default=None)


async def _hang(release: threading.Event) -> None:
    release.wait()


def _rest_turns(node: Node) -> int:
    """How many rounds a publisher that is ready may sit out (see `server.socket_link`)."""
    links = node.hub.links.values()
    return max((int(one.turns_out) for one in links if isinstance(one, SocketLink)), default=0)


def _excuse_silence(node: Node) -> None:
    """Let no client be dropped for silence that only the jump in time made."""
    for link in node.hub.links.values():
        connection = link.connection
        if connection is not None and connection.heartbeat_s > 0:
            restart_check(connection)
