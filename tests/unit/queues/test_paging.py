"""Blocks that leave memory for the store or for page files, and come back (VQ-*, LZ-*)."""

import errno
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.machine import Peer, method
from tests.support.stored_check import check_store
from tests.support.stored_machine import Limits, StoredMachine
from warren.queues.part import parts
from warren.queues.queue import Queue
from warren.server.list_queue import backing_queue_status, disk_reads, disk_writes
from warren.vhost.change import PolicyDelete, PolicyPut

SMALL = Limits(resident_octets=0, block_messages=4, ahead=8, ahead_octets=500, journal_kept=2000,
               journal_file=500)  # fmt: skip


def begin(limits: Limits = SMALL, **arguments: Any) -> tuple[StoredMachine, Peer, Queue]:
    machine = StoredMachine(limits=limits)
    client = machine.client()
    client.channel(1)
    given = {name.replace("_", "-"): value for name, value in arguments.items()}
    client.queue("q", durable=True, arguments=given)
    return machine, client, machine.vhost.queues["q"]


def send(client: Peer, count: int, first: int = 0, mode: int = 2, **properties: Any) -> None:
    for number in range(first, first + count):
        properties["delivery_mode"] = mode
        client.publish(1, b"%d" % number, "q", properties=properties)
    client.machine.turn()


def take(client: Peer) -> Iterator[int]:
    while (got := client.call(1, "basic.get", queue="q", no_ack=True)).name == "basic.get-ok":
        assert not got.redelivered
        yield int(got.body)


@pytest.mark.rule("VQ-1", "VQ-2", "VQ-5", "VQ-7", "VQ-8")
def test_a_backlog_is_read_in_order() -> None:
    """Through segments, then the journal, then memory, while more comes."""
    machine, client, queue = begin()
    send(client, 400)
    check_store(machine)
    found = parts(queue)
    assert found.delta.count > 300
    assert found.q4 <= 4
    taken = []
    for number in take(client):
        taken.append(number)
        check_store(machine)
        if number % 100 == 50:
            send(client, 10, 1000 + number * 10)
    more = [1000 + 10 * at + place for at in (50, 150, 250, 350) for place in range(10)]
    assert taken == [*range(400), *more]
    assert not queue.backlog.outs
    assert queue.ready_bytes == 0


@pytest.mark.rule("VQ-2")
def test_transient_messages_stay_in_their_places() -> None:
    """Blocks of both kinds go to page files when memory is low, others to the store."""
    machine, client, queue = begin()
    for number in range(100):
        send(client, 1, number, mode=2 if number % 20 < 12 else 1)
    machine.low_memory(0, limit=0)
    check_store(machine)
    assert queue.out_count > 80
    assert parts(queue).delta.transient > 0
    assert list(take(client)) == list(range(100))
    assert machine.storage.pages.live.get(int(machine.storage.pages.number), 0) == 0


@pytest.mark.rule("VQ-18", "AK-3")
def test_what_is_requeued_goes_before_what_is_away() -> None:
    machine, client, _ = begin()
    send(client, 40)
    tags = [client.call(1, "basic.get", queue="q").delivery_tag for _ in range(5)]
    client.send(1, "basic.nack", delivery_tag=tags[1], requeue=True)
    client.send(1, "basic.nack", delivery_tag=tags[3], requeue=True)
    machine.turn()
    bodies = []
    while (got := client.call(1, "basic.get", queue="q", no_ack=True)).name == "basic.get-ok":
        bodies.append((int(got.body), got.redelivered))
    assert bodies == [(1, True), (3, True), *((number, False) for number in range(5, 40))]


@pytest.mark.rule("VQ-19", "IX-21")
def test_a_purge_reaches_what_is_away() -> None:
    machine, client, queue = begin()
    send(client, 100)
    first = client.call(1, "basic.get", queue="q")
    assert client.call(1, "queue.purge", queue="q").message_count == 99
    check_store(machine)
    index = queue.index
    assert index is not None
    assert (index.live, index.live_bytes) == (1, 1)
    client.send(1, "basic.ack", delivery_tag=first.delivery_tag)
    machine.turn()
    assert (index.live, index.live_bytes) == (0, 0)
    send(client, 3, 500)
    assert list(take(client)) == [500, 501, 502]


def test_a_get_that_waits_is_answered_when_the_queue_is_purged() -> None:
    machine, client, queue = begin()
    send(client, 100)
    assert client.call(1, "basic.get", queue="q", no_ack=True).body == b"0"
    while queue.backlog.here:
        client.call(1, "basic.get", queue="q", no_ack=True)
    other = machine.client()
    other.channel(1)
    # Both come in one turn, before anything is read.
    client.connection.receive(get_of(client))
    assert not client.inbox
    other.call(1, "queue.purge", queue="q")
    machine.turn()
    assert client.take(1).name == "basic.get-empty"


