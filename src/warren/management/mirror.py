"""Keeps the copy up to date: reads the feed, for ever, and begins anew when it breaks off.

Until a new copy is complete the old one goes on being asked. `current` is for endpoints that must
show what has just been done: it waits until the copy is where the node is now, a moment at most.
"""

import asyncio
from collections.abc import Callable
from contextlib import aclosing, suppress
from typing import Final, final

import msgspec

from warren.management.control import ControlClient, NodeGoneError, RefusedError
from warren.management.copy import RIGHTS, Copy
from warren.management.feed import DECODER, Begun, Complete, Position, Told

AGAIN_S: Final = 0.5
# Nobody waits longer for the latest state; then the answer is what there is (T-18).
CURRENT_S_MAX: Final = 2.0
# How long the first questions wait for a copy at all.
FIRST_S_MAX: Final = 20.0


@final
class Mirror:
    def __init__(
        self, control: ControlClient, interval_ms: int, on_rights: Callable[[], None]
    ) -> None:
        self._control = control
        self._interval_ms = interval_ms
        self._on_rights = on_rights
        self.copy = Copy()
        self._begun: Copy | None = None
        self._at = 0
        self._complete = asyncio.Event()
        self._moved = asyncio.Condition()
        self._asking: asyncio.Task[int] | None = None

    async def run(self) -> None:
        while True:
            # The node is ending, or this process is too slow for it.
            with suppress(NodeGoneError, RefusedError):
                await self._read()
            await asyncio.sleep(AGAIN_S)

    async def _read(self) -> None:
        args = {"interval_ms": self._interval_ms}
        async with aclosing(self._control.parts("feed", args)) as parts:
            async for part in parts:
                try:
                    rows = DECODER.decode(part)
                except msgspec.MsgspecError as failure:
                    raise NodeGoneError(f"feed: {failure}") from None
                for told in rows:
                    self._take(told)
                async with self._moved:
                    self._moved.notify_all()

    def _take(self, told: Told) -> None:
        copy = self._begun or self.copy
        if isinstance(told, Begun):
            self._begun = Copy()
        elif isinstance(told, Complete):
            self.copy, self._begun = copy, None
            self._complete.set()
            self._on_rights()
        elif isinstance(told, Position):
            self._at = told.at
        else:
            copy.apply(told)
            if isinstance(told, RIGHTS):
                self._on_rights()

    async def current(self) -> Copy:
        """Return the copy once it has everything that the node had when this was called."""
        try:
            async with asyncio.timeout(FIRST_S_MAX):
                await self._complete.wait()
            async with asyncio.timeout(CURRENT_S_MAX):
                wanted = await self._position()
                async with self._moved:
                    await self._moved.wait_for(lambda: self._at >= wanted)
        except (TimeoutError, NodeGoneError):
            if not self._complete.is_set():
                raise NodeGoneError("the node has not told its state yet") from None
        return self.copy

    async def _position(self) -> int:
        """Ask where the node is; who asks while a question waits to be sent shares its answer."""
        asking = self._asking
        if asking is None:
            asking = asyncio.create_task(self._ask_position())
            self._asking = asking
        return await asyncio.shield(asking)

    async def _ask_position(self) -> int:
        # From here on a new question is needed by whoever comes.
        await asyncio.sleep(0)
        self._asking = None
        told = await self._control.ask("position")
        return int(told["at"])
