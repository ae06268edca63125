"""Purge and deletion of queues with bodies in the message store."""

import pytest

from tests.support.store_model import check_bodies, check_files
from tests.unit.store.rig import Rig


def test_a_queue_without_bodies_in_the_store_is_dropped_at_once() -> None:
    rig = Rig()
    for _ in range(10):
        rig.publish(1, b"small")
    place = rig.publish(1, b"x" * 5000)
    rig.settle(1, 10, place)
    rig.publish(2, b"small")
    rig.commit()
    assert rig.queue(1).stored_live == 0
    rig.calls.clear()
    index = rig.queue(1)
    rig.persistence.drop(index)
    rig.persistence.forget(1)
    rig.queue(2).settle_from(0, 5)
    rig.commit()
    assert index.gone
    assert [call for call, _ in rig.calls if call == "read"] == []


@pytest.mark.parametrize("crash", [False, True])
@pytest.mark.parametrize("purge", [False, True])
def test_what_a_purged_or_deleted_queue_refers_to_is_released(*, purge: bool, crash: bool) -> None:
    rig = Rig()
    for at in range(8):
        place = rig.publish(1, b"x" * 50_000)
        if at == 0:
            rig.publish(2, b"x" * 50_000, place)
        rig.publish(1, b"small")
    rig.commit()
    index = rig.queue(1)
    if purge:
        index.settle_from(0, int(index.live_bytes))
    else:
        rig.persistence.drop(index)
        rig.persistence.forget(1)
    assert (index.live, index.live_bytes, index.stored_live) == (0, 0, 8)
    assert not index.is_live(0)
    known = (1, 2, 3) if purge else (2, 3)
    if crash:
        # The batch is safe, and nothing else has happened.
        rig.persistence.end_turn()
        rig = rig.again(known)
        if purge:
            assert rig.queue(1).live == 0
        else:
            assert list(rig.store.recovery.orphans) == [1]
        assert len(rig.sizes()) == 4
    # Anything that is committed lets it go on.
    rig.publish(3, b"small")
    rig.commit()
    # A start goes on with the last file.
    left = [0, 3] if crash else [0]
    assert list(rig.sizes()) == left
    assert not rig.persistence.journal.owing
    assert [record.body for record in rig.records(2)] == [b"x" * 50_000]
    check_bodies(rig.store)
    rig = rig.again(known)
    check_bodies(rig.store)
    check_files(rig.store)
    assert list(rig.sizes()) == [0]


def test_a_purge_leaves_what_comes_behind_it() -> None:
    rig = Rig()
    for _ in range(3):
        rig.publish(1, b"x" * 5000)
    rig.commit()
    index = rig.queue(1)
    index.settle_from(1, 10_000)
    place = rig.publish(1, b"y" * 5000)
    assert (index.live, index.live_bytes) == (2, 10_000)
    # Somebody acknowledges one that was purged: that is nothing.
    index.settle(1, 5000)
    assert (index.live, index.live_bytes) == (2, 10_000)
    rig.commit()
    assert index.stored_live == 2
    assert [int(record.seq) for record in rig.records(1)] == [0, 3]
    assert rig.bodies.holds(place)
    rig = rig.again()
    assert [int(record.seq) for record in rig.records(1)] == [0, 3]
    assert rig.queue(1).live_bytes == 10_000
    check_bodies(rig.store)


def test_a_whole_segment_that_is_owed_is_settled_once() -> None:
    rig = Rig()
    index = rig.queue(1)
    # A segment without stored bodies, between two with one.
    rig.publish(1, b"x" * 5000)
    index.next_seq = 16384
    for _ in range(3):
        rig.publish(1, b"small")
    index.next_seq = 32768
    rig.publish(1, b"x" * 5000)
    rig.commit()
    assert index.live == 5
    index.settle_from(0, index.live_bytes)
    for _ in range(2):
        rig.publish(1, b"later")
    assert (index.live, index.live_bytes) == (2, 10)
    rig.commit()
    assert (index.live, index.live_bytes, index.stored_live) == (2, 10, 0)
    assert [record.body for record in rig.records(1)] == [b"later"] * 2
    rig = rig.again()
    assert (rig.queue(1).live, rig.queue(1).live_bytes) == (2, 10)


def test_a_purge_from_the_first_id_of_a_segment_leaves_the_one_before() -> None:
    rig = Rig()
    for _ in range(3):
        rig.publish(1, b"stays")
    index = rig.queue(1)
    # As if the first segment were full.
    index.segments[0].enter(16383)
    index.live += 1
    index.settle(16383, 0)
    index.next_seq = 16384
    rig.publish(1, b"x" * 5000)
    index.settle_from(16384, 5000)
    assert index.live == 3
    rig.commit()
    assert [record.body for record in rig.records(1)] == [b"stays"] * 3
