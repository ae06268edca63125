"""The traffic of the kill proof: which queues there are, who publishes where, who consumes.

Publishers send as fast as their window of confirms allows. A consumer acknowledges twenty at a
time, gives every 97th message back, and keeps the last ones unacknowledged. An acknowledgement has
no answer, so a call follows it on the channel: its answer says when the broker had it. All of it
runs on one loop without threads, so that what was known when is known exactly.
"""

import struct
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Final

from tools.proof.book import Book
from tools.proof.message import body_of, ident_in, ident_of, properties, publish
from tools.proof.peer import BrokerGone, Confirm, Delivery, Notice, Peer, link_to, pump
from warren.bench import frame

WINDOW: Final = 500
BATCH: Final = 25
UNSENT_MAX: Final = 1 << 18
PREFETCH: Final = 200
ACK_EVERY: Final = 20
GIVE_BACK_EVERY: Final = 97
PRIORITIES: Final = 3
FAN_OUT: Final = "proof-fan"
TURN_S: Final = 0.005
# An acknowledgement that the broker may not have seen yet.
NOT_YET: Final = float("inf")


@dataclass(frozen=True, slots=True)
class Queue:
    name: str
    arguments: dict[str, frame.FieldValue] = field(default_factory=dict)


QUEUES: Final = (
    Queue("proof-plain"),
    Queue("proof-fan-a"),
    Queue("proof-fan-lazy", {"x-queue-mode": "lazy"}),
    Queue("proof-lazy", {"x-queue-mode": "lazy"}),
    Queue("proof-priority", {"x-max-priority": PRIORITIES}),
    Queue("proof-ttl", {"x-message-ttl": 700, "x-dead-letter-exchange": "",
                        "x-dead-letter-routing-key": "proof-dead"}),
    Queue("proof-dead"),
)  # fmt: skip
# The queues of each place: a message of the place is in one of them. Dead letters are looked at
# last, so that none is on its way.
PLACES: Final[dict[str, tuple[str, ...]]] = {
    "plain": ("proof-plain",),
    "fan-a": ("proof-fan-a",),
    "fan-lazy": ("proof-fan-lazy",),
    "lazy": ("proof-lazy",),
    "priority": ("proof-priority",),
    "letters": ("proof-ttl", "proof-dead"),
}
CONSUMED: Final = {
    "proof-plain": "plain",
    "proof-fan-a": "fan-a",
    "proof-priority": "priority",
    "proof-dead": "letters",
}


@dataclass(frozen=True, slots=True)
class Path:
    """Where a publisher publishes, and which places a message of it reaches."""

    exchange: str
    key: str
    places: tuple[str, ...]
    persistent: bool = True
    priorities: int = 0


PATHS: Final = (
    Path("", "proof-plain", ("plain",)),
    Path("", "proof-plain", ("plain",)),
    Path("", "proof-plain", ("plain",), persistent=False),
    Path(FAN_OUT, "", ("fan-a", "fan-lazy")),
    Path("", "proof-lazy", ("lazy",)),
    Path("", "proof-priority", ("priority",), priorities=PRIORITIES),
    Path("", "proof-ttl", ("letters",)),
)


def priority_of(ident: int) -> int:
    return ident % PRIORITIES


def new_books() -> dict[str, Book]:
    return {name: Book(name, priority_of) if name == "priority" else Book(name) for name in PLACES}


def declare(port: int) -> None:
    """Make exchange, queues and bindings; those that are there are the same."""
    link = link_to(port)
    fan_out = frame.short_string(FAN_OUT)
    kind = frame.short_string("fanout")
    link.call(
        frame.EXCHANGE_DECLARE, b"\0\0" + fan_out + kind + b"\x02" + frame.table({}),
        frame.EXCHANGE_DECLARE_OK,
    )  # fmt: skip
    for queue in QUEUES:
        name = frame.short_string(queue.name)
        link.call(
            frame.QUEUE_DECLARE, b"\0\0" + name + b"\x02" + frame.table(queue.arguments),
            frame.QUEUE_DECLARE_OK,
        )  # fmt: skip
        if queue.name.startswith(FAN_OUT):
            link.call(
                frame.QUEUE_BIND, b"\0\0" + name + fan_out + b"\0\0" + frame.table({}),
                frame.QUEUE_BIND_OK,
            )  # fmt: skip
    link.close()


