"""Core: reply codes, errors, invariants, and the seam to clock, randomness, disk and network.

Must never import another warren package or touch the machine.
Start reading at `seam.py`, then `errors.py`.
"""

from warren.core.errors import AmqpError, InvariantError, invariant
from warren.core.seam import Clock, Random

__all__ = ["AmqpError", "Clock", "InvariantError", "Random", "invariant"]
