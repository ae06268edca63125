"""Publishes that wait: alarms, credit, what overtakes them, and what everybody is told."""

import pytest

from tests.support.machine import Machine, Peer, method, publish
from warren.flow import Source
from warren.session import SessionSettings


def bodies(peer: Peer) -> list[bytes]:
    return [event.body for event in peer.take_all("basic.deliver")]


def ready(machine: Machine, queue: str) -> int:
    return int(machine.vhost.queues[queue].ready())


def is_read(peer: Peer) -> bool:
    return peer.connection.reading


def told(peer: Peer) -> list[str]:
    """The notifications of channel 0 since the last call."""
    return [event.name.removeprefix("connection.") for event in peer.take_all(channel=0)]


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
def client(machine: Machine) -> Peer:
    peer = machine.client()
    for number in (1, 2):
        peer.channel(number)
    peer.queue("q")
    return peer


@pytest.mark.rule("NT-1", "NT-2", "NT-3", "NT-4", "NT-5", "AL-2", "AL-3")
def test_who_is_told_and_when(machine: Machine, client: Peer) -> None:
    deaf = machine.client(capabilities={})
    deaf.channel()
    silent = machine.client()
    machine.alarm(on=True)
    assert [peer.connection.state() for peer in (client, deaf, silent)] == ["blocking"] * 3
    late = machine.client()
    late.channel()
    assert (late.connection.state(), told(late)) == ("blocking", [])
    for peer in (client, deaf, late):
        peer.publish(1, b"x", "q")
        peer.publish(1, b"y", "q")
        assert peer.connection.state() == "blocked"
    assert (told(client), told(deaf), told(late)) == (["blocked"], [], ["blocked"])
    machine.alarm(Source.DISK, on=True)
    machine.alarm(on=False)
    assert (told(client), client.connection.state()) == ([], "blocked")
    machine.alarm(Source.DISK, on=False)
    assert (told(client), told(deaf), told(late)) == (["unblocked"], [], ["unblocked"])
    assert told(silent) == []
    assert {peer.connection.state() for peer in (client, deaf, late, silent)} == {"running"}
    assert ready(machine, "q") == 6


@pytest.mark.rule("NT-2")
def test_the_reason_names_what_ran_low(machine: Machine, client: Peer) -> None:
    machine.alarm(Source.DISK, on=True)
    machine.alarm(on=True)
    client.publish(1, b"x", "q")
    assert client.take(0, "connection.blocked").reason == "low on disk & memory"


@pytest.mark.rule("PB-6", "AL-3", "CF-11")
def test_every_channel_goes_on_in_its_order(machine: Machine, client: Peer) -> None:
    client.call(1, "confirm.select")
    client.consume("q", 2, no_ack=True)
    machine.alarm(on=True)
    for number in range(10):
        client.publish(1, b"a%d" % number, "q")
        client.publish(2, b"b%d" % number, "q")
    client.send(1, "queue.declare", queue="late")
    client.publish(1, b"z", "late")
    assert (bodies(client), client.take_all(channel=1)) == ([], [])
    machine.alarm(on=False)
    got = bodies(client)
    assert [body for body in got if body[:1] == b"a"] == [b"a%d" % number for number in range(10)]
    assert [body for body in got if body[:1] == b"b"] == [b"b%d" % number for number in range(10)]
    names = [event.name for event in client.take_all(channel=1)]
    assert names == ["queue.declare-ok", "basic.ack"]
    assert ready(machine, "late") == 1
    assert client.connection.parked_bytes == 0


@pytest.mark.rule("AK-2", "AL-3")
@pytest.mark.parametrize("cut", ["method", "header", "body", "whole"])
def test_settlements_overtake_a_content_that_waits(
    machine: Machine, client: Peer, cut: str
) -> None:
    """Wherever the alarm strikes inside a publish, and whatever of it has come."""
    for body in (b"1", b"2", b"3"):
        client.publish(1, body, "q")
    client.consume("q", 1)
    assert len(bodies(client)) == 3
    parts = [method(1, "basic.publish", routing_key="q"), *content_frames(b"0123456789" * 100)]
    before = {"whole": 0, "method": 1, "header": 2, "body": 3}[cut]
    client.feed(b"".join(parts[:before]))
    machine.alarm(on=True)
    client.feed(b"".join(parts[before:]))
    client.send(1, "basic.ack", delivery_tag=1)
    client.send(1, "basic.nack", delivery_tag=2, requeue=False)
    client.send(1, "basic.reject", delivery_tag=3, requeue=False)
    assert machine.vhost.queues["q"].unacked_count == 0
    assert told(client) == ["blocked"]
    assert client.connection.state() == "blocked"
    machine.alarm(on=False)
    assert told(client) == ["unblocked"]
    assert bodies(client) == [b"0123456789" * 100]


