"""Faults for a running node, each ended by leaving its `with` block. On the loop's thread only.

They use what the node has for such cases: a fault looks to clients as the real thing does.
"""

from dataclasses import replace
from typing import Final, final

from warren.core import AmqpError, reply
from warren.flow import Alarm, Source
from warren.server.node import Node

# The memory monitor clears the alarm of the node's own name once a second; this is another's.
ALARM_NODE: Final = "warren.testing"
# Less than nothing may be unsent: every consumer is passed over, as if its client did not read.
NOTHING: Final = -1


def connections(node: Node, name: str | None) -> int:
    """Cut connections, or the one of that name, without a word; return how many."""
    found = [
        link
        for link in node.hub.links.values()
        if link.connection is not None and name in {None, link.connection.subject.name}
    ]
    node.hub.begin()
    for link in found:
        link.abort()
    return len(found)


def close_connections(node: Node, name: str | None, reason: str) -> int:
    """Close connections as an operator does: 320 with this reason; return how many."""
    node.hub.begin()
    closed = 0
    for link in list(node.hub.links.values()):
        connection = link.connection
        if connection is not None and name in {None, connection.subject.name}:
            connection.close(AmqpError(reply.CONNECTION_FORCED, reason))
            closed += 1
    return closed


def set_alarm(node: Node, source: Source, *, on: bool) -> None:
    """Set or clear an alarm, and let every connection know."""
    alarms = node.broker.alarms
    change = alarms.set if on else alarms.clear
    if change(Alarm(source, ALARM_NODE)) is not None:
        node.tell_alarms()


@final
class Pause:
    """Deliveries to consumers rest, on the connections there are and on those that come."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.bound = node.listeners.session.unsent_bytes_max

    def begin(self) -> None:
        self._bound(NOTHING)

    def end(self) -> None:
        self._bound(self.bound)
        self.node.hub.begin()
        for link in self.node.hub.links.values():
            if link.connection is not None:
                link.connection.drained()

    def _bound(self, bound: int) -> None:
        listeners = self.node.listeners
        listeners.session = replace(listeners.session, unsent_bytes_max=bound)
        for link in self.node.hub.links.values():
            if link.connection is not None:
                link.connection.output.bound = bound
