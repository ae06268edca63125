"""Commands that read a queue without consuming: what there is of it, and any part of it.

Ranges are of sequence ids, and belong to one incarnation of a queue; `purges` says how often it was
emptied. Whoever goes on with a range gives both back and is refused when the queue is another one
now (PL-4). The control socket is the operator's: no permission is asked for.
"""

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Final, final

from msgspec import Meta, Struct

from warren.queues import Queue
from warren.queues.ranged import LevelView, Range, RangeRecord, levels_of, stable_of
from warren.queues.retention import held_from
from warren.queues.storage import LEVEL_BITS
from warren.server.changing import Args, Name, vhost_named
from warren.server.control import Code, Command, ControlError, command
from warren.server.ranging import check, held, read_range
from warren.server.view import NodeView
from warren.store.readable import live_runs
from warren.store.segment import segment_path

if TYPE_CHECKING:
    from warren.server.node import Node
    from warren.store.index import Segment

SEQ_MAX: Final = (1 << 62) - 1
LIMIT_MAX: Final = 1000
ANSWER_OCTETS_MAX: Final = 4 << 20
SEGMENTS_MAX: Final = 1000
# Records that are made ready for an answer in one slice.
SLICE: Final = 256

Seq = Annotated[int, Meta(ge=0, le=SEQ_MAX)]


class QueueArgs(Args, frozen=True, kw_only=True):
    vhost: Annotated[str, Meta(max_length=255)] = "/"
    queue: Name


class RangeInfoArgs(QueueArgs, frozen=True, kw_only=True):
    """Segments of each level from the one with `from_seq` on; `runs`: what lives in each.

    `history` has what is settled and kept, too.
    """

    from_seq: Seq = 0
    segments: Annotated[int, Meta(ge=0, le=SEGMENTS_MAX)] = SEGMENTS_MAX
    runs: bool = False
    history: bool = False


class SegmentRow(Struct, frozen=True, kw_only=True):
    """A segment with a file: ids from `first` to before `end`; `size` octets of the file count.

    `runs`: what may be read, as first ids and those behind the last.
    """

    number: int
    first: int
    end: int
    live: int
    file: str
    size: int
    runs: list[tuple[int, int]] | None = None


class LevelRow(Struct, frozen=True, kw_only=True):
    """A priority: what is below `disk_seq` is in files, the rest is read through the node."""

    priority: int
    ident: int
    live: int
    disk_seq: int
    segments: list[SegmentRow]
    more: bool


class RangeInfo(Struct, frozen=True, kw_only=True):
    """Nothing is below `first`; what is below `stable` may be read; `next_seq` is given next."""

    vhost: str
    queue: str
    incarnation: int
    purges: int
    durable: bool
    first: int
    stable: int
    next_seq: int
    ready: int
    unacked: int
    levels: list[LevelRow]
    # The first id that is kept when it is settled; None without a history.
    kept_from: int | None = None


class RangeReadArgs(QueueArgs, frozen=True, kw_only=True):
    """Ids from `from_seq` to before `to_seq`: at most `limit` messages and about `octets`.

    `body_from`, `body_max`: the part of each body that is told. `stored` false leaves out what is
    in the store; `history` has what is settled and kept, too.
    """

    incarnation: int | None = None
    purges: int | None = None
    from_seq: Seq = 0
    to_seq: Seq = SEQ_MAX
    limit: Annotated[int, Meta(ge=1, le=LIMIT_MAX)] = 100
    octets: Annotated[int, Meta(ge=1, le=ANSWER_OCTETS_MAX)] = 1 << 20
    body_from: Annotated[int, Meta(ge=0)] = 0
    body_max: Annotated[int, Meta(ge=0, le=ANSWER_OCTETS_MAX)] = ANSWER_OCTETS_MAX
    stored: bool = True
    history: bool = False


class RecordRow(Struct, frozen=True, kw_only=True):
    """One message: `state` is ready, unacked or settled; `ts`: when it was published, microseconds.

    `properties` as on the wire and `body` in base 64; `size` is that of the whole body.
    """

    seq: int
    state: str
    redelivered: bool
    ts: int | None
    exchange: str
    routing_key: str
    properties: bytes
    size: int
    body: bytes


class GapRow(Struct, frozen=True, kw_only=True):
    """Ids without a message, and why: settled, not_stored, gone, unreadable."""

    first: int
    end: int
    reason: str


class RangePage(Struct, frozen=True, kw_only=True):
    """Go on at `next_seq`; `end`: nothing more may be read of the range now."""

    incarnation: int
    purges: int
    next_seq: int
    stable: int
    end: bool
    records: list[RecordRow]
    gaps: list[GapRow]


