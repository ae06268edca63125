"""Alarms of a whole node: what commands, monitors and timers do to them."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.gauge import FakeGauge
from tests.unit.server.asking import Asker, Refused
from warren.server.config import Settings
from warren.server.node import Node

MB = 1_000_000


def with_gauge(gauge: FakeGauge, test: Callable[[Asker], Awaitable[None]], **settings: Any) -> None:
    async def run() -> None:
        chosen = Settings(node_name="warren@one", data_dir=Path("/data"), **settings)
        await test(Asker(chosen, gauge=gauge))

    asyncio.run(run())


@pytest.mark.rule("MA-6", "MA-7", "MA-9")
def test_a_watermark_takes_effect_at_once() -> None:
    gauge = FakeGauge(total=1000, used=500)

    async def test(asker: Asker) -> None:
        node = asker.node
        found = await asker.ask("set_vm_memory_high_watermark", relative=0.5)
        assert (found["limit"], node.broker.alarms.any()) == (500, False)
        await asker.ask("set_vm_memory_high_watermark", relative=0.4)
        assert node.broker.alarms.any()
        gauge.total = 10_000
        found = await asker.ask("set_vm_memory_high_watermark", absolute=20_000)
        assert (found["limit"], node.broker.alarms.any()) == (10_000, False)
        with pytest.raises(Refused, match=r"between 0.0 and 1.0") as refused:
            await asker.ask("set_vm_memory_high_watermark", relative=1.1)
        assert refused.value.code == "bad_arguments"
        with pytest.raises(Refused, match="are needed"):
            await asker.ask("set_vm_memory_high_watermark")
        # What a command has set is no configuration.
        settings = {
            one["name"]: one["value"] for one in (await asker.ask("environment"))["settings"]
        }
        assert settings["vm_memory_high_watermark_absolute"] == "none"
        status = await asker.ask("status")
        assert status["memory_watermark_absolute"] == 20_000
        assert status["memory_total_bytes"] == 10_000

    with_gauge(gauge, test)


@pytest.mark.rule("MA-8", "MA-9")
def test_a_share_above_one_is_taken_where_nobody_knows_the_memory() -> None:
    async def test(asker: Asker) -> None:
        assert (await asker.ask("status"))["memory_total_assumed"]
        found = await asker.ask("set_vm_memory_high_watermark", relative=3.0)
        assert found["limit"] == 3 << 30

    with_gauge(FakeGauge(total=None), test)

    async def known(asker: Asker) -> None:
        assert not (await asker.ask("status"))["memory_total_assumed"]
        with pytest.raises(Refused, match="between"):
            await asker.ask("set_vm_memory_high_watermark", relative=1.5)

    with_gauge(FakeGauge(), known, total_memory_available_override_value=1 << 30)


@pytest.mark.rule("DA-4")
def test_a_disk_limit_takes_effect_at_once() -> None:
    gauge = FakeGauge(total=1000 * MB, free=100 * MB)

    async def test(asker: Asker) -> None:
        alarms = asker.node.broker.alarms
        found = await asker.ask("set_disk_free_limit", absolute=101 * MB)
        assert found == {"limit": 101 * MB, "monitored": True}
        assert alarms.any()
        found = await asker.ask("set_disk_free_limit", relative=0.1)
        assert (found["limit"], alarms.any()) == (100 * MB, False)
        status = await asker.ask("status")
        assert (status["disk_free_bytes"], status["disk_free_limit_bytes"]) == (100 * MB, 100 * MB)
        assert status["disk_monitored"]

    with_gauge(gauge, test)


@pytest.mark.rule("DA-7")
def test_a_limit_without_monitoring_is_only_told() -> None:
    async def test(asker: Asker) -> None:
        asker.node.check_disk()
        found = await asker.ask("set_disk_free_limit", absolute=1 << 60)
        assert found == {"limit": 1 << 60, "monitored": False}
        assert not asker.node.broker.alarms.any()
        assert "disk.limit_set" not in asker.log.names()
        assert not (await asker.ask("status"))["disk_monitored"]

    with_gauge(FakeGauge(free=None), test)


@pytest.mark.rule("DA-6", "DA-7")
def test_the_monitor_is_switched_and_its_intervals_are_set() -> None:
    gauge = FakeGauge(free=0)

    async def test(asker: Asker) -> None:
        node = asker.node
        node.check_disk()
        assert node.broker.alarms.any()
        await asker.ask("set_disk_monitor", enabled=False, interval_min_ms=7, interval_max_ms=70)
        assert not node.broker.alarms.any()
        assert (node.disk.interval_min_ms, node.disk.interval_max_ms) == (7, 70)
        with pytest.raises(Refused, match="is longer than"):
            await asker.ask("set_disk_monitor", interval_min_ms=71)
        await asker.ask("set_disk_monitor", enabled=True)
        assert node.broker.alarms.any()

    with_gauge(gauge, test)


@pytest.mark.rule("AL-4")
def test_alarms_are_told_once_for_each_edge() -> None:
    gauge = FakeGauge(total=1000, used=401, free=0)

    async def test(asker: Asker) -> None:
        node = asker.node
        for _ in range(3):
            node.check_memory()
            node.check_disk()
        gauge.used, gauge.free = 400, 10**9
        for _ in range(3):
            node.check_disk()
            node.check_memory()
        told = [
            (name, facts["source"], facts.get("node"))
            for level, name, facts in asker.log.events
            if name.startswith("alarm") and level == "warning"
        ]
        assert told == [
            ("alarm_set", "memory", "warren@one"),
            ("alarm_set", "disk", "warren@one"),
            ("alarm_cleared", "disk", "warren@one"),
            ("alarm.cleared_everywhere", "disk", None),
            ("alarm_cleared", "memory", "warren@one"),
            ("alarm.cleared_everywhere", "memory", None),
        ]
        (text, *_) = [facts["text"] for _, name, facts in asker.log.events if name == "alarm_set"]
        assert text == "*** publishers will be blocked until this alarm clears ***"

    with_gauge(gauge, test)


@pytest.mark.rule("MA-11")
def test_an_alarm_of_memory_collects_garbage_once(monkeypatch: pytest.MonkeyPatch) -> None:
    collected: list[bool] = []
    monkeypatch.setattr("warren.server.node.gc.collect", lambda: collected.append(True))
    gauge = FakeGauge(total=1000, used=401, free=0)

    async def test(asker: Asker) -> None:
        for _ in range(3):
            asker.node.check_disk()
        assert collected == []
        for _ in range(3):
            asker.node.check_memory()
        assert collected == [True]

    with_gauge(gauge, test)


@pytest.mark.rule("DA-5", "DA-6")
def test_the_disk_is_looked_at_again_after_what_the_last_look_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The timer is the one that the interval asks for; a look in between renews it."""
    gauge = FakeGauge(free=175 * MB)
    waits: list[float] = []

    async def test(asker: Asker) -> None:
        node, loop = asker.node, asyncio.get_running_loop()
        call_later = loop.call_later

        def spy(delay: float, callback: Callable[..., object]) -> asyncio.TimerHandle:
            if callback == node.check_disk:
                waits.append(delay)
            return call_later(delay, callback)

        monkeypatch.setattr(loop, "call_later", spy)
        # Nothing runs before the node has begun.
        node.check_disk()
        timers = [node.next_disk]
        node.start_beats()
        timers.append(node.next_disk)
        # A write has failed for lack of space.
        gauge.free = 0
        node.check_disk()
        timers.append(node.next_disk)
        assert node.broker.alarms.any()
        node.stop_beats()
        assert timers[0] is None
        assert [timer is not None and timer.cancelled() for timer in timers[1:]] == [True, True]

    with_gauge(gauge, test)
    assert waits == [1.0, 10.0]


