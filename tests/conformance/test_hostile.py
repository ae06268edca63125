"""Peers that break the rules on purpose: the right error, and nobody else suffers.

During each attack a bystander publishes and consumes on a connection of its own; afterwards the
broker's memory is back near where it was.
"""

import socket
import struct
import time
from collections.abc import Callable, Iterator
from typing import Final

import pytest

from tests.support.broker import Broker
from tests.support.bystander import Bystander
from tests.support.channel import Channel
from tests.support.codec import (
    FRAME_BODY,
    FRAME_HEADER,
    FRAME_HEARTBEAT,
    FRAME_METHOD,
    PROTOCOL_HEADER,
    frame,
    header_payload,
    long_string,
    short_string,
)
from tests.support.expectation import NothingCame, PeerClosed, Unexpected, starting
from tests.support.fixtures import Connect, StartBroker, StartTimed
from tests.support.methods import encode_method
from tests.support.wire import Client

# What an attack may leave behind: buffers of the allocator and of the bystander, but nothing that
# grows with what the attacker sends.
RSS_GROWTH_MAX: Final = 32 * 1024 * 1024


@pytest.fixture(autouse=True)
def _nobody_suffers(broker: Broker) -> Iterator[None]:
    before = broker.rss()
    with Bystander(broker):
        yield
    after = broker.rss()
    if before is not None and after is not None:
        assert after - before < RSS_GROWTH_MAX, f"grew from {before} to {after} octets"


def send_all(client: Client, data: bytes) -> bool:
    """Send as much as the broker takes; return whether it took everything."""
    client.socket.settimeout(2)
    try:
        client.socket.sendall(data)
    except (TimeoutError, ConnectionError):
        return False
    return True


def expect_end(client: Client, *codes: int) -> None:
    """Demand the end of the connection: by a close with one of the codes, or of the socket."""
    try:
        close = client.next_event(channel=0)
    except Unexpected:
        assert client.closed, "neither closed nor told"
        return
    assert close.name == "connection.close", str(close)
    assert close.reply_code in codes, str(close)


