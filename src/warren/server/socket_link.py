"""A plain TCP connection: octets from the socket to the session and back, without a copy between.

Fairness: one read per turn and peer, of a size that follows the time its handling takes, so that
a firehose of costly messages holds the loop no longer than one of cheap ones; and a smaller one
while others are heard as well. A peer that
publishes into a queue whose consumers fall behind sits out a few turns, so that a broker at its
limit serves consumers as much as publishers.
"""

import socket
from typing import TYPE_CHECKING, Final, final

from warren.runtime.loop import LARGE_READ, RECEIVE_MAX
from warren.server.hub import Hub, Link, receive
from warren.session import CLOSED, Connection

if TYPE_CHECKING:
    import asyncio

    from mypy_extensions import i64

RECEIVE_MIN: Final = 16_384
# Received in one go at most while more than one peer is heard, and for so many turns after.
RECEIVE_SHARED: Final = 49_152
SHARED_TURNS: Final = 4096
# A read whose handling takes longer than this is halved next time; below half, doubled.
SLICE_NS: Final = 400_000
# Buffers handed to one sendmsg; IOV_MAX is 1024 on Linux.
PIECES_MAX: Final = 64
# Ready messages in a consumed queue for which its publishers sit out one turn, and the most turns.
BACKLOG_STEP: Final = 512
TURNS_OUT_MAX: Final = 16
# How long a closed connection may take to read what was sent last.
LINGER_NS: Final = 1_000_000_000


@final
class SocketLink(Link):
    def __init__(self, hub: Hub, peer: socket.socket) -> None:
        super().__init__(hub)
        self.socket = peer
        self.descriptor = peer.fileno()
        self.loop: asyncio.AbstractEventLoop = hub.loop
        self.identity = 0
        self.budget = 65_536
        self.turns_out: i64 = 0
        self.reading = False
        self.writing = False
        self.half_closed = False
        self.open = True

    def start(self, connection: Connection, identity: int) -> None:
        self.connection = connection
        self.identity = identity
        connection.output.owner = self
        self.reading = True
        self.loop.add_reader(self.descriptor, self.on_readable)

    def on_readable(self) -> None:
        if self.turns_out > 0:
            self.turns_out -= 1
            return
        connection = self.connection
        if connection is None:
            return
        asked = self.read_size(connection)
        try:
            data = self.socket.recv(asked)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self.lost(error.strerror or "socket error")
            return
        if not data:
            self.lost("connection closed by peer")
            return
        hub = self.hub
        hub.begin()
        hub.took(len(data))
        if self.half_closed:
            return
        began: i64 = hub.clock.monotonic_ns()
        receive(connection, data)
        took: i64 = hub.clock.monotonic_ns() - began
        if took > SLICE_NS:
            if self.budget > RECEIVE_MIN:
                self.budget >>= 1
        elif took < SLICE_NS // 2 and len(data) == self.budget and self.budget < RECEIVE_MAX:
            self.budget <<= 1
        # More than a socket holds is asked for while large bodies come.
        full = len(data) >= asked or len(data) >= RECEIVE_MAX
        connection.load.note(connection, began + took, took, full)
        pressure = connection.pressure()
        if pressure > BACKLOG_STEP:
            out = pressure // BACKLOG_STEP
            self.turns_out = out if out < TURNS_OUT_MAX else TURNS_OUT_MAX  # noqa: FURB136 - i64
        self.look()

    def read_size(self, connection: Connection) -> int:
        """How much this peer may say before the others are heard."""
        hub = self.hub
        if hub.heard != self.identity:
            hub.heard = self.identity
            hub.shared_until = hub.turns + SHARED_TURNS
        if connection.large:
            return LARGE_READ
        if self.budget > RECEIVE_SHARED and hub.turns < hub.shared_until:
            return RECEIVE_SHARED
        return self.budget

    def look(self) -> None:
        connection = self.connection
        if connection is None or not self.open:
            return
        if connection.gone:
            self.abort()
            return
        if connection.phase == CLOSED and connection.output.size() == 0:
            self.finish()
            return
        wanted = connection.reading or self.half_closed
        if wanted != self.reading:
            self.reading = wanted
            if wanted:
                self.loop.add_reader(self.descriptor, self.on_readable)
            else:
                self.loop.remove_reader(self.descriptor)

    def flush(self) -> None:
        connection = self.connection
        if connection is None or not self.open:
            return
        if connection.reading != self.reading:
            self.look()
        if self.hub.is_held(connection):
            if self.writing:
                self.writing = False
                self.loop.remove_writer(self.descriptor)
            self.keep_back()
            return
        self._send(connection)

    def _send(self, connection: Connection) -> None:
        output = connection.output
        try:
            while True:
                parts = output.take()
                if not parts:
                    break
                if len(parts) == 1:
                    count = self.socket.send(parts[0])
                else:
                    count = self.socket.sendmsg(parts[:PIECES_MAX])
                output.sent(count)
        except (BlockingIOError, InterruptedError):
            if not self.writing:
                self.writing = True
                self.loop.add_writer(self.descriptor, self.on_writable)
        except OSError as error:
            self.lost(error.strerror or "socket error")
            return
        left = output.parts_size
        if left == 0 and self.writing:
            self.writing = False
            self.loop.remove_writer(self.descriptor)
        if output.stalled and left <= output.bound // 2:
            connection.drained()
        if left == 0 and connection.phase == CLOSED:
            self.finish()

    def on_writable(self) -> None:
        self.hub.begin()
        self.flush()

    def finish(self) -> None:
        """Everything is sent: let the peer read it, then go."""
        connection = self.connection
        if connection is None or self.half_closed:
            self.abort()
            return
        self.half_closed = True
        connection.drop_at_ns = self.hub.clock.monotonic_ns() + LINGER_NS
        try:
            self.socket.shutdown(socket.SHUT_WR)
        except OSError:
            self.abort()

    def lost(self, why: str) -> None:
        connection = self.connection
        if connection is not None:
            self.hub.begin()
            connection.lost(why)
        self.abort()

    def abort(self) -> None:
        if not self.open:
            return
        self.open = False
        connection = self.connection
        if connection is not None:
            connection.lost("aborted")
            connection.output.owner = None
        self.connection = None
        if self.reading:
            self.loop.remove_reader(self.descriptor)
        if self.writing:
            self.loop.remove_writer(self.descriptor)
        self.hub.remove(self.identity)
        self.socket.close()
