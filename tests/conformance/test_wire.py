"""Frames, content and field values on the wire (rules WI-1 to WI-6)."""

import struct
from typing import Any

import pytest

from tests.support.broker import Broker
from tests.support.channel import Channel
from tests.support.codec import (
    FRAME_BODY,
    FRAME_HEADER,
    FRAME_METHOD,
    PROTOCOL_HEADER,
    Typed,
    encode_properties,
    encode_table,
    frame,
    header_payload,
    long_string,
    short_string,
)
from tests.support.expectation import PeerClosed, starting
from tests.support.fixtures import Connect
from tests.support.methods import encode_method
from tests.support.wire import Client

ALL_PROPERTIES: dict[str, Any] = {
    "content_type": "text/plain",
    "content_encoding": "utf-8",
    "headers": {"one": 1},
    "delivery_mode": 2,
    "priority": 7,
    "correlation_id": "correlation",
    "reply_to": "reply",
    "expiration": "60000",
    "message_id": "message",
    "timestamp": 1700000000,
    "type": "kind",
    "user_id": "guest",
    "app_id": "application",
    "cluster_id": "cluster",
}

ALL_KINDS = {
    "S": Typed("S", b"text \xff\x00 and octets"),
    "I": Typed("I", -(2**31)),
    "D": Typed("D", (2, 31415)),
    "T": Typed("T", 2**40),
    "F": Typed("F", {"inner": Typed("t", True)}),
    "A": Typed("A", [Typed("I", 1), Typed("S", b"two"), Typed("A", [])]),
    "b": Typed("b", -128),
    "B": Typed("B", 255),
    "s": Typed("s", -32768),
    "u": Typed("u", 65535),
    "i": Typed("i", 2**32 - 1),
    "l": Typed("l", -(2**63)),
    "f": Typed("f", 0.5),
    "d": Typed("d", 1e300),
    "t": Typed("t", False),
    "x": Typed("x", b"\x00\xff"),
    "V": Typed("V", None),
}


def get(channel: Channel, queue: str) -> Any:
    message = channel.get(queue, no_ack=True)
    assert message is not None, "the queue is empty"
    return message


@pytest.mark.rule("WI-1")
def test_octets_may_come_one_by_one(connect: Connect) -> None:
    client = connect(dribble=True)
    channel = client.channel()
    queue = channel.queue_declare(exclusive=True).queue
    channel.publish(b"body", routing_key=queue, headers={"key": "value"})
    assert get(channel, queue).body == b"body"
    client.close()


@pytest.mark.rule("WI-1")
def test_many_frames_may_come_at_once(raw: Connect) -> None:
    """Everything from the header to the close in one piece, as far as no reply is needed."""
    client = raw()
    client.send_raw(
        PROTOCOL_HEADER
        + frame(FRAME_METHOD, 0, encode_method("connection.start-ok", response="\0guest\0guest"))
        + frame(FRAME_METHOD, 0, encode_method("connection.tune-ok", channel_max=9, frame_max=4096))
        + frame(FRAME_METHOD, 0, encode_method("connection.open"))
        + frame(FRAME_METHOD, 1, encode_method("channel.open"))
        + frame(FRAME_METHOD, 1, encode_method("queue.declare", exclusive=True))
        + frame(FRAME_METHOD, 1, encode_method("basic.publish", routing_key="nowhere"))
        + frame(FRAME_HEADER, 1, header_payload(5))
        + frame(FRAME_BODY, 1, b"12")
        + frame(FRAME_BODY, 1, b"345")
        + frame(FRAME_METHOD, 1, encode_method("channel.close"))
        + frame(FRAME_METHOD, 0, encode_method("connection.close"))
    )
    for name in (
        "connection.start",
        "connection.tune",
        "connection.open-ok",
        "channel.open-ok",
        "queue.declare-ok",
    ):
        client.expect(name)
    client.wait_for("connection.close-ok")  # The answer to channel.close may be overtaken.


@pytest.mark.rule("WI-1")
def test_a_heartbeat_frame_is_taken_at_any_time(client: Client, queue: str) -> None:
    client.send_heartbeat()
    client.send(1, "basic.publish", routing_key=queue)
    client.send_heartbeat()
    client.send_frame(FRAME_HEADER, 1, header_payload(2))
    client.send_heartbeat()
    client.send_frame(FRAME_BODY, 1, b"ab")
    client.send(1, "basic.get", queue=queue)
    assert client.expect("basic.get-ok", channel=1).body == b"ab"


@pytest.mark.rule("WI-2")
def test_a_body_of_size_zero_has_no_body_frame(channel: Channel, queue: str) -> None:
    channel.publish(b"", routing_key=queue)
    channel.publish(b"x", routing_key=queue)
    assert get(channel, queue).body_frames == ()
    assert get(channel, queue).body_frames == (1,)


