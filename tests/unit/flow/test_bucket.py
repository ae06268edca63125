"""Tokens by the time: never more than the rate and the burst, and none lost."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.flow.bucket import NEVER, TOKENS_MAX, Bucket

SECOND = 1_000_000_000
YEAR = 365 * 86_400 * SECOND


def taken(bucket: Bucket, now_ns: int, most: int = 10_000) -> int:
    """Take all there are."""
    count = 0
    while count < most and bucket.take(now_ns):
        count += 1
    return count


def test_a_full_bucket_gives_its_burst_and_then_the_rate() -> None:
    bucket = Bucket(10, 5, 0)
    assert taken(bucket, 0) == 5
    assert taken(bucket, SECOND // 10 - 1) == 0
    assert taken(bucket, SECOND // 10) == 1
    assert taken(bucket, SECOND // 2) == 4
    # What flows over is gone, also when nothing was taken for long.
    assert taken(bucket, YEAR) == 5
    assert taken(bucket, YEAR) == 0


def test_a_long_pause_with_a_full_bucket_is_not_saved_up() -> None:
    bucket = Bucket(10, 5, 0)
    for _ in range(5):
        assert bucket.take(100 * SECOND)
    assert not bucket.take(100 * SECOND)


def test_the_largest_numbers_fit() -> None:
    bucket = Bucket(TOKENS_MAX, TOKENS_MAX, 0)
    assert bucket.take(0)
    assert bucket.take(YEAR * 100)
    assert bucket.ready_ns(TOKENS_MAX, YEAR * 100) == YEAR * 100 + 1
    slow = Bucket(1, TOKENS_MAX, 0)
    slow.take(0)
    assert slow.ready_ns(TOKENS_MAX, 0) == SECOND


def test_when_there_will_be_tokens() -> None:
    bucket = Bucket(3, 10, 0)
    assert bucket.ready_ns(10, 7) == 7
    taken(bucket, 7)
    at = bucket.ready_ns(1, 7)
    assert at == 7 + 333_333_334
    assert not bucket.take(at - 1)
    assert bucket.take(at)
    # Of more than it holds: when it is full.
    assert bucket.ready_ns(1000, at) == bucket.ready_ns(10, at)


def test_a_rate_of_nothing() -> None:
    bucket = Bucket(0, 0, 0)
    assert not bucket.take(YEAR)
    assert bucket.ready_ns(1, YEAR) == NEVER
    bucket.give_back()
    assert not bucket.take(YEAR)


def test_a_token_given_back_can_be_taken_again_and_does_not_flow_over() -> None:
    bucket = Bucket(1, 2, 0)
    bucket.give_back()
    assert taken(bucket, 0) == 2
    bucket.give_back()
    assert taken(bucket, 0) == 1


def test_other_numbers_go_on_with_the_tokens_there_are() -> None:
    bucket = Bucket(10, 100, 0)
    bucket.change(5, 3, 0)
    assert taken(bucket, 0) == 3
    bucket.change(1000, 1000, 0)
    assert taken(bucket, 0) == 0
    assert taken(bucket, SECOND // 100) == 10


@pytest.mark.slow
@given(
    rate=st.integers(1, 5000),
    burst=st.integers(1, 100),
    steps=st.lists(st.tuples(st.integers(0, SECOND), st.integers(0, 40)), max_size=30),
)
def test_it_counts_as_exact_arithmetic_does(
    rate: int, burst: int, steps: list[tuple[int, int]]
) -> None:
    bucket = Bucket(rate, burst, 0)
    level, now = Fraction(burst), 0
    for pause, wanted in steps:
        now += pause
        level = min(Fraction(burst), level + Fraction(pause * rate, SECOND))
        expected = min(wanted, int(level))
        assert taken(bucket, now, wanted) == expected
        level -= expected