class Publisher:
    """Publishes on one path with confirms."""

    def __init__(self, port: int, number: int, path: Path, books: dict[str, Book]) -> None:
        self.peer = Peer(port, confirm=True)
        self.number = number
        self.path = path
        self.books = [books[place] for place in path.places]
        self.first = 0  # the sequence number of delivery tag 1
        self.sent = 0
        self.low = 1  # the lowest tag without an answer
        self.answered: set[int] = set()
        self.confirmed = 0
        self.refused = 0

    def publish(self, first: int) -> int:
        """Go on from `first` while the window allows; the next number."""
        if self.sent == 0:
            self.first = first
        peer = self.peer
        while self.outstanding() + BATCH <= WINDOW and len(peer.out) < UNSENT_MAX:
            for _ in range(BATCH):
                self.publish_one()
        return self.first + self.sent

    def publish_one(self) -> None:
        path = self.path
        ident = ident_of(self.number, self.first + self.sent)
        priority = priority_of(ident) if path.priorities else None
        props = properties(persistent=path.persistent, priority=priority)
        self.peer.out += publish(path.exchange, path.key, body_of(ident), props)
        self.sent += 1
        for book in self.books:
            book.sent(ident, persistent=path.persistent)

    def outstanding(self) -> int:
        return self.sent - (self.low - 1) - len(self.answered)

    def take(self) -> None:
        for event in self.peer.take():
            if isinstance(event, Confirm):
                self.answer(event)

    def answer(self, event: Confirm) -> None:
        tags = [event.tag]
        if event.multiple:
            last = event.tag or self.sent
            tags = [tag for tag in range(self.low, last + 1) if tag not in self.answered]
        for tag in tags:
            if not self.low <= tag <= self.sent or tag in self.answered:
                raise BrokerGone(f"a confirm for {tag}, which has none to come")
            self.answered.add(tag)
            if event.taken:
                self.confirmed += 1
                for book in self.books:
                    book.confirm(ident_of(self.number, self.first + tag - 1))
            else:
                self.refused += 1
        while self.low in self.answered:
            self.answered.discard(self.low)
            self.low += 1


class Consumer:
    """Consumes one queue; what it acknowledged is gone by the book."""

    def __init__(self, port: int, queue: str, book: Book) -> None:
        self.peer = Peer(port, prefetch=PREFETCH)
        self.peer.consume(queue)
        self.book = book
        self.unacked: list[tuple[int, int]] = []
        self.asked: deque[list[int]] = deque()
        self.count = 0
        self.spoilt = 0

    def take(self) -> None:
        for event in self.peer.take():
            if isinstance(event, Notice) and event.number == frame.QOS_OK:
                self.on_answer()
            if not isinstance(event, Delivery):
                continue
            self.count += 1
            ident = ident_in(event.body)
            if ident is None:
                self.spoilt += 1
            elif self.count % GIVE_BACK_EVERY == 0:
                self.peer.give_back(event.tag)
            else:
                self.unacked.append((event.tag, ident))
        # The last ones stay unacknowledged, for the kill to find.
        while len(self.unacked) >= 2 * ACK_EVERY:
            self.acknowledge()

    def acknowledge(self) -> None:
        chosen, self.unacked = self.unacked[:ACK_EVERY], self.unacked[ACK_EVERY:]
        self.peer.ack(chosen[-1][0], multiple=True)
        self.peer.method(frame.QOS, struct.pack(">IHB", 0, PREFETCH, 0))
        for _, ident in chosen:
            self.book.acknowledge(ident, NOT_YET)
        self.asked.append([ident for _, ident in chosen])

    def on_answer(self) -> None:
        """The broker had the acknowledgements before this."""
        now_s = time.monotonic()
        for ident in self.asked.popleft():
            self.book.acked_at[ident] = now_s


class Traffic:
    """All publishers and consumers of one round."""

    def __init__(self, port: int, books: dict[str, Book], numbers: list[int]) -> None:
        self.numbers = numbers  # what each publisher sends next, kept from round to round
        self.publishers = [
            Publisher(port, number, path, books) for number, path in enumerate(PATHS)
        ]
        self.consumers = [Consumer(port, queue, books[place]) for queue, place in CONSUMED.items()]
        self.peers = [each.peer for each in self.publishers]
        self.peers += [each.peer for each in self.consumers]

    def run(self, seconds: float) -> None:
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            self.turn()

    def turn(self) -> None:
        for publisher in self.publishers:
            if not publisher.peer.blocked:
                self.numbers[publisher.number] = publisher.publish(self.numbers[publisher.number])
        pump(self.peers, TURN_S)
        self.take()
        gone = [peer for peer in self.peers if peer.gone]
        if gone:
            raise BrokerGone("the broker closed a connection under load")

    def take(self) -> None:
        for publisher in self.publishers:
            publisher.take()
        for consumer in self.consumers:
            consumer.take()

    def finish(self) -> None:
        """The broker has ended: what it had sent before still counts, as far as confirms go."""
        for publisher in self.publishers:
            publisher.peer.read_to_the_end()
            publisher.take()
        self.close()

    def close(self) -> None:
        for peer in self.peers:
            peer.close()
