"""Octets in, frames out: however they are cut, whatever they are, and what a failure leaves."""

from itertools import pairwise

import pytest

from tests.support.codec import FRAME_BODY, FRAME_HEADER, PROTOCOL_HEADER, frame, header_payload
from tests.support.machine import Machine, Peer, method, opening, publish
from warren.core import AmqpError, reply
from warren.session import CLOSED, DOOMED, SessionSettings

ENDLESS = frame(1, 0, b"\x00\x00\x00\x00", end=0)


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


def ready(machine: Machine, queue: str = "q") -> int:
    return int(machine.vhost.queues[queue].ready())


@pytest.mark.rule("WI-1", "WI-2")
@pytest.mark.parametrize("step", [1, 2, 3, 7, 8, 9, 4095, 4096, 4104])
def test_a_session_may_come_in_any_pieces(machine: Machine, step: int) -> None:
    body = bytes(range(256)) * 50
    sent = b"".join(
        (
            opening(frame_max=8192),
            method(1, "channel.open"),
            method(1, "queue.declare", queue="q"),
            publish(1, body, "q", frame_max=8192, properties={"headers": {"a": [1, "x"]}}),
            publish(1, b"", "q"),
            method(1, "basic.consume", queue="q", no_ack=True),
        )
    )
    peer = machine.peer()
    peer.feed(*[sent[at : at + step] for at in range(0, len(sent), step)])
    names = [event.name for event in peer.inbox]
    assert names == [
        "connection.start",
        "connection.tune",
        "connection.open-ok",
        "channel.open-ok",
        "queue.declare-ok",
        "basic.consume-ok",
        "basic.deliver",
        "basic.deliver",
    ]
    first, second = peer.take_all("basic.deliver")
    assert (first.body, second.body) == (body, b"")
    assert first.headers == {"a": [1, "x"]}
    assert peer.connection.rest == b""


@pytest.mark.rule("EX-3", "EX-5")
@pytest.mark.parametrize(
    "junk", [ENDLESS, b"\x01\x00\x00\xff\xff\xff\xff\x00", b"GET / HTTP/1.1\r\n"]
)
@pytest.mark.parametrize("closing", ["connection.open", "connection.close"])
def test_what_cannot_be_framed_ends_a_connection_that_is_closing(
    machine: Machine, client: Peer, closing: str, junk: bytes
) -> None:
    """Nothing more is read then, nothing more is answered, and time ends it."""
    client.send(0, closing)
    assert client.take(0).name.startswith("connection.close")
    client.feed(junk, junk, method(0, "connection.close"))
    assert client.connection.phase == DOOMED
    assert client.inbox == []
    machine.pass_time(60)
    assert not client.alive()


@pytest.mark.rule("AU-2")
def test_nothing_is_answered_behind_a_login_that_is_met_with_silence(machine: Machine) -> None:
    peer = machine.peer()
    bad = method(0, "connection.start-ok", response=b"nonsense")
    peer.feed(PROTOCOL_HEADER + bad + method(0, "connection.close"))
    assert [event.name for event in peer.inbox] == ["connection.start"]
    assert peer.connection.phase == DOOMED


@pytest.mark.rule("EX-1", "EX-2")
def test_a_body_that_came_in_pieces_fails_its_own_channel(machine: Machine, client: Peer) -> None:
    """The last frame read before was of another channel."""
    body = b"x" * 10_000
    sent = publish(2, body, "q", exchange="missing")
    client.feed(sent[:5000], sent[5000:])
    closed = client.take(2, "channel.close")
    assert (closed.reply_code, closed.class_id, closed.method_id) == (404, 60, 40)
    assert client.call(1, "basic.get", queue="q").name == "basic.get-empty"


