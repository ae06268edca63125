"""The few rows that stand in the README, between its marks, from the kept records."""

from pathlib import Path
from statistics import median
from typing import Final

from tools.bench.cell import cells, short
from tools.bench.record import Record
from tools.bench.report import environment, ratio
from tools.bench.scenario import SCENARIOS

BEGIN: Final = "<!-- benchmarks:begin -->\n"
END: Final = "<!-- benchmarks:end -->\n"
ROWS: Final = (
    "transient-128",
    "transient-1k",
    "transient-64k",
    "confirms",
    "fanout",
    "ten",
    "fifty-in-flight",
    "latency",
    "idle",
)
UNITS: Final = {"latency": " µs median", "idle": " KiB each"}


def write_into(readme: Path, records: list[Record]) -> bool:
    """Write the rows between the marks; False when there is nothing to write or no place."""
    text = readme.read_text() if readme.exists() else ""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    lines = table(records)
    if not begin or not end or not lines:
        return False
    body = f"\n{environment(records)}\n" + "\n".join(lines) + "\n\n"
    readme.write_text(before + begin + body + end + after)
    return True


def table(records: list[Record]) -> list[str]:
    """One line per row that both brokers have run."""
    lines = []
    steps = {step.row: step for scenario in SCENARIOS for step in scenario.steps}
    for row in ROWS:
        step, found = steps[row], cells(records, row)
        ours, theirs = found.get("warren"), found.get("rabbitmq")
        if ours is None or theirs is None:
            continue
        unit = UNITS.get(step.measure, "/s")
        values = [step.title]
        values += [amount(cell.records, unit) for cell in (theirs, ours)]
        values.append(ratio(step, found, "rabbitmq"))
        values += [cost(cell.records) for cell in (theirs, ours)]
        lines.append("| " + " | ".join(values) + " |")
    if not lines:
        return []
    head = "| | RabbitMQ | Warren | better by | CPU µs RabbitMQ | CPU µs Warren |"
    return [head, "|---|---|---|---|---|---|", *lines]


def amount(records: list[Record], unit: str) -> str:
    values = [value for record in records if (value := record.rate()) is not None]
    return short(median(values)) + unit if values else "-"


def cost(records: list[Record]) -> str:
    values = [value for record in records if (value := record.cpu_us()) is not None]
    return short(median(values)) if values else "-"
