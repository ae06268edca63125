"""Exchange types direct and fanout, and the rule of the default exchange (XC-2).

Direct: one dict lookup per routing key. `KeyIndex` is that dict; topic exchanges use it too, for
patterns without wildcards. Fanout: one chain of all bindings. The default exchange has no
bindings of its own: every queue is found under its name in the table's own dict of sinks.
"""

from typing import final

from warren.protocol.value import Table
from warren.routing.matcher import Matcher
from warren.routing.node import Binding, Reach, Sink, with_peer, without_peer


@final
class KeyIndex:
    """Routing key -> chain of the bindings with exactly this key."""

    def __init__(self) -> None:
        self.chains: dict[bytes, Binding] = {}

    def add(self, binding: Binding) -> None:
        key = binding.key
        self.chains[key] = with_peer(self.chains.get(key), binding)

    def remove(self, binding: Binding) -> None:
        key = binding.key
        head = without_peer(self.chains[key], binding)
        if head is None:
            del self.chains[key]
        else:
            self.chains[key] = head


@final
class Direct(Matcher):
    """Some routing key equals the binding key."""

    def __init__(self) -> None:
        super().__init__()
        self.index: KeyIndex = KeyIndex()

    def add(self, binding: Binding) -> None:
        self.index.add(binding)

    def remove(self, binding: Binding) -> None:
        self.index.remove(binding)

    def match(
        self, key: bytes, extra_keys: list[bytes] | None, headers: Table | None, reach: Reach
    ) -> None:
        chains = self.index.chains
        reach.enter_chain(chains.get(key))
        if extra_keys is not None:
            for extra in extra_keys:
                reach.enter_chain(chains.get(extra))


@final
class Fanout(Matcher):
    """Always; the routing key does not matter."""

    def __init__(self) -> None:
        super().__init__()
        self.head: Binding | None = None

    def add(self, binding: Binding) -> None:
        self.head = with_peer(self.head, binding)

    def remove(self, binding: Binding) -> None:
        self.head = without_peer(self.head, binding)

    def match(
        self, key: bytes, extra_keys: list[bytes] | None, headers: Table | None, reach: Reach
    ) -> None:
        reach.enter_chain(self.head)


@final
class ByQueueName(Matcher):
    """Some routing key is the name of a queue; `sinks` is the table's dict, read only here."""

    def __init__(self, sinks: dict[bytes, Sink]) -> None:
        super().__init__()
        self.sinks: dict[bytes, Sink] = sinks

    def match(
        self, key: bytes, extra_keys: list[bytes] | None, headers: Table | None, reach: Reach
    ) -> None:
        sink = self.sinks.get(key)
        if sink is not None:
            reach.enter(sink)
        if extra_keys is not None:
            for extra in extra_keys:
                sink = self.sinks.get(extra)
                if sink is not None:
                    reach.enter(sink)
