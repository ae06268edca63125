"""One vhost: its routing table, its queues, and the changes that touch both.

A queue is known here by name, and to the routing table by its sink; both come and go together.
What a removal leaves behind (bindings, garbage) is cleared in bounded slices at turn ends.
"""

from typing import TYPE_CHECKING, Final, final

from warren.protocol.value import Table
from warren.queues import Consumer, Queue, Turn
from warren.queues.turn import Chore
from warren.routing import RoutingTable, Sink, predeclare

if TYPE_CHECKING:
    from warren.vhost.broker import Broker

# Bindings removed per turn when a removal is too large for one go: well under a millisecond.
CHORE_SLICE: Final = 200


@final
class SweepChore(Chore):
    """The rest of a large removal of bindings."""

    def __init__(self, routing: RoutingTable, vhost: "VHost") -> None:
        self.routing = routing
        self.vhost = vhost

    def step(self) -> bool:
        done = self.routing.sweep(CHORE_SLICE).done
        if done:
            self.vhost.sweeping = False
        return done


@final
class VHost:
    def __init__(self, name: str, broker: "Broker") -> None:
        self.name = name
        self.broker = broker
        self.turn: Turn = broker.turn
        self.routing = RoutingTable(name)
        self.queues: dict[str, Queue] = {}
        self.sinks: dict[str, Sink] = {}
        self.connections = 0
        self.sweeping = False
        predeclare(self.routing)

    def add_queue(
        self, name: str, *, durable: bool, auto_delete: bool, owner: int, arguments: Table
    ) -> Queue:
        """Make a queue; the caller has checked that it may."""
        queue = Queue(
            name,
            self.name,
            self.turn,
            durable=durable,
            auto_delete=auto_delete,
            owner=owner,
            arguments=arguments,
        )
        self.queues[name] = queue
        self.sinks[name] = self.routing.add_queue(name, queue)
        self.changed()
        return queue

    def delete_queue(self, queue: Queue) -> int:
        """Delete a queue with everything that hangs on it; return its ready messages (QD-8)."""
        if self.queues.get(queue.name) is not queue:
            return 0
        count = queue.ready()
        del self.queues[queue.name]
        self.routing.remove_queue(self.sinks.pop(queue.name))
        self.sweep()
        for consumer in queue.close():
            owner = consumer.outlet.owner
            if owner is not None:
                owner.on_consumer_cut(consumer)
        return int(count)

    def remove_consumer(self, consumer: Consumer) -> None:
        """Take a consumer away, and its queue with it if that was the last one (QD-6)."""
        queue = consumer.queue
        if queue.remove_consumer(consumer):
            self.delete_queue(queue)

    def sweep(self) -> None:
        """Clear what was removed from the routing table; a large rest goes turn by turn."""
        self.changed()
        if not self.routing.sweep().done and not self.sweeping:
            self.sweeping = True
            self.turn.chores.append(SweepChore(self.routing, self))

    def changed(self) -> None:
        """Something that routes depend on has changed: cached routes are void."""
        self.broker.version += 1