@pytest.mark.rule("EX-5")
def test_a_wrong_end_octet_reads_the_same_whole_and_in_pieces(machine: Machine) -> None:
    texts = set()
    for cut in ([], [6000], [6000, 9000], [9999]):
        client = machine.client()
        client.channel()
        sent = publish(1, b"0123456789" * 1000, "q")[:-1] + b"\x00"
        places = [0, *cut, len(sent)]
        client.feed(*[sent[a:b] for a, b in pairwise(places)])
        closed = client.take(0, "connection.close")
        texts.add((closed.reply_code, closed.reply_text, closed.class_id, closed.method_id))
        assert client.connection.phase == DOOMED
    assert len(texts) == 1
    assert "{invalid_frame_end_marker,0}" in texts.pop()[1]


@pytest.mark.rule("EX-3")
def test_a_close_in_the_middle_of_a_frame_still_hears_the_answer(machine: Machine) -> None:
    """The rest of the frame is passed over, in pieces or not, and close-ok is seen behind it."""
    machine = Machine(SessionSettings(consumer_timeout_ms=1000, channel_tick_ms=1000))
    for size, here in ((10_000, 6000), (100, 50)):
        client = machine.client()
        client.channel()
        sent = publish(1, b"x" * size, "q")
        client.feed(sent[: here + 60])
        client.connection.close(failure())
        machine.turn()
        assert client.take(0, "connection.close").reply_code == 320
        client.feed(sent[here + 60 :], method(0, "connection.close-ok"))
        assert client.connection.phase == CLOSED
        assert not client.alive()


def failure() -> AmqpError:
    return AmqpError(reply.CONNECTION_FORCED, "because")


@pytest.mark.rule("PB-1")
@pytest.mark.parametrize("step", [10_000, 100])
def test_the_size_limit_holds_also_below_the_frame_size(step: int) -> None:
    machine = Machine(SessionSettings(max_message_size=1000))
    client = machine.client()
    client.channel()
    client.queue("q")
    for size, refused in ((1000, False), (1001, True)):
        sent = publish(1, b"x" * size, "q")
        client.feed(*[sent[at : at + step] for at in range(0, len(sent), step)])
        closed = client.take_all("channel.close")
        assert [event.reply_code for event in closed] == [406] * refused
    assert ready(machine) == 1


@pytest.mark.rule("XC-8")
def test_a_body_in_pieces_is_routed_by_the_bindings_of_its_end(
    machine: Machine, client: Peer
) -> None:
    """Another connection binds while the body is on the way; the route before is not used."""
    client.queue("r")
    client.call(1, "queue.bind", queue="q", exchange="amq.fanout")
    body = b"x" * 10_000
    client.publish(1, body, "k", exchange="amq.fanout")
    sent = publish(1, body, "k", exchange="amq.fanout")
    client.feed(sent[:6000])
    other = machine.client()
    other.channel()
    other.call(1, "queue.bind", queue="r", exchange="amq.fanout")
    client.feed(sent[6000:])
    assert (ready(machine), ready(machine, "r")) == (2, 1)


@pytest.mark.rule("EX-2", "RC-2")
def test_a_failing_channel_swallows_the_rest_of_its_content(machine: Machine, client: Peer) -> None:
    machine.clock.now_ns += 1
    sent = publish(1, b"x" * 10_000, "q")
    client.feed(sent[:6000])
    client.connection.fail_channel(client.connection.channels[1], failure())
    client.feed(sent[6000:])
    assert client.take(1, "channel.close")
    client.send(1, "channel.close-ok")
    client.channel(1)
    client.publish(1, b"new", "q")
    assert ready(machine) == 1


@pytest.mark.rule("WI-2")
def test_a_large_body_in_tiny_frames_costs_memory_in_proportion(
    machine: Machine, client: Peer
) -> None:
    body = bytes(1000) * 100
    client.feed(
        method(1, "basic.publish", routing_key="q"),
        frame(FRAME_HEADER, 1, header_payload(len(body))),
    )
    for at in range(0, len(body) - 10, 10):
        client.feed(frame(FRAME_BODY, 1, body[at : at + 10]))
    channel = client.connection.channels[1]
    assert len(channel.chunks) <= len(body) / 4096 + 1
    client.feed(frame(FRAME_BODY, 1, body[-10:]))
    assert client.call(1, "basic.get", queue="q").body == body


