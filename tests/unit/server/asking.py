"""A whole node without sockets, asked through its control interface."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from tests.support.gauge import FakeGauge
from tests.support.machine import FakeClock, FakeLog
from warren.server.config import Settings
from warren.server.metadata_store import MetadataStore
from warren.server.node import Node


class Refused(Exception):
    """The node's refusal of a command."""

    def __init__(self, error: dict[str, str]) -> None:
        super().__init__(error["message"])
        self.code = error["code"]
        self.message = error["message"]
        self.fix = error["fix"]


class QuietLog(FakeLog):
    """Keeps what was logged."""

    def tell_suppressed(self) -> None:
        pass

    def level(self, level: str) -> None:
        pass


class Asker:
    """A node and its control interface; nothing listens."""

    def __init__(
        self,
        settings: Settings,
        store: MetadataStore | None = None,
        gauge: FakeGauge | None = None,
    ) -> None:
        self.log = QuietLog()
        loop = asyncio.get_running_loop()
        self.clock = FakeClock()
        self.node = Node(settings, loop, self.clock, self.log, store=store, gauge=gauge)

    async def ask(self, command: str, **args: Any) -> Any:
        """Return the reply, or the rows of a list; raise `Refused`."""
        request = {"v": 1, "id": 1, "command": command, "args": args}
        lines = (await self.node.control.answer(json.dumps(request).encode())).split(b"\n")
        replies = [json.loads(line) for line in lines]
        if "error" in replies[-1]:
            raise Refused(replies[-1]["error"])
        ok = replies[-1]["ok"]
        if set(ok) != {"count"}:
            return ok
        rows = [row for reply in replies[:-1] for row in reply["rows"]]
        assert len(rows) == ok["count"]
        return rows


def with_node(
    settings: Settings, test: Callable[[Asker], Awaitable[None]], store: MetadataStore | None = None
) -> None:
    """Run a test with a node that has been made usable."""

    async def run() -> None:
        asker = Asker(settings, store)
        await asker.node.prepare()
        try:
            await test(asker)
        finally:
            if store is not None:
                store.close()

    asyncio.run(run())
