"""Where a channel's deliveries leave: its tag counter, unacked deliveries and prefetch limit.

The session owns one `Outlet` per channel; queues write deliveries through it. This is the native
seam between queues and sessions that is crossed per message.
"""

from typing import TYPE_CHECKING, Final, final

from warren.protocol.output import Output
from warren.queues.timer import Timer
from warren.queues.turn import Turn
from warren.queues.unacked import Delivery, Unacked

if TYPE_CHECKING:
    from mypy_extensions import i64

    from warren.queues.consumer import Consumer

# How long deliveries stay behind the basic.qos-ok that makes room for them. An event loop that asks
# for room, one message at a time, must be waiting again when the message comes: Celery looks for
# more once before it waits, and takes what it finds there for the last one until a second is over.
ROOM_AFTER_NS: Final = 5_000_000


@final
class Party:
    """Who publishes or consumes, in words for people."""

    def __init__(self, connection: str, channel: int, user: str) -> None:
        # "peer host:port -> host:port of the node"
        self.connection = connection
        self.channel = channel
        self.user = user


class ConsumerOwner:
    """What a queue tells the channel behind a consumer or a held publish, and who that is."""

    def on_consumer_cut(self, consumer: "Consumer") -> None:
        """The queue is gone; the consumer gets nothing more."""

    def on_queue_open(self, name: str) -> None:
        """The queue has taken the publishes it held, or is gone."""

    def on_messages_here(self) -> None:
        """Messages that a basic.get waits for are in memory, or gone."""

    def party(self) -> Party:
        return Party("", 0, "")


@final
class RoomTimer(Timer):
    """Brings what a raised prefetch limit has made room for."""

    def __init__(self, outlet: "Outlet") -> None:
        super().__init__()
        self.outlet = outlet

    def fire(self, now_ns: "i64") -> None:
        # Lets go of the timer: the cycle collector does not run.
        self.outlet.room = None
        self.outlet.wake()


@final
class Outlet:
    def __init__(self, number: int, output: Output, turn: Turn) -> None:
        self.number: i64 = number
        self.output = output
        self.turn = turn
        self.next_tag: i64 = 1
        self.unacked = Unacked()
        # The channel-wide prefetch limit (QO-2); 0 is none.
        self.limit: i64 = 0
        # Deliveries settled in a transaction that is still open: they fill the channel until
        # commit (TX-1).
        self.deferred: i64 = 0
        self.consumers: list[Consumer] = []
        self.owner: ConsumerOwner | None = None
        # Consumers of this channel that are passed over at the moment.
        self.waiting: i64 = 0
        self.delivered: i64 = 0
        self.room: RoomTimer | None = None

    def release(self, deliveries: list[Delivery]) -> None:
        """Give prefetch room back for deliveries that were taken off `unacked`."""
        for delivery in deliveries:
            consumer = delivery.consumer
            if consumer is not None:
                consumer.unacked -= 1
                if self.limit == 0 and consumer.passed_over and consumer.able():
                    consumer.rejoin()
        if self.waiting > 0 and self.limit != 0:
            self.wake()

    def wake_soon(self) -> None:
        """Let consumers take part again when the answer that says so has been read."""
        if self.waiting > 0 and self.room is None:
            self.room = RoomTimer(self)
            self.turn.timers.arm(self.room, self.turn.now_ns + ROOM_AFTER_NS)

    def wake(self) -> None:
        """Let consumers that were passed over take part again, if they are able to.

        Those that share a channel-wide limit begin by turns, or the first would take all its room.
        """
        rejoined = False
        for consumer in self.consumers:
            if consumer.passed_over and consumer.able():
                consumer.rejoin()
                rejoined = True
        if rejoined and self.limit != 0:
            self.consumers.append(self.consumers.pop(0))
