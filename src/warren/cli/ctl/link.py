"""A conversation with a node: requests over its control socket, and lists part by part.

Unlike `cli.client` it keeps its connection for further requests. A list is taken off the node as
quickly as it comes, before any of it is decoded: whoever pages through what is printed must not
keep the node waiting, which would give up after a while.
"""

import json
import os
import re
import socket
import time
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Final, cast, final

from warren.cli.ctl.failure import NOT_PERMITTED, CtlError, Misuse

# How a part of a list begins; its last line has no rows.
_PART: Final = re.compile(rb'\s*\{\s*"v"\s*:\s*1\s*,\s*"id"\s*:\s*1\s*,\s*"rows"')
# A part is what a turn's slice made: thousands of rows at most.
PART_OCTETS_MAX: Final = 64 << 20
CHUNK_OCTETS: Final = 1 << 18


class UnreachableError(Exception):
    """No node answers there."""


class LateError(Exception):
    """The node did not answer in time."""


class RefusedError(Exception):
    """The node refused a command."""

    def __init__(self, code: str, message: str, fix: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.fix = fix


def place(options: Mapping[str, str], env: Mapping[str, str]) -> str:
    """Return the control socket that options and environment name.

    `--node` may be a path: of a socket, or of a data folder.
    """
    from warren.cli.client import socket_path

    node = options.get("node", "")
    given = SimpleNamespace(
        socket=options.get("socket"),
        data_dir=options.get("data-dir"),
        config=options.get("config"),
    )
    if "/" in node:
        if os.path.isdir(node):
            given.data_dir = node
        else:
            given.socket = node
    try:
        return str(socket_path(given, env))
    except Exception as failure:
        # The type is not imported before it is needed: that takes longer than most verbs.
        if type(failure).__name__ == "ConfigError":
            raise Misuse(f"configuration refused:\n{failure}") from None
        raise


@final
class Link:
    def __init__(self, path: str, timeout_s: float | None) -> None:
        self.path = path
        self.deadline = None if timeout_s is None else time.monotonic() + timeout_s
        self.socket: socket.socket | None = None
        self.rest = b""

    def ask(self, command: str, **args: object) -> dict[str, object]:
        """Return the node's reply; `RefusedError` if it refused."""
        self._send(command, args)
        while True:
            reply = _decoded(self._line(), self.path)
            if "ok" in reply:
                return cast("dict[str, object]", reply["ok"])

    def rows(self, command: str, **args: object) -> Iterator[list[object]]:
        """Give the rows of a list."""
        self._send(command, args)
        parts = [self._line()]
        while _PART.match(parts[-1]):
            parts.append(self._line())
        parts.reverse()
        while len(parts) > 1:
            reply = _decoded(parts.pop(), self.path)
            yield from cast("list[list[object]]", reply["rows"])
        if "ok" not in _decoded(parts.pop(), self.path):
            raise UnreachableError(f"{self.path}: the list has no end")

    def told(self, command: str, **args: object) -> Iterator[bytes]:
        """Give the lines of a list that has no end; who has heard enough closes the link."""
        self._send(command, args)
        while True:
            line = self._line()
            _decoded(line, self.path)
            yield line

    def _send(self, command: str, args: Mapping[str, object]) -> None:
        request = {"v": 1, "id": 1, "command": command, "args": args}
        try:
            if self.socket is None:
                self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                self.socket.settimeout(self._left())
                self.socket.connect(self.path)
            self.socket.settimeout(self._left())
            self.socket.sendall(json.dumps(request).encode() + b"\n")
        except PermissionError:
            message = f"Error: not permitted to open {self.path}: be its owner"
            raise CtlError(message, NOT_PERMITTED) from None
        except TimeoutError:
            raise LateError from None
        except OSError as failure:
            raise UnreachableError(f"{self.path}: {failure.strerror or failure}") from None

    def _line(self) -> bytes:
        assert self.socket is not None
        line, end, after = self.rest.partition(b"\n")
        chunks = [line]
        octets = len(line)
        while not end:
            try:
                self.socket.settimeout(self._left())
                chunk = self.socket.recv(CHUNK_OCTETS)
            except TimeoutError:
                raise LateError from None
            except OSError as failure:
                raise UnreachableError(f"{self.path}: {failure.strerror or failure}") from None
            if not chunk:
                raise UnreachableError(f"{self.path}: the node has closed the connection")
            line, end, after = chunk.partition(b"\n")
            chunks.append(line)
            octets += len(line)
            if octets > PART_OCTETS_MAX:
                raise UnreachableError(f"{self.path}: the reply is too large")
        self.rest = after
        return b"".join(chunks)

    def _left(self) -> float | None:
        if self.deadline is None:
            return None
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise LateError
        return left

    def close(self) -> None:
        if self.socket is not None:
            self.socket.close()
            self.socket = None


def _decoded(line: bytes, path: str) -> dict[str, object]:
    """Return a reply; `RefusedError` if it is a refusal."""
    try:
        reply = cast("dict[str, object]", json.loads(line))
        refusal = cast("dict[str, str] | None", reply.get("error"))
    except (ValueError, AttributeError):
        raise UnreachableError(f"{path}: what answers is no Warren node") from None
    if refusal is not None:
        raise RefusedError(refusal["code"], refusal["message"], refusal.get("fix", ""))
    return reply
