"""The log of a broker in a test: kept in memory, bounded, shown when somebody asks.

Invariant: nothing is printed and no handler of the host's `logging` is touched.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, final

from warren.core.seam import Clock
from warren.server.log_line import text_line

# Some hundred octets each; a test that logs more is looked at by its end.
EVENTS_MAX: Final = 10_000
# The connection of the helpers is not the tested program's.
HELPER_NAME: Final = "127.0.0.1:0"


@final
@dataclass(frozen=True, slots=True)
class LogEvent:
    """One event: `name` and `fields` as docs/reference/log-events.md lists them."""

    wall_ns: int
    level: str
    name: str
    fields: Mapping[str, object]

    def __str__(self) -> str:
        return text_line(self.wall_ns, self.level, self.name, self.fields)


@final
class KeptLog:
    """Keeps what the node reports, the last `EVENTS_MAX` events."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._events: deque[LogEvent] = deque(maxlen=EVENTS_MAX)

    def event(self, level: str, name: str, fields: Mapping[str, object], /) -> None:
        if fields.get("connection") != HELPER_NAME:
            self._events.append(LogEvent(self._clock.wall_ns(), level, name, dict(fields)))

    def tell_suppressed(self) -> None:
        """Nothing is suppressed here."""

    def level(self, level: str) -> None:
        """All levels are kept."""

    def on_loop_error(self, loop: object, context: Mapping[str, object]) -> None:
        """An exception that reached the event loop: a mistake of ours, and not to be missed."""
        error = context.get("exception")
        told = {"logger": "asyncio", "message": context.get("message"), "error": repr(error)}
        self.event("error", "log.library", told)

    def events(self, name: str | None = None) -> list[LogEvent]:
        """Return the events kept, or those of one name."""
        return [one for one in self._events.copy() if name is None or one.name == name]
