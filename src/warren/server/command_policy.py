"""Commands about policies and operator policies, and what they come to (PO-1 to PO-10).

A command replies when its change is stored. By then it is in force in a small virtual host; in a
large one the objects follow slice by slice, and `policies.applied` in the log is the end of that.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Final, final

import msgspec
from msgspec import Meta, Raw, Struct

from warren.server.changing import Args, Done, Name, make, vhost_named
from warren.server.command_parameter import InVHostArgs, Vhost
from warren.server.control import Code, Command, ControlError, Slices, command, listing
from warren.server.list_cell import Cell, cells, row, sliced
from warren.server.view import NodeView
from warren.vhost import ApplyTo, Policy, PolicyError, checked, read_definition
from warren.vhost.change import PolicyDelete, policy_put
from warren.vhost.policy_effect import as_json, settings_of
from warren.vhost.policy_force import in_force

if TYPE_CHECKING:
    from warren.queues import Queue
    from warren.routing import Exchange
    from warren.server.node import Node


class SetPolicyArgs(Args, frozen=True, kw_only=True):
    """`definition` is an object, or its JSON as text; a policy of this name is replaced whole."""

    vhost: Vhost = "/"
    name: Name
    pattern: str
    definition: Raw
    priority: int = 0
    apply_to: str = ApplyTo.ALL


class PolicyPlace(Args, frozen=True, kw_only=True):
    vhost: Vhost = "/"
    name: Name


class ObjectArgs(Args, frozen=True, kw_only=True):
    """A queue or an exchange; just one of them."""

    vhost: Vhost = "/"
    queue: Annotated[str, Meta(max_length=255)] | None = None
    exchange: Annotated[str, Meta(max_length=255)] | None = None


class SettingRow(Struct, frozen=True, kw_only=True):
    """One key in force: `origin` is `argument`, `policy` or `operator policy`, `policy` its name.

    `idle` says why the key has no effect; it is empty when it has one.
    """

    key: str
    value: Raw
    origin: str
    policy: str
    idle: str


class PolicyReply(Struct, frozen=True, kw_only=True):
    """What policies and arguments come to. `pending`: a change is still on its way to objects."""

    policy: str
    operator_policy: str
    effective_policy_definition: Raw
    settings: tuple[SettingRow, ...]
    pending: bool


_CELLS: Final[dict[str, Cell[Policy]]] = {
    "vhost": lambda one: one.vhost,
    "name": lambda one: one.name,
    "pattern": lambda one: one.pattern,
    "apply-to": lambda one: one.apply_to.value,
    "definition": lambda one: Raw(as_json(one.definition)),
    "priority": lambda one: one.priority,
}


@final
class _Policies:
    """The commands of one kind of policy."""

    def __init__(self, node: "Node", *, operator: bool) -> None:
        self.node = node
        self.broker = node.broker
        self.operator = operator

    async def set(self, view: NodeView, args: SetPolicyArgs) -> Done:
        vhost_named(self.node, args.vhost)
        try:
            policy = checked(
                vhost=args.vhost,
                name=args.name,
                pattern=args.pattern,
                definition=read_definition(_text(args.definition)),
                priority=args.priority,
                apply_to=args.apply_to,
                operator=self.operator,
            )
        except PolicyError as refusal:
            raise ControlError(Code.REFUSED, str(refusal)) from None
        done = await make(self.node, policy_put(policy))
        facts = {
            "vhost": policy.vhost,
            "name": policy.name,
            "pattern": policy.pattern,
            "apply_to": policy.apply_to.value,
            "definition": as_json(policy.definition).decode(),
            "priority": policy.priority,
            "operator": policy.operator,
        }
        self.broker.log.event("info", "policy.set", facts)
        return done

    async def clear(self, view: NodeView, args: PolicyPlace) -> Done:
        vhost = vhost_named(self.node, args.vhost)
        if vhost.policies.book.get(args.name, operator=self.operator) is None:
            raise ControlError(Code.NOT_FOUND, "Parameter does not exist")
        gone = PolicyDelete(vhost=args.vhost, name=args.name, operator=self.operator)
        done = await make(self.node, gone)
        facts = {"vhost": args.vhost, "name": args.name, "operator": self.operator}
        self.broker.log.event("info", "policy.cleared", facts)
        return done

    def rows(self, view: NodeView, args: InVHostArgs) -> Slices:
        if args.vhost is not None:
            vhost_named(self.node, args.vhost)
        made = cells(_CELLS, args.columns or tuple(_CELLS))
        every = self.broker.vhosts
        found = (
            policy
            for name in sorted(every)
            if args.vhost in (None, name)
            for policy in every[name].policies.book.all(operator=self.operator)
        )
        return sliced((row(made, one) for one in found), self.broker.clock)


def _text(definition: Raw) -> str:
    """Return the JSON of a definition, also when it came as JSON inside a string."""
    text = bytes(definition).decode()
    return msgspec.json.decode(text, type=str) if text.startswith('"') else text


def _explain(node: "Node", args: ObjectArgs) -> PolicyReply:
    vhost = vhost_named(node, args.vhost)
    if (args.queue is None) == (args.exchange is None):
        raise ControlError(Code.BAD_ARGUMENTS, "name a queue or an exchange")
    found: Queue | Exchange | None
    if args.queue is not None:
        found = vhost.queues.get(args.queue)
        label = f"queue '{args.queue}'"
    else:
        found = vhost.routing.exchanges.get(args.exchange or "")
        label = f"exchange '{args.exchange}'"
    if found is None:
        raise ControlError(Code.NOT_FOUND, f"there is no {label} in vhost '{args.vhost}'")
    applied = in_force(found)
    return PolicyReply(
        policy=applied.policy,
        operator_policy=applied.operator_policy,
        effective_policy_definition=Raw(as_json(applied.effective)),
        settings=tuple(
            SettingRow(
                key=name,
                value=Raw(as_json(one.value)),
                origin=one.origin.value,
                policy=one.policy,
                idle=one.key.idle,
            )
            for name, one in sorted(settings_of(applied, found.arguments).items())
        ),
        pending=vhost.policies.round is not None,
    )


def commands(node: "Node") -> Iterator[Command]:
    user, operator = _Policies(node, operator=False), _Policies(node, operator=True)
    yield command("set_policy", "Set a policy.", SetPolicyArgs, Done, user.set)
    yield command("clear_policy", "Clear a policy.", PolicyPlace, Done, user.clear)
    yield listing("list_policies", "List policies.", InVHostArgs, user.rows)
    yield command(
        "set_operator_policy", "Set an operator policy.", SetPolicyArgs, Done, operator.set
    )
    yield command(
        "clear_operator_policy", "Clear an operator policy.", PolicyPlace, Done, operator.clear
    )
    yield listing("list_operator_policies", "List them.", InVHostArgs, operator.rows)
    yield command(
        "explain_policy",
        "Say what is in force for a queue or an exchange, and who decided.",
        ObjectArgs,
        PolicyReply,
        lambda view, args: _explain(node, args),
    )
