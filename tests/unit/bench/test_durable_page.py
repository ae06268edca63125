"""The part of the page about the disk, and what the runner notes for it."""

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tools.bench import durable, report
from tools.bench.plot import Line, lines_svg
from tools.bench.record import Record
from tools.bench.run import compare
from tools.bench.scenario import SCENARIOS, Step, pick

FILLED: dict[str, object] = {
    "ok": True,
    "published": 1000,
    "publish_rate": 1024.0,
    "confirm_rate": 0.0,
    "publish_tenths": {"first": 2000.0, "last": 500.0},
    "options": {"sizes": [1024]},
    "declared": {"queues": 50_000, "rate": 900.0, "kib_per_queue": 1.5, "rss_after_mib": 99.0},
    "series": {"memory_s": [0.0, 1.0, 2.0], "rss_mib": [40.0, 90.0, 400.0]},
    "broker": {
        "rss_begin_mib": 40.0,
        "rss_peak_mib": 400.0,
        "rss_end_mib": 300.0,
        "written_bytes": 1_100_000,
        "cpu_us_per_published": 1.0,
    },
}


def record(row: str, measure: str, result: dict[str, object], broker: str = "warren") -> Record:
    return Record(row, row, measure, broker, 1, disk_mib_per_s=10.0, result=result)


def line_of(page: str, title: str, under: str) -> str:
    section = page.partition(f"## {under}\n")[2].partition("\n## ")[0]
    (found,) = [line for line in section.splitlines() if line.startswith(f"| {title}")]
    return found


def test_a_backlog_has_its_growth_and_its_share_of_the_disk(tmp_path: Path) -> None:
    report.write([record("fill", "published", FILLED)], tmp_path)
    page = (tmp_path / "benchmarks.md").read_text()
    assert line_of(page, "persistent 1 KiB", "A growing backlog").endswith(
        "| Warren | 1,000 | 1,024 | 2,000 | 500 | 40 | 360 | 300 |"
    )
    assert line_of(page, "persistent 1 KiB", "Beside the disk").endswith(
        "| Warren | 10 | 1 | 10 % | 1,100 |"
    )
    assert line_of(page, "persistent 1 KiB", "Many queues").endswith(
        "| Warren | 50,000 | 900 | 1.5 | 99 |"
    )
    assert durable.MEMORY_PLOT in page
    root = ET.parse(tmp_path / durable.MEMORY_PLOT).getroot()
    assert any(element.tag.endswith("polyline") for element in root.iter())


def test_restarts_and_confirms_have_their_tables(tmp_path: Path) -> None:
    restarted: dict[str, object] = {
        "ok": True,
        "stop_s": 1.5,
        "up_s": 2.5,
        "first_delivery_s": 2.75,
    }
    late: dict[str, object] = {
        "ok": True,
        "latency_us": {"p50": 11.0, "p99": 22.0},
        "confirm_us": {"p50": 33.0, "p99": 44.0},
    }
    records = [
        record("start-kill", "restart", restarted, "rabbitmq"),
        record("latency-persistent", "latency", late),
    ]
    report.write(records, tmp_path)
    page = (tmp_path / "benchmarks.md").read_text()
    assert line_of(page, "start with", "Start with data").endswith(
        "| RabbitMQ | 1.5 | 2.5 | 2.75 | - | - | 1/1 |"
    )
    assert line_of(page, "latency at", "Latency of confirms").endswith("| 11 | 22 | 33 | 44 |")


def test_curves_are_well_formed() -> None:
    root = ET.fromstring(lines_svg("a < b", [Line("one", [(0.0, 5.0), (9.0, 50.0)])]))
    (curve,) = [element for element in root.iter() if element.tag.endswith("polyline")]
    (left, low), (right, high) = (
        (float(x), float(y))
        for x, _, y in (point.partition(",") for point in curve.attrib["points"].split()[:2])
    )
    assert left < right
    assert low > high


@pytest.mark.parametrize(("consumed", "missing"), [(1000, 0), (990, 10), (0, 1000)])
def test_a_drain_that_comes_short_is_not_ok(consumed: int, missing: int) -> None:
    fill = Step("fill", "", "--publish-only", "published", 1000)
    filled = compare(fill, dict(FILLED), 0)
    result: dict[str, object] = {"ok": True, "consumed": consumed}
    assert compare(Step("drain", "", "--drain"), result, filled) == 0
    assert (result["missing"], result["ok"]) == (missing, missing == 0)


def test_the_longest_scenarios_run_only_when_they_are_named() -> None:
    assert not any(scenario.only_named for scenario in pick([], quick=False))
    named = [scenario.name for scenario in SCENARIOS if scenario.only_named]
    assert [scenario.name for scenario in pick(named, quick=True)] == named
