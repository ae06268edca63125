"""The seam to the machine: what the sans-IO packages may ask for, as Protocols.

`warren.runtime` implements them on the real machine, tests and the simulator on a virtual one.
Sockets and files cross the seam as bytes handed in and out by whoever drives a machine.
"""

from typing import Protocol


class Clock(Protocol):
    """Monotonic time for intervals, wall time for people and for wire timestamps."""

    def monotonic_ns(self) -> int: ...

    def wall_ns(self) -> int: ...


class Random(Protocol):
    """Randomness: salts, generated names, tokens."""

    def octets(self, count: int) -> bytes: ...
