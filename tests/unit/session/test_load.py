"""Publishers that are faster than the loop: which states they show, and who is the bottleneck."""

from typing import Final

import pytest

from tests.support.machine import FakeClock, Machine, Peer, publish
from tests.support.stored_machine import StoredMachine
from warren.flow import Kind, Reason, Wait
from warren.server.derived_wait import derived_waits
from warren.server.diagnosis import why_reply
from warren.server.hub import Hub
from warren.server.list_queue import state as queue_state
from warren.server.tls_link import TlsLink

MS: Final = 1_000_000


def saturate(
    machine: Machine,
    peer: Peer,
    octets: bytes,
    *,
    seconds: float = 1.0,
    full: int = 100,
    busy: int = 100,
) -> None:
    """Have reads of 5 ms each follow each other, so many percent of them full, the loop so busy."""
    clock, turn = machine.clock, machine.broker.turn
    for number in range(int(seconds * 200)):
        peer.connection.receive(octets)
        clock.now_ns += 5 * MS
        turn.now_ns = clock.now_ns
        turn.busy_ns += 5 * MS * busy // 100
        is_full = number * full // 100 != (number + 1) * full // 100
        peer.connection.load.note(peer.connection, clock.now_ns, 4 * MS, is_full)
        machine.turn()


def states(peer: Peer) -> tuple[str, str]:
    return peer.connection.state(), peer.connection.channels[1].state()


def waits_of(machine: Machine, peer: Peer) -> list[Wait]:
    return derived_waits([peer.connection], machine.clock.now_ns)


def client(machine: Machine, *, durable: bool = False) -> Peer:
    peer = machine.client()
    peer.channel(1)
    peer.queue("q", durable=durable)
    return peer


TRANSIENT: Final = publish(1, b"x", "q") * 10
PERSISTENT: Final = publish(1, b"x", "q", properties={"delivery_mode": 2}) * 10


@pytest.mark.rule("CF-12", "CF-13", "CF-14")
def test_routing_is_the_bottleneck_of_small_transient_messages() -> None:
    machine = Machine()
    peer = client(machine)
    saturate(machine, peer, TRANSIENT)
    assert states(peer) == ("flow", "running")
    (wait,) = waits_of(machine, peer)
    assert (wait.reason, wait.subject) == (Reason.ROUTING_BUSY, peer.connection.subject)
    reply = why_reply(wait.subject, [wait], now_ns=machine.clock.now_ns)
    assert reply.bottlenecks == (f"channel '{peer.connection.subject.name} (1)'",)
    assert 700 <= reply.steps[0].since_ms <= 1000
    assert "100 % were full; the loop was busy 100 % of the time, 80 % with" in wait.detail
    assert not peer.take_all(channel=0), "connection.blocked is for alarms"


@pytest.mark.rule("CF-12", "CF-13", "CF-14")
def test_queues_are_the_bottleneck_of_small_persistent_messages() -> None:
    machine = StoredMachine()
    peer = client(machine, durable=True)
    saturate(machine, peer, PERSISTENT)
    assert states(peer) == ("flow", "flow")
    assert queue_state(machine.vhost.queues["q"]) == "running"
    waits = waits_of(machine, peer)
    assert [wait.reason for wait in waits] == [Reason.QUEUE_BUSY, Reason.QUEUE_BUSY]
    assert [wait.subject.kind for wait in waits] == [Kind.CONNECTION, Kind.CHANNEL]
    reply = why_reply(None, waits, now_ns=machine.clock.now_ns)
    assert reply.bottlenecks == ("queue 'q' in vhost '/'",)


def test_transient_messages_in_a_durable_queue_are_not_stored() -> None:
    machine = StoredMachine()
    peer = client(machine, durable=True)
    saturate(machine, peer, TRANSIENT)
    assert states(peer) == ("flow", "running")