@final
class _Ranges:
    def __init__(self, node: "Node") -> None:
        self.node = node

    async def info(self, view: NodeView, args: RangeInfoArgs) -> RangeInfo:
        queue = queue_named(self.node, args)
        first = await self._first(queue)
        if args.history:
            kept = held_from(queue)
            first = first if kept is None else min(first, kept)
        # What is in files is told below; the node has the rest, whatever happens meanwhile.
        seqs = int(queue.next_seq), stable_of(queue)
        counts = int(queue.ready()), int(queue.unacked_count)
        incarnation, purges = int(queue.incarnation), int(queue.purge_count)
        levels = [
            await _level_row(level, queue, args)
            for level in levels_of(queue)
            if level.index is not None
        ]
        check(queue_named(self.node, args), incarnation, purges)
        return RangeInfo(
            vhost=args.vhost,
            queue=args.queue,
            incarnation=incarnation,
            purges=purges,
            durable=bool(queue.durable),
            first=first,
            stable=seqs[1],
            next_seq=seqs[0],
            ready=counts[0],
            unacked=counts[1],
            levels=levels,
            kept_from=held_from(queue),
        )

    async def _first(self, queue: Queue) -> int:
        """The smallest id there may be."""
        first = int(queue.next_seq)
        for level in levels_of(queue):
            if level.index is not None and level.index.live > 0:
                first = min(first, int(level.index.first_live()))
            if level.backlog.count > 0:
                first = min(first, int(level.backlog.first_seq()))
            if level.returned.heap:
                first = min(first, int(level.returned.heap[0].seq))
        if queue.unacked_count > 0:
            for deliveries in held(self.node):
                mine = [int(one.seq) for one in deliveries if one.queue is queue]
                first = min(first, *mine, first)
                await asyncio.sleep(0)
        return first

    async def read(self, view: NodeView, args: RangeReadArgs) -> RangePage:
        queue = queue_named(self.node, args)
        check(queue, args.incarnation, args.purges)
        purges = int(queue.purge_count)
        wanted = Range(
            from_seq=args.from_seq,
            to_seq=args.to_seq,
            limit=args.limit,
            octets=args.octets,
            body_from=args.body_from,
            body_max=args.body_max,
            stored=args.stored,
            history=args.history,
        )
        done = await read_range(self.node, queue, wanted)
        rows: list[RecordRow] = []
        for begin in range(0, len(done.records), SLICE):
            if begin:
                await asyncio.sleep(0)
            rows += [_record_row(record) for record in done.records[begin : begin + SLICE]]
        return RangePage(
            incarnation=int(queue.incarnation),
            purges=purges,
            next_seq=done.next_seq,
            stable=done.stable,
            end=done.next_seq >= done.end,
            records=rows,
            gaps=[GapRow(first=gap[0], end=gap[1], reason=gap[2].value) for gap in done.gaps],
        )


def queue_named(node: "Node", args: QueueArgs) -> Queue:
    queue = vhost_named(node, args.vhost).queues.get(args.queue)
    if queue is None:
        message = f"there is no queue '{args.queue}' in vhost '{args.vhost}'"
        raise ControlError(Code.NOT_FOUND, message, "list_queues lists them")
    return queue


async def _level_row(level: LevelView, queue: Queue, args: RangeInfoArgs) -> LevelRow:
    index = level.index
    assert index is not None
    every = sorted(
        number
        for number, segment in index.segments.items()
        if segment.size > 0
        and (segment.live > 0 or (args.history and index.keeps(segment)))
        and segment.end > args.from_seq
    )
    disk_seq = int(index.disk_seq)
    rows = []
    for number in every[: args.segments]:
        segment = index.segments.get(number)
        if segment is not None:
            runs = (
                [(int(a), int(b)) for a, b in live_runs(index, number, args.history)]
                if args.runs
                else None
            )
            rows.append(_segment_row(int(index.ident), segment, runs))
        if args.runs:
            await asyncio.sleep(0)
    return LevelRow(
        priority=level.number,
        ident=int(queue.incarnation) << LEVEL_BITS | level.number,
        live=int(index.live),
        disk_seq=disk_seq,
        segments=rows,
        more=len(every) > args.segments,
    )


def _segment_row(ident: int, segment: "Segment", runs: list[tuple[int, int]] | None) -> SegmentRow:
    chunks = segment.chunks
    number = int(segment.number)
    return SegmentRow(
        number=number,
        first=int(chunks[0]) if len(chunks) else 0,
        end=int(chunks[-3]) + 1 if len(chunks) else 0,
        live=int(segment.live),
        file=segment_path(ident, number),
        size=int(segment.size),
        runs=runs,
    )


def _record_row(record: RangeRecord) -> RecordRow:
    tail = record.tail
    cut = 1 + tail[0]
    return RecordRow(
        seq=record.seq,
        state="settled" if record.settled else "ready" if record.ready else "unacked",
        redelivered=record.redelivered,
        ts=record.at_us or None,
        exchange=tail[1:cut].decode("utf-8", "backslashreplace"),
        routing_key=tail[cut + 1 :].decode("utf-8", "backslashreplace"),
        properties=record.props,
        size=record.size,
        body=record.body,
    )


def commands(node: "Node") -> Iterator[Command]:
    made = _Ranges(node)
    yield command(
        "range_info",
        "Which messages of a queue can be read, and where they are.",
        RangeInfoArgs,
        RangeInfo,
        made.info,
    )
    yield command(
        "range_read", "Read messages without consuming them.", RangeReadArgs, RangePage, made.read
    )
