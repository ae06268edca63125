"""Percentiles are right within the resolution and never beyond the largest value."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.bench.histogram import BUCKET_COUNT, Histogram, bucket_index, bucket_value


@given(st.integers(0, 2**62))
def test_a_bucket_begins_at_most_a_64th_below_its_values(value: int) -> None:
    index = bucket_index(value)
    assert 0 <= index < BUCKET_COUNT
    assert bucket_value(index) <= value <= int(bucket_value(index)) * (1 + 1 / 64) + 1


@given(st.lists(st.integers(0, 10**9), min_size=1), st.sampled_from([0.0, 0.5, 0.9, 0.99]))
def test_percentile_is_the_value_of_that_rank(values: list[int], part: float) -> None:
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    exact = sorted(values)[int(part * len(values))]
    assert exact * (1 - 1 / 64) - 1 <= histogram.percentile(part) <= exact
    assert histogram.percentile(1.0) == max(values)


def test_empty_histogram_has_no_percentile() -> None:
    assert Histogram().percentile(0.5) == 0


def test_negative_values_count_as_zero() -> None:
    histogram = Histogram()
    histogram.add(-5)
    assert (histogram.total, histogram.largest, histogram.percentile(0.5)) == (1, 0, 0)


@pytest.mark.parametrize("split", [0, 1, 500, 1000])
def test_merged_halves_equal_the_whole(split: int) -> None:
    values = [number * number for number in range(1000)]
    whole, left, right = Histogram(), Histogram(), Histogram()
    for position, value in enumerate(values):
        whole.add(value)
        (left if position < split else right).add(value)
    left.merge(right.counts, right.largest, right.sum)
    assert left.counts == whole.counts
    assert (left.total, left.largest, left.sum) == (whole.total, whole.largest, whole.sum)
