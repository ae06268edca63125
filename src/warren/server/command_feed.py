"""Commands of the management process: the feed, where it is, the node itself, and logins.

A login is checked as one over AMQP is: it counts, it is logged when it is refused, and an address
that fails too often is not asked for its password any more.
"""

from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Final, final

from msgspec import Meta

from warren.management.feed import NodeState, Position
from warren.security import Refusal
from warren.server.changing import Args, Name
from warren.server.control import Code, Command, ControlError, NoArgs, command, stream
from warren.server.feed import Feed, Feeds
from warren.server.feed_state import node_state
from warren.server.view import NodeView

if TYPE_CHECKING:
    from warren.server.node import Node

PROTOCOL: Final = "http"


class FeedArgs(Args, frozen=True, kw_only=True):
    interval_ms: Annotated[int, Meta(ge=10, le=3_600_000)] = 5000


class LoginArgs(Args, frozen=True, kw_only=True):
    """`peer` is the address of who asks."""

    user: Name
    password: str
    peer: str


class LoginReply(Args, frozen=True, kw_only=True):
    """The tags of the user, and the virtual hosts it has permissions in."""

    tags: tuple[str, ...]
    vhosts: tuple[str, ...]


@final
class _Feeding:
    def __init__(self, node: "Node") -> None:
        self.node = node
        self.feeds: Feeds = node.feeds

    def feed(self, view: NodeView, args: FeedArgs) -> AsyncGenerator[Sequence[object]]:
        return Feed(self.feeds, args.interval_ms).rows()

    def position(self, view: NodeView, args: NoArgs) -> Position:
        return Position(at=self.feeds.position)

    def node_state(self, view: NodeView, args: NoArgs) -> NodeState:
        return node_state(self.node)

    def login(self, view: NodeView, args: LoginArgs) -> LoginReply:
        broker = self.node.broker
        now = self.node.clock.monotonic_ns()
        if broker.attempts.held(args.peer, now):
            raise ControlError(Code.REFUSED, "too many failed logins", "brake")
        verdict = broker.users.authenticate(args.user, args.password.encode(), args.peer)
        if isinstance(verdict, Refusal):
            self._refuse(verdict, now)
        else:
            broker.attempts.succeeded(PROTOCOL)
            vhosts = [
                name for name in broker.vhosts if broker.permissions.may_enter(args.user, name)
            ]
            return LoginReply(tags=verdict.tags, vhosts=tuple(vhosts))
        raise ControlError(Code.REFUSED, "Login failed", verdict.reason.value)

    def _refuse(self, refusal: Refusal, now: int) -> None:
        broker = self.node.broker
        braked = broker.attempts.failed(PROTOCOL, refusal.peer, now)
        broker.log.event(
            "warning",
            "login.refused",
            {
                "connection": f"{PROTOCOL} {refusal.peer}",
                "user": refusal.user_name,
                "mechanism": "basic",
                "reason": refusal.reason.value,
                "detail": refusal.text(),
            },
        )
        if braked is not None:
            facts = {"address": braked.address, "failures_per_s": broker.attempts.failures_per_s}
            broker.log.event("warning", "login.brake_on", facts)


def commands(node: "Node") -> Iterator[Command]:
    made = _Feeding(node)
    yield stream("feed", "All there is, then what changes.", FeedArgs, made.feed)
    yield command("position", "How many changes there were.", NoArgs, Position, made.position)
    yield command("node_state", "The node in numbers.", NoArgs, NodeState, made.node_state)
    yield command("login", "Check who asks over HTTP.", LoginArgs, LoginReply, made.login)
