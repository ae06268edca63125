"""Situations that close the connection (table 3.1), with code, text and failed method."""

import re
from typing import Any

import pytest

from tests.support.channel import Channel
from tests.support.codec import FRAME_BODY, FRAME_HEADER, FRAME_METHOD, frame, header_payload
from tests.support.expectation import PeerClosed, starting
from tests.support.fixtures import Connect, StartBroker
from tests.support.methods import encode_method
from tests.support.wire import Client, Event


def without_blanks(close: Event) -> str:
    """Return the reply text; the reference breaks long terms into lines."""
    return re.sub(r"\s+", "", close.reply_text)


@pytest.mark.rule("CE-8")
def test_a_consumer_tag_in_use(client: Client, channel: Channel, queue: str) -> None:
    channel.consume(queue, "tag")
    channel.send("basic.consume", queue=queue, consumer_tag="tag")
    client.expect_close(
        530, "NOT_ALLOWED - attempt to reuse consumer tag 'tag'", method="basic.consume"
    )


@pytest.mark.rule("CE-8", "CS-1")
def test_a_consumer_tag_is_free_on_other_channels_and_after_cancel(
    client: Client, channel: Channel, queue: str
) -> None:
    channel.consume(queue, "tag")
    client.channel().consume(queue, "tag")
    channel.cancel("tag")
    channel.consume(queue, "tag")


@pytest.mark.rule("CE-9")
def test_an_unknown_exchange_type(client: Client, channel: Channel) -> None:
    channel.send("exchange.declare", exchange="x", type="nonsense")
    client.expect_close(
        503, "COMMAND_INVALID - unknown exchange type 'nonsense'", method="exchange.declare"
    )


@pytest.mark.rule("CE-9")
@pytest.mark.parametrize("kind", ["Direct", "", "direct "])
def test_exchange_types_are_taken_literally(client: Client, channel: Channel, kind: str) -> None:
    channel.send("exchange.declare", exchange="x", type=kind)
    text = re.compile(f"COMMAND_INVALID - (unknown|invalid) exchange type '{kind}'")
    client.expect_close(503, text, method="exchange.declare")


@pytest.mark.rule("CE-10")
@pytest.mark.parametrize(
    "name", ["connection.open", "connection.start-ok", "connection.tune-ok", "connection.blocked"]
)
def test_a_connection_method_on_a_channel(client: Client, channel: Channel, name: str) -> None:
    channel.send(name)
    client.expect_close(503, "COMMAND_INVALID - unimplemented method", method=name)


@pytest.mark.rule("CE-10")
@pytest.mark.parametrize(
    "name",
    [
        "channel.open-ok",
        "exchange.declare-ok",
        "queue.declare-ok",
        "queue.unbind-ok",
        "basic.qos-ok",
        "basic.get-empty",
        "confirm.select-ok",
        "tx.commit-ok",
    ],
)
def test_a_method_that_only_the_server_sends(client: Client, channel: Channel, name: str) -> None:
    channel.send(name)
    client.expect_close(503, "COMMAND_INVALID - unimplemented method", method=name)


@pytest.mark.rule("CE-11")
@pytest.mark.parametrize("name", ["connection.open", "connection.start-ok", "connection.tune-ok"])
def test_a_method_on_channel_0_in_the_wrong_state(client: Client, name: str) -> None:
    client.send(0, name)
    client.expect_close(
        504,
        "CHANNEL_ERROR - unexpected method in connection state running",
        method=name,
    )


@pytest.mark.rule("CE-11")
@pytest.mark.parametrize("name", ["queue.declare", "channel.open", "basic.qos", "tx.select"])
def test_a_channel_method_on_channel_0(client: Client, name: str) -> None:
    client.send(0, name)
    client.expect_close(
        504, "CHANNEL_ERROR - unexpected method in connection state running", method=name
    )


