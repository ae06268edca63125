"""Newcomers: connections that have not proven who they are, and how many there may be.

Whoever can reach a listener can open connections and say nothing, or send wrong passwords and
leave the sockets open. Each is a descriptor and some memory for as long as its time limit allows.
So there is a bound: when there are more newcomers than that, those that came first are dropped. A
client that logs in takes milliseconds, and is not the oldest of hundreds.

Invariant: the cost of a newcomer does not grow with their number: entries of those who logged in
or left are cleared when the bound is reached, and at least an eighth of it is free after that.
"""

from typing import Final, final

from warren.core.log import EventLog
from warren.runtime.process import descriptor_count_max
from warren.server.hub import Link

NEWCOMERS_MIN: Final = 64
NEWCOMERS_MAX: Final = 4096


def newcomers_max() -> int:
    """Return the bound: a quarter of the descriptors, within reason."""
    most = descriptor_count_max()
    return NEWCOMERS_MAX if most < 0 else max(NEWCOMERS_MIN, min(NEWCOMERS_MAX, most // 4))


@final
class Crowd:
    """The newcomers of one node, in the order they came."""

    def __init__(self, links: dict[int, Link], log: EventLog, most: int | None = None) -> None:
        self.most = newcomers_max() if most is None else most
        self.dropped = 0
        self._links = links
        self._log = log
        self._came: dict[int, None] = {}

    def add(self, identity: int) -> None:
        """A connection was accepted; make room if there are too many that are not logged in."""
        self._came[identity] = None
        if len(self._came) <= self.most:
            return
        self._came = {one: None for one in self._came if self._is_newcomer(one)}
        oldest = list(self._came)[: max(0, len(self._came) - self.most + self.most // 8)]
        if not oldest:
            return
        for one in oldest:
            del self._came[one]
            self._links[one].abort()
        self.dropped += len(oldest)
        self._log.event(
            "warning", "connection.crowded_out", {"count": len(oldest), "newcomers_max": self.most}
        )

    def _is_newcomer(self, identity: int) -> bool:
        link = self._links.get(identity)
        # A link without a connection is being made at this moment.
        return link is not None and (link.connection is None or not link.connection.user)
