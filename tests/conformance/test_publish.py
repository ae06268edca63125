"""basic.publish: content passed on unchanged, returns, CC and BCC, order (6.1)."""

from typing import Any

import pytest

from tests.conformance.test_exchange import bodies
from tests.support.channel import Channel
from tests.support.codec import Typed, decode_properties, encode_properties
from tests.support.expectation import starting
from tests.support.fixtures import Connect

EVERY_PROPERTY = {
    "content_type": "text/plain; charset=utf-8",
    "content_encoding": "gzip",
    "headers": {
        "z": "first on purpose",
        "S": Typed("S", b"\x00\xff not utf-8"),
        "I": Typed("I", -(2**31)),
        "D": Typed("D", (3, 4_000_000_000)),
        "T": Typed("T", 2**40),
        "F": {"inner": {"deeper": [1, {"x": None}]}},
        "A": [1, "two", 3.0, True, None, [[]]],
        "b": Typed("b", -128),
        "B": Typed("B", 255),
        "s": Typed("s", -(2**15)),
        "u": Typed("u", 65535),
        "i": Typed("i", 2**32 - 1),
        "l": Typed("l", -(2**63)),
        "f": Typed("f", 0.5),
        "d": Typed("d", -1e300),
        "t": False,
        "x": Typed("x", bytes(range(256))),
        "V": None,
        "": "no name",
    },
    "delivery_mode": 2,
    "priority": 255,
    "correlation_id": "ö" * 127,
    "reply_to": "amq.rabbitmq.reply-to-me",
    "expiration": "60000",
    "message_id": "",
    "timestamp": 2**64 - 1,
    "type": "type",
    "user_id": "guest",
    "app_id": "app",
    "cluster_id": "cluster",
}


@pytest.mark.rule("PB-5", "WI-4", "WI-5")
@pytest.mark.parametrize("mandatory", [False, True])
def test_every_property_comes_out_byte_for_byte(
    channel: Channel, queue: str, mandatory: bool
) -> None:
    raw = encode_properties(EVERY_PROPERTY)
    for body in (b"", b"body"):
        channel.publish(body, routing_key=queue, raw_properties=raw, mandatory=mandatory)
        got = channel.get(queue)
        assert (got.raw_properties, got.body) == (raw, body)
        channel.nack(got.delivery_tag)
        again = channel.get(queue, no_ack=True)
        assert (again.raw_properties, again.body, again.redelivered) == (raw, body, True)
    channel.consume(queue, no_ack=True)
    channel.publish(b"x", routing_key=queue, raw_properties=raw, mandatory=mandatory)
    assert channel.recv_delivery().raw_properties == raw


@pytest.mark.rule("PB-5", "PB-3")
def test_a_return_carries_the_content_unchanged(channel: Channel) -> None:
    raw = encode_properties(EVERY_PROPERTY)
    for body in (b"", b"y" * 300_000):
        channel.publish(body, routing_key="nobody", raw_properties=raw, mandatory=True)
        back = channel.expect(
            "basic.return", reply_code=312, reply_text="NO_ROUTE", exchange="", routing_key="nobody"
        )
        assert (back.raw_properties, back.body) == (raw, body)


@pytest.mark.rule("PB-5")
@pytest.mark.parametrize("name", sorted(EVERY_PROPERTY))
def test_each_property_alone(channel: Channel, queue: str, name: str) -> None:
    raw = encode_properties({name: EVERY_PROPERTY[name]})
    channel.publish(b"x", routing_key=queue, raw_properties=raw)
    assert channel.get(queue, no_ack=True).raw_properties == raw


@pytest.mark.rule("PB-5")
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"same": 1},
        {"b": 1, "a": 2, "": {}},
        {"many": [[[[[[[[1]]]]]]]]},
    ],
    ids=str,
)
def test_headers_are_not_put_in_order(
    channel: Channel, queue: str, headers: dict[str, Any]
) -> None:
    raw = encode_properties({"headers": headers})
    for exchange in ("", "amq.headers"):
        if exchange:
            channel.queue_bind(queue, exchange)
        channel.publish(b"x", exchange=exchange, routing_key=queue, raw_properties=raw)
        assert channel.get(queue, no_ack=True).raw_properties == raw


