"""Commands that make and delete queues, exchanges and bindings on behalf of a user.

They go the way of the same methods over AMQP (`as_user.py`). The reply comes when what was changed
is stored.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal, final

from msgspec import Meta, field

from warren.protocol.methods import (
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
    QueueUnbind,
)
from warren.protocol.value import Table, table
from warren.server.as_user import act_as
from warren.server.changing import Args, Done, Name
from warren.server.control import Code, Command, ControlError, command
from warren.server.view import NodeView
from warren.session import Connection, exchange_method, queue_method
from warren.session.channel import Channel

if TYPE_CHECKING:
    from warren.server.node import Node

Text = Annotated[str, Meta(max_length=255)]


class ObjectArgs(Args, frozen=True, kw_only=True):
    """Whose doing it is, and where."""

    user: Name
    vhost: Text = "/"
    name: Text


class DeclareArgs(ObjectArgs, frozen=True, kw_only=True):
    durable: bool = False
    auto_delete: bool = False
    arguments: dict[str, object] = field(default_factory=dict)


class DeclareExchangeArgs(DeclareArgs, frozen=True, kw_only=True):
    type: Text = "direct"
    internal: bool = False


class DeleteArgs(ObjectArgs, frozen=True, kw_only=True):
    if_unused: bool = False
    if_empty: bool = False


class BindArgs(Args, frozen=True, kw_only=True):
    """A binding from an exchange to `destination`, which is a queue or an exchange."""

    user: Name
    vhost: Text = "/"
    source: Text
    destination: Text
    kind: Literal["queue", "exchange"] = "queue"
    routing_key: Text = ""
    arguments: dict[str, object] = field(default_factory=dict)


@final
class _Objects:
    def __init__(self, node: "Node") -> None:
        self.node = node

    async def declare_queue(self, view: NodeView, args: DeclareArgs) -> Done:
        method = QueueDeclare(
            queue=args.name,
            durable=args.durable,
            auto_delete=args.auto_delete,
            arguments=_table(args.arguments),
            no_wait=True,
        )
        return await act_as(
            self.node,
            args.user,
            args.vhost,
            lambda one, channel: queue_method.on_declare(one, channel, method),
        )

    async def declare_exchange(self, view: NodeView, args: DeclareExchangeArgs) -> Done:
        method = ExchangeDeclare(
            exchange=args.name,
            type=args.type,
            durable=args.durable,
            auto_delete=args.auto_delete,
            internal=args.internal,
            arguments=_table(args.arguments),
            no_wait=True,
        )
        return await act_as(
            self.node,
            args.user,
            args.vhost,
            lambda one, channel: exchange_method.on_declare(one, channel, method),
        )

    async def remove_queue(self, view: NodeView, args: DeleteArgs) -> Done:
        method = QueueDelete(
            queue=args.name, if_unused=args.if_unused, if_empty=args.if_empty, no_wait=True
        )
        return await act_as(
            self.node,
            args.user,
            args.vhost,
            lambda one, channel: queue_method.on_delete(one, channel, method),
        )

    async def remove_exchange(self, view: NodeView, args: DeleteArgs) -> Done:
        method = ExchangeDelete(exchange=args.name, if_unused=args.if_unused, no_wait=True)
        return await act_as(
            self.node,
            args.user,
            args.vhost,
            lambda one, channel: exchange_method.on_delete(one, channel, method),
        )

    async def empty_queue(self, view: NodeView, args: ObjectArgs) -> Done:
        method = QueuePurge(queue=args.name, no_wait=True)
        return await act_as(
            self.node,
            args.user,
            args.vhost,
            lambda one, channel: queue_method.on_purge(one, channel, method),
        )

    async def bind(self, view: NodeView, args: BindArgs) -> Done:
        arguments = _table(args.arguments)

        def act(one: Connection, channel: Channel) -> None:
            if args.kind == "queue":
                queue_bind = QueueBind(
                    queue=args.destination,
                    exchange=args.source,
                    routing_key=args.routing_key,
                    arguments=arguments,
                )
                queue_method.on_bind(one, channel, queue_bind)
            else:
                exchange_bind = ExchangeBind(
                    destination=args.destination,
                    source=args.source,
                    routing_key=args.routing_key,
                    arguments=arguments,
                )
                exchange_method.on_bind(one, channel, exchange_bind)

        return await act_as(self.node, args.user, args.vhost, act)

    async def unbind(self, view: NodeView, args: BindArgs) -> Done:
        arguments = _table(args.arguments)

        def act(one: Connection, channel: Channel) -> None:
            if args.kind == "queue":
                queue_unbind = QueueUnbind(
                    queue=args.destination,
                    exchange=args.source,
                    routing_key=args.routing_key,
                    arguments=arguments,
                )
                queue_method.on_unbind(one, channel, queue_unbind)
            else:
                exchange_unbind = ExchangeUnbind(
                    destination=args.destination,
                    source=args.source,
                    routing_key=args.routing_key,
                    arguments=arguments,
                )
                exchange_method.on_unbind(one, channel, exchange_unbind)

        return await act_as(self.node, args.user, args.vhost, act)


def _table(given: dict[str, object]) -> Table:
    try:
        return table(given)
    except (TypeError, ValueError, OverflowError) as failure:
        raise ControlError(Code.BAD_ARGUMENTS, f"arguments: {failure}") from None


def commands(node: "Node") -> Iterator[Command]:
    made = _Objects(node)
    yield command("declare_queue", "Make a queue.", DeclareArgs, Done, made.declare_queue)
    yield command(
        "declare_exchange", "Make an exchange.", DeclareExchangeArgs, Done, made.declare_exchange
    )
    yield command("remove_queue", "Delete a queue as a user.", DeleteArgs, Done, made.remove_queue)
    yield command(
        "remove_exchange", "Delete an exchange as a user.", DeleteArgs, Done, made.remove_exchange
    )
    yield command("empty_queue", "Purge a queue as a user.", ObjectArgs, Done, made.empty_queue)
    yield command("bind", "Make a binding.", BindArgs, Done, made.bind)
    yield command("unbind", "Delete a binding.", BindArgs, Done, made.unbind)
