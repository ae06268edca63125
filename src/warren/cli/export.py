"""`warren export`: the messages of a queue as JSON lines, from a running node or a stopped one.

Of a running node segment files are read here, as far as this process may read them, and only the
rest is asked of the node: messages in memory, the journal, large bodies. Where a file changes
meanwhile the node is asked instead. Of a stopped node everything is read here, and nothing written.
"""

import os
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from heapq import merge
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO, cast, final

from warren.cli.exit import FAILED, OK, UNAVAILABLE, CliError
from warren.cli.message_line import line
from warren.cli.slice import (
    SEQ_MAX,
    Info,
    Item,
    Node,
    add_end,
    linked,
    misuse,
    rest_of,
    slice_parser,
)

if TYPE_CHECKING:
    from warren.core.seam import Files
    from warren.store.record import Publish

# Segments that the node is asked about in one go.
SEGMENTS: Final = 16
SEGMENT_SHIFT: Final = 14
# The end of a file of lines that is gone on with.
TAIL_OCTETS: Final = 1 << 16


def export(words: Sequence[str]) -> int:
    """Write messages to a file or standard output, one line each."""
    parser = slice_parser(
        "export",
        "Write the messages of a queue as JSON lines without consuming them. With --data-dir of a "
        "node that does not run, from its files.",
    )
    add_end(parser)
    parser.add_argument("--format", choices=("jsonl",), default="jsonl", help="one line a message")
    parser.add_argument("--output", "-o", metavar="FILE", help="default: standard output")
    parser.add_argument(
        "--resume", action="store_true", help="go on behind the last whole line of --output"
    )
    given = parser.parse_args(words)
    if given.resume and not given.output:
        raise misuse("--resume needs --output")
    with _Lines(given) as lines:
        try:
            _export(given, lines)
        finally:
            lines.tell()
    return OK


def _export(given: Namespace, lines: "_Lines") -> None:
    try:
        with linked(given) as node:
            info = node.info()
            node.hold(info)
            lines.begin(info.incarnation, info.first, info.stable)
            for item in _running(node, _readable(given), lines.seq, lines.end):
                lines.write(item)
            lines.done()
    except CliError as failure:
        folder = _stopped_folder(given)
        if failure.code != UNAVAILABLE or folder is None or lines.count or given.history:
            raise
        from warren.cli.stopped import StoppedQueue

        with StoppedQueue(folder, given.vhost, given.queue) as queue:
            lines.begin(queue.incarnation, 0, queue.next_seq())
            for record in queue.records(lines.seq, lines.end):
                lines.write(_of_record(record, record.body))
            lines.done()
            if queue.problems():
                text = "; ".join(queue.problems())
                raise CliError(f"some messages could not be read: {text}", FAILED) from None


def _stopped_folder(given: Namespace) -> Path | None:
    """The folder to look into when no node answers; a socket alone names none."""
    from warren.cli.doctor import data_dir

    return None if given.socket else data_dir(given, os.environ)


# -- a running node --------------------------------------------------------------------------------


def _readable(given: Namespace) -> "Files | None":
    """The files of the node, if they are to be read here."""
    from warren.runtime.files import SystemFiles

    folder = _stopped_folder(given)
    if given.history or folder is None or not os.access(folder / "queues", os.R_OK | os.X_OK):
        return None
    return SystemFiles(folder, look_only=True)


def _running(node: Node, files: "Files | None", begin: int, end: int) -> Iterator[Item]:
    """Everything in a range, in order: windows from files, the rest from the node."""
    while files is not None and begin < end:
        info = node.info(begin, segments=SEGMENTS, runs=True)
        stop = min(end, _in_files(info))
        if stop <= begin:
            break
        for item in _window(node, files, info, begin, stop):
            begin = item.seq + 1
            yield item
        begin = stop
    yield from node.items(begin, end)


def _in_files(info: Info) -> int:
    """Up to which id everything that is stored stands in files that the node has told of."""
    stop = info.stable
    for level in info.levels:
        if not level["live"]:
            continue
        stop = min(stop, cast("int", level["disk_seq"]))
        segments = cast("list[dict[str, object]]", level["segments"])
        if level["more"]:
            last = cast("int", segments[-1]["number"]) if segments else -1
            stop = min(stop, (last + 1) << SEGMENT_SHIFT)
    return stop


