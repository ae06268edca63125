"""A queue with consumers on channels of its own, and what those were sent."""

from tests.support.machine import Decoder
from warren.protocol.output import Outbox, Output
from warren.queues import Consumer, Delivery, Message, Outlet, Queue, Turn
from warren.queues.ranged import levels_of

BOUND = 1 << 20


def message(body: bytes, key: bytes = b"q") -> Message:
    return Message(b"\x00" + bytes((len(key),)) + key, b"\x00\x00", body, None, len(body), 0)


class Rig:
    """One turn, one queue, and any number of channels, each on a connection of its own."""

    def __init__(self) -> None:
        self.turn = Turn()
        self.outbox = Outbox()
        self.queue = self.another("q")
        self.decoders: dict[int, Decoder] = {}

    def __del__(self) -> None:
        """Take the chain apart as a turn does: native blocks must not free each other in depth."""
        for level in levels_of(self.queue):
            backlog = level.backlog
            while backlog.head.next is not None:
                first = backlog.head
                backlog.head = first.next or first
                first.next = None

    def another(self, name: str, *, auto_delete: bool = False) -> Queue:
        return Queue(
            name, "/", self.turn, durable=False, auto_delete=auto_delete, owner=0, arguments={}
        )

    def outlet(self, number: int = 1, *, bound: int = BOUND) -> Outlet:
        return Outlet(number, Output(self.outbox, bound), self.turn)

    def consumer(
        self,
        tag: str,
        outlet: Outlet | None = None,
        *,
        no_ack: bool = True,
        priority: int = 0,
        prefetch: int = 0,
        queue: Queue | None = None,
    ) -> Consumer:
        consumer = Consumer(
            tag,
            queue or self.queue,
            outlet or self.outlet(),
            no_ack=no_ack,
            exclusive=False,
            priority=priority,
            prefetch=prefetch,
            arguments={},
        )
        consumer.outlet.consumers.append(consumer)
        (queue or self.queue).add_consumer(consumer)
        return consumer

    def publish(self, *bodies: bytes) -> None:
        for body in bodies:
            assert self.queue.publish(message(body), None, 0) == 0

    def run(self) -> int:
        """Have turns until nothing is left; return how many."""
        turns = 1
        while self.turn.run():
            turns += 1
            assert turns < 10_000
        return turns

    def got(self, outlet: Outlet) -> list[tuple[str, bytes, bool]]:
        """What was delivered on a channel since the last call: tag, body, redelivered."""
        output = outlet.output
        data = b"".join(output.take())
        output.sent(len(data))
        decoder = self.decoders.setdefault(id(output), Decoder())
        events = decoder.feed(data)
        assert all(event.name == "basic.deliver" for event in events)
        return [(each.consumer_tag, each.body, each.redelivered) for each in events]


def ack(outlet: Outlet, delivery: Delivery | None) -> None:
    """Settle one delivery as a channel does."""
    assert delivery is not None
    delivery.queue.settle(delivery)
    outlet.release([delivery])
