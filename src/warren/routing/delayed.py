"""Exchange type x-delayed-message: the type that `x-delayed-type` names, and messages that wait.

A message whose headers ask for a delay is entered into the exchange's own sink, behind which it is
held (`queues.delayed`); all others are matched by the other type at once. When its time has come,
a message is routed here again, with the bindings of that time, while `passing` is set.

Unlike a history the sink is a destination: a message that is held is routed, so it is neither
returned nor given to the alternate exchange, which is asked when the time has come.
"""

from typing import Final, final

from mypy_extensions import i64

from warren.core import AmqpError
from warren.core.reply import PRECONDITION_FAILED
from warren.protocol.delay import delay_of
from warren.protocol.value import Table
from warren.routing.keeper import ExchangeKeeper
from warren.routing.matcher import Matcher
from warren.routing.node import Binding, Reach, Sink

DELAYED_MESSAGE: Final = "x-delayed-message"
TYPE_ARGUMENT: Final = "x-delayed-type"


def delayed_type(arguments: Table) -> str:
    """Return the type that an exchange with these arguments routes by, or refuse them."""
    item = arguments.get(TYPE_ARGUMENT)
    if item is None or not isinstance(item.value, bytes):
        raise _refused(f"'{TYPE_ARGUMENT}' must be an existing exchange type")
    kind = item.value.decode("utf-8", "backslashreplace")
    if kind == DELAYED_MESSAGE:
        raise _refused(f"'{kind}' can't be used for '{TYPE_ARGUMENT}'")
    return kind


def _refused(detail: str) -> AmqpError:
    return AmqpError(PRECONDITION_FAILED, f"Invalid argument, {detail}")


@final
class DelayedMessage(Matcher):
    def __init__(self, kind: str, inner: Matcher, keeper: ExchangeKeeper) -> None:
        super().__init__()
        if inner.own is not None:
            # An exchange has one sink of its own.
            raise _refused(f"'{kind}' can't be used for '{TYPE_ARGUMENT}'")
        self.own = Sink("", None)
        self.volatile = True
        self.uses_headers = inner.uses_headers
        self.inner: Matcher = inner
        self.keeper: ExchangeKeeper = keeper
        # Its messages have waited already.
        self.passing: bool = False

    def check(self, key: bytes, arguments: Table) -> None:
        self.inner.check(key, arguments)

    def add(self, binding: Binding) -> None:
        self.inner.add(binding)

    def remove(self, binding: Binding) -> None:
        self.inner.remove(binding)

    def match(
        self, key: bytes, extra_keys: list[bytes] | None, headers: Table | None, reach: Reach
    ) -> None:
        if not self.passing and reach.props:
            delay: i64 = delay_of(reach.props, self.keeper.wall_ms())
            if delay > 0:
                own = self.own
                assert own is not None
                reach.enter(own)
                return
            if delay < 0:
                # For whoever publishes to refuse; what comes from elsewhere is not lost for it.
                reach.refusal = delay
        self.inner.match(key, extra_keys, headers, reach)
