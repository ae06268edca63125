"""docs/benchmarks.md and its plot, from the kept records.

Medians of all runs of a row. A row is marked when other work took more than NOISE cores in any of
its runs, and when any run failed its verification.
"""

import os
import platform
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median

from tools.bench import durable
from tools.bench.broker import rabbitmq_version
from tools.bench.cell import NAMES, Cell, Row, cells, short
from tools.bench.plot import Bar, bars_svg
from tools.bench.record import Record
from tools.bench.scenario import SCENARIOS, Step

PLOT = "benchmarks.svg"

HEAD = """\
# Benchmarks

Written by `make bench` from the runs of one machine; compare columns of one row, never figures of
different machines. Every run starts a fresh broker with an empty data folder; brokers take turns
inside a scenario, so that they meet the same conditions. All messages carry a sequence number, and
*verified* says in how many runs nothing was lost, doubled, reordered or spoilt.
"""

READING = """\
## How to read this

- Rates are medians over the runs, in messages per second until the last delivery (so with the
  drain after the producer stopped); the range is in parentheses.
- CPU is the broker's (with its children), user and system, per delivered message; a producer that
  runs ahead of its consumer is in it.
- RSS is the highest sum over the broker's processes.
- `*`: other work took more than 0.3 of a core in at least one run of the row.
- Latency rows compare the median latency: there less is better, and a ratio above 1 means that
  Warren is quicker. The same holds for memory per idle connection.
- Load and broker share the machine's cores. `python -m tools.bench.cost` prints what the load
  generator costs without a broker.

## Again

    make bench                              # everything, three rounds; goes on where it stopped
    make bench ARGS="--quick"               # one short round of the main scenarios
    make bench ARGS="--fresh ten latency"   # only these, forgetting earlier results
    make bench ARGS="--brokers warren,pure" # compiled against uncompiled
    make bench ARGS="--list"                # the scenarios, and which run only by name
    make bench ARGS="fill-drain-10m fill-drain-10m-lazy"
    make bench ARGS="--report"              # write this page again from the kept results

Each run's full result, with the command that made it, is a line of `out/bench/results.jsonl`.
"""


def write(records: list[Record], folder: Path) -> None:
    """Write the page and its plot."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [(step, cells(records, step.row)) for scenario in SCENARIOS for step in scenario.steps]
    rows = [(step, found) for step, found in rows if found]
    parts = [HEAD, environment(records)]
    if plot_rates(rows, folder):
        parts.append(f"![Messages per second]({PLOT})\n")
    for title, measures in (
        ("Messages per second", ("consumed", "published")),
        ("Latency", ("latency",)),
        ("Connections", ("idle", "connect")),
    ):
        chosen = [(step, found) for step, found in rows if step.measure in measures]
        if chosen:
            parts.append(f"## {title}\n\n" + "\n".join(table(chosen, measures[0])) + "\n")
    parts += [starts(records), *durable.parts(rows, folder), failures(records), READING]
    (folder / "benchmarks.md").write_text("\n".join(part for part in parts if part))


def environment(records: list[Record]) -> str:
    cpu = next(
        (
            line.partition(":")[2].strip()
            for line in lines_of("/proc/cpuinfo")
            if "model name" in line
        ),
        "unknown processor",
    )
    memory = next(
        (line.split()[1] for line in lines_of("/proc/meminfo") if "MemTotal" in line), "0"
    )
    days = sorted({record.at[:10] for record in records if record.at})
    return (
        f"Machine: {os.cpu_count()} cores ({cpu}), {int(memory) / 1048576:.0f} GiB, "
        f"{platform.system()} {platform.release().partition('-')[0]}, loopback. "
        f"Python {platform.python_version()}; RabbitMQ {rabbitmq_version()}. "
        f"Measured {' to '.join(dict.fromkeys([days[0], days[-1]])) if days else 'never'}; "
        f"{len(records)} runs.\n"
    )


def lines_of(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


UNITS = {
    "consumed": ("", ""),
    "latency": (" p50 (µs)", " p99 (µs)"),
    "idle": (" (KiB each, or per second)", ""),
}


def table(rows: list[Row], kind: str) -> Iterable[str]:
    """One line per row: each broker's figure, the ratio, and what it cost."""
    brokers = [name for name in NAMES if any(name in found for _, found in rows)]
    first, second = UNITS[kind]
    head = ["scenario", *(NAMES[name] + first for name in brokers)]
    if second:
        head += [NAMES[name] + second for name in brokers]
    head += [f"Warren : {NAMES[name]}" for name in brokers if name != "warren"]
    head += [f"CPU µs {NAMES[name]}" for name in brokers]
    head += [f"RSS MiB {NAMES[name]}" for name in brokers] + ["verified"]
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for step, found in rows:
        values = [step.title + (" *" if any(cell.noisy() for cell in found.values()) else "")]
        values += [figure(found.get(name), Record.rate) for name in brokers]
        if second:
            values += [figure(found.get(name), latency_p99) for name in brokers]
        values += [ratio(step, found, name) for name in brokers if name != "warren"]
        values += [figure(found.get(name), Record.cpu_us, bare=True) for name in brokers]
        values += [figure(found.get(name), Record.rss_mib, bare=True) for name in brokers]
        values.append(" ".join(cell.verified() for cell in found.values()))
        yield "| " + " | ".join(values) + " |"


def latency_p99(record: Record) -> float | None:
    return record.number("latency_us", "p99")


def figure(cell: Cell | None, read: Callable[[Record], float | None], *, bare: bool = False) -> str:
    value = cell.middle(read) if cell else None
    if cell is None or value is None:
        return "-"
    return short(value) + ("" if bare else cell.extent(read))


def ratio(step: Step, found: dict[str, Cell], other: str) -> str:
    """How many times better Warren is."""
    ours = found["warren"].middle(Record.rate) if "warren" in found else None
    theirs = found[other].middle(Record.rate) if other in found else None
    if not ours or not theirs:
        return "-"
    less_is_better = step.measure in ("latency", "idle")
    return f"{theirs / ours if less_is_better else ours / theirs:.1f} x"


def starts(records: list[Record]) -> str:
    """Time to the first answered handshake, from every run."""
    lines = []
    for name, title in NAMES.items():
        values = [record.start_s for record in records if record.broker == name and record.start_s]
        if values:
            lines.append(f"| {title} | {short(median(values))} | {len(values)} |")
    if not lines:
        return ""
    return "## Start of an empty node\n\n| broker | seconds | runs |\n|---|---|---|\n" + (
        "\n".join(lines) + "\n"
    )


def failures(records: list[Record]) -> str:
    lines = [
        f"- {record.row}, {NAMES[record.broker]}, round {record.round}: "
        + record.error.splitlines()[-1]
        for record in records
        if record.error
    ]
    return "## Runs that failed\n\n" + "\n".join(lines) + "\n" if lines else ""


def plot_rates(rows: list[Row], folder: Path) -> bool:
    bars = [
        Bar(
            step.title,
            {NAMES[name]: cell.middle(Record.rate) or 0.0 for name, cell in found.items()},
        )
        for step, found in rows
        if step.measure in ("consumed", "published")
    ]
    if not bars:
        return False
    (folder / PLOT).write_text(bars_svg("Messages per second (logarithmic)", bars))
    return True
