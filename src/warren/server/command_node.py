"""Commands about the node as a whole: its state, its waits, its health, its end."""

import os
import re
from typing import Annotated, Final

from msgspec import Meta, Struct

from warren.flow.wait import Kind, Subject
from warren.server.control import Code, ControlError, NoArgs, command
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

# A page for people; a script that wants all asks again with an offset.
ROWS_MAX: Final = 1000


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
    # A connection's name has both ends in other places.
    names = dict.fromkeys((name, re.sub(r" -> \S+", "", name)))
    return [
        Subject(kind, name, vhost if kind in _IN_VHOST else "") for name in names for kind in kinds
    ]


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
    command("queue_page", "Some of the queues.", QueueArgs, QueuePage, _queues),
    command("connection_page", "Some of the connections.", PageArgs, ConnectionPage, _connections),
)
