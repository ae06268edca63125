"""How long the messages in memory should last, and what follows for each queue (VQ-11 to VQ-16)."""

import pytest

from tests.support.machine import Peer
from tests.support.stored_machine import Limits, StoredMachine
from warren.queues.memory_share import INFINITE, Rates, desired_duration
from warren.queues.part import parts, target_ram_count
from warren.queues.queue import Queue


def decide(finite: list[float], count: int = -1, **options: object) -> float:
    known: dict[str, object] = {"used": 60, "limit": 100, "ratio": 0.5, "disk_low": False}
    wanted = known | options
    return desired_duration(finite, len(finite) if count < 0 else count, **wanted)  # type: ignore[arg-type]


@pytest.mark.rule("VQ-13", "PG-1", "MA-12")
def test_the_duration_that_is_desired() -> None:
    assert decide([1.0, 3.0], used=49) == INFINITE
    # Near the ratio a second is added, so that queues recover from nothing.
    assert decide([1.0, 3.0], used=50) == pytest.approx((4.0 + 1.0) / 2 / 0.5)
    assert decide([0.0], used=80) == pytest.approx(1.0 / 0.8)
    assert decide([1.0, 3.0], used=94) == pytest.approx(5.0 / 2 / 0.94)
    assert decide([1.0, 3.0], used=95) == pytest.approx(4.0 / 2 / 0.95)
    assert decide([0.0], used=120) == 0.0
    # Queues that stand still count as reports.
    assert decide([1.0, 3.0], 4, used=95) == pytest.approx(4.0 / 4 / 0.95)


@pytest.mark.rule("VQ-13", "PG-3", "DA-2")
def test_a_low_disk_stops_paging() -> None:
    assert decide([1.0], used=99, disk_low=True) == INFINITE
    assert decide([1.0], used=99, limit=0, disk_low=True) == INFINITE


@pytest.mark.rule("VQ-13")
def test_a_limit_of_zero_keeps_nothing() -> None:
    assert decide([1.0], limit=0) == 0.0
    assert decide([], 0, limit=0) == 0.0


@pytest.mark.rule("VQ-16", "MA-12")
def test_a_ratio_above_one_never_pages() -> None:
    assert decide([1.0], used=100, ratio=1.1) == INFINITE


def fill(machine: StoredMachine, count: int, **properties: object) -> tuple[Queue, Peer]:
    client = machine.client()
    client.channel(1)
    client.queue("q", durable=True)
    for number in range(count):
        client.publish(1, b"%100d" % number, "q", properties=properties)
    machine.turn()
    client.take_all()
    return machine.vhost.queues["q"], client


@pytest.mark.rule("VQ-11", "VQ-12")
def test_rates_fade_by_half_in_five_seconds() -> None:
    machine = StoredMachine()
    queue, client = fill(machine, 0)
    rates = Rates(queue)
    for _ in range(100):
        client.publish(1, b"x", "q")
    rates.look(5.0)
    assert rates.rates == pytest.approx([10.0, 0.0, 0.0, 0.0])
    # Half of them, over two samples: the one before had none.
    assert rates.duration() == pytest.approx((0 + 100) / (4 * 10.0))
    rates.look(5.0)
    assert rates.rates == pytest.approx([5.0, 0.0, 0.0, 0.0])
    assert rates.duration() == pytest.approx((100 + 100) / (4 * 5.0))
    for tag in range(1, 51):
        assert client.call(1, "basic.get", queue="q").name == "basic.get-ok"
        if tag <= 20:
            client.send(1, "basic.ack", delivery_tag=tag)
    rates.look(5.0)
    assert rates.rates == pytest.approx([2.5, 5.0, 5.0, 2.0])
    assert rates.duration() == pytest.approx((100 + 80) / (4 * 14.5))
    for _ in range(20):
        rates.look(5.0)
    assert rates.duration() == INFINITE


@pytest.mark.rule("VQ-14", "VQ-15", "PG-1", "PG-2")
@pytest.mark.parametrize("mode", [1, 2], ids=["transient", "persistent"])
def test_messages_leave_when_memory_runs_low(mode: int) -> None:
    """After the golden trace of the specification: 3000 messages, then memory runs low, twice."""
    machine = StoredMachine(limits=Limits(block_messages=16))
    queue, client = fill(machine, 3000, delivery_mode=mode)
    assert parts(queue).q4 == 3000
    assert target_ram_count(queue) is None
    machine.low_memory(10)
    assert parts(queue).q4 == 3000
    for number in range(3000, 3200):
        client.publish(1, b"%100d" % number, "q", properties={"delivery_mode": mode})
    kept = 3200
    for used in (70, 96, 96):
        machine.low_memory(used)
        found = parts(queue)
        target = target_ram_count(queue)
        assert target is not None
        # Whole blocks leave, and never the first.
        assert found.q4 <= max(target + 16, 16)
        assert found.q4 <= kept
        assert found.q4 + found.q3 + found.q2 + found.delta.count == 3200
        kept = found.q4
    assert kept < 3200
    out = int(queue.out_count)
    # When there is memory again nothing comes back by itself.
    machine.low_memory(10)
    assert queue.out_count == out
    for number in range(3200):
        got = client.call(1, "basic.get", queue="q", no_ack=True)
        assert (int(got.body), got.redelivered) == (number, False)
    assert (queue.out_count, queue.ready_bytes) == (0, 0)


@pytest.mark.rule("PG-3", "DA-2")
def test_nothing_transient_is_written_while_the_disk_is_low() -> None:
    machine = StoredMachine(limits=Limits(block_messages=16))
    queue, _ = fill(machine, 300)
    machine.disk_low = True
    machine.low_memory(96)
    assert queue.out_count == 0
    machine.disk_low = False
    machine.low_memory(96)
    assert queue.out_count > 0


@pytest.mark.rule("VQ-15")
def test_many_messages_leave_in_slices() -> None:
    """No turn writes more than some blocks of one queue."""
    machine = StoredMachine(limits=Limits(block_messages=1))
    queue, _ = fill(machine, 1000)
    share = machine.messages.share
    assert share is not None
    share.look(used=96, limit=100, ratio=0.5, seconds=1.0)
    queue.memory_target = 0
    steps = []
    while machine.broker.turn.chores:
        before = machine.storage.pages.written_bytes
        machine.broker.turn.run()
        machine.lanes.run()
        steps.append(int(machine.storage.pages.written_bytes - before))
    assert queue.out_count == 999
    assert len(steps) > 10
    assert max(steps) < 2 * sum(steps) / len(steps)
