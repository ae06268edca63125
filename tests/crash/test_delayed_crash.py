"""Delayed messages on a simulated disk: crashes anywhere while they are held, handed on, cancelled.

A message is held, or in its queue, or nowhere, as was true behind one batch of the journal: never
in two places, and in none only if it was cancelled, or consumed.
"""

from dataclasses import dataclass
from random import Random
from typing import Final, final

import pytest

from tests.support.queue_life import MS, Life, ident_of
from tests.support.sim_files import SimFiles
from warren.protocol.properties import P_PERSISTENT
from warren.queues import REFUSED, Message, Queue
from warren.queues.calendar import due_of, seq_of
from warren.queues.delayed import CANCELLED, REFUSED_THEN, RELEASED, Delayed, DelayKeeper, unpack

EXCHANGE: Final = 1
QUEUE: Final = 2
NEVER: Final = 1 << 60
BEGIN_NS: Final = 1_790_000_000_000 * MS
IDENTS: Final = (ident_of(EXCHANGE), ident_of(QUEUE))
PERSISTENT: Final = b"\x10\x00\x02"


@dataclass(slots=True)
class Fate:
    """In which batch each thing happened to a message."""

    due_ms: int
    seq: int
    entered: int
    moved: int = NEVER
    gone: int = NEVER

    def place(self, batch: int) -> str:
        if not self.entered <= batch or self.gone <= batch:
            return ""
        return "queue" if self.moved <= batch else "held"


@final
class Keeper(DelayKeeper):
    def __init__(self, world: "World", queue: Queue) -> None:
        self.world = world
        self.queue = queue

    def now_ms(self) -> int:
        return int(self.world.life.turn.now_ns) // MS

    def hand_on(self, message: Message) -> int:
        fate = self.world.fates[int(message.whole_body()[:8])]
        assert fate.due_ms <= self.now_ms()
        assert fate.moved == NEVER
        fate.moved = self.world.life.open
        return RELEASED if self.queue.publish(message, None, 0) != REFUSED else REFUSED_THEN


@final
class World:
    """Lives one after the other on one disk, and what should be true."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.fates: dict[int, Fate] = {}
        self.next = 0
        self.now_ns = BEGIN_NS
        self.kept = random.choice((600, 4000, 1 << 20))
        self.file_size = random.choice((200, 2000, 1 << 20))
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
        self.queue = self.life.queue(QUEUE)
        self.delayed = Delayed("x", self.life.turn, Keeper(self, self.queue))
        storage = self.life.storage
        self.delayed.join_store(storage, "/", storage.index_of_exchange(EXCHANGE))

    def hold(self) -> None:
        number = self.next
        self.next += 1
        size = self.random.choice((0, 0, 0, 300, 20_000))
        body = b"%08d" % number + b"." * size
        message = Message(b"\x01x\x01k", PERSISTENT, body, None, len(body), P_PERSISTENT)
        due_ms = self.now_ns // MS + self.random.choice((0, 50, 300, 5000, 86_400_000))
        seq = int(self.delayed.hold(message, due_ms))
        self.fates[number] = Fate(due_ms, seq, self.life.open)

    def cancel(self) -> None:
        held = [one for one in self.fates.values() if one.moved == one.gone == NEVER]
        if held:
            fate = self.random.choice(held)
            if self.delayed.cancel(fate.due_ms, fate.seq):
                fate.gone = self.life.open

    def drop_all(self) -> None:
        self.delayed.drop_all(CANCELLED)
        for fate in self.fates.values():
            if fate.moved == NEVER and fate.gone == NEVER:
                fate.gone = self.life.open

    def consume(self) -> None:
        got = self.queue.get()
        if got is not None:
            fate = self.fates[int(got.message.body[:8])]
            fate.gone = self.life.open
            index = self.queue.index
            assert index is not None
            index.settle(got.seq, got.message.size)

    def pass_time(self) -> None:
        self.now_ns += self.random.choice((1, 100, 1000, 90_000_000)) * MS
        self.life.turn.now_ns = self.now_ns

    def step(self) -> None:
        """Some things happen; then a turn ends, and the disk goes on."""
        for _ in range(self.random.choice((1, 2, 8))):
            acts = [self.hold] * 6 + [self.consume] * 4 + [self.cancel] * 2 + [self.pass_time]
            if self.random.random() < 0.01:
                acts = [self.drop_all]
            self.random.choice(acts)()
        self.life.end_turn()
        self.life.go_on(self.random.choice((0, 1, 5, 40)))

    def held(self) -> list[tuple[int, int, int]]:
        """What is in the calendar: when, sequence id, number."""
        found = []
        for _, blocks in self.delayed.calendar.sources():
            for block in blocks:
                for record in block:
                    seq = int(seq_of(record))
                    message = self.delayed.apart.get(seq) or unpack(record)
                    found.append((int(due_of(record)), seq, int(message.whole_body()[:8])))
        return found

    def crash(self) -> None:
        """Crash; start again, perhaps crash while it is read back; compare."""
        safe, last = self.life.safe, self.life.open - 1
        self.begin(self.life.crash(self.random))
        while self.random.random() < 0.4:
            # Nothing happened but reading: the next start finds the same.
            self.life.go_on(self.random.choice((0, 3, 30)))
            self.begin(self.life.crash(self.random))
        self.settle_on(safe, last)

    def settle_on(self, safe: int, last: int) -> None:
        # Time stands still in a turn that has not begun: nothing is handed on here.
        life = self.life
        life.turn.now_ns = BEGIN_NS - 1_000_000_000
        life.rest()
        store = self.delayed.store
        assert store is not None
        assert not store.loading
        held = self.held()
        for due_ms, seq, number in held:
            assert self.fates[number].due_ms == due_ms
            assert self.fates[number].seq == seq
        assert int(self.delayed.held.count) == len(held)
        index = self.queue.index
        assert index is not None
        queued = [int(one.body[:8]) for one in life.take_all(self.queue)]
        places = {number: "held" for *_, number in held}
        assert len(places) == len(held)
        assert len(set(queued)) == len(queued)
        assert not set(queued) & set(places)
        places |= dict.fromkeys(queued, "queue")
        for batch in range(safe, last + 1):
            wanted = {number: fate.place(batch) for number, fate in self.fates.items()}
            if places == {number: place for number, place in wanted.items() if place}:
                break
        else:
            raise AssertionError(f"neither of the batches {safe} to {last}")
        for number in list(self.fates):
            if number not in places:
                del self.fates[number]
            else:
                moved = -1 if places[number] == "queue" else NEVER
                before = self.fates[number]
                self.fates[number] = Fate(before.due_ms, before.seq, -1, moved)
        # They were only looked at: another start has them again, and does not wait to be read.
        self.begin(life.crash(self.random))


@pytest.mark.rule("CN-2", "IX-19")
@pytest.mark.parametrize("seed", range(30))
def test_crashes_of_delayed_messages(seed: int) -> None:
    random = Random(seed)
    world = World(random)
    for _ in range(4):
        for _ in range(random.choice((3, 20, 60))):
            world.step()
        world.crash()
    for _ in range(random.choice((1, 3, 10))):
        world.step()
    # In the end all that is left comes, each at its time.
    world.now_ns += 4 * 86_400_000 * MS
    world.life.turn.now_ns = world.now_ns
    world.life.rest()
    assert world.held() == []
    assert all(fate.moved != NEVER or fate.gone != NEVER for fate in world.fates.values())
    assert world.delayed.held.count == 0
