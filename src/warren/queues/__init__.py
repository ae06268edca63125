"""Queues: ready and unacknowledged messages, consumers, prefetch, and who gets what next.

Must never know exchanges, sessions or sockets; deliveries leave through `Outlet`.
Start reading at `queue.py`, then `consumer.py` and `unacked.py`.
"""

from warren.queues.confirm import ConfirmLedger
from warren.queues.consumer import Consumer
from warren.queues.keeper import QueueKeeper
from warren.queues.message import Message, compose_tail
from warren.queues.outlet import Outlet
from warren.queues.queue import Queue
from warren.queues.ref import HELD, PENDING, REFUSED, TAKEN, QueueRef
from warren.queues.rules import NO_RULES, QueueRules
from warren.queues.timer import Timer, Timers
from warren.queues.turn import Turn
from warren.queues.unacked import Delivery, Unacked

__all__ = [
    "HELD",
    "NO_RULES",
    "PENDING",
    "REFUSED",
    "TAKEN",
    "ConfirmLedger",
    "Consumer",
    "Delivery",
    "Message",
    "Outlet",
    "Queue",
    "QueueKeeper",
    "QueueRef",
    "QueueRules",
    "Timer",
    "Timers",
    "Turn",
    "Unacked",
    "compose_tail",
]
