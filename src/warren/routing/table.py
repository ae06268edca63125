"""The routing table of a vhost: exchanges, sinks, bindings, and the route of a message.

Follows XC-1 to XC-9 and EE-1, EE-2 of the behaviour specification. Life of the two things:

- **A change** (declare, bind, a queue's coming or going, ...) takes effect at once and raises
  `version`; a route computed at one version is valid as long as `version` is the same. A
  destination that goes is dead at once; its bindings, and the auto-deleted exchanges that lose
  their last binding with it (XC-5), are removed by `sweep` in bounded slices. Whoever removed
  something calls `sweep` once at once, which finishes all but the rare large removals, and again
  in later turns until it says `done`.
- **A route** starts at one exchange. What its matcher enters into `reach` is the answer, unless
  that contains exchanges or is nothing at all: then the walk goes on through the exchanges
  reached, each once, and through the alternate exchange of each that had no destination.

Invariants: a binding is in its source's `bindings`, its destination's `into` chain and its
source's matcher, or in none of them. Only nodes in `dying` are dead and still bound.
`reach` is shared by all routes, so a route must not be computed while another one is; removing
a queue empties it, so that it does not keep the queue in memory.
"""

from typing import Final, cast, final

from mypy_extensions import i64

from warren.core import invariant
from warren.protocol.value import Table
from warren.routing.direct import ByQueueName
from warren.routing.exchange import Exchange
from warren.routing.keeper import ExchangeKeeper
from warren.routing.kinds import KINDS, GoneKind, check_kind, new_matcher
from warren.routing.node import NO_ARGUMENTS, Binding, Node, Reach, Sink
from warren.routing.refusal import (
    alternate_of,
    check_equivalent,
    check_not_default,
    check_unused,
    exchange_label,
    no_exchange,
    no_queue,
)

# What a caller removes in one go: one to three milliseconds compiled, two to four times that not.
SWEEP_SLICE: Final = 1000

_PREDECLARED: Final[tuple[tuple[str, str, bool], ...]] = (
    ("amq.direct", "direct", False),
    ("amq.fanout", "fanout", False),
    ("amq.topic", "topic", False),
    ("amq.headers", "headers", False),
    ("amq.match", "headers", False),
    ("amq.rabbitmq.trace", "topic", True),
)


@final
class Swept:
    """What one slice of the sweep removed. `bindings` includes those of exchanges."""

    def __init__(self) -> None:
        self.done: bool = True
        self.bindings: list[Binding] = []
        # Exchanges that were deleted because their last binding went (XC-5).
        self.exchanges: list[Exchange] = []


