"""Work on a store that is drawn from a seed, and crashes at every step of it.

`Workload` publishes, settles, reads, deletes queues and stops, on lanes whose threads take turns
(`sim_lanes.py`), with options drawn so that files are small and checkpoints frequent. After every
call of a lane `boundary` is called; `Crasher` crashes copies of the disk there, starts a store from
each, and compares it with the model; and crashes some of these starts in turn.
"""

import errno
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final, final

from tests.support.sim_files import SimFiles
from tests.support.sim_lanes import SimLanes
from tests.support.store_model import (
    NEVER,
    Model,
    QueueModel,
    Store,
    Stored,
    content_of,
    drain,
    verify,
)
from warren.store import keeping
from warren.store.index import QueueIndex
from warren.store.journal import Waiter
from warren.store.persistence import CHECKPOINT
from warren.store.reading import Reading
from warren.store.record import PERSISTENT, STORED
from warren.store.state import CLEAN, encode_mark, encode_runs

SEGMENT: Final = 16384


@dataclass(frozen=True, slots=True)
class Options:
    """What a run is like; small numbers make rare things frequent."""

    kept: int
    file_size: int
    rewrite_min: int
    most: int
    queues: int
    large: float
    steps: int
    failures: float
    # Of the message store: what is too large to be embedded, and when a file is full.
    embed_below: int
    body_file_size: int
    # How often a queue begins with a history.
    history: float = 0.0

    @classmethod
    def draw(cls, random: Random) -> "Options":
        return cls(
            kept=random.choice((600, 2000, 8000, 30000)),
            file_size=random.choice((200, 700, 2000, 8000)),
            rewrite_min=random.choice((0, 300, 2000)),
            most=random.choice((1, 500, 4096, 100000)),
            queues=random.choice((1, 2, 4, 40)),
            large=random.choice((0.0, 0.02, 0.1)),
            steps=random.choice((20, 60, 120)),
            failures=random.choice((0.0, 0.0, 0.0, 0.002, 0.01)),
            embed_below=random.choice((0, 50, 500, 4096, 1 << 40)),
            body_file_size=random.choice((100, 700, 3000, 50000)),
            history=random.choice((0.0, 0.2, 0.7)),
        )