def test_a_store_that_finds_the_disk_full_has_it_looked_at_at_once() -> None:
    gauge = FakeGauge()

    async def test(asker: Asker) -> None:
        node = asker.node
        node.check_disk()
        gauge.free = 0
        node.commits.on_failed("disk I/O error", passing=False)
        assert not node.broker.alarms.any()
        node.commits.on_failed("database or disk is full (SQLITE_FULL)", passing=True)
        assert node.broker.alarms.any()

    with_gauge(gauge, test)


def test_health_names_every_alarm() -> None:
    async def test(asker: Asker) -> None:
        asker.node.check_memory()
        asker.node.check_disk()
        (check,) = [one for one in (await asker.ask("health"))["checks"] if one["name"] == "alarms"]
        assert check["detail"] == "2 of 0 bytes used; 1 bytes free, the limit is 50000000"

    with_gauge(FakeGauge(used=2, free=1), test, vm_memory_high_watermark=0.0)


def giving_back(node: Node) -> bool:
    return node.giving_back


@pytest.mark.rule("MA-1", "MA-11")
def test_memory_that_is_free_is_given_back_before_publishers_wait_for_ever() -> None:
    gauge = FakeGauge(total=1000, used=1000)
    gauge.used_at_least = 100

    async def test(asker: Asker) -> None:
        node = asker.node
        node.start_beats()
        try:
            assert giving_back(node)
            assert node.broker.alarms.any()
            await asyncio.wait_for(returned(node), 10)
            assert gauge.given_back == 1
            assert not node.broker.alarms.any(), "it is measured again"
            # Not again at once, however much is used.
            gauge.used = 1000
            node.check_memory()
            assert not giving_back(node)
            asker.clock.now_ns += 1_000_000_000
            # Near the limit of 400 as well, so that there need be no alarm.
            gauge.used = 399
            node.check_memory()
            assert giving_back(node)
            await asyncio.wait_for(returned(node), 10)
            assert (gauge.given_back, node.broker.alarms.any()) == (2, False)
            # With little in use nothing is kept.
            asker.clock.now_ns += 10_000_000_000
            gauge.used = 300
            node.check_memory()
            assert not giving_back(node)
        finally:
            node.stop_beats()

    with_gauge(gauge, test)


async def returned(node: Node) -> None:
    """Wait until the other thread has done it."""
    while node.giving_back:  # noqa: ASYNC110 - there is nothing to be told by
        await asyncio.sleep(0.001)
