"""What a store must still know after a crash, and looking whether it does.

The model notes of every message in which batch it entered and in which it was settled, and which
batches were told to be safe. After a crash the store has to be exactly as it was behind one batch,
for all queues the same one: the last that was told safe, or the one that was under way. That is all
of the promises at once: nothing promised is lost or comes back, what was written in one batch is
there together or not at all, counts are what a walk over the messages gives.

What was settled and is kept (`keeping.py`) is there likewise until the floor has passed it.
"""

from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, final

from tests.support.sim_lanes import DirectLanes
from warren.store.body_file import FILE_HEADER, body_path
from warren.store.commit import journal_path
from warren.store.index import SEGMENT_SHIFT, QueueIndex
from warren.store.persistence import Persistence
from warren.store.record import Publish, RecordSink, place_at, walk
from warren.store.recovery import Found, Recovery
from warren.store.segment import CHUNK_HEADER, segment_path
from warren.store.state_log import state_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tests.support.sim_files import SimFiles
    from warren.core.seam import Lanes
    from warren.store.reading import Reading

NEVER = 1 << 60


class Quiet:
    """A log that nobody reads."""

    def event(self, level: str, name: str, fields: "Mapping[str, object]", /) -> None:
        del level, name, fields


@dataclass(slots=True)
class Stored:
    """A message as it was given to the store, and its batches."""

    seq: int
    tail: bytes
    props: bytes
    hidden: bytes
    body: bytes
    at_us: int
    expires_us: int
    traits: int
    flags: int
    entered: int
    # Where the message store has the body; 0 is nowhere.
    place: int = 0
    settled: int = NEVER
    # From which batch on it is not kept, either.
    gone: int = NEVER
    # It was settled before the history began and may be readable nevertheless.
    maybe: bool = False

    def settle(self, batch: int, *, kept: bool) -> None:
        self.settled = batch
        if not kept:
            self.gone = batch

    def content(self) -> tuple[object, ...]:
        return (
            self.seq, self.tail, self.props, self.hidden, self.body, self.at_us, self.expires_us,
            self.traits, self.flags, len(self.body), self.place,
        )  # fmt: skip


@dataclass(slots=True)
class QueueModel:
    ident: int
    messages: dict[int, Stored] = field(default_factory=dict)
    next_seq: int = 0
    # Deleted, but the metadata may not know of it.
    dropped: bool = False
    # What is kept from which batch on: from an id to before another.
    kept: list[tuple[int, int, int]] = field(default_factory=lambda: [(0, 0, 0)])

    def is_kept(self, seq: int) -> bool:
        return self.kept[-1][1] <= seq < self.kept[-1][2]

    def keep(self, batch: int, floor: int, end: int) -> None:
        """Another range is kept from this batch on."""
        begins = self.kept[-1][1] >= self.kept[-1][2]
        self.kept.append((batch, floor, end))
        for message in self.messages.values():
            if begins and message.seq >= floor and message.settled != NEVER:
                message.maybe = True
            elif message.settled != NEVER and message.gone == NEVER and message.seq < floor:
                message.gone = batch

    def kept_at(self, batch: int) -> tuple[int, int]:
        """What is kept behind a batch; nothing is (0, 0)."""
        found = [(floor, end) for begin, floor, end in self.kept if begin <= batch][-1]
        return found if found[0] < found[1] else (0, 0)

    def live(self) -> list[Stored]:
        return [message for message in self.messages.values() if message.settled == NEVER]

    def at(self, batch: int) -> list[Stored]:
        return [
            message
            for message in self.messages.values()
            if message.entered <= batch < message.settled
        ]

    def readable_at(self, batch: int, have: "Iterable[int]") -> list[Stored]:
        """What is live or kept behind a batch; and of these ids, what may be."""
        floor, end = self.kept_at(batch)
        seen = set(have)
        return [
            message
            for message in self.messages.values()
            if message.entered <= batch < message.gone
            or (message.maybe and message.seq in seen and floor <= message.seq < end)
        ]


@final
class Model:
    def __init__(self) -> None:
        self.queues: dict[int, QueueModel] = {}
        self.next_ident = 1
        # The last batch that was told safe, and the last that was handed to the disk.
        self.safe = 0
        self.sealed = 0
        # What the node said when it stopped; None while it runs.
        self.stopping: dict[int, list[tuple[int, int]]] | None = None
        self.stopped = False

    def known(self, random: Random) -> frozenset[int]:
        """The queues that the metadata may have after a crash now."""
        return frozenset(
            ident
            for ident, queue in self.queues.items()
            if not queue.dropped or random.random() < 0.5
        )

    def settle_on(self, batch: int, known: "Iterable[int]") -> None:
        """This is what was found: everything else never was."""
        self.queues = {ident: self.queues[ident] for ident in known}
        for queue in self.queues.values():
            queue.dropped = False
            queue.messages = {
                message.seq: message
                for message in queue.messages.values()
                if message.entered <= batch < message.gone or message.maybe
            }
            for message in queue.messages.values():
                if message.entered <= batch < message.settled:
                    message.settled = NEVER
                    message.maybe = False
                if message.entered <= batch < message.gone:
                    message.gone = NEVER
            queue.kept = [(0, *queue.kept_at(batch))]
        self.stopping = None
        self.stopped = False


