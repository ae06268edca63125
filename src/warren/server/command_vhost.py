"""Commands about virtual hosts and their limits (VH-1, VH-2, VH-6)."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Final, final

from msgspec import Meta

from warren.server.changing import Args, Done, Name, make, vhost_named
from warren.server.command_user import ColumnsArgs, read_limits
from warren.server.control import Code, Command, ControlError, Slices, command, listing
from warren.server.list_cell import Cell, cells, row, sliced
from warren.server.view import NodeView
from warren.vhost import VHost
from warren.vhost.change import VHostDelete, VHostLimitsPut, VHostPut, VHostTracing
from warren.vhost.limit import VHOST_LIMITS
from warren.vhost.queue_argument import QUEUE_TYPES

if TYPE_CHECKING:
    from warren.server.node import Node

Vhost = Annotated[str, Meta(max_length=255)]


class AddVHostArgs(Args, frozen=True, kw_only=True):
    """`replace`: the description of one that is there is overwritten."""

    vhost: Name
    description: str = ""
    tags: tuple[str, ...] = ()
    default_queue_type: str = ""
    replace: bool = False


class VHostArgs(Args, frozen=True, kw_only=True):
    vhost: Name


class VHostTagsArgs(Args, frozen=True, kw_only=True):
    vhost: Name
    tags: tuple[str, ...] = ()


class TraceArgs(Args, frozen=True, kw_only=True):
    vhost: Vhost = "/"


class SetLimitsArgs(Args, frozen=True, kw_only=True):
    """`definition` is an object of limits, or its JSON; it takes the place of the one before."""

    vhost: Vhost = "/"
    definition: dict[str, object] | str


class ClearLimitsArgs(Args, frozen=True, kw_only=True):
    vhost: Vhost = "/"


class LimitListArgs(Args, frozen=True, kw_only=True):
    """Without a vhost, those of all vhosts that have any."""

    vhost: str | None = None
    columns: tuple[str, ...] = ()


_CELLS: Final[dict[str, Cell[VHost]]] = {
    "name": lambda one: one.name,
    "description": lambda one: one.description,
    "tags": lambda one: list(one.tags),
    "default_queue_type": lambda one: one.default_queue_type or "undefined",
    "tracing": lambda one: one.tracer is not None,
    "cluster_state": lambda one: {one.broker.node_name: "running"},
}
_LIMIT_CELLS: Final[dict[str, Cell[VHost]]] = {
    "vhost": lambda one: one.name,
    "limits": lambda one: one.limits,
}


@final
class _VHosts:
    def __init__(self, node: "Node") -> None:
        self.node = node
        self.broker = node.broker

    async def add(self, view: NodeView, args: AddVHostArgs) -> Done:
        if args.vhost in self.broker.vhosts and not args.replace:
            raise ControlError(Code.EXISTS, f"Virtual host '{args.vhost}' already exists")
        kind = args.default_queue_type
        if kind and kind.encode() not in QUEUE_TYPES:
            raise ControlError(Code.BAD_ARGUMENTS, f"there is no queue type '{kind}'")
        put = VHostPut(
            name=args.vhost, description=args.description, tags=args.tags, default_queue_type=kind
        )
        done = await make(self.node, put)
        self.broker.log.event("info", "vhost.created", {"vhost": args.vhost})
        return done

    async def delete(self, view: NodeView, args: VHostArgs) -> Done:
        vhost_named(self.node, args.vhost)
        done = await make(self.node, VHostDelete(name=args.vhost))
        self.broker.log.event("info", "vhost.deleted", {"vhost": args.vhost})
        return done

    async def set_tags(self, view: NodeView, args: VHostTagsArgs) -> Done:
        vhost = vhost_named(self.node, args.vhost)
        put = VHostPut(
            name=vhost.name,
            description=vhost.description,
            tags=args.tags,
            default_queue_type=vhost.default_queue_type,
        )
        return await make(self.node, put)

    def rows(self, view: NodeView, args: ColumnsArgs) -> Slices:
        made = cells(_CELLS, args.columns or ("name",))
        found = [self.broker.vhosts[name] for name in sorted(self.broker.vhosts)]
        return sliced((row(made, one) for one in found), self.broker.clock)

    async def trace_on(self, view: NodeView, args: TraceArgs) -> Done:
        vhost_named(self.node, args.vhost)
        done = await make(self.node, VHostTracing(vhost=args.vhost, tracing=True))
        self.broker.log.event("info", "vhost.tracing_on", {"vhost": args.vhost})
        return done

    async def trace_off(self, view: NodeView, args: TraceArgs) -> Done:
        vhost_named(self.node, args.vhost)
        done = await make(self.node, VHostTracing(vhost=args.vhost, tracing=False))
        self.broker.log.event("info", "vhost.tracing_off", {"vhost": args.vhost})
        return done

    async def set_limits(self, view: NodeView, args: SetLimitsArgs) -> Done:
        vhost_named(self.node, args.vhost)
        given = read_limits(args.definition, VHOST_LIMITS)
        done = await make(self.node, VHostLimitsPut(vhost=args.vhost, limits=given))
        facts = {"vhost": args.vhost, "limits": given}
        self.broker.log.event("info", "vhost.limits_set", facts)
        return done

    async def clear_limits(self, view: NodeView, args: ClearLimitsArgs) -> Done:
        vhost_named(self.node, args.vhost)
        done = await make(self.node, VHostLimitsPut(vhost=args.vhost, limits={}))
        self.broker.log.event("info", "vhost.limits_cleared", {"vhost": args.vhost})
        return done

    def limit_rows(self, view: NodeView, args: LimitListArgs) -> Slices:
        made = cells(_LIMIT_CELLS, args.columns or tuple(_LIMIT_CELLS))
        if args.vhost is not None:
            found = [vhost_named(self.node, args.vhost)]
        else:
            every = self.broker.vhosts
            found = [every[name] for name in sorted(every) if every[name].limits]
        return sliced((row(made, one) for one in found), self.broker.clock)


def commands(node: "Node") -> Iterator[Command]:
    vhosts = _VHosts(node)
    yield command("add_vhost", "Add a virtual host.", AddVHostArgs, Done, vhosts.add)
    yield command("delete_vhost", "Delete one with all in it.", VHostArgs, Done, vhosts.delete)
    yield command("set_vhost_tags", "Set the tags.", VHostTagsArgs, Done, vhosts.set_tags)
    yield listing("list_vhosts", "List virtual hosts.", ColumnsArgs, vhosts.rows)
    yield command("trace_on", "Trace messages.", TraceArgs, Done, vhosts.trace_on)
    yield command("trace_off", "Stop tracing.", TraceArgs, Done, vhosts.trace_off)
    yield command("set_vhost_limits", "Set limits.", SetLimitsArgs, Done, vhosts.set_limits)
    yield command("clear_vhost_limits", "Clear limits.", ClearLimitsArgs, Done, vhosts.clear_limits)
    yield listing("list_vhost_limits", "List limits.", LimitListArgs, vhosts.limit_rows)
