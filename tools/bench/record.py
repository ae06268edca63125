"""One measured step as it is kept: a line of JSON in `out/bench/results.jsonl`."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Record:
    """What was measured, of whom, in which round, and the load generator's own result."""

    scenario: str
    row: str
    measure: str
    broker: str
    round: int
    at: str = ""
    start_s: float = 0.0  # from launch until the broker answered a handshake
    disk_mib_per_s: float = 0.0  # the disk's floor just before; 0: not measured
    command: str = ""
    error: str = ""
    result: Mapping[str, object] | None = None

    def to_line(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False)

    def number(self, *path: str) -> float | None:
        """A number of the result, by its keys; None when it is not there."""
        value: object = self.result
        for key in path:
            if not isinstance(value, Mapping):
                return None
            value = value.get(key)
        return float(value) if isinstance(value, int | float) else None

    @property
    def ok(self) -> bool:
        return self.result is not None and self.result.get("ok") is True

    def rate(self) -> float | None:
        """The number this kind of row compares."""
        if self.measure == "latency":
            return self.number("latency_us", "p50")
        if self.measure == "idle":
            return self.number("kib_per_connection")
        if self.measure == "connect":
            return self.number("connect_rate")
        if self.measure == "restart":
            return self.number("first_delivery_s")
        return self.number("publish_rate" if self.measure == "published" else "consume_rate")

    def cpu_us(self) -> float | None:
        """The broker's CPU microseconds per message (or per connection)."""
        if self.measure == "connect":
            return self.number("connect_cpu_us")
        if self.measure == "restart":
            return None
        if self.measure == "idle":
            seconds, count = self.number("connect_cpu_s"), self.number("connections")
            return seconds * 1e6 / count if seconds is not None and count else None
        per = "cpu_us_per_published" if self.measure == "published" else "cpu_us_per_consumed"
        return self.number("broker", per)

    def rss_mib(self) -> float | None:
        for path in (("broker", "rss_peak_mib"), ("rss_held_mib",), ("rss_end_mib",)):
            value = self.number(*path)
            if value is not None:
                return value
        return None

    def summary(self) -> str:
        if self.error:
            return f"{self.row}: {self.error.splitlines()[-1]}"
        if self.measure == "restart":
            return f"{self.row}: up {self.number('up_s')} s, first {self.rate()} s"
        rate, cpu = self.rate() or 0.0, self.cpu_us() or 0.0
        other = self.number("other_cores")
        return f"{self.row}: {rate:,.1f}  {cpu:.2f} µs CPU  {'ok' if self.ok else 'NOT OK'}" + (
            f"  other cores {other:.2f}" if other is not None else ""
        )


def load(path: Path) -> list[Record]:
    """The last record of each run; lines of an older shape are left out."""
    if not path.exists():
        return []
    names = {field.name for field in fields(Record)}
    records: dict[tuple[str, str, str, int], Record] = {}
    for line in path.read_text().splitlines():
        values = json.loads(line)
        if set(values) == names:
            record = Record(**values)
            records[record.scenario, record.row, record.broker, record.round] = record
    return list(records.values())