@pytest.mark.rule("NG-3")
def test_the_negotiation_may_come_octet_by_octet(machine: Machine) -> None:
    peer = machine.peer()
    start = opening(heartbeat=7, frame_max=4096, channel_max=5)
    assert peer.connection.state() == "starting"
    states = []
    for place in range(len(start)):
        peer.feed(start[place : place + 1])
        if peer.connection.state() not in states:
            states.append(peer.connection.state())
    assert states == ["starting", "tuning", "opening", "running"]
    connection = peer.connection
    assert (connection.heartbeat_s, connection.frame_max, connection.channel_max) == (7, 4096, 5)
    assert peer.connection.capable("connection.blocked")


@pytest.mark.parametrize("sent", [b"AMQP\x00\x01\x00\x00", b"HTTP", b"GET / HT", b"A" * 8])
def test_another_protocol_is_answered_with_ours(machine: Machine, sent: bytes) -> None:
    for step in (1, 100):
        peer = machine.peer()
        peer.feed(*[sent[at : at + step] for at in range(0, len(sent), step)])
        assert peer.received == PROTOCOL_HEADER
        assert not peer.alive()


def test_a_handshake_that_takes_too_long_is_dropped(machine: Machine) -> None:
    peer = machine.peer()
    peer.feed(PROTOCOL_HEADER)
    machine.pass_time(9)
    assert peer.alive()
    machine.pass_time(2)
    assert not peer.alive()
    assert "connection.handshake_timeout" in machine.log.names()


@pytest.mark.rule("CT-1")
def test_a_delivery_that_is_not_acked_in_time_ends_its_channel() -> None:
    machine = Machine(SessionSettings(consumer_timeout_ms=10_000, channel_tick_ms=5_000))
    client = machine.client()
    client.channel()
    client.queue("q")
    client.publish(1, b"x", "q")
    client.consume("q")
    client.take(1, "basic.deliver")
    for _ in range(2):
        machine.pass_time(5)
        assert client.inbox == []
    machine.pass_time(5)
    assert client.take(1, "channel.close").reply_code == 406
    assert ready(machine) == 1


def test_a_reader_that_stops_stops_its_deliveries_and_nothing_else() -> None:
    machine = Machine(SessionSettings(unsent_bytes_max=10_000))
    slow, quick = machine.client(), machine.client()
    for client in (slow, quick):
        client.channel()
        queue = client.queue(exclusive=True)
        client.call(1, "queue.bind", queue=queue, exchange="amq.fanout")
        client.consume(queue, no_ack=True)
    slow.reads = False
    bodies = [b"%05d" % number * 20 for number in range(1000)]
    quick.feed(*[publish(1, body, "", exchange="amq.fanout") for body in bodies])
    assert [event.body for event in quick.take_all("basic.deliver")] == bodies
    assert slow.connection.output.size() <= 10_000 + 200
    slow.read_on()
    assert [event.body for event in slow.take_all("basic.deliver")] == bodies


@pytest.mark.rule("AU-1", "VH-1")
def test_the_default_user_logs_in_from_this_machine_only(machine: Machine) -> None:
    """And from it by whatever address; others are told what everybody is told."""
    for near in ("127.0.0.1", "127.8.9.10", "::1", "::ffff:127.0.0.1"):
        assert machine.peer(near).open().alive()
    far = machine.peer("192.0.2.1")
    far.feed(opening())
    close = far.take_all("connection.close")[0]
    assert (close.reply_code, close.reply_text[:35]) == (403, "ACCESS_REFUSED - Login was refused ")
    reasons = [
        fields["reason"] for _, name, fields in machine.log.events if name == "login.refused"
    ]
    assert reasons == ["loopback_only"]