@final
class Store:
    """A store that was started from a disk."""

    def __init__(self, files: "SimFiles", known: "Iterable[int]") -> None:
        self.files = files
        self.direct = DirectLanes(files)
        self.recovery = Recovery(files, known, mark=files.random.getrandbits(32))
        journal, end, state = self.recovery.run()
        self.persistence = Persistence(
            self.direct, Quiet(), journal, end, state, self.recovery.journal_files
        )
        self.persistence.indexes = self.recovery.indexes

    @property
    def found(self) -> Found:
        return self.recovery.found

    def use(
        self,
        lanes: "Lanes",
        *,
        kept: int,
        file_size: int,
        rewrite_min: int,
        embed_below: int,
        body_file_size: int,
    ) -> Persistence:
        persistence = self.persistence
        persistence.bodies.embed_below = embed_below
        persistence.bodies.file_size_limit = body_file_size
        persistence.lanes = lanes
        persistence.kept = kept
        persistence.slice = 2
        persistence.end.file_size = file_size
        persistence.state.rewrite_min = rewrite_min
        return persistence

    def read_all(self, index: QueueIndex, most: int, *, history: bool = False) -> list[Publish]:
        """All live messages of a queue, or also those kept, in the order of reading."""
        records: list[Publish] = []
        ended: list[tuple[Reading, Exception | None]] = []
        seq = 0
        while self.persistence.read(
            index,
            seq,
            lambda reading, error: ended.append((reading, error)),
            most,
            history=history,
        ):
            self.direct.run()
            reading, error = ended.pop()
            assert error is None, error
            assert not reading.moved
            records += reading.records()
            assert not reading.lost, reading.lost
            assert reading.next_seq > seq
            seq = int(reading.next_seq)
        return records


def content_of(record: Publish) -> tuple[object, ...]:
    return (
        record.seq, record.tail, record.props, record.hidden, record.body, record.at_us,
        record.expires_us, record.traits, record.flags, record.body_size, record.place,
    )  # fmt: skip


def verify(store: Store, model: Model, most: int = 4096, *, again: bool = False) -> int:
    """Compare a store that was just started with the model; return the batch it is behind.

    `again`: a start before this one crashed; it may have taken back the mark of a clean stop.
    """
    found = store.found
    assert found.damages == [], found.damages
    assert not found.damaged
    seen: dict[int, list[Publish]] = {}
    kept: dict[int, list[Publish]] = {}
    for ident, index in store.persistence.indexes.items():
        seen[ident] = store.read_all(index, most)
        if index.kept_from < index.kept_to:
            kept[ident] = store.read_all(index, max(most, 4096), history=True)
    candidates = range(model.safe, max(model.safe, model.sealed) + 1)
    problems: list[str] = []
    for batch in candidates:
        problem = _compare(store, model, seen, batch) or _compare_kept(store, model, kept, batch)
        if not problem:
            break
        problems.append(f"behind batch {batch}: {problem}")
    else:
        raise AssertionError("; ".join(problems))
    if model.stopped and not again:
        assert found.clean, "a clean stop is not known as one"
    if found.clean:
        assert model.stopping is not None, "an unclean stop counts as a clean one"
        assert found.handed_out == {
            ident: runs for ident, runs in model.stopping.items() if ident in seen
        }
    check_files(store)
    check_bodies(store)
    return batch


def _compare(store: Store, model: Model, seen: dict[int, list[Publish]], batch: int) -> str:
    for ident, records in seen.items():
        index = store.persistence.indexes[ident]
        expected = model.queues[ident].at(batch)
        have = [int(record.seq) for record in records]
        want = [message.seq for message in expected]
        if have != want:
            lost = sorted(set(want) - set(have))
            back = sorted(set(have) - set(want))
            return f"queue {ident}: lost {lost}, back {back}, order {have == sorted(have)}"
        for record, message in zip(records, expected, strict=True):
            if content_of(record) != message.content():
                return f"queue {ident}: message {message.seq} has other octets"
        if index.live != len(want):
            return f"queue {ident}: {index.live} are counted, {len(want)} are there"
        octets = sum(len(message.body) for message in expected)
        if index.live_bytes != octets:
            return f"queue {ident}: {index.live_bytes} octets are counted, {octets} are there"
        if want and index.next_seq <= want[-1]:
            return f"queue {ident}: the next id is {index.next_seq}"
    return ""


