"""Runtime: the real machine behind `warren.core.seam`: clock, randomness, process, locks, sockets.

The only package that touches the machine; must never know AMQP.
Start reading at `clock.py`.
"""

from warren.runtime.clock import SystemClock
from warren.runtime.random_source import SystemRandom

__all__ = ["SystemClock", "SystemRandom"]
