"""The clock of a test's broker: held, advanced from deadline to deadline, in step with its loop."""

import asyncio
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from tests.support.wire import Client
from warren.testing import Broker
from warren.testing.clock import SECOND_NS, VirtualClock, VirtualLoop, span_ns

HOUR_NS = 3600 * SECOND_NS


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    made = VirtualLoop(VirtualClock())
    yield made
    made.close()


def rounds(loop: VirtualLoop, count: int = 3) -> None:
    async def turn() -> None:
        for _ in range(count):
            await asyncio.sleep(0)

    loop.run_until_complete(turn())


# -- the clock -----------------------------------------------------------------------------------


def test_it_runs_with_real_time() -> None:
    clock = VirtualClock()
    assert abs(clock.monotonic_ns() - time.monotonic_ns()) < SECOND_NS
    assert abs(clock.wall_ns() - time.time_ns()) < SECOND_NS
    before = clock.monotonic_ns()
    while time.monotonic_ns() == before:
        pass
    assert clock.monotonic_ns() > before


def test_held_it_stands_and_goes_where_it_is_set() -> None:
    clock = VirtualClock()
    clock.hold()
    now, wall = clock.monotonic_ns(), clock.wall_ns()
    clock.set(now + HOUR_NS)
    assert clock.monotonic_ns() == now + HOUR_NS
    assert clock.wall_ns() == wall + HOUR_NS
    clock.release()
    assert 0 <= clock.monotonic_ns() - now - HOUR_NS < SECOND_NS


def test_it_never_goes_back() -> None:
    clock = VirtualClock()
    clock.hold()
    with pytest.raises(AssertionError):
        clock.set(clock.monotonic_ns() - 1)


def test_a_span_is_ahead() -> None:
    assert span_ns(1.5) == 1_500_000_000
    with pytest.raises(ValueError, match="ahead only"):
        span_ns(-1)


# -- the loop ------------------------------------------------------------------------------------


def test_timers_fire_at_their_time_and_in_order(loop: VirtualLoop) -> None:
    loop.hold()
    start = loop.clock.monotonic_ns()
    fired: list[tuple[str, int]] = []

    def note(name: str) -> None:
        fired.append((name, round((loop.clock.monotonic_ns() - start) / 1e6)))

    loop.call_later(0.2, note, "second")
    loop.call_later(0.1, note, "first")
    loop.call_later(0.3, note, "third")
    while (due := loop.next_deadline_ns()) is not None:
        loop.go_to(due)
        rounds(loop)
    assert fired == [("first", 100), ("second", 200), ("third", 300)]


def test_held_no_timer_fires(loop: VirtualLoop) -> None:
    fired: list[int] = []
    loop.call_later(0.01, fired.append, 1)
    loop.hold()
    ends = time.monotonic() + 0.03
    while time.monotonic() < ends:
        rounds(loop, 1)
    assert fired == []
    loop.release()
    loop.run_until_complete(asyncio.sleep(0.02))
    assert fired == [1]


def test_held_the_loop_does_not_wake_up(loop: VirtualLoop) -> None:
    """A deadline that is all but due must not make it spin."""
    loop.call_later(0.000_001, int)
    loop.hold()
    selected: list[float | None] = []
    loop.call_soon(selected.append, None)
    loop.run_until_complete(asyncio.sleep(0))
    assert loop.next_deadline_ns() is not None
    assert loop._alarm is None


def test_cancelled_timers_do_not_count(loop: VirtualLoop) -> None:
    loop.hold()
    fired: list[int] = []
    first = loop.call_later(1, fired.append, 1)
    loop.call_later(2, fired.append, 2)
    first.cancel()
    due = loop.next_deadline_ns()
    assert due is not None
    assert round((due - loop.clock.monotonic_ns()) / SECOND_NS) == 2
    loop.go_to(due)
    rounds(loop)
    assert fired == [2]
    assert loop.next_deadline_ns() is None


def test_a_timer_cancelled_by_one_that_fires_with_it(loop: VirtualLoop) -> None:
    loop.hold()
    fired: list[int] = []
    when = loop.time() + 1
    handles: list[asyncio.TimerHandle] = []
    loop.call_at(when, lambda: handles[0].cancel())
    handles.append(loop.call_at(when, fired.append, 1))
    loop.go_to(loop.next_deadline_ns() or 0)
    rounds(loop)
    assert fired == []


def test_sleep_and_timeout_follow_the_clock(loop: VirtualLoop) -> None:
    async def late() -> str:
        try:
            async with asyncio.timeout(60):
                await asyncio.sleep(3600)
        except TimeoutError:
            return "timed out"
        return "slept"

    async def main() -> str:
        loop.hold()
        task = asyncio.ensure_future(late())
        while not task.done():
            await asyncio.sleep(0)
            due = loop.next_deadline_ns()
            if due is not None:
                loop.go_to(due)
        return task.result()

    began = time.monotonic()
    assert loop.run_until_complete(main()) == "timed out"
    assert time.monotonic() - began < 5


