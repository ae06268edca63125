"""The feed of the management process: the node's state as rows, and what changes of it.

`Feeds` counts every change of metadata and hands it to whoever is subscribed; `Feed.rows` is one
subscription: all there is, then changes as they come, and counters at an interval. Everything is
made in slices of SLICE_NS with a rest behind each, so that 50,000 queues are counted without a turn
getting longer by more than a slice.

Bounded: what a subscriber has not taken. One that falls behind by PENDING_MAX changes is refused
further rows and may begin anew.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, final

from warren.management.feed import (
    Begun,
    Complete,
    ConnectionsGone,
    ConnectionState,
    Position,
    QueueCounts,
    QueueRow,
)
from warren.server.control import Code, ControlError
from warren.server.feed_state import connection_state, node_state, queue_row
from warren.server.list_cell import sliced
from warren.server.state_change import everything, exchanges
from warren.vhost.change import Change, QueueDelete, QueuePut, VHostDelete, VHostPut

if TYPE_CHECKING:
    from warren.server.node import Node

# A slice, and the rest behind it: counting takes at most a fifth of the loop.
SLICE_NS: Final = 500_000
REST_S: Final = 0.002
PENDING_MAX: Final = 500_000
# Changes that go into one part.
PART_MAX: Final = 1000


@final
class Feeds:
    """All subscriptions of a node, and what it counts for them."""

    def __init__(self, node: "Node") -> None:
        self.node = node
        self.position = 0
        self.queues_created = 0
        self.queues_deleted = 0
        self.open: list[Feed] = []
        # From the node's time to people's.
        self.wall_offset_ns = node.clock.wall_ns() - node.clock.monotonic_ns()
        node.broker.metadata.watcher = self.note

    def note(self, change: Change) -> None:
        self.position += 1
        if isinstance(change, QueuePut):
            self.queues_created += 1
        elif isinstance(change, QueueDelete):
            self.queues_deleted += 1
        for feed in self.open:
            feed.note(change)

    def close(self) -> None:
        """The node ends: so do all subscriptions."""
        for feed in self.open:
            feed.ending = True
            feed.woken.set()


@final
class Feed:
    def __init__(self, feeds: Feeds, interval_ms: int) -> None:
        self.feeds = feeds
        self.node = feeds.node
        self.clock = feeds.node.clock
        self.interval_s = interval_ms / 1000
        self.pending: deque[Change] = deque()
        self.woken = asyncio.Event()
        self.ending = False
        # What was told last: of queues by vhost and name, of connections by identity.
        self.queues: dict[str, dict[str, QueueRow]] = {}
        self.connections: dict[int, ConnectionState] = {}

    def note(self, change: Change) -> None:
        self.pending.append(change)
        self.woken.set()
        if isinstance(change, QueueDelete):
            self.queues.get(change.vhost, {}).pop(change.name, None)
        elif isinstance(change, VHostDelete):
            self.queues.pop(change.name, None)

    async def rows(self) -> AsyncGenerator[Sequence[object]]:
        """Yield all there is, then what changes, until the node or the reader ends."""
        self.feeds.open.append(self)
        try:
            yield [Begun()]
            for part in sliced(everything(self.node.broker), self.clock, slice_ns=SLICE_NS):
                yield part
                for changes in self._changes():
                    yield changes
                await asyncio.sleep(REST_S)
            yield [Complete(), Position(at=self.feeds.position)]
            while not self.ending:
                async for rows in self._round():
                    yield rows
        finally:
            self.feeds.open.remove(self)

    async def _round(self) -> AsyncIterator[Sequence[object]]:
        """One interval: counters first, then a wait for changes."""
        loop = self.node.loop
        until = loop.time() + self.interval_s
        for rows in self._counters():
            if rows:
                yield rows
            for changes in self._changes():
                yield changes
            await asyncio.sleep(REST_S)
        yield [node_state(self.node)]
        while not self.ending:
            for changes in self._changes():
                yield changes
            left = until - loop.time()
            if left <= 0:
                return
            self.woken.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self.woken.wait()

    def _changes(self) -> Iterator[Sequence[object]]:
        """Take what has happened, some at a time, and say how far that is."""
        if len(self.pending) > PENDING_MAX:
            raise ControlError(Code.BUSY, "the reader is too far behind", "begin anew")
        while self.pending:
            told: list[object] = []
            for _ in range(min(PART_MAX, len(self.pending))):
                change = self.pending.popleft()
                told.append(change)
                if isinstance(change, VHostPut) and change.name in self.node.broker.vhosts:
                    # Those that every vhost has are no changes of their own.
                    told.extend(exchanges(self.node.broker.vhosts[change.name]))
            told.append(Position(at=self.feeds.position - len(self.pending)))
            yield told

    # -- counters ----------------------------------------------------------------------------------

    def _counters(self) -> Iterator[Sequence[object]]:
        for rows in sliced(self._queues(), self.clock, slice_ns=SLICE_NS):
            yield [QueueCounts(rows=rows)] if rows else []
        yield from sliced(self._connections(), self.clock, slice_ns=SLICE_NS)
        gone = self.connections.keys() - self.node.hub.links.keys()
        if gone:
            for identity in gone:
                del self.connections[identity]
            yield [ConnectionsGone(identities=sorted(gone))]

    def _queues(self) -> Iterator[QueueRow | None]:
        for vhost in list(self.node.broker.vhosts.values()):
            told = self.queues.setdefault(vhost.name, {})
            for name in list(vhost.queues):
                queue = vhost.queues.get(name)
                if queue is None:
                    continue
                row = queue_row(queue)
                if told.get(name) == row:
                    yield None
                else:
                    told[name] = row
                    yield row

    def _connections(self) -> Iterator[ConnectionState | None]:
        links = self.node.hub.links
        for identity in list(links):
            link = links.get(identity)
            connection = None if link is None else link.connection
            if link is None or connection is None:
                continue
            before = self.connections.get(identity)
            state = connection_state(self.node, link, connection, before)
            if before == state:
                yield None
            else:
                self.connections[identity] = state
                yield state
