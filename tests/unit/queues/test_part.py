"""The five parts of a queue, step by step (VQ-1, VQ-2)."""

from typing import Any

import pytest

from tests.support.machine import Peer
from tests.support.stored_check import check_store
from tests.support.stored_machine import Limits, StoredMachine
from warren.queues.part import Delta, Parts, parts
from warren.queues.queue import Queue


def begin(**arguments: Any) -> tuple[StoredMachine, Peer, Queue]:
    limits = Limits(resident_octets=0, block_messages=10, journal_kept=1, journal_file=1)
    machine = StoredMachine(limits=limits)
    client = machine.client()
    client.channel(1)
    client.queue("q", durable=True, arguments=arguments)
    return machine, client, machine.vhost.queues["q"]


def send(client: Peer, count: int, **properties: Any) -> None:
    properties = {"delivery_mode": 2} | properties
    for _ in range(count):
        client.publish(1, b"x", "q", properties=properties)
    client.machine.turn()


@pytest.mark.rule("VQ-1", "VQ-2")
def test_where_messages_are() -> None:
    machine, client, queue = begin()
    send(client, 10)
    assert parts(queue) == Parts(q4=10)
    send(client, 15)
    # The second block is out, the third is not full: it waits in memory behind it.
    assert queue.out_count == 10
    found = parts(queue)
    assert (found.q4, found.q1, found.q2) == (10, 5, 0)
    assert found.q3 + found.delta.count == 10
    send(client, 100)
    found = parts(queue)
    assert (found.q4, found.count()) == (10, 125)
    assert found.delta.count > 50
    assert found.delta.start == 10 + found.q3
    check_store(machine)
    assert client.call(1, "queue.purge", queue="q").message_count == 125
    assert parts(queue) == Parts()


@pytest.mark.rule("VQ-2")
def test_what_is_below_the_segments_is_q2() -> None:
    """Messages whose places are in memory only, behind others in segments."""
    machine, client, queue = begin()
    send(client, 50)
    index = queue.index
    assert index is not None
    machine.storage.persistence.kept = 1 << 30
    below = int(index.disk_seq)
    send(client, 50)
    found = parts(queue)
    assert (found.q4, found.q3 > 0) == (10, True)
    assert found.delta.end == below
    assert found.q2 == 100 - below - found.q1
    check_store(machine)


@pytest.mark.rule("VQ-2", "LZ-5")
def test_a_lazy_queue_has_two_parts() -> None:
    machine, client, queue = begin(**{"x-queue-mode": "lazy"})
    send(client, 37)
    assert parts(queue) == Parts(delta=Delta(0, 37, 0, 37))
    assert client.call(1, "basic.get", queue="q").name == "basic.get-ok"
    found = parts(queue)
    assert (found.q3 > 0, found.q3 + found.delta.count) == (True, 36)
    check_store(machine)


@pytest.mark.rule("PQ-3")
def test_the_parts_of_priorities_are_added() -> None:
    machine, client, queue = begin(**{"x-max-priority": 2})
    for priority in (0, 1, 2):
        send(client, 35, priority=priority)
    found = parts(queue)
    assert found.count() == 105
    assert found.q4 == 30
    assert found.delta.start < found.delta.start + found.delta.count <= found.delta.end
    check_store(machine)
