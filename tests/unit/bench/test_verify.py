"""Loss, duplicates and order are seen, whichever way messages arrive."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.bench.verify import Cursor, Track, Verdict, check_slow


def judge(numbers: list[int], *, start: int = 0, step: int = 1) -> tuple[Track, Verdict]:
    track, verdict = Track(start, step), Verdict()
    cursor = Cursor(track)
    for number in numbers:
        check_slow(verdict, cursor, number)
    return track, verdict


def test_a_clean_stream_has_no_faults() -> None:
    track, verdict = judge(list(range(100)))
    assert (track.unique(), track.reach()) == (100, 100)
    assert (verdict.duplicated, verdict.reordered, verdict.bad) == (0, 0, 0)


@pytest.mark.parametrize(
    ("numbers", "unique", "duplicated", "reordered"),
    [
        ([0, 1, 3, 4], 4, 0, 0),  # 2 is lost
        ([0, 1, 1, 2], 3, 1, 0),
        ([0, 2, 1, 3], 4, 0, 1),
        ([0, 2, 2, 1, 3], 4, 1, 1),
        ([0, 3, 1, 2, 4], 5, 0, 2),
    ],
)
def test_each_fault_is_counted(
    numbers: list[int], unique: int, duplicated: int, reordered: int
) -> None:
    track, verdict = judge(numbers)
    assert (track.unique(), verdict.duplicated, verdict.reordered) == (
        unique,
        duplicated,
        reordered,
    )


@given(st.lists(st.integers(0, 40)))
def test_unique_and_duplicates_match_a_set(numbers: list[int]) -> None:
    track, verdict = judge(numbers)
    assert track.unique() == len(set(numbers))
    assert verdict.duplicated == len(numbers) - len(set(numbers))
    assert track.reach() == max(numbers, default=-1) + 1


def test_a_queue_of_some_keys_expects_every_step_th_number() -> None:
    track, verdict = judge([1, 4, 7, 13], start=1, step=3)
    assert (track.unique(), track.reach(), verdict.bad) == (4, 5, 0)


@pytest.mark.parametrize("number", [0, 2, 3])
def test_a_number_of_another_queue_is_bad(number: int) -> None:
    assert judge([1, number], start=1, step=3)[1].bad == 1


def test_order_is_judged_per_consumer_but_loss_per_queue() -> None:
    track, verdict = Track(0, 1), Verdict()
    left, right = Cursor(track), Cursor(track)
    for number in (0, 2, 4):
        check_slow(verdict, left, number)
    for number in (1, 3, 5):
        check_slow(verdict, right, number)
    assert track.unique() == 6
    assert (verdict.duplicated, verdict.reordered) == (0, 0)


def test_old_holes_are_given_up_and_a_late_arrival_is_no_duplicate() -> None:
    track, verdict = Track(0, 1, 10), Verdict()
    for number in [0, *range(2, 40)]:
        check_slow(verdict, Cursor(track), number)
    assert (track.unique(), track.reach()) == (39, 40)
    assert len(track.ahead) <= 10
    check_slow(verdict, Cursor(track), 1)
    assert (track.unique(), verdict.duplicated) == (40, 0)
    check_slow(verdict, Cursor(track), 1)
    assert (track.unique(), verdict.duplicated) == (40, 1)
