"""The benchmark's page: medians, ratios, marks, and a plot that is well-formed."""

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tools.bench import excerpt, report
from tools.bench.cell import short
from tools.bench.record import Record, load


def record(broker: str, number: int, rate: float, **more: object) -> Record:
    result: dict[str, object] = {
        "ok": True,
        "consume_rate": rate,
        "published": 100,
        "other_cores": 0.1,
        "broker": {"cpu_us_per_consumed": 2.0, "rss_peak_mib": 50.0, "written_bytes": 4000},
    }
    return Record(
        scenario="transient-128", row="transient-128", measure="consumed", broker=broker,
        round=number, at="2026-01-02T03:04:05", start_s=0.5, result=result | more,
    )  # fmt: skip


def page(folder: Path, records: list[Record]) -> str:
    report.write(records, folder)
    return (folder / "benchmarks.md").read_text()


def test_a_row_has_medians_and_their_ratio(tmp_path: Path) -> None:
    text = page(
        tmp_path,
        [record("warren", number, rate) for number, rate in ((1, 900.0), (2, 3000.0), (3, 9000.0))]
        + [record("rabbitmq", 1, 500.0)],
    )
    (row,) = [line for line in text.splitlines() if line.startswith("| transient, 128 B")]
    assert "| 3,000 (900 to 9,000) | 500 | 6.0 x | 2 | 2 | 50 | 50 | 3/3 1/1 |" in row


def test_noise_and_failed_verification_show(tmp_path: Path) -> None:
    text = page(tmp_path, [record("warren", 1, 10.0, other_cores=0.9, ok=False)])
    (row,) = [line for line in text.splitlines() if line.startswith("| transient, 128 B *")]
    assert row.endswith("| 0/1 |")


def test_a_run_that_failed_is_named(tmp_path: Path) -> None:
    failed = Record("idle", "idle", "idle", "warren", 2, error="first\nthe reason")
    assert "idle, Warren, round 2: the reason" in page(tmp_path, [failed])


def test_the_plot_is_well_formed(tmp_path: Path) -> None:
    page(tmp_path, [record("warren", 1, 123456.0), record("rabbitmq", 1, 0.0)])
    root = ET.parse(tmp_path / "benchmarks.svg").getroot()
    texts = [element.text for element in root.iter() if element.tag.endswith("text")]
    assert "123,456" in texts


@pytest.mark.parametrize("value", [0.0123, 1.5, 42.0, 999.6, 1234567.8])
def test_figures_keep_three_digits(value: float) -> None:
    shown = float(short(value).replace(",", ""))
    assert abs(shown - value) <= value * 0.005 + 0.5 * (value >= 100)


def test_records_survive_a_file(tmp_path: Path) -> None:
    records = [record("warren", 1, 5.0), Record("a", "b", "idle", "pure", 3, error="ü")]
    path = tmp_path / "lines"
    path.write_text("".join(item.to_line() + "\n" for item in records) + '{"older": 1}\n')
    assert load(path) == records
    assert load(tmp_path / "none") == []


def test_a_run_made_again_replaces_the_failed_one(tmp_path: Path) -> None:
    again = record("warren", 1, 5.0)
    failed = Record(again.scenario, again.row, again.measure, "warren", 1, error="did not start")
    path = tmp_path / "lines"
    path.write_text(failed.to_line() + "\n" + again.to_line() + "\n")
    assert load(path) == [again]


def test_the_readme_gets_the_rows_that_both_have(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{excerpt.BEGIN}old\n{excerpt.END}after\n")
    records = [record("warren", 1, 3000.0), record("rabbitmq", 1, 500.0)]
    assert excerpt.write_into(readme, records)
    assert excerpt.write_into(readme, records)
    text = readme.read_text()
    assert "| transient, 128 B | 500/s | 3,000/s | 6.0 x | 2 | 2 |" in text
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text


def test_a_readme_without_a_place_or_rows_stays(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(excerpt.BEGIN + excerpt.END)
    assert not excerpt.write_into(readme, [record("warren", 1, 3000.0)])
    assert not excerpt.write_into(tmp_path / "missing.md", [record("warren", 1, 1.0)])
    assert readme.read_text() == excerpt.BEGIN + excerpt.END
