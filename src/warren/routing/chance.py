"""Exchange type x-random: one binding, chosen anew for every message, whatever its routing key.

A destination with several bindings is chosen as often as they are. What a node draws is not
foreseen by clients, but it is no secret either: a seed from `Random` and a cheap generator.
"""

from typing import Final, final

from mypy_extensions import i64, mypyc_attr

from warren.protocol.value import Table
from warren.routing.matcher import Matcher
from warren.routing.node import Binding, Reach

_MASK: Final[i64] = (1 << 32) - 1


@mypyc_attr(acyclic=True)
@final
class Spot:
    """Where a binding lies in the list."""

    def __init__(self, index: i64) -> None:
        self.index: i64 = index


@final
class RandomChoice(Matcher):
    def __init__(self, seed: int) -> None:
        super().__init__()
        self.volatile = True
        self.state: i64 = seed & 0xFFFFFFFF or 1
        self.bindings: list[Binding] = []

    def add(self, binding: Binding) -> None:
        binding.note = Spot(len(self.bindings))
        self.bindings.append(binding)

    def remove(self, binding: Binding) -> None:
        spot = binding.note
        if not isinstance(spot, Spot):
            return
        binding.note = None
        last = self.bindings.pop()
        if last is not binding:
            self.bindings[spot.index] = last
            last.note = spot

    def match(
        self, key: bytes, extra_keys: list[bytes] | None, headers: Table | None, reach: Reach
    ) -> None:
        while self.bindings:
            binding = self.bindings[self._draw(len(self.bindings))]
            if binding.destination.alive:
                reach.enter(binding.destination)
                return
            self.remove(binding)

    def _draw(self, below: i64) -> i64:
        """A number from 0 to below `below` (xorshift with 32 bits of state)."""
        state = self.state
        if below == 1:
            return 0
        state ^= state << 13 & _MASK
        state ^= state >> 17
        state ^= state << 5 & _MASK
        self.state = state
        return state * below >> 32
