"""How much one connection asks of the node's loop: who is slow when nobody waits for credit.

Between a reader, its channels and a queue of the same loop there is no line to wait in: a publish
is routed and taken before the next frame is looked at. A publisher that is faster than that is
held up by its socket, which is read less often than it is written to. So three numbers are kept
for each read: how many there were, how many got all they asked for (the peer has more to say than
is taken), and how long their handling took. Once a window they are weighed:

- most reads were full, the loop was busy nearly all the time, and something was published: the
  connection is saturated, and in `flow` (5 s, as after credit);
- if what it publishes is written down by a queue, accepting and storing is the queues' work: the
  channels that publish are in `flow`, too (1 s). Otherwise the work is the channels': routing;
- a queue that is full of messages because its consumers do not take them is neither.

Nothing here is done for a message. Rules: the table of flow-and-alarms 1.5.
"""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

if TYPE_CHECKING:
    from warren.session.channel import Channel
    from warren.session.connection import Connection
    from warren.session.route import Route

WINDOW_NS: Final[i64] = 250_000_000
# Full reads in a window, at least; and half of all.
FULL_MIN: Final[i64] = 8
# The loop was busy for so many percent of the window, at least.
BUSY_MIN: Final[i64] = 80
# A window that lasted longer had a pause in it: there was no more to say.
WINDOW_NS_MAX: Final[i64] = 2 * WINDOW_NS
# After a wait for credit, which explains itself, nothing is said of the loop for so long.
CREDIT_NS: Final[i64] = 1_000_000_000


@final
class Load:
    def __init__(self) -> None:
        self.began_ns: i64 = 0
        self.reads: i64 = 0
        self.full: i64 = 0
        self.spent_ns: i64 = 0
        # `Turn.busy_ns` at the begin of the window.
        self.busy_at_ns: i64 = 0
        # When the connection was found to be saturated last, and since when it is; -1 never.
        self.last_ns: i64 = -1
        self.since_ns: i64 = -1
        # Whether queues have the work; which channel publishes most.
        self.stored = False
        self.channel: i64 = 0
        self.queue = ""
        # Where the last publish on the general way went; the short way has `Connection.route`.
        self.route: Route | None = None
        # Of the last window that was saturated, in percent.
        self.full_share: i64 = 0
        self.busy_share: i64 = 0
        self.own_share: i64 = 0
        # When credit was exhausted last.
        self.credit_ns: i64 = -1

    def note(self, connection: "Connection", now_ns: i64, took_ns: i64, full: bool) -> None:
        """One read was handled."""
        self.reads += 1
        self.spent_ns += took_ns
        if full:
            self.full += 1
        if now_ns - self.began_ns >= WINDOW_NS:
            self.weigh(connection, now_ns)

    def weigh(self, connection: "Connection", now_ns: i64) -> None:
        """A window ends: was the connection saturated?"""
        turn = connection.broker.turn
        elapsed = now_ns - self.began_ns
        busy_share = (turn.busy_ns - self.busy_at_ns) * 100 // elapsed
        publishing = _publishing(connection)
        enough = bool(publishing) and self.full >= FULL_MIN and self.full * 2 >= self.reads
        credit = self.credit_ns >= 0 and now_ns - self.credit_ns < CREDIT_NS
        if enough and busy_share >= BUSY_MIN and elapsed <= WINDOW_NS_MAX and not credit:
            self.full_share = self.full * 100 // self.reads
            self.busy_share = busy_share
            self.own_share = self.spent_ns * 100 // elapsed
            self._saturated(connection, publishing, now_ns)
        self.began_ns = now_ns
        self.busy_at_ns = turn.busy_ns
        self.route = None
        self.reads = 0
        self.full = 0
        self.spent_ns = 0

    def _saturated(
        self, connection: "Connection", publishing: "list[Channel]", now_ns: i64
    ) -> None:
        route = connection.route if self.route is None else self.route
        self.stored = False
        self.queue = ""
        if route is not None:
            for target in route.targets:
                if target.is_held_up():
                    return
                if target.stores():
                    self.stored = True
                    self.queue = target.name
        if self.last_ns < 0 or now_ns - self.last_ns > WINDOW_NS_MAX:
            self.since_ns = self.began_ns
        self.last_ns = now_ns
        connection.last_flow_ns = now_ns
        self.channel = publishing[0].number
        if self.stored:
            for channel in publishing:
                channel.flow_since_ns = int(now_ns)


def _publishing(connection: "Connection") -> "list[Channel]":
    """The channels that have published since the last look, the busiest first."""
    found: list[Channel] = []
    most: i64 = 0
    for channel in connection.channels.values():
        count = channel.published - channel.weighed
        channel.weighed = channel.published
        if count > most:
            most = count
            found.insert(0, channel)
        elif count > 0:
            found.append(channel)
    return found
