"""Ranges of a queue: everything in order of ids, wherever it is, and nothing changes by it."""

from collections.abc import Iterator
from random import Random

import pytest

from tests.unit.queues.ranged_rig import EPOCH_NS, SECOND_NS, RangedRig
from tests.unit.queues.rig import ack
from warren.queues import Delivery
from warren.queues.ranged import Ended, Gap, RangeError


def bodies(*numbers: int) -> list[bytes]:
    return [b"m%d" % number for number in numbers]


def numbered(*numbers: int) -> list[tuple[int, bytes]]:
    return [(number, b"m%d" % number) for number in numbers]


@pytest.fixture
def rig() -> RangedRig:
    return RangedRig()


@pytest.mark.rule("PL-1", "PL-2")
def test_stored_and_transient_are_told_in_order(rig: RangedRig) -> None:
    for number in range(10):
        rig.put(b"m%d" % number, stored=number % 2 == 0)
    rig.commit()
    before = rig.state()
    assert rig.read() == numbered(*range(10))
    read = rig.finish(rig.begin())
    assert [record.at_us > 0 for record in read.records] == [True, False] * 5
    assert read.records[0].at_us == (EPOCH_NS + SECOND_NS) // 1000
    assert all(record.ready and not record.redelivered for record in read.records)
    assert read.gaps == []
    assert rig.state() == before


@pytest.mark.rule("PL-2")
def test_nothing_behind_what_is_not_committed_is_told(rig: RangedRig) -> None:
    rig.put(*bodies(0, 1))
    rig.commit()
    rig.put(*bodies(2))
    rig.put(*bodies(3), stored=False)
    assert rig.read() == numbered(0, 1)
    assert rig.begin().stable == 2
    rig.commit()
    assert rig.read() == numbered(0, 1, 2, 3)


def test_any_part_in_any_portions(rig: RangedRig) -> None:
    for number in range(600):
        rig.put(b"m%d" % number, stored=number % 3 != 0)
        if number == 300:
            rig.checkpoint()
    rig.commit()
    for begin, end in ((0, 600), (1, 2), (299, 305), (555, 9999), (600, 700)):
        wanted = numbered(*range(begin, min(end, 600)))
        assert rig.read(begin, end) == wanted
        assert rig.read(begin, end, limit=7) == wanted
        assert rig.read(begin, end, octets=300) == wanted
        transient = [one for one in wanted if one[0] % 3 == 0]
        assert rig.read(begin, end, limit=5, stored=False) == transient


def test_an_answer_is_no_larger_than_it_may(rig: RangedRig) -> None:
    rig.put(*[bytes(1000)] * 50)
    rig.put(bytes(100_000), stored=False)
    rig.commit()
    read = rig.finish(rig.begin(octets=5000))
    assert len(read.records) == 4
    assert read.next_seq == 4
    # One message is told, however large; the part of its body that is wanted.
    read = rig.finish(rig.begin(50, octets=5000))
    assert [(record.size, len(record.body)) for record in read.records] == [(100_000, 100_000)]
    read = rig.finish(rig.begin(50, body_from=99_000, body_max=5000))
    assert [len(record.body) for record in read.records] == [1000]
    read = rig.finish(rig.begin(body_max=10))
    assert [len(record.body) for record in read.records] == [10] * 51


def test_what_is_out_is_told_as_unacknowledged(rig: RangedRig) -> None:
    outlet = rig.outlet()
    rig.put(*bodies(0, 1), stored=False)
    rig.put(*bodies(2, 3, 4))
    rig.commit()
    rig.consumer("c", outlet, no_ack=False, prefetch=3)
    rig.run()
    before = rig.state()
    read = rig.finish(rig.begin())
    assert [(one.seq, one.ready, one.redelivered) for one in read.records] == [
        (0, False, True),
        (1, False, True),
        (2, False, True),
        (3, True, False),
        (4, True, False),
    ]
    assert rig.state() == before
    for tag in (1, 3):
        ack(outlet, outlet.unacked.take(tag))
    back = outlet.unacked.take_all()
    assert [delivery.seq for delivery in back] == [1]
    rig.queue.requeue(back)
    read = rig.finish(rig.begin())
    assert [(one.seq, one.ready, one.redelivered) for one in read.records] == [
        (1, True, True),
        (3, True, False),
        (4, True, False),
    ]


@pytest.mark.rule("PL-1")
def test_gaps_have_their_reasons(rig: RangedRig) -> None:
    outlet = rig.outlet()
    consumer = rig.consumer("c", outlet, no_ack=False)
    rig.put(*bodies(0))
    rig.put(*bodies(1), stored=False)
    rig.put(*bodies(2, 3))
    rig.commit()
    for tag in (1, 2, 3):
        ack(outlet, outlet.unacked.take(tag))
    rig.queue.remove_consumer(consumer)
    rig.put(*bodies(4))
    rig.commit()
    read = rig.finish(rig.begin())
    assert [record.seq for record in read.records] == [3, 4]
    assert read.gaps == [(0, 1, Gap.SETTLED), (1, 2, Gap.NOT_STORED), (2, 3, Gap.SETTLED)]
    rig.checkpoint()
    read = rig.finish(rig.begin())
    assert [record.seq for record in read.records] == [3, 4]
    assert read.gaps == [(0, 3, Gap.GONE)]


