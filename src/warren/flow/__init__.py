"""Flow: credit between components, memory and disk alarms, and the explanation of each wait.

Must never measure memory or disk, read a clock, or know sessions and queues; it is told.
Start reading at `credit.py`, then `publisher.py`; `wait.py` is what people are shown.
"""

from warren.flow.alarm import Alarm, Alarms, Change, Edge, Source
from warren.flow.publisher import Effect, Event, PublisherState, State
from warren.flow.wait import Handle, Kind, Reason, Subject, Wait, WaitBook, explain

__all__ = [
    "Alarm",
    "Alarms",
    "Change",
    "Edge",
    "Effect",
    "Event",
    "Handle",
    "Kind",
    "PublisherState",
    "Reason",
    "Source",
    "State",
    "Subject",
    "Wait",
    "WaitBook",
    "explain",
]
