"""The control interface: a registry of typed commands, apart from any transport.

A command exists once, in the `command_*` module of its subject: a name, a line for people, the
types of its arguments and its reply. The command line, the management process and other nodes are
clients.

One request, one reply, as JSON. A list that may be long comes in parts before its last line, each
made in one slice of a turn, so that a list of everything never stops the messages:

    {"v": 1, "id": 7, "command": "why", "args": {"subject": "queue:orders"}}
    {"v": 1, "id": 7, "ok": {...}}
    {"v": 1, "id": 7, "error": {"code": "not_found", "message": "...", "fix": "..."}}

    {"v": 1, "id": 8, "command": "list_queues", "args": {"columns": ["name"]}}
    {"v": 1, "id": 8, "rows": [["orders"], ["bills"]]}
    {"v": 1, "id": 8, "ok": {"count": 2}}

Invariant: `Control.replies` gives a last reply (`ok` or `error`) for every sequence of bytes and
never raises; what goes wrong inside a command is logged and told as `internal`.
"""

import inspect
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Sequence,
)
from contextlib import aclosing
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar, final

import msgspec
from msgspec import Struct

from warren.core.log import EventLog
from warren.server.view import NodeView

VERSION: Final = 1


class Code(StrEnum):
    """Why a request was refused."""

    BAD_REQUEST = "bad_request"
    BAD_VERSION = "bad_version"
    UNKNOWN_COMMAND = "unknown_command"
    BAD_ARGUMENTS = "bad_arguments"
    NOT_FOUND = "not_found"
    EXISTS = "exists"
    REFUSED = "refused"
    TOO_LARGE = "too_large"
    BUSY = "busy"
    WRONG_INCARNATION = "wrong_incarnation"
    PURGED = "purged"
    DELETED = "deleted"
    # A cursor belongs to somebody with a newer token; what is asked for is not kept any more.
    FENCED = "fenced"
    GONE = "gone"
    INTERNAL = "internal"


