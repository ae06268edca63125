"""The message store: what goes there, once, in which files, counted, compacted, read, recovered."""

import errno
from random import Random

import pytest

from tests.support.sim_files import SimFiles
from tests.support.store_model import Store, check_bodies, check_files
from warren.store.body_file import FILE_HEADER, RECORD_HEADER, body_path
from warren.store.body_store import EMBED_BELOW, FILE_SIZE_LIMIT, BodyStore
from warren.store.compaction import find_pair
from warren.store.index import QueueIndex
from warren.store.reading import Reading
from warren.store.record import PERSISTENT, Publish
from warren.store.state import decode_file, encode_file

PROPS = b"\x10\x00\x02"


class Rig:
    """A store on a simulated disk, whose jobs are done at once."""

    def __init__(self, files: SimFiles | None = None, known: tuple[int, ...] = (1, 2, 3)) -> None:
        self.files = SimFiles(Random(1)) if files is None else files
        self.calls: list[tuple[str, str]] = []
        self.files.gate = lambda call, path: self.calls.append((call, path))
        self.store = Store(self.files, known)
        self.persistence = self.store.persistence
        self.bodies = self.persistence.bodies
        self.bodies.file_size_limit = 100_000

    def commit(self) -> None:
        self.persistence.end_turn()
        self.store.direct.run()

    def queue(self, number: int) -> QueueIndex:
        return self.persistence.open(number)

    def publish(self, number: int, body: bytes, place: int = 0) -> int:
        index = self.queue(number)
        journal = self.persistence.journal
        seq = int(index.next_seq)
        before = journal.position()
        if not place and self.bodies.takes(len(body), len(PROPS)):
            place = int(self.bodies.put(body, None, len(body)))
        if place:
            lsn = journal.publish_stored(
                number, seq, PERSISTENT, 0, 0, b"", PROPS, b"", place, len(body), 0
            )
        else:
            lsn = journal.publish(
                number, seq, PERSISTENT, 0, 0, b"", PROPS, b"", body, None, len(body), 0
            )
        index.enter(seq, lsn, journal.position() - before, len(body))
        return place

    def settle(self, number: int, seq: int, place: int, size: int = 0) -> None:
        self.queue(number).settle(seq, size)
        if place:
            self.bodies.release(place)

    def read(self, number: int, seq: int = 0, most: int = 1 << 30) -> Reading:
        """One reading, with everything that it asks for."""
        ended: list[Reading] = []
        assert self.persistence.read(
            self.queue(number), seq, lambda reading, error: ended.append(reading), most
        )
        self.store.direct.run()
        return ended[0]

    def records(self, number: int) -> list[Publish]:
        return self.store.read_all(self.queue(number), 1 << 30)

    def sizes(self) -> dict[int, int]:
        """The octets of records in the files that are on the disk."""
        return {
            int(path.rpartition("/")[2][:-4]): len(file.seen()) - FILE_HEADER
            for path, file in self.files.paths().items()
            if path.endswith(".rdq")
        }

    def again(self, known: tuple[int, ...] = (1, 2, 3)) -> "Rig":
        """The process dies, another one starts."""
        self.files.gate = None
        return Rig(self.files.after_kill(Random(2)), known)


def checkpoint(rig: Rig) -> None:
    """Have everything in segments."""
    rig.persistence.end.close(rig.files)
    rig.publish(3, b"other")
    rig.commit()
    rig.persistence.checkpoint(1)
    rig.store.direct.run()
    assert not rig.persistence.checkpointing


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


def test_offsets_fit_whatever_the_limit_is() -> None:
    bodies = BodyStore()
    bodies.file_size_limit = 1 << 40
    body = b"x" * (1 << 20)
    for _ in range(1030):
        # The octets of all bodies are the same ones.
        bodies.put(body, None, len(body))
    assert [int(home.size) for home in bodies.homes] == [1024 * 1048600, 6 * 1048600]
    assert all(offset > 0 for offset in bodies.files[0].offsets)


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
