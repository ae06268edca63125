"""The exchange types: name -> matcher. A new type is a `Matcher` and a line in `new_matcher`.

A stored exchange may have a type that this broker no longer offers. It is kept, can be listed and
deleted, and refuses to route (spec section 4).
"""

from typing import Final, final

from warren.core import AmqpError
from warren.core.reply import COMMAND_INVALID, PRECONDITION_FAILED
from warren.protocol.value import Table
from warren.routing.chance import RandomChoice
from warren.routing.delayed import DELAYED_MESSAGE, DelayedMessage, delayed_type
from warren.routing.direct import Direct, Fanout
from warren.routing.hashing import ConsistentHash, ModulusHash
from warren.routing.headers import Headers
from warren.routing.keeper import ExchangeKeeper
from warren.routing.matcher import Matcher
from warren.routing.node import Binding, Reach
from warren.routing.recent import RecentHistory
from warren.routing.topic import Topic

KINDS: Final[tuple[str, ...]] = (
    "direct",
    "fanout",
    "headers",
    "topic",
    "x-consistent-hash",
    DELAYED_MESSAGE,
    "x-modulus-hash",
    "x-random",
    "x-recent-history",
)


def check_kind(kind: str) -> None:
    """Refuse an exchange type that does not exist; 503 closes the connection."""
    if kind not in KINDS:
        raise AmqpError(COMMAND_INVALID, f"unknown exchange type '{kind}'")


def new_matcher(kind: str, arguments: Table, keeper: ExchangeKeeper) -> Matcher:
    """Return an empty matcher for an exchange of this type; refuse arguments it cannot have."""
    if kind == "direct":
        return Direct()
    if kind == "fanout":
        return Fanout()
    if kind == "topic":
        return Topic()
    if kind == "headers":
        return Headers()
    if kind == "x-consistent-hash":
        return ConsistentHash(arguments)
    if kind == "x-modulus-hash":
        return ModulusHash()
    if kind == "x-random":
        return RandomChoice(keeper.seed())
    if kind == "x-recent-history":
        return RecentHistory(arguments)
    if kind == DELAYED_MESSAGE:
        inner = delayed_type(arguments)
        return DelayedMessage(inner, new_matcher(inner, arguments, keeper), keeper)
    raise AmqpError(COMMAND_INVALID, f"unknown exchange type '{kind}'")


@final
class GoneKind(Matcher):
    """Stands for a type that is not there any more."""

    def __init__(self, kind: str, label: str) -> None:
        super().__init__()
        self.kind: str = kind
        self.label: str = label

    def add(self, binding: Binding) -> None:
        pass

    def remove(self, binding: Binding) -> None:
        pass

    def match(
        self, key: bytes, extra_keys: list[bytes] | None, headers: Table | None, reach: Reach
    ) -> None:
        detail = f"Cannot route message through {self.label}: exchange type {self.kind} not found"
        raise AmqpError(PRECONDITION_FAILED, detail)
