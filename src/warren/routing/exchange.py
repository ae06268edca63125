"""An exchange: its properties, its bindings by identity, and the index of its type.

`bindings` holds the bindings from it, each found by its identity (XC-8); it is the only owner of
them. `links` counts the bindings to each exchange, so that questions about reachable exchanges do
not look at bindings to queues. `alternate` is the effective alternate exchange: the argument,
else the policy's (PO-5).
"""

from typing import final

from mypy_extensions import i64

from warren.protocol.value import Table
from warren.routing.matcher import Matcher
from warren.routing.node import Binding, Node


@final
class Exchange(Node):
    def __init__(
        self,
        name: str,
        kind: str,
        matcher: Matcher,
        *,
        durable: bool,
        auto_delete: bool,
        internal: bool,
        arguments: Table,
        alternate_argument: str | None,
    ) -> None:
        super().__init__(name, False)
        self.kind: str = kind
        self.matcher: Matcher = matcher
        self.durable: bool = durable
        self.auto_delete: bool = auto_delete
        self.internal: bool = internal
        self.arguments: Table = arguments
        self.alternate_argument: str | None = alternate_argument
        self.alternate: str | None = alternate_argument
        # What is in force here; whoever sets `alternate` notes it, nobody looks at it here.
        self.policy: object | None = None
        self.bindings: dict[Binding, Binding] = {}
        self.links: dict[Exchange, int] = {}
        # What the table has found out about the exchanges reachable from here, and when.
        self.traits_shape: i64 = -1
        self.traits_headers: bool = False
        self.traits_volatile: bool = False

    def is_plain(self) -> bool:
        """Tell whether a message can go from here to queues only."""
        return self.alternate is None and not self.links

    def link(self, destination: "Exchange") -> None:
        self.links[destination] = self.links.get(destination, 0) + 1

    def unlink(self, destination: "Exchange") -> None:
        count = self.links[destination] - 1
        if count:
            self.links[destination] = count
        else:
            del self.links[destination]

    def has_live_bindings(self) -> bool:
        """Tell whether there is a binding from here whose destination still exists.

        Passes over at most the bindings that the sweep has still to remove.
        """
        return any(binding.destination.alive for binding in self.bindings)