@pytest.mark.rule("CF-12")
def test_the_states_linger_and_end() -> None:
    machine = StoredMachine()
    peer = client(machine, durable=True)
    saturate(machine, peer, PERSISTENT)
    machine.pass_time(1.3)
    assert states(peer) == ("flow", "running")
    assert len(waits_of(machine, peer)) == 2
    machine.pass_time(4)
    assert states(peer) == ("running", "running")
    assert waits_of(machine, peer) == []


@pytest.mark.parametrize(
    ("octets", "full", "busy"),
    [
        pytest.param(TRANSIENT, 40, 100, id="the peer has no more to say"),
        pytest.param(TRANSIENT, 100, 70, id="the loop has time"),
        pytest.param(b"", 100, 100, id="nothing is published"),
    ],
)
def test_who_is_not_saturated(octets: bytes, full: int, busy: int) -> None:
    machine = Machine()
    peer = client(machine)
    peer.publish(1, b"x", "q")
    saturate(machine, peer, octets, seconds=0.25)
    machine.pass_time(6)
    saturate(machine, peer, octets, full=full, busy=busy)
    assert states(peer) == ("running", "running")
    assert waits_of(machine, peer) == []


def test_a_pause_is_no_load() -> None:
    machine = Machine()
    peer = client(machine)
    for _ in range(4):
        saturate(machine, peer, TRANSIENT, seconds=0.2)
        # The others keep the loop busy meanwhile.
        machine.clock.now_ns += 1_000 * MS
        machine.broker.turn.busy_ns += 1_000 * MS
    assert states(peer) == ("running", "running")


def test_a_slow_consumer_is_no_load() -> None:
    machine = Machine()
    peer = client(machine)
    consumer = machine.client()
    consumer.channel(1)
    assert consumer.call(1, "basic.qos", prefetch_count=1).name == "basic.qos-ok"
    consumer.consume("q", 1)
    saturate(machine, peer, TRANSIENT)
    assert machine.vhost.queues["q"].is_held_up()
    assert states(peer) == ("running", "running")
    reasons = {wait.reason for wait in waits_of(machine, peer)}
    assert reasons == set()
    # With another one that takes what comes it is the load again.
    consumer.channel(2)
    consumer.consume("q", 2, no_ack=True)
    saturate(machine, peer, TRANSIENT)
    assert states(peer) == ("flow", "running")


def test_a_queue_that_waits_for_credit_explains_itself() -> None:
    machine = Machine()
    peer = client(machine)
    saturate(machine, peer, TRANSIENT)
    machine.vhost.queues["q"].suspend()
    for _ in range(90):
        peer.feed(TRANSIENT)
    assert states(peer) == ("flow", "flow")
    assert waits_of(machine, peer) == []
    machine.vhost.queues["q"].resume()
    saturate(machine, peer, TRANSIENT, seconds=0.9)
    assert waits_of(machine, peer) == []


def test_large_messages_are_looked_at_too() -> None:
    machine = Machine()
    peer = client(machine)
    saturate(machine, peer, publish(1, bytes(300_000), "q"))
    assert states(peer) == ("flow", "running")
    assert isinstance(machine.clock, FakeClock)


class Loop:
    """What the hub needs of a loop whose turns the machine ends."""

    def call_soon(self, *given: object) -> None:
        """The machine does it."""


@pytest.mark.parametrize(("count", "state"), [(400, "flow"), (100, "running")])
def test_whole_records_of_tls_are_full_reads(count: int, state: str) -> None:
    machine = Machine()
    peer = client(machine)
    hub = Hub(Loop(), machine.broker, machine.clock)  # type: ignore[arg-type]
    link = TlsLink(hub, None, "::1", 1)  # type: ignore[arg-type]
    link.connection = peer.connection
    octets = publish(1, b"x", "q") * count
    for _ in range(200):
        link.data_received(octets)
        machine.clock.now_ns += 5 * MS
        machine.broker.turn.now_ns = machine.clock.now_ns
        machine.broker.turn.busy_ns += 5 * MS
        machine.turn()
    assert states(peer) == (state, "running")
