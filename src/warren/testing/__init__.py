"""A broker in the process of a test, and a clock that can be advanced.

Owns what users' tests need: `Broker`, its fixtures (`plugin.py`), its clock. Must never be imported
by the broker, and never touch what belongs to the host's process: no signals, no collector
switches, no files left behind. Importing this package imports nothing else until a name is used.
Start reading at `broker.py`, then `engine.py` and `clock.py`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from warren.testing.aio import AsyncSide
    from warren.testing.broker import Broker
    from warren.testing.clock import Clock
    from warren.testing.errors import CommandError, NotInTimeError, RefusedError, StoppedError
    from warren.testing.log import LogEvent
    from warren.testing.message import Message
    from warren.testing.state import ConnectionState, QueueState
    from warren.testing.vhost import VHost

__all__ = [
    "AsyncSide",
    "Broker",
    "Clock",
    "CommandError",
    "ConnectionState",
    "LogEvent",
    "Message",
    "NotInTimeError",
    "QueueState",
    "RefusedError",
    "StoppedError",
    "VHost",
]

_HOMES: Final = {
    "AsyncSide": "warren.testing.aio",
    "Broker": "warren.testing.broker",
    "Clock": "warren.testing.clock",
    "CommandError": "warren.testing.errors",
    "ConnectionState": "warren.testing.state",
    "LogEvent": "warren.testing.log",
    "Message": "warren.testing.message",
    "NotInTimeError": "warren.testing.errors",
    "QueueState": "warren.testing.state",
    "RefusedError": "warren.testing.errors",
    "StoppedError": "warren.testing.errors",
    "VHost": "warren.testing.vhost",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(home), name)
    return found


def __dir__() -> list[str]:
    return __all__
