"""Publishers that are faster than the disk: credit from the journal up to the socket (CF-*)."""

from collections.abc import Callable

import pytest

from tests.support.machine import SECOND_NS, Peer, publish
from tests.support.stored_machine import Limits, StoredMachine, TurnLanes
from warren.flow import Kind, Reason, Subject
from warren.server.list_queue import state as queue_state

PERSISTENT = {"delivery_mode": 2}
KIB = 1024


class SlowLanes(TurnLanes):
    """A disk that does nothing until it is told."""

    stopped = False

    def run(self) -> bool:
        return not self.stopped and super().run()


@pytest.fixture
def machine() -> StoredMachine:
    return slow_machine()


def slow_machine(limits: Limits | None = None) -> StoredMachine:
    machine = StoredMachine(limits=limits or Limits(pending_max=100 * KIB))
    lanes = SlowLanes(machine.files, 0)
    machine.lanes = lanes
    machine.messages.lanes = lanes
    machine.storage.persistence.lanes = lanes
    machine.storage.pages.lanes = lanes
    return machine


def stop(machine: StoredMachine, on: bool = True) -> None:
    assert isinstance(machine.lanes, SlowLanes)
    machine.lanes.stopped = on
    if not on:
        machine.turn()


def client(machine: StoredMachine, *queues: str, channels: int = 1) -> Peer:
    peer = machine.client()
    for number in range(1, channels + 1):
        peer.channel(number)
    for name in queues:
        peer.queue(name, durable=True)
    return peer


def is_parking(peer: Peer) -> bool:
    return peer.connection.publisher.parking


def is_read(peer: Peer) -> bool:
    return peer.connection.reading


def is_slow(machine: StoredMachine) -> bool:
    return machine.vhost.queues["q"].slow


def load(peer: Peer, count: int, queue: str = "q", *, size: int = KIB, channel: int = 1) -> None:
    for number in range(count):
        body = b"%08d" % number + bytes(size - 8)
        peer.publish(channel, body, queue, properties=PERSISTENT)


def states(machine: StoredMachine, peer: Peer, queue: str = "q") -> tuple[str, str, str]:
    connection = peer.connection
    return (
        connection.state(),
        connection.channels[1].state(),
        queue_state(machine.vhost.queues[queue]),
    )


def numbers(peer: Peer) -> list[int]:
    return [int(event.body[:8]) for event in peer.take_all("basic.deliver")]


def until(machine: StoredMachine, peer: Peer, told: Callable[[], bool]) -> int:
    """Publish small messages until something is true; return how many."""
    for count in range(3000):
        if told():
            return count
        load(peer, 1)
    raise AssertionError("it never is")


@pytest.mark.rule("CF-3", "CF-4", "CF-5", "CF-10", "CF-11", "CF-12", "CF-13")
def test_a_slow_disk_is_felt_by_queue_then_channel_then_connection(machine: StoredMachine) -> None:
    peer = client(machine, "q")
    stop(machine)
    load(peer, 90)
    assert states(machine, peer) == ("running", "running", "running")
    before = until(machine, peer, lambda: states(machine, peer)[2] == "flow")
    assert before < 10
    assert states(machine, peer)[:2] == ("running", "running")
    # The worked example: 400 of the channel, then 400 of the reader. But this much memory is not
    # given: twice what may be on its way, and everybody who publishes waits.
    channel_after = until(machine, peer, lambda: states(machine, peer)[1] == "flow")
    assert channel_after < 110
    assert states(machine, peer) == ("flow", "flow", "flow")
    assert not peer.take_all(channel=0), "connection.blocked is for alarms"
    behind = machine.storage.journal.behind()
    load(peer, 50)
    assert machine.storage.journal.behind() == behind
    stop(machine, on=False)
    assert machine.vhost.queues["q"].ready() == 90 + before + channel_after + 50
    assert machine.storage.journal.behind() == 0
    # It goes on at once and shows for a while: the queue and the channel 1 s, the connection 5 s.
    assert states(machine, peer) == ("flow", "flow", "flow")
    machine.pass_time(1.1)
    assert states(machine, peer) == ("flow", "running", "running")
    machine.pass_time(4)
    assert states(machine, peer) == ("running", "running", "running")


