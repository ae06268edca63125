"""The copy of the node's state that questions are answered from.

`Copy.apply` is to the copy what `perform` is to the node: the same changes, in the same order, lead
to the same objects. Counters come beside them and belong to the object of their name.

Invariant: a binding is in `bindings` and at both of its ends, or nowhere.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, final

from warren.management.feed import (
    ConnectionsGone,
    ConnectionState,
    NodeState,
    QueueCounts,
    QueueRow,
    Told,
)
from warren.vhost.change import (
    BindingDelete,
    BindingPut,
    ExchangeDelete,
    ExchangePut,
    GlobalParameterDelete,
    GlobalParameterPut,
    ParameterDelete,
    ParameterPut,
    PermissionDelete,
    PermissionPut,
    PolicyDelete,
    PolicyPut,
    QueueDelete,
    QueuePut,
    TopicPermissionDelete,
    TopicPermissionPut,
    UserDelete,
    UserLimitsPut,
    UserPut,
    VHostDelete,
    VHostLimitsPut,
    VHostPut,
    VHostTracing,
)

# An object in a virtual host, by the names of both.
Place = tuple[str, str]
BindingKey = tuple[str, str, str, bool, str, bytes]
# A change of these is news to whoever has remembered what a user may do.
RIGHTS: Final = (
    UserPut,
    UserDelete,
    PermissionPut,
    PermissionDelete,
    VHostPut,
    VHostDelete,
)


@dataclass(slots=True, frozen=True)
class QueueStat:
    """The last numbers of a queue, the ones before, and the seconds between."""

    row: QueueRow
    before: QueueRow | None
    seconds: float
    # The count of rounds when they came: numbers that did not change since have rate zero.
    rounds: int


@dataclass(slots=True, frozen=True)
class ConnectionStat:
    """Likewise of a connection."""

    state: ConnectionState
    before: ConnectionState | None
    seconds: float
    rounds: int


@dataclass(slots=True)
class Ends:
    """The bindings at one end of an object."""

    keys: dict[BindingKey, None] = field(default_factory=dict)


@final
class Copy:
    def __init__(self) -> None:
        self.vhosts: dict[str, VHostPut] = {}
        self.vhost_limits: dict[str, dict[str, int]] = {}
        # The vhosts whose messages are traced.
        self.traced: set[str] = set()
        self.users: dict[str, UserPut] = {}
        self.user_limits: dict[str, dict[str, int]] = {}
        self.permissions: dict[Place, PermissionPut] = {}
        self.topic_permissions: dict[tuple[str, str, str], TopicPermissionPut] = {}
        self.global_parameters: dict[str, GlobalParameterPut] = {}
        self.parameters: dict[tuple[str, str, str], ParameterPut] = {}
        # By vhost, whether it is the operator's, and name.
        self.policies: dict[tuple[str, bool, str], PolicyPut] = {}
        self.exchanges: dict[Place, ExchangePut] = {}
        self.queues: dict[Place, QueuePut] = {}
        self.bindings: dict[BindingKey, BindingPut] = {}
        self._into: dict[tuple[str, bool, str], Ends] = {}
        self._from: dict[Place, Ends] = {}
        self.queue_stats: dict[Place, QueueStat] = {}
        self.connections: dict[int, ConnectionStat] = {}
        self.node: NodeState | None = None
        self.node_before: NodeState | None = None
        # Counting rounds of the node that are complete.
        self.rounds = 0

    # -- what the node tells -----------------------------------------------------------------------

    def apply(self, told: Told) -> None:  # noqa: C901 - one line for each kind of change
        """Take in one thing that the node told."""
        match told:
            case QueuePut():
                self.queues[told.vhost, told.name] = told
            case BindingPut():
                self._bind(told)
            case QueueCounts():
                for row in told.rows:
                    self._count_queue(row)
            case QueueDelete():
                self.queues.pop((told.vhost, told.name), None)
                self.queue_stats.pop((told.vhost, told.name), None)
                self._unbind_ends(told.vhost, told.name, to_queue=True)
            case ExchangePut():
                self.exchanges[told.vhost, told.name] = told
            case ExchangeDelete():
                self.exchanges.pop((told.vhost, told.name), None)
                self._unbind_ends(told.vhost, told.name, to_queue=False)
            case BindingDelete():
                key = told.vhost, told.source, told.destination, told.to_queue
                self._unbind((*key, told.key, told.arguments))
            case ConnectionState():
                self._count_connection(told)
            case ConnectionsGone():
                for identity in told.identities:
                    self.connections.pop(identity, None)
            case NodeState():
                self.node_before, self.node = self.node, told
                self.rounds += 1
            case VHostPut():
                self.vhosts[told.name] = told
            case VHostDelete():
                self._forget_vhost(told.name)
            case _:
                self._apply_rights(told)

    def _apply_rights(self, told: Told) -> None:  # noqa: C901 - likewise
        match told:
            case UserPut():
                self.users[told.name] = told
            case UserDelete():
                self._forget_user(told.name)
            case PermissionPut():
                self.permissions[told.user, told.vhost] = told
            case PermissionDelete():
                self.permissions.pop((told.user, told.vhost), None)
            case TopicPermissionPut():
                self.topic_permissions[told.user, told.vhost, told.exchange] = told
            case TopicPermissionDelete():
                self.topic_permissions.pop((told.user, told.vhost, told.exchange), None)
            case PolicyPut():
                self.policies[told.vhost, told.operator, told.name] = told
            case PolicyDelete():
                self.policies.pop((told.vhost, told.operator, told.name), None)
            case ParameterPut():
                self.parameters[told.vhost, told.component, told.name] = told
            case ParameterDelete():
                self.parameters.pop((told.vhost, told.component, told.name), None)
            case GlobalParameterPut():
                self.global_parameters[told.name] = told
            case GlobalParameterDelete():
                self.global_parameters.pop(told.name, None)
            case VHostLimitsPut():
                _put_limits(self.vhost_limits, told.vhost, told.limits)
            case VHostTracing(vhost=name, tracing=tracing):
                (self.traced.add if tracing else self.traced.discard)(name)
            case UserLimitsPut():
                _put_limits(self.user_limits, told.user, told.limits)
            case _:
                return

    def _bind(self, told: BindingPut) -> None:
        key = told.vhost, told.source, told.destination, told.to_queue, told.key, told.arguments
        self.bindings[key] = told
        into = told.vhost, told.to_queue, told.destination
        self._into.setdefault(into, Ends()).keys[key] = None
        self._from.setdefault((told.vhost, told.source), Ends()).keys[key] = None

    def _unbind(self, key: BindingKey) -> None:
        if self.bindings.pop(key, None) is None:
            return
        vhost, source, destination, to_queue, _, _ = key
        into = self._into[vhost, to_queue, destination]
        del into.keys[key]
        if not into.keys:
            del self._into[vhost, to_queue, destination]
        begun = self._from[vhost, source]
        del begun.keys[key]
        if not begun.keys:
            del self._from[vhost, source]

    def _unbind_ends(self, vhost: str, name: str, *, to_queue: bool) -> None:
        gone = list(self._into.get((vhost, to_queue, name), Ends()).keys)
        if not to_queue:
            gone += self._from.get((vhost, name), Ends()).keys
        for key in gone:
            self._unbind(key)

    def _forget_vhost(self, name: str) -> None:
        self.vhosts.pop(name, None)
        self.vhost_limits.pop(name, None)
        self.traced.discard(name)
        for place in [place for place in self.queues if place[0] == name]:
            del self.queues[place]
            self.queue_stats.pop(place, None)
        for place in [place for place in self.exchanges if place[0] == name]:
            del self.exchanges[place]
        for key in [key for key in self.bindings if key[0] == name]:
            self._unbind(key)
        for pair in [pair for pair in self.permissions if pair[1] == name]:
            del self.permissions[pair]
        for topic in [topic for topic in self.topic_permissions if topic[1] == name]:
            del self.topic_permissions[topic]
        for parameter in [each for each in self.parameters if each[0] == name]:
            del self.parameters[parameter]
        for policy in [each for each in self.policies if each[0] == name]:
            del self.policies[policy]

    def _forget_user(self, name: str) -> None:
        self.users.pop(name, None)
        self.user_limits.pop(name, None)
        for pair in [pair for pair in self.permissions if pair[0] == name]:
            del self.permissions[pair]
        for topic in [topic for topic in self.topic_permissions if topic[0] == name]:
            del self.topic_permissions[topic]

    def _count_queue(self, row: QueueRow) -> None:
        place = row[0], row[1]
        before = self.queue_stats.get(place)
        seconds = self.seconds()
        old = None if before is None else before.row
        self.queue_stats[place] = QueueStat(row, old, seconds, self.rounds)

    def _count_connection(self, told: ConnectionState) -> None:
        before = self.connections.get(told.identity)
        old = None if before is None else before.state
        self.connections[told.identity] = ConnectionStat(told, old, self.seconds(), self.rounds)

    # -- what others ask ---------------------------------------------------------------------------

    def seconds(self) -> float:
        """The time between the last two rounds."""
        if self.node is None or self.node_before is None:
            return 0.0
        return max(0.001, (self.node.at_ms - self.node_before.at_ms) / 1000)

    def fresh(self, rounds: int) -> bool:
        """Whether numbers that came in this round are of the last one."""
        return rounds >= self.rounds - 1

    def bindings_into(self, vhost: str, name: str, *, to_queue: bool) -> Iterator[BindingPut]:
        for key in self._into.get((vhost, to_queue, name), Ends()).keys:
            yield self.bindings[key]

    def bindings_from(self, vhost: str, name: str) -> Iterator[BindingPut]:
        for key in self._from.get((vhost, name), Ends()).keys:
            yield self.bindings[key]


def _put_limits(table: dict[str, dict[str, int]], name: str, limits: dict[str, int]) -> None:
    if limits:
        table[name] = limits
    else:
        table.pop(name, None)