@pytest.mark.rule("CE-12")
def test_a_channel_opened_twice(client: Client, channel: Channel) -> None:
    channel.send("channel.open")
    client.expect_close(504, "CHANNEL_ERROR - second 'channel.open' seen", method="channel.open")


@pytest.mark.rule("CE-13")
@pytest.mark.parametrize("name", ["queue.declare", "basic.ack", "basic.qos", "channel.flow"])
def test_a_method_on_a_channel_that_is_not_open(client: Client, name: str) -> None:
    client.channel(1)
    client.send(2, name)
    client.expect_close(504, "CHANNEL_ERROR - expected 'channel.open'", method=name)


@pytest.mark.rule("CE-13")
def test_a_channel_that_was_closed_is_not_open(client: Client, channel: Channel) -> None:
    channel.close()
    channel.send("basic.qos")
    client.expect_close(504, "CHANNEL_ERROR - expected 'channel.open'", method="basic.qos")


@pytest.mark.rule("CE-15", "PB-7")
def test_publish_with_immediate(client: Client, channel: Channel, queue: str) -> None:
    channel.publish(b"now", routing_key=queue, immediate=True)
    client.expect_close(540, "NOT_IMPLEMENTED - immediate=true", method="basic.publish")


@pytest.mark.rule("CE-16")
def test_qos_with_a_prefetch_size(client: Client, channel: Channel) -> None:
    channel.send("basic.qos", prefetch_size=17)
    client.expect_close(540, "NOT_IMPLEMENTED - prefetch_size!=0 (17)", method="basic.qos")


@pytest.mark.rule("CE-17")
def test_flow_that_stops_the_server(client: Client, channel: Channel) -> None:
    channel.send("channel.flow", active=False)
    client.expect_close(540, "NOT_IMPLEMENTED - active=false", method="channel.flow")


@pytest.mark.rule("CE-18")
@pytest.mark.parametrize("name", ["basic.recover", "basic.recover-async"])
def test_recover_without_requeue(client: Client, channel: Channel, name: str) -> None:
    channel.send(name, requeue=False)
    client.expect_close(540, "NOT_IMPLEMENTED - requeue=false", method=name)


@pytest.mark.rule("CE-19")
@pytest.mark.parametrize("kind", [FRAME_HEADER, FRAME_BODY])
def test_content_where_a_method_is_expected(client: Client, channel: Channel, kind: int) -> None:
    client.send_frame(kind, channel.number, header_payload(1))
    client.expect_close(
        505,
        "UNEXPECTED_FRAME - expected method frame, got non method frame instead",
        method=(0, 0),
    )


@pytest.mark.rule("CE-20")
@pytest.mark.parametrize("kind", [FRAME_METHOD, FRAME_BODY])
def test_another_frame_where_a_header_is_expected(
    client: Client, channel: Channel, kind: int
) -> None:
    channel.send("basic.publish")
    client.send_frame(kind, channel.number, encode_method("basic.qos"))
    client.expect_close(
        505,
        "UNEXPECTED_FRAME - expected content header for class 60, "
        "got non content header frame instead",
        method="basic.publish",
    )


@pytest.mark.rule("CE-21")
def test_a_header_of_another_class(client: Client, channel: Channel) -> None:
    channel.send("basic.publish")
    client.send_frame(FRAME_HEADER, channel.number, header_payload(1, class_id=50))
    client.expect_close(
        505,
        "UNEXPECTED_FRAME - expected content header for class 60, got one for class 50 instead",
        method="basic.publish",
    )


@pytest.mark.rule("CE-22")
@pytest.mark.parametrize("kind", [FRAME_METHOD, FRAME_HEADER])
def test_another_frame_where_a_body_is_expected(
    client: Client, channel: Channel, kind: int
) -> None:
    channel.send("basic.publish")
    client.send_frame(FRAME_HEADER, channel.number, header_payload(2))
    client.send_frame(FRAME_BODY, channel.number, b"1")
    payload = encode_method("basic.qos") if kind == FRAME_METHOD else header_payload(2)
    client.send_frame(kind, channel.number, payload)
    client.expect_close(
        505,
        "UNEXPECTED_FRAME - expected content body, got non content body frame instead",
        method="basic.publish",
    )


