"""The alarms in force: which source (memory, disk) on which node, edges, and the reason's text.

An alarm is a pair (source, node). Monitors set and clear it as often as they look; only a change
gives an `Edge`, which the caller logs, publishes as an event and passes on to the connections. No
callbacks: effects are returned. Rules AL-1, AL-2, AL-4 and the text of NT-2.

Invariant: a source holds the connections up exactly while at least one node has it.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import final


class Source(StrEnum):
    """What ran low."""

    MEMORY = "memory"
    DISK = "disk"


@dataclass(frozen=True)
class Alarm:
    """One source on one node."""

    source: Source
    node: str


class Change(StrEnum):
    """What an edge says; the value is the event's name where one is published."""

    SET = "alarm_set"
    CLEARED = "alarm_cleared"
    NODE_DIED = "alarm_cleared_node_died"


@dataclass(frozen=True)
class Edge:
    """A change of one alarm; `everywhere`: the source came first or went last in the cluster."""

    change: Change
    alarm: Alarm
    everywhere: bool


@final
class Alarms:
    """The alarms of all nodes, as this node knows them."""

    def __init__(self) -> None:
        self._nodes: dict[Source, set[str]] = {source: set() for source in Source}

    def set(self, alarm: Alarm) -> Edge | None:
        """Note that the alarm is on; None when it already was."""
        nodes = self._nodes[alarm.source]
        if alarm.node in nodes:
            return None
        nodes.add(alarm.node)
        return Edge(Change.SET, alarm, len(nodes) == 1)

    def clear(self, alarm: Alarm) -> Edge | None:
        """Note that the alarm is off; None when it already was."""
        return self._drop(alarm, Change.CLEARED)

    def forget_node(self, node: str) -> list[Edge]:
        """A node died and takes its alarms with it."""
        edges = [self._drop(Alarm(source, node), Change.NODE_DIED) for source in Source]
        return [edge for edge in edges if edge is not None]

    def _drop(self, alarm: Alarm, change: Change) -> Edge | None:
        nodes = self._nodes[alarm.source]
        if alarm.node not in nodes:
            return None
        nodes.discard(alarm.node)
        return Edge(change, alarm, not nodes)

    def in_force(self) -> list[Alarm]:
        """Every alarm, by source and node name; what a joining node is told."""
        return [Alarm(source, node) for source in Source for node in sorted(self._nodes[source])]

    def sources(self) -> frozenset[Source]:
        """The sources that hold publishers up now, from whatever node."""
        return frozenset(source for source in Source if self._nodes[source])

    def any(self) -> bool:
        return any(self._nodes[source] for source in Source)

    def blocked_reason_text(self) -> str:
        """The reason of connection.blocked; empty when there is no alarm."""
        names = sorted(source.value for source in self.sources())
        return f"low on {' & '.join(names)}" if names else ""