def test_a_get_that_waits_is_refused_when_the_queue_is_deleted() -> None:
    machine, client, queue = begin()
    send(client, 100)
    while queue.backlog.here:
        client.call(1, "basic.get", queue="q", no_ack=True)
    other = machine.client()
    other.channel(1)
    client.connection.receive(get_of(client))
    other.call(1, "queue.delete", queue="q")
    machine.turn()
    assert client.take(1).reply_code == 404


def test_a_client_that_waits_may_go() -> None:
    machine, client, queue = begin()
    send(client, 100)
    while queue.backlog.here:
        client.call(1, "basic.get", queue="q", no_ack=True)
    left = int(queue.ready())
    client.connection.receive(get_of(client))
    client.drop()
    machine.turn()
    assert queue.ready() == left
    other = machine.client()
    other.channel(1)
    assert len(list(take(other))) == left


def get_of(client: Peer) -> bytes:
    return method(1, "basic.get", queue="q", no_ack=True)


def set_lazy(machine: StoredMachine, lazy: bool) -> None:
    put = PolicyPut(
        vhost="/", name="lazy", pattern="q", definition=b'{"queue-mode":"lazy"}', apply_to="queues"
    )
    change = put if lazy else PolicyDelete(vhost="/", name="lazy")
    machine.broker.metadata.apply((change,))
    machine.turn()


@pytest.mark.rule("LZ-5", "LZ-6")
def test_a_lazy_queue_keeps_no_message_in_memory() -> None:
    """100 published: all of them are delta, none in memory; one is asked for, some are read."""
    limits = Limits(block_messages=16)
    machine, client, queue = begin(limits, x_queue_mode="lazy")
    send(client, 100)
    found = parts(queue)
    assert (found.q3, found.delta.start, found.delta.count, found.delta.end) == (0, 0, 100, 100)
    assert (disk_writes(queue), disk_reads(queue)) == (100, 0)
    assert client.call(1, "basic.get", queue="q").body == b"0"
    assert parts(queue).q3 == 99
    assert disk_reads(queue) == 100
    status = backing_queue_status(queue)
    assert (status["mode"], status["len"], status["target_ram_count"]) == ("lazy", 99, 0)
    check_store(machine)


@pytest.mark.rule("LZ-8", "LZ-2", "LZ-4")
@pytest.mark.parametrize("mode", [1, 2], ids=["transient", "persistent"])
def test_a_queue_that_becomes_lazy_lets_go_of_its_messages(mode: int) -> None:
    machine, client, queue = begin(Limits(block_messages=4))
    send(client, 1000, mode=mode)
    assert queue.out_count == 0
    set_lazy(machine, True)
    # What is transient leaves in whole blocks behind the first.
    assert queue.out_count == (1000 if mode == 2 else 996)
    check_store(machine)
    set_lazy(machine, False)
    send(client, 10, 1000, mode=mode)
    assert list(take(client)) == list(range(1010))


@pytest.mark.rule("VQ-22", "VQ-10")
def test_what_is_away_expires_when_it_comes_to_the_head() -> None:
    machine, client, queue = begin()
    send(client, 10)
    send(client, 10, 10, expiration="1000")
    send(client, 10, 20)
    assert queue.out_count > 0
    machine.pass_time(2.0)
    assert queue.ready() == 30
    for number in range(10):
        assert client.call(1, "basic.get", queue="q", no_ack=True).body == b"%d" % number
    machine.turn()
    assert queue.ready() == 10
    assert queue.expired_count == 10
    assert list(take(client)) == list(range(20, 30))


@pytest.mark.rule("VQ-21")
def test_a_length_limit_drops_what_is_away() -> None:
    machine, client, queue = begin(x_max_length=50)
    send(client, 200)
    assert (queue.ready(), queue.dropped_count) == (50, 150)
    check_store(machine)
    assert list(take(client)) == list(range(150, 200))


@pytest.mark.rule("PQ-1", "PQ-2", "PQ-3")
def test_each_priority_has_its_own_part_of_the_disk() -> None:
    machine, client, queue = begin(x_max_priority=3)
    for number in range(120):
        send(client, 1, number, priority=number % 4)
    assert queue.out_count > 80
    check_store(machine)
    expected = sorted(range(120), key=lambda number: (-(number % 4), number))
    assert list(take(client)) == expected
    check_store(machine)


@pytest.mark.rule("IX-16")
def test_handed_out_messages_keep_their_mark_on_the_disk() -> None:
    """After a clean stop what was handed out leaves memory again, and is still redelivered."""
    machine, client, _ = begin()
    send(client, 60)
    for _ in range(20):
        client.call(1, "basic.get", queue="q")
    for _ in range(3):
        # Read in small pieces, as long as there is a consumer.
        machine = machine.restart(clean=True, limits=Limits(ahead_octets=300))
    client = machine.client()
    client.channel(1)
    queue = machine.vhost.queues["q"]
    client.call(1, "basic.qos", prefetch_count=1)
    tag = client.consume("q")
    assert queue.out_count == 0
    first = client.take(1, "basic.deliver")
    assert client.call(1, "basic.cancel", consumer_tag=tag).name == "basic.cancel-ok"
    assert (first.body, first.redelivered) == (b"0", True)
    machine.low_memory(0, limit=0)
    assert queue.out_count > 40
    client.send(1, "basic.nack", delivery_tag=first.delivery_tag, requeue=True)
    client.take_all()
    found = []
    while (got := client.call(1, "basic.get", queue="q", no_ack=True)).name == "basic.get-ok":
        found.append((int(got.body), got.redelivered))
    assert found == [(number, number < 20) for number in range(60)]


