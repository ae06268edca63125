"""Records are read back by id, several chunks at a time, or runs of the journal (IX-11)."""

from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.support.sim_files import SimFiles
from tests.support.sim_lanes import DirectLanes
from tests.support.store_model import Store
from warren.store.reading import Reading
from warren.store.record import PERSISTENT

if TYPE_CHECKING:
    from warren.store.index import QueueIndex
    from warren.store.persistence import Persistence

BODY = b"." * 1000


class Shelf:
    """A store with one queue, jobs done at once."""

    def __init__(self, *, kept: int = 4000, file_size: int = 3000) -> None:
        self.files = SimFiles(Random(1))
        self.lanes = DirectLanes(self.files)
        store = Store(self.files, {256})
        self.layer: Persistence = store.use(
            self.lanes,
            kept=kept,
            file_size=file_size,
            rewrite_min=0,
            embed_below=4096,
            body_file_size=1 << 24,
        )
        self.index: QueueIndex = self.layer.open(256)

    def put(self, count: int) -> None:
        journal = self.layer.journal
        for _ in range(count):
            seq = self.index.next_seq
            before = journal.position()
            lsn = journal.publish(
                256, seq, PERSISTENT, 0, 0, b"\x00\x00", b"\x00\x00", b"", BODY, None, len(BODY), 0
            )
            self.index.enter(seq, lsn, journal.position() - before, len(BODY))
            self.layer.end_turn()
            self.lanes.run()

    def read(self, seq: int, most: int) -> Reading:
        found: list[Reading] = []

        def ended(reading: Reading, error: Exception | None) -> None:
            assert error is None
            found.append(reading)

        assert self.layer.read(self.index, seq, ended, most)
        self.lanes.run()
        return found[0]

    def all_from(self, seq: int, most: int) -> tuple[list[int], int]:
        """The ids of everything from one on, and how many readings it took."""
        seqs: list[int] = []
        count = 0
        while any(self.index.is_live(each) for each in range(seq, int(self.index.next_seq))):
            reading = self.read(seq, most)
            seqs += [int(record.seq) for record in reading.records()]
            assert not reading.lost
            assert reading.next_seq > seq
            seq = int(reading.next_seq)
            count += 1
        return seqs, count


@pytest.mark.rule("IX-11", "VQ-8")
def test_a_reading_takes_as_many_chunks_as_it_may() -> None:
    shelf = Shelf()
    shelf.put(200)
    disk_seq = int(shelf.index.disk_seq)
    assert 100 < disk_seq < 200
    chunk = shelf.index.chunk_at(0)
    assert chunk is not None
    one = shelf.read(0, 1)
    # One chunk at least, whatever is asked for.
    assert [record.seq for record in one.records()] == list(range(int(chunk.last) + 1))
    assert one.next_seq == chunk.last + 1
    several = shelf.read(0, 20_000)
    records = several.records()
    assert len(several.chunks) > 3
    assert [record.seq for record in records] == list(range(int(several.next_seq)))
    assert 10 < len(records) <= 20
    whole = shelf.read(0, 1 << 30)
    # Segments end where the journal begins: that is another reading.
    assert [record.seq for record in whole.records()] == list(range(disk_seq))
    assert shelf.all_from(0, 1 << 30) == (list(range(200)), 2)
    assert shelf.all_from(0, 5000)[0] == list(range(200))


@pytest.mark.rule("IX-11", "VQ-8")
def test_what_is_settled_is_not_read() -> None:
    shelf = Shelf()
    shelf.put(100)
    gone = [*range(30), *range(50, 60), 99]
    for seq in gone:
        shelf.index.settle(seq, len(BODY))
    left = [seq for seq in range(100) if seq not in gone]
    for most in (1, 3000, 1 << 30):
        assert shelf.all_from(0, most)[0] == left


@pytest.mark.rule("IX-11")
def test_what_was_checkpointed_meanwhile_is_asked_for_again() -> None:
    shelf = Shelf(kept=1 << 30)
    shelf.put(20)
    reading = Reading(shelf.index, 0, lambda reading, error: None)
    assert reading.plan(shelf.layer.journal.committed, shelf.layer.files, 1 << 30)
    shelf.layer.checkpoint(len(shelf.layer.files) - 1)
    shelf.lanes.run()
    reading.run(shelf.files)
    assert reading.records() == []
    assert reading.moved
    assert shelf.all_from(0, 1 << 30)[0] == list(range(20))


@pytest.mark.rule("IX-20")
def test_a_chunk_that_is_damaged_costs_its_messages_alone() -> None:
    shelf = Shelf()
    shelf.put(100)
    chunk = shelf.index.chunk_at(10)
    assert chunk is not None
    path = next(path for path in shelf.files.paths() if path.endswith("/0.idx"))
    handle = shelf.files.open(path)
    shelf.files.write(handle, int(chunk.offset) + 100, [b"?"])
    reading = shelf.read(0, 1 << 30)
    seqs = [int(record.seq) for record in reading.records()]
    (first, last) = reading.lost[0]
    assert first <= 10 <= last == chunk.last
    assert seqs == [seq for seq in range(int(reading.next_seq)) if not first <= seq <= last]
    assert "checksum" in reading.problem
    assert shelf.index.lose(first, last) == last + 1 - first
    assert not shelf.index.is_live(10)
