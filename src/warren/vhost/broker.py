"""The broker of one node: vhosts, users, permissions, alarms, waits, and the loop turn.

Everything that sessions share. It owns no socket and no clock: the server hands both in.
"""

import base64
from typing import TYPE_CHECKING, Final, final

import msgspec

from warren.core import Clock, Random
from warren.core.log import EventLog
from warren.flow import Alarms, Kind, Subject, WaitBook
from warren.queues import Outlet, Turn
from warren.queues.delayed import Held
from warren.queues.rules import DEATHS
from warren.security import Attempts, Mechanisms, Permissions, UserStore
from warren.vhost.metadata import MemoryBackend, Metadata, Sessions
from warren.vhost.reply_address import ReplyAddress
from warren.vhost.throttle import Throttle, throttled
from warren.vhost.usage import Usage
from warren.vhost.vhost import EndChore, VHost

if TYPE_CHECKING:
    from mypy_extensions import i64

    from warren.vhost.change import VHostPut

# The parameter that names the cluster.
CLUSTER_NAME: Final = "cluster_name"


@final
class Totals:
    """What channels that are gone have done, so that counters never go back."""

    def __init__(self) -> None:
        self.published: i64 = 0
        self.delivered: i64 = 0
        self.acknowledged: i64 = 0
        self.confirmed: i64 = 0
        # Messages that went to a dead-letter exchange, by reason as in `queues.rules.DEATHS`.
        self.dead_lettered: list[int] = [0] * len(DEATHS)


@final
class Broker:
    def __init__(
        self,
        *,
        node_name: str,
        clock: Clock,
        random: Random,
        log: EventLog,
        users: UserStore,
        permissions: Permissions,
        mechanisms: Mechanisms,
        attempts: Attempts | None = None,
    ) -> None:
        self.node_name = node_name
        self.clock = clock
        self.random = random
        self.log = log
        self.users = users
        self.permissions = permissions
        self.mechanisms = mechanisms
        self.attempts = attempts or Attempts()
        self.turn = Turn(clock)
        self.totals = Totals()
        # The delayed messages of all exchanges.
        self.delayed = Held()
        # What turns the node's clock into epoch time, so that delays do not follow its steps.
        self.epoch_ns: i64 = clock.wall_ns() - clock.monotonic_ns()
        self.alarms = Alarms()
        self.waits = WaitBook()
        self.vhosts: dict[str, VHost] = {}
        # Limits of users by name (VH-2), those of vhosts are with the vhost.
        self.user_limits: dict[str, dict[str, int]] = {}
        # Those of their publishes.
        self.user_throttles: dict[str, Throttle] = {}
        # What users have open, by name; only of those that have a connection.
        self.usages: dict[str, Usage] = {}
        # Parameters of the whole cluster, as JSON.
        self.global_parameters: dict[str, bytes] = {}
        # Whatever changes any of these changes it through here.
        self.metadata = Metadata(self, MemoryBackend())
        # Who is told when a vhost or a user is gone; nobody before the node has listeners.
        self.sessions: Sessions | None = None
        self.reply_addresses: dict[str, ReplyAddress] = {}
        # Rises with every change of topology or permissions that a cached route may depend on.
        self.version: i64 = 0
        # Whether the deaths that a client's message claims to have had are counted on.
        self.count_continues = True
        # Whether all policies that match a queue or exchange apply, or the first of them (PO-2).
        self.merge_policies = False
        self.turn.now_ns = clock.monotonic_ns()
        # The last incarnation of a queue that was given: time goes on, and so do they.
        self.incarnation = clock.wall_ns() // 1000

    def next_incarnation(self) -> int:
        """A number no queue of this data folder ever had; 0 when nothing is stored."""
        return 0 if self.turn.storage is None else self.passing_incarnation()

    def passing_incarnation(self) -> int:
        """The same for a queue that is not stored: who reads it is to know it from the next one."""
        self.incarnation += 1
        return self.incarnation

    def cluster_name(self) -> str:
        """The name that was given to the cluster; empty when none was."""
        value = self.global_parameters.get(CLUSTER_NAME)
        return "" if value is None else str(msgspec.json.decode(value))

    # -- what changes of metadata do; nobody else calls these ------------------------------------

    def put_vhost(self, change: "VHostPut") -> bool:
        vhost = self.vhosts.get(change.name)
        if vhost is None:
            vhost = VHost(change.name, self)
            self.vhosts[change.name] = vhost
        vhost.description = change.description
        vhost.tags = change.tags
        vhost.default_queue_type = change.default_queue_type
        return True

    def delete_vhost(self, name: str) -> bool:
        """Forget a vhost at once; its connections and queues end turn by turn (VH-6)."""
        vhost = self.vhosts.pop(name, None)
        if vhost is None:
            return False
        self.permissions.forget_vhost(name)
        self.version += 1
        if self.sessions is not None:
            self.sessions.end_vhost(vhost)
        self.turn.chores.append(EndChore(vhost))
        return True

    def delete_user(self, name: str) -> None:
        self.users.delete(name)
        self.permissions.forget_user(name)
        self.put_user_limits(name, {})
        if self.sessions is not None:
            self.sessions.end_user(name)

    def put_user_limits(self, name: str, limits: dict[str, int]) -> None:
        if limits:
            self.user_limits[name] = limits
        else:
            self.user_limits.pop(name, None)
        current = self.user_throttles.pop(name, None)
        throttle = throttled(current, limits, Subject(Kind.USER, name), self.turn)
        if throttle is not None:
            self.user_throttles[name] = throttle

    # --------------------------------------------------------------------------------------------

    def usage_of(self, user: str) -> Usage:
        """What a user has open now."""
        return self.usages.get(user) or Usage()

    def arrive(self, user: str) -> Usage:
        """A connection of this user is open; it counts until `depart`."""
        usage = self.usages.setdefault(user, Usage())
        usage.connections += 1
        return usage

    def depart(self, user: str) -> None:
        usage = self.usages[user]
        usage.connections -= 1
        if usage.connections == 0:
            del self.usages[user]

    def generated_name(self, prefix: str) -> str:
        """A name nobody has: 22 characters of URL-safe base 64 behind `prefix` (QD-3, CS-1)."""
        raw = base64.urlsafe_b64encode(self.random.octets(16)).decode()
        return prefix + raw.rstrip("=")

    def add_reply_address(self, consumer_tag: str, outlet: Outlet) -> ReplyAddress:
        address = ReplyAddress(self.generated_name(""), consumer_tag, outlet)
        self.reply_addresses[address.token] = address
        return address

    def drop_reply_address(self, address: ReplyAddress) -> None:
        address.alive = False
        self.reply_addresses.pop(address.token, None)