@pytest.mark.rule("PB-3")
def test_only_mandatory_messages_are_returned(channel: Channel, queue: str) -> None:
    channel.publish(b"1", routing_key="nobody")
    channel.publish(b"2", exchange="amq.direct", routing_key="nobody", mandatory=True)
    channel.publish(b"3", routing_key=queue, mandatory=True)
    back = channel.expect("basic.return", exchange="amq.direct", routing_key="nobody")
    assert back.body == b"2"
    assert bodies(channel, queue) == [b"3"]
    assert channel.client.inbox == []


@pytest.mark.rule("PB-3")
def test_returns_come_in_order(channel: Channel) -> None:
    for number in range(50):
        channel.publish(b"%d" % number, routing_key=f"nobody {number % 3}", mandatory=True)
    for number in range(50):
        back = channel.expect("basic.return", routing_key=f"nobody {number % 3}")
        assert back.body == b"%d" % number


@pytest.mark.rule("PB-3")
def test_a_route_that_appears_and_goes(channel: Channel, unique: Any) -> None:
    """What was found for the last message is not true for ever."""
    name = unique("q")
    for _ in range(3):
        channel.publish(b"early", routing_key=name, mandatory=True)
        channel.expect("basic.return", routing_key=name)
        channel.queue_declare(name)
        channel.publish(b"on time", routing_key=name, mandatory=True)
        assert channel.get(name).body == b"on time"
        channel.queue_delete(name)


@pytest.mark.rule("PB-4")
@pytest.mark.parametrize("header", ["CC", "BCC"])
def test_further_keys_in_headers(channel: Channel, header: str) -> None:
    first, second, third = (channel.queue_declare(exclusive=True).queue for _ in range(3))
    headers = {"z": 1, header: [second, third, "nobody"], "a": 2}
    channel.publish(b"x", routing_key=first, headers=headers)
    left = {"z": 1, "a": 2} | ({"CC": headers["CC"]} if header == "CC" else {})
    for queue in (first, second, third):
        got = channel.get(queue)
        assert (got.body, got.exchange, got.routing_key) == (b"x", "", first)
        assert got.headers == left
        assert channel.get(queue) is None


@pytest.mark.rule("PB-4")
def test_a_message_reaches_a_queue_once_whatever_its_keys(channel: Channel, queue: str) -> None:
    """Trap 21."""
    channel.publish(b"x", routing_key=queue, headers={"CC": [queue, queue], "BCC": [queue]})
    assert bodies(channel, queue) == [b"x"]


@pytest.mark.rule("PB-4")
def test_a_message_with_only_blind_copies(channel: Channel, queue: str) -> None:
    """Trap 20: nobody sees the blind copies, nor which key they came by."""
    content: dict[str, Any] = {"headers": {"BCC": [queue]}, "content_type": "x", "message_id": "m"}
    channel.publish(b"x", routing_key="nobody", mandatory=True, **content)
    channel.sync()
    got = channel.get(queue)
    assert got.routing_key == "nobody"
    assert got.properties == {"headers": {}, "content_type": "x", "message_id": "m"}


@pytest.mark.rule("PB-4", "PB-3")
def test_copies_to_nobody_are_returned_without_the_blind_ones(channel: Channel) -> None:
    headers = {"CC": ["nobody 2"], "BCC": ["nobody 3"]}
    channel.publish(b"x", routing_key="nobody 1", headers=headers, mandatory=True)
    back = channel.expect("basic.return", routing_key="nobody 1")
    assert back.headers == {"CC": ["nobody 2"]}


@pytest.mark.rule("PB-4", "PB-5")
def test_headers_left_after_blind_copies_keep_their_order(channel: Channel, queue: str) -> None:
    headers = {"b": Typed("s", 1), "BCC": ["x"], "a": Typed("f", 0.5), "B": None}
    channel.publish(b"x", routing_key=queue, headers=headers, priority=3)
    raw = channel.get(queue).raw_properties
    left = {"b": Typed("s", 1), "a": Typed("f", 0.5), "B": None}
    assert raw == encode_properties({"headers": left, "priority": 3})


