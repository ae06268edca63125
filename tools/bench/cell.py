"""What the tables of the page are made of: the runs of one broker in one row."""

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Final

from tools.bench.record import Record
from tools.bench.scenario import Step

NOISE: Final = 0.3
NAMES: Final = {
    "warren": "Warren",
    "before": "Warren before",
    "pure": "Warren uncompiled",
    "rabbitmq": "RabbitMQ",
}


@dataclass(frozen=True, slots=True)
class Cell:
    """One broker in one row."""

    records: list[Record]

    def middle(self, read: Callable[[Record], float | None]) -> float | None:
        values = [value for record in self.records if (value := read(record)) is not None]
        return median(values) if values else None

    def number(self, *path: str) -> float | None:
        return self.middle(lambda record: record.number(*path))

    def extent(self, read: Callable[[Record], float | None]) -> str:
        values = [value for record in self.records if (value := read(record)) is not None]
        return f" ({short(min(values))} to {short(max(values))})" if len(values) > 1 else ""

    def verified(self) -> str:
        return f"{sum(record.ok for record in self.records)}/{len(self.records)}"

    def noisy(self) -> bool:
        return any((record.number("other_cores") or 0.0) > NOISE for record in self.records)


# A step and its runs by broker.
Row = tuple[Step, dict[str, Cell]]


def cells(records: list[Record], row: str) -> dict[str, Cell]:
    """The runs of a row by broker, in the order of NAMES."""
    chosen = [record for record in records if record.row == row]
    return {
        name: Cell(runs)
        for name in NAMES
        if (runs := [record for record in chosen if record.broker == name])
    }


def short(value: float) -> str:
    """Three digits that matter."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
