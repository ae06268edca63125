"""One channel: its content in progress, consumers, unacked deliveries, confirms, transaction.

Owns the state of a channel and what ending it means (spec EX-2, EX-4, RC-2). Methods are handled
in `exchange_method`, `queue_method`, `basic_method`; publishes in `publish`.
"""

from collections import deque
from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.flow import LINGER_NS
from warren.protocol.frame import frame
from warren.protocol.methods import BasicCancel
from warren.queues import Consumer, Delivery, Message, Outlet
from warren.queues.outlet import ConsumerOwner, Party

if TYPE_CHECKING:
    from warren.flow import Handle
    from warren.queues.confirm import ConfirmLedger
    from warren.session.connection import Connection
    from warren.session.route import Route
    from warren.vhost import ReplyAddress

# Where a channel stands between frames.
EXPECT_METHOD: Final[i64] = 0
EXPECT_HEADER: Final[i64] = 1
EXPECT_BODY: Final[i64] = 2
# After a channel exception everything but close and close-ok is ignored (EX-2).
EXPECT_CLOSE_OK: Final[i64] = 3

# Body chunks smaller than this are joined with the one before, so that a peer that sends a large
# body in tiny frames costs memory in proportion to the body, not to the number of frames.
CHUNK_MIN: Final = 4096


@final
class ParkedFrame:
    def __init__(self, kind: i64, payload: bytes) -> None:
        self.kind = kind
        self.payload = payload


@final
class TxPublish:
    def __init__(self, targets: "Route", message: Message) -> None:
        self.route = targets
        self.message = message


@final
class Settlement:
    """Deliveries acked or rejected inside a transaction, to be applied at commit."""

    def __init__(self, deliveries: list[Delivery], *, acked: bool, requeue: bool) -> None:
        self.deliveries = deliveries
        self.acked = acked
        self.requeue = requeue


@final
class Transaction:
    def __init__(self) -> None:
        self.publishes: list[TxPublish] = []
        self.settlements: list[Settlement] = []