@pytest.mark.rule("NG-1")
def test_a_port_scanner(raw: Connect) -> None:
    """A TLS greeting, HTTP, nothing at all, many times over."""
    for greeting in (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03", b"GET / HTTP/1.1\r\n\r\n", b""):
        for _ in range(30):
            client = raw()
            client.send_raw(greeting)
            if greeting:
                assert client.read_octets(8) == PROTOCOL_HEADER
            client.drop()


@pytest.mark.rule("NG-2")
def test_a_handshake_drop_by_drop(start_timed: StartTimed) -> None:
    """Octets that keep coming do not put off the end of the handshake time."""
    broker = start_timed(handshake_timeout=1000)
    client = broker.raw()
    properties = {"filler": "x" * 3000}
    payload = encode_method("connection.start-ok", client_properties=properties)
    start_ok = frame(FRAME_METHOD, 0, payload)
    sent = 0
    try:
        for octet in PROTOCOL_HEADER + start_ok:
            client.socket.sendall(bytes([octet]))
            broker.pass_time(0.1)
            sent += 1
    except ConnectionError:
        pass
    assert 9 <= sent <= 30


@pytest.mark.rule("NG-2")
def test_connections_that_say_nothing(raw: Connect, connect: Connect) -> None:
    silent = [raw() for _ in range(200)]
    connect().close()
    for client in silent:
        client.drop()


@pytest.mark.rule("WI-3", "CE-27")
@pytest.mark.parametrize("kind", [FRAME_METHOD, FRAME_HEADER, FRAME_BODY, FRAME_HEARTBEAT])
def test_a_frame_of_4_gigabytes_is_refused_by_its_head(client: Client, kind: int) -> None:
    """At once, without waiting for the payload."""
    client.channel()
    client.send_raw(struct.pack(">BHI", kind, 1, 0xFFFFFFFF))
    client.expect_close(501, starting(f"FRAME_ERROR - type {kind}, "), within=3, answer=False)


@pytest.mark.rule("WI-3")
def test_a_frame_of_4_gigabytes_before_login(raw: Connect) -> None:
    client = raw()
    client.send_raw(PROTOCOL_HEADER)
    client.expect("connection.start")
    client.send_raw(struct.pack(">BHI", FRAME_METHOD, 0, 0xFFFFFFFF) + b"x" * 100_000)
    expect_end(client, 501)


@pytest.mark.rule("CE-25", "CE-26")
@pytest.mark.parametrize("seed", range(8))
def test_garbage_after_open(client: Client, seed: int) -> None:
    client.channel()
    garbage = b"".join(
        struct.pack(">I", (seed + place) * 2654435761 % 2**32) for place in range(32768)
    )
    send_all(client, garbage)
    expect_end(client, 501, 505)


@pytest.mark.rule("CE-25")
def test_ten_thousand_frames_of_junk(client: Client) -> None:
    send_all(client, frame(99, 1, b"") * 10_000)
    expect_end(client, 501)


@pytest.mark.rule("WI-1")
def test_ten_thousand_heartbeats_are_no_offence(client: Client) -> None:
    client.send_raw(frame(FRAME_HEARTBEAT, 0, b"") * 10_000)
    client.channel()


@pytest.mark.rule("WI-2")
def test_ten_thousand_empty_body_frames(client: Client, channel: Channel, queue: str) -> None:
    channel.send("basic.publish", routing_key=queue)
    client.send_frame(FRAME_HEADER, 1, header_payload(2))
    client.send_raw(frame(FRAME_BODY, 1, b"") * 10_000 + frame(FRAME_BODY, 1, b"ok"))
    assert channel.get(queue).body == b"ok"


@pytest.mark.rule("CE-29", "MT-10")
@pytest.mark.parametrize("kind", [FRAME_METHOD, FRAME_HEADER])
@pytest.mark.parametrize("payload", [b"", b"\0", b"\0\x3c\0"], ids=["0", "1", "3"])
def test_a_frame_too_short_to_mean_anything(
    client: Client, channel: Channel, kind: int, payload: bytes
) -> None:
    if kind == FRAME_HEADER:
        channel.send("basic.publish")
    client.send_frame(kind, channel.number, payload)
    expect_end(client, 501, 502, 503, 505)


@pytest.mark.rule("CE-29")
@pytest.mark.parametrize("cut", [1, 5, 11])
def test_arguments_cut_short(client: Client, channel: Channel, cut: int) -> None:
    payload = encode_method("queue.declare", queue="cut", exclusive=True)
    client.send_frame(FRAME_METHOD, channel.number, payload[:-cut])
    expect_end(client, 501, 502)


@pytest.mark.rule("CE-13", "CE-19")
@pytest.mark.parametrize("kind", [FRAME_HEADER, FRAME_BODY])
def test_content_for_a_channel_never_opened(client: Client, kind: int) -> None:
    client.channel(1)
    client.send_frame(kind, 77, header_payload(1))
    expect_end(client, 504, 505)


@pytest.mark.rule("CE-22", "MT-10")
@pytest.mark.parametrize(
    "intruder",
    [
        frame(FRAME_METHOD, 1, encode_method("basic.publish")),
        frame(FRAME_METHOD, 1, encode_method("channel.close")),
        frame(FRAME_METHOD, 1, struct.pack(">HH", 6000, 6000)),
        frame(FRAME_HEADER, 1, header_payload(1)),
    ],
    ids=["publish", "close", "unknown", "header"],
)
def test_content_interrupted(client: Client, channel: Channel, intruder: bytes) -> None:
    channel.send("basic.publish", routing_key="nowhere")
    client.send_frame(FRAME_HEADER, 1, header_payload(100))
    client.send_frame(FRAME_BODY, 1, b"part")
    client.send_raw(intruder)
    expect_end(client, 505, 503)


@pytest.mark.rule("CE-22")
@pytest.mark.differs_from_reference("it waits for a size that is never reached again")
def test_more_body_than_was_announced(client: Client, channel: Channel) -> None:
    channel.send("basic.publish", routing_key="nowhere")
    client.send_frame(FRAME_HEADER, 1, header_payload(3))
    client.send_frame(FRAME_BODY, 1, b"12345")
    client.send_frame(FRAME_BODY, 1, b"6")
    expect_end(client, 501, 505)


@pytest.mark.rule("PB-1")
@pytest.mark.parametrize("size", [2**64 - 1, 2**63, 2**40])
def test_an_absurd_body_size(client: Client, channel: Channel, size: int) -> None:
    """Nothing is set aside for it. It may be waited for or refused, but not forgotten."""
    channel.send("basic.publish", routing_key="nowhere")
    client.send_frame(FRAME_HEADER, 1, header_payload(size))
    client.send_frame(FRAME_BODY, 1, b"part")
    try:
        event = client.next_event(within=0.5)
    except NothingCame:
        client.channel()
        return
    assert event.name in ("channel.close", "connection.close")
    assert event.reply_code in (406, 501)


@pytest.mark.slow
@pytest.mark.rule("PB-1", "CH-29")
def test_a_body_far_above_the_limit_is_not_kept(start_broker: StartBroker) -> None:
    """Sixty times the limit goes in; the broker drops it as it comes."""
    broker = start_broker(settings={"max_message_size": 1_000_000})
    before = broker.rss()
    client = broker.connect()
    channel = client.channel()
    channel.publish(b"x" * 60_000_000, routing_key="nowhere")
    peak = broker.rss()
    text = "message size 60000000 is larger than configured max size 1000000"
    channel.expect_close(406, f"PRECONDITION_FAILED - {text}", method="basic.publish")
    if before is not None and peak is not None:
        assert peak - before < RSS_GROWTH_MAX
    client.close()


def deep_table(levels: int) -> bytes:
    """Return the body of a table that holds a table that holds a table..."""
    inner = b""
    for _ in range(levels):
        inner = short_string("k") + b"F" + long_string(inner)
    return inner


def deep_array(levels: int) -> bytes:
    inner = b""
    for _ in range(levels):
        inner = b"A" + long_string(inner)
    return short_string("k") + inner


@pytest.mark.rule("WI-5", "CE-29")
@pytest.mark.parametrize("make", [deep_table, deep_array])
@pytest.mark.parametrize("levels", [100, 10_000])
def test_deep_tables(
    client: Client, channel: Channel, make: Callable[[int], bytes], levels: int
) -> None:
    """A broker may set a limit, if it says so; it must not fall over."""
    channel.send("queue.declare", exclusive=True, arguments=make(levels))
    event = client.next_event()
    if event.name != "queue.declare-ok":
        assert event.name == "connection.close"
        assert event.reply_code in (501, 502)


@pytest.mark.rule("WI-5")
@pytest.mark.parametrize("make", [deep_table, deep_array])
def test_deep_tables_in_headers_pass_or_are_refused(
    client: Client, channel: Channel, queue: str, make: Callable[[int], bytes]
) -> None:
    """Through a headers exchange, which must look into them."""
    channel.queue_bind(queue, "amq.headers", arguments={"x-match": "any", "k": "v"})
    headers = struct.pack(">H", 1 << 13) + long_string(make(5_000))
    channel.publish(b"x", exchange="amq.headers", raw_properties=headers)
    channel.send("channel.flow", active=True)
    event = client.next_event()
    if event.name != "channel.flow-ok":
        assert event.name == "connection.close"
        assert event.reply_code in (501, 502)


@pytest.mark.rule("WI-4")
@pytest.mark.parametrize(
    "octets",
    [
        pytest.param(b"", id="no-flags"),
        pytest.param(b"\xff\xff", id="all-flags-nothing-else"),
        pytest.param(b"\x80\x00\xffabc", id="string-beyond-the-end"),
        pytest.param(b"\x20\x00\xff\xff\xff\xff", id="table-beyond-the-end"),
    ],
)
@pytest.mark.parametrize("exchange", ["", "amq.headers"], ids=["default", "headers"])
def test_malformed_properties(
    broker: Broker, client: Client, channel: Channel, queue: str, octets: bytes, exchange: str
) -> None:
    """They must not reach a consumer, whether or not routing looks into them."""
    channel.publish(b"x", exchange=exchange, routing_key=queue, raw_properties=octets)
    channel.send("basic.get", queue=queue)
    expect_end(client, *([541] if broker.is_reference else [501, 502]))


@pytest.mark.slow
@pytest.mark.rule("TU-1", "CE-6")
def test_a_flood_of_channels(client: Client) -> None:
    opens = [
        frame(FRAME_METHOD, number, encode_method("channel.open")) for number in range(1, 2049)
    ]
    client.send_raw(b"".join(opens))
    client.wait = 30
    client.expect_close(
        530,
        starting("NOT_ALLOWED - number of channels opened (2047) has reached the negotiated "),
    )


@pytest.mark.slow
@pytest.mark.rule("MT-2")
def test_channels_opened_and_closed_over_and_over(client: Client) -> None:
    for _ in range(1000):
        client.channel(1).close()


@pytest.mark.slow
@pytest.mark.rule("EX-4")
def test_connections_opened_and_dropped_over_and_over(connect: Connect) -> None:
    for _ in range(100):
        client = connect()
        client.channel().queue_declare(exclusive=True)
        client.drop()


@pytest.mark.slow
@pytest.mark.rule("MT-2")
def test_a_peer_that_asks_and_never_reads(connect: Connect) -> None:
    """The broker stops reading from it instead of keeping its answers without end."""
    client = connect()
    client.channel()
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    requests = frame(FRAME_METHOD, 1, encode_method("channel.flow", active=True)) * 10_000
    taken = 0
    while taken < 100 and send_all(client, requests):
        taken += 1
    client.drop()


@pytest.mark.slow
@pytest.mark.rule("MT-6")
def test_a_consumer_that_never_reads(connect: Connect, channel: Channel, queue: str) -> None:
    """What it cannot take stays in the queue, and the others are served."""
    lazy = connect().channel()
    shared = lazy.queue_declare(exclusive=True).queue
    lazy.send("basic.consume", queue=shared, no_ack=True)
    for _ in range(20):
        channel.publish(b"x" * 1_000_000, routing_key=shared)
    channel.sync()
    channel.publish(b"served", routing_key=queue)
    assert channel.get(queue).body == b"served"


@pytest.mark.rule("WI-1", "EX-4")
def test_a_connection_that_breaks_off_anywhere(raw: Connect, shared_queue: str) -> None:
    """After any number of octets of a session; half a message is no message."""
    session = (
        PROTOCOL_HEADER
        + frame(FRAME_METHOD, 0, encode_method("connection.start-ok", response="\0guest\0guest"))
        + frame(FRAME_METHOD, 0, encode_method("connection.tune-ok", channel_max=9, frame_max=4096))
        + frame(FRAME_METHOD, 0, encode_method("connection.open"))
        + frame(FRAME_METHOD, 1, encode_method("channel.open"))
        + frame(FRAME_METHOD, 1, encode_method("basic.publish", routing_key=shared_queue))
        + frame(FRAME_HEADER, 1, header_payload(10))
        + frame(FRAME_BODY, 1, b"0123456789")
    )
    for cut in range(1, len(session), 3):
        client = raw()
        client.send_raw(session[:cut])
        client.drop()
    last = raw().open().channel()
    assert last.get(shared_queue) is None


def test_the_socket_is_closed_after_the_refusal(client: Client) -> None:
    client.send_frame(FRAME_BODY, 0, b"")
    client.expect_close(505, starting("UNEXPECTED_FRAME - "))
    with pytest.raises(PeerClosed):
        client.receive(time.monotonic() + 5)
