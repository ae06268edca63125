"""Listening sockets: who is let in, how many at a time, and what happens without descriptors."""

import errno
import socket
import ssl
from typing import TYPE_CHECKING, Final, final

from warren.core.log import EventLog
from warren.runtime.loop import listening_sockets
from warren.server.config import Settings
from warren.server.hub import Hub, Link
from warren.server.socket_link import SocketLink
from warren.server.tls import server_context
from warren.server.tls_link import TlsLink
from warren.server.view import ListenerRow
from warren.session import Connection, SessionSettings

if TYPE_CHECKING:
    import asyncio

# Connections taken in one go: a storm of them must not hold up those that are there.
ACCEPT_MAX: Final = 32
# How long accepting rests when the process has no descriptors left (AL-5).
EXHAUSTED_S: Final = 0.5
_EXHAUSTED: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


@final
class Listeners:
    def __init__(
        self, hub: Hub, settings: Settings, session: SessionSettings, log: EventLog
    ) -> None:
        self.hub = hub
        self.settings = settings
        self.session = session
        self.log = log
        self.rows: list[ListenerRow] = []
        self.sockets: list[socket.socket] = []
        self.tls_servers: list[asyncio.Server] = []
        self.accepted = 0
        self.exhausted = False

    async def start(self) -> None:
        """Listen on everything that is configured; `OSError` if an address cannot be had."""
        for host, port in self.settings.tcp_listeners():
            for one in listening_sockets(host, port, self.settings.backlog):
                self._listen(one, "amqp")
                self.sockets.append(one)
                self.hub.loop.add_reader(one.fileno(), self.on_ready, one)
        tls = self.settings.tls_listeners()
        if not tls:
            return
        context = server_context(self.settings)
        for host, port in tls:
            for one in listening_sockets(host, port, self.settings.backlog):
                self._listen(one, "amqp/ssl")
                await self._serve_tls(one, context)

    async def _serve_tls(self, one: socket.socket, context: ssl.SSLContext) -> None:
        server = await self.hub.loop.create_server(
            lambda: TlsLink(self.hub, self),
            sock=one,
            ssl=context,
            backlog=self.settings.backlog,
            ssl_handshake_timeout=self.settings.handshake_timeout_ms / 1000,
        )
        self.tls_servers.append(server)

    def _listen(self, one: socket.socket, protocol: str) -> None:
        address = one.getsockname()
        self.rows.append(ListenerRow(protocol=protocol, address=address[0], port=address[1]))
        self.log.event(
            "info",
            "listener.started",
            {"protocol": protocol, "address": address[0], "port": address[1]},
        )

    def on_ready(self, listening: socket.socket) -> None:
        for _ in range(ACCEPT_MAX):
            try:
                peer, address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    raise
                self._rest(listening, error)
                return
            peer.setblocking(False)
            if self.settings.tcp_nodelay:
                peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            link = SocketLink(self.hub, peer)
            connection = self.admit(link, address[0], address[1], tls=False)
            if connection is None:
                link.abort()
            else:
                link.start(connection, connection.identity)

    def _rest(self, listening: socket.socket, error: OSError) -> None:
        """Out of descriptors: clients wait in the backlog rather than being turned away."""
        self.log.event(
            "error", "listener.exhausted", {"reason": error.strerror, "rest_s": EXHAUSTED_S}
        )
        self.exhausted = True
        loop = self.hub.loop
        loop.remove_reader(listening.fileno())
        loop.call_later(EXHAUSTED_S, self._resume, listening)

    def _resume(self, listening: socket.socket) -> None:
        self.exhausted = False
        if listening.fileno() >= 0:
            self.hub.loop.add_reader(listening.fileno(), self.on_ready, listening)

    def admit(self, link: Link, host: str, port: int, *, tls: bool) -> Connection | None:
        """Make the session of a new peer."""
        hub = self.hub
        self.accepted += 1
        identity = hub.add(link)
        return Connection(
            identity,
            host,
            port,
            hub.broker,
            self.session,
            hub.outbox,
            tls=tls,
            now_ns=hub.clock.monotonic_ns(),
        )

    def stop(self) -> None:
        """Take no more connections."""
        for one in self.sockets:
            if not self.exhausted:
                self.hub.loop.remove_reader(one.fileno())
            one.close()
        self.sockets.clear()
        for server in self.tls_servers:
            server.close()
        self.tls_servers.clear()
        self.rows.clear()