def test_a_read_that_fails_is_tried_again_after_a_rest() -> None:
    machine, client, queue = begin()
    send(client, 100)
    while queue.backlog.here:
        client.call(1, "basic.get", queue="q", no_ack=True)
    calls = []

    def fail(call: str, path: str) -> OSError | None:
        if call == "open":
            calls.append(path)
            return OSError(errno.EIO, "cannot be read")
        return None

    machine.files.fail = fail
    client.send(1, "basic.get", queue="q", no_ack=True)
    machine.turn()
    assert not client.take_all()
    assert len(calls) == 1
    assert "queue.read_failed" in machine.log.names()
    # Nothing is tried before the rest is over.
    machine.pass_time(0.5)
    other = machine.client()
    other.channel(1)
    other.send(1, "basic.get", queue="q", no_ack=True)
    machine.turn()
    assert len(calls) == 1
    machine.files.fail = lambda call, path: None
    machine.pass_time(0.6)
    assert client.take(1).name == "basic.get-ok"
    assert other.take(1).name == "basic.get-ok"
    assert queue.lost_count == 0


def test_messages_whose_file_is_gone_are_lost_and_told() -> None:
    machine, client, queue = begin()
    send(client, 200)
    while queue.backlog.here:
        client.call(1, "basic.get", queue="q", no_ack=True)
    before = int(queue.ready())
    for path in [path for path in machine.files.paths() if path.endswith(".idx")]:
        machine.files.remove(path)
    left = list(take(client))
    assert left == sorted(left)
    assert queue.lost_count == before - len(left) > 0
    assert "queue.messages_lost" in machine.log.names()
    check_store(machine)


@pytest.mark.rule("VQ-4", "VQ-9", "VQ-17")
@pytest.mark.parametrize("no_ack", [False, True])
def test_what_goes_straight_to_a_consumer(no_ack: bool) -> None:
    """It is stored if it may come back; otherwise its publisher waits for nothing."""
    machine, client, queue = begin()
    client.call(1, "confirm.select")
    client.consume("q", no_ack=no_ack)
    client.publish(1, b"x", "q", properties={"delivery_mode": 2})
    machine.turn()
    names = [event.name for event in client.take_all()]
    assert sorted(names) == ["basic.ack", "basic.deliver"]
    index = queue.index
    assert index is not None
    assert (index.live, index.written) == ((0, 0) if no_ack else (1, 1))
    assert parts(queue).count() == 0
    if not no_ack:
        client.send(1, "basic.ack", delivery_tag=1)
        client.send(1, "basic.ack", delivery_tag=1)
        machine.turn()
        assert (index.live, index.live_bytes) == (0, 0)


@pytest.mark.rule("CN-3")
def test_a_requeued_message_is_not_confirmed_again() -> None:
    machine, client, _ = begin()
    client.call(1, "confirm.select")
    send(client, 3)
    assert {event.name for event in client.take_all()} == {"basic.ack"}
    for _ in range(2):
        tag = client.call(1, "basic.get", queue="q").delivery_tag
        client.send(1, "basic.nack", delivery_tag=tag, requeue=True)
        machine.turn()
    assert not client.take_all()


@pytest.mark.rule("VQ-3")
def test_what_is_counted() -> None:
    """Ready and unacknowledged, in the store, out of memory; octets are those of bodies."""
    machine, client, queue = begin(Limits(block_messages=4))
    send(client, 20)
    send(client, 20, 20, mode=1)
    client.call(1, "basic.get", queue="q")
    index = queue.index
    assert index is not None
    octets = [len(b"%d" % number) for number in range(40)]
    assert (index.live, index.live_bytes) == (20, sum(octets[:20]))
    assert (queue.ready(), queue.unacked_count, queue.ready_bytes) == (39, 1, sum(octets[1:]))
    machine.low_memory(0, limit=0)
    # All but the first block.
    assert (queue.out_count, queue.out_octets) == (36, sum(octets[4:]))
    assert parts(queue).delta.transient + parts(queue).q3 + parts(queue).q2 > 0
    assert list(take(client)) == list(range(1, 40))
    assert (index.live, index.live_bytes) == (1, 1)


@pytest.mark.rule("VQ-23")
def test_only_what_expires_at_the_head_is_read() -> None:
    """A head that is in memory is looked at without a read."""
    machine, client, queue = begin()
    send(client, 40, expiration="1000")
    before = disk_reads(queue)
    machine.pass_time(0.5)
    assert (disk_reads(queue), queue.ready()) == (before, 40)
    machine.pass_time(0.6)
    assert (queue.ready(), queue.expired_count) == (0, 40)
    assert disk_reads(queue) > before
