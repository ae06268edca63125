"""The publish-rate limits of one connection: its user's and its vhost's.

A limited connection is watchful: each publish pays, before the short way (`publish_paid`) or with
its content header on the general one (`parking.on_content`), where it gets in line if it cannot.
One without a limit has no `Pace` and no cost. Limits are looked up when the connection opens and
whenever topology, permissions or limits have changed.

Tokens are taken in one order, the user's first, and kept while the connection waits for the next
one: two throttles cannot send a connection to and fro between their lines.
"""

from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from warren.session import parking
from warren.vhost.throttle import Throttle, Waiter

if TYPE_CHECKING:
    from warren.session.channel import Channel
    from warren.session.connection import Connection


@final
class Pace(Waiter):
    def __init__(self, connection: "Connection") -> None:
        super().__init__()
        self.connection: Connection | None = connection
        self.throttles: list[Throttle] = []
        # How many of them have given a token for the next publish.
        self.paid: i64 = 0
        # In whose line the connection stands.
        self.waits_for: Throttle | None = None

    def admit(self, now_ns: i64) -> bool:
        """Pay for a publish; False if the connection has to wait, and is in line."""
        throttles = self.throttles
        while self.paid < len(throttles):
            throttle = throttles[self.paid]
            if not throttle.take(now_ns):
                self.waits_for = throttle
                throttle.wait(self)
                return False
            self.paid += 1
        self.paid = 0
        return True

    def take(self, now_ns: i64) -> bool:
        """Pay for a publish if that is possible at once, or do nothing."""
        if self.paid > 0 or self.waits_for is not None:
            return False
        count: i64 = 0
        for throttle in self.throttles:
            if not throttle.take(now_ns):
                break
            count += 1
        else:
            return True
        for index in range(int(count)):
            self.throttles[index].give_back()
        return False

    def give_back(self) -> None:
        """A publish that was paid for is parked after all; it will pay again."""
        for throttle in self.throttles:
            throttle.give_back()

    def renew(self, throttles: list[Throttle]) -> None:
        """The limits are these now. Who stands in line is still called from there."""
        self._forget_paid()
        self.throttles = throttles

    def resume(self) -> None:
        self.waits_for = None
        connection = self.connection
        if connection is not None:
            parking.on_tokens(connection)

    def end(self) -> None:
        """The connection ends: it pays nothing and waits for nothing."""
        if self.waits_for is not None:
            self.waits_for.leave(self)
            self.waits_for = None
        self._forget_paid()
        self.throttles = []
        self.connection = None

    def _forget_paid(self) -> None:
        for index in range(int(self.paid)):
            self.throttles[index].give_back()
        self.paid = 0


def publish_paid(
    connection: "Connection", channel: "Channel", data: bytes, pos: i64, end: i64, size_all: i64
) -> i64:
    """Publish in place on a watchful connection, if nothing but its limits makes it so.

    As `Connection.publish_in_place`; for 0 nothing is paid, and the general way makes it pay.
    """
    pace = connection.pace
    if pace is None or connection.publisher.watchful:
        return 0
    if not pace.take(connection.broker.turn.now_ns):
        return 0
    done = connection.publish_in_place(channel, data, pos, end, size_all)
    if done == 0:
        pace.give_back()
    return done


def renew(connection: "Connection") -> None:
    """Look up which limits hold for a connection now."""
    home = connection.home
    if home is None:
        return
    user = connection.broker.user_throttles.get(connection.user)
    pace = connection.pace
    if pace is None and user is None and home.throttle is None:
        return
    throttles = [one for one in (user, home.throttle) if one is not None]
    if pace is None:
        pace = Pace(connection)
        connection.pace = pace
    if pace.throttles != throttles:
        pace.renew(throttles)
    connection.watchful = connection.publisher.watchful or bool(throttles)