@pytest.mark.rule("CE-23")
@pytest.mark.parametrize("kind", [FRAME_HEADER, FRAME_BODY])
def test_content_on_channel_0(client: Client, kind: int) -> None:
    client.send_frame(kind, 0, header_payload(1))
    client.expect_close(505, starting(f"UNEXPECTED_FRAME - type {kind}, "), method=(0, 0))


@pytest.mark.rule("CE-25")
@pytest.mark.parametrize("kind", [0, 4, 7, 9, 255])
@pytest.mark.parametrize("number", [0, 1])
def test_an_unknown_frame_type(client: Client, kind: int, number: int) -> None:
    client.channel(1)
    client.send_frame(kind, number, b"payload")
    client.expect_close(501, starting(f"FRAME_ERROR - type {kind}, "), method=(0, 0))


@pytest.mark.rule("CE-25")
def test_the_text_shows_the_start_of_the_frame(client: Client) -> None:
    client.send_frame(9, 0, b"0123456789abcdefXYZ")
    close = client.expect_close(501, starting("FRAME_ERROR - type 9, "))
    assert "first 16 octets" in close.reply_text
    assert "0123456789abcdef" in close.reply_text
    assert "X" not in close.reply_text
    assert close.reply_text.endswith(": unknown_frame")


@pytest.mark.rule("CE-26")
@pytest.mark.parametrize("end", [0, 0xCD, 0xFF])
def test_a_wrong_end_octet(client: Client, channel: Channel, end: int) -> None:
    client.send_raw(frame(FRAME_METHOD, channel.number, encode_method("basic.qos"), end))
    close = client.expect_close(501, starting("FRAME_ERROR - type 1, "), method=(0, 0))
    assert without_blanks(close).endswith(f":{{invalid_frame_end_marker,{end}}}")


@pytest.mark.rule("CE-27")
def test_a_frame_too_large(client: Client, channel: Channel) -> None:
    client.send_frame(FRAME_BODY, channel.number, b"x" * 131073)
    close = client.expect_close(501, starting("FRAME_ERROR - type 3, "), method=(0, 0))
    assert without_blanks(close).endswith(":{frame_too_large,131073,131064}")


@pytest.mark.rule("MT-10")
@pytest.mark.parametrize(
    "ids", [(0, 0), (10, 99), (20, 12), (40, 41), (60, 60000), (70, 10), (80, 10), (65535, 65535)]
)
def test_an_unknown_method(client: Client, channel: Channel, ids: tuple[int, int]) -> None:
    """The reference closes the socket without a word; 503 first is better."""
    client.send_method(channel.number, *ids)
    try:
        client.expect_close(503, starting("COMMAND_INVALID - "))
    except PeerClosed:
        assert client.closed


@pytest.mark.slow
@pytest.mark.rule("CE-30")
def test_the_broker_says_good_bye_when_it_stops(start_broker: StartBroker) -> None:
    broker = start_broker()
    client = broker.connect()
    client.channel()
    broker.begin_stop()
    client.expect_close(
        320,
        starting("CONNECTION_FORCED - broker forced connection closure with reason '"),
        method=(0, 0),
        within=30,
        answer=False,  # By then the reference may have gone.
    )
    client.expect_socket_closed(within=30)
    broker.stop()


@pytest.mark.rule("CE-8", "EX-3")
def test_other_connections_are_not_concerned(connect: Connect, unique: Any) -> None:
    guilty, innocent = connect(), connect()
    channel = innocent.channel()
    channel.queue_declare(exclusive=True)
    guilty.send(0, "basic.qos")
    guilty.expect_close(504, starting("CHANNEL_ERROR - "))
    guilty.expect_socket_closed()
    channel.queue_declare(exclusive=True)
    innocent.close()
