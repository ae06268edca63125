"""Listening sockets: who is let in, how many at a time, and what happens without descriptors.

TLS peers are accepted like the others and then go through their handshake, each in a task of its
own with the context of that moment, so that a new certificate holds from the next connection on.
"""

import asyncio
import errno
import socket
import ssl
import struct
from typing import Final, final

from warren.core.log import EventLog
from warren.runtime.loop import listening_sockets
from warren.security import External
from warren.server.config import Settings
from warren.server.crowd import Crowd
from warren.server.hub import Hub, Link
from warren.server.socket_link import SocketLink
from warren.server.tls import Tls
from warren.server.tls_link import TlsLink
from warren.server.view import ListenerRow
from warren.session import Connection, SessionSettings

# Connections taken in one go: a storm of them must not hold up those that are there.
ACCEPT_MAX: Final = 32
# How long accepting rests when the process has no descriptors left (AL-5).
EXHAUSTED_S: Final = 0.5
_AT_ONCE: Final = struct.pack("ii", 1, 0)
_EXHAUSTED: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


@final
class Listeners:
    def __init__(
        self, hub: Hub, settings: Settings, session: SessionSettings, tls: Tls, log: EventLog
    ) -> None:
        self.hub = hub
        self.settings = settings
        self.session = session
        self.tls = tls
        self.attempts = hub.broker.attempts
        self.crowd = Crowd(hub.links, log)
        self.log = log
        self.rows: list[ListenerRow] = []
        self.sockets: list[socket.socket] = []
        # TLS handshakes under way, the oldest first.
        self.handshakes: dict[asyncio.Task[None], None] = {}
        self.accepted = 0
        self.exhausted = False

    async def start(self) -> None:
        """Listen on everything that is configured; `OSError` if an address cannot be had."""
        self.tls.start()
        for host, port in self.settings.tcp_listeners():
            for one in listening_sockets(host, port, self.settings.backlog):
                self._listen(one, "amqp")
                self.hub.loop.add_reader(one.fileno(), self.on_ready, one, False)
        for host, port in self.settings.tls_listeners():
            for one in listening_sockets(host, port, self.settings.backlog):
                self._listen(one, "amqp/ssl")
                self.hub.loop.add_reader(one.fileno(), self.on_ready, one, True)

    def _listen(self, one: socket.socket, protocol: str) -> None:
        self.sockets.append(one)
        address = one.getsockname()
        self.rows.append(ListenerRow(protocol=protocol, address=address[0], port=address[1]))
        self.log.event(
            "info",
            "listener.started",
            {"protocol": protocol, "address": address[0], "port": address[1]},
        )

    def on_ready(self, listening: socket.socket, tls: bool) -> None:
        for _ in range(ACCEPT_MAX):
            try:
                peer, address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    raise
                self._rest(listening, tls, error)
                return
            self.accepted += 1
            if self.attempts.held(address[0], self.hub.clock.monotonic_ns()):
                _drop(peer)
                continue
            peer.setblocking(False)
            if self.settings.tcp_nodelay:
                peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls:
                self._begin_handshake(peer, address[0], address[1])
                continue
            link = SocketLink(self.hub, peer)
            connection = self.admit(link, address[0], address[1])
            link.start(connection, connection.identity)

    def _begin_handshake(self, peer: socket.socket, host: str, port: int) -> None:
        task = self.hub.loop.create_task(self._handshake(peer, host, port))
        self.handshakes[task] = None
        task.add_done_callback(self._end_handshake)
        if len(self.handshakes) > self.crowd.most:
            next(iter(self.handshakes)).cancel()

    def _end_handshake(self, task: asyncio.Task[None]) -> None:
        self.handshakes.pop(task, None)

    async def _handshake(self, peer: socket.socket, host: str, port: int) -> None:
        """Have the transport made; it tells the link when the handshake is done."""
        try:
            await self.hub.loop.connect_accepted_socket(
                lambda: TlsLink(self.hub, self, host, port),
                peer,
                ssl=self.tls.context(),
                ssl_handshake_timeout=self.settings.handshake_timeout_ms / 1000,
            )
        except (OSError, TimeoutError) as failure:
            reason = (failure.reason if isinstance(failure, ssl.SSLError) else None) or (
                "timeout" if isinstance(failure, TimeoutError) else "closed by peer"
            )
            if isinstance(failure, ssl.SSLError):
                self.attempts.charge(host, self.hub.clock.monotonic_ns())
            self.log.event(
                "info", "tls.handshake_failed", {"peer": f"{host}:{port}", "reason": reason}
            )
            peer.close()

    def refuse_chain(self, host: str, port: int) -> None:
        """A verified peer whose chain of authorities is longer than `tls_depth` allows."""
        self.log.event(
            "warning",
            "tls.chain_too_long",
            {"peer": f"{host}:{port}", "tls_depth": self.settings.tls_depth},
        )

    def _rest(self, listening: socket.socket, tls: bool, error: OSError) -> None:
        """Out of descriptors: clients wait in the backlog rather than being turned away."""
        self.log.event(
            "error", "listener.exhausted", {"reason": error.strerror, "rest_s": EXHAUSTED_S}
        )
        self.exhausted = True
        loop = self.hub.loop
        loop.remove_reader(listening.fileno())
        loop.call_later(EXHAUSTED_S, self._resume, listening, tls)

    def _resume(self, listening: socket.socket, tls: bool) -> None:
        self.exhausted = False
        if listening.fileno() >= 0:
            self.hub.loop.add_reader(listening.fileno(), self.on_ready, listening, tls)

    def admit(
        self, link: Link, host: str, port: int, *, tls: bool = False, own: External | None = None
    ) -> Connection:
        """Make the session of a new peer."""
        hub = self.hub
        identity = hub.add(link)
        self.crowd.add(identity)
        return Connection(
            identity,
            host,
            port,
            hub.broker,
            self.session,
            hub.outbox,
            tls=tls,
            now_ns=hub.clock.monotonic_ns(),
            own_mechanism=own,
        )

    def stop(self) -> None:
        """Take no more connections."""
        self.tls.stop()
        for one in self.sockets:
            self.hub.loop.remove_reader(one.fileno())
            one.close()
        self.sockets.clear()
        self.rows.clear()
        for task in list(self.handshakes):
            task.cancel()


def _drop(peer: socket.socket) -> None:
    """Reset the connection: nothing of it stays here, not even a port that waits."""
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
    peer.close()
