"""All policies of one vhost, and which of them apply to a queue or an exchange (PO-1 to PO-3).

Of each kind the one with the highest priority applies, of equal priorities the one whose name comes
first; a policy with a key that the queue's type does not know is passed over. With `merging`, a
setting that RabbitMQ does not have, all that match apply, and the first one that has a key decides
it.

What applies is an `Applied`, one for all objects to which the same policies apply; so with 50,000
queues under one policy there is one.
"""

from typing import Final, final

from warren.vhost.policy import ApplyTo, Policy
from warren.vhost.policy_effect import NOT_APPLIED, Applied
from warren.vhost.policy_index import Entry, PolicyIndex

# Exchanges have no type that a policy could refuse.
NO_TYPE: Final = ""


@final
class _Shelf:
    """The policies of one kind."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.for_queues = PolicyIndex()
        self.for_exchanges = PolicyIndex()

    def put(self, policy: Policy) -> None:
        entry = Entry(policy)
        self.remove(policy.name)
        self.entries[policy.name] = entry
        for index in self._of(policy.apply_to):
            index.add(entry)

    def remove(self, name: str) -> Policy | None:
        entry = self.entries.pop(name, None)
        if entry is None:
            return None
        for index in self._of(entry.policy.apply_to):
            index.remove(entry)
        return entry.policy

    def _of(self, apply_to: ApplyTo) -> tuple[PolicyIndex, ...]:
        if apply_to is ApplyTo.QUEUES:
            return (self.for_queues,)
        if apply_to is ApplyTo.EXCHANGES:
            return (self.for_exchanges,)
        return (self.for_queues, self.for_exchanges)


@final
class PolicyBook:
    def __init__(self, *, merging: bool = False) -> None:
        self.merging = merging
        self._user = _Shelf()
        self._operator = _Shelf()
        self._known: dict[tuple[tuple[str, ...], tuple[str, ...]], Applied] = {}

    def __len__(self) -> int:
        return len(self._user.entries) + len(self._operator.entries)

    def put(self, policy: Policy) -> None:
        """Take a policy in, instead of the one with its name."""
        self._shelf(operator=policy.operator).put(policy)
        self._known.clear()

    def remove(self, name: str, *, operator: bool) -> Policy | None:
        """Take a policy out; None if there is none of that name."""
        removed = self._shelf(operator=operator).remove(name)
        self._known.clear()
        return removed

    def get(self, name: str, *, operator: bool) -> Policy | None:
        entry = self._shelf(operator=operator).entries.get(name)
        return None if entry is None else entry.policy

    def all(self, *, operator: bool) -> list[Policy]:
        """Return the policies of one kind as they are listed: the lowest priority first."""
        found = (entry.policy for entry in self._shelf(operator=operator).entries.values())
        return sorted(found, key=lambda one: (one.priority, one.name))

    def for_queue(self, name: str, queue_type: str) -> Applied:
        """Return what applies to a queue of this name and type."""
        if not len(self):
            return NOT_APPLIED
        return self._applied(self._user.for_queues, self._operator.for_queues, name, queue_type)

    def for_exchange(self, name: str) -> Applied:
        """Return what applies to an exchange of this name."""
        if not len(self):
            return NOT_APPLIED
        return self._applied(self._user.for_exchanges, self._operator.for_exchanges, name, NO_TYPE)

    def _applied(
        self, user: PolicyIndex, operator: PolicyIndex, name: str, queue_type: str
    ) -> Applied:
        found, bounds = self._find(user, name, queue_type), self._find(operator, name, queue_type)
        if not found and not bounds:
            return NOT_APPLIED
        key = tuple(one.name for one in found), tuple(one.name for one in bounds)
        applied = self._known.get(key)
        if applied is None:
            applied = Applied(tuple(found), tuple(bounds))
            self._known[key] = applied
        return applied

    def _find(self, index: PolicyIndex, name: str, queue_type: str) -> list[Policy]:
        if self.merging:
            return index.every(name, queue_type)
        first = index.first(name, queue_type)
        return [] if first is None else [first]

    def _shelf(self, *, operator: bool) -> _Shelf:
        return self._operator if operator else self._user
