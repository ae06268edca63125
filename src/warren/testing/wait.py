"""Waiting for something to come true, in real time: for threads and for event loops."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from warren.testing.errors import NotInTimeError

R = TypeVar("R")

# Between two looks: each costs the broker some microseconds.
LOOK_S: Final = 0.002
WITHIN_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Wish(Generic[R]):
    """What is waited for: `look` gives something true when it came true, `state` explains."""

    look: Callable[[], R | None]
    what: str
    state: Callable[[], str]

    def failure(self, within: float) -> NotInTimeError:
        return NotInTimeError(f"not within {within:g} s: {self.what}\n{self.state()}")


def wait(wish: Wish[R], within: float) -> R:
    ends = time.monotonic() + within
    while True:
        found = wish.look()
        if found:
            return found
        if time.monotonic() > ends:
            raise wish.failure(within)
        time.sleep(LOOK_S)


async def wait_async(wish: Wish[R], within: float) -> R:
    ends = time.monotonic() + within
    while True:
        found = wish.look()
        if found:
            return found
        if time.monotonic() > ends:
            raise wish.failure(within)
        await asyncio.sleep(LOOK_S)
