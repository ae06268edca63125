"""What the verbs that read ranges share: the options, the conversation, and where a range ends."""

import base64
import shlex
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, cast, final

from warren.cli.asked import asked
from warren.cli.ctl.link import Link
from warren.cli.exit import FAILED, USAGE, CliError
from warren.cli.question import asking_parser

TIMEOUT_S: Final = 60
PAGE: Final = 1000
OCTETS: Final = 4 << 20
SEQ_MAX: Final = (1 << 62) - 1
NUMBERS: Final = ("incarnation", "purges", "first", "stable", "next_seq", "ready", "unacked")


@dataclass(slots=True, frozen=True)
class Item:
    """One message as it is told; `size` is that of the whole body."""

    seq: int
    state: str
    redelivered: bool
    ts: int | None
    exchange: str
    routing_key: str
    props: bytes
    size: int
    body: bytes


@dataclass(slots=True, frozen=True)
class GapItem:
    first: int
    end: int
    reason: str


@dataclass(slots=True, frozen=True)
class Info:
    """What the node says of a queue."""

    incarnation: int
    purges: int
    first: int
    stable: int
    next_seq: int
    ready: int
    unacked: int
    levels: list[dict[str, object]]


def slice_parser(verb: str, line: str) -> ArgumentParser:
    parser = asking_parser(verb, line, timeout_s=TIMEOUT_S)
    parser.add_argument("queue", help="name of the queue")
    parser.add_argument("--vhost", "-p", default="/", help="virtual host (default /)")
    parser.add_argument("--history", action="store_true", help="with what is settled and kept")
    parser.add_argument(
        "--from",
        dest="first",
        type=_seq,
        default=None,
        metavar="SEQ",
        help="sequence id to begin at",
    )
    return parser


def add_end(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--to", dest="end", type=_seq, default=None, metavar="SEQ", help="stop before this id"
    )
    parser.add_argument(
        "--incarnation",
        type=_seq,
        default=None,
        metavar="N",
        help="refuse if the queue is not this one any more: as the run before printed it",
    )


def _seq(text: str) -> int:
    value = int(text)
    if not 0 <= value <= SEQ_MAX:
        raise ValueError(text)
    return value


@contextmanager
def linked(given: Namespace) -> Iterator["Node"]:
    """Give the node that the options name; what goes wrong is told as for any verb."""
    with asked(given) as link:
        yield Node(link, given)


@final
class Node:
    """A queue of a node, asked range by range."""

    def __init__(self, link: Link, given: Namespace) -> None:
        self.link = link
        self.timeout_s: float = given.timeout
        self.place = {"vhost": given.vhost, "queue": given.queue}
        self.history: bool = given.history
        self.keys: dict[str, object] = {}
        if getattr(given, "incarnation", None) is not None:
            self.keys["incarnation"] = given.incarnation

    def ask(self, command: str, **args: object) -> dict[str, object]:
        """Each question has its own time."""
        self.link.deadline = time.monotonic() + self.timeout_s
        if self.history:
            args["history"] = True
        return self.link.ask(command, **self.place, **args)

    def info(self, begin: int = 0, *, segments: int = 0, runs: bool = False) -> Info:
        told = self.ask("range_info", from_seq=begin, segments=segments, runs=runs)
        levels = cast("list[dict[str, object]]", told["levels"])
        numbers = {name: cast("int", told[name]) for name in NUMBERS}
        return Info(levels=levels, **numbers)

    def hold(self, info: Info) -> None:
        """From now on it must stay the queue that it is."""
        self.keys = {"purges": info.purges, "incarnation": info.incarnation, **self.keys}

    def page(
        self, begin: int, end: int, **options: object
    ) -> tuple[list[Item], list[GapItem], int, bool]:
        """Messages, gaps, where to go on, and whether that was all."""
        told = self.ask("range_read", from_seq=begin, to_seq=end, **self.keys, **options)
        items = [_item(row) for row in cast("list[dict[str, object]]", told["records"])]
        gaps = [GapItem(**row) for row in cast("list[dict[str, object]]", told["gaps"])]  # type: ignore[arg-type]
        return items, gaps, cast("int", told["next_seq"]), bool(told["end"])

    def items(self, begin: int, end: int, *, stored: bool = True) -> Iterator[Item]:
        """Everything in a range, with whole bodies."""
        done = False
        while not done and begin < end:
            items, _, begin, done = self.page(begin, end, limit=PAGE, octets=OCTETS, stored=stored)
            for item in items:
                yield self.whole(item)

    def whole(self, item: Item) -> Item:
        """The same with all of its body: a large one comes in parts."""
        if len(item.body) >= item.size:
            return item
        parts = [item.body]
        have = len(item.body)
        while have < item.size:
            options = {"limit": 1, "octets": OCTETS, "body_from": have}
            items, _, _, _ = self.page(item.seq, item.seq + 1, **options)
            if not items or not items[0].body:
                message = f"message {item.seq} was settled while its body was read"
                raise CliError(message, FAILED)
            parts.append(items[0].body)
            have += len(items[0].body)
        return Item(
            item.seq,
            item.state,
            item.redelivered,
            item.ts,
            item.exchange,
            item.routing_key,
            item.props,
            item.size,
            b"".join(parts),
        )


def _item(row: dict[str, object]) -> Item:
    octets = {name: base64.b64decode(cast("str", row[name])) for name in ("properties", "body")}
    return Item(
        cast("int", row["seq"]),
        cast("str", row["state"]),
        bool(row["redelivered"]),
        cast("int | None", row["ts"]),
        cast("str", row["exchange"]),
        cast("str", row["routing_key"]),
        octets["properties"],
        cast("int", row["size"]),
        octets["body"],
    )


def rest_of(verb: str, queue: str, options: Mapping[str, object]) -> str:
    """The command that goes on where one ended."""
    words = ["warren", verb, queue]
    for name, value in options.items():
        words += [] if value is None else [name, str(value)]
    return shlex.join(words)


def misuse(message: str) -> CliError:
    return CliError(message, USAGE)
