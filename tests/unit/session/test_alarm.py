"""Alarms of memory and disk as connections feel them: states, notifications, heartbeats."""

import itertools

import pytest

from tests.support.machine import Machine, Peer, method, publish
from warren.flow import Source

MEMORY, DISK = Source.MEMORY, Source.DISK
ORDERS = [(MEMORY, DISK), (DISK, MEMORY)]


def told(peer: Peer) -> list[str]:
    """The notifications of channel 0 since the last call."""
    return [event.name.removeprefix("connection.") for event in peer.take_all(channel=0)]


def state(peer: Peer) -> str:
    return peer.connection.state()


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
def client(machine: Machine) -> Peer:
    peer = machine.client()
    peer.channel()
    peer.queue("q")
    return peer


@pytest.mark.rule("AL-2", "NT-2", "NT-3")
@pytest.mark.parametrize(("set_order", "clear_order"), list(itertools.product(ORDERS, ORDERS)))
def test_two_alarms_in_all_orders_are_one_blocked_and_one_unblocked(
    machine: Machine,
    client: Peer,
    set_order: tuple[Source, Source],
    clear_order: tuple[Source, Source],
) -> None:
    machine.alarm(set_order[0], on=True)
    assert state(client) == "blocking"
    client.publish(1, b"1", "q")
    assert client.take(0, "connection.blocked").reason == f"low on {set_order[0].value}"
    machine.alarm(set_order[1], on=True)
    client.publish(1, b"2", "q")
    assert (told(client), state(client)) == ([], "blocked")
    machine.alarm(clear_order[0], on=False)
    assert (told(client), state(client)) == ([], "blocked")
    assert machine.vhost.queues["q"].ready() == 0
    machine.alarm(clear_order[1], on=False)
    assert (told(client), state(client)) == (["unblocked"], "running")
    assert machine.vhost.queues["q"].ready() == 2


@pytest.mark.rule("AL-1", "AL-2")
def test_the_alarm_of_another_node_blocks_here_until_that_node_is_well_or_gone(
    machine: Machine, client: Peer
) -> None:
    machine.alarm(MEMORY, on=True, node="there")
    client.publish(1, b"x", "q")
    assert told(client) == ["blocked"]
    # Ours comes and goes meanwhile.
    machine.alarm(MEMORY, on=True)
    machine.alarm(MEMORY, on=False)
    assert (told(client), state(client)) == ([], "blocked")
    edges = machine.broker.alarms.forget_node("there")
    assert [edge.change.value for edge in edges] == ["alarm_cleared_node_died"]
    machine.alarm(MEMORY, on=False)
    assert (told(client), state(client)) == (["unblocked"], "running")


@pytest.mark.rule("AL-3", "NT-4")
@pytest.mark.parametrize("source", [MEMORY, DISK])
def test_who_does_not_publish_works_as_usual(
    machine: Machine, client: Peer, source: Source
) -> None:
    for body in (b"1", b"2"):
        client.publish(1, body, "q")
    machine.alarm(source, on=True)
    consumer = machine.client()
    consumer.channel()
    consumer.queue("another")
    consumer.consume("q")
    first, second = consumer.take_all("basic.deliver")
    consumer.send(1, "basic.ack", delivery_tag=first.delivery_tag)
    consumer.send(1, "basic.nack", delivery_tag=second.delivery_tag, requeue=False)
    assert machine.vhost.queues["q"].unacked_count == 0
    consumer.channel(2)
    assert (state(consumer), told(consumer)) == ("blocking", [])
    machine.alarm(source, on=False)
    assert (state(consumer), told(consumer)) == ("running", [])


@pytest.mark.rule("AL-3", "CF-10")
@pytest.mark.parametrize(("frames", "blocked"), [(1, False), (2, True), (3, True)])
def test_the_content_header_blocks_and_not_the_method_before_it(
    machine: Machine, client: Peer, frames: int, blocked: bool
) -> None:
    whole = publish(1, b"body", "q")
    head = len(method(1, "basic.publish", routing_key="q"))
    cut = {1: head, 2: head + 8 + 14, 3: len(whole)}[frames]
    machine.alarm(on=True)
    client.feed(whole[:cut])
    assert state(client) == ("blocked" if blocked else "blocking")
    assert told(client) == (["blocked"] if blocked else [])
    client.feed(whole[cut:])
    assert told(client) == ([] if blocked else ["blocked"])
    machine.alarm(on=False)
    # The publish that was stopped completes.
    assert client.call(1, "basic.get", queue="q").body == b"body"


@pytest.mark.rule("NT-2", "NT-3")
def test_each_period_is_told_anew(machine: Machine, client: Peer) -> None:
    for _ in range(3):
        machine.alarm(DISK, on=True)
        client.publish(1, b"x", "q")
        machine.alarm(DISK, on=False)
    assert told(client) == ["blocked", "unblocked"] * 3


@pytest.mark.rule("NT-2", "NT-3", "CF-12")
def test_an_alarm_in_flow_is_told_and_its_end_leaves_the_flow(
    machine: Machine, client: Peer
) -> None:
    queue = machine.vhost.queues["q"]
    queue.suspend()
    client.feed(*[publish(1, b"x", "q") for _ in range(801)])
    assert (state(client), told(client)) == ("flow", [])
    machine.alarm(DISK, on=True)
    assert (state(client), told(client)) == ("blocked", ["blocked"])
    queue.resume()
    machine.turn()
    assert (state(client), told(client)) == ("blocked", [])
    machine.alarm(DISK, on=False)
    assert told(client) == ["unblocked"]
    assert queue.ready() == 801


def test_a_blocked_client_may_go(machine: Machine, client: Peer) -> None:
    machine.alarm(DISK, on=True)
    client.publish(1, b"x", "q")
    client.drop()
    machine.alarm(DISK, on=False)
    assert machine.vhost.queues["q"].ready() == 0
    assert machine.broker.waits.all() == []


@pytest.mark.rule("HB-1", "HB-2", "HB-3")
@pytest.mark.parametrize("source", [MEMORY, DISK])
def test_heartbeats_of_two_seconds_through_an_alarm(machine: Machine, source: Source) -> None:
    blocked, blocking = machine.client(heartbeat=2), machine.client(heartbeat=2)
    blocked.channel()
    machine.alarm(source, on=True)
    blocked.publish(1, b"x", "nowhere")
    before = blocked.decoder.heartbeats
    for _ in range(20):
        machine.pass_time(0.5)
    # One that is only blocking is looked at as ever; ours go on every second.
    assert (blocked.alive(), blocking.alive()) == (True, False)
    assert blocked.decoder.heartbeats - before >= 9
    machine.alarm(source, on=False)
    passed = 0.0
    while blocked.alive():
        machine.pass_time(0.25)
        passed += 0.25
    assert 4.0 <= passed <= 6.25


@pytest.mark.rule("CF-13")
def test_the_state_of_a_channel_in_flow_lingers_for_a_second(
    machine: Machine, client: Peer
) -> None:
    queue = machine.vhost.queues["q"]
    channel = client.connection.channels[1]
    queue.suspend()
    client.feed(*[publish(1, b"x", "q") for _ in range(399)])
    assert channel.state() == "running"
    client.publish(1, b"x", "q")
    assert channel.state() == "flow"
    queue.resume()
    machine.turn()
    assert channel.state() == "flow"
    machine.pass_time(0.5)
    assert channel.state() == "flow"
    machine.pass_time(0.6)
    assert channel.state() == "running"
    client.send(1, "exchange.delete", exchange="amq.direct")
    assert channel.state() == "closing"
