"""The limit of a user's or vhost's publishes a second, and who waits in line for it.

A publish of a limited connection takes a token of each of its throttles; without one the connection
gets in line, and its turn comes when tokens are there, the one that waits longest first. Who comes
meanwhile gets in line too, whatever tokens there are, so nobody is overtaken.

One timer serves all that wait, at most SERVICES_PER_S times a second, and lets at most so many
publishes go in one turn that others are not held up. Connections without a limit know nothing of
any of this.
"""

from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64, mypyc_attr

from warren.flow import Subject
from warren.flow.bucket import NEVER, Bucket
from warren.queues.timer import Timer
from warren.vhost.limit import MAX_PUBLISH_BURST, MAX_PUBLISH_RATE

if TYPE_CHECKING:
    from warren.queues import Turn

# A line is served when there are tokens for a hundredth of a second, or one.
SERVICES_PER_S: Final = 100
# A burst is at least a fiftieth of a second's worth: a service may be that late and lose nothing.
BURSTS_PER_S: Final = 50
# Publishes and connections that one service lets go.
PUBLISHES_MAX: Final = 1024
CONNECTIONS_MAX: Final = 64


@mypyc_attr(allow_interpreted_subclasses=True)
class Waiter:
    """Who may stand in line."""

    def resume(self) -> None:
        """It is this one's turn; it may get in line again."""


@final
class Throttle(Timer):
    """`subject` is the user or vhost whose limit it is."""

    def __init__(self, subject: Subject, rate: int, burst: int, turn: "Turn") -> None:
        super().__init__()
        self.subject = subject
        self.turn = turn
        self.bucket = Bucket(rate, burst, int(turn.now_ns))
        self.line: OrderedDict[Waiter, None] = OrderedDict()
        # While those in line are served: what is left for them in this turn.
        self.serving = False
        self.left: i64 = 0
        # The limit was taken away: everybody goes.
        self.lifted = False

    def text(self) -> str:
        """The limit in words."""
        bucket = self.bucket
        return f"{bucket.rate} messages/s, at most {bucket.burst} at once, for {self.subject}"

    def take(self, now_ns: i64) -> bool:
        """Take a token for one publish of whoever asks; False: get in line."""
        if self.serving:
            if self.left == 0 or not (self.lifted or self.bucket.take(now_ns)):
                return False
            self.left -= 1
            return True
        return not self.line and (self.lifted or self.bucket.take(now_ns))

    def give_back(self) -> None:
        self.bucket.give_back()

    def wait(self, waiter: Waiter) -> None:
        """Get in line, behind all others."""
        self.line[waiter] = None
        if self.index < 0 and not self.serving:
            self._arm()

    def leave(self, waiter: Waiter) -> None:
        self.line.pop(waiter, None)
        if not self.line:
            self.turn.timers.cancel(self)

    def change(self, rate: int, burst: int) -> None:
        """The limit is another one now."""
        self.bucket.change(rate, burst, self.turn.now_ns)
        if self.line:
            self._arm()

    def lift(self) -> None:
        """There is no limit any more; those in line go, turn by turn."""
        self.lifted = True
        if self.line:
            self._arm()

    def fire(self, now_ns: i64) -> None:
        self.serving = True
        self.left = PUBLISHES_MAX
        try:
            for _ in range(CONNECTIONS_MAX):
                if not self.line or self.left == 0:
                    break
                if not self.lifted and self.bucket.ready_ns(1, now_ns) != now_ns:
                    break
                waiter, _none = self.line.popitem(last=False)
                waiter.resume()
        finally:
            self.serving = False
            if self.line:
                self._arm()

    def _arm(self) -> None:
        turn = self.turn
        now = turn.now_ns
        at = now
        if not self.lifted:
            at = self.bucket.ready_ns(max(1, self.bucket.rate // SERVICES_PER_S), now)
        if at == NEVER:
            turn.timers.cancel(self)
        else:
            # Not in this turn again.
            turn.timers.arm(self, max(at, now + 1))


def throttled(
    current: Throttle | None, limits: Mapping[str, int], subject: Subject, turn: "Turn"
) -> Throttle | None:
    """Return the throttle these limits ask for: the one there was, changed, or a new one."""
    rate = limits.get(MAX_PUBLISH_RATE, -1)
    if rate < 0:
        if current is not None:
            current.lift()
        return None
    burst = limits.get(MAX_PUBLISH_BURST, -1)
    burst = 0 if rate == 0 else max(1, rate // BURSTS_PER_S, rate if burst < 0 else burst)
    if current is None:
        return Throttle(subject, rate, burst, turn)
    current.change(rate, burst)
    return current
