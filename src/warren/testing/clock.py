"""The clock of a broker in a test: it runs with real time, stands still, or is advanced.

`VirtualClock` is what the node reads and `VirtualLoop` the event loop whose timers follow it, so
that one clock rules both. `Clock` is the user's handle.

Invariants: the clock never goes back; only the loop's thread moves it; while it is held no timer
fires and the loop does not wake up for one.
"""

import asyncio
import contextvars
import heapq
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, TypeVarTuple, Unpack, final

if TYPE_CHECKING:
    from collections.abc import Callable

    from warren.testing.engine import Engine

    Ts = TypeVarTuple("Ts")

SECOND_NS: Final = 1_000_000_000


@final
class VirtualClock:
    """`warren.core.seam.Clock` that can be held and set ahead."""

    def __init__(self) -> None:
        self._ahead_ns = 0
        self._held_ns: int | None = None
        self._wall_ns = time.time_ns() - time.monotonic_ns()

    def monotonic_ns(self) -> int:
        held = self._held_ns
        return time.monotonic_ns() + self._ahead_ns if held is None else held

    def wall_ns(self) -> int:
        return self._wall_ns + self.monotonic_ns()

    @property
    def held(self) -> bool:
        return self._held_ns is not None

    def hold(self) -> None:
        """Stand still from now on."""
        self._held_ns = self.monotonic_ns()

    def set(self, now_ns: int) -> None:
        """Go ahead to this moment; the clock must be held."""
        assert self._held_ns is not None
        assert now_ns >= self._held_ns
        self._held_ns = now_ns

    def release(self) -> None:
        """Run with real time, from where it stands."""
        if self._held_ns is not None:
            self._ahead_ns = self._held_ns - time.monotonic_ns()
            self._held_ns = None


@final
class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop that takes its time from a `VirtualClock`, and knows its next deadline.

    Timers are kept here. While the clock runs, the base class has one timer, for the earliest;
    while it is held, none.
    """

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self._timers: list[tuple[float, int, asyncio.TimerHandle, Callable[[], None]]] = []
        self._made = 0
        self._alarm: asyncio.TimerHandle | None = None
        super().__init__()

    def time(self) -> float:
        return self.clock.monotonic_ns() / SECOND_NS

    def call_at(
        self,
        when: float,
        callback: "Callable[[Unpack[Ts]], object]",
        *args: "Unpack[Ts]",
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        context = contextvars.copy_context() if context is None else context
        handle = asyncio.TimerHandle(when, callback, args, self, context)

        def run() -> None:
            if not handle.cancelled():
                callback(*args)

        def ready() -> None:
            self.call_soon(run, context=context)

        self._made += 1
        heapq.heappush(self._timers, (when, self._made, handle, ready))
        if self._timers[0][2] is handle:
            self._set_alarm()
        return handle

    def hold(self) -> None:
        """Stop the clock."""
        self.clock.hold()
        self._set_alarm()

    def release(self) -> None:
        """Let the clock run."""
        self.clock.release()
        self._set_alarm()

    def go_to(self, now_ns: int) -> None:
        """Go ahead to this moment and have run what is due then; the clock must be held."""
        self.clock.set(now_ns)
        self._ring()

    def next_deadline_ns(self) -> int | None:
        """Return when the next timer is due, in nanoseconds of the clock; None without one."""
        while self._timers and self._timers[0][2].cancelled():
            heapq.heappop(self._timers)
        # Rounded up, so that it is due then.
        return int(self._timers[0][0] * SECOND_NS) + 1 if self._timers else None

    def _ring(self) -> None:
        now = self.time()
        while self._timers and self._timers[0][0] <= now:
            _, _, handle, ready = heapq.heappop(self._timers)
            if not handle.cancelled():
                ready()
        self._set_alarm()

    def _set_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if not self.clock.held and self.next_deadline_ns() is not None:
            self._alarm = super().call_at(self._timers[0][0], self._ring)


@final
class Clock:
    """The clock of one broker, as its user sees it.

    It runs with real time until it is stopped. `advance` goes from deadline to deadline: whatever
    has a time in the span (TTL, expiry, delays, heartbeats, timeouts) happens at its time and in
    order, and is done, with its frames handed to the sockets, when the call returns.
    """

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine

    def advance(
        self,
        seconds: float = 0.0,
        *,
        milliseconds: float = 0.0,
        minutes: float = 0.0,
        hours: float = 0.0,
        days: float = 0.0,
        heartbeats: bool = True,
    ) -> None:
        """Go ahead. With `heartbeats=False` clients are not dropped for being silent meanwhile."""
        span = seconds + milliseconds / 1e3 + minutes * 60 + hours * 3600 + days * 86_400
        self._engine.run(self._engine.advance(span_ns(span), heartbeats=heartbeats))

    def stop(self) -> None:
        """Stand still until `start` or `advance`, however long the test takes."""
        self._engine.call(self._engine.loop.hold)

    def start(self) -> None:
        """Run with real time again, from where the clock stands."""
        self._engine.call(self._engine.loop.release)

    @property
    def running(self) -> bool:
        return not self._engine.clock.held

    def now(self) -> datetime:
        """Return the broker's time of day."""
        return datetime.fromtimestamp(self._engine.clock.wall_ns() / 1e9, UTC)

    def monotonic(self) -> float:
        """Return the broker's monotonic time in seconds, for differences."""
        return self._engine.clock.monotonic_ns() / 1e9


def span_ns(seconds: float) -> int:
    if seconds < 0:
        raise ValueError(f"a clock goes ahead only: {seconds} s")
    return round(seconds * SECOND_NS)
