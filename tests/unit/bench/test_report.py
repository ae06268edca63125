"""The JSON keeps its shape, and says ok only when everything was."""

import json
import shlex
from collections.abc import Callable

import pytest

from warren.bench import report
from warren.bench.arguments import parse
from warren.bench.histogram import Histogram
from warren.bench.procfs import Memory
from warren.bench.result import ConsumersResult, Counts, ProducersResult, Tick
from warren.bench.run import Declared, Outcome

SECOND = 1_000_000_000


def outcome() -> Outcome:
    latency = Histogram()
    for microseconds in range(1, 101):
        latency.add(microseconds * 1000)
    result = Outcome(
        producers=ProducersResult([60, 40], 0, 2 * SECOND, 2 * SECOND, confirmed=100, cpu_s=0.5),
        consumers=ConsumersResult(
            begin_ns=0, last_ns=4 * SECOND, consumed=100, octets=1200, expected=100, lost=0,
            duplicated=0, reordered=0, bad=0, redelivered=0, timed_out=False, cpu_s=0.5,
            latency=Counts.of(latency),
        ),
        ticks=[Tick("producers", published=30), Tick("consumers", consumed=20),
               Tick("producers", published=100), Tick("consumers", consumed=70)],
    )  # fmt: skip
    result.machine.broker_cpu_s = 1.0
    result.machine.elapsed_s = 4.0
    result.machine.busy_s = 4.0
    return result


def build(words: str = "--confirm 10 --pid 1", result: Outcome | None = None) -> report.Report:
    return report.build(parse(shlex.split(words)), result or outcome())


def test_rates_costs_and_percentiles() -> None:
    found = json.loads(report.to_json(build()))
    assert found["ok"] is True
    assert (found["published"], found["publish_rate"]) == (100, 50.0)
    assert (found["consumed"], found["consume_rate"]) == (100, 25.0)
    assert found["confirm_rate"] == 50.0
    assert found["latency_us"]["n"] == 100
    assert 49 <= found["latency_us"]["p50"] <= 51
    assert found["latency_us"]["max"] == 100.0
    assert found["broker"]["cpu_us_per_consumed"] == 10_000.0
    assert found["load"] == {"cpu_s": 1.0, "cpu_us_per_message": 10_000.0}
    assert found["other_cores"] == 0.5
    assert found["per_second"] == {"published": [30, 70], "consumed": [20, 50]}
    assert found["consume_rate_while_publishing"] == 35.0


def test_the_keys_tools_read_are_there() -> None:
    needed = {
        "tool", "version", "mode", "options", "ok", "timed_out", "elapsed_s", "left_in_queues",
        "published", "publish_rate", "confirmed", "confirm_rate", "nacked", "returned",
        "duplicate_confirms", "unknown_confirms", "blocked_s", "blocked_events", "flow_events",
        "confirm_us", "send_late_us", "consumed", "consume_rate", "bytes_per_s", "expected",
        "lost", "duplicated", "reordered", "bad", "redelivered", "latency_us", "load",
        "load_average", "broker", "other_cores", "per_second", "consume_rate_while_publishing",
        "declared", "publish_tenths", "series",
    }  # fmt: skip
    assert set(build()) == needed


def test_the_first_and_the_last_tenth_have_rates_of_their_own() -> None:
    result = outcome()  # 30 in the first second, 70 in the second
    assert build(result=result)["publish_tenths"] == {"first": 30.0, "last": 70.0}
    assert result.producers
    result.producers.published_ns = 3 * SECOND  # taken a second after the last was handed over
    assert build(result=result)["publish_tenths"] == {"first": 30.0, "last": 8.8}


def test_the_series_has_progress_and_memory() -> None:
    result = outcome()
    result.machine.series = [(0.0, Memory(50.04, 40.0)), (1.004, Memory(60.0, 41.0))]
    series = json.loads(report.to_json(build(result=result)))["series"]
    assert series["interval_s"] == 1.0
    assert (series["published"], series["consumed"]) == ([30, 100], [20, 70])
    assert (series["memory_s"], series["rss_mib"]) == ([0.0, 1.0], [50.0, 60.0])


def test_short_intervals_are_summed_up_to_seconds() -> None:
    found = build("--interval 0.5", outcome())
    assert found["per_second"] == {"published": [100], "consumed": [70]}


def test_declaring_has_its_rate_and_memory() -> None:
    result = outcome()
    result.declared = Declared(1024, 2.0, Memory(10.0, 9.0), Memory(12.0, 11.0))
    found = json.loads(report.to_json(build(result=result)))["declared"]
    assert (found["rate"], found["kib_per_queue"]) == (512.0, 2.0)


def test_the_password_is_not_in_it() -> None:
    assert "secret-word" not in report.to_json(build("--uri amqp://u:secret-word@h/"))


def lose(result: Outcome) -> None:
    assert result.consumers
    result.consumers.lost = 1


def double(result: Outcome) -> None:
    assert result.consumers
    result.consumers.duplicated = 1


def reorder(result: Outcome) -> None:
    assert result.consumers
    result.consumers.reordered = 1


def spoil(result: Outcome) -> None:
    assert result.consumers
    result.consumers.bad = 1


def refuse(result: Outcome) -> None:
    assert result.producers
    result.producers.nacked = 1


def confirm_twice(result: Outcome) -> None:
    assert result.producers
    result.producers.duplicate_confirms = 1


def leave_unconfirmed(result: Outcome) -> None:
    assert result.producers
    result.producers.confirmed = 99


def give_up(result: Outcome) -> None:
    assert result.consumers
    result.consumers.timed_out = True


@pytest.mark.parametrize(
    "spoiled",
    [lose, double, reorder, spoil, refuse, confirm_twice, leave_unconfirmed, give_up],
)
def test_any_fault_is_not_ok(spoiled: Callable[[Outcome], None]) -> None:
    result = outcome()
    spoiled(result)
    found = build(result=result)
    assert found["ok"] is False
    assert "NOT OK" in report.to_text(found)


def test_text_names_what_was_measured() -> None:
    text = report.to_text(build())
    assert "published" in text
    assert "lost 0  duplicated 0  reordered 0" in text
    assert "latency    p50 5" in text


@pytest.mark.parametrize("mode", ["--publish-only", "--drain"])
def test_one_side_alone_is_reported(mode: str) -> None:
    result = outcome()
    if mode == "--drain":
        result.producers = None
    else:
        result.consumers = None
    found = build(mode, result)
    assert found["ok"] is True
    assert report.to_text(found)
