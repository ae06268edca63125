"""Flow: credit between components, memory and disk alarms, and the explanation of each wait.

Must never measure memory or disk, read a clock, or know sessions and queues; it is told.
Start reading at `credit.py`, then `publisher.py`; `wait.py` is what people are shown.
"""

from warren.flow.alarm import Alarm, Alarms, Change, Edge, Source
from warren.flow.credit import (
    CHANNEL_TO_QUEUE,
    LINGER_CONNECTION_NS,
    LINGER_NS,
    QUEUE_TO_STORE,
    READER_TO_CHANNEL,
    Account,
    CreditSettings,
    Flow,
    forget,
    settle,
)
from warren.flow.publisher import Effect, Event, PublisherState, State
from warren.flow.verdict import Blockage, Verdict, credit_wait, diagnose
from warren.flow.wait import Handle, Kind, Reason, Subject, Wait, WaitBook, explain

__all__ = [
    "CHANNEL_TO_QUEUE",
    "LINGER_CONNECTION_NS",
    "LINGER_NS",
    "QUEUE_TO_STORE",
    "READER_TO_CHANNEL",
    "Account",
    "Alarm",
    "Alarms",
    "Blockage",
    "Change",
    "CreditSettings",
    "Edge",
    "Effect",
    "Event",
    "Flow",
    "Handle",
    "Kind",
    "PublisherState",
    "Reason",
    "Source",
    "State",
    "Subject",
    "Verdict",
    "Wait",
    "WaitBook",
    "credit_wait",
    "diagnose",
    "explain",
    "forget",
    "settle",
]
