"""The control interface on a local socket: one JSON request per line, one reply per line.

Who may open the socket file may control the node: it has mode 0600 from its first moment. Bounded:
the size of a request, the number of clients, how long a client may be silent or not read. A stale
file of a dead node is replaced; a file that answers belongs to a running node and is refused.
"""

import asyncio
import os
import socket
import stat
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Final, Protocol, final

from warren.core.log import EventLog
from warren.server.control import Code, ControlError, refused

# Arguments are names, of 255 octets at most, except for a message that is published over HTTP.
REQUEST_OCTETS_MAX: Final = 4 << 20
# A few people and their scripts, the management process, the other nodes.
CLIENTS_MAX: Final = 64
SILENCE_S_MAX: Final = 300.0
WRITE_S_MAX: Final = 30.0
# How long the end of the node waits for replies that are being made.
CLOSE_WAIT_S: Final = 1.0


class SocketInUseError(Exception):
    """The path of the control socket cannot be taken."""


class Answering(Protocol):
    """Whoever answers: a node's `Control`, or the `App` that has a node or none."""

    def replies(self, request: bytes) -> AsyncGenerator[bytes]: ...


@final
class ControlServer:
    """Serves the control interface on a socket file."""

    def __init__(self, path: Path, control: Answering, log: EventLog) -> None:
        self._path = path
        self._control = control
        self._log = log
        self._server: asyncio.Server | None = None
        self._clients: dict[asyncio.Task[None], bool] = {}
        self._inode = 0

    async def start(self) -> None:
        """Take the path and listen; `SocketInUseError` if a node answers there."""
        _clear(self._path)
        opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            mask = os.umask(0o177)
            try:
                opened.bind(str(self._path))
            finally:
                os.umask(mask)
            opened.setblocking(False)
            self._inode = self._path.stat().st_ino
            self._server = await asyncio.start_unix_server(
                self._on_client, sock=opened, limit=REQUEST_OCTETS_MAX
            )
        except BaseException:
            opened.close()
            raise

    async def close(self) -> None:
        """Stop listening, let replies under way finish, remove the file."""
        if self._server is None:
            return
        self._server.close()
        self._server = None
        with suppress(OSError):
            if self._path.stat().st_ino == self._inode:
                self._path.unlink()
        for client, busy in list(self._clients.items()):
            if not busy:
                client.cancel()
        if self._clients:
            _, late = await asyncio.wait(list(self._clients), timeout=CLOSE_WAIT_S)
            for client in late:
                client.cancel()

    async def _on_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = asyncio.current_task()
        if client is None:
            return
        try:
            if len(self._clients) >= CLIENTS_MAX:
                full = ControlError(Code.BUSY, f"{CLIENTS_MAX} clients are connected", "try later")
                await _write(writer, refused(full))
                return
            self._clients[client] = False
            await self._serve(client, reader, writer)
        except (OSError, TimeoutError) as failure:
            self._log.event("debug", "control.client_lost", {"reason": type(failure).__name__})
        except asyncio.CancelledError:
            # Only `close` cancels a client.
            pass
        finally:
            self._clients.pop(client, None)
            writer.close()

    async def _serve(
        self,
        client: "asyncio.Task[None]",
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        while self._server is not None:
            try:
                async with asyncio.timeout(SILENCE_S_MAX):
                    line = await reader.readline()
            except ValueError:
                message = f"a request has at most {REQUEST_OCTETS_MAX} octets"
                await _write(writer, refused(ControlError(Code.TOO_LARGE, message)))
                return
            # The end of the stream; a last line without its end was cut and is not run.
            if not line.endswith(b"\n"):
                return
            if not line.strip():
                continue
            self._clients[client] = True
            async with aclosing(self._control.replies(line)) as replies:
                async for reply in replies:
                    if reply:
                        await _write(writer, reply)
                    # A part of a list is one slice: whoever has messages is served before the next.
                    await asyncio.sleep(0)
            self._clients[client] = False


async def _write(writer: asyncio.StreamWriter, reply: bytes) -> None:
    writer.write(reply + b"\n")
    async with asyncio.timeout(WRITE_S_MAX):
        await writer.drain()


def _clear(path: Path) -> None:
    """Remove the file that a dead node left."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise SocketInUseError(f"{path} is in the way and is not a socket: move it away")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
        except FileNotFoundError:
            return
        except OSError as failure:
            raise SocketInUseError(f"{path} cannot be taken: {failure.strerror}") from failure
    raise SocketInUseError(f"{path} belongs to a running node: stop it, or set control_socket")
