"""The awaitable form of what waits, for tests on an event loop of their own.

Everything else of `Broker` answers at once and is called as it is: the broker has its own thread,
so it never waits for the loop of the test.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar, final

from warren.testing.clock import span_ns
from warren.testing.wait import WITHIN_S, wait_async

if TYPE_CHECKING:
    from warren.testing.engine import Engine
    from warren.testing.message import Message
    from warren.testing.state import QueueState
    from warren.testing.vhost import VHost

R = TypeVar("R")


@final
class AsyncSide:
    """`broker.aio`: the same names, to be awaited."""

    def __init__(self, home: "VHost", engine: "Engine") -> None:
        self._home = home
        self._engine = engine

    async def advance(self, seconds: float, *, heartbeats: bool = True) -> None:
        """`broker.clock.advance`."""
        work = self._engine.advance(span_ns(seconds), heartbeats=heartbeats)
        await asyncio.wrap_future(self._engine.submit(work))

    async def settle(self) -> None:
        await asyncio.wrap_future(self._engine.submit(self._engine.settle()))

    async def restart(self, *, kill: bool = False) -> None:
        await asyncio.wrap_future(self._engine.submit(self._engine.restart(kill=kill)))

    async def wait_until(
        self,
        holds: Callable[[], R | None],
        *,
        within: float = WITHIN_S,
        what: str = "the condition",
    ) -> R:
        return await wait_async(self._home.wish(holds, what), within)

    async def wait_for_queue(
        self,
        name: str,
        *,
        ready: int | None = None,
        unacked: int | None = None,
        consumers: int | None = None,
        within: float = WITHIN_S,
    ) -> "QueueState":
        return await wait_async(self._home.queue_wish(name, ready, unacked, consumers), within)

    async def receive(self, queue: str, *, within: float = WITHIN_S) -> "Message":
        return await wait_async(self._home.message_wish(queue), within)
