"""The part of the page about what is on the disk: growth, restarts, many queues, the floor."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from tools.bench.cell import NAMES, Cell, Row, short
from tools.bench.plot import Line, lines_svg
from tools.bench.record import Record
from tools.bench.scenario import HEADLINE, Step

MEMORY_PLOT: Final = "benchmarks-memory.svg"


def parts(rows: list[Row], folder: Path) -> list[str]:
    """The sections that have anything to tell."""
    return [
        growth(rows, folder),
        confirms(rows),
        restarts(rows),
        many_queues(rows),
        beside_the_disk(rows),
    ]


def section(title: str, text: str, head: Iterable[str], lines: list[list[str]]) -> str:
    if not lines:
        return ""
    names = list(head)
    table = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    table += ["| " + " | ".join(line) + " |" for line in lines]
    return f"## {title}\n\n{text}\n\n" + "\n".join(table) + "\n"


def told(value: float | None) -> str:
    return "-" if value is None else short(value)


def each(rows: list[Row]) -> Iterable[tuple[Step, str, Cell]]:
    return ((step, name, cell) for step, found in rows for name, cell in found.items())


def growth(rows: list[Row], folder: Path) -> str:
    """What a backlog does to memory and rate while it grows."""
    filled = [row for row in rows if row[0].measure == "published"]
    lines = []
    for step, name, cell in each(filled):
        first, last = cell.number("publish_tenths", "first"), cell.number("publish_tenths", "last")
        lines.append([
            step.title, NAMES[name], told(cell.number("published")), told(cell.middle(Record.rate)),
            told(first), told(last), told(cell.number("broker", "rss_begin_mib")),
            told(cell.middle(rss_growth)), told(cell.number("broker", "rss_end_mib")),
        ])  # fmt: skip
    plotted = plot_memory(filled, folder)
    picture = f"\n\n![Memory while a queue grows]({MEMORY_PLOT})" if plotted else ""
    text = (
        "Publishing without consumers. A rate that falls from the first tenth of the messages to "
        "the last\none, or memory that grows, says what a backlog costs." + picture
    )
    head = ("scenario", "broker", "messages", "published/s", "first tenth /s", "last tenth /s",
            "RSS MiB before", "RSS growth MiB", "RSS MiB at the end")  # fmt: skip
    return section("A growing backlog", text, head, lines)


def rss_growth(record: Record) -> float | None:
    peak, begin = record.number("broker", "rss_peak_mib"), record.number("broker", "rss_begin_mib")
    return peak - begin if peak is not None and begin is not None else None


def plot_memory(filled: list[Row], folder: Path) -> bool:
    """Memory over time: of the longest runs there are."""
    headline = [row for row in filled if row[0].messages == HEADLINE]
    chosen = headline or [row for row in filled if row[0].row.startswith("fill")]
    lines = [
        Line(f"{NAMES[name]}{', lazy' if 'lazy' in step.row else ''}", points)
        for step, name, cell in each(chosen)
        if (points := memory_points(cell.records[-1]))
    ]
    if lines:
        title = "Memory while messages of 1 KiB are published (MiB, logarithmic, over seconds)"
        (folder / MEMORY_PLOT).write_text(lines_svg(title, lines))
    return bool(lines)


def memory_points(record: Record) -> list[tuple[float, float]]:
    series = record.result.get("series") if record.result else None
    if not isinstance(series, Mapping):
        return []
    return list(zip(series["memory_s"], series["rss_mib"], strict=True))


def confirms(rows: list[Row]) -> str:
    """How long a confirm took, in rows that have a schedule."""
    lines = [
        [step.title, NAMES[name],
         *(told(cell.number(what, part))
           for what in ("latency_us", "confirm_us") for part in ("p50", "p99"))]
        for step, name, cell in each(rows)
        if step.measure == "latency" and cell.number("confirm_us", "p50") is not None
    ]  # fmt: skip
    return section(
        "Latency of confirms", "In microseconds, at a fixed rate.",
        ("scenario", "broker", "delivery p50", "delivery p99", "confirm p50", "confirm p99"), lines,
    )  # fmt: skip


def restarts(rows: list[Row]) -> str:
    lines = [
        [step.title, NAMES[name], *(told(cell.number(what)) for what in
         ("stop_s", "up_s", "first_delivery_s", "start_cpu_s", "rss_end_mib")), cell.verified()]
        for step, name, cell in each(rows)
        if step.measure == "restart"
    ]  # fmt: skip
    return section(
        "Start with data",
        "Seconds from the launch. That nothing is missing is verified by draining afterwards.",
        ("scenario", "broker", "to stop", "until it answers", "until the first delivery",
         "CPU s", "RSS MiB", "runs"), lines,
    )  # fmt: skip


def many_queues(rows: list[Row]) -> str:
    """What a queue costs that is only there."""
    lines = []
    for step, name, cell in each(rows):
        queues = cell.number("declared", "queues")
        if queues is None or queues < 1000:
            continue
        figures = ("rate", "kib_per_queue", "rss_after_mib")
        lines.append([step.title, NAMES[name], short(queues),
                      *(told(cell.number("declared", figure)) for figure in figures)])  # fmt: skip
    return section(
        "Many queues", "Declared by one client, a hundred under way at a time.",
        ("scenario", "broker", "queues", "declared/s", "KiB for each queue", "RSS MiB"), lines,
    )  # fmt: skip


def beside_the_disk(rows: list[Row]) -> str:
    """Rows that write, beside what the disk can do."""
    lines = []
    for step, name, cell in each(rows):
        floor = cell.middle(lambda record: record.disk_mib_per_s or None)
        written = cell.middle(bytes_per_message)
        if floor and written is not None:
            payload = cell.middle(payload_mib_per_s)
            share = f"{100 * payload / floor:.0f} %" if payload is not None else "-"
            lines.append([step.title, NAMES[name], short(floor), told(payload), share,
                          short(written)])  # fmt: skip
    return section(
        "Beside the disk",
        "The floor is sequential writes of 1 MiB, each forced to the disk, measured before the "
        "run.",
        ("scenario", "broker", "floor MiB/s", "bodies MiB/s", "of the floor",
         "bytes written per message"), lines,
    )  # fmt: skip


def payload_mib_per_s(record: Record) -> float | None:
    """The bodies that were published each second."""
    sizes = record.result["options"] if record.result and "options" in record.result else None
    rate = record.number("confirm_rate") or record.number("publish_rate")
    if not isinstance(sizes, Mapping) or not rate:
        return None
    cycle = [int(size) for size in sizes["sizes"]]
    return rate * sum(cycle) / len(cycle) / 1048576


def bytes_per_message(record: Record) -> float | None:
    written = record.number("broker", "written_bytes")
    count = record.number("published") or record.number("consumed")
    return written / count if written is not None and count else None
