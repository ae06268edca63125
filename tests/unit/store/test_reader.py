"""Reading a data folder from outside: beside a node, after it stopped, after it was killed."""

from random import Random

import pytest

from tests.support.sim_files import SimFiles
from tests.unit.queues.ranged_rig import INCARNATION, RangedRig
from tests.unit.queues.rig import ack
from warren.queues.storage import LEVEL_BITS
from warren.store.index import QueueIndex
from warren.store.readable import live_runs
from warren.store.reader import ChangedError, StoppedStore, segment_records
from warren.store.record import Publish
from warren.store.segment import segment_path

IDENT = INCARNATION << LEVEL_BITS


def index_of(rig: RangedRig) -> QueueIndex:
    index = rig.queue.index
    assert index is not None
    return index


def beside(rig: RangedRig, begin: int = 0, end: int = 1 << 40) -> list[Publish]:
    """What the files of a running node have, segment by segment."""
    index = index_of(rig)
    found: list[Publish] = []
    for number, segment in sorted(index.segments.items()):
        runs = [(first, min(stop, int(index.disk_seq))) for first, stop in live_runs(index, number)]
        path = segment_path(IDENT, number)
        found += segment_records(rig.files, path, int(segment.size), runs, begin, end)
    return found


def numbers(records: list[Publish]) -> list[int]:
    assert all(record.body == b"m%d" % record.seq for record in records)
    return [int(record.seq) for record in records]


def stopped(files: SimFiles, priorities: int = 0) -> StoppedStore:
    """The store of a stopped node; nothing of its files is changed."""
    before = {path: bytes(file.seen()) for path, file in files.paths().items()}
    store = StoppedStore(files, [IDENT | level for level in range(priorities + 1)])
    assert {path: bytes(file.seen()) for path, file in files.paths().items()} == before
    assert files.handles == {}
    return store


def test_segments_beside_a_node() -> None:
    rig = RangedRig()
    outlet = rig.outlet()
    for number in range(20_000):
        rig.put(b"m%d" % number)
        if number % 5000 == 4999:
            rig.checkpoint()
    rig.put(b"m20000")
    rig.commit()
    assert numbers(beside(rig)) == list(range(20_000))
    assert numbers(beside(rig, 16_000, 17_000)) == list(range(16_000, 17_000))
    rig.consumer("c", outlet, no_ack=False, prefetch=100)
    rig.run()
    for tag in range(1, 101, 2):
        ack(outlet, outlet.unacked.take(tag))
    rig.commit()
    assert numbers(beside(rig, 0, 100)) == list(range(1, 100, 2))


def test_a_file_that_changed_is_told() -> None:
    rig = RangedRig()
    for number in range(100):
        rig.put(b"m%d" % number)
    rig.checkpoint()
    path = segment_path(IDENT, 0)
    size = len(rig.files.paths()[path].seen())
    runs = [(0, 100)]
    assert len(list(segment_records(rig.files, path, size, runs, 0, 100))) == 100
    other = segment_path(IDENT, 1)
    with pytest.raises(ChangedError, match="not there"):
        list(segment_records(rig.files, other, size, runs, 0, 100))
    with pytest.raises(ChangedError, match="no chunk"):
        list(segment_records(rig.files, path, size + 100, [(0, 200)], 0, 200))
    for at in (8, 40, 200):
        handle = rig.files.open(path)
        old = rig.files.read(handle, at, 1)
        rig.files.write(handle, at, [bytes((old[0] ^ 1,))])
        with pytest.raises(ChangedError):
            list(segment_records(rig.files, path, size, runs, 0, 100))
        rig.files.write(handle, at, [old])
        rig.files.close(handle)


@pytest.mark.parametrize("how", ["killed", "cut"])
@pytest.mark.parametrize("seed", range(5))
def test_a_stopped_node_is_read_as_its_next_start_would(how: str, seed: int) -> None:
    rig = RangedRig(priorities=2)
    outlet = rig.outlet()
    for number in range(400):
        rig.put(b"m%d" % number, priority=number % 3)
        if number % 100 == 50:
            rig.checkpoint()
        if number % 30 == 0:
            rig.commit()
    rig.commit()
    rig.consumer("c", outlet, no_ack=False, prefetch=50)
    rig.run()
    for tag in range(1, 40):
        ack(outlet, outlet.unacked.take(tag))
    rig.commit()
    rig.put(b"never committed")
    random = Random(seed)
    files = rig.files.after_kill(random) if how == "killed" else rig.files.after_power_cut(random)
    idents = [IDENT | level for level in range(3)]
    store = stopped(files, 2)
    found = numbers(list(store.records(idents, 0, 1 << 40)))
    assert found == sorted(set(range(400)) - _acked(400, 39))
    assert store.live(idents) == len(found)
    some = numbers(list(store.records(idents, 100, 120)))
    assert some == [seq for seq in found if 100 <= seq < 120]
    # The next start finds the same.
    again = RangedRig(files=files, priorities=2)
    assert [seq for seq, _ in again.read()] == found


def _acked(count: int, acked: int) -> set[int]:
    """The highest priority is handed out first."""
    order = sorted(range(count), key=lambda number: (-(number % 3), number))
    return set(order[:acked])


def test_a_torn_end_is_left_out_and_left_there() -> None:
    rig = RangedRig()
    for number in range(10):
        rig.put(b"m%d" % number)
        rig.commit()
    path = max(path for path in rig.files.paths() if path.startswith("journal/"))
    handle = rig.files.open(path)
    rig.files.write(handle, rig.files.size(handle), [b"WRNBATCH and no more"])
    rig.files.close(handle)
    store = stopped(rig.files.after_kill(Random(1)))
    assert numbers(list(store.records([IDENT], 0, 100))) == list(range(10))
    assert store.problems == []


def test_large_bodies_come_from_the_message_store() -> None:
    rig = RangedRig()
    large = bytes(range(256)) * 100
    rig.put(b"m0", large, b"m2")
    rig.checkpoint()
    rig.put(large)
    rig.commit()
    assert [int(record.place) != 0 for record in beside(rig)] == [False, True, False]
    store = stopped(rig.files.after_kill(Random(1)))
    found = list(store.records([IDENT], 0, 100))
    assert [record.body for record in found] == [b"m0", large, b"m2", large]