# -- the clock of a broker -----------------------------------------------------------------------


def test_a_broker_tells_its_time(warren_broker: Broker) -> None:
    clock = warren_broker.clock
    assert clock.running
    assert abs((clock.now() - datetime.now(UTC)).total_seconds()) < 5
    before = clock.monotonic()
    clock.advance(hours=1, minutes=1, seconds=1, milliseconds=1)
    assert 3661.001 <= clock.monotonic() - before < 3666


def test_a_stopped_clock_moves_by_what_it_is_told(warren_broker: Broker) -> None:
    clock = warren_broker.clock
    clock.stop()
    assert not clock.running
    before = clock.monotonic()
    clock.advance(seconds=30)
    assert clock.monotonic() - before == pytest.approx(30, abs=1e-6)
    assert not clock.running
    clock.start()
    assert clock.running


def test_a_day_is_quick(warren_broker: Broker) -> None:
    """Time goes from deadline to deadline, not in ticks: 1.7 million of them would take minutes."""
    began = time.monotonic()
    warren_broker.clock.advance(days=1)
    assert time.monotonic() - began < 2


def client_of(broker: Broker, heartbeat: int = 0) -> Client:
    return Client(broker.host, broker.port).open(heartbeat=heartbeat)


@pytest.mark.rule("HT-1")
def test_a_silent_client_is_dropped_after_two_or_three_heartbeats(warren_broker: Broker) -> None:
    with client_of(warren_broker, heartbeat=60) as client:
        warren_broker.clock.stop()
        warren_broker.clock.advance(seconds=119)
        assert len(warren_broker.connections()) == 1
        warren_broker.clock.advance(seconds=62)
        client.expect_socket_closed()
        assert warren_broker.connections() == []


@pytest.mark.rule("HT-1")
def test_heartbeats_are_sent_at_their_times(warren_broker: Broker) -> None:
    with client_of(warren_broker, heartbeat=60) as client:
        warren_broker.clock.advance(minutes=10, heartbeats=False)
        channel = client.channel()
        assert 19 <= len(client.heartbeats) <= 21
        channel.sync()


@pytest.mark.rule("HT-1")
def test_nobody_is_dropped_for_the_jump_alone(warren_broker: Broker) -> None:
    with client_of(warren_broker, heartbeat=10) as client:
        warren_broker.clock.advance(hours=1, heartbeats=False)
        client.channel()


def test_a_handshake_has_its_limit_of_virtual_time(warren_broker: Broker) -> None:
    """What fires is done when the call returns."""
    with Client(warren_broker.host, warren_broker.port) as client:
        client.send_raw(b"AMQP")
        warren_broker.clock.advance(seconds=9.9)
        assert len(warren_broker.connections()) == 1
        warren_broker.clock.advance(seconds=0.2)
        assert warren_broker.connections() == []
        assert [one.name for one in warren_broker.log("connection.handshake_timeout")]


def test_what_was_sent_before_happens_before(warren_broker: Broker) -> None:
    """Octets that are on their way when time is advanced belong to the time before."""
    warren_broker.declare_queue("q")
    with client_of(warren_broker) as client:
        channel = client.channel()
        warren_broker.clock.stop()
        for _ in range(500):
            channel.publish(b"x" * 500, routing_key="q")
        warren_broker.clock.advance(seconds=1)
        assert warren_broker.ready("q") == 500


@pytest.mark.warren(consumer_timeout=1000, channel_tick_interval=100)
def test_a_delivery_is_taken_back_at_its_time(warren_broker: Broker) -> None:
    warren_broker.declare_queue("q")
    warren_broker.publish("x", "q")
    with client_of(warren_broker) as client:
        channel = client.channel()
        channel.get("q")
        warren_broker.clock.stop()
        warren_broker.clock.advance(seconds=0.99)
        assert warren_broker.unacked("q") == 1
        warren_broker.clock.advance(seconds=0.2)
        assert warren_broker.ready("q") == 1
        assert channel.expect("channel.close").reply_code == 406


def test_delayed_messages_come_at_their_times_at_once(warren_broker: Broker) -> None:
    warren_broker.declare_queue("q")
    warren_broker.clock.stop()
    with client_of(warren_broker) as client:
        channel = client.channel()
        arguments = {"x-delayed-type": "fanout"}
        channel.exchange_declare("later", "x-delayed-message", arguments=arguments)
        channel.queue_bind("q", "later")
        for minutes in (90, 30, 60):
            headers = {"x-delay": minutes * 60_000}
            channel.publish(b"%d" % minutes, exchange="later", headers=headers)
        warren_broker.clock.advance(minutes=59)
        assert warren_broker.ready("q") == 1
        warren_broker.clock.advance(minutes=1, milliseconds=5)
        assert warren_broker.ready("q") == 2
        warren_broker.clock.advance(minutes=30)
        assert [channel.get("q", no_ack=True).body for _ in range(3)] == [b"30", b"60", b"90"]
