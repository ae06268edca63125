"""The management process seen from the node: its sockets, its start, its end, its next start.

The node opens the listening sockets and hands them on, so their addresses are known before the
process runs and stay taken while it is started anew; whoever connects meanwhile waits. When it
dies it is started again, after a pause that doubles while it does not stay. It is a client of the
control interface like any other: nothing in the node depends on it.
"""

import asyncio
import importlib.util
import sys
from typing import TYPE_CHECKING, Final, final

import msgspec

from warren.management.tls import TlsFiles, TlsFilesError, context_of
from warren.runtime.child import Child
from warren.runtime.loop import listening_sockets
from warren.server.view import ListenerRow

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

    from warren.server.node import Node

PAUSE_S: Final = 0.5
PAUSE_S_MAX: Final = 30.0
# A process that ran this long is started again without having to wait for its past.
SETTLED_S: Final = 60.0
END_WAIT_S: Final = 2.0
BACKLOG: Final = 128
# What the process needs beyond what the node does.
NEEDED: Final = "uvicorn"


class ManagementError(Exception):
    """The management process is wanted and cannot run."""


@final
class Management:
    """Keeps one management process running beside a node."""

    def __init__(self, node: "Node") -> None:
        self.node = node
        self.loop = node.loop
        self.sockets: dict[str, list[socket.socket]] = {}
        self.rows: list[ListenerRow] = []
        self.child: Child | None = None
        self.starts = 0
        self.pause_s = PAUSE_S
        self.began_s = 0.0
        self.ending = False
        self.ended = self.loop.create_future()
        self.next_start: asyncio.TimerHandle | None = None

    def listen(self) -> None:
        """Take the addresses, if the process is wanted; `OSError` only if it must run."""
        settings = self.node.settings
        if settings.management == "off":
            return
        if importlib.util.find_spec(NEEDED) is None:
            if settings.management == "on":
                raise ManagementError(
                    f"management = on needs {NEEDED}: pip install 'warren[management]'"
                )
            self._tell_absent(f"{NEEDED} is not installed")
            return
        files = self.tls_files()
        if files is not None:
            try:
                context_of(files)
            except TlsFilesError as refusal:
                raise ManagementError(str(refusal)) from None
        try:
            self._listen()
        except OSError as failure:
            self.close_sockets()
            if settings.management == "on":
                raise
            self._tell_absent(f"{failure.filename}: {failure.strerror}")
            return

    def tls_files(self) -> TlsFiles | None:
        """What HTTPS is made of; None without a certificate."""
        settings = self.node.settings
        certificate, key = settings.management_tls_certfile, settings.management_tls_keyfile
        if certificate is None or key is None:
            return None
        return TlsFiles(
            certificate=str(certificate),
            key=str(key),
            password=settings.management_tls_password,
            versions=settings.tls_versions,
            reload_interval_s=settings.tls_reload_interval_s,
        )

    def start(self) -> None:
        """Start the process behind the addresses."""
        if self.sockets:
            self.node.listeners.rows.extend(self.rows)
            self._start_child()

    def _tell_absent(self, reason: str) -> None:
        self.node.log.event("warning", "management.absent", {"reason": reason})

    def _listen(self) -> None:
        settings = self.node.settings
        wanted = []
        if settings.management_port is not None:
            wanted.append(("http", settings.management_bind, settings.management_port))
        if settings.management_tls_certfile is not None:
            host = settings.management_tls_bind or settings.management_bind
            wanted.append(("https", host, settings.management_tls_port))
        if settings.prometheus_port is not None:
            host = settings.prometheus_bind or settings.management_bind
            wanted.append(("http/prometheus", host, settings.prometheus_port))
        for protocol, host, port in wanted:
            opened = listening_sockets(host, port, BACKLOG)
            self.sockets[protocol] = opened
            for one in opened:
                address = one.getsockname()
                row = ListenerRow(protocol=protocol, address=address[0], port=address[1])
                self.rows.append(row)

    def _descriptors(self) -> "Iterator[tuple[str, int]]":
        for protocol, opened in self.sockets.items():
            for one in opened:
                yield protocol, one.fileno()

    def _start_child(self) -> None:
        self.next_start = None
        self.starts += 1
        self.began_s = self.loop.time()
        settings = self.node.settings
        told = {
            "control": str(settings.socket_path()),
            "listeners": list(self._descriptors()),
            "path_prefix": settings.management_path_prefix,
            "interval_ms": settings.management_interval_ms,
            "per_object": settings.prometheus_per_object,
            "tls": self.tls_files(),
        }
        command = [sys.executable, "-m", "warren.management"]
        descriptors = [number for _, number in self._descriptors()]
        # Not as an argument, which everybody here can read: there may be a password in it.
        line = msgspec.json.encode(told) + b"\n"
        self.child = Child(
            self.loop, command, told=line, descriptors=descriptors, on_end=self._on_child_end
        )
        self.node.log.event("info", "management.started", {"pid": self.child.pid})

    def _on_child_end(self, status: int) -> None:
        self.child = None
        if self.ending:
            if not self.ended.done():
                self.ended.set_result(None)
            return
        if self.loop.time() - self.began_s >= SETTLED_S:
            self.pause_s = PAUSE_S
        facts = {"status": status, "pause_s": self.pause_s}
        self.node.log.event("error", "management.died", facts)
        self.next_start = self.loop.call_later(self.pause_s, self._start_child)
        self.pause_s = min(self.pause_s * 2, PAUSE_S_MAX)

    async def close(self) -> None:
        """End the process, in order if it takes no longer than END_WAIT_S."""
        self.ending = True
        if self.next_start is not None:
            self.next_start.cancel()
        child = self.child
        if child is not None:
            child.ask_to_end()
            await asyncio.wait([self.ended], timeout=END_WAIT_S)
            if self.child is not None:
                child.kill()
                self.child = None
        self.close_sockets()

    def close_sockets(self) -> None:
        for opened in self.sockets.values():
            for one in opened:
                one.close()
        self.sockets.clear()
        self.rows.clear()
