"""What a queue with a store writes, and what it does not: rules that no other test pins down."""

from typing import Any

import pytest

from tests.support.machine import Peer
from tests.support.stored_machine import Limits, StoredMachine
from warren.queues import Queue

PERSISTENT = {"delivery_mode": 2}


def machine(**limits: int) -> StoredMachine:
    return StoredMachine(limits=Limits(**limits))


def client(machine: StoredMachine, name: str = "q", **arguments: Any) -> Peer:
    peer = machine.client()
    peer.channel(1)
    peer.queue(name, durable=True, **arguments)
    return peer


def queue_of(machine: StoredMachine, name: str = "q") -> Queue:
    return machine.vhost.queues[name]


def stored(machine: StoredMachine, name: str = "q") -> int:
    index = queue_of(machine, name).index
    assert index is not None
    return int(index.live)


def pages_written(machine: StoredMachine) -> int:
    return int(machine.storage.pages.written_bytes)


@pytest.mark.rule("VQ-3")
def test_counters_of_a_queue_whose_messages_are_out() -> None:
    node = machine(resident_octets=0, block_messages=1)
    peer = client(node)
    for number in range(6):
        peer.publish(1, b"x" * (number + 1), "q", properties=PERSISTENT)
    queue = queue_of(node)
    assert (int(queue.ready()), int(queue.ready_bytes)) == (6, 21)
    # The head and the block that is being filled stay.
    out = int(queue.out_count)
    assert 0 < out < 6
    assert stored(node) == 6
    assert queue.index is not None
    assert int(queue.index.live_bytes) == 21
    for number in range(6):
        got = peer.call(1, "basic.get", queue="q")
        assert (got.name, len(got.body)) == ("basic.get-ok", number + 1)
    assert (int(queue.ready()), int(queue.ready_bytes), int(queue.unacked_count)) == (0, 0, 6)
    assert (int(queue.out_count), int(queue.out_octets)) == (0, 0)


@pytest.mark.rule("VQ-4", "VQ-9")
@pytest.mark.parametrize("no_ack", [True, False])
def test_a_message_handed_over_at_once_is_stored_only_if_it_may_come_back(no_ack: bool) -> None:
    node = machine()
    peer = client(node)
    peer.consume("q", no_ack=no_ack)
    before = int(node.storage.persistence.written_bytes)
    peer.publish(1, b"m", "q", properties=PERSISTENT)
    delivered = peer.take(1, "basic.deliver")
    assert (delivered.body, delivered.redelivered) == (b"m", False)
    written = int(node.storage.persistence.written_bytes) > before
    assert written is not no_ack
    assert stored(node) == (0 if no_ack else 1)
    if not no_ack:
        peer.send(1, "basic.ack", delivery_tag=delivered.delivery_tag)
        assert stored(node) == 0


@pytest.mark.rule("VQ-9")
def test_what_waited_and_is_taken_without_ack_is_settled() -> None:
    node = machine()
    peer = client(node)
    peer.publish(1, b"m", "q", properties=PERSISTENT)
    assert stored(node) == 1
    assert peer.call(1, "basic.get", queue="q", no_ack=True).body == b"m"
    assert stored(node) == 0


@pytest.mark.rule("VQ-23")
def test_looking_at_the_head_reads_only_what_is_out() -> None:
    arguments = {"x-message-ttl": 60_000}
    node = machine(resident_octets=0, block_messages=1, ahead=1, ahead_octets=1)
    peer = client(node, arguments=arguments)
    for number in range(20):
        peer.publish(1, b"%d" % number, "q", properties=PERSISTENT)
    paging = queue_of(node).backlog.paging
    assert paging is not None
    reads = int(paging.reads)
    node.pass_time(1)
    assert int(paging.reads) == reads
    node.pass_time(60)
    assert int(queue_of(node).ready()) == 0
    assert int(paging.reads) > reads
    assert stored(node) == 0


@pytest.mark.rule("LZ-7")
def test_a_lazy_queue_keeps_no_head_either() -> None:
    node = machine()
    peer = client(node, arguments={"x-queue-mode": "lazy"})
    for number in range(10):
        peer.publish(1, b"%d" % number, "q", properties=PERSISTENT)
    node.turn()
    queue = queue_of(node)
    assert (int(queue.ready()), int(queue.out_count)) == (10, 10)
    assert int(queue.backlog.outs) == 1


@pytest.mark.rule("MS-20")
def test_page_files_are_never_synced() -> None:
    node = machine(block_messages=1)
    node.storage.pressed = True
    peer = client(node)
    synced: list[str] = []

    def gate(call: str, path: str) -> None:
        if call.startswith("sync"):
            synced.append(path)

    for number in range(5):
        peer.publish(1, b"%d" % number, "q")
    node.storage.resident_octets = 0
    node.files.gate = gate
    for number in range(5, 50):
        peer.publish(1, b"%d" % number, "q")
    assert pages_written(node) > 0
    assert not [path for path in synced if "msg_store_transient" in path]
    got = [peer.call(1, "basic.get", queue="q").body for _ in range(50)]
    assert got == [b"%d" % number for number in range(50)]
