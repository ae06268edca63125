"""What a routing table asks of its surroundings: randomness, and who keeps messages for exchanges.

Some exchange types keep messages: they have a sink of their own (`Matcher.own`), through which
messages pass like into a queue. What stands behind that sink, when bindings come and when the
exchange goes is the business of an `ExchangeKeeper`; the table tells it, and knows no more.
"""

from typing import TYPE_CHECKING

from mypy_extensions import i64, mypyc_attr

if TYPE_CHECKING:
    from warren.routing.exchange import Exchange
    from warren.routing.node import Binding


@mypyc_attr(allow_interpreted_subclasses=True)
class ExchangeKeeper:
    """Keeps nothing; for tables without a broker."""

    def seed(self) -> int:
        """Return 32 random bits for an exchange that chooses at random."""
        return 0x9E3779B9

    def wall_ms(self) -> i64:
        """Return the time of day, for messages that are to be delivered at a point in time."""
        return 0

    def target_for(self, exchange: "Exchange") -> object | None:
        """Return what stands behind the sink of a new exchange."""
        return None

    def bound(self, exchange: "Exchange", binding: "Binding") -> None:
        """A binding from an exchange with a sink of its own has been made."""

    def gone(self, exchange: "Exchange") -> None:
        """An exchange with a sink of its own is no more."""