def _compare_kept(store: Store, model: Model, seen: dict[int, list[Publish]], batch: int) -> str:
    for ident, index in store.persistence.indexes.items():
        kept = int(index.kept_from), int(index.kept_to)
        want_kept = model.queues[ident].kept_at(batch)
        if (kept if kept[0] < kept[1] else (0, 0)) != want_kept:
            return f"queue {ident}: {kept} are kept and not {want_kept}"
    for ident, records in seen.items():
        have = [int(record.seq) for record in records]
        expected = model.queues[ident].readable_at(batch, have)
        want = [message.seq for message in expected]
        if have != want:
            lost = sorted(set(want) - set(have))
            back = sorted(set(have) - set(want))
            return f"queue {ident}: of the history lost {lost}, back {back}"
        for record, message in zip(records, expected, strict=True):
            if content_of(record) != message.content():
                return f"queue {ident}: message {message.seq} of the history has other octets"
    return ""


@final
class References(RecordSink):
    """The places that records of a queue refer to, whatever is known of them otherwise."""

    def __init__(self, index: QueueIndex, places: Counter[int]) -> None:
        self.index = index
        self.places = places
        self.stored = 0

    def on_publish(self, queue: int, seq: int, position: int, size: int, data: bytes) -> None:
        segment = self.index.segments.get(seq >> SEGMENT_SHIFT)
        place = int(place_at(data, position))
        if segment is None or not place:
            return
        kept = self.index.is_kept(seq) and segment.is_stored(seq)
        if kept or not segment.is_settled(seq):
            assert segment.is_stored(seq)
            self.places[place] += 1
            self.stored += 1


def count_references(store: Store) -> Counter[int]:
    """How often records that count name each place; looks at the octets of all files."""
    places: Counter[int] = Counter()
    paths = store.files.paths()
    for ident, index in (*store.persistence.indexes.items(), *store.recovery.orphans.items()):
        sink = References(index, places)
        for number, segment in index.segments.items():
            if segment.live == 0 and not index.keeps(segment):
                continue
            for at in range(0, len(segment.chunks), 4):
                offset, size = int(segment.chunks[at + 2]), int(segment.chunks[at + 3])
                data = bytes(paths[segment_path(ident, number)].seen()[offset : offset + size])
                walk(data, CHUNK_HEADER, size, sink)
            for at, lsn in enumerate(segment.lsns):
                seq = int(segment.first) + at
                if lsn and seq >= index.disk_seq:
                    for file in store.persistence.files:
                        if file.lsn <= lsn < file.end:
                            data = bytes(paths[journal_path(file.number)].seen())
                            start = 32 + int(lsn) - file.lsn
                            walk(data, start, start + int(segment.sizes[at]), sink)
        assert index.stored_live == sink.stored, (ident, index.stored_live, sink.stored)
    return places


def check_bodies(store: Store) -> None:
    """The message store counts what records refer to, and nothing else."""
    bodies = store.persistence.bodies
    counted = {
        (number << 32) + place + 1: int(count)
        for number, file in bodies.files.items()
        for place, count in enumerate(file.refs)
        if count > 0
    }
    assert counted == count_references(store)
    paths = store.files.paths()
    for home in bodies.homes:
        size = len(paths[body_path(int(home.number))].seen())
        assert size >= FILE_HEADER + home.size, (home.number, size, home.size)
        assert home.valid == sum(
            file.size_of(place)
            for file in home.files
            for place, count in enumerate(file.refs)
            if count > 0
        )
        assert home.valid <= home.size
    assert bodies.size == sum(home.size for home in bodies.homes)
    assert bodies.valid == sum(home.valid for home in bodies.homes)


def drain(store: Store) -> None:
    """Let a store do everything that it owes; then nothing is left that nothing names."""
    persistence = store.persistence
    journal = persistence.journal
    for _ in range(10_000):
        persistence.end_turn()
        store.direct.run()
        if not (journal.owing or journal.pending() or persistence.owing.finished):
            break
    assert not journal.owing, "it owes for ever"
    for home in persistence.bodies.homes:
        assert home.valid > 0 or home.open, f"nothing lives in file {home.number}"
    homes = {body_path(int(home.number)) for home in persistence.bodies.homes}
    assert {path for path in store.files.paths() if path.endswith(".rdq")} <= homes
    check_bodies(store)


def check_files(store: Store) -> None:
    """Everything on the disk has a name that somebody knows."""
    expected = {journal_path(file.number) for file in store.recovery.journal_files}
    state = store.persistence.state
    if state.size:
        expected.add(state_path(state.end.number))
    homes = store.persistence.bodies.homes
    expected.update(body_path(int(home.number)) for home in homes)
    for ident, index in (*store.persistence.indexes.items(), *store.recovery.orphans.items()):
        expected.update(
            segment_path(ident, number)
            for number, segment in index.segments.items()
            if segment.size > 0
        )
        expected.update(segment_path(ident, int(segment.number)) for segment in index.dropped)
    left = set(store.files.paths()) - expected
    if store.found.clean:
        # A power cut after a clean stop may bring back what was removed; it goes with the next
        # start that has to look.
        left = {path for path in left if not path.endswith(".idx")}
    assert not left, f"nothing names {sorted(left)}"
    assert len(store.files.handles) <= 2, store.files.handles
