"""Compaction of the message store: when, which files, and what goes on meanwhile."""

import errno

import pytest

from tests.support.store_model import check_bodies
from tests.unit.store.rig import Rig
from warren.store.body_file import body_path
from warren.store.compaction import find_pair
from warren.store.reading import Reading


@pytest.mark.rule("MS-4", "MS-5", "MS-12", "MS-13", "MS-14", "MS-16")
def test_garbage_is_collected_as_in_the_golden_trace() -> None:
    rig = Rig()
    places = [rig.publish(1, b"%05d" % at * 6033 + b"!") for at in range(24)]
    rig.commit()
    assert rig.sizes() == dict.fromkeys(range(6), 120_760)
    live = dict(enumerate(places))

    def ack(*seqs: int) -> dict[int, int]:
        for seq in seqs:
            rig.settle(1, seq, live.pop(seq))
            rig.commit()
            records = rig.records(1)
            assert [int(record.seq) for record in records] == list(live)
            assert all(record.body == b"%05d" % record.seq * 6033 + b"!" for record in records)
            check_bodies(rig.store)
        return rig.sizes()

    assert ack(0, 1, 2, 3) == dict.fromkeys(range(1, 6), 120_760)
    # Exactly one half: nothing happens.
    assert ack(*range(4, 23, 2)) == dict.fromkeys(range(1, 6), 120_760)
    # A new file takes the place of the two, and places stay what they are.
    assert ack(5) == {6: 90_570, 3: 120_760, 4: 120_760, 5: 120_760}
    assert ack(7) == {6: 90_570, 3: 120_760, 4: 120_760, 5: 120_760}
    assert ack(9) == {7: 90_570, 4: 120_760, 5: 120_760}
    assert ack(11) == {7: 90_570, 4: 120_760, 5: 120_760}
    assert ack(13) == {8: 90_570, 5: 120_760}
    assert list(rig.bodies.files) == [3, 4, 5]
    assert ack(15, 17, 19, 21, 23) == {}
    assert rig.bodies.files == {}
    assert (rig.bodies.size, rig.bodies.valid) == (0, 0)


@pytest.mark.rule("MS-8", "MS-9", "MS-17")
def test_a_body_is_read_while_its_file_is_compacted_away() -> None:
    rig = Rig()
    places = [rig.publish(1, b"%05d" % at * 6033 + b"!") for at in range(12)]
    rig.publish(2, b"%05d" % 3 * 6033 + b"!", places[3])
    rig.commit()
    reading = Reading(rig.queue(2), 0, lambda reading, error: None)
    assert reading.plan(rig.persistence.journal.committed, rig.persistence.files, 1000)
    opened: list[str] = []

    def gate(call: str, path: str) -> None:
        if call == "open" and path == body_path(0) and not opened:
            # It was looked up, and is not there any more when it is opened.
            opened.append(path)
            for seq in (0, 1, 2, 3, 5, 6, 7, 9):
                rig.settle(1, seq, places[seq])
            rig.commit()
            assert 0 not in rig.sizes()

    rig.files.gate = gate
    reading.run(rig.files)
    assert opened
    (record,) = reading.records()
    assert record.body == b"%05d" % 3 * 6033 + b"!"


def test_what_is_not_written_yet_is_not_compacted() -> None:
    rig = Rig()
    places = [rig.publish(1, b"%05d" % at * 6033 + b"!") for at in range(16)]
    for seq in (0, 1, 2, 4, 5, 6, 8, 9, 10):
        rig.settle(1, seq, places[seq])
    assert find_pair(rig.bodies) is None
    batch = rig.persistence.journal.seal()
    assert find_pair(rig.bodies) is None
    assert [int(home.number) for home in batch.closed] == [0, 1, 2, 3]
    for home in batch.closed:
        home.unsafe = False
    assert find_pair(rig.bodies) == (batch.closed[0], batch.closed[1])


def test_a_compaction_without_room_is_tried_again_when_there_is_some() -> None:
    rig = Rig()
    places = [rig.publish(1, b"%05d" % at * 6033 + b"!") for at in range(20)]
    rig.commit()
    rig.files.fail = lambda call, path: (
        OSError(errno.ENOSPC, "full") if path == body_path(5) and call == "write" else None
    )
    for seq in (0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13):
        rig.settle(1, seq, places[seq])
        rig.commit()
    assert rig.bodies.crowded
    rig.files.fail = lambda call, path: None
    for seq in (16, 17, 18, 19):
        rig.settle(1, seq, places[seq])
        rig.commit()
    assert rig.bodies.crowded == []
    assert len(rig.sizes()) < 4
    assert [int(record.seq) for record in rig.records(1)] == [3, 7, 11, 14, 15]
    check_bodies(rig.store)


def test_a_compaction_that_fails_leaves_everything_as_it_was() -> None:
    rig = Rig()
    places = [rig.publish(1, b"%05d" % at * 6033 + b"!") for at in range(16)]
    rig.commit()
    rig.files.fail = lambda call, path: (
        OSError(errno.EIO, "no") if path == body_path(4) and call == "write" else None
    )
    for seq in (0, 1, 2, 4, 5, 6, 8, 9, 10):
        rig.settle(1, seq, places[seq])
        rig.commit()
    assert not rig.persistence.broken
    assert not rig.persistence.checkpointing
    assert rig.sizes() == dict.fromkeys(range(4), 120_760)
    assert [int(record.seq) for record in rig.records(1)] == [3, 7, 11, 12, 13, 14, 15]
    # The next start tries again.
    rig = rig.again()
    rig.settle(1, 12, places[12])
    rig.commit()
    assert len(rig.sizes()) < 4
    assert [int(record.seq) for record in rig.records(1)] == [3, 7, 11, 13, 14, 15]
