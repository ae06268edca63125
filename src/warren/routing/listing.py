"""Bindings as people see them, those of the default exchange included (XC-2).

Not on any message's path, so not compiled. A whole vhost is listed through `BindingScan` in
slices, because it may have a million bindings; what changes meanwhile may or may not be seen,
but nothing is listed twice and nothing that was there all the time is missed.
"""

from dataclasses import dataclass
from typing import Final

from warren.protocol.value import Table
from warren.routing.node import NO_ARGUMENTS, Binding, Node, Sink
from warren.routing.table import RoutingTable

SCAN_SLICE: Final = 1000


@dataclass(slots=True, frozen=True)
class BindingRow:
    """One binding; `source` is empty for the implicit one of a queue."""

    source: str
    destination: str
    to_queue: bool
    key: str
    arguments: Table


def bindings_from(table: RoutingTable, name: str) -> list[BindingRow]:
    """Return the bindings whose source is this exchange."""
    if not name:
        return [_implicit(sink) for sink in table.sinks.values()]
    exchange = table.exchanges.get(name)
    if exchange is None:
        return []
    return [_row(binding) for binding in exchange.bindings if binding.destination.alive]


def bindings_to_queue(table: RoutingTable, name: str) -> list[BindingRow]:
    """Return the bindings of a queue, the implicit one first."""
    sink = table.sinks.get(name)
    if sink is None:
        return []
    return [_implicit(sink), *_rows_into(sink)]


def bindings_to_exchange(table: RoutingTable, name: str) -> list[BindingRow]:
    """Return the bindings whose destination is this exchange."""
    exchange = table.exchanges.get(name)
    return [] if exchange is None else _rows_into(exchange)


def bindings_between(
    table: RoutingTable, source: str, destination: str, *, to_queue: bool
) -> list[BindingRow]:
    """Return the bindings of one pair; there may be several (XC-8)."""
    find = bindings_to_queue if to_queue else bindings_to_exchange
    return [row for row in find(table, destination) if row.source == source]


class BindingScan:
    """All bindings of a vhost, destination by destination, slice by slice."""

    def __init__(self, table: RoutingTable) -> None:
        self._nodes: list[Node] = [*table.sinks.values(), *table.exchanges.values()]
        self._nodes.reverse()
        # What is left of the destination begun.
        self._bindings: list[Binding] = []

    def step(self, limit: int = SCAN_SLICE) -> list[BindingRow]:
        """Return up to `limit` more bindings; none when there are no more."""
        rows: list[BindingRow] = []
        while len(rows) < limit:
            if self._bindings:
                binding = self._bindings.pop()
                if binding.source.alive and binding.destination.alive:
                    rows.append(_row(binding))
                continue
            if not self._nodes:
                break
            node = self._nodes.pop()
            if node.alive:
                self._bindings = _into(node)
                if isinstance(node, Sink):
                    rows.append(_implicit(node))
        return rows


def _into(node: Node) -> list[Binding]:
    found: list[Binding] = []
    binding = node.into
    while binding is not None:
        found.append(binding)
        binding = binding.into_next
    return found


def _rows_into(node: Node) -> list[BindingRow]:
    rows = [_row(binding) for binding in _into(node) if binding.source.alive]
    rows.reverse()
    return rows


def _row(binding: Binding) -> BindingRow:
    destination = binding.destination
    return BindingRow(
        source=binding.source.name,
        destination=destination.name,
        to_queue=destination.is_queue,
        key=binding.key.decode("utf-8", "backslashreplace"),
        arguments=binding.arguments,
    )


def _implicit(sink: Sink) -> BindingRow:
    return BindingRow("", sink.name, True, sink.name, NO_ARGUMENTS)
