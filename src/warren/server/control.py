"""The control interface: a registry of typed commands, apart from any transport.

A command exists once, here or where a later part adds it: a name, a line for people, the types of
its arguments and its reply. The command line, the management process and other nodes are clients.

One request, one reply, as JSON:

    {"v": 1, "id": 7, "command": "why", "args": {"subject": "queue:orders"}}
    {"v": 1, "id": 7, "ok": {...}}
    {"v": 1, "id": 7, "error": {"code": "not_found", "message": "...", "fix": "..."}}

Invariant: `Control.answer` returns a reply for every sequence of bytes and never raises; what goes
wrong inside a command is logged and told as `internal`.
"""

import inspect
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final, TypeVar, final

import msgspec
from msgspec import Meta, Struct

from warren.core.log import EventLog
from warren.flow.wait import Kind, Subject
from warren.server.view import (
    ConnectionPage,
    Diag,
    Health,
    NodeView,
    QueuePage,
    Status,
    UnknownSubjectError,
    WhyReply,
)

VERSION: Final = 1
# A page for people; a script that wants all asks again with an offset.
ROWS_MAX: Final = 1000


class Code(StrEnum):
    """Why a request was refused."""

    BAD_REQUEST = "bad_request"
    BAD_VERSION = "bad_version"
    UNKNOWN_COMMAND = "unknown_command"
    BAD_ARGUMENTS = "bad_arguments"
    NOT_FOUND = "not_found"
    TOO_LARGE = "too_large"
    BUSY = "busy"
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


A = TypeVar("A")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Command:
    """One command: its name, its line of help, and how raw arguments become a reply."""

    name: str
    doc: str
    run: Callable[[NodeView, msgspec.Raw], Awaitable[object]]


def command(
    name: str,
    doc: str,
    args: type[A],
    reply: type[R],
    run: Callable[[NodeView, A], R | Awaitable[R]],
) -> Command:
    """Make a command of a function, typed at both ends."""
    decoder = msgspec.json.Decoder(args)

    async def typed(view: NodeView, raw: msgspec.Raw) -> object:
        try:
            given = decoder.decode(raw)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as refusal:
            raise ControlError(Code.BAD_ARGUMENTS, f"{name}: {refusal}") from None
        result = run(view, given)
        found = await result if inspect.isawaitable(result) else result
        if not isinstance(found, reply):
            raise TypeError(f"{name} returned {type(found).__name__}, not {reply.__name__}")
        return found

    return Command(name, doc, typed)


@final
class Control:
    """The commands of one node."""

    def __init__(self, view: NodeView, log: EventLog) -> None:
        self._view = view
        self._log = log
        self._commands: dict[str, Command] = {}
        for one in COMMANDS:
            self.add(one)
        self.add(command("commands", "List the commands.", NoArgs, CommandList, self._list))

    def add(self, one: Command) -> None:
        """Add a command; its name must be new."""
        if one.name in self._commands:
            raise ValueError(f"command {one.name} exists")
        self._commands[one.name] = one

    async def answer(self, request: bytes) -> bytes:
        """Answer one request."""
        asked: int | str | None = None
        try:
            envelope = _decode(request)
            asked = envelope.id
            reply = msgspec.json.encode(_Ok(v=VERSION, id=asked, ok=await self._run(envelope)))
        except ControlError as refusal:
            reply = refused(refusal, asked)
        except Exception as failure:  # The supervisor of commands: a bug must not stop the node.
            self._log.event("error", "control.failed", {"error": repr(failure)})
            message = f"the command failed: {type(failure).__name__}"
            reply = refused(ControlError(Code.INTERNAL, message, "see the node's log"), asked)
        return reply

    async def _run(self, envelope: _Request) -> object:
        if envelope.v != VERSION:
            message = f"version {envelope.v} is not spoken here, only {VERSION}"
            raise ControlError(Code.BAD_VERSION, message, "use the tool of the node's version")
        one = self._commands.get(envelope.command)
        if one is None:
            known = ", ".join(sorted(self._commands))
            message = f"there is no command {envelope.command[:64]!r}"
            raise ControlError(Code.UNKNOWN_COMMAND, message, f"commands are {known}")
        return await one.run(self._view, envelope.args)

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


class WhyArgs(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`subject` is KIND:NAME, or a bare name; empty asks for everything that waits."""

    subject: Annotated[str, Meta(max_length=1024)] = ""
    vhost: Annotated[str, Meta(max_length=255)] = "/"


class StopArgs(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why the node is stopped, for its log."""

    reason: Annotated[str, Meta(max_length=255)] = "asked by the operator"


class StopReply(Struct, frozen=True, kw_only=True):
    """The process that will end."""

    pid: int


class PageArgs(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which part of a list."""

    offset: Annotated[int, Meta(ge=0)] = 0
    limit: Annotated[int, Meta(ge=1, le=ROWS_MAX)] = 100


class QueueArgs(PageArgs, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which part of the queues; without `vhost`, of all virtual hosts."""

    vhost: str | None = None


def _why(view: NodeView, args: WhyArgs) -> WhyReply:
    if not args.subject:
        return view.why(None)
    for subject in subjects(args.subject, vhost=args.vhost):
        try:
            return view.why(subject)
        except UnknownSubjectError:
            continue
    kinds = ", ".join(kind.value for kind in Kind)
    fix = f"name it as KIND:NAME, with KIND one of {kinds}; --vhost for another than {args.vhost}"
    raise ControlError(Code.NOT_FOUND, f"there is no {args.subject!r} on this node", fix)


# What lives in a virtual host; the rest has names that are unique on the node.
_IN_VHOST: Final = frozenset({Kind.QUEUE})


def subjects(written: str, *, vhost: str) -> list[Subject]:
    """Return what KIND:NAME means; a bare name may be of any kind."""
    head, colon, name = written.partition(":")
    if colon and head in {kind.value for kind in Kind}:
        kinds = [Kind(head)]
    else:
        kinds, name = [Kind.QUEUE, Kind.CONNECTION, Kind.CHANNEL, Kind.CONSUMER], written
    return [Subject(kind, name, vhost if kind in _IN_VHOST else "") for kind in kinds]


def _stop(view: NodeView, args: StopArgs) -> StopReply:
    view.stop(args.reason)
    return StopReply(pid=os.getpid())


def _queues(view: NodeView, args: QueueArgs) -> QueuePage:
    return view.queues(vhost=args.vhost, offset=args.offset, limit=args.limit)


def _connections(view: NodeView, args: PageArgs) -> ConnectionPage:
    return view.connections(offset=args.offset, limit=args.limit)


COMMANDS: Final = (
    command("status", "The node on one page.", NoArgs, Status, lambda view, _: view.status()),
    command("why", "Explain why an object waits, or all that wait.", WhyArgs, WhyReply, _why),
    command("health", "Check the node.", NoArgs, Health, lambda view, _: view.health()),
    command("stop", "Stop the node in good order.", StopArgs, StopReply, _stop),
    command("diag", "What a bug report needs.", NoArgs, Diag, lambda view, _: view.diag()),
    command("list_queues", "List queues.", QueueArgs, QueuePage, _queues),
    command("list_connections", "List connections.", PageArgs, ConnectionPage, _connections),
)
