"""The command that publishes a slice of a queue again: into a queue, or to an exchange.

The slice itself stays where it is. Each message carries a mark, the header `x-warren-replayed`: the
queue it was read from, its sequence id there and the incarnation. A request takes a part of the
slice and is answered when that part is confirmed, with the id to go on from: whoever stops, goes on
there. A part that ended half way (a full queue that refuses, a node that died) says so, or is done
again: at least once, and the mark tells doubles.

Messages are routed by one key; CC and BCC are not looked at. No permission is asked for: the
control socket is the operator's.
"""

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Final, final

from msgspec import Meta, Struct

from warren.core import AmqpError
from warren.protocol.delay import refusal_text
from warren.protocol.output import Outbox, Output
from warren.protocol.properties import readable_headers_of, scan, with_headers
from warren.protocol.value import LONG, LONG_STRING, TABLE, Field
from warren.queues import PENDING, REFUSED, ConfirmLedger, Message, QueueRef, compose_tail
from warren.queues.ranged import Range, RangeRecord
from warren.routing import Exchange, check_publishable
from warren.server.as_user import confirmed, refusal_of
from warren.server.changing import Name, vhost_named
from warren.server.command_range import (
    ANSWER_OCTETS_MAX,
    LIMIT_MAX,
    SEQ_MAX,
    QueueArgs,
    Seq,
    queue_named,
)
from warren.server.control import Code, Command, ControlError, command
from warren.server.ranging import check, read_range
from warren.server.view import NodeView
from warren.session.route import queue_refs

if TYPE_CHECKING:
    from warren.queues import Queue
    from warren.server.node import Node
    from warren.vhost import VHost

MARK: Final = "x-warren-replayed"
# Messages that are published in one slice of a turn.
SLICE: Final = 64
BOUND: Final = 1 << 62

Text = Annotated[str, Meta(max_length=255)]


class ReplayArgs(QueueArgs, frozen=True, kw_only=True):
    """Publish `from_seq` to before `to_seq` again: `into` a queue, or to an `exchange`.

    Without a routing key each message keeps its own. `history` has what is settled and kept, too.
    """

    incarnation: int | None = None
    purges: int | None = None
    from_seq: Seq = 0
    to_seq: Seq = SEQ_MAX
    limit: Annotated[int, Meta(ge=1, le=LIMIT_MAX)] = 100
    into: Name | None = None
    exchange: Text | None = None
    routing_key: Text | None = None
    history: bool = False


class Replayed(Struct, frozen=True, kw_only=True):
    """What was published and confirmed of the slice; go on at `next_seq`.

    `refused`: a full queue did not take the message at `next_seq`. `unroutable` reached no queue.
    """

    incarnation: int
    purges: int
    next_seq: int
    end: bool
    published: int
    unroutable: int
    refused: bool


@final
class _Target:
    """Where messages go."""

    def __init__(self, home: "VHost", args: ReplayArgs) -> None:
        self.home = home
        self.into = args.into
        self.key = None if args.routing_key is None else args.routing_key.encode()
        self.exchange = args.exchange or ""
        if self.key is not None and len(self.key) > 255:
            raise ControlError(Code.BAD_ARGUMENTS, "a routing key has at most 255 octets")
        if self.into is not None and (args.exchange is not None or self.key is not None):
            raise ControlError(Code.BAD_ARGUMENTS, "into a queue, or to an exchange, not both")
        self._find()

    def _find(self) -> "Queue | Exchange":
        """Look it up: it may be gone between two slices."""
        where: Queue | Exchange | None
        if self.into is not None:
            what, name = "queue", self.into
            where = self.home.queues.get(name)
        else:
            what, name = "exchange", self.exchange
            where = self.home.routing.exchange_by_key(name.encode())
            if where is not None:
                try:
                    check_publishable(where, self.home.name)
                except AmqpError as refusal:
                    raise refusal_of(refusal) from None
        if where is None:
            message = f"there is no {what} '{name}' in vhost '{self.home.name}'"
            raise ControlError(Code.NOT_FOUND, message)
        return where

    def targets(self, message: Message) -> list[QueueRef]:
        where = self._find()
        if not isinstance(where, Exchange):
            return [where]
        routing = self.home.routing
        headers = readable_headers_of(message.props)
        sinks = routing.route(where, message.routing_key(), None, headers, message.props)
        if routing.reach.refusal:
            raise ControlError(Code.REFUSED, refusal_text(routing.reach.refusal))
        return queue_refs(sinks)

    def tail(self, record: RangeRecord) -> bytes:
        if self.into is not None:
            return compose_tail(b"", self.into.encode())
        key = record.tail[2 + record.tail[0] :] if self.key is None else self.key
        return compose_tail(self.exchange.encode(), key)


