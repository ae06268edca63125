"""The broker of one node: vhosts, users, permissions, alarms, waits, and the loop turn.

Everything that sessions share. It owns no socket and no clock: the server hands both in.
"""

import base64
from typing import TYPE_CHECKING, final

from warren.core import Clock, Random
from warren.core.log import EventLog
from warren.flow import Alarms, WaitBook
from warren.queues import Outlet, Turn
from warren.security import Mechanisms, Permissions, UserStore
from warren.vhost.reply_address import ReplyAddress
from warren.vhost.vhost import VHost

if TYPE_CHECKING:
    from mypy_extensions import i64


@final
class Totals:
    """What channels that are gone have done, so that counters never go back."""

    def __init__(self) -> None:
        self.published: i64 = 0
        self.delivered: i64 = 0
        self.acknowledged: i64 = 0
        self.confirmed: i64 = 0


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
    ) -> None:
        self.node_name = node_name
        self.clock = clock
        self.random = random
        self.log = log
        self.users = users
        self.permissions = permissions
        self.mechanisms = mechanisms
        self.turn = Turn()
        self.totals = Totals()
        self.alarms = Alarms()
        self.waits = WaitBook()
        self.vhosts: dict[str, VHost] = {}
        self.reply_addresses: dict[str, ReplyAddress] = {}
        # Rises with every change of topology or permissions that a cached route may depend on.
        self.version: i64 = 0
        self.turn.now_ns = clock.monotonic_ns()

    def add_vhost(self, name: str) -> VHost:
        vhost = VHost(name, self)
        self.vhosts[name] = vhost
        return vhost

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
