"""The policies of one vhost in force: every queue and exchange under what matches it (PO-8, PO-9).

A new object is matched when it is made. When a policy is set or cleared, all objects are matched
anew in a *round*, slice by slice at the ends of turns, so that 50,000 queues never stop a message.
Until a round has come to an object the policies before are in force there, and it says so. A change
in the middle of a round lets the round go on with the new policies, and another one follow.

What is in force for an object is noted in its `policy`. It is given new rules only when what its
policies come to has changed, not when they have other names or priorities.
"""

from typing import TYPE_CHECKING, Final, final

from warren.protocol.value import Table
from warren.queues import Queue
from warren.queues.rules import QueueRules
from warren.queues.turn import Chore
from warren.routing import Exchange
from warren.vhost.policy import Policy
from warren.vhost.policy_book import PolicyBook
from warren.vhost.policy_effect import NOT_APPLIED, Applied
from warren.vhost.queue_rules import rules_of, type_of

if TYPE_CHECKING:
    from warren.vhost.vhost import VHost

# A slice of a round; a message waits for one of them at most.
SLICE_NS: Final = 1_000_000
# Under a clock that stands still a slice ends all the same.
SLICE_MAX: Final = 500
ALTERNATE: Final = "alternate-exchange"


@final
class PolicyForce:
    def __init__(self, vhost: "VHost", *, merging: bool) -> None:
        self.vhost = vhost
        self.book = PolicyBook(merging=merging)
        self.round: Round | None = None
        # The shortest consumer timeout that a queue here ever had from a policy; -1 before one had.
        self.consumer_timeout_ms = -1

    def put(self, policy: Policy) -> None:
        """Take a policy in, instead of the one with its name."""
        if self.book.get(policy.name, operator=policy.operator) == policy:
            return
        self.book.put(policy)
        self._match_anew()

    def remove(self, name: str, *, operator: bool) -> bool:
        """Take a policy out; False if there is none of that name."""
        if self.book.remove(name, operator=operator) is None:
            return False
        self._match_anew()
        return True

    def _match_anew(self) -> None:
        chores = self.vhost.turn.chores
        # A round that a mistake of ours has ended is in no list any more.
        if self.round is None or self.round not in chores:
            self.round = Round(self)
            chores.append(self.round)
        elif not self.round.is_all_ahead():
            self.round.again = True

    # -- one object --------------------------------------------------------------------------------

    def rules_for(self, name: str, arguments: Table) -> tuple[Applied, QueueRules]:
        """Return what is in force for a new queue, and its rules."""
        applied = self.book.for_queue(name, type_of(arguments))
        return applied, self._rules_of(arguments, applied)

    def _rules_of(self, arguments: Table, applied: Applied) -> QueueRules:
        rules = rules_of(arguments, applied)
        timeout_ms = int(rules.consumer_timeout_ms)
        if timeout_ms >= 0 and not 0 <= self.consumer_timeout_ms <= timeout_ms:
            self.consumer_timeout_ms = timeout_ms
        return rules

    def match_queue(self, queue: Queue) -> bool:
        """Put a queue under the policies as they are now; False if that changes nothing in it."""
        applied = self.book.for_queue(queue.name, type_of(queue.arguments))
        before = in_force(queue)
        queue.policy = applied
        if applied is before or applied.effective == before.effective:
            return False
        queue.set_rules(self._rules_of(queue.arguments, applied))
        return True

    def match_exchange(self, exchange: Exchange) -> bool:
        """Put an exchange under the policies as they are now; False if that changes no route."""
        applied = self.book.for_exchange(exchange.name)
        exchange.policy = applied
        alternate = applied.effective.get(ALTERNATE)
        routing = self.vhost.routing
        version = routing.version
        routing.set_policy_alternate(exchange, alternate if isinstance(alternate, str) else None)
        return routing.version != version


def in_force(one: Queue | Exchange) -> Applied:
    """Return what is in force for a queue or an exchange."""
    applied = one.policy
    return applied if isinstance(applied, Applied) else NOT_APPLIED


@final
class Round(Chore):
    """All objects of a vhost on their way under its policies as they are when it comes to them.

    Invariant: an object is under the policies of the moment, or in here, or `again` is set.
    """

    def __init__(self, force: PolicyForce) -> None:
        self.force = force
        self.exchanges: list[Exchange] = []
        self.queues: list[Queue] = []
        self.again = False
        self.begun = False
        self.changed = 0
        # That of the routing table when the objects were gathered: it rises with each new one.
        self.version = -1
        self._gather()

    def is_all_ahead(self) -> bool:
        """Whether the round is yet to come to every object there is, as at the start of a node."""
        return not self.begun and self.version == self.force.vhost.routing.version

    def _gather(self) -> None:
        vhost = self.force.vhost
        self.again = False
        self.version = int(vhost.routing.version)
        self.exchanges = list(vhost.routing.exchanges.values())
        self.queues = list(vhost.queues.values())

    def step(self) -> bool:
        vhost = self.force.vhost
        clock = vhost.broker.clock
        until = clock.monotonic_ns() + SLICE_NS
        self.begun = True
        rerouted = False
        for _ in range(SLICE_MAX):
            if self.queues:
                queue = self.queues.pop()
                if vhost.queues.get(queue.name) is queue:
                    self.changed += self.force.match_queue(queue)
            elif self.exchanges:
                exchange = self.exchanges.pop()
                if exchange.alive and self.force.match_exchange(exchange):
                    self.changed += 1
                    rerouted = True
            else:
                break
            if clock.monotonic_ns() >= until:
                break
        if rerouted:
            vhost.changed()
        return self._ended()

    def _ended(self) -> bool:
        vhost = self.force.vhost
        if vhost.broker.vhosts.get(vhost.name) is vhost:
            if self.queues or self.exchanges:
                return False
            if self.again:
                self._gather()
                return False
            facts = {"vhost": vhost.name, "changed": self.changed}
            vhost.broker.log.event("info", "policies.applied", facts)
        self.force.round = None
        return True
