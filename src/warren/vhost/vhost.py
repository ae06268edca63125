"""One vhost: its routing table, its queues, and the changes that touch both.

A queue is known here by name, and to the routing table by its sink; both come and go together.
What a removal leaves behind (bindings, garbage) is cleared in bounded slices at turn ends.

`add_queue` and `drop_queue` are what changes of metadata do, and nobody else calls them; a queue
that goes for a reason of its own (its last consumer, its time, its connection) is given to
`delete_queue`, which makes that a change.
"""

from typing import TYPE_CHECKING, Final, final

from warren.flow import Kind, Subject
from warren.protocol.value import Table
from warren.queues import Consumer, Queue, Turn
from warren.queues.turn import Chore
from warren.routing import Exchange, RoutingTable, Sink, predeclare
from warren.vhost.change import Change, ExchangeDelete, QueueDelete
from warren.vhost.dead_letter import DeadLetters
from warren.vhost.exchange_memory import ExchangeMemory
from warren.vhost.policy_force import PolicyForce
from warren.vhost.throttle import Throttle, throttled
from warren.vhost.trace import Tracer

if TYPE_CHECKING:
    from warren.vhost.broker import Broker

# Bindings removed per turn when a removal is too large for one go: well under a millisecond.
CHORE_SLICE: Final = 200
# Queues that tracing begins or ends for in one turn.
TRACE_SLICE: Final = 1000
# Queues or exchanges of a deleted vhost that end in one turn, besides as many bindings.
END_SLICE: Final = 50


@final
class SweepChore(Chore):
    """The rest of a large removal of bindings."""

    def __init__(self, routing: RoutingTable, vhost: "VHost") -> None:
        self.routing = routing
        self.vhost = vhost

    def step(self) -> bool:
        swept = self.routing.sweep(CHORE_SLICE)
        self.vhost.note_deleted(swept.exchanges)
        if swept.done:
            self.vhost.sweeping = False
        return swept.done


@final
class EndChore(Chore):
    """The end of a deleted vhost: its queues, then its exchanges, then what they leave."""

    def __init__(self, vhost: "VHost") -> None:
        self.vhost = vhost
        # The exchanges that are left, when the queues are gone.
        self.exchanges: list[str] | None = None

    def step(self) -> bool:
        vhost = self.vhost
        routing = vhost.routing
        for _ in range(END_SLICE):
            if vhost.queues:
                vhost.cut_queue(next(iter(vhost.queues.values())))
            elif self.exchanges is None:
                self.exchanges = [name for name in routing.exchanges if name]
            elif self.exchanges:
                routing.delete_exchange(self.exchanges.pop())
        return routing.sweep(CHORE_SLICE).done and self.exchanges == []


@final
class TraceChore(Chore):
    """The queues of a vhost that are still to be told whether they are traced."""

    def __init__(self, vhost: "VHost") -> None:
        self.vhost = vhost
        self.left = list(vhost.queues.values())

    def step(self) -> bool:
        on = self.vhost.tracer is not None
        for _ in range(min(TRACE_SLICE, len(self.left))):
            self.left.pop().trace(on)
        return not self.left