class Promise(Waiter):
    """Notes in the model what is told to be safe."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    def safe(self, batch: int) -> None:
        assert batch == self.model.safe + 1, (batch, self.model.safe)
        self.model.safe = int(batch)

    def lost(self, batch: int) -> None:
        assert batch > self.model.safe


@final
class Workload:
    """One life of a store, from its start to its crash or stop."""

    def __init__(
        self,
        store: Store,
        model: Model,
        random: Random,
        options: Options,
        boundary: Callable[[], None],
    ) -> None:
        self.model = model
        self.random = random
        self.options = options
        self.boundary = boundary
        self.files = store.files
        self.lanes = SimLanes(store.files, random)
        self.persistence = store.use(
            self.lanes,
            kept=options.kept,
            file_size=options.file_size,
            rewrite_min=options.rewrite_min,
            embed_below=options.embed_below,
            body_file_size=options.body_file_size,
        )
        self.promise = Promise(model)
        self.model.safe = int(self.persistence.journal.batch.number) - 1
        self.model.sealed = self.model.safe
        for queue in model.queues.values():
            for message in queue.messages.values():
                message.entered = self.model.safe
        self.persistence.journal.wait(self.promise)
        self.dropped: list[int] = []
        self.reads = 0
        self.kept_reads = 0

    # -- what happens ----------------------------------------------------------------------------

    def step(self) -> None:
        """One turn of the loop, and some calls of the lanes."""
        for _ in range(self.random.choice((0, 1, 1, 2, 5))):
            self.act()
        self.end_turn()
        for _ in range(self.random.choice((0, 1, 3, 10, 40))):
            if not self.go_on():
                break

    def go_on(self) -> bool:
        going = self.lanes.step()
        self._follow()
        self.boundary()
        return going

    def end_turn(self) -> None:
        self.persistence.end_turn()
        self._follow()

    def _follow(self) -> None:
        """Hear of the batch that is open now; the layer writes records of its own, too."""
        self.note_floors()
        self.model.sealed = int(self.persistence.journal.batch.number) - 1
        self.persistence.journal.wait(self.promise)

    def note_floors(self) -> None:
        """Hear of what is kept now: floors rise in the background."""
        for ident, queue in self.model.queues.items():
            index = self.persistence.indexes.get(ident) or self.persistence.leaving.get(ident)
            if index is not None:
                kept = int(index.kept_from), int(index.kept_to)
                if queue.kept[-1][1:] != kept:
                    queue.keep(int(index.batch), *kept)

    def act(self) -> None:
        queues = [queue for queue in self.model.queues.values() if not queue.dropped]
        if len(queues) < self.options.queues and (not queues or self.random.random() < 0.3):
            self.model.queues[self.model.next_ident] = QueueModel(self.model.next_ident)
            queues.append(self.model.queues[self.model.next_ident])
            self.model.next_ident += 1
            if self.random.random() < self.options.history:
                self.keep(queues[-1])
        queue = self.random.choice(queues)
        if self.options.history and self.random.random() < 0.15:
            self.act_kept(queue)
            return
        self.act_on(queue, queues)

    def act_on(self, queue: QueueModel, queues: list[QueueModel]) -> None:
        choice = self.random.random()
        if choice < 0.5:
            for _ in range(self.random.choice((1, 1, 2, 8))):
                self.publish(queue)
            if choice < 0.05:
                self.publish_to_all(queues)
        elif choice < 0.75:
            self.settle(queue)
        elif choice < 0.85:
            self.move(queue, self.random.choice(queues))
        elif choice < 0.95:
            self.read(queue)
        elif choice < 0.97:
            self.purge(queue)
        elif choice < 0.985:
            self.drop(queue)
        elif self.dropped:
            ident = self.dropped.pop(0)
            del self.model.queues[ident]
            self.persistence.forget(ident)

    def _index(self, queue: QueueModel) -> QueueIndex:
        return self.persistence.open(queue.ident)

    def _now(self) -> int:
        return int(self.persistence.journal.batch.number)

    def publish(self, queue: QueueModel, body: bytes | None = None, place: int = 0) -> int:
        """Publish a body, or one that the message store has already; return its place."""
        random = self.random
        seq = queue.next_seq
        gap = random.random()
        if gap < 0.01:
            seq = (seq // SEGMENT + random.choice((1, 1, 3))) * SEGMENT + random.randrange(3)
        elif gap < 0.1:
            seq += random.randrange(1, 6)
        elif gap < 0.12 and seq % SEGMENT < 40:
            seq += SEGMENT - 40 - seq % SEGMENT if random.random() < 0.1 else 0
        if body is None:
            size = random.choice((0, 1, 12, 100, 600))
            if random.random() < self.options.large:
                size = random.choice((16384, 20480, 70000))
            mark = b"%d/%d/%d;" % (queue.ident, seq, random.randrange(1000))
            body = (mark * (size // len(mark) + 1))[:size]
        props = b"\x10\x00\x02" if random.random() < 0.5 else b""
        more = None
        if len(body) > 1000 and random.random() < 0.5:
            more = [body[:1000], body[1000:]]
        bodies = self.persistence.bodies
        if place and not bodies.holds(place):
            place = 0
        if not place and bodies.takes(len(body), len(props)):
            place = int(bodies.put(body if more is None else b"", more, len(body)))
        message = Stored(
            seq=seq,
            tail=b"\x00" + bytes((3,)) + b"q%02d" % (queue.ident % 100),
            props=props,
            hidden=b"\x01b" if random.random() < 0.1 else b"",
            body=body,
            at_us=random.randrange(1 << 50),
            expires_us=random.choice((0, 1 << 51)),
            traits=random.randrange(1 << 20),
            flags=PERSISTENT | STORED if place else PERSISTENT,
            entered=self._now(),
            place=place,
        )
        index = self._index(queue)
        journal = self.persistence.journal
        before = journal.position()
        if place:
            lsn = journal.publish_stored(
                queue.ident, seq, PERSISTENT, message.at_us, message.expires_us, message.tail,
                props, message.hidden, place, len(body), message.traits,
            )  # fmt: skip
        else:
            lsn = journal.publish(
                queue.ident, seq, PERSISTENT, message.at_us, message.expires_us, message.tail,
                props, message.hidden, body if more is None else b"", more, len(body),
                message.traits,
            )  # fmt: skip
        assert lsn == before
        index.enter(seq, lsn, journal.position() - lsn, len(body))
        queue.messages[seq] = message
        queue.next_seq = seq + 1
        return place

    def publish_to_all(self, queues: list[QueueModel]) -> None:
        """A fanout: the body is in the message store once."""
        place = self.publish(queues[0])
        message = queues[0].messages[queues[0].next_seq - 1]
        for queue in queues[1:]:
            assert self.publish(queue, message.body, place) == place or not place

    def _settle(self, queue: QueueModel, message: Stored) -> None:
        self._index(queue).finish(message.seq, len(message.body), message.place)
        message.settle(self._now(), kept=queue.is_kept(message.seq))

    def settle(self, queue: QueueModel) -> None:
        live = queue.live()
        if self.random.random() < 0.3:
            self.random.shuffle(live)
        for message in live[: self.random.choice((1, 3, 10, 1000))]:
            self._settle(queue, message)

    def move(self, source: QueueModel, target: QueueModel) -> None:
        """Dead-letter one: it is in one of the two, whatever happens."""
        live = source.live()
        if live:
            message = self.random.choice(live)
            if self.random.random() < 0.5:
                self.publish(target, message.body, message.place)
                self._settle(source, message)
            else:
                self._settle(source, message)
                self.publish(target, message.body, message.place)

    def purge(self, queue: QueueModel) -> None:
        """Settle everything from an id on."""
        live = queue.live()
        if live:
            first = self.random.choice(live).seq
            gone = [message for message in live if message.seq >= first]
            self._index(queue).settle_from(first, sum(len(message.body) for message in gone))
            for message in gone:
                message.settle(self._now(), kept=queue.is_kept(message.seq))

    def drop(self, queue: QueueModel) -> None:
        if queue.ident in self.persistence.indexes:
            self.persistence.drop(self._index(queue))
            queue.dropped = True
            self.dropped.append(queue.ident)

    def keep(self, queue: QueueModel) -> None:
        """Begin or end a history."""
        index = self._index(queue)
        if index.kept_from >= index.kept_to:
            keeping.begin(index)
        else:
            keeping.end(index)
            self.persistence.lift(index, index.kept_to)
        self.note_floors()

    def lift(self, queue: QueueModel) -> None:
        """Have the floor rise to some id."""
        index = self._index(queue)
        begin, end = int(index.kept_from), min(int(index.kept_to), queue.next_seq)
        if begin < end:
            seqs = [seq for seq in queue.messages if begin < seq <= end]
            floor = self.random.choice((begin + 1, end, *seqs[: 1 + len(seqs) // 2]))
            self.persistence.lift(index, floor)

    def act_kept(self, queue: QueueModel) -> None:
        choice = self.random.random()
        if choice < 0.4:
            self.lift(queue)
        elif choice < 0.85:
            self.read_kept(queue)
        else:
            self.keep(queue)

    def read_kept(self, queue: QueueModel) -> None:
        """Read what is live or kept."""
        index = self._index(queue)
        seqs = list(queue.messages)
        seq = self.random.choice((0, *seqs))

        def ended(reading: Reading, error: Exception | None) -> None:
            if error is not None:
                assert isinstance(error, OSError), error
                return
            records = reading.records()
            assert not reading.lost, (reading.lost, reading.problem)
            if reading.moved or queue.dropped:
                return
            begin, end = int(reading.seq), int(reading.next_seq)
            have = [int(record.seq) for record in records]
            want = [
                message.content()
                for message in queue.readable_at(NEVER - 1, have)
                if begin <= message.seq < end
            ]
            assert [content_of(record) for record in records] == want, (
                have,
                [(m.seq, m.settled, m.gone, m.maybe) for m in queue.messages.values()],
            )
            self.kept_reads += 1

        self.persistence.read(index, seq, ended, self.options.most, history=True)

    def read(self, queue: QueueModel) -> None:
        """Read from some id on, while everything else goes on."""
        live = queue.live()
        if not live:
            return
        seq = self.random.choice((0, self.random.choice(live).seq))
        index = self._index(queue)

        def ended(reading: Reading, error: Exception | None) -> None:
            if error is not None:
                assert isinstance(error, OSError), error
                return
            records = reading.records()
            assert not reading.lost, reading.lost
            if reading.moved or queue.dropped:
                return
            begin, end = int(reading.seq), int(reading.next_seq)
            want = [message.content() for message in queue.live() if begin <= message.seq < end]
            assert [content_of(record) for record in records] == want
            self.reads += 1

        self.persistence.read(index, seq, ended, self.options.most)

    def settle_down(self) -> None:
        """Go on until nothing is under way."""
        while self.go_on():
            self.end_turn()

    def stop(self) -> None:
        """Stop in order: what is under way ends, then the mark is written."""
        for _ in range(100000):
            self.end_turn()
            if not self.go_on() and not self.persistence.committing:
                break
        if self.persistence.broken or self.persistence.checkpointing:
            return
        runs: dict[int, list[tuple[int, int]]] = {}
        for queue in self.model.queues.values():
            live = queue.live()
            if live and not queue.dropped and self.random.random() < 0.5:
                runs[queue.ident] = [(live[0].seq, 1)]
        self.model.stopping = runs
        ended: list[Exception | None] = []
        job = self.persistence.state.note(
            {},
            [
                *(encode_runs(ident, some) for ident, some in runs.items()),
                encode_mark(CLEAN, 0, int(self.persistence.journal.committed)),
            ],
            [],
            lambda job, error: ended.append(error),
        )
        self.lanes.submit(CHECKPOINT, job)
        while self.go_on():
            pass
        self.model.stopped = ended == [None]
        self.boundary()


@final
class Crasher:
    """Crashes copies of a disk and counts them."""

    def __init__(self, model: Model, random: Random, most: int) -> None:
        self.model = model
        self.random = random
        self.most = most
        self.points = 0

    def crash(self, files: SimFiles, *, deep: float) -> None:
        """Crash the disk as it is now, start from what is left, and look."""
        image = self.image(files)
        known = self.model.known(self.random)
        self.points += 1
        if self.random.random() < deep:
            self.crash_start(image, known)
            return
        verify(Store(image, known), self.model, self.most)

    def image(self, files: SimFiles) -> SimFiles:
        if self.random.random() < 0.75:
            return files.after_power_cut(self.random)
        return files.after_kill(self.random)

    def crash_start(self, image: SimFiles, known: frozenset[int]) -> None:
        """Crash a start at each of its calls; some fail first."""
        images: list[SimFiles] = []

        def gate(call: str, path: str) -> None:
            del call, path
            images.append(self.image(image))

        image.gate = gate
        if self.random.random() < 0.2:
            fatal = image.calls + self.random.randrange(40)

            def fail(call: str, path: str) -> OSError | None:
                del call, path
                return OSError(errno.EIO, "injected") if image.calls >= fatal else None

            image.fail = fail
        store: Store | None = None
        try:
            store = Store(image, known)
        except OSError as error:
            if "injected" not in str(error):
                raise
        image.gate = None
        if store is not None:
            image.fail = lambda call, path: None
            verify(store, self.model, self.most)
        images.append(self.image(image))
        for other in images:
            self.points += 1
            verify(Store(other, known), self.model, self.most, again=True)


def run(seed: int, *, dense: float = 0.3, deep: float = 0.03) -> int:
    """Some lives of one disk; return how many crashes were looked at."""
    random = Random(seed)
    model = Model()
    options = Options.draw(random)
    files = SimFiles(random)
    crasher = Crasher(model, random, options.most)
    store = Store(files, ())
    for _ in range(random.choice((1, 2, 3))):
        failing = options.failures if random.random() < 0.7 else 0.0

        def fail(call: str, path: str, chance: float = failing) -> OSError | None:
            if chance and random.random() < chance:
                number = random.choice((errno.EIO, errno.ENOSPC)) if call == "write" else errno.EIO
                return OSError(number, f"injected: {call} {path}")
            return None

        def boundary() -> None:
            if random.random() < dense:
                crasher.crash(work.files, deep=deep)  # noqa: B023 (of this life)

        work = Workload(store, model, random, options, boundary)
        work.files.fail = fail
        for _ in range(options.steps):
            work.step()
            if work.persistence.broken and random.random() < 0.2:
                break
        if random.random() < 0.4:
            work.stop()
        image = crasher.image(work.files)
        work.lanes.kill()
        known = model.known(random)
        store = Store(image, known)
        batch = verify(store, model, options.most)
        crasher.points += 1
        model.settle_on(batch, known)
        options = Options.draw(random)
    drain(store)
    model.safe = model.sealed = int(store.persistence.journal.batch.number) - 1
    for queue in model.queues.values():
        for message in queue.messages.values():
            message.entered = model.safe
    last = Store(crasher.image(store.files), model.known(random))
    verify(last, model, options.most)
    assert last.recovery.orphans.keys() <= store.recovery.orphans.keys()
    assert not any(len(index.owed) for index in last.persistence.indexes.values())
    return crasher.points
