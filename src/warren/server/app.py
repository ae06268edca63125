"""The node inside its process: taken down and brought back while the control socket stays.

`stop_app` is an orderly stop of the node: clients are told, what is not durable is gone, the
metadata file is closed. `start_app` makes another node of the same settings, which restores what
was kept, as after a restart of the process; what was set at run time is gone. In between only a few
commands are answered, the rest are refused.
"""

import asyncio
import gc
import os
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Final, NoReturn, final

from msgspec import Struct

import warren
from warren.core.log import EventLog
from warren.flow.wait import Subject
from warren.server.boot_definitions import BootDefinitionsError
from warren.server.changing import DONE, Done
from warren.server.command_node import StopArgs, StopReply
from warren.server.control import Code, Command, Control, ControlError, NoArgs, command
from warren.server.management import Management, ManagementError
from warren.server.metadata_file import MetadataError
from warren.server.node import COMPATIBLE_VERSION, Node
from warren.server.notify import Notifier
from warren.server.tls import TlsError
from warren.server.view import (
    ConnectionPage,
    Diag,
    Health,
    NodeView,
    QueuePage,
    Status,
    WhyReply,
)

# What a start is refused with.
REFUSALS: Final = (OSError, BootDefinitionsError, ManagementError, MetadataError, TlsError)


class Pong(Struct, frozen=True, kw_only=True):
    """Who answers; `running`: its application serves clients."""

    node: str
    pid: int
    running: bool
    version: str = warren.__version__
    compatible_version: str = COMPATIBLE_VERSION


@final
class App:
    def __init__(self, name: str, log: EventLog, make: Callable[[], Node]) -> None:
        self.name = name
        self.log = log
        self.make = make
        self.node: Node | None = None
        # The task that waits for the end of the node, and whether the process goes on after it.
        self.ending: asyncio.Task[None] | None = None
        self.parting = False
        self.changing = asyncio.Lock()
        self.over = asyncio.Event()
        self.away = Control(_Away(self), log, self._away_commands())

    # -- the process -------------------------------------------------------------------------------

    async def start(self) -> Node:
        """Make a node and have it listen; what it raises is the caller's."""
        node = self.make()
        for one in self._commands():
            node.control.add(one)
        self.node = node
        management = Management(node)
        self.ending = asyncio.create_task(self._watch(node, management))
        try:
            management.listen()
            await node.start()
            management.start()
        except BaseException:
            self.parting = True
            node.stop("not started")
            await self._ended()
            raise
        return node

    def stop(self, reason: str) -> None:
        """Stop the node, and with it the process."""
        self.parting = False
        if self.node is None:
            self.over.set()
        else:
            self.node.stop(reason)

    async def _watch(self, node: Node, management: Management) -> None:
        try:
            await node.ended()
        finally:
            node.feeds.close()
            await management.close()
            self.node = None
            if not self.parting:
                self.over.set()

    async def _ended(self) -> None:
        if self.ending is not None:
            await self.ending
            self.ending = None
        self.parting = False
        # Off while a node runs; a node that is gone is one large cycle.
        gc.collect()

    # -- the control interface ---------------------------------------------------------------------

    def replies(self, request: bytes) -> AsyncGenerator[bytes]:
        """Have a request answered by the node, or in its place."""
        control = self.away if self.node is None else self.node.control
        return control.replies(request)

    def ping(self, view: NodeView, args: NoArgs) -> Pong:
        running = self.node is not None and self.node.running and not self.node.stopping
        return Pong(node=self.name, pid=os.getpid(), running=running)

    async def stop_app(self, view: NodeView, args: NoArgs) -> Done:
        async with self.changing:
            node = self.node
            if node is not None and not node.stopping:
                self.parting = True
                # The service manager is told of the process, not of the application.
                node.notifier = Notifier()
                node.stop("stop_app")
                await self._ended()
        return DONE

    async def start_app(self, view: NodeView, args: NoArgs) -> Done:
        async with self.changing:
            if self.node is None and not self.over.is_set():
                try:
                    await self.start()
                except REFUSALS as failure:
                    raise ControlError(Code.REFUSED, f"not started: {failure}") from None
        return DONE

    def _stop(self, view: NodeView, args: StopArgs) -> StopReply:
        asyncio.get_running_loop().call_soon(self.stop, args.reason)
        return StopReply(pid=os.getpid())

    def _commands(self) -> Iterator[Command]:
        yield command("ping", "Tell who answers.", NoArgs, Pong, self.ping)
        yield command(
            "stop_app", "Take the node down, not its process.", NoArgs, Done, self.stop_app
        )
        yield command("start_app", "Bring the node back.", NoArgs, Done, self.start_app)

    def _away_commands(self) -> Iterator[Command]:
        yield from self._commands()
        yield command("stop", "End the process.", StopArgs, StopReply, self._stop)


def _refuse() -> NoReturn:
    raise ControlError(Code.REFUSED, "the node's application is stopped", "use start_app")


@final
class _Away(NodeView):
    """The view of no node."""

    def __init__(self, app: App) -> None:
        self.app = app

    def status(self) -> Status:
        _refuse()

    def why(self, subject: Subject | None) -> WhyReply:
        _refuse()

    def stop(self, reason: str) -> None:
        self.app.stop(reason)

    def diag(self) -> Diag:
        _refuse()

    def health(self) -> Health:
        _refuse()

    def connections(self, *, offset: int, limit: int) -> ConnectionPage:
        _refuse()

    def queues(self, *, vhost: str | None, offset: int, limit: int) -> QueuePage:
        _refuse()
