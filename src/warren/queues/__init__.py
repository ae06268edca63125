"""Queues: ready and unacknowledged messages, consumers, prefetch, and who gets what next.

Must never know exchanges, sessions or sockets; deliveries leave through `Outlet`.
Start reading at `queue.py`, then `consumer.py` and `unacked.py`.
"""

from warren.queues.confirm import ConfirmLedger
from warren.queues.consumer import Consumer
from warren.queues.message import Message, compose_tail
from warren.queues.outlet import Outlet
from warren.queues.queue import Queue
from warren.queues.ref import HELD, PENDING, REFUSED, TAKEN, QueueRef
from warren.queues.turn import Turn
from warren.queues.unacked import Delivery, Unacked

__all__ = [
    "HELD",
    "PENDING",
    "REFUSED",
    "TAKEN",
    "ConfirmLedger",
    "Consumer",
    "Delivery",
    "Message",
    "Outlet",
    "Queue",
    "QueueRef",
    "Turn",
    "Unacked",
    "compose_tail",
]
