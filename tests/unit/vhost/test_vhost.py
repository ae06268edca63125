"""A vhost's queues and bindings come and go together, large removals in slices."""

from itertools import pairwise

import pytest

from tests.support.machine import Machine, Peer
from warren.queues import Queue
from warren.queues.gate import GATE_TRACED
from warren.server.state_change import everything
from warren.vhost import VHost
from warren.vhost.change import VHostDelete, VHostPut, VHostTracing
from warren.vhost.effect import kept
from warren.vhost.vhost import END_SLICE, TRACE_SLICE


def add(vhost: VHost, name: str, *, auto_delete: bool = False) -> Queue:
    return vhost.add_queue(name, durable=False, auto_delete=auto_delete, owner=0, arguments={})


@pytest.fixture
def client() -> Peer:
    peer = Machine().client()
    peer.channel()
    return peer


@pytest.mark.rule("QD-8")
def test_a_large_removal_goes_in_slices_and_is_gone_at_once_for_routing(client: Peer) -> None:
    machine = client.machine
    vhost = machine.vhost
    queue = add(vhost, "many")
    for number in range(3000):
        vhost.routing.bind("amq.direct", "many", b"%d" % number, {}, to_queue=True)
    assert vhost.delete_queue(queue) == 0
    chores = len(machine.broker.turn.chores)
    client.publish(1, b"x", "7", exchange="amq.direct", mandatory=True)
    assert client.take(1, "basic.return").reply_code == 312
    assert chores == 1
    assert machine.broker.turn.chores == []
    assert not vhost.sweeping
    assert vhost.delete_queue(queue) == 0


@pytest.mark.rule("QD-8")
def test_a_new_queue_of_the_name_has_nothing_of_the_old_one(client: Peer) -> None:
    vhost = client.machine.vhost
    old = add(vhost, "q")
    for number in range(3000):
        vhost.routing.bind("amq.direct", "q", b"%d" % number, {}, to_queue=True)
    client.publish(1, b"x", "q")
    assert vhost.delete_queue(old) == 1
    new = add(vhost, "q")
    client.publish(1, b"y", "7", exchange="amq.direct")
    assert (new.ready(), old.ready()) == (0, 0)
    client.publish(1, b"z", "q")
    assert (new.ready(), old.ready()) == (1, 0)


@pytest.mark.rule("QD-6", "CS-5")
def test_the_last_consumer_takes_an_auto_delete_queue_along(client: Peer) -> None:
    vhost = client.machine.vhost
    add(vhost, "brief", auto_delete=True)
    for tag in ("a", "b"):
        client.consume("brief", consumer_tag=tag)
    client.call(1, "basic.cancel", consumer_tag="a")
    assert "brief" in vhost.queues
    client.call(1, "basic.cancel", consumer_tag="b")
    assert vhost.queues == {}
    assert vhost.sinks == {}


def test_every_change_makes_cached_routes_void() -> None:
    machine = Machine()
    vhost, versions = machine.vhost, [machine.broker.version]
    queue = add(vhost, "q")
    versions.append(machine.broker.version)
    vhost.delete_queue(queue)
    versions.append(machine.broker.version)
    assert versions == sorted(set(versions))


@pytest.mark.rule("O-10.1")
def test_many_queues_are_traced_in_slices() -> None:
    machine = Machine()
    vhost = machine.vhost
    queues = [add(vhost, f"q{number}") for number in range(2 * TRACE_SLICE + 1)]
    version = machine.broker.version

    def traced() -> int:
        return sum(1 for queue in queues if queue.gate & GATE_TRACED)

    machine.broker.metadata.apply((VHostTracing(vhost="/", tracing=True),))
    assert machine.broker.version > version
    assert traced() == TRACE_SLICE
    queues.append(add(vhost, "late"))
    assert traced() == TRACE_SLICE + 1
    # What is left of the first round does what holds by then.
    machine.broker.metadata.apply((VHostTracing(vhost="/", tracing=False),))
    for _ in range(6):
        machine.turn()
    assert traced() == 0
    machine.broker.metadata.apply((VHostTracing(vhost="/", tracing=True),))
    for _ in range(3):
        machine.turn()
    assert traced() == len(queues)
    assert machine.broker.turn.chores == []
    # A queue that has gone meanwhile is left alone.
    vhost.delete_queue(queues[0])
    queues[0].trace(True)
    assert queues[0].ruled is None
    # Nothing of it is stored, and a copy begins with it.
    assert VHostTracing(vhost="/", tracing=True) in everything(machine.broker)
    assert not kept(machine.broker, VHostTracing(vhost="/", tracing=True))


@pytest.mark.rule("QD-3", "CS-1")
def test_generated_names_are_22_characters_nobody_has() -> None:
    broker = Machine().broker
    names = {broker.generated_name("amq.gen-") for _ in range(1000)}
    assert len(names) == 1000
    assert {len(name) for name in names} == {len("amq.gen-") + 22}


@pytest.mark.rule("VH-6")
def test_a_vhost_ends_in_slices() -> None:
    """However many queues, exchanges and bindings there are, a turn does a bounded part."""
    machine = Machine()
    machine.broker.metadata.apply((VHostPut(name="large"),))
    vhost = machine.broker.vhosts["large"]
    for number in range(5 * END_SLICE):
        add(vhost, f"q{number}")
        vhost.routing.declare_exchange(f"x{number}", "fanout")
        vhost.routing.bind(f"x{number}", "q0", b"", {}, to_queue=True)
    machine.broker.metadata.apply((VHostDelete(name="large"),))
    assert "large" not in machine.broker.vhosts
    left = [(len(vhost.queues), len(vhost.routing.exchanges))]
    while machine.broker.turn.chores:
        machine.broker.turn.run()
        left.append((len(vhost.queues), len(vhost.routing.exchanges)))
    assert all(before[0] - after[0] <= END_SLICE for before, after in pairwise(left))
    assert all(before[1] - after[1] <= END_SLICE for before, after in pairwise(left))
    # The default exchange is nobody's to delete.
    assert left[-1] == (0, 1)
    assert vhost.sinks == {}
