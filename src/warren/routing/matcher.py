"""What an exchange type is: a `Matcher`, one per exchange, that finds the matching bindings.

A type is one subclass of `Matcher` and one line in `kinds.py`; the walk through exchanges, the
alternate exchanges, duplicates, deletion and listing do not know the types. An instance owns its
index over its exchange's bindings and nothing else: the bindings themselves are the table's.

Contract: `add` and `remove` see each binding once, `remove` never one that was not added;
`match` enters the destination of every matching binding into `reach`, as often as it likes, dead
ones included: `Reach` leaves them out, but a type that chooses among its bindings has to pass
over dead destinations itself. `match` costs what matches, not what is bound. A type that keeps
messages enters its own sink, which is not in any binding.
"""

from warren.protocol.value import Table
from warren.routing.node import Binding, Reach, Sink


class Matcher:
    """The index of one exchange's bindings, and the rule of its type."""

    def __init__(self) -> None:
        # Whether `match` looks at the headers; if not, callers need not decode them.
        self.uses_headers: bool = False
        # Whether messages with equal keys may be routed differently, by the type's own choice or
        # by the properties in `reach.props`: such a route must not be cached.
        self.volatile: bool = False
        # What messages pass through that the exchange itself keeps; its target is the keeper's.
        self.own: Sink | None = None

    def check(self, key: bytes, arguments: Table) -> None:
        """Raise `AmqpError` when a binding with these would be invalid for this type."""

    def add(self, binding: Binding) -> None:
        raise NotImplementedError

    def remove(self, binding: Binding) -> None:
        raise NotImplementedError

    def match(
        self, key: bytes, extra_keys: list[bytes] | None, headers: Table | None, reach: Reach
    ) -> None:
        """Enter what a message with these routing keys (PB-4: key, then CC and BCC) matches."""
        raise NotImplementedError