@pytest.mark.rule("CF-6", "CF-9", "CF-10")
def test_the_worked_example_with_a_disk() -> None:
    """400 messages overdrawn block the channel, 400 more the reader."""
    machine = slow_machine(Limits(pending_max=1024 * KIB))
    peer = client(machine, "q")
    stop(machine)
    until(machine, peer, lambda: is_slow(machine))
    load(peer, 398)
    assert states(machine, peer)[:2] == ("running", "running")
    load(peer, 1)
    assert states(machine, peer)[:2] == ("running", "flow")
    load(peer, 399)
    assert states(machine, peer)[:2] == ("running", "flow")
    load(peer, 1)
    assert states(machine, peer)[:2] == ("flow", "flow")
    count = int(machine.vhost.queues["q"].ready())
    load(peer, 10)
    assert machine.vhost.queues["q"].ready() == count
    stop(machine, on=False)
    assert machine.vhost.queues["q"].ready() == count + 10


def test_order_is_kept_and_everything_confirmed(machine: StoredMachine) -> None:
    peer = client(machine, "q")
    peer.call(1, "confirm.select")
    stop(machine)
    load(peer, 900)
    assert states(machine, peer) == ("flow", "flow", "flow")
    assert not peer.take_all(channel=1), "nothing is confirmed that is not on the disk"
    stop(machine, on=False)
    acks = peer.take_all("basic.ack", 1)
    assert acks[-1].delivery_tag == 900
    reader = client(machine)
    reader.consume("q", no_ack=True)
    assert numbers(reader) == list(range(900))


@pytest.mark.rule("CF-11")
def test_acks_pass_a_publisher_in_flow(machine: StoredMachine) -> None:
    peer = client(machine, "q", "taken")
    load(peer, 5, "taken")
    peer.consume("taken", 1)
    assert numbers(peer) == list(range(5))
    stop(machine)
    load(peer, 900)
    assert states(machine, peer)[0] == "flow"
    peer.send(1, "basic.ack", delivery_tag=5, multiple=True)
    assert machine.vhost.queues["taken"].unacked_count == 0


@pytest.mark.rule("CF-14")
def test_the_chain_ends_at_the_store(machine: StoredMachine) -> None:
    peer = client(machine, "q")
    stop(machine)
    load(peer, 900)
    waits = machine.broker.waits
    chain = waits.chain(peer.connection.subject)
    assert [wait.reason for wait in chain] == [Reason.CREDIT, Reason.CREDIT, Reason.JOURNAL_FULL]
    assert [wait.subject.kind for wait in chain] == [Kind.CONNECTION, Kind.CHANNEL, Kind.QUEUE]
    assert chain[-1].cause == Subject(Kind.STORE, "message store")
    assert chain[-1].setting == "journal_pending_bytes_max"
    assert "octets are on their way to the disk" in chain[-1].detail
    stop(machine, on=False)
    assert waits.chain(peer.connection.subject) == []
    assert waits.listed == 0