def test_what_left_memory_is_told_and_stays_where_it_is() -> None:
    rig = RangedRig(resident=0)
    for number in range(2000):
        rig.put(b"m%d" % number)
        if number % 100 == 0:
            rig.commit()
    rig.checkpoint()
    assert rig.queue.out_count > 1000
    before = rig.state()
    assert rig.read() == numbered(*range(2000))
    assert rig.read(1500, 1510) == numbered(*range(1500, 1510))
    assert rig.state() == before


def test_what_is_in_page_files_is_told_and_stays_there() -> None:
    rig = RangedRig(resident=0)
    rig.storage.pressed = True
    for number in range(2000):
        rig.put(b"m%d" % number, stored=False)
    rig.lanes.run()
    assert rig.queue.out_count > 1000
    before = rig.state()
    assert rig.read() == numbered(*range(2000))
    assert rig.read(1500, 1510, limit=3) == numbered(*range(1500, 1510))
    assert rig.state() == before


def test_levels_are_told_in_the_order_of_ids() -> None:
    rig = RangedRig(priorities=3)
    for number in range(300):
        rig.put(b"m%d" % number, priority=number % 4, stored=number % 5 != 0)
        if number == 150:
            rig.checkpoint()
    rig.commit()
    before = rig.state()
    assert rig.read() == numbered(*range(300))
    assert rig.read(17, 280, limit=10) == numbered(*range(17, 280))
    assert rig.state() == before


def test_after_a_start_everything_is_as_it_was(rig: RangedRig) -> None:
    rig.put(*bodies(*range(100)))
    rig.checkpoint()
    rig.put(*bodies(*range(100, 200)))
    rig.commit()
    again = RangedRig(files=rig.files.after_kill(Random(2)))
    before = again.state()
    assert again.read() == numbered(*range(200))
    # Nobody knows what had been handed out.
    read = again.finish(again.begin())
    assert all(record.ready and record.redelivered for record in read.records)
    assert again.state() == before
    # Ids of a segment that was begun are not given again.
    again.put(b"new")
    again.commit()
    read = again.finish(again.begin(199))
    assert [record.seq for record in read.records] == [199, 16384]
    assert read.gaps[0][:2] == (200, 16384)


@pytest.mark.rule("PL-4")
def test_a_purge_or_the_end_of_the_queue_ends_a_read(rig: RangedRig) -> None:
    for reason, act in ((Ended.PURGED, rig.queue.purge), (Ended.DELETED, rig.queue.close)):
        rig.put(*bodies(*range(10)))
        rig.commit()
        read = rig.begin()
        assert not read.step()
        act()
        with pytest.raises(RangeError) as caught:
            rig.finish(read)
        assert caught.value.reason is reason
        assert rig.queue.witnesses == []


def test_an_unfinished_read_leaves_nothing_behind(rig: RangedRig) -> None:
    rig.put(*bodies(*range(10)))
    rig.commit()
    before = rig.state()
    read = rig.begin()
    assert not read.step()
    assert len(rig.queue.witnesses) == 1
    read.close()
    rig.lanes.run()
    assert rig.state() == before


def test_what_cannot_be_read_is_a_gap(rig: RangedRig) -> None:
    rig.put(*bodies(*range(10)))
    rig.checkpoint()
    rig.put(*bodies(10))
    rig.commit()
    path = next(path for path in rig.files.paths() if path.endswith("0.idx"))
    handle = rig.files.open(path)
    rig.files.write(handle, 100, [b"spoilt"])
    rig.files.close(handle)
    before = rig.state()
    read = rig.finish(rig.begin())
    assert [record.seq for record in read.records] == [10]
    assert read.gaps == [(0, 10, Gap.UNREADABLE)]
    assert rig.state() == before


@pytest.mark.parametrize("seed", range(30))
def test_what_stays_in_the_queue_is_told_once(seed: int) -> None:
    """Messages move in any way between the slices; none of those that stay is missed."""
    random = Random(seed)
    rig = RangedRig(resident=random.choice((0, 1 << 20)))
    rig.storage.pressed = random.random() < 0.5
    outlets = [rig.outlet(number) for number in range(1, 5)]
    for number in range(1500):
        rig.put(b"m%d" % number, stored=random.random() < 0.4)
    rig.commit()
    consumers = [
        rig.consumer(f"c{place}", outlet, no_ack=False, prefetch=40)
        for place, outlet in enumerate(outlets)
    ]
    assert len(consumers) == 4
    rig.run()
    gone: set[int] = set()

    def move() -> None:
        outlet = random.choice(outlets)
        held = list(outlet.unacked.part(0, 1 << 30))
        if held and random.random() < 0.7:
            some = random.sample(held, min(len(held), 20))
            taken = [outlet.unacked.take(one.tag) for one in some]
            back = [one for one in taken if one is not None]
            outlet.release(back)
            if random.random() < 0.3:
                gone.update(int(one.seq) for one in back)
                for one in back:
                    one.queue.settle(one)
            else:
                rig.queue.requeue(back)
        rig.turn.run()
        rig.lanes.run()

    def channels() -> Iterator[list[Delivery]]:
        for outlet in outlets:
            for begin in range(1, int(outlet.unacked.limit), 10):
                yield outlet.unacked.part(begin, 10)

    rig.channels = channels  # type: ignore[method-assign]
    for begin in (0, 30, 700):
        gone.clear()
        read = rig.begin(begin, limit=random.choice((50, 3000)))
        waiting = {seq for seq, _ in rig.read()}
        rig.finish(read, move)
        told = [record.seq for record in read.records]
        assert told == sorted(set(told))
        stayed = {seq for seq in waiting - gone if begin <= seq < read.next_seq}
        assert stayed <= set(told)
        assert set(told) <= waiting