def _window(node: Node, files: "Files", info: Info, begin: int, end: int) -> Iterator[Item]:
    """A range whose stored messages are in files; what is in memory is merged in."""
    from warren.store.reader import ChangedError, seq_of

    levels = [_level(files, level, begin, end) for level in info.levels]
    memory = node.items(begin, end, stored=False)
    stored = (
        _of_record(record, b"" if record.place else record.body)
        for record in merge(*levels, key=seq_of)
    )
    # A message that left memory for the disk meanwhile would be told twice.
    last = begin - 1
    try:
        for item in merge(stored, memory, key=lambda item: item.seq):
            if item.seq > last:
                last = item.seq
                if len(item.body) < item.size:
                    # Large bodies stand in the message store, which the node knows its way in.
                    yield from node.items(item.seq, item.seq + 1)
                else:
                    yield item
    except (ChangedError, OSError):
        yield from node.items(last + 1, end)


def _level(files: "Files", level: dict[str, object], begin: int, end: int) -> "Iterator[Publish]":
    from warren.store.reader import segment_records

    for segment in cast("list[dict[str, object]]", level["segments"]):
        yield from segment_records(
            files,
            cast("str", segment["file"]),
            cast("int", segment["size"]),
            cast("list[tuple[int, int]]", segment["runs"]),
            begin,
            end,
        )


def _of_record(record: "Publish", body: bytes) -> Item:
    tail = record.tail
    cut = 1 + tail[0]
    return Item(
        int(record.seq),
        "",
        False,
        int(record.at_us),
        tail[1:cut].decode("utf-8", "backslashreplace"),
        tail[cut + 1 :].decode("utf-8", "backslashreplace"),
        record.props,
        int(record.body_size),
        body,
    )


# -- lines -----------------------------------------------------------------------------------------


@final
class _Lines:
    """Where lines go, and from which id on."""

    def __init__(self, given: Namespace) -> None:
        self.given = given
        self.path = Path(given.output) if given.output else None
        self.out: TextIO = sys.stdout
        self.seq = 0
        self.end = 0
        self.incarnation = 0
        self.count = 0
        self.whole = False

    def __enter__(self) -> "_Lines":
        if self.path is not None:
            try:
                if self.given.resume:
                    self._resume(self.path)
                self.out = self.path.open("a" if self.given.resume else "w", encoding="utf-8")
            except OSError as failure:
                raise CliError(f"{self.path}: {failure.strerror}", FAILED) from None
        return self

    def __exit__(self, *_: object) -> None:
        if self.path is not None:
            self.out.close()

    def _resume(self, path: Path) -> None:
        """Cut off a line without its end, and go on behind the one before."""
        import json

        if not path.exists():
            return
        with path.open("r+b") as file:
            size = file.seek(0, os.SEEK_END)
            begin = size
            tail = b""
            while begin > 0 and tail.count(b"\n") < 2:
                begin = max(0, begin - TAIL_OCTETS)
                file.seek(begin)
                tail = file.read(size - begin)
            whole = tail[: tail.rfind(b"\n") + 1]
            file.truncate(begin + len(whole))
            if whole:
                try:
                    last = json.loads(whole[:-1].rpartition(b"\n")[2])
                    self.given.first = int(last["seq"]) + 1
                    self.given.incarnation = int(last["incarnation"])
                except (ValueError, KeyError, TypeError):
                    raise CliError(f"{path} does not end like an export", FAILED) from None

    def begin(self, incarnation: int, first: int, stable: int) -> None:
        given = self.given
        if given.incarnation is not None and given.incarnation != incarnation:
            message = f"the queue is not {given.incarnation} but {incarnation}: it was made anew"
            raise CliError(message, FAILED)
        self.incarnation = incarnation
        self.seq = first if given.first is None else given.first
        self.end = min(stable, SEQ_MAX if given.end is None else given.end)

    def write(self, item: Item) -> None:
        self.out.write(line(item, self.incarnation) + "\n")
        self.seq = item.seq + 1
        self.count += 1

    def done(self) -> None:
        self.out.flush()
        self.seq = max(self.seq, self.end)
        self.whole = True

    def tell(self) -> None:
        """Say to people how it went, and how to go on."""
        if not self.incarnation:
            return
        print(f"exported {self.count:,} messages", file=sys.stderr)
        options = {
            "--vhost": None if self.given.vhost == "/" else self.given.vhost,
            "--from": self.seq,
            "--incarnation": self.incarnation,
            "--to": None if self.whole else self.given.end,
        }
        rest = rest_of("export", self.given.queue, options)
        print(f"{'what comes later' if self.whole else 'go on'}: {rest}", file=sys.stderr)