class ControlError(Exception):
    """A refusal: code, what is wrong, what to do."""

    def __init__(self, code: Code, message: str, fix: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.fix = fix


class _Request(Struct, kw_only=True):
    v: int
    command: str
    id: int | str | None = None
    args: msgspec.Raw = msgspec.Raw(b"{}")


class _Refusal(Struct, kw_only=True):
    code: str
    message: str
    fix: str


class _Ok(Struct, kw_only=True):
    v: int
    id: int | str | None
    ok: object


class _Error(Struct, kw_only=True):
    v: int
    id: int | str | None
    error: _Refusal


class _Part(Struct, kw_only=True):
    v: int
    id: int | str | None
    rows: Sequence[object]


class Listed(Struct, frozen=True, kw_only=True):
    """The end of a list that came in parts: how many rows there were."""

    count: int


A = TypeVar("A")
R = TypeVar("R")
# The rows of a list, one slice of a turn's work after the other; a slice may be empty.
Slices = Iterator[Sequence[object]]


@dataclass(frozen=True, slots=True)
class Command:
    """One command: its name, its line of help, and how raw arguments become a reply.

    `run` gives the reply, or the slices of a list: then their rows are sent as they are made.
    """

    name: str
    doc: str
    run: Callable[[NodeView, msgspec.Raw], Awaitable[object]]
    listing: bool = False


def command(
    name: str,
    doc: str,
    args: type[A],
    reply: type[R],
    run: Callable[[NodeView, A], R | Awaitable[R]],
) -> Command:
    """Make a command of a function, typed at both ends."""
    read = _reader(name, args)

    async def typed(view: NodeView, raw: msgspec.Raw) -> object:
        result = run(view, read(raw))
        found = await result if inspect.isawaitable(result) else result
        if not isinstance(found, reply):
            raise TypeError(f"{name} returned {type(found).__name__}, not {reply.__name__}")
        return found

    return Command(name, doc, typed)


def listing(name: str, doc: str, args: type[A], rows: Callable[[NodeView, A], Slices]) -> Command:
    """Make a command of a generator of rows that stops after each bounded slice of work."""
    read = _reader(name, args)

    async def typed(view: NodeView, raw: msgspec.Raw) -> object:
        return rows(view, read(raw))

    return Command(name, doc, typed, listing=True)


def stream(
    name: str,
    doc: str,
    args: type[A],
    rows: Callable[[NodeView, A], AsyncGenerator[Sequence[object]]],
) -> Command:
    """Make a command whose rows come as they come, and need not end; it does its own slicing."""
    read = _reader(name, args)

    async def typed(view: NodeView, raw: msgspec.Raw) -> object:
        return rows(view, read(raw))

    return Command(name, doc, typed, listing=True)


def _reader(name: str, args: type[A]) -> Callable[[msgspec.Raw], A]:
    decoder = msgspec.json.Decoder(args)

    def read(raw: msgspec.Raw) -> A:
        try:
            return decoder.decode(raw)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as refusal:
            raise ControlError(Code.BAD_ARGUMENTS, f"{name}: {refusal}") from None

    return read


@final
class Control:
    """The commands of one node."""

    def __init__(self, view: NodeView, log: EventLog, commands: Iterable[Command] = ()) -> None:
        self._view = view
        self._log = log
        self._commands: dict[str, Command] = {}
        for one in commands:
            self.add(one)
        self.add(command("commands", "List the commands.", NoArgs, CommandList, self._list))

    def add(self, one: Command) -> None:
        """Add a command; its name must be new."""
        if one.name in self._commands:
            raise ValueError(f"command {one.name} exists")
        self._commands[one.name] = one

    async def answer(self, request: bytes) -> bytes:
        """Answer one request; the parts of a list are lines before the last one."""
        return b"\n".join([reply async for reply in self.replies(request) if reply])

    async def replies(self, request: bytes) -> AsyncGenerator[bytes]:
        """Answer one request: parts as they are made, then the last reply.

        Whoever iterates lets the loop turn after each; one without octets is for that alone.
        """
        asked: int | str | None = None
        try:
            envelope = _decode(request)
            asked = envelope.id
            one = self._named(envelope)
            result = await one.run(self._view, envelope.args)
            if one.listing and isinstance(result, Iterator):
                count = 0
                for rows in result:
                    count += len(rows)
                    part = _Part(v=VERSION, id=asked, rows=rows)
                    yield msgspec.json.encode(part) if rows else b""
                result = Listed(count=count)
            elif isinstance(result, AsyncGenerator):
                async with aclosing(result):
                    async for rows in result:
                        part = _Part(v=VERSION, id=asked, rows=rows)
                        yield msgspec.json.encode(part)
                result = Listed(count=0)
            reply = msgspec.json.encode(_Ok(v=VERSION, id=asked, ok=result))
        except ControlError as refusal:
            reply = refused(refusal, asked)
        except Exception as failure:  # The supervisor of commands: a bug must not stop the node.
            self._log.event("error", "control.failed", {"error": repr(failure)})
            message = f"the command failed: {type(failure).__name__}"
            reply = refused(ControlError(Code.INTERNAL, message, "see the node's log"), asked)
        yield reply

    def _named(self, envelope: _Request) -> Command:
        if envelope.v != VERSION:
            message = f"version {envelope.v} is not spoken here, only {VERSION}"
            raise ControlError(Code.BAD_VERSION, message, "use the tool of the node's version")
        one = self._commands.get(envelope.command)
        if one is None:
            known = ", ".join(sorted(self._commands))
            message = f"there is no command {envelope.command[:64]!r}"
            raise ControlError(Code.UNKNOWN_COMMAND, message, f"commands are {known}")
        return one

    def _list(self, view: NodeView, args: "NoArgs") -> "CommandList":
        return CommandList(commands={one.name: one.doc for one in self._commands.values()})


def _decode(request: bytes) -> _Request:
    try:
        return _REQUEST.decode(request)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as refusal:
        raise ControlError(Code.BAD_REQUEST, f"not a request: {refusal}") from None


_REQUEST: Final = msgspec.json.Decoder(_Request)


def refused(refusal: ControlError, asked: int | str | None = None) -> bytes:
    """Return the reply that refuses a request."""
    told = _Refusal(code=refusal.code.value, message=refusal.message, fix=refusal.fix)
    return msgspec.json.encode(_Error(v=VERSION, id=asked, error=told))


class NoArgs(Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of a command that takes none."""


class CommandList(Struct, frozen=True, kw_only=True):
    """The commands and what they do."""

    commands: dict[str, str]
