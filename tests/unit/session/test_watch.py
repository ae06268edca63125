"""When a connection looks at the clock next: never too late, and not at every moment before."""

import pytest

from tests.support.machine import Machine, Peer
from warren.session import SessionSettings
from warren.session.watch import next_look_ns

SETTINGS = SessionSettings(
    handshake_timeout_ms=7_000, consumer_timeout_ms=90_000, channel_tick_ms=40_000
)


def silent(machine: Machine) -> Peer:
    return machine.peer()


def watched(machine: Machine) -> Peer:
    return machine.client(heartbeat=10)


def with_a_delivery(machine: Machine) -> Peer:
    peer = machine.client()
    peer.channel()
    queue = peer.queue()
    peer.publish(1, b"x", queue)
    peer.call(1, "basic.get", queue=queue)
    return peer


def blocked(machine: Machine) -> Peer:
    peer = machine.client(heartbeat=10)
    peer.channel()
    machine.alarm(on=True)
    peer.publish(1, b"x", "nowhere")
    return peer


def closing(machine: Machine) -> Peer:
    peer = machine.client(heartbeat=10)
    peer.send(0, "connection.close")
    return peer


def effects(machine: Machine, peer: Peer) -> tuple[object, ...]:
    connection = peer.connection
    return (
        connection.state(),
        connection.gone,
        int(connection.output.octets_out + connection.output.size()),
        len(connection.channels),
        len(machine.log.events),
    )


@pytest.mark.parametrize("make", [silent, watched, with_a_delivery, blocked, closing])
def test_before_the_next_look_nothing_happens(make: type[Peer]) -> None:
    machine = Machine(SETTINGS)
    peer = make(machine)
    connection = peer.connection
    happened = 0
    for _ in range(60):
        before = effects(machine, peer)
        at = int(next_look_ns(connection))
        if not at or connection.gone:
            break
        for now in (machine.clock.now_ns + 1, (machine.clock.now_ns + at) // 2, at - 1):
            if machine.clock.now_ns < now < at:
                connection.tick(now)
                assert effects(machine, peer) == before
        at = int(next_look_ns(connection))
        machine.clock.now_ns = at
        machine.turn()
        connection.tick(at)
        happened += effects(machine, peer) != before
        assert connection.gone or int(next_look_ns(connection)) > at
    assert happened


def test_a_quiet_connection_never_looks() -> None:
    machine = Machine(SETTINGS)
    assert next_look_ns(machine.client().connection) == 0
