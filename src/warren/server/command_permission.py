"""Commands about permissions and topic permissions (VH-3, VH-4)."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Final, TypeVar, final

from msgspec import Meta

from warren.security import Permission, TopicPermission
from warren.server.changing import Args, Done, Name, make, user_named, vhost_named
from warren.server.control import Command, Slices, command, listing
from warren.server.list_cell import Cell, cells, row, sliced
from warren.server.view import NodeView
from warren.vhost.change import (
    PermissionDelete,
    PermissionPut,
    TopicPermissionDelete,
    TopicPermissionPut,
)

if TYPE_CHECKING:
    from warren.server.node import Node

T = TypeVar("T")
Vhost = Annotated[str, Meta(max_length=255)]


class PermissionArgs(Args, frozen=True, kw_only=True):
    user: Name
    vhost: Vhost = "/"
    configure: str
    write: str
    read: str


class PlaceArgs(Args, frozen=True, kw_only=True):
    user: Name
    vhost: Vhost = "/"


class TopicArgs(Args, frozen=True, kw_only=True):
    user: Name
    vhost: Vhost = "/"
    exchange: Vhost
    write: str
    read: str


class ClearTopicArgs(Args, frozen=True, kw_only=True):
    """Without an exchange, those for all exchanges are cleared."""

    user: Name
    vhost: Vhost = "/"
    exchange: str | None = None


class InVHostArgs(Args, frozen=True, kw_only=True):
    """Without a vhost, those of all vhosts."""

    vhost: str | None = None
    columns: tuple[str, ...] = ()


class OfUserArgs(Args, frozen=True, kw_only=True):
    user: Name
    columns: tuple[str, ...] = ()


_PLAIN: Final[dict[str, Cell[Permission]]] = {
    "vhost": lambda one: one.vhost,
    "user": lambda one: one.user,
    "configure": lambda one: one.configure,
    "write": lambda one: one.write,
    "read": lambda one: one.read,
}
_TOPIC: Final[dict[str, Cell[TopicPermission]]] = {
    "vhost": lambda one: one.vhost,
    "user": lambda one: one.user,
    "exchange": lambda one: one.exchange,
    "write": lambda one: one.write,
    "read": lambda one: one.read,
}


@final
class _Permissions:
    def __init__(self, node: "Node") -> None:
        self.node = node
        self.permissions = node.broker.permissions

    def check(self, user: str, vhost: str) -> None:
        vhost_named(self.node, vhost)
        user_named(self.node, user)

    async def set(self, view: NodeView, args: PermissionArgs) -> Done:
        self.check(args.user, args.vhost)
        change = PermissionPut(
            user=args.user,
            vhost=args.vhost,
            configure=args.configure,
            write=args.write,
            read=args.read,
        )
        done = await make(self.node, change)
        facts = {"user": args.user, "vhost": args.vhost}
        self.node.broker.log.event("info", "permission.set", facts)
        return done

    async def clear(self, view: NodeView, args: PlaceArgs) -> Done:
        self.check(args.user, args.vhost)
        change = PermissionDelete(user=args.user, vhost=args.vhost)
        done = await make(self.node, change)
        facts = {"user": args.user, "vhost": args.vhost}
        self.node.broker.log.event("info", "permission.cleared", facts)
        return done

    async def set_topic(self, view: NodeView, args: TopicArgs) -> Done:
        self.check(args.user, args.vhost)
        change = TopicPermissionPut(
            user=args.user,
            vhost=args.vhost,
            exchange=args.exchange,
            write=args.write,
            read=args.read,
        )
        done = await make(self.node, change)
        facts = {"user": args.user, "vhost": args.vhost}
        self.node.broker.log.event("info", "topic_permission.set", facts)
        return done

    async def clear_topic(self, view: NodeView, args: ClearTopicArgs) -> Done:
        self.check(args.user, args.vhost)
        exchanges = [
            one.exchange
            for one in self.permissions.all_topic()
            if (one.user, one.vhost) == (args.user, args.vhost)
            and args.exchange in (None, one.exchange)
        ]
        changes = [
            TopicPermissionDelete(user=args.user, vhost=args.vhost, exchange=exchange)
            for exchange in exchanges
        ]
        done = await make(self.node, *changes)
        facts = {"user": args.user, "vhost": args.vhost}
        self.node.broker.log.event("info", "topic_permission.cleared", facts)
        return done

    # -- lists -------------------------------------------------------------------------------------

    def in_vhost(self, view: NodeView, args: InVHostArgs) -> Slices:
        if args.vhost is not None:
            vhost_named(self.node, args.vhost)
        found = [one for one in self.permissions.all() if args.vhost in (None, one.vhost)]
        shown = ("user", "configure", "write", "read")
        return self._rows(_PLAIN, found, args.columns or shown)

    def of_user(self, view: NodeView, args: OfUserArgs) -> Slices:
        user_named(self.node, args.user)
        found = [one for one in self.permissions.all() if one.user == args.user]
        shown = ("vhost", "configure", "write", "read")
        return self._rows(_PLAIN, found, args.columns or shown)

    def topic_in_vhost(self, view: NodeView, args: InVHostArgs) -> Slices:
        if args.vhost is not None:
            vhost_named(self.node, args.vhost)
        found = [one for one in self.permissions.all_topic() if args.vhost in (None, one.vhost)]
        shown = ("user", "exchange", "write", "read")
        return self._rows(_TOPIC, found, args.columns or shown)

    def topic_of_user(self, view: NodeView, args: OfUserArgs) -> Slices:
        user_named(self.node, args.user)
        found = [one for one in self.permissions.all_topic() if one.user == args.user]
        shown = ("vhost", "exchange", "write", "read")
        return self._rows(_TOPIC, found, args.columns or shown)

    def _rows(
        self, table: dict[str, Cell[T]], found: Iterable[T], columns: tuple[str, ...]
    ) -> Slices:
        made = cells(table, columns)
        return sliced((row(made, one) for one in found), self.node.broker.clock)


def commands(node: "Node") -> Iterator[Command]:
    made = _Permissions(node)
    yield command("set_permissions", "Say what a user may do.", PermissionArgs, Done, made.set)
    yield command("clear_permissions", "Take them away.", PlaceArgs, Done, made.clear)
    yield listing("list_permissions", "List those in a vhost.", InVHostArgs, made.in_vhost)
    yield listing("list_user_permissions", "List those of a user.", OfUserArgs, made.of_user)
    yield command(
        "set_topic_permissions",
        "Say which keys of a topic exchange a user may use.",
        TopicArgs,
        Done,
        made.set_topic,
    )
    yield command(
        "clear_topic_permissions", "Take them away.", ClearTopicArgs, Done, made.clear_topic
    )
    yield listing(
        "list_topic_permissions", "List those in a vhost.", InVHostArgs, made.topic_in_vhost
    )
    yield listing(
        "list_user_topic_permissions", "List those of a user.", OfUserArgs, made.topic_of_user
    )
