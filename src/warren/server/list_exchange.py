"""What can be listed of exchanges and bindings: the columns, in RabbitMQ's words."""

from typing import Final

from warren.routing import Exchange
from warren.routing.listing import BindingRow
from warren.server.list_cell import Cell, typed_table
from warren.vhost.delayed_exchange import delayed_of
from warren.vhost.policy_force import in_force


def _delayed(exchange: Exchange) -> int | None:
    delayed = delayed_of(exchange)
    return None if delayed is None else int(delayed.held.count)


EXCHANGE_CELLS: Final[dict[str, Cell[Exchange]]] = {
    "name": lambda one: one.name,
    "type": lambda one: one.kind,
    "durable": lambda one: one.durable,
    "auto_delete": lambda one: one.auto_delete,
    "internal": lambda one: one.internal,
    "arguments": lambda one: typed_table(one.arguments),
    "policy": lambda one: in_force(one).policy or None,
    # None for types that delay nothing.
    "messages_delayed": _delayed,
}

BINDING_CELLS: Final[dict[str, Cell[BindingRow]]] = {
    "source_name": lambda one: one.source,
    "source_kind": lambda one: "exchange",
    "destination_name": lambda one: one.destination,
    "destination_kind": lambda one: "queue" if one.to_queue else "exchange",
    "routing_key": lambda one: one.key,
    "arguments": lambda one: typed_table(one.arguments),
}
