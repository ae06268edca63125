"""The node's control socket from this process: questions and answers, a few at a time.

Each question has a connection for as long as it takes; idle ones are kept. A connection that the
node has closed meanwhile is replaced once, before anything was answered on it.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from typing import Any, Final, final

import msgspec

# Questions at a time; the node serves 64 clients, the command line among them.
CONNECTIONS_MAX: Final = 8
ANSWER_S_MAX: Final = 30.0
# A line is a slice of a list.
LINE_OCTETS_MAX: Final = 64 << 20

# What the node says is JSON of many shapes; each caller knows its own.
Told = dict[str, Any]  # type: ignore[explicit-any]


class RefusedError(Exception):
    """The node refused, with its code, what is wrong and what to do."""

    def __init__(self, code: str, message: str, fix: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.fix = fix


class NodeGoneError(Exception):
    """The node does not answer."""


class _Line(msgspec.Struct):
    ok: msgspec.Raw = msgspec.Raw()
    error: dict[str, str] | None = None
    rows: msgspec.Raw = msgspec.Raw()


_LINE: Final = msgspec.json.Decoder(_Line)


@final
class _Wire:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, request: bytes) -> None:
        self.writer.write(request)
        await self.writer.drain()

    async def line(self) -> _Line:
        raw = await self.reader.readline()
        if not raw.endswith(b"\n"):
            raise ConnectionResetError("the node closed the connection")
        return _LINE.decode(raw)

    def close(self) -> None:
        self.writer.close()


@final
class ControlClient:
    def __init__(self, path: str) -> None:
        self.path = path
        self._idle: list[_Wire] = []
        self._room = asyncio.Semaphore(CONNECTIONS_MAX)

    async def ask(
        self,
        command: str,
        args: Mapping[str, object] | None = None,
        *,
        timeout_s: float = ANSWER_S_MAX,
    ) -> Told:
        """Return what the node answers; `RefusedError`, or `NodeGoneError` if it does not."""
        async with self._room:
            try:
                async with asyncio.timeout(timeout_s):
                    return await self._ask(_request(command, args or {}))
            except (OSError, TimeoutError, msgspec.MsgspecError, ValueError) as failure:
                why = str(failure) or type(failure).__name__
                raise NodeGoneError(f"{command}: {why}") from None

    async def _ask(self, request: bytes) -> Told:
        while self._idle:
            wire = self._idle.pop()
            with suppress(OSError):
                return await self._exchange(wire, request)
        return await self._exchange(await self._open(), request)

    async def _exchange(self, wire: _Wire, request: bytes) -> Told:
        answered = False
        try:
            await wire.send(request)
            line = await wire.line()
            answered = True
        finally:
            if answered:
                self._idle.append(wire)
            else:
                wire.close()
        if line.error is not None or not bytes(line.ok):
            raise _refusal(line)
        return msgspec.json.decode(line.ok, type=dict)

    async def parts(
        self, command: str, args: Mapping[str, object] | None = None
    ) -> AsyncGenerator[msgspec.Raw]:
        """Yield the rows of a list part by part, as JSON, on a connection of its own."""
        try:
            wire = await self._open()
        except OSError as failure:
            raise NodeGoneError(f"{command}: {failure}") from None
        try:
            await wire.send(_request(command, args or {}))
            while True:
                line = await wire.line()
                if not bytes(line.rows):
                    if line.error is not None:
                        raise _refusal(line)
                    return
                yield line.rows
        except (OSError, msgspec.MsgspecError, ValueError) as failure:
            raise NodeGoneError(f"{command}: {failure}") from None
        finally:
            wire.close()

    async def _open(self) -> _Wire:
        return _Wire(*await asyncio.open_unix_connection(self.path, limit=LINE_OCTETS_MAX))


def _request(command: str, args: Mapping[str, object]) -> bytes:
    return msgspec.json.encode({"v": 1, "id": 1, "command": command, "args": args}) + b"\n"


def _refusal(line: _Line) -> RefusedError:
    error = line.error or {}
    return RefusedError(
        error.get("code", "internal"), error.get("message", ""), error.get("fix", "")
    )