@pytest.mark.rule("PB-4")
def test_copies_by_topic_and_by_direct(channel: Channel, unique: Any) -> None:
    topic, direct = unique("x"), unique("x")
    channel.exchange_declare(topic, "topic")
    channel.exchange_declare(direct, "direct")
    one, two = (channel.queue_declare(exclusive=True).queue for _ in range(2))
    for exchange in (topic, direct):
        channel.queue_bind(one, exchange, "a.b")
        channel.queue_bind(two, exchange, "c.d")
        headers = {"CC": ["c.d"], "BCC": []}
        channel.publish(b"x", exchange=exchange, routing_key="a.b", headers=headers)
        assert bodies(channel, one) == bodies(channel, two) == [b"x"]
        channel.publish(b"y", exchange=exchange, routing_key="z", headers=headers)
        assert (bodies(channel, one), bodies(channel, two)) == ([], [b"y"])


@pytest.mark.rule("PB-4")
def test_header_names_count_in_upper_case_only(channel: Channel, queue: str) -> None:
    headers = {"cc": [queue], "Bcc": [queue], "bcc": "no array"}
    channel.publish(b"x", routing_key="nobody", headers=headers, mandatory=True)
    back = channel.expect("basic.return", routing_key="nobody")
    assert back.headers == headers


@pytest.mark.rule("PB-6")
def test_order_over_several_exchanges(channel: Channel, queue: str, unique: Any) -> None:
    fanout, topic = unique("x"), unique("x")
    channel.exchange_declare(fanout, "fanout")
    channel.exchange_declare(topic, "topic")
    channel.exchange_bind(topic, fanout)
    channel.queue_bind(queue, topic, "#")
    channel.queue_bind(queue, "amq.headers", arguments={"n": None})
    ways: list[dict[str, Any]] = [
        {"routing_key": queue},
        {"exchange": fanout},
        {"exchange": topic, "routing_key": "a.b"},
        {"exchange": "amq.headers", "headers": {"n": 1}},
        {"routing_key": "nobody", "headers": {"BCC": [queue]}},
    ]
    for number in range(500):
        size = (0, 10, 5000, 200_000)[number % 4] if number % 7 == 0 else 3
        body = (b"%d," % number).ljust(size, b".")
        channel.publish(body, **ways[number * number % len(ways)])
    found = [int(body.split(b",")[0]) for body in bodies(channel, queue)]
    assert found == list(range(500))


@pytest.mark.rule("PB-7")
@pytest.mark.parametrize("mandatory", [False, True])
def test_immediate_is_not_implemented(channel: Channel, queue: str, mandatory: bool) -> None:
    channel.publish(b"x", routing_key=queue, immediate=True, mandatory=mandatory)
    channel.client.expect_close(540, "NOT_IMPLEMENTED - immediate=true", method="basic.publish")


@pytest.mark.rule("PB-2")
def test_the_own_user_id_is_passed_on(channel: Channel, queue: str) -> None:
    channel.publish(b"x", routing_key=queue, user_id="guest")
    assert channel.get(queue).properties == {"user_id": "guest"}


@pytest.mark.rule("PB-1")
@pytest.mark.parametrize(
    ("exchange", "properties", "code", "text"),
    [
        ("missing", {"user_id": "me", "expiration": "x"}, 404, "NOT_FOUND - no exchange"),
        ("amq.rabbitmq.trace", {"user_id": "me"}, 403, "ACCESS_REFUSED - cannot publish to"),
        ("", {"user_id": "me", "expiration": "x"}, 406, "PRECONDITION_FAILED - user_id property"),
        ("", {"expiration": "x", "delivery_mode": 9}, 406, "PRECONDITION_FAILED - invalid expi"),
        ("", {"expiration": "x", "headers": {"CC": 1}}, 406, "PRECONDITION_FAILED - invalid expi"),
    ],
    ids=str,
)
def test_the_order_of_checks(
    channel: Channel, exchange: str, properties: dict[str, Any], code: int, text: str
) -> None:
    channel.publish(b"x", exchange=exchange, **properties)
    channel.expect_close(code, starting(text), method="basic.publish")


