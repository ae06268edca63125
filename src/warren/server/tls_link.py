"""A TLS connection: the same session behind asyncio's TLS transport.

The handshake and the records are the transport's; what it has not sent is bounded by its
high-water mark, above which output stays in the session and counts as unsent there.
"""

import asyncio
from typing import TYPE_CHECKING, Final, cast, final

from warren.server.hub import Hub, Link, receive
from warren.session import CLOSED

if TYPE_CHECKING:
    import ssl

    from warren.server.listener import Listeners

HIGH_WATER: Final = 262_144
RECORD: Final = 16_384


@final
class TlsLink(Link, asyncio.Protocol):
    def __init__(self, hub: Hub, listeners: "Listeners", host: str, port: int) -> None:
        super().__init__(hub)
        self.listeners = listeners
        self.host = host
        self.port = port
        self.transport: asyncio.Transport | None = None
        self.identity = 0
        self.paused = False
        self.reading = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The handshake is done: make the session, unless the peer's chain is too long."""
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(high=HIGH_WATER)
        found = cast("ssl.SSLObject", transport.get_extra_info("ssl_object"))
        tls = self.listeners.tls
        if tls.too_deep(found):
            self.listeners.refuse_chain(self.host, self.port)
            self.transport.abort()
            return
        connection = self.listeners.admit(
            self, self.host, self.port, tls=True, own=tls.external(found)
        )
        self.connection = connection
        self.identity = connection.identity
        connection.output.owner = self

    def data_received(self, data: bytes) -> None:
        connection = self.connection
        if connection is None:
            return
        self.hub.begin()
        hub = self.hub
        hub.took(len(data))
        began = hub.clock.monotonic_ns()
        receive(connection, data)
        ended = hub.clock.monotonic_ns()
        # How much was asked for, the transport knows; a whole record says that there was more.
        connection.load.note(connection, ended, ended - began, len(data) >= RECORD)
        self.look()

    def connection_lost(self, error: Exception | None) -> None:
        connection = self.connection
        self.connection = None
        self.hub.remove(self.identity)
        if connection is not None:
            self.hub.begin()
            connection.lost("connection closed by peer" if error is None else str(error))
            connection.output.owner = None

    def pause_writing(self) -> None:
        self.paused = True

    def resume_writing(self) -> None:
        self.paused = False
        self.hub.begin()
        self.flush()

    def look(self) -> None:
        connection = self.connection
        transport = self.transport
        if connection is None or transport is None:
            return
        if connection.gone:
            transport.abort()
            return
        if connection.phase == CLOSED and connection.output.size() == 0:
            transport.close()
            return
        if connection.reading != self.reading:
            self.reading = connection.reading
            if self.reading:
                transport.resume_reading()
            else:
                transport.pause_reading()

    def flush(self) -> None:
        connection = self.connection
        transport = self.transport
        if connection is None or transport is None:
            return
        if connection.reading != self.reading:
            self.look()
        output = connection.output
        if self.hub.is_held(connection):
            self.keep_back()
            return
        parts = output.take()
        if parts and not self.paused:
            size = output.parts_size
            transport.write(parts[0] if len(parts) == 1 else b"".join(parts))
            output.sent(size)
        if output.stalled and not self.paused:
            connection.drained()
        if output.parts_size == 0 and connection.phase == CLOSED:
            transport.close()

    def abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()
