"""The calendar alone: however few records move at a time, they come in order and in time."""

from hypothesis import example, given
from hypothesis import strategies as st
from librt.strings import BytesWriter, write_i64_be

from warren.queues.calendar import LEVELS, Calendar, between, due_of, seq_of

NOW = 1_790_000_000_000
YEAR = 365 * 86_400_000

delays = st.lists(
    st.one_of(st.integers(0, 1000), st.integers(0, 100_000), st.integers(0, YEAR)), max_size=60
)


def record(due: int, seq: int) -> bytes:
    out = BytesWriter()
    write_i64_be(out, due)
    write_i64_be(out, seq)
    return out.getvalue()


def filled(delays: list[int]) -> Calendar:
    calendar = Calendar(NOW)
    for seq, delay in enumerate(delays, 1):
        wake = calendar.add(record(NOW + delay, seq))
        assert wake <= NOW + delay
    return calendar


def taken(calendar: Calendar, now: int) -> list[bytes]:
    found = []
    while calendar.first(now) is not None:
        found.append(calendar.take())
    return found


@given(delays, st.integers(1, 5), st.integers(0, 200_000))
@example([10_000] * 50 + [9_999], 1, 20_000)
def test_order_does_not_depend_on_how_many_move_at_a_time(
    delays: list[int], most: int, late: int
) -> None:
    calendar = filled(delays)
    found: list[bytes] = []
    now = NOW
    for _ in range(60 * (LEVELS + 2) + 60):
        wake = int(calendar.next_ms())
        if wake < 0:
            break
        now = max(now, wake + late)
        calendar.advance(now, most)
        found += taken(calendar, now)
    wanted = sorted(record(NOW + delay, seq) for seq, delay in enumerate(delays, 1))
    assert found == wanted


@given(delays)
def test_what_is_due_is_there_when_it_wakes(delays: list[int]) -> None:
    calendar = filled(delays)
    now = NOW
    while (wake := int(calendar.next_ms())) >= 0:
        assert wake >= 0
        now = max(now, wake)
        calendar.advance(now, 1000)
        for one in taken(calendar, now):
            # Nobody woke it later than this one was due.
            assert due_of(one) == now or now == NOW


def test_an_hour_is_divided_only_when_it_comes() -> None:
    calendar = filled([3_600_000 + n for n in range(10_000)])
    assert sum(len(buckets) for buckets in calendar.levels) <= 2
    assert calendar.advance(NOW + 1000, 100_000) == 0
    assert not calendar.near
    assert calendar.advance(NOW + 3_600_000, 100_000) > 0


def test_others_are_not_held_up_by_a_large_bucket() -> None:
    """What is near moves before what is opened ahead of time."""
    far = [600_000 + n for n in range(5000)]
    calendar = filled(far)
    start = min(calendar.levels[2]) << 19
    now = start - 1000
    calendar.advance(now, 10)
    calendar.add(record(now + 500, 9001))
    for _ in range(5):
        calendar.advance(now + 500, 10)
    assert [int(seq_of(one)) for one in taken(calendar, now + 500)] == [9001]


def test_a_bucket_that_is_opened_moves_in_slices_however_many_came() -> None:
    calendar = filled([20_000] * 5000)
    now = NOW + 19_000
    assert calendar.advance(now, 100) <= 100
    # What comes for it meanwhile does not keep it open for ever.
    seq = 5000
    while calendar.levels[1]:
        for _ in range(150):
            seq += 1
            calendar.add(record(NOW + 20_000, seq))
        assert calendar.advance(now, 100) <= 300
        assert seq < 100_000
    for _ in range(seq):
        calendar.advance(NOW + 20_000, 100)
    found = [int(seq_of(one)) for one in taken(calendar, NOW + 20_000)]
    assert found == list(range(1, seq + 1))


def test_removing() -> None:
    calendar = filled([100_000] * 1000 + [100])
    assert calendar.remove(NOW + 100_000, 2000) is None
    assert calendar.remove(NOW + 100_001, 500) is None
    for seq in range(1, 1001):
        found = calendar.remove(NOW + 100_000, seq)
        assert found is not None
        assert seq_of(found) == seq
    # Nothing is left of it, not even an empty bucket.
    assert not any(calendar.levels)
    # What is about to go stays.
    assert calendar.remove(NOW + 100, 1001) is None
    assert len(calendar.near) == 1


def test_removing_from_a_bucket_that_is_being_opened() -> None:
    calendar = filled([20_000] * 700)
    now = NOW + 19_000
    while not calendar.levels[0]:
        calendar.advance(now, 300)
    held = {seq: calendar.remove(NOW + 20_000, seq) for seq in (1, 299, 300, 301, 699, 700)}
    assert all(one is not None for one in held.values())
    for _ in range(20):
        calendar.advance(NOW + 20_000, 300)
    left = [int(seq_of(one)) for one in taken(calendar, NOW + 20_000)]
    assert left == [seq for seq in range(1, 701) if seq not in held]


def test_sources_have_everything_by_its_time() -> None:
    calendar = filled([5, 500, 50_000, 500_000, 5_000_000])
    calendar.advance(NOW, 100)
    begins = [begin for begin, _ in calendar.sources()]
    assert begins == sorted(begins)
    every = [one for _, blocks in calendar.sources() for block in blocks for one in block]
    assert sorted(int(seq_of(one)) for one in every) == [1, 2, 3, 4, 5]
    for begin, blocks in calendar.sources():
        assert all(due_of(one) >= begin for block in blocks for one in block)
    low, high = record(NOW + 400, 0), record(NOW + 600_000, 0)
    assert [int(seq_of(one)) for one in between(sorted(every), low, high)] == [2, 3, 4]
    freed = calendar.blocks()
    assert sum(len(block) for block in freed) == 5
    assert calendar.next_ms() == -1
