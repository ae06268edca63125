"""What the soak and the flow loads conclude from what they saw."""

import argparse
from collections import Counter

import pytest

from tools import flow_load, soak
from tools.flow_load import Seen

ARGS = argparse.Namespace(
    limit=300.0, ratio=1.3, pause=1.0, paging_ratio=2.0, durable=False, lazy=False
)
# Ten values a second.
STEADY = [float(100 * (at + 1)) for at in range(50)]


def result(**changes: object) -> dict[str, object]:
    found: dict[str, object] = {
        "ok": True, "timed_out": False, "published": 5000, "confirmed": 5000, "consumed": 5000,
        "lost": 0, "duplicated": 0, "reordered": 0, "bad": 0, "nacked": 0, "blocked_events": 3,
        "blocked_s": 2.0,
    }  # fmt: skip
    series = {"interval_s": 0.1, "published": STEADY, "consumed": STEADY, "rss_mib": [80.0, 300.0]}
    for name in list(changes):
        if name in series:
            series[name] = changes.pop(name)
    return {**found, "series": series, **changes}


def held(found: dict[str, object]) -> list[bool]:
    return [finding.held for finding in soak.judge(found, ARGS)]


def test_a_soak_that_held() -> None:
    assert held(result()) == [True] * 5


@pytest.mark.parametrize(
    ("changes", "which"),
    [
        ({"lost": 1, "ok": False}, 0),
        ({"duplicated": 1, "ok": False}, 0),
        ({"confirmed": 4999, "ok": False}, 0),
        ({"blocked_events": 0}, 1),
        ({"published": STEADY[:5] + [500.0] * 11 + STEADY[5:]}, 2),
        ({"consumed": STEADY[:5] + [500.0] * 11 + STEADY[5:]}, 3),
        ({"rss_mib": [80.0, 400.0]}, 4),
    ],
)
def test_each_demand_of_the_soak_can_fail(changes: dict[str, object], which: int) -> None:
    if "published" in changes:  # the series, not the total
        found = result()
        series = found["series"]
        assert isinstance(series, dict)
        series["published"] = changes["published"]
    else:
        found = result(**changes)
    assert held(found) == [at != which for at in range(5)]


@pytest.mark.parametrize(
    ("connections", "channels", "queues", "expected"),
    [
        ("running", "running", "running", "none: nothing is in flow"),
        ("flow", "running", "running", "channels"),
        ("flow", "flow", "running", "queues"),
        ("flow", "flow", "flow", "message store"),
        ("blocked", "flow", "flow", "an alarm"),
        (
            "flow",
            "not shown",
            "running",
            "channels or queues: the states of channels are not shown",
        ),
    ],
)
def test_the_bottleneck_follows_from_what_is_in_flow(
    connections: str, channels: str, queues: str, expected: str
) -> None:
    states = {
        "connections": Counter({connections: 2}),
        "channels": Counter({channels: 2}),
        "queues": Counter({queues: 1}),
    }
    assert flow_load.verdict(states) == expected


def test_what_most_looks_say_counts() -> None:
    seen = Seen()
    assert flow_load.most_frequent(seen) == flow_load.NONE
    seen.verdicts.update({flow_load.NONE: 9, "queues": 3, "message store": 1})
    assert flow_load.most_frequent(seen) == "queues"


@pytest.mark.parametrize(
    ("memory", "flat"), [([50.0] * 6, True), ([50, 60, 70, 90, 110, 200], False)]
)
def test_memory_that_grows_is_seen(memory: list[float], flat: bool) -> None:
    seen = Seen(result={"series": {"published": [1] * 6, "rss_mib": memory}})
    assert flow_load.is_flat("disk", seen, argparse.Namespace(growth=64.0)) is flat
