"""The memory alarm: limits, totals, edges, log lines (MA-*)."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.support.gauge import FakeGauge
from tests.support.machine import FakeLog
from warren.flow import Alarms, Change
from warren.server.config import Settings
from warren.server.memory import MemoryMonitor

GIB = 1 << 30


class Rig:
    """A monitor on a machine of its own."""

    def __init__(self, gauge: FakeGauge | None = None, **settings: Any) -> None:
        options = (
            {"address_space": settings.pop("address_space")} if "address_space" in settings else {}
        )
        self.gauge = gauge or FakeGauge()
        self.log = FakeLog()
        self.alarms = Alarms()
        chosen = Settings(node_name="warren@one", **settings)
        self.monitor = MemoryMonitor(chosen, self.alarms, self.gauge, self.log, **options)

    def lines(self, name: str) -> list[tuple[str, Mapping[str, object]]]:
        return [(level, facts) for level, one, facts in self.log.events if one == name]


@pytest.mark.rule("MA-1")
def test_the_default_is_four_tenths_of_the_memory() -> None:
    assert Rig(FakeGauge(total=1001)).monitor.limit == 400


@pytest.mark.rule("MA-1", "AL-4")
def test_more_than_the_limit_is_an_alarm_and_as_much_is_none() -> None:
    rig = Rig(vm_memory_high_watermark_absolute=1000)
    edges = []
    for used in (999, 1000, 1001, 1002, 1001, 1000, 999):
        rig.gauge.used = used
        edge = rig.monitor.check()
        edges.append(edge.change if edge else None)
    assert edges == [None, None, Change.SET, None, None, Change.CLEARED, None]
    assert rig.lines("memory.watermark") == [
        ("info", {"state": "set", "used": 1001, "allowed": 1000}),
        ("info", {"state": "clear", "used": 1000, "allowed": 1000}),
    ]


@pytest.mark.rule("MA-3")
@pytest.mark.parametrize(
    "settings", [{"vm_memory_high_watermark": 0.0}, {"vm_memory_high_watermark_absolute": 0}]
)
def test_a_watermark_of_nothing_is_always_exceeded(settings: dict[str, Any]) -> None:
    rig = Rig(FakeGauge(used=1), **settings)
    assert rig.monitor.limit == 0
    assert rig.monitor.check() is not None


@pytest.mark.rule("MA-5")
def test_an_absolute_limit_is_at_most_the_memory() -> None:
    assert Rig(vm_memory_high_watermark_absolute=1 << 30).monitor.limit == GIB
    assert Rig(FakeGauge(total=5), vm_memory_high_watermark_absolute=7).monitor.limit == 5


@pytest.mark.rule("MA-7")
def test_the_total_is_measured_anew_when_the_limit_is_set() -> None:
    rig = Rig(FakeGauge(total=1000))
    rig.gauge.total = 2000
    rig.monitor.check()
    assert rig.monitor.limit == 400
    rig.monitor.set_relative(0.4)
    assert (rig.monitor.limit, rig.monitor.total) == (800, 2000)
    rig.gauge.total = 500
    rig.monitor.set_absolute(900)
    assert rig.monitor.limit == 500


@pytest.mark.rule("MA-7")
def test_a_configured_total_wins() -> None:
    rig = Rig(FakeGauge(total=None), total_memory_available_override_value=4000)
    assert (rig.monitor.total, rig.monitor.limit) == (4000, 1600)
    assert rig.lines("memory.total_unknown") == []


@pytest.mark.rule("MA-7")
def test_what_cannot_be_addressed_does_not_count() -> None:
    rig = Rig(FakeGauge(total=4 * GIB), address_space=2 * GIB)
    assert rig.monitor.limit == int(0.4 * 2 * GIB)
    facts = {"usable": 2 * GIB, "total": 4 * GIB}
    assert rig.lines("memory.address_space") == [("warning", facts)]
    assert Rig().lines("memory.address_space") == []


@pytest.mark.rule("MA-8")
def test_unknown_memory_is_taken_for_a_gibibyte_and_told_once() -> None:
    rig = Rig(FakeGauge(total=None))
    assert rig.monitor.limit == 429_496_729
    rig.monitor.set_relative(0.5)
    ((level, facts),) = rig.lines("memory.total_unknown")
    assert level == "warning"
    assert facts["assumed"] == GIB
    assert str(facts["text"]).startswith("Unknown total memory size for your OS ")
    assert str(facts["text"]).endswith("Assuming memory size is 1024MB.")


@pytest.mark.rule("MA-9")
def test_a_share_above_one_is_honoured_where_the_total_is_a_guess() -> None:
    assert Rig(FakeGauge(total=None), vm_memory_high_watermark=3.0).monitor.limit == 3 * GIB
    overridden = Rig(vm_memory_high_watermark=2.0, total_memory_available_override_value=GIB)
    assert overridden.monitor.limit == 2 * GIB


@pytest.mark.rule("MA-9")
def test_a_share_above_one_of_what_is_known_is_all_of_it() -> None:
    rig = Rig(FakeGauge(total=GIB), vm_memory_high_watermark=3.0)
    assert rig.monitor.limit == GIB
    assert rig.lines("memory.watermark_replaced") == [("warning", {"value": 3.0, "used": 1.0})]


def test_the_limit_is_told_in_mebibytes_and_octets() -> None:
    rig = Rig(FakeGauge(total=GIB))
    facts = {"limit_mib": 409, "limit": 429_496_729, "total_mib": 1024, "total": GIB}
    assert rig.lines("memory.limit_set") == [("info", facts)]


@pytest.mark.rule("MA-10")
@pytest.mark.parametrize("strategy", ["rss", "allocated", "erlang"])
def test_every_strategy_counts_resident_memory(strategy: str) -> None:
    rig = Rig(FakeGauge(used=77), vm_memory_calculation_strategy=strategy)
    rig.monitor.check()
    assert (rig.monitor.strategy, rig.monitor.used) == (strategy, 77)


@pytest.mark.rule("MA-12")
def test_what_decides_about_paging_can_be_read() -> None:
    rig = Rig(FakeGauge(used=77), vm_memory_high_watermark_paging_ratio=1.5)
    rig.monitor.check()
    assert (rig.monitor.used, rig.monitor.paging_ratio) == (77, 1.5)
    assert Rig().monitor.paging_ratio == 0.5


def test_an_alarm_by_hand_is_no_measurement() -> None:
    rig = Rig()
    rig.monitor.by_hand = True
    assert rig.monitor.check() is not None
    assert rig.monitor.check() is None
    rig.monitor.by_hand = False
    assert rig.monitor.check() is not None
