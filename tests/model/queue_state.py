"""The state of one queue and of one channel in the model: lists of messages, and their rules."""

from dataclasses import dataclass, field, replace

from tests.model.queue_fact import Consumer, Entry, Letter, Out, Rules, Seen


class Mismatch(AssertionError):
    """The broker did what the rules do not allow."""


@dataclass(slots=True)
class Queue:
    name: str
    incarnation: int
    rules: Rules
    used: int
    ready: list[Entry] = field(default_factory=list)
    places: int = 0
    consumers: list[Consumer] = field(default_factory=list)
    active: int = 0
    # By consumer: equals that could take a message ever since it had its last one, and had none.
    owed: dict[int, frozenset[int]] = field(default_factory=dict)

    def copy(self) -> "Queue":
        return replace(
            self, ready=list(self.ready), consumers=list(self.consumers), owed=dict(self.owed)
        )

    def priority(self, letter: Letter) -> int:
        return min(letter.priority or 0, self.rules.priorities)

    def head(self) -> Entry | None:
        """PQ-2: the highest priority first, by place within one."""
        if not self.ready:
            return None
        return min(self.ready, key=lambda entry: (-self.priority(entry.letter), entry.place))

    def bytes(self) -> int:
        return sum(entry.letter.size for entry in self.ready)

    def is_over(self, count: int, size: int) -> bool:
        rules = self.rules
        return (rules.max_length is not None and len(self.ready) + count > rules.max_length) or (
            rules.max_bytes is not None and self.bytes() + size > rules.max_bytes
        )

    def exclusive(self) -> bool:
        return any(consumer.exclusive for consumer in self.consumers)


@dataclass(slots=True)
class Channel:
    confirms: bool
    consumers: dict[str, Consumer] = field(default_factory=dict)
    out: dict[int, Out] = field(default_factory=dict)
    prefetch: int = 0
    limit: int = 0
    published: int = 0

    def copy(self) -> "Channel":
        return replace(self, consumers=dict(self.consumers), out=dict(self.out))


def is_it(seen: Seen, entry: Entry, queue: Queue) -> bool:
    """Compare everything a client can see of a message that it was given."""
    letter = entry.letter
    counted = queue.rules.quorum or queue.rules.limit is not None
    headers = {"x-delivery-count": entry.returns} if counted else {}
    if entry.returns == 0 and "x-delivery-count" not in seen.properties.get("headers", {}):
        # Not there is 0.
        headers = {}
    expected = (entry.again, letter.exchange, letter.key, letter.properties(headers), letter.size)
    return (
        seen.redelivered,
        seen.exchange,
        seen.key,
        seen.properties,
        seen.size,
    ) == expected
