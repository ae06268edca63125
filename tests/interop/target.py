"""What the tests of all clients share: the broker's URL, bodies to send, and bounded waits."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tests.support.broker import Broker

PATIENCE_SECONDS = 10.0  # A wait ends at once when its condition holds; this bounds a failure.
EXCHANGE_TYPES = ("direct", "fanout", "topic", "headers")
MIB = 1 << 20

Found = TypeVar("Found")


def url(broker: Broker, *, virtual_host: str = "", password: str = "guest", query: str = "") -> str:
    return f"amqp://guest:{password}@{broker.host}:{broker.port}/{virtual_host}{query}"


def pattern(size: int) -> bytes:
    """Return a body in which a lost, doubled or swapped frame shows."""
    return b"".join(number.to_bytes(4, "big") for number in range(size // 4 + 1))[:size]


def until(look: Callable[[], Found]) -> Found:
    """Return the first true result of `look`, which waits a little by itself."""
    return until_within(PATIENCE_SECONDS, look)


def until_within(seconds: float, look: Callable[[], Found]) -> Found:
    """The same for what may take longer."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, "the condition did not come true in time"
    return found


async def until_async(look: Callable[[], Awaitable[Found | None]]) -> Found:
    """Return the first true result that `look` gives when awaited."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            if found := await look():
                return found
            await asyncio.sleep(0.02)
