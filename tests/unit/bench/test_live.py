"""The live display shows the last second, not the whole run."""

import io

from warren.bench.histogram import Histogram
from warren.bench.live import Display
from warren.bench.result import Counts, Tick


def shown(*ticks: Tick, enabled: bool = True) -> list[str]:
    out = io.StringIO()
    display = Display(out, enabled=enabled)
    for tick in ticks:
        display.show(tick)
    return out.getvalue().splitlines()


def test_rates_are_differences() -> None:
    lines = shown(
        Tick("producers", published=1000, confirmed=900),
        Tick("consumers", consumed=800),
        Tick("producers", published=3500, confirmed=3000, held=True),
        Tick("consumers", consumed=2800, faults=2),
    )
    assert "1,000/s" in lines[0]
    assert "2,500/s" in lines[2]
    assert "2,100/s" in lines[2]
    assert lines[2].endswith("held back by the broker")
    assert "2,000/s" in lines[3]
    assert lines[3].endswith("FAULTS 2")


def test_ticks_within_a_second_are_not_shown() -> None:
    out = io.StringIO()
    display = Display(out, enabled=True, interval_s=0.5)
    for total in (10, 30, 60, 100):
        display.show(Tick("producers", published=total))
    first, second = out.getvalue().splitlines()
    assert "30/s" in first
    assert "70/s" in second


def test_latency_is_of_the_last_second() -> None:
    histogram = Histogram()
    histogram.add(100_000)
    first = Tick("consumers", consumed=1, latency=Counts.of(histogram))
    for _ in range(10):
        histogram.add(64_000)
    second = Tick("consumers", consumed=11, latency=Counts.of(histogram))
    assert "p50 64 µs  p99 64 µs" in shown(first, second)[1]


def test_without_a_terminal_nothing_is_shown() -> None:
    assert shown(Tick("producers", published=1), enabled=False) == []
