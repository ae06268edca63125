"""Exchange type x-recent-history: as fanout, and the last messages go to whoever binds later.

The matcher only sees to it that every message passes by the exchange's own sink; what is behind it
keeps the messages (`ExchangeKeeper`). It is a witness, no destination: a message that nobody but
it got is unroutable.
"""

from typing import Final, final

from warren.core import AmqpError
from warren.core.reply import PRECONDITION_FAILED
from warren.protocol.value import Table, is_integer, term_text
from warren.routing.direct import Fanout
from warren.routing.matcher import Matcher
from warren.routing.node import Binding, Reach, Sink

LENGTH_ARGUMENT: Final = "x-recent-history-length"
LENGTH_DEFAULT: Final = 20


def history_length(arguments: Table) -> int:
    """Return how many messages an exchange with these arguments keeps, or refuse them."""
    item = arguments.get(LENGTH_ARGUMENT)
    if item is None:
        return LENGTH_DEFAULT
    value = item.value
    if not is_integer(item) or not isinstance(value, int) or value <= 0:
        detail = (
            f"Invalid argument {term_text(item)}, '{LENGTH_ARGUMENT}' must be a positive integer"
        )
        raise AmqpError(PRECONDITION_FAILED, detail)
    return value


@final
class RecentHistory(Matcher):
    def __init__(self, arguments: Table) -> None:
        super().__init__()
        history_length(arguments)
        self.own = Sink("", None)
        self.every: Fanout = Fanout()

    def add(self, binding: Binding) -> None:
        self.every.add(binding)

    def remove(self, binding: Binding) -> None:
        self.every.remove(binding)

    def match(
        self, key: bytes, extra_keys: list[bytes] | None, headers: Table | None, reach: Reach
    ) -> None:
        own = self.own
        assert own is not None
        reach.enter_chain(self.every.head)
        reach.witness(own)
