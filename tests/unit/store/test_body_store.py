"""The message store: what goes there, once, in which files, and how it is counted."""

import pytest

from tests.unit.store.rig import Rig
from warren.store.body_file import RECORD_HEADER, body_path
from warren.store.body_store import EMBED_BELOW, FILE_SIZE_LIMIT, BodyStore
from warren.store.state import decode_file, encode_file


@pytest.mark.rule("ST-1", "ST-2", "ST-3")
@pytest.mark.parametrize(
    ("body", "props", "below", "stored"),
    [
        (4090, 3, EMBED_BELOW, False),
        (4095, 3, EMBED_BELOW, True),
        (4000, 200, EMBED_BELOW, True),
        (4093, 3, EMBED_BELOW, True),
        (4092, 3, EMBED_BELOW, False),
        (0, 2, 0, True),
        (100_000, 3, 1 << 40, False),
    ],
)
def test_body_and_properties_together_decide(
    body: int, props: int, below: int, stored: bool
) -> None:
    bodies = BodyStore()
    assert bodies.embed_below == 4096
    bodies.embed_below = below
    assert bodies.takes(body, props) == stored


@pytest.mark.rule("ST-4", "MS-1", "MS-3")
def test_a_body_for_many_queues_is_on_the_disk_once() -> None:
    rig = Rig()
    place = rig.publish(1, b"x" * 10_000)
    for number in (2, 3):
        assert rig.publish(number, b"x" * 10_000, place) == place
    rig.commit()
    assert rig.sizes() == {0: 10_000 + RECORD_HEADER}
    assert rig.persistence.journal.committed < 1000
    for number in (1, 2, 3):
        (record,) = rig.records(number)
        assert (record.body, record.place) == (b"x" * 10_000, place)
    for number in (1, 2):
        rig.settle(number, 0, place)
    rig.commit()
    assert rig.bodies.holds(place)
    assert len(rig.records(3)) == 1
    # What is embedded stands once for each queue.
    before = int(rig.persistence.journal.committed)
    for number in (1, 2, 3):
        assert not rig.publish(number, b"y" * 4000)
    rig.commit()
    assert rig.persistence.journal.committed - before > 12_000
    assert rig.sizes() == {0: 10_000 + RECORD_HEADER}


@pytest.mark.rule("MS-2")
def test_a_file_is_closed_by_the_body_that_reaches_the_limit() -> None:
    assert BodyStore().file_size_limit == FILE_SIZE_LIMIT == 16 * 1024 * 1024
    rig = Rig()
    for _ in range(24):
        rig.publish(1, b"x" * (30_190 - RECORD_HEADER))
        rig.commit()
    assert rig.sizes() == dict.fromkeys(range(6), 120_760)
    rig.publish(1, b"x" * 5000)
    rig.commit()
    assert rig.sizes()[6] == 5000 + RECORD_HEADER
    # All in one commit as well, and exactly at the limit.
    rig = Rig()
    for size in (50_000, 50_000, 5000):
        rig.publish(1, b"x" * (size - RECORD_HEADER))
    rig.commit()
    assert rig.sizes() == {0: 100_000, 1: 5000}
    assert [len(record.body) for record in rig.records(1)] == [49_976, 49_976, 4976]


@pytest.mark.rule("MS-18", "MS-19", "CN-1")
def test_bodies_are_synced_before_the_journal_names_them_and_once() -> None:
    rig = Rig()
    rig.publish(1, b"x" * 5000)
    rig.commit()
    rig.calls.clear()
    for number in (1, 2, 3):
        rig.publish(number, b"x" * 5000)
    rig.commit()
    rdq, jnl = body_path(0), "journal/1.jnl"
    assert rig.calls == [("write", rdq), ("sync", rdq), ("write", jnl), ("sync", jnl)]
    # Without bodies nothing is to be done, and one that is there already is not written.
    rig.calls.clear()
    rig.publish(1, b"small")
    rig.publish(2, b"x" * 5000, int(rig.records(1)[0].place))
    rig.calls.clear()
    rig.commit()
    assert rig.calls == [("write", jnl), ("sync", jnl)]


def test_a_place_is_good_as_long_as_it_is_referred_to() -> None:
    rig = Rig()
    place = rig.publish(1, b"x" * 5000)
    rig.commit()
    # Dead-lettered: released and published again in one batch.
    rig.settle(1, 0, place)
    assert rig.bodies.holds(place)
    rig.publish(2, b"x" * 5000, place)
    rig.commit()
    assert len(rig.records(2)) == 1
    rig.settle(2, 0, place)
    rig.publish(1, b"x" * 100_000)
    rig.commit()
    # Its file was closed and had nothing else.
    assert rig.sizes() == {0: 105_048}
    rig.settle(1, 1, int(rig.records(1)[0].place))
    rig.commit()
    assert not rig.bodies.holds(place)
    rig.bodies.release(place)
    with pytest.raises(LookupError, match="has no body 0/0"):
        rig.publish(2, b"x" * 5000, place)


def test_a_reading_stops_where_there_are_octets_enough() -> None:
    rig = Rig()
    for _ in range(10):
        rig.publish(1, b"x" * 5000)
        rig.publish(1, b"small")
    rig.commit()
    reading = rig.read(1, 0, 12_000)
    assert [int(record.seq) for record in reading.records()] == [0, 1, 2, 3, 4, 5]
    assert reading.next_seq == 6
    reading = rig.read(1, 6, 1)
    assert [int(record.seq) for record in reading.records()] == [6]


def test_offsets_fit_whatever_the_limit_is() -> None:
    bodies = BodyStore()
    bodies.file_size_limit = 1 << 40
    body = b"x" * (1 << 20)
    for _ in range(1030):
        # The octets of all bodies are the same ones.
        bodies.put(body, None, len(body))
    assert [int(home.size) for home in bodies.homes] == [1024 * 1048600, 6 * 1048600]
    assert all(offset > 0 for offset in bodies.files[0].offsets)


def test_a_body_in_parts_is_written_as_one() -> None:
    rig = Rig()
    parts = [b"a" * 70_000, b"", b"b" * 20_000]
    place = int(rig.bodies.put(b"", parts, 90_000))
    rig.publish(1, b"".join(parts), place)
    empty = int(rig.bodies.put(b"", None, 0))
    rig.publish(1, b"", empty)
    rig.commit()
    assert [record.body for record in rig.records(1)] == [b"".join(parts), b""]


def test_a_file_is_in_the_state_log_as_it_is() -> None:
    rig = Rig()
    for at in range(3):
        place = rig.publish(1, b"x" * (5000 + at))
    rig.publish(2, b"x" * 5002, place)
    file = rig.bodies.files[0]
    record = encode_file(file, 77)
    found, lsn = decode_file(record, 0)
    assert lsn == 77
    assert list(found.offsets) == list(file.offsets)
    assert list(found.refs) == [1, 1, 2]
    assert (found.home.number, found.home.mark) == (0, file.home.mark)
    harmed = record[:-4]
    harmed = len(harmed).to_bytes(4, "little") + harmed[4:]
    with pytest.raises(Exception, match="has not the size that it says"):
        decode_file(harmed, 0)