@final
class VHost:
    def __init__(self, name: str, broker: "Broker") -> None:
        self.name = name
        self.broker = broker
        self.description = ""
        self.tags: tuple[str, ...] = ()
        self.default_queue_type = ""
        self.limits: dict[str, int] = {}
        self.throttle: Throttle | None = None
        # Parameters by component and name, as JSON.
        self.parameters: dict[tuple[str, str], bytes] = {}
        self.turn: Turn = broker.turn
        self.policies = PolicyForce(self, merging=broker.merge_policies)
        self.routing = RoutingTable(name, ExchangeMemory(self))
        self.queues: dict[str, Queue] = {}
        self.sinks: dict[str, Sink] = {}
        self.connections = 0
        self.sweeping = False
        self.keeper = DeadLetters(self)
        # Set while messages are traced (O-10.1); forgotten with the node.
        self.tracer: Tracer | None = None
        predeclare(self.routing)

    def put_limits(self, limits: dict[str, int]) -> None:
        self.limits = limits
        subject = Subject(Kind.VHOST, self.name)
        self.throttle = throttled(self.throttle, limits, subject, self.turn)
        # Connections look up their limits along with their routes.
        self.changed()

    def trace(self, on: bool) -> bool:
        """Begin or end tracing; False if it was so before."""
        if on == (self.tracer is not None):
            return False
        self.tracer = Tracer(self) if on else None
        # Routes tell publishes which way to go, queues their deliveries.
        self.changed()
        chore = TraceChore(self)
        if not chore.step():
            self.turn.chores.append(chore)
        return True

    def add_queue(
        self,
        name: str,
        *,
        durable: bool,
        auto_delete: bool,
        owner: int,
        arguments: Table,
        incarnation: int = 0,
    ) -> Queue:
        """Make a queue; the caller has checked that it may."""
        applied, rules = self.policies.rules_for(name, arguments)
        queue = Queue(
            name,
            self.name,
            self.turn,
            durable=durable,
            auto_delete=auto_delete,
            owner=owner,
            arguments=arguments,
            rules=rules,
            keeper=self.keeper,
        )
        queue.policy = applied
        queue.incarnation = incarnation or self.broker.passing_incarnation()
        storage = self.turn.storage
        if storage is not None and incarnation:
            storage.join(queue)
        if self.tracer is not None:
            queue.trace(True)
        self.queues[name] = queue
        self.sinks[name] = self.routing.add_queue(name, queue)
        self.changed()
        return queue

    def delete_queue(self, queue: Queue) -> int:
        """Delete a queue with everything that hangs on it; return its ready messages (QD-8).

        In a vhost that is deleted itself there is no metadata to change any more.
        """
        if self.queues.get(queue.name) is not queue:
            return 0
        count = queue.ready()
        if self.broker.vhosts.get(self.name) is self:
            self.broker.metadata.follow((QueueDelete(vhost=self.name, name=queue.name),))
        else:
            self.drop_queue(queue)
        return int(count)

    def drop_queue(self, queue: Queue) -> None:
        """What the deletion of a queue does."""
        self.cut_queue(queue)
        self.sweep()

    def cut_queue(self, queue: Queue) -> None:
        """End a queue and leave its bindings to the sweep."""
        del self.queues[queue.name]
        if queue.index is not None and self.turn.storage is not None:
            self.turn.storage.leave(queue, self.next_ticket())
        self.routing.remove_queue(self.sinks.pop(queue.name))
        self.changed()
        for consumer in queue.close():
            owner = consumer.outlet.owner
            if owner is not None:
                owner.on_consumer_cut(consumer)

    def next_ticket(self) -> int:
        """That of a deletion in here: it is about to be stored, or that of the vhost was."""
        ticket = self.broker.metadata.ticket
        return ticket + 1 if self.broker.vhosts.get(self.name) is self else ticket

    def remove_consumer(self, consumer: Consumer) -> None:
        """Take a consumer away, and its queue with it if that was the last one (QD-6)."""
        queue = consumer.queue
        if queue.remove_consumer(consumer):
            self.delete_queue(queue)

    def sweep(self) -> None:
        """Clear what was removed from the routing table; a large rest goes turn by turn."""
        self.changed()
        swept = self.routing.sweep()
        self.note_deleted(swept.exchanges)
        if not swept.done and not self.sweeping:
            self.sweeping = True
            self.turn.chores.append(SweepChore(self.routing, self))

    def note_deleted(self, exchanges: list[Exchange]) -> None:
        """Exchanges that went with their last binding (XC-5) are a change, too."""
        if not exchanges or self.broker.vhosts.get(self.name) is not self:
            return
        metadata = self.broker.metadata
        gone: list[Change] = []
        for one in exchanges:
            change = ExchangeDelete(vhost=self.name, name=one.name)
            if one.durable:
                gone.append(change)
            else:
                metadata.note(change)
        if gone:
            metadata.followed(gone)

    def changed(self) -> None:
        """Something that routes depend on has changed: cached routes are void."""
        self.broker.version += 1
