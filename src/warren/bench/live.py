"""Live display: one line a second on a terminal, from the sides' ticks."""

import sys
from typing import TextIO

from warren.bench.histogram import percentile_of
from warren.bench.result import Counts, Tick


class Display:
    """Turns running totals into rates of the last second."""

    def __init__(self, stream: TextIO, *, enabled: bool, interval_s: float = 1.0) -> None:
        self.stream = stream
        # Shown are the ticks that end a second, or all of longer ones.
        self.every = max(1, round(1.0 / interval_s))
        self.step_s = self.every * interval_s
        self.ticks: dict[str, int] = {}
        self.enabled = enabled
        self.last: dict[str, Tick] = {}
        self.second = 0.0

    def show(self, tick: Tick) -> None:
        if not self.enabled:
            return
        self.ticks[tick.side] = self.ticks.get(tick.side, 0) + 1
        if self.ticks[tick.side] % self.every:
            return
        before = self.last.get(tick.side, Tick(tick.side))
        if tick.side == "producers":
            self.second += self.step_s
            line = f"{self.second:4.0f} s  published {self.rate(tick.published - before.published)}"
            if tick.confirmed:
                line += f"  confirmed {self.rate(tick.confirmed - before.confirmed)}"
            if tick.held:
                line += "  held back by the broker"
        else:
            line = f"        consumed {self.rate(tick.consumed - before.consumed)}"
            line += latency_text(tick.latency, before.latency)
            if tick.faults:
                line += f"  FAULTS {tick.faults}"
        self.last[tick.side] = tick
        self.stream.write(line + "\n")
        self.stream.flush()

    def rate(self, count: int) -> str:
        return f"{count / self.step_s:>11,.0f}/s"


def latency_text(now: Counts | None, before: Counts | None) -> str:
    """Percentiles of the last second."""
    if now is None:
        return ""
    counts = now.counts
    if before is not None:
        counts = [new - old for new, old in zip(counts, before.counts, strict=True)]
    total = sum(counts)
    p50, p99 = (percentile_of(counts, total, now.largest, part) / 1000 for part in (0.5, 0.99))
    return f"  latency p50 {p50:.0f} µs  p99 {p99:.0f} µs"


def terminal_display(*, quiet: bool, interval_s: float = 1.0) -> Display:
    enabled = sys.stderr.isatty() and not quiet
    return Display(sys.stderr, enabled=enabled, interval_s=interval_s)