@pytest.mark.rule("WI-2")
@pytest.mark.parametrize("size", [4087, 4088, 4089, 8176, 8177, 100_000])
def test_bodies_are_split_by_the_negotiated_frame_size(connect: Connect, size: int) -> None:
    client = connect(frame_max=4096)
    channel = client.channel()
    queue = channel.queue_declare(exclusive=True).queue
    body = bytes(range(256)) * (size // 256 + 1)
    channel.publish(body[:size], routing_key=queue)
    message = get(channel, queue)
    assert message.body == body[:size]
    whole, rest = divmod(size, 4088)
    assert message.body_frames == (4088,) * whole + ((rest,) if rest else ())


@pytest.mark.rule("WI-2")
def test_a_body_may_come_in_any_parts(channel: Channel, queue: str) -> None:
    """Unequal parts, and empty frames between them, make one body."""
    channel.send("basic.publish", routing_key=queue)
    channel.client.send_frame(FRAME_HEADER, channel.number, header_payload(10))
    for part in (b"1", b"", b"2345", b"", b"67890"):
        channel.client.send_frame(FRAME_BODY, channel.number, part)
    assert get(channel, queue).body == b"1234567890"


@pytest.mark.rule("WI-2")
def test_contents_of_two_channels_may_interleave(client: Client, queue: str) -> None:
    one, other = client.channel(), client.channel()
    for channel in (one, other):
        channel.send("basic.publish", routing_key=queue)
    for channel in (one, other):
        client.send_frame(FRAME_HEADER, channel.number, header_payload(4))
    for part in (b"ab", b"cd"):
        for channel, octets in ((one, part), (other, part.upper())):
            client.send_frame(FRAME_BODY, channel.number, octets)
    one.sync()
    other.sync()
    assert {get(one, queue).body, get(one, queue).body} == {b"abcd", b"ABCD"}


@pytest.mark.rule("WI-2")
def test_no_connection_gets_frames_above_its_own_size(connect: Connect, shared_queue: str) -> None:
    """Whatever the size of the frames in which the publisher sent it."""
    small, large = connect(frame_max=4096).channel(), connect(frame_max=131072).channel()
    for publisher in (small, large):
        for consumer, largest in ((small, 4088), (large, 131064)):
            publisher.publish(b"x" * 300_000, routing_key=shared_queue)
            publisher.sync()
            message = get(consumer, shared_queue)
            assert message.body == b"x" * 300_000
            assert all(0 < size <= largest for size in message.body_frames)


@pytest.mark.rule("WI-3")
def test_a_payload_of_frame_max_is_tolerated(connect: Connect) -> None:
    client = connect(frame_max=4096)
    channel = client.channel()
    queue = channel.queue_declare(exclusive=True).queue
    channel.publish(b"x" * 4096, routing_key=queue, part_size=4096)
    assert len(get(channel, queue).body) == 4096


@pytest.mark.rule("WI-3", "CE-27")
def test_a_larger_payload_is_refused(connect: Connect) -> None:
    client = connect(frame_max=4096)
    channel = client.channel()
    channel.publish(b"x" * 4097, routing_key="nowhere", part_size=4097)
    client.expect_close(501, starting("FRAME_ERROR - type 3"), method=(0, 0))


@pytest.mark.rule("WI-3")
def test_before_tuning_a_payload_of_4096_is_the_limit(raw: Connect) -> None:
    def start(octets: int) -> Client:
        client = raw()
        client.send_raw(PROTOCOL_HEADER)
        client.expect("connection.start")
        empty = len(encode_method("connection.start-ok", client_properties={"k": ""}, response="?"))
        client.send(
            0,
            "connection.start-ok",
            client_properties={"k": "x" * (octets - empty - 11)},
            response=b"\0guest\0guest",
            locale="en_US",
        )
        return client

    start(4096).expect("connection.tune")
    refused = start(4097)
    try:
        refused.expect_close(501, starting("FRAME_ERROR - type 1"), method=(0, 0), answer=False)
    except PeerClosed:
        return  # The reference says nothing before the connection is open.


@pytest.mark.rule("WI-4")
def test_properties_pass_unchanged(channel: Channel, queue: str) -> None:
    raw = encode_properties(ALL_PROPERTIES)
    channel.publish(b"", routing_key=queue, raw_properties=raw)
    message = get(channel, queue)
    assert message.raw_properties == raw
    assert message.properties == ALL_PROPERTIES


@pytest.mark.rule("WI-4")
@pytest.mark.parametrize("name", list(ALL_PROPERTIES))
def test_each_property_alone_passes(channel: Channel, queue: str, name: str) -> None:
    channel.publish(b"", routing_key=queue, **{name: ALL_PROPERTIES[name]})
    assert get(channel, queue).properties == {name: ALL_PROPERTIES[name]}


@pytest.mark.rule("WI-5")
@pytest.mark.parametrize("kind", list(ALL_KINDS))
def test_each_field_kind_passes_octet_by_octet(channel: Channel, queue: str, kind: str) -> None:
    raw = encode_properties({"headers": {"field": ALL_KINDS[kind]}})
    channel.publish(b"", routing_key=queue, raw_properties=raw)
    message = get(channel, queue)
    assert message.raw_properties == raw
    assert message.typed_headers == {"field": ALL_KINDS[kind]}


@pytest.mark.rule("WI-5")
def test_the_order_of_unchanged_headers_is_kept(channel: Channel, queue: str) -> None:
    raw = encode_properties({"headers": {"z": 1, "a": 2, "m": 3}})
    channel.publish(b"", routing_key=queue, raw_properties=raw)
    assert list(get(channel, queue).headers) == ["z", "a", "m"]


@pytest.mark.rule("WI-5", "PB-4")
def test_every_field_kind_survives_a_rewrite_of_the_headers(channel: Channel, queue: str) -> None:
    """Taking out BCC makes a new table; its order is not promised."""
    headers = {"z": Typed("I", 1), **ALL_KINDS}
    channel.publish(b"", routing_key=queue, headers={**headers, "BCC": ["nowhere"]})
    assert get(channel, queue).typed_headers == headers


@pytest.mark.rule("WI-5")
def test_every_field_kind_is_read_in_declare_arguments(channel: Channel) -> None:
    """`L` is read like `l`; arguments nobody knows are kept without a word."""
    arguments = {**ALL_KINDS, "L": Typed("L", 2**62)}
    channel.queue_declare(exclusive=True, arguments=arguments)


@pytest.mark.rule("WI-5", "CE-29")
@pytest.mark.parametrize(
    "table",
    [
        pytest.param(long_string(short_string("key") + b"?"), id="unknown-kind"),
        pytest.param(long_string(short_string("key") + b"I\0"), id="cut-short"),
        pytest.param(long_string(b"\x10k"), id="key-beyond-the-end"),
        pytest.param(b"\xff\xff\xff\xff", id="table-beyond-the-end"),
        pytest.param(
            long_string(short_string("key") + b"S\xff\xff\xff\xff"), id="string-beyond-the-end"
        ),
    ],
)
def test_a_malformed_table_is_refused(client: Client, channel: Channel, table: bytes) -> None:
    """A close with a code about syntax; the reference closes the socket without a word."""
    arguments = struct.pack(">H", 0) + short_string("queue") + b"\0" + table
    client.send_method(channel.number, 50, 10, arguments)
    try:
        close = client.next_event(channel=0)
    except PeerClosed:
        return
    assert close.name == "connection.close"
    assert close.reply_code in (501, 502)
    assert close.reply_text.startswith(("FRAME_ERROR - ", "SYNTAX_ERROR - "))


@pytest.mark.rule("WI-6")
def test_a_short_string_holds_255_octets(channel: Channel, unique: Any) -> None:
    name = "é" * 127 + "x"
    assert len(name.encode()) == 255
    assert channel.queue_declare(name, exclusive=True).queue == name


@pytest.mark.rule("WI-6", "CE-28")
@pytest.mark.parametrize("text", [b"\xff", b"caf\xe9", b"\xc3", b"a\xc0\xafb"])
def test_malformed_utf8_in_a_short_string(client: Client, channel: Channel, text: bytes) -> None:
    channel.send("queue.declare", queue=text, exclusive=True)
    client.expect_close(501, "FRAME_ERROR - Malformed UTF-8 in shortstr")


@pytest.mark.rule("WI-6", "CE-28")
@pytest.mark.differs_from_reference("it takes surrogate halves for characters")
def test_surrogate_halves_are_malformed(client: Client, channel: Channel) -> None:
    channel.send("queue.declare", queue=b"\xed\xa0\x80", exclusive=True)
    client.expect_close(501, "FRAME_ERROR - Malformed UTF-8 in shortstr")


@pytest.mark.rule("WI-6")
def test_long_strings_are_opaque(channel: Channel, queue: str) -> None:
    value = bytes(range(256))
    channel.publish(b"", routing_key=queue, headers={"octets": value})
    assert get(channel, queue).typed_headers == {"octets": Typed("S", value)}


@pytest.mark.rule("WI-6")
def test_routing_keys_need_not_be_ascii(channel: Channel, broker: Broker) -> None:
    queue = channel.queue_declare("очередь", exclusive=True).queue
    channel.publish(b"", routing_key=queue)
    assert get(channel, queue).routing_key == "очередь"


def test_the_table_encoder_of_these_tests_is_right() -> None:
    """A worked example by hand, so that a slip in the oracle is not blamed on the broker."""
    assert encode_table({"a": 1}) == b"\0\0\0\x07\x01aI\0\0\0\x01"