@pytest.mark.rule("PB-1", "EX-2")
def test_nothing_of_a_refused_publish_is_left(channel: Channel, shared_queue: str) -> None:
    channel.publish(b"good", routing_key=shared_queue)
    channel.publish(b"bad", routing_key=shared_queue, expiration="x")
    channel.publish(b"ignored", routing_key=shared_queue)
    channel.expect_close(406, starting("PRECONDITION_FAILED - invalid expiration"))
    again = channel.reopen()
    again.publish(b"good too", routing_key=shared_queue)
    assert bodies(again, shared_queue) == [b"good", b"good too"]


@pytest.mark.rule("WI-2", "PB-5")
@pytest.mark.parametrize("size", [0, 1, 4087, 4088, 4089, 8176, 131_064, 131_065, 1_000_000])
@pytest.mark.parametrize("part_size", [None, 1000, 131_064])
def test_bodies_cross_between_frame_sizes(
    connect: Connect, channel: Channel, shared_queue: str, size: int, part_size: int | None
) -> None:
    """Published in frames of one size, delivered and returned in frames of another."""
    body = bytes(range(256)) * (size // 256 + 1)
    body = body[:size]
    narrow = connect(frame_max=4096).channel()
    narrow.consume(shared_queue, no_ack=True)
    channel.publish(body, routing_key=shared_queue, part_size=part_size)
    delivery = narrow.recv_delivery()
    assert delivery.body == body
    assert all(0 < part <= 4088 for part in delivery.body_frames)
    if size <= channel.client.frame_max and (part_size is None or size <= part_size):
        assert delivery.body_frames == tuple(min(4088, size - at) for at in range(0, size, 4088))
    narrow.publish(body, routing_key="nobody", mandatory=True)
    assert narrow.expect("basic.return").body == body


@pytest.mark.rule("WI-2")
def test_empty_body_frames_in_between(channel: Channel, queue: str) -> None:
    channel.send("basic.publish", routing_key=queue)
    client = channel.client
    client.send_content(channel.number, b"")
    channel.send("basic.publish", routing_key=queue)
    client.send_frame(2, channel.number, b"\x00\x3c\x00\x00" + (4).to_bytes(8, "big") + b"\x00\x00")
    for part in (b"", b"ab", b"", b"", b"cd"):
        client.send_frame(3, channel.number, part)
    assert bodies(channel, queue) == [b"", b"abcd"]


@pytest.mark.rule("WI-2")
def test_contents_of_several_channels_interleave(channel: Channel, queue: str) -> None:
    channels = [channel, *(channel.client.channel() for _ in range(3))]
    for each in channels:
        each.send("basic.publish", routing_key=queue)
    head = b"\x00\x3c\x00\x00" + (6).to_bytes(8, "big") + b"\x00\x00"
    for each in channels:
        each.client.send_frame(2, each.number, head)
    for _ in range(3):
        for each in channels:
            each.client.send_frame(3, each.number, b"%d%d" % (each.number, each.number))
    for each in channels:
        each.sync()
    expected = {b"%d" % each.number * 6 for each in channels}
    assert set(bodies(channel, queue)) == expected


def test_the_oracle_reads_what_it_writes() -> None:
    assert encode_properties(decode_properties(encode_properties(EVERY_PROPERTY), typed=True)) == (
        encode_properties(EVERY_PROPERTY)
    )


@pytest.mark.rule("PB-4")
@pytest.mark.parametrize("header", ["CC", "BCC"])
@pytest.mark.parametrize("other", [1, None, True, [], {}, Typed("x", b"a"), "", b"\xff"], ids=str)
def test_what_is_no_string_among_further_keys(
    channel: Channel, queue: str, header: str, other: Any
) -> None:
    """It is no key and no error; a string may be any octets."""
    channel.publish(b"x", routing_key="nobody", headers={header: [other, queue, other]})
    assert bodies(channel, queue) == [b"x"]
