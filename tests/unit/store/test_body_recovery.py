"""The message store at a start: after a crash, and after damage."""

import errno

import pytest

from tests.support.store_model import check_bodies, check_files
from tests.unit.store.rig import Rig, checkpoint
from warren.store.body_file import FILE_HEADER, RECORD_HEADER, body_path


@pytest.mark.rule("MS-11", "MS-28")
def test_bodies_that_are_not_what_was_written_are_lost_and_the_others_are_not() -> None:
    # The trace of the reference: four records, the third harmed, the fourth cut short.
    rig = Rig()
    places = [rig.publish(1, b"%d" % at * (9190 - RECORD_HEADER)) for at in range(4)]
    rig.commit()
    file = rig.files.paths()[body_path(0)]
    octets = bytearray(file.disk[:-100])
    octets[FILE_HEADER + 3 * 9190 - 1] ^= 1
    file.disk = bytes(octets)
    rig = rig.again()
    reading = rig.read(1)
    assert [int(record.seq) for record in reading.records()] == [0, 1]
    assert reading.lost == [(2, 3)]
    assert reading.problem.startswith(body_path(0))
    assert rig.queue(1).lose(2, 3) == 2
    rig.commit()
    assert len(rig.records(1)) == 2
    # What they referred to is known: their records could be read.
    assert not rig.bodies.leaked
    rig = rig.again()
    assert not rig.store.found.damages
    assert len(rig.records(1)) == 2
    assert [int(count) for count in rig.bodies.files[0].refs] == [1, 1, 0, 0]
    assert len(places) == 4


@pytest.mark.rule("MS-27")
def test_what_damaged_records_referred_to_is_counted_by_the_next_start() -> None:
    rig = Rig()
    for _ in range(2):
        rig.publish(1, b"x" * 100_000)
        rig.publish(2, b"x" * 100_000)
    rig.commit()
    checkpoint(rig)
    file = rig.files.paths()["queues/0000000000000001/0.idx"]
    octets = bytearray(file.disk)
    octets[-1] ^= 1
    file.disk = bytes(octets)
    reading = rig.read(1)
    assert reading.records() == []
    assert reading.lost == [(0, 1)]
    assert rig.queue(1).lose(0, 1) == 2
    rig.commit()
    assert rig.bodies.leaked
    assert len(rig.sizes()) == 4
    rig = rig.again()
    assert list(rig.sizes()) == [1, 3]
    check_bodies(rig.store)
    assert not rig.bodies.leaked
    # It is found out once.
    rig = rig.again()
    assert len([path for call, path in rig.calls if call == "read" and ".rdq" in path]) <= 1
    assert len(rig.records(2)) == 2


@pytest.mark.rule("MS-27", "MS-28", "MS-30")
def test_after_damage_to_the_journal_everything_is_counted_anew() -> None:
    rig = Rig()
    for at in range(8):
        place = rig.publish(1, b"%d" % at * 40_000)
        rig.publish(2, b"%d" % at * 40_000, place)
        rig.commit()
    assert len(rig.sizes()) == 3
    path = "journal/1.jnl"
    octets = bytearray(rig.files.paths()[path].disk)
    octets[100] ^= 1
    rig.files.paths()[path].disk = bytes(octets)
    rig = rig.again()
    assert rig.store.found.damages
    assert [record.body[:1] for record in rig.records(1)] == [b"%d" % at for at in range(1, 8)]
    check_bodies(rig.store)
    check_files(rig.store)
    # It goes on with a file of its own.
    rig.publish(1, b"n" * 5000)
    rig.commit()
    assert len(rig.sizes()) == 4
    assert len(rig.records(1)) == 8


def test_a_journal_that_names_what_was_never_written_is_damage() -> None:
    rig = Rig()
    rig.publish(1, b"x" * 5000)
    # As if a mistake of ours had left out the record that says so.
    for some in rig.bodies.appends:
        some.told = len(some.sizes)
    rig.commit()
    rig = rig.again()
    (damage,) = rig.store.found.damages
    assert "does not say were written" in damage.what
    assert [record.body for record in rig.records(1)] == [b"x" * 5000]
    check_bodies(rig.store)


@pytest.mark.rule("MS-29")
def test_a_start_cuts_off_what_no_journal_names_and_goes_on_there() -> None:
    rig = Rig()
    rig.publish(1, b"x" * 5000)
    rig.commit()
    rig.publish(1, b"y" * 5000)
    rig.files.fail = lambda call, path: (
        OSError(errno.EIO, "no") if path.endswith(".jnl") and call == "write" else None
    )
    rig.commit()
    assert rig.persistence.broken
    assert rig.sizes() == {0: 2 * 5024}
    rig = rig.again()
    assert rig.sizes() == {0: 5024}
    assert rig.publish(1, b"z" * 5000) == 2
    rig.commit()
    rig = rig.again()
    assert [record.body[:1] for record in rig.records(1)] == [b"x", b"z"]
    assert rig.sizes() == {0: 2 * 5024}


@pytest.mark.rule("MS-26", "MS-30")
@pytest.mark.parametrize("checkpointed", [False, True])
def test_a_start_reads_no_bodies(checkpointed: bool) -> None:
    rig = Rig()
    for _ in range(30):
        place = rig.publish(1, b"x" * 10_000)
        rig.publish(2, b"x" * 10_000, place)
        rig.commit()
    if checkpointed:
        checkpoint(rig)
    rig = rig.again()
    reads = [path for call, path in rig.calls if call == "read" and path.endswith(".rdq")]
    # The header of the file that it goes on with.
    assert len(reads) <= 1
    check_bodies(rig.store)
    assert len(rig.records(2)) == 30
