"""Phases of a connection, and how long the last of them may take."""

from typing import Final

from mypy_extensions import i64

# Phases of a connection, in order.
HEADER: Final[i64] = 0
HANDSHAKE: Final[i64] = 1
RUNNING: Final[i64] = 2
CLOSING: Final[i64] = 3  # our close is out; only close and close-ok are looked at
DOOMED: Final[i64] = 4  # nothing more is read; the socket goes when `drop_at_ns` comes
CLOSED: Final[i64] = 5  # flush what is there, then drop the socket

SECOND_NS: Final[i64] = 1_000_000_000
# A refused login and a refused tune are answered by silence for this long (AU-1, AU-2).
SILENCE_NS: Final[i64] = 3 * SECOND_NS
# After close-ok the socket is the client's to close, within this.
FAREWELL_NS: Final[i64] = SECOND_NS
CLOSE_WAIT_NS: Final[i64] = 30 * SECOND_NS
