"""Commands that close connections (CE-31): the client is told 320 and the operator's reason."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, final

from msgspec import Meta, Struct

from warren.server.changing import Args, Done, Name, user_named
from warren.server.closing import Closing, close
from warren.server.control import Code, Command, ControlError, command
from warren.server.hub import Link
from warren.server.pid import read_pid
from warren.server.view import NodeView

if TYPE_CHECKING:
    from warren.server.node import Node

Reason = Annotated[str, Meta(max_length=1024)]


class CloseArgs(Args, frozen=True, kw_only=True):
    """`pid` is a process id or a name, as lists of connections show them."""

    pid: Annotated[str, Meta(min_length=1, max_length=1024)]
    reason: Reason = ""


class CloseAllArgs(Args, frozen=True, kw_only=True):
    """Without a vhost, those of all; a `limit` of 0 is none."""

    vhost: str | None = None
    limit: Annotated[int, Meta(ge=0)] = 0
    per_connection_delay: Annotated[int, Meta(ge=0, le=3_600_000)] = 0
    reason: Reason = ""


class CloseUserArgs(Args, frozen=True, kw_only=True):
    user: Name
    reason: Reason = ""


class Closed(Struct, frozen=True, kw_only=True):
    """How many connections were closed."""

    closed: int


@final
class _Connections:
    def __init__(self, node: "Node") -> None:
        self.node = node
        self.hub = node.hub
        self.closing = Closing(node.hub)

    def named(self, name: str) -> Link:
        """Find a connection by its process id, or by its name with or without the local end."""
        pid = read_pid(name)
        # One of another node, or of this one before it was started again, names nobody here.
        if pid is not None and (pid.node, pid.creation) == (
            self.node.broker.node_name,
            self.node.creation,
        ):
            link = self.hub.links.get(pid.identity)
            if link is not None:
                return link
        peer = name.partition(" -> ")[0]
        for link in self.hub.links.values():
            if link.connection is not None and link.connection.subject.name == peer:
                return link
        message = f"there is no connection '{name}' on this node"
        raise ControlError(Code.NOT_FOUND, message, "list_connections names those there are")

    def close(self, view: NodeView, args: CloseArgs) -> Done:
        link = self.named(args.pid)
        self.hub.begin()
        close(link, lambda _: True, args.reason)
        return Done()

    async def close_all(self, view: NodeView, args: CloseAllArgs) -> Closed:
        name = args.vhost
        closed = await self.closing.close(
            lambda one: one.home is not None and name in (None, one.home.name),
            args.reason,
            limit=args.limit,
            delay_ms=args.per_connection_delay,
        )
        return Closed(closed=closed)

    async def close_of_user(self, view: NodeView, args: CloseUserArgs) -> Closed:
        user_named(self.node, args.user)
        return Closed(
            closed=await self.closing.close(lambda one: one.user == args.user, args.reason)
        )


def commands(node: "Node") -> Iterator[Command]:
    made = _Connections(node)
    yield command("close_connection", "Close a connection.", CloseArgs, Done, made.close)
    yield command(
        "close_all_connections", "Close connections.", CloseAllArgs, Closed, made.close_all
    )
    yield command(
        "close_all_user_connections",
        "Close the connections of a user.",
        CloseUserArgs,
        Closed,
        made.close_of_user,
    )
