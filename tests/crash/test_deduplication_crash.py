"""Keys of duplicates on a simulated disk: what was told safe is known after a crash.

A publisher sends each key until it was told that it is safe, also after crashes. Every key is then
enqueued once in all: a key is never known without its message, and whoever was told that a
duplicate is safe does not find after a crash that what it repeats was not.
"""

from random import Random
from typing import Final, final

import pytest

from tests.support.queue_life import MS, Life, ident_of
from tests.support.sim_files import SimFiles
from warren.protocol.output import Outbox, Output
from warren.protocol.properties import Properties, scan
from warren.queues import ConfirmLedger, Message, QueueRules
from warren.queues.storage import KEYS_LEVEL

QUEUE: Final = 1
IDENTS: Final = tuple(ident_of(QUEUE, level) for level in (0, 1, 2, 3, KEYS_LEVEL))
BEGIN_NS: Final = 1_790_000_000_000 * MS
WINDOW_MS: Final = 1_000_000


@final
class Channel:
    """A channel in confirm mode, and the keys that it has published."""

    def __init__(self) -> None:
        self.ledger = ConfirmLedger(1, Output(Outbox(), 1 << 20))
        self.sent: list[int] = []


@final
class World:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.now_ns = BEGIN_NS
        self.kept = random.choice((600, 4000, 1 << 20))
        self.file_size = random.choice((200, 2000, 1 << 20))
        self.priorities = random.choice((0, 0, 3))
        # Keys whose publish was told safe, and how often each was taken out of the queue for good.
        self.told: set[int] = set()
        self.consumed: dict[int, int] = {}
        self.next = 0
        self.begin(SimFiles(random))

    def begin(self, files: SimFiles) -> None:
        self.life = Life(
            files,
            self.random,
            IDENTS,
            now_ns=self.now_ns,
            kept=self.kept,
            file_size=self.file_size,
        )
        rules = QueueRules(
            deduplicate_by="message-id",
            deduplicate_window_ms=WINDOW_MS,
            max_priority=self.priorities,
        )
        self.queue = self.life.queue(QUEUE, rules)
        self.channels = [Channel(), Channel()]

    def publish(self, key: int) -> None:
        body = b"%08d" % key
        priority = self.random.choice((None, 2))
        props = Properties(delivery_mode=2, message_id=f"{key}", priority=priority).encode()
        traits = scan(props, 0, len(props))
        channel = self.random.choice(self.channels)
        channel.sent.append(key)
        ledger = channel.ledger
        ledger.published += 1
        message = Message(b"\0\1q", props, body, None, 8, traits)
        self.queue.publish(message, ledger, ledger.published)

    def act(self) -> None:
        choice = self.random.random()
        if choice < 0.5:
            self.publish(self.next)
            self.next += 1
        elif choice < 0.8 and self.next:
            self.publish(max(0, self.next - self.random.choice((1, 1, 2, 5, 50))))
        else:
            self.consume()
            self.now_ns += self.random.choice((0, 1, 1000)) * MS
            self.life.turn.now_ns = self.now_ns

    def consume(self) -> None:
        """Take a message and have that safe at once: what it was is known then."""
        got = self.queue.get()
        if got is None:
            return
        ruled = self.queue.ruled
        index = self.queue.index if ruled is None else ruled.index_of(got.message)
        assert index is not None
        index.settle(got.seq, got.message.size)
        self.life.rest()
        self.hear()
        key = int(got.message.body)
        self.consumed[key] = self.consumed.get(key, 0) + 1

    def hear(self) -> None:
        """What the publishers were told."""
        for channel in self.channels:
            channel.ledger.flush()
            self.told.update(channel.sent[: int(channel.ledger.told)])

    def step(self) -> None:
        for _ in range(self.random.choice((1, 3, 10))):
            self.act()
        self.life.end_turn()
        self.life.go_on(self.random.choice((0, 1, 5, 40)))
        self.hear()

    def crash(self) -> None:
        self.begin(self.life.crash(self.random))
        # What is not consumed and was told is in the queue, once; nothing is there twice.
        found = [int(one.body) for one in self.life.take_all(self.queue)]
        assert len(set(found)) == len(found)
        for key in self.told:
            assert found.count(key) + self.consumed.get(key, 0) == 1, key
        for key in found:
            assert key not in self.consumed
        # They were only looked at.
        self.begin(self.life.crash(self.random))
        keys = self.queue.deduplication
        assert keys is not None
        known = len(set(found) | self.consumed.keys())
        assert keys.count == known, (keys.count, known)


@pytest.mark.rule("CN-2", "IX-19")
@pytest.mark.parametrize("seed", range(30))
def test_crashes_of_a_queue_that_tells_duplicates(seed: int) -> None:
    random = Random(seed)
    world = World(random)
    for _ in range(4):
        for _ in range(random.choice((3, 20, 60))):
            world.step()
        world.crash()
    # All is sent again until it is told.
    for key in range(world.next):
        world.publish(key)
    world.life.rest()
    world.hear()
    assert world.told == set(range(world.next))
    left = [int(one.body) for one in world.life.take_all(world.queue)]
    assert sorted([*left, *world.consumed]) == list(range(world.next))
    # When the window has ended nothing is left in memory, nor on the disk.
    world.life.turn.now_ns += 2 * WINDOW_MS * MS
    world.life.rest()
    index = world.life.storage.keys_of(world.queue)
    assert index.live == 0


def test_a_duplicate_is_told_when_what_it_repeats_is_safe() -> None:
    world = World(Random(1))
    first, second = world.channels
    world.channels = [first]
    world.publish(0)
    # The batch of the message is on its way, and nothing else is to be written.
    world.life.end_turn()
    world.channels = [second]
    world.publish(0)
    second.ledger.flush()
    assert second.ledger.told == 0
    world.life.rest()
    assert (first.ledger.told, second.ledger.told) == (1, 1)
    world.publish(0)
    second.ledger.flush()
    assert second.ledger.told == 2
    assert world.queue.deduplicated_count == 2
