"""Closing connections that others say must go: an operator, or the deletion of a vhost or user.

A close is tens of microseconds of work, and there may be ten thousand connections: so at most
SLICE links are looked at in one go, and other work comes between. Connections that come meanwhile
stay, or find the vhost or the user gone.
"""

import asyncio
from collections.abc import Callable
from typing import Final, final

from warren.core import AmqpError, reply
from warren.queues.turn import Chore
from warren.server.hub import Hub, Link
from warren.server.list_connection import connection_item
from warren.session import RUNNING, Connection
from warren.vhost import VHost

SLICE: Final = 100

Wanted = Callable[[Connection], bool]


def close(link: Link, wanted: Wanted, text: str) -> bool:
    """Close a connection with 320 if it is wanted and not on its way out."""
    connection = link.connection
    if connection is None or connection.phase > RUNNING or not wanted(connection):
        return False
    connection.close(AmqpError(reply.CONNECTION_FORCED, text))
    link.look()
    return True


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

    def name_of(self, identity: int) -> str:
        if identity == 0:
            # Who acts for a user without a connection of its own.
            return "HTTP API"
        link = self.hub.links.get(identity)
        item = None if link is None else connection_item(link, self.hub.broker.node_name, 0)
        return "" if item is None else item.name()

    def _end(self, wanted: Wanted, text: str) -> None:
        self.hub.begin()
        self.hub.broker.turn.chores.append(CloseChore(self.hub, wanted, text))

    async def close(self, wanted: Wanted, text: str, *, limit: int = 0, delay_ms: int = 0) -> int:
        """Close those that are wanted, the oldest first; return how many, `limit` at most."""
        closed = 0
        links = list(self.hub.links.values())
        for number, link in enumerate(links, 1):
            self.hub.begin()
            if close(link, wanted, text):
                closed += 1
                if closed == limit:
                    break
                if delay_ms:
                    await asyncio.sleep(delay_ms / 1000)
            if number % SLICE == 0:
                await asyncio.sleep(0)
        return closed


@final
class CloseChore(Chore):
    def __init__(self, hub: Hub, wanted: Wanted, text: str) -> None:
        self.links: list[Link] = list(hub.links.values())
        self.wanted = wanted
        self.text = text

    def step(self) -> bool:
        for _ in range(min(SLICE, len(self.links))):
            close(self.links.pop(), self.wanted, self.text)
        return not self.links
