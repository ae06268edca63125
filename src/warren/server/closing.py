"""Closing the connections of a vhost or a user that is deleted, a slice a turn (VH-6).

A close is tens of microseconds of work, and there may be ten thousand connections: so each turn
looks at SLICE links. Connections that come meanwhile find the vhost or the user gone.
"""

from collections.abc import Callable
from typing import Final, final

from warren.core import AmqpError, reply
from warren.queues.turn import Chore
from warren.server.hub import Hub, Link
from warren.session import RUNNING, Connection
from warren.vhost import VHost

SLICE: Final = 100


@final
class Closing:
    """The `Sessions` of a node."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub

    def end_vhost(self, vhost: VHost) -> None:
        self._end(lambda one: one.home is vhost, f"vhost '{vhost.name}' is deleted")

    def end_user(self, name: str) -> None:
        # Also those that are still negotiating: they have shown a password that is void now.
        self._end(lambda one: one.user == name, f"user '{name}' is deleted")

    def _end(self, wanted: Callable[[Connection], bool], text: str) -> None:
        self.hub.begin()
        self.hub.broker.turn.chores.append(CloseChore(self.hub, wanted, text))


@final
class CloseChore(Chore):
    def __init__(self, hub: Hub, wanted: Callable[[Connection], bool], text: str) -> None:
        self.links: list[Link] = list(hub.links.values())
        self.wanted = wanted
        self.text = text

    def step(self) -> bool:
        for _ in range(min(SLICE, len(self.links))):
            link = self.links.pop()
            connection = link.connection
            if connection is None or connection.phase > RUNNING or not self.wanted(connection):
                continue
            connection.close(AmqpError(reply.CONNECTION_FORCED, self.text))
            link.look()
        return not self.links