@final
class Channel(ConsumerOwner):
    def __init__(self, number: int, connection: "Connection") -> None:
        super().__init__()
        self.number = number
        self.connection = connection
        self.outlet = Outlet(number, connection.output, connection.broker.turn)
        self.outlet.owner = self
        # What it counts in, until it ends.
        self.usage = connection.usage
        if self.usage is not None:
            self.usage.channels += 1
        self.consumers: dict[str, Consumer] = {}
        self.prefetch = connection.settings.default_prefetch
        self.last_queue = ""
        self.ledger: ConfirmLedger | None = None
        self.tx: Transaction | None = None
        self.reply: ReplyAddress | None = None
        # Content in progress.
        self.expect: i64 = EXPECT_METHOD
        self.arguments: bytes = b""
        self.props: bytes = b""
        self.body_size: i64 = 0
        self.body_left: i64 = 0
        self.chunks: list[bytes] = []
        # The body is over the size limit: it is refused at its end, and not kept until then.
        self.oversize = False
        # Parked frames, in order; the channel handles nothing but settlements meanwhile.
        self.parked: deque[ParkedFrame] | None = None
        # Whether publishes may take the short way: no transaction, nothing parked or in progress.
        self.quick = True
        self.published: i64 = 0
        self.acknowledged: i64 = 0
        # Credit (flow-and-alarms CF-*), counted only while a queue published to is blocked.
        self.held_for: dict[str, int] = {}
        self.blocked_on: dict[str, Handle] = {}
        self.reader_credit: i64 = 0
        self.flow_since_ns = -1
        # `published` when its connection was weighed last (`load.py`).
        self.weighed: i64 = 0
        # What traces call it; made when the first one does.
        self._party: Party | None = None

    def state(self) -> str:
        """The state in listings; flow shows for a second from its begin (flow-and-alarms 1.4)."""
        if self.expect == EXPECT_CLOSE_OK:
            return "closing"
        since: i64 = self.flow_since_ns
        now: i64 = self.connection.broker.turn.now_ns
        if self.blocked_on or (since >= 0 and now - since < LINGER_NS):
            return "flow"
        return "running"

    def settle_quick(self) -> None:
        """Recompute `quick` after something it depends on has changed."""
        self.quick = self.expect == EXPECT_METHOD and self.tx is None and self.parked is None

    def add_chunk(self, chunk: bytes) -> None:
        """Collect one piece of the body in progress."""
        chunks = self.chunks
        size: i64 = len(chunk)
        self.body_left -= size
        if self.oversize:
            return
        if chunks and size < CHUNK_MIN and len(chunks[-1]) < CHUNK_MIN:
            chunks[-1] = chunks[-1] + chunk
        else:
            chunks.append(chunk)

    def forget_content(self) -> None:
        self.arguments = b""
        self.props = b""
        self.chunks = []
        self.expect = EXPECT_METHOD

    def take_parked(self) -> deque[ParkedFrame]:
        """Take what is parked, for it to be handled."""
        parked = self.parked
        self.parked = None
        return deque() if parked is None else parked

    def on_queue_open(self, name: str) -> None:
        """A queue has taken what it held of this channel, or is gone."""
        self.connection.on_queue_open(self, name)

    def on_messages_here(self) -> None:
        """Messages that a basic.get waits for came into memory."""
        self.connection.on_messages_here(self)

    def party(self) -> Party:
        party = self._party
        if party is None:
            connection = self.connection
            sessions = connection.broker.sessions
            # Without listeners there is no other end.
            name = (
                connection.subject.name
                if sessions is None
                else sessions.name_of(connection.identity)
            )
            party = Party(name, self.number, connection.user)
            self._party = party
        return party

    def add_consumer(self, consumer: Consumer) -> None:
        self.consumers[consumer.tag] = consumer
        self.outlet.consumers.append(consumer)

    def drop_consumer(self, consumer: Consumer) -> None:
        self.consumers.pop(consumer.tag, None)
        if consumer in self.outlet.consumers:
            self.outlet.consumers.remove(consumer)

    def on_consumer_cut(self, consumer: Consumer) -> None:
        """The queue of a consumer is gone: tell the client, if it can understand it (CS-5)."""
        self.drop_consumer(consumer)
        connection = self.connection
        if self.expect != EXPECT_CLOSE_OK and connection.capable("consumer_cancel_notify"):
            method = BasicCancel(consumer_tag=consumer.tag, no_wait=True)
            self.outlet.output.write(frame(1, self.number, method.encode()))

    def stop_consuming(self) -> None:
        """Remove every consumer; what they hold stays unacked."""
        for consumer in list(self.consumers.values()):
            self.connection.vhost().remove_consumer(consumer)
        self.consumers.clear()
        self.outlet.consumers = []

    def end(self) -> None:
        """Requeue what is unacked and remove consumers; the channel is no more (EX-2, RC-2)."""
        connection = self.connection
        if self.usage is not None:
            self.usage.channels -= 1
            self.usage = None
        self.stop_consuming()
        # Nothing of a channel that ended may keep it alive: the cycle collector does not run.
        self.outlet.owner = None
        if self.reply is not None:
            connection.broker.drop_reply_address(self.reply)
            self.reply = None
        taken = self.outlet.unacked.take_all()
        if self.tx is not None:
            for settlement in self.tx.settlements:
                taken.extend(settlement.deliveries)
            self.tx = None
        requeue(taken)
        totals = connection.broker.totals
        totals.published += self.published
        totals.delivered += self.outlet.delivered
        totals.acknowledged += self.acknowledged
        if self.ledger is not None:
            totals.confirmed += self.ledger.told
            self.ledger.closed = True
        self.published = 0
        self.outlet.delivered = 0
        self.acknowledged = 0
        self.ledger = None
        self.parked = None
        self.quick = False
        self.forget_content()


def requeue(deliveries: list[Delivery]) -> None:
    """Give deliveries back to their queues, one call per queue."""
    by_queue: dict[int, list[Delivery]] = {}
    for delivery in deliveries:
        by_queue.setdefault(id(delivery.queue), []).append(delivery)
    for group in by_queue.values():
        group[0].queue.requeue(group)
