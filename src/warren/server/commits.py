"""Who waits for which commit of the metadata: answers to clients, and commands.

An answer to a client stays in its connection's output until the commit that holds what it promises
(`Output.hold`, kept back by the links). A command awaits `durable`. When a commit fails, nobody
gets a false yes: connections with an answer kept back are closed with 506 instead of it, commands
raise, and until the store works again changes that it would have to keep are refused.
"""

from typing import TYPE_CHECKING, final

from warren.core import AmqpError, reply
from warren.core.log import EventLog
from warren.server.hub import Hub
from warren.server.view import HealthCheck, HealthReason

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from warren.vhost import Metadata


class NotStoredError(Exception):
    """A change is true in memory and could not be stored."""


def _nothing() -> None:
    """Nobody wants to know."""


@final
class Commits:
    """The `Reports` of the metadata store."""

    def __init__(self, hub: Hub, metadata: "Metadata", log: EventLog) -> None:
        self.hub = hub
        self.metadata = metadata
        self.log = log
        # Why nothing is stored at the moment, and whether that may pass by itself.
        self.failure = ""
        self.passing = False
        # What to do about a failure that may pass: the disk may be full.
        self.on_passing: Callable[[], None] = _nothing
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    def on_committed(self, ticket: int) -> None:
        if self.failure:
            self.failure = ""
            self.log.event("info", "metadata.recovered", {"ticket": ticket})
        self.metadata.committed(ticket)
        self.hub.committed = ticket
        storage = self.hub.broker.turn.storage
        if storage is not None:
            storage.on_metadata(ticket)
            self.hub.safe_batch = storage.persistence.safe_batch
        if self.hub.held:
            self.hub.begin()
            self.hub.release()
        still = []
        for wanted, future in self._waiting:
            if wanted > ticket:
                still.append((wanted, future))
            elif not future.done():
                future.set_result(None)
        self._waiting = still

    def on_failed(self, reason: str, *, passing: bool) -> None:
        self.failure = reason
        self.passing = passing
        self.log.event("error", "metadata.failed", {"reason": reason, "passing": passing})
        self.metadata.failed()
        if passing:
            self.on_passing()
        self.hub.begin()
        self.hub.refuse_held(
            AmqpError(reply.RESOURCE_ERROR, f"metadata cannot be stored: {reason}")
        )
        waiting, self._waiting = self._waiting, []
        for _, future in waiting:
            if not future.done():
                future.set_exception(NotStoredError(reason))

    def check(self) -> HealthCheck:
        """What the health of the node says of the metadata."""
        if not self.failure:
            return HealthCheck(name="metadata", ok=True)
        return HealthCheck(
            name="metadata",
            ok=False,
            reason=HealthReason.STORE_FAILED,
            detail=f"changes of users, queues and bindings cannot be stored: {self.failure}",
            advice="make room; it is tried again every second"
            if self.passing
            else "nothing is stored until the node is started again; see the disk and its log",
        )

    async def durable(self, ticket: int) -> None:
        """Return when a ticket is committed; `NotStoredError` when that fails."""
        if ticket <= self.hub.committed:
            return
        if self.failure:
            raise NotStoredError(self.failure)
        future: asyncio.Future[None] = self.hub.loop.create_future()
        self._waiting.append((ticket, future))
        await future
