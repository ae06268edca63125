"""Sessions: the state machines of connections and channels, bytes in, bytes out.

Must never touch a socket or a clock; the driver hands octets and time in and takes octets out.
Start reading at `connection.py`; `handshake.py` comes first in a connection's life.
"""

from warren.session.connection import Connection
from warren.session.phase import CLOSED, DOOMED, HANDSHAKE, HEADER, RUNNING
from warren.session.settings import SessionSettings

__all__ = ["CLOSED", "DOOMED", "HANDSHAKE", "HEADER", "RUNNING", "Connection", "SessionSettings"]