def content_frames(body: bytes) -> list[bytes]:
    """Header frame and body frames of a publish, in several pieces of body."""
    whole = publish(1, body, "q", part_sizes=(300, 300))
    start = len(method(1, "basic.publish", routing_key="q"))
    header = start + 22
    return [whole[start:header], whole[header : header + 308], whole[header + 308 :]]


def test_a_channel_with_parked_content_can_be_closed_and_opened_again(
    machine: Machine, client: Peer
) -> None:
    machine.alarm(on=True)
    client.publish(1, b"gone", "q")
    assert client.call(1, "channel.close").name == "channel.close-ok"
    assert client.connection.parked_bytes == 0
    client.channel(1)
    machine.alarm(on=False)
    client.publish(1, b"new", "q")
    assert client.call(1, "basic.get", queue="q").body == b"new"


@pytest.mark.rule("TX-1")
def test_settlements_in_a_transaction_keep_their_place(machine: Machine, client: Peer) -> None:
    client.publish(1, b"1", "q")
    client.consume("q", 1)
    assert bodies(client) == [b"1"]
    client.call(1, "tx.select")
    machine.alarm(on=True)
    client.publish(1, b"2", "q")
    client.send(1, "basic.ack", delivery_tag=1)
    client.send(1, "tx.commit")
    assert machine.vhost.queues["q"].unacked_count == 1
    machine.alarm(on=False)
    assert len(client.take_all("tx.commit-ok", 1)) == 1
    assert bodies(client) == [b"2"]
    assert machine.vhost.queues["q"].unacked_count == 1


@pytest.mark.rule("CF-11")
def test_past_the_budget_the_socket_is_not_read_and_the_wait_book_says_so() -> None:
    machine = Machine(SessionSettings(parked_bytes_max=10_000))
    client = machine.client()
    client.channel()
    client.queue("q")
    machine.alarm(on=True)
    client.publish(1, b"x" * 4000, "q")
    client.publish(1, b"x" * 4000, "q")
    assert is_read(client)
    client.publish(1, b"x" * 4000, "q")
    assert not is_read(client)
    assert {wait.reason.value for wait in machine.broker.waits.all()} == {
        "memory_alarm",
        "parked_budget",
    }
    machine.alarm(on=False)
    assert is_read(client)
    assert ready(machine, "q") == 3
    assert machine.broker.waits.all() == []


@pytest.mark.rule("CF-3", "CF-4", "CF-6", "CF-9", "CF-10")
def test_the_credit_of_a_suspended_queue(machine: Machine, client: Peer) -> None:
    """The worked example: channel in flow with the 400th message, connection with the 800th."""
    queue = machine.vhost.queues["q"]
    channel = client.connection.channels[1]
    queue.suspend()
    client.feed(*[publish(1, b"%d" % number, "q") for number in range(399)])
    assert not channel.blocked_on
    client.publish(1, b"399", "q")
    assert list(channel.blocked_on) == ["q"]
    client.feed(*[publish(1, b"%d" % number, "q") for number in range(400, 799)])
    assert client.connection.state() == "running"
    assert not client.connection.publisher.parking
    client.publish(1, b"799", "q")
    assert client.connection.state() == "flow"
    client.publish(1, b"800", "q")
    assert len(queue.held) == 800
    assert client.connection.parked_bytes > 0
    assert told(client) == []
    queue.resume()
    machine.turn()
    assert not channel.blocked_on
    assert not client.connection.publisher.parking
    client.consume("q", 2, no_ack=True)
    assert bodies(client) == [b"%d" % number for number in range(801)]
    machine.pass_time(6)
    assert client.connection.state() == "running"
    assert machine.broker.waits.all() == []