@final
class _Replays:
    def __init__(self, node: "Node") -> None:
        self.node = node

    async def replay(self, view: NodeView, args: ReplayArgs) -> Replayed:
        alarms = self.node.broker.alarms.in_force()
        if alarms:
            sources = ", ".join(sorted({one.source.value for one in alarms}))
            raise ControlError(Code.BUSY, f"publishers are blocked: low on {sources}")
        queue = queue_named(self.node, args)
        check(queue, args.incarnation, args.purges)
        target = _Target(vhost_named(self.node, args.vhost), args)
        incarnation, purges = int(queue.incarnation), int(queue.purge_count)
        wanted = Range(
            from_seq=args.from_seq,
            to_seq=args.to_seq,
            limit=args.limit,
            octets=ANSWER_OCTETS_MAX,
            history=args.history,
        )
        read = await read_range(self.node, queue, wanted)
        publish = _Publish(self.node, target, args.queue, incarnation)
        next_seq = read.next_seq
        try:
            for begin in range(0, len(read.records), SLICE):
                stopped = publish.some(read.records[begin : begin + SLICE])
                if stopped is not None:
                    next_seq = stopped
                    break
                await asyncio.sleep(0)
            taken = await confirmed(publish.ledger)
        finally:
            publish.ledger.closed = True
            publish.output.discard()
        if not taken:
            message = f"some of what was published from {args.from_seq} on was not confirmed"
            raise ControlError(Code.REFUSED, message, "see `warren health`, and go on from there")
        return Replayed(
            incarnation=incarnation,
            purges=purges,
            next_seq=next_seq,
            end=next_seq >= read.end,
            published=publish.published,
            unroutable=publish.unroutable,
            refused=publish.refused,
        )


@final
class _Publish:
    """The publishes of one request."""

    def __init__(self, node: "Node", target: _Target, queue: str, incarnation: int) -> None:
        self.node = node
        self.target = target
        self.queue = queue
        self.incarnation = incarnation
        self.output = Output(Outbox(), BOUND)
        self.ledger = ConfirmLedger(1, self.output)
        self.published = 0
        self.unroutable = 0
        self.refused = False

    def some(self, records: list[RangeRecord]) -> int | None:
        """Publish these; return the id of the first that was refused."""
        self.node.hub.begin()
        for record in records:
            message = self._message(record)
            targets = self.target.targets(message)
            if not self._hand_over(message, targets):
                self.refused = True
                return record.seq
            self.published += 1
            self.unroutable += not targets
        return None

    def _hand_over(self, message: Message, targets: list[QueueRef]) -> bool:
        ledger = self.ledger
        number = int(ledger.published) + 1
        ledger.published = number
        owed = 0
        taken = True
        for target in targets:
            answer = target.publish(message, ledger, number)
            taken = taken and answer != REFUSED
            owed += answer == PENDING
        if owed:
            ledger.owe(number, owed)
        return taken

    def _message(self, record: RangeRecord) -> Message:
        headers = readable_headers_of(record.props)
        headers[MARK] = Field(
            TABLE,
            {
                "queue": Field(LONG_STRING, self.queue.encode()),
                "seq": Field(LONG, record.seq),
                "incarnation": Field(LONG, self.incarnation),
            },
        )
        props = with_headers(record.props, headers)
        traits = scan(props, 0, len(props))
        return Message(self.target.tail(record), props, record.body, None, record.size, traits)


def commands(node: "Node") -> Iterator[Command]:
    yield command(
        "replay_range",
        "Publish a slice of a queue again.",
        ReplayArgs,
        Replayed,
        _Replays(node).replay,
    )
