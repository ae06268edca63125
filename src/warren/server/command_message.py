"""Commands that publish a message, and take messages from a queue, on behalf of a user.

A publish is answered when it is confirmed. Messages that are got come in slices and stay
unacknowledged until the last one is told; whatever ends it before that brings them back.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Final, Literal, final

from msgspec import Meta, Struct

from warren.core import AmqpError
from warren.protocol.wire import DecodeError
from warren.queues import ConfirmLedger, Delivery, Queue
from warren.queues.gate import GATE_TRACED
from warren.queues.queue import Got
from warren.security import Access
from warren.server.as_user import LOOK_COUNT, LOOK_S, confirmed, let_go, refusal_of, stand_in
from warren.server.changing import Args, Name
from warren.server.control import Code, Command, ControlError, command, stream
from warren.server.list_cell import SLICE_NS
from warren.server.view import NodeView
from warren.session.access import check_access
from warren.session.channel import Channel
from warren.session.publish import publish
from warren.session.queue_method import existing
from warren.session.route import any_routed
from warren.session.settle import reject, settle

if TYPE_CHECKING:
    from warren.server.node import Node

Text = Annotated[str, Meta(max_length=255)]
# What is told of one message must fit into a line.
PAYLOAD_OCTETS_MAX: Final = 32 << 20


class PublishArgs(Args, frozen=True, kw_only=True):
    """`properties` as on the wire, from the flags on; this and the payload in base 64."""

    user: Name
    vhost: Text = "/"
    exchange: Text
    routing_key: Text
    properties: bytes = b"\x00\x00"
    payload: bytes = b""


class Published(Struct, frozen=True, kw_only=True):
    """`refused`: a full queue did not take it."""

    routed: bool
    refused: bool


class GetArgs(Args, frozen=True, kw_only=True):
    """`truncate`: so many octets of a payload are told, -1 for all."""

    user: Name
    vhost: Text = "/"
    queue: Text
    count: Annotated[int, Meta(ge=0)]
    then: Literal["ack", "requeue", "reject"]
    truncate: Annotated[int, Meta(ge=-1)] = -1


# The size of the payload, redelivered, exchange, routing key, how many are left, properties as on
# the wire, payload.
MessageRow = tuple[int, bool, str, str, int, bytes, bytes]


@final
class _Messages:
    def __init__(self, node: "Node") -> None:
        self.node = node
        self.clock = node.clock

    async def publish(self, view: NodeView, args: PublishArgs) -> Published:
        alarms = self.node.broker.alarms.in_force()
        if alarms:
            sources = ", ".join(sorted({one.source.value for one in alarms}))
            raise ControlError(Code.BUSY, f"publishers are blocked: low on {sources}")
        channel = stand_in(self.node, args.user, args.vhost)
        ledger = ConfirmLedger(1, channel.connection.output)
        channel.ledger = ledger
        try:
            arguments = _publish_arguments(args.exchange, args.routing_key)
            size = len(args.payload)
            route = publish(
                channel.connection, channel, arguments, args.properties, args.payload, None, size
            )
            taken = await confirmed(ledger)
        except (AmqpError, DecodeError) as refusal:
            raise refusal_of(refusal) from None
        finally:
            # Counts what was done, too.
            channel.end()
            let_go(channel)
        return Published(routed=any_routed(route.targets), refused=not taken)

    async def get(self, view: NodeView, args: GetArgs) -> AsyncGenerator[Sequence[MessageRow]]:
        channel = stand_in(self.node, args.user, args.vhost)
        connection = channel.connection
        try:
            check_access(connection, Access.READ, args.queue, "queue")
            queue = existing(connection, args.queue)
            rows: list[MessageRow] = []
            until = self.clock.monotonic_ns() + SLICE_NS
            for _ in range(args.count):
                got = await self._take(channel, queue)
                if got is None:
                    break
                rows.append(_row(got, args.truncate))
                if self.clock.monotonic_ns() >= until:
                    yield rows
                    rows = []
                    until = self.clock.monotonic_ns() + SLICE_NS
            if rows:
                yield rows
            self.node.hub.begin()
            if args.then == "ack":
                taken = channel.outlet.unacked.take_all()
                settle(taken)
                channel.acknowledged += len(taken)
            elif args.then == "reject":
                reject(channel, channel.outlet.unacked.take_all(), False)
        except AmqpError as refusal:
            raise refusal_of(refusal) from None
        finally:
            # What is not settled goes back to its place.
            self.node.hub.begin()
            channel.end()
            let_go(channel)

    async def _take(self, channel: Channel, queue: Queue) -> Got | None:
        """Take one message as basic.get does, when it is in memory."""
        self.node.hub.begin()
        got = queue.get()
        looks = 0
        while got is None and queue.is_behind():
            if looks == LOOK_COUNT:
                raise ControlError(Code.BUSY, "the next message has not been read yet")
            looks += 1
            queue.wait_here(channel)
            await asyncio.sleep(LOOK_S)
            self.node.hub.begin()
            got = queue.get()
        if got is None:
            return None
        outlet = channel.outlet
        tag = outlet.next_tag
        outlet.next_tag = tag + 1
        outlet.delivered += 1
        delivery = Delivery(tag, got.seq, got.message, queue, None, outlet.turn.now_ns)
        queue.lend(delivery)
        outlet.unacked.add(delivery)
        if queue.gate & GATE_TRACED:
            queue.keeper.handed_out(queue, channel, got.message, got.again)
        return got


def _publish_arguments(exchange: str, key: str) -> bytes:
    """The arguments of basic.publish as on the wire, the ticket among them."""
    names = [exchange.encode(), key.encode()]
    if max(map(len, names)) > 255:
        raise ControlError(Code.BAD_ARGUMENTS, "a name has at most 255 octets")
    return b"\x00\x00" + b"".join(bytes((len(name),)) + name for name in names) + b"\x00"


def _row(got: Got, truncate: int) -> MessageRow:
    message = got.message
    size = int(message.size)
    told = size if truncate < 0 else min(size, truncate)
    if told > PAYLOAD_OCTETS_MAX:
        raise ControlError(
            Code.TOO_LARGE,
            f"a message has {size} octets, and at most {PAYLOAD_OCTETS_MAX} are told",
            "use truncate",
        )
    return (
        size,
        got.again,
        message.exchange().decode(),
        message.routing_key().decode(),
        int(got.left),
        message.props,
        message.whole_body()[:told],
    )


def commands(node: "Node") -> Iterator[Command]:
    made = _Messages(node)
    yield command("publish", "Publish a message as a user.", PublishArgs, Published, made.publish)
    yield stream("get", "Take messages from a queue as a user.", GetArgs, made.get)