@final
class RoutingTable:
    def __init__(self, vhost: str, keeper: ExchangeKeeper | None = None) -> None:
        self.vhost: str = vhost
        self.keeper: ExchangeKeeper = ExchangeKeeper() if keeper is None else keeper
        # Rises with every change that may alter a route.
        self.version: i64 = 0
        # Rises with the changes that may alter which exchanges are reachable from which.
        self.shape: i64 = 0
        self.exchanges: dict[str, Exchange] = {}
        self.exchanges_by_key: dict[bytes, Exchange] = {}
        self.sinks: dict[str, Sink] = {}
        self.sinks_by_key: dict[bytes, Sink] = {}
        # Dead nodes that still have bindings; the last one is swept first, so that a small
        # removal never waits for a large one.
        self.dying: list[Node] = []
        self.auto_deleted: list[Exchange] = []
        self.reach: Reach = Reach()
        self._admit(
            Exchange(
                "",
                "direct",
                ByQueueName(self.sinks_by_key),
                durable=True,
                auto_delete=False,
                internal=False,
                arguments=NO_ARGUMENTS,
                alternate_argument=None,
            )
        )

    # --- queues ----------------------------------------------------------------------------------

    def add_queue(self, name: str, target: object) -> Sink:
        """Make a queue a destination; it is bound to the default exchange by its name (XC-2)."""
        invariant(name not in self.sinks, "a queue has one sink")
        sink = Sink(name, target)
        self.sinks[name] = sink
        self.sinks_by_key[sink.key] = sink
        self.version += 1
        return sink

    def remove_queue(self, sink: Sink) -> None:
        """Route nothing to this queue from now on; its bindings go with the sweep."""
        if not sink.alive:
            return
        sink.alive = False
        del self.sinks[sink.name]
        del self.sinks_by_key[sink.key]
        self.reach.begin()
        self.version += 1
        if sink.into is not None:
            self.dying.append(sink)

    # --- exchanges -------------------------------------------------------------------------------

    def exchange(self, name: str) -> Exchange:
        """Return an exchange, or refuse with 404."""
        found = self.exchanges.get(name)
        if found is None:
            raise no_exchange(name, self.vhost)
        return found

    def exchange_by_key(self, key: bytes) -> Exchange | None:
        """Return the exchange whose name is encoded like this."""
        return self.exchanges_by_key.get(key)

    def declare_exchange(
        self,
        name: str,
        kind: str,
        *,
        durable: bool = False,
        auto_delete: bool = False,
        internal: bool = False,
        arguments: Table | None = None,
    ) -> Exchange:
        """Return the exchange with this name: the equivalent one that exists, or a new one (XC-3).

        The reserved prefix is not checked here: predeclared exchanges come this way.
        """
        check_kind(kind)
        check_not_default(name)
        wanted = arguments or NO_ARGUMENTS
        existing = self.exchanges.get(name)
        if existing is not None:
            check_equivalent(
                existing,
                self.vhost,
                kind=kind,
                durable=durable,
                auto_delete=auto_delete,
                internal=internal,
                arguments=wanted,
            )
            return existing
        made = Exchange(
            name,
            kind,
            new_matcher(kind, wanted, self.keeper),
            durable=durable,
            auto_delete=auto_delete,
            internal=internal,
            arguments=wanted,
            alternate_argument=alternate_of(wanted, name, self.vhost),
        )
        self._admit(made)
        return made

    def restore_exchange(
        self, name: str, kind: str, *, auto_delete: bool, internal: bool, arguments: Table
    ) -> Exchange:
        """Bring a durable exchange back from storage, even one whose type is gone (XC-7)."""
        if kind in KINDS:
            return self.declare_exchange(
                name,
                kind,
                durable=True,
                auto_delete=auto_delete,
                internal=internal,
                arguments=arguments,
            )
        made = Exchange(
            name,
            kind,
            GoneKind(kind, exchange_label(name, self.vhost)),
            durable=True,
            auto_delete=auto_delete,
            internal=internal,
            arguments=arguments,
            alternate_argument=alternate_of(arguments, name, self.vhost),
        )
        self._admit(made)
        return made

    def set_policy_alternate(self, exchange: Exchange, name: str | None) -> None:
        """Take over the alternate exchange of the policy in force; an argument wins (PO-5)."""
        wanted = name if exchange.alternate_argument is None else exchange.alternate_argument
        # The default exchange has no alternate exchange.
        if wanted == exchange.alternate or not exchange.name:
            return
        exchange.alternate = wanted
        self.version += 1
        self.shape += 1

    def delete_exchange(self, name: str, *, if_unused: bool = False) -> bool:
        """Delete an exchange; False if there is none. Its bindings go with the sweep (XC-6)."""
        check_not_default(name)
        found = self.exchanges.get(name)
        if found is None:
            return False
        if if_unused:
            check_unused(found, self.vhost)
        self._expel(found)
        return True

    def _admit(self, made: Exchange) -> None:
        own = made.matcher.own
        if own is not None:
            own.target = self.keeper.target_for(made)
        self.exchanges[made.name] = made
        self.exchanges_by_key[made.key] = made
        self.version += 1
        self.shape += 1

    def _expel(self, exchange: Exchange) -> None:
        exchange.alive = False
        del self.exchanges[exchange.name]
        del self.exchanges_by_key[exchange.key]
        self.version += 1
        self.shape += 1
        if exchange.into is not None or exchange.bindings:
            self.dying.append(exchange)
        own = exchange.matcher.own
        if own is not None:
            own.alive = False
            self.reach.begin()
            self.keeper.gone(exchange)

    # --- bindings --------------------------------------------------------------------------------

    def bind(
        self, source: str, destination: str, key: bytes, arguments: Table, *, to_queue: bool
    ) -> bool:
        """Bind a queue or an exchange to an exchange; False if this binding exists (XC-8)."""
        self._check_ends(source, destination, to_queue)
        origin = self.exchange(source)
        node = self._destination(destination, to_queue)
        if node is None:
            if to_queue:
                raise no_queue(destination, self.vhost)
            raise no_exchange(destination, self.vhost)
        origin.matcher.check(key, arguments)
        binding = Binding(origin, node, key, arguments)
        if binding in origin.bindings:
            return False
        origin.bindings[binding] = binding
        node.attach(binding)
        origin.matcher.add(binding)
        if not to_queue:
            origin.link(cast("Exchange", node))
            self.shape += 1
        self.version += 1
        if origin.matcher.own is not None:
            self.keeper.bound(origin, binding)
        return True

    def bound(
        self, source: str, destination: str, key: bytes, arguments: Table, *, to_queue: bool
    ) -> bool:
        """Tell whether this very binding exists."""
        origin = self.exchanges.get(source)
        node = self._destination(destination, to_queue)
        if origin is None or node is None:
            return False
        return Binding(origin, node, key, arguments) in origin.bindings

    def unbind(
        self, source: str, destination: str, key: bytes, arguments: Table, *, to_queue: bool
    ) -> bool:
        """Remove a binding; False if it, or one of its ends, does not exist (spec 3.3)."""
        self._check_ends(source, destination, to_queue)
        origin = self.exchanges.get(source)
        node = self._destination(destination, to_queue)
        if origin is None or node is None:
            return False
        binding = origin.bindings.get(Binding(origin, node, key, arguments))
        if binding is None:
            return False
        self._drop(binding)
        self.version += 1
        return True

    def _check_ends(self, source: str, destination: str, to_queue: bool) -> None:
        """Refuse bindings of the default exchange, whether the other end exists or not (XC-2)."""
        check_not_default(source)
        if not to_queue:
            check_not_default(destination)

    def _destination(self, name: str, to_queue: bool) -> Node | None:
        return self.sinks.get(name) if to_queue else self.exchanges.get(name)

    def _drop(self, binding: Binding) -> None:
        """Remove a binding from everywhere, and its source with its last binding (XC-5)."""
        source = cast("Exchange", binding.source)
        destination = binding.destination
        source.bindings.pop(binding, None)
        source.matcher.remove(binding)
        destination.detach(binding)
        if not destination.is_queue:
            source.unlink(cast("Exchange", destination))
            self.shape += 1
        if source.alive and source.auto_delete and not source.bindings:
            self._expel(source)
            self.auto_deleted.append(source)

    def sweep(self, limit: i64 = SWEEP_SLICE) -> Swept:
        """Remove up to `limit` bindings of what has been deleted, and report what went."""
        swept = Swept()
        count: i64 = 0
        while self.dying and count < limit:
            node = self.dying[-1]
            binding = node.into
            if binding is None and not node.is_queue:
                bindings = cast("Exchange", node).bindings
                if bindings:
                    binding = bindings.popitem()[1]
            if binding is None:
                self.dying.pop()
                continue
            self._drop(binding)
            swept.bindings.append(binding)
            count += 1
        swept.exchanges = self.auto_deleted
        self.auto_deleted = []
        swept.done = not self.dying
        return swept

    # --- routes ----------------------------------------------------------------------------------

    def route(
        self,
        exchange: Exchange,
        key: bytes,
        extra_keys: list[bytes] | None,
        headers: Table | None,
        props: bytes = b"",
    ) -> list[Sink]:
        """Return the queues a message goes to, each once (XC-8), in the order they were found."""
        reach = self.reach
        reach.begin()
        reach.props = props
        exchange.mark = reach.serial
        exchange.matcher.match(key, extra_keys, headers, reach)
        if not reach.exchanges and (reach.found or exchange.alternate is None):
            return reach.sinks
        walked: i64 = 0
        if not reach.found:
            self._enter_alternate(exchange)
        while walked < len(reach.exchanges):
            following = cast("Exchange", reach.exchanges[walked])
            walked += 1
            reach.found = False
            following.matcher.match(key, extra_keys, headers, reach)
            if not reach.found:
                self._enter_alternate(following)
        return reach.sinks

    def _enter_alternate(self, exchange: Exchange) -> None:
        if exchange.alternate is not None:
            alternate = self.exchanges.get(exchange.alternate)
            if alternate is not None:
                self.reach.enter(alternate)

    def needs_headers(self, exchange: Exchange) -> bool:
        """Tell whether a route from here may depend on the message's headers."""
        if exchange.is_plain():
            return exchange.matcher.uses_headers
        if exchange.traits_shape != self.shape:
            self._find_traits(exchange)
        return exchange.traits_headers

    def is_volatile(self, exchange: Exchange) -> bool:
        """Tell whether equal messages may take different routes from here: do not cache one."""
        if exchange.is_plain():
            return exchange.matcher.volatile
        if exchange.traits_shape != self.shape:
            self._find_traits(exchange)
        return exchange.traits_volatile

    def _find_traits(self, exchange: Exchange) -> None:
        """Look at every exchange that a message may reach from this one."""
        reach = self.reach
        reach.begin()
        reach.enter(exchange)
        headers = False
        volatile = False
        walked: i64 = 0
        while walked < len(reach.exchanges):
            following = cast("Exchange", reach.exchanges[walked])
            walked += 1
            headers = headers or following.matcher.uses_headers
            volatile = volatile or following.matcher.volatile
            for linked in following.links:
                reach.enter(linked)
            self._enter_alternate(following)
        exchange.traits_shape = self.shape
        exchange.traits_headers = headers
        exchange.traits_volatile = volatile


def predeclare(table: RoutingTable) -> None:
    """Declare the exchanges that every vhost has (XC-1); the default one is always there."""
    for name, kind, internal in _PREDECLARED:
        table.declare_exchange(name, kind, durable=True, internal=internal)
