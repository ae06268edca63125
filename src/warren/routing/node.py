"""The vocabulary of the binding graph: nodes, sinks, bindings, chains, and what a message reached.

A `Node` is an end of bindings: a `Sink` stands for one incarnation of a queue, an exchange is the
other kind (`exchange.py`). A dead node stays linked until the sweep has removed its bindings, but
nothing is ever routed to it and no binding of it is counted or listed.

Every binding is linked three times, each link removable in O(1):
- in its source's `bindings`, which finds it by its identity (XC-8: source, destination, routing
  key, arguments as a set);
- in its destination's `into` chain, for deletion in bounded slices and for listing;
- where its source's matcher put it, often a chain of its peers with the same key.

Invariants: a node has one mark, and a mark equal to the current serial of its table's `Reach`
means that this message has been there (XC-8, EE-1). A node belongs to one table.
"""

from typing import Final, cast, final

from mypy_extensions import i64

from warren.protocol.table import encode_table
from warren.protocol.value import Table, sorted_table

NO_ARGUMENTS: Final[Table] = {}


class Node:
    """An end of bindings: a queue's sink or an exchange."""

    def __init__(self, name: str, is_queue: bool) -> None:
        self.name: str = name
        self.key: bytes = name.encode()
        self.is_queue: bool = is_queue
        self.alive: bool = True
        self.mark: i64 = 0
        self.into: Binding | None = None
        self.into_count: i64 = 0

    def attach(self, binding: "Binding") -> None:
        """Link a binding whose destination this is."""
        head = self.into
        binding.into_next = head
        if head is not None:
            head.into_previous = binding
        self.into = binding
        self.into_count += 1

    def detach(self, binding: "Binding") -> None:
        following = binding.into_next
        previous = binding.into_previous
        if previous is None:
            self.into = following
        else:
            previous.into_next = following
        if following is not None:
            following.into_previous = previous
        binding.into_next = None
        binding.into_previous = None
        self.into_count -= 1


@final
class Sink(Node):
    """One incarnation of a queue as routing sees it; `target` is the queue itself."""

    def __init__(self, name: str, target: object) -> None:
        super().__init__(name, True)
        self.target: object = target


@final
class Binding:
    """An edge of the graph. `note` is the source's matcher's own; nobody else looks at it."""

    def __init__(self, source: Node, destination: Node, key: bytes, arguments: Table) -> None:
        self.source: Node = source
        self.destination: Node = destination
        self.key: bytes = key
        self.arguments: Table = arguments or NO_ARGUMENTS
        # The arguments as a set: their encoding in the order of their names.
        self.code: bytes = encode_table(sorted_table(arguments)) if arguments else b""
        self.digest: i64 = hash((destination.key, key, self.code))
        self.into_next: Binding | None = None
        self.into_previous: Binding | None = None
        self.peer_next: Binding | None = None
        self.peer_previous: Binding | None = None
        self.note: object | None = None

    def __hash__(self) -> int:
        return int(self.digest)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Binding)
            and self.destination is other.destination
            and self.key == other.key
            and self.code == other.code
            and self.source is other.source
        )


def with_peer(head: Binding | None, binding: Binding) -> Binding:
    """Put a binding in front of a chain of peers; the new head is returned."""
    binding.peer_next = head
    if head is not None:
        head.peer_previous = binding
    return binding


def without_peer(head: Binding | None, binding: Binding) -> Binding | None:
    """Take a binding out of the chain that begins with `head`; the new head is returned."""
    following = binding.peer_next
    previous = binding.peer_previous
    if following is not None:
        following.peer_previous = previous
    if previous is not None:
        previous.peer_next = following
    binding.peer_next = None
    binding.peer_previous = None
    return following if previous is None else head


@final
class Reach:
    """What one message has reached: live sinks and exchanges, each once, in the order found.

    `found` tells whether the exchange being matched has any destination, reached before or not:
    that, and not a new destination, is what keeps its alternate exchange out (EE-2).
    `props` are the message's properties, for types that look at them; empty when unknown.
    `refusal` is what is wrong with them for a delay (`protocol.delay`), 0 when nothing is.
    """

    def __init__(self) -> None:
        self.serial: i64 = 0
        self.found: bool = False
        self.sinks: list[Sink] = []
        self.exchanges: list[Node] = []
        self.props: bytes = b""
        self.refusal: i64 = 0

    def begin(self) -> None:
        self.serial += 1
        self.found = False
        self.props = b""
        self.refusal = 0
        self.sinks = []
        if self.exchanges:
            self.exchanges = []

    def enter(self, node: Node) -> None:
        if not node.alive:
            return
        self.found = True
        if node.mark == self.serial:
            return
        node.mark = self.serial
        if node.is_queue:
            self.sinks.append(cast("Sink", node))
        else:
            self.exchanges.append(node)

    def witness(self, sink: Sink) -> None:
        """Enter a sink that gets the message too, but is no destination (EE-2, PB-3)."""
        if sink.alive and sink.mark != self.serial:
            sink.mark = self.serial
            self.sinks.append(sink)

    def enter_chain(self, head: Binding | None) -> None:
        """Enter the destinations of a chain of peers."""
        binding = head
        while binding is not None:
            self.enter(binding.destination)
            binding = binding.peer_next
