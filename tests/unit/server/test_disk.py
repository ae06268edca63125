"""The disk alarm: limits, intervals, edges, what happens where nothing can be measured (DA-*)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.gauge import FakeGauge
from tests.support.machine import FakeLog
from warren.flow import Alarm, Alarms, Change, Source
from warren.server.config import Settings
from warren.server.disk import DiskMonitor, interval_ms
from warren.server.memory import MemoryMonitor

LIMIT = 50_000_000
DISABLING = "Disabling disk free space monitoring"


class Rig:
    """A monitor on a disk of its own."""

    def __init__(self, gauge: FakeGauge | None = None, **settings: Any) -> None:
        self.gauge = gauge or FakeGauge()
        self.log = FakeLog()
        self.alarms = Alarms()
        chosen = Settings(node_name="warren@one", data_dir=Path("/data"), **settings)
        memory = MemoryMonitor(chosen, self.alarms, self.gauge, FakeLog())
        self.monitor = DiskMonitor(chosen, self.alarms, self.gauge, self.log, memory)
        self.monitor.begin()

    def lines(self, name: str) -> list[tuple[str, Mapping[str, object]]]:
        return [(level, facts) for level, one, facts in self.log.events if one == name]


@pytest.mark.rule("DA-1", "AL-4")
def test_less_than_the_limit_is_an_alarm_and_as_much_is_none() -> None:
    rig = Rig()
    edges = []
    for free in (LIMIT + 1, LIMIT, LIMIT - 1, 0, LIMIT - 1, LIMIT, LIMIT + 1):
        rig.gauge.free = free
        edge = rig.monitor.check()
        edges.append(edge.change if edge else None)
    assert edges == [None, None, Change.SET, None, None, Change.CLEARED, None]
    assert rig.lines("disk.space") == [
        ("info", {"state": "insufficient", "free": LIMIT - 1, "limit": LIMIT}),
        ("info", {"state": "sufficient", "free": LIMIT, "limit": LIMIT}),
    ]
    assert set(rig.gauge.folders) == {Path("/data")}


@pytest.mark.rule("DA-3", "DA-4")
def test_the_limit_is_octets_or_a_share_of_the_memory() -> None:
    assert Rig().monitor.limit == 50_000_000
    assert Rig(disk_free_limit=10**9).monitor.limit == 10**9
    rig = Rig(FakeGauge(total=1001), disk_free_limit_relative=1.5)
    assert rig.monitor.limit == 1502
    rig.monitor.set_relative(2.0)
    assert rig.monitor.limit == 2002
    rig.monitor.set_absolute(7)
    assert rig.monitor.limit == 7


@pytest.mark.parametrize(
    ("limit", "megabytes"), [(50_000_000, 50), (10**9, 1000), (999_999, 0), (1 << 30, 1073)]
)
def test_the_limit_is_told_in_megabytes(limit: int, megabytes: int) -> None:
    facts = {"text": f"Disk free limit set to {megabytes}MB", "limit": limit}
    assert Rig(disk_free_limit=limit).lines("disk.limit_set") == [("info", facts)]


@pytest.mark.rule("DA-6")
@pytest.mark.parametrize(
    ("headroom", "wait_ms"),
    [
        (10**12, 10_000),
        (1_250_000_000, 10_000),
        (1_249_999_999, 9_999),
        (500_000_000, 4000),
        (125_000_000, 1000),
        (12_500_000, 100),
        (1, 100),
        (0, 100),
    ],
)
def test_the_nearer_the_limit_the_sooner_the_next_look(headroom: int, wait_ms: int) -> None:
    assert interval_ms(headroom) == wait_ms
    rig = Rig(FakeGauge(free=LIMIT + headroom))
    rig.monitor.check()
    assert rig.monitor.wait_ms() == wait_ms


@pytest.mark.rule("DA-6")
def test_with_the_alarm_on_the_interval_is_the_longest() -> None:
    rig = Rig(FakeGauge(free=LIMIT - 1))
    rig.monitor.check()
    assert rig.monitor.wait_ms() == 10_000
    rig.monitor.interval_max_ms = 500
    assert rig.monitor.wait_ms() == 500


@pytest.mark.rule("DA-6")
def test_least_and_longest_interval_can_be_changed() -> None:
    rig = Rig(FakeGauge(free=LIMIT))
    rig.monitor.check()
    rig.monitor.interval_min_ms = 700
    assert rig.monitor.wait_ms() == 700


@pytest.mark.rule("DA-7")
def test_where_nothing_can_be_measured_there_is_no_alarm_ever() -> None:
    rig = Rig(FakeGauge(free=None), disk_monitor_failure_retries=2)
    waits = []
    for _ in range(4):
        assert rig.monitor.check() is None
        waits.append(rig.monitor.wait_ms())
    # The first failure, two retries that come, and no more.
    assert waits == [120_000, 120_000, 0, 0]
    ((level, facts),) = rig.lines("disk.monitoring_disabled")
    assert (level, facts["text"]) == ("info", DISABLING)
    rig.monitor.set_absolute(5)
    assert len(rig.lines("disk.monitoring_disabled")) == 2
    assert len(rig.lines("disk.limit_set")) == 1
    assert rig.alarms.in_force() == []


@pytest.mark.rule("DA-7")
def test_a_retry_that_succeeds_begins_the_monitoring() -> None:
    rig = Rig(FakeGauge(free=None), disk_monitor_failure_retry_interval_ms=500)
    rig.monitor.check()
    assert (rig.monitor.wait_ms(), rig.monitor.disabled) == (500, True)
    rig.gauge.free = 1
    edge = rig.monitor.check()
    assert edge is not None
    assert edge.alarm == Alarm(Source.DISK, "warren@one")
    facts = {"folder": "/data", "free": 1}
    assert rig.lines("disk.monitoring_started") == [("info", facts)]
    assert not rig.monitor.disabled
    # And a disk that goes away takes its alarm with it.
    rig.gauge.free = None
    edge = rig.monitor.check()
    assert edge is not None
    assert edge.change is Change.CLEARED


@pytest.mark.rule("DA-7")
def test_an_operator_switches_the_monitor_off_and_on() -> None:
    rig = Rig(FakeGauge(free=0))
    rig.monitor.check()
    rig.monitor.switch(on=False)
    asked = len(rig.gauge.folders)
    edge = rig.monitor.check()
    assert edge is not None
    assert edge.change is Change.CLEARED
    assert (rig.monitor.wait_ms(), rig.monitor.free) == (0, None)
    assert len(rig.gauge.folders) == asked
    assert len(rig.lines("disk.monitoring_disabled")) == 1
    rig.monitor.switch(on=True)
    rig.monitor.switch(on=True)
    assert rig.monitor.check() is not None
    assert len(rig.lines("disk.monitoring_started")) == 2


@pytest.mark.rule("DA-8")
def test_free_space_is_unknown_until_the_first_look() -> None:
    rig = Rig()
    assert rig.monitor.free is None
    assert not rig.monitor.disabled
    rig.monitor.check()
    assert rig.monitor.free == 10_000_000_000