@pytest.mark.parametrize("size", [KIB, 100 * KIB])
def test_what_waits_for_the_disk_is_bounded(size: int) -> None:
    """However many channels publish, however large the messages."""
    machine = slow_machine(Limits(pending_max=256 * KIB))
    peers = [client(machine, f"q{number}", channels=3) for number in range(4)]
    stop(machine)
    most = 0
    for _ in range(3 * 1024 * KIB // size // 12):
        for number, peer in enumerate(peers):
            for channel in (1, 2, 3):
                load(peer, 1, f"q{number}", size=size, channel=channel)
        most = max(most, int(machine.storage.journal.behind()))
    # Besides that each connection has one message taken, with which it is blocked.
    assert 2 * 256 * KIB < most <= 2 * 256 * KIB + len(peers) * (size + 200)
    stop(machine, on=False)
    assert {peer.connection.parked_bytes for peer in peers} == {0}


@pytest.mark.rule("CF-8")
def test_a_deleted_queue_blocks_nobody(machine: StoredMachine) -> None:
    peer = client(machine, "q")
    stop(machine)
    load(peer, 900)
    assert is_parking(peer)
    other = client(machine)
    other.send(1, "queue.delete", queue="q", nowait=True)
    assert not is_parking(peer)
    assert machine.broker.waits.listed == 0
    assert machine.storage.slow == []


def test_a_suspended_queue_stays_so_when_the_disk_has_caught_up(machine: StoredMachine) -> None:
    peer = client(machine, "q")
    stop(machine)
    load(peer, 150)
    machine.vhost.queues["q"].suspend()
    load(peer, 900)
    stop(machine, on=False)
    assert is_parking(peer)
    machine.vhost.queues["q"].resume()
    machine.turn()
    assert not is_parking(peer)
    assert machine.vhost.queues["q"].ready() == 1050


def test_a_publisher_that_is_not_guilty_waits_for_one_drain_at_most(
    machine: StoredMachine,
) -> None:
    guilty = client(machine, "a", "b", "c", channels=3)
    other = client(machine, "other")
    for round_ in range(5):
        stop(machine)
        for number, name in enumerate(("a", "b", "c"), 1):
            load(guilty, 300, name, channel=number)
        assert guilty.connection.state() == "flow"
        load(other, 1, "other")
        stop(machine, on=False)
        assert machine.vhost.queues["other"].ready() == round_ + 1
        assert not is_parking(other)


def test_a_journal_that_outgrows_its_checkpoints_slows_publishers() -> None:
    machine = slow_machine(Limits(journal_kept=32 * KIB, journal_file=8 * KIB))
    persistence = machine.storage.persistence
    peer = client(machine, "q")
    persistence.checkpointing = True  # One that does not end.
    count = until(machine, peer, lambda: is_slow(machine))
    # Of messages that take 1,100 octets, with their share of batches.
    assert 8 * 32 * KIB < count * 1150 < 9 * 32 * KIB
    chain = machine.broker.waits.chain(Subject(Kind.QUEUE, "q", "/"))
    assert chain[0].detail.endswith("octets of journal files wait for a checkpoint")
    assert chain[0].setting is None
    load(peer, 900)
    assert states(machine, peer) == ("flow", "flow", "flow")
    assert persistence.closed_bytes() < 2 * 8 * 32 * KIB + 800 * 2 * KIB
    persistence.checkpointing = False
    persistence.retry()
    machine.turn()
    assert not is_slow(machine)
    assert machine.vhost.queues["q"].ready() == count + 900
    assert not is_parking(peer)


def test_transient_messages_cost_nothing(machine: StoredMachine) -> None:
    """They never touch the journal, so the journal never slows them down."""
    peer = client(machine, "q")
    stop(machine)
    load(peer, 150)
    assert is_slow(machine)
    for _ in range(1000):
        peer.publish(1, b"x", "q")
    assert not is_parking(peer)


def test_few_pages_are_on_their_way_at_a_time() -> None:
    machine = slow_machine(Limits(block_messages=4))
    machine.storage.pages_max = 32 * KIB
    peer = client(machine, "q", "r")
    stop(machine)
    for queue in ("q", "r"):
        for number in range(200):
            peer.publish(1, b"%08d" % number + bytes(KIB), queue)
    queues = [machine.vhost.queues[name] for name in ("q", "r")]
    machine.clock.now_ns += SECOND_NS
    machine.low_memory(98)
    assert 0 < machine.storage.pages.pending_bytes < 45 * KIB
    assert sum(int(queue.out_count) for queue in queues) == 0
    stop(machine, on=False)
    assert machine.storage.pages.pending_bytes == 0
    assert sum(int(queue.out_count) for queue in queues) > 300
    for queue in ("q", "r"):
        reader = client(machine)
        reader.consume(queue, no_ack=True)
        assert numbers(reader) == list(range(200))


def test_one_read_of_many_publishes(machine: StoredMachine) -> None:
    """What a blocked connection had sent already is parked, in order, and nothing is lost."""
    peer = client(machine, "q")
    stop(machine)
    octets = b"".join(
        publish(1, b"%08d" % number + bytes(KIB), "q", properties=PERSISTENT)
        for number in range(2000)
    )
    peer.feed(octets)
    assert states(machine, peer) == ("flow", "flow", "flow")
    assert not is_read(peer)
    stop(machine, on=False)
    assert is_read(peer)
    assert peer.connection.parked_bytes == 0
    reader = client(machine)
    reader.consume("q", no_ack=True)
    assert numbers(reader) == list(range(2000))
