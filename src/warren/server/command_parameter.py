"""Commands about parameters of vhosts and of the whole cluster, its name among them.

A parameter is a value that some component reads. A node refuses parameters of components that it
does not have; an import keeps them, because they are somebody's.
"""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Final, final

import msgspec
from msgspec import Meta

from warren.server.changing import Args, Done, Name, make, vhost_named
from warren.server.command_user import ColumnsArgs, read_limits
from warren.server.control import Code, Command, ControlError, Slices, command, listing
from warren.server.list_cell import Cell, cells, row, sliced
from warren.server.view import NodeView
from warren.vhost.broker import CLUSTER_NAME
from warren.vhost.change import (
    GlobalParameterDelete,
    GlobalParameterPut,
    ParameterDelete,
    VHostLimitsPut,
)
from warren.vhost.limit import LIMITS_COMPONENT, LIMITS_NAME, VHOST_LIMITS

if TYPE_CHECKING:
    from warren.server.node import Node

Vhost = Annotated[str, Meta(max_length=255)]

# Set by commands of their own.
POLICIES: Final = frozenset({"policy", "operator_policy"})


class ParameterArgs(Args, frozen=True, kw_only=True):
    """`value` is any JSON, or JSON as text."""

    vhost: Vhost = "/"
    component: Name
    name: Name
    value: msgspec.Raw


class ParameterPlace(Args, frozen=True, kw_only=True):
    vhost: Vhost = "/"
    component: Name
    name: Name


class InVHostArgs(Args, frozen=True, kw_only=True):
    """Without a vhost, those of all vhosts."""

    vhost: str | None = None
    columns: tuple[str, ...] = ()


class GlobalArgs(Args, frozen=True, kw_only=True):
    """`value` is any JSON, or JSON as text."""

    name: Name
    value: msgspec.Raw


class GlobalPlace(Args, frozen=True, kw_only=True):
    name: Name


def read_value(raw: msgspec.Raw) -> bytes:
    """Return a value as it is kept: JSON, also when it came as JSON inside a string."""
    value: object = msgspec.json.decode(raw)
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            raise ControlError(Code.BAD_ARGUMENTS, "the value is not JSON") from None
    return msgspec.json.encode(value)


_Row = tuple[str, str, str, bytes]
_CELLS: Final[dict[str, Cell[_Row]]] = {
    "vhost": lambda one: one[0],
    "component": lambda one: one[1],
    "name": lambda one: one[2],
    "value": lambda one: msgspec.Raw(one[3]),
}
_GLOBAL_CELLS: Final[dict[str, Cell[tuple[str, bytes]]]] = {
    "name": lambda one: one[0],
    "value": lambda one: msgspec.Raw(one[1]),
}


@final
class _Parameters:
    def __init__(self, node: "Node") -> None:
        self.node = node
        self.broker = node.broker

    async def set(self, view: NodeView, args: ParameterArgs) -> Done:
        vhost_named(self.node, args.vhost)
        value = read_value(args.value)
        if args.component == LIMITS_COMPONENT:
            limits = read_limits(value.decode(), VHOST_LIMITS)
            return await make(self.node, VHostLimitsPut(vhost=args.vhost, limits=limits))
        if args.component in POLICIES:
            message = "policies have commands of their own"
            raise ControlError(Code.REFUSED, message, "use set_policy, set_operator_policy")
        # Nothing on this node reads parameters; the one that will adds its component here.
        raise ControlError(Code.REFUSED, f"component {args.component} not found")

    async def clear(self, view: NodeView, args: ParameterPlace) -> Done:
        vhost = vhost_named(self.node, args.vhost)
        if args.component == LIMITS_COMPONENT and args.name == LIMITS_NAME and vhost.limits:
            return await make(self.node, VHostLimitsPut(vhost=args.vhost, limits={}))
        if (args.component, args.name) not in vhost.parameters:
            raise ControlError(Code.NOT_FOUND, "Parameter does not exist")
        gone = ParameterDelete(vhost=args.vhost, component=args.component, name=args.name)
        return await make(self.node, gone)

    def rows(self, view: NodeView, args: InVHostArgs) -> Slices:
        if args.vhost is not None:
            vhost_named(self.node, args.vhost)
        found: list[_Row] = []
        for vhost in self.broker.vhosts.values():
            if args.vhost not in (None, vhost.name):
                continue
            for (component, name), value in vhost.parameters.items():
                found.append((vhost.name, component, name, value))
            if vhost.limits:
                value = msgspec.json.encode(vhost.limits)
                found.append((vhost.name, LIMITS_COMPONENT, LIMITS_NAME, value))
        found.sort()
        made = cells(_CELLS, args.columns or ("component", "name", "value"))
        return sliced((row(made, one) for one in found), self.broker.clock)

    async def set_global(self, view: NodeView, args: GlobalArgs) -> Done:
        value = read_value(args.value)
        if args.name == CLUSTER_NAME and not isinstance(msgspec.json.decode(value), str):
            raise ControlError(Code.BAD_ARGUMENTS, "cluster_name should be a string")
        return await make(self.node, GlobalParameterPut(name=args.name, value=value))

    async def clear_global(self, view: NodeView, args: GlobalPlace) -> Done:
        if args.name not in self.broker.global_parameters:
            raise ControlError(Code.NOT_FOUND, "Parameter does not exist")
        return await make(self.node, GlobalParameterDelete(name=args.name))

    def global_rows(self, view: NodeView, args: ColumnsArgs) -> Slices:
        made = cells(_GLOBAL_CELLS, args.columns or tuple(_GLOBAL_CELLS))
        found = sorted(self.broker.global_parameters.items())
        return sliced((row(made, one) for one in found), self.broker.clock)

    async def name_cluster(self, view: NodeView, args: GlobalPlace) -> Done:
        value = msgspec.json.encode(args.name)
        return await make(self.node, GlobalParameterPut(name=CLUSTER_NAME, value=value))


def commands(node: "Node") -> Iterator[Command]:
    made = _Parameters(node)
    yield command("set_parameter", "Set a parameter.", ParameterArgs, Done, made.set)
    yield command("clear_parameter", "Clear a parameter.", ParameterPlace, Done, made.clear)
    yield listing("list_parameters", "List parameters.", InVHostArgs, made.rows)
    yield command(
        "set_global_parameter", "Set one of the cluster.", GlobalArgs, Done, made.set_global
    )
    yield command(
        "clear_global_parameter", "Clear one of the cluster.", GlobalPlace, Done, made.clear_global
    )
    yield listing(
        "list_global_parameters", "List those of the cluster.", ColumnsArgs, made.global_rows
    )
    yield command("set_cluster_name", "Name the cluster.", GlobalPlace, Done, made.name_cluster)