@pytest.mark.rule("CF-4", "CF-6", "CF-10")
@pytest.mark.parametrize(
    ("initial", "refill", "reader"),
    [(10, 5, 20), (10, 10, 20), (10, 3, 19), (10, 6, 16), (1, 1, 2)],
)
def test_other_sizes_of_credit(initial: int, refill: int, reader: int) -> None:
    """The channel has granted whole refills of what it took; the reader has those on top."""
    machine = Machine(SessionSettings(credit_initial=initial, credit_refill=refill))
    client = machine.client()
    client.channel()
    client.queue("q")
    machine.vhost.queues["q"].suspend()
    channel = client.connection.channels[1]
    for number in range(1, reader + 1):
        assert (number > initial) == bool(channel.blocked_on)
        assert client.connection.state() == "running"
        client.publish(1, b"x", "q")
    assert client.connection.state() == "flow"


@pytest.mark.rule("CF-5", "CF-4")
def test_a_blocked_channel_works_on_what_it_has(machine: Machine, client: Peer) -> None:
    """Only the reader stops: what a blocked channel takes goes to its other queues at once."""
    client.queue("other")
    machine.vhost.queues["q"].suspend()
    client.feed(*[publish(1, b"x", "q") for _ in range(400)])
    assert client.connection.channels[1].blocked_on
    for _ in range(3):
        client.publish(1, b"y", "other")
    assert ready(machine, "other") == 3
    assert client.call(1, "queue.declare", queue="third").name == "queue.declare-ok"


@pytest.mark.rule("CF-8")
def test_deleting_the_suspended_queue_unblocks_its_publishers(
    machine: Machine, client: Peer
) -> None:
    client.call(1, "confirm.select")
    machine.vhost.queues["q"].suspend()
    client.feed(*[publish(1, b"x", "q") for _ in range(900)])
    assert client.connection.state() == "flow"
    other = machine.client()
    other.channel()
    assert other.call(1, "queue.delete", queue="q").name == "queue.delete-ok"
    machine.turn()
    assert not client.connection.publisher.parking
    acks = client.take_all("basic.ack", 1)
    assert acks[-1].delivery_tag == 900
    assert client.connection.parked_bytes == 0


@pytest.mark.rule("CO-2", "CF-3")
def test_confirms_of_a_suspended_queue_wait_for_it(machine: Machine, client: Peer) -> None:
    client.call(1, "confirm.select")
    client.queue("other")
    queue = machine.vhost.queues["q"]
    queue.suspend()
    client.publish(1, b"1", "q")
    client.publish(1, b"2", "other")
    assert [event.delivery_tag for event in client.take_all("basic.ack")] == [2]
    queue.resume()
    machine.turn()
    assert [event.delivery_tag for event in client.take_all("basic.ack")] == [1]


def test_a_publisher_that_is_gone_is_not_kept_by_what_it_left(
    machine: Machine, client: Peer
) -> None:
    queue = machine.vhost.queues["q"]
    queue.suspend()
    client.feed(*[publish(1, b"x", "q") for _ in range(900)])
    client.drop()
    assert machine.broker.waits.all() == []
    queue.resume()
    machine.turn()
    assert ready(machine, "q") == 800


@pytest.mark.rule("QD-4")
def test_what_is_parked_is_routed_when_it_goes_on(machine: Machine, client: Peer) -> None:
    """A route cached before the alarm does not outlive a binding made meanwhile."""
    client.queue("r")
    client.call(1, "queue.bind", queue="q", exchange="amq.fanout")
    client.publish(1, b"1", "k", exchange="amq.fanout")
    machine.alarm(on=True)
    client.publish(1, b"2", "k", exchange="amq.fanout")
    other = machine.client()
    other.channel()
    other.call(1, "queue.bind", queue="r", exchange="amq.fanout")
    machine.alarm(on=False)
    assert (ready(machine, "q"), ready(machine, "r")) == (2, 1)


@pytest.mark.rule("HB-1", "HB-2")
def test_the_look_at_the_client_pauses_while_it_is_blocked(machine: Machine) -> None:
    client = machine.client(heartbeat=2)
    client.channel()
    machine.alarm(on=True)
    client.publish(1, b"x", "q")
    for _ in range(10):
        machine.pass_time(1)
    assert client.alive()
    assert client.decoder.heartbeats >= 4
    machine.alarm(on=False)
    for _ in range(3):
        machine.pass_time(1)
    assert client.alive()
    for _ in range(4):
        machine.pass_time(1)
    assert not client.alive()
