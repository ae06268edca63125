"""From the protocol header to open-ok: negotiation and tuning (2.1, 2.3)."""

import time
from typing import Any

import pytest

from tests.support.codec import PROTOCOL_HEADER
from tests.support.expectation import PeerClosed, Unexpected, starting
from tests.support.fixtures import Connect, StartBroker
from tests.support.wire import CAPABILITIES, Client

SERVER_CAPABILITIES = {
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
    "direct_reply_to",
}


@pytest.mark.rule("NG-1")
@pytest.mark.parametrize(
    "header",
    [
        b"AMQP\x00\x00\x09\x01",
        b"AMQP\x01\x01\x00\x09",
        b"AMQP\x01\x01\x08\x00",
        b"AMQP\x01\x01\x09\x01",
    ],
)
def test_headers_that_are_taken(raw: Connect, header: bytes) -> None:
    client = raw()
    client.send_raw(header)
    start = client.expect("connection.start")
    assert start.version_major == 0 if header[4] == 0 else start.version_major in (0, 8)


@pytest.mark.rule("NG-1")
@pytest.mark.parametrize(
    "header",
    [
        b"AMQP\x00\x00\x09\x02",
        b"AMQP\x00\x00\x0a\x01",
        b"AMQP\x00\x01\x00\x00",
        b"AMQP\x03\x01\x00\x00",
        b"GET / HT",
        b"\x00" * 8,
        b"\xff" * 8,
        b"AMQX\x00\x00\x09\x01",
    ],
)
def test_other_headers_are_answered_with_ours_and_closed(raw: Connect, header: bytes) -> None:
    client = raw()
    client.send_raw(header)
    assert client.read_octets(8) == PROTOCOL_HEADER
    client.expect_socket_closed()


@pytest.mark.rule("NG-1")
def test_fewer_than_eight_octets_are_waited_for(raw: Connect) -> None:
    client = raw()
    client.send_raw(PROTOCOL_HEADER[:7])
    client.expect_nothing()
    client.send_raw(PROTOCOL_HEADER[7:])
    client.expect("connection.start")


@pytest.mark.slow
@pytest.mark.rule("NG-2")
def test_a_handshake_that_takes_too_long_is_dropped(start_broker: StartBroker) -> None:
    """In every state before open-ok; once open, the limit has no more effect."""
    broker = start_broker(settings={"handshake_timeout": 1000})
    silent, greeted, tuned = broker.raw(), broker.raw(), broker.raw()
    opened = broker.connect()
    greeted.send_raw(PROTOCOL_HEADER)
    greeted.expect("connection.start")
    tuned.handshake()
    tuned.negotiate()
    began = time.monotonic()
    for client in (silent, greeted, tuned):
        client.expect_socket_closed(within=5)
    assert 0.5 < time.monotonic() - began < 4
    assert opened.channel().flow(True).active
    opened.close()


@pytest.mark.rule("NG-3")
def test_start_says_what_the_broker_is(raw: Connect) -> None:
    client = raw()
    client.send_raw(PROTOCOL_HEADER)
    start = client.expect("connection.start", version_major=0, version_minor=9, locales=b"en_US")
    assert set(start.mechanisms.split(b" ")) == {b"AMQPLAIN", b"PLAIN"}
    keys = {"capabilities", "cluster_name", "copyright", "information"}
    assert keys | {"platform", "product", "version"} <= set(start.server_properties)
    for key in ("cluster_name", "product", "version"):
        assert isinstance(start.server_properties[key], str)
        assert start.server_properties[key]


@pytest.mark.rule("NG-9")
def test_server_capabilities_are_all_true(client: Client) -> None:
    assert client.start is not None
    capabilities = client.start.server_properties["capabilities"]
    assert set(capabilities) >= SERVER_CAPABILITIES
    assert all(capabilities[name] is True for name in SERVER_CAPABILITIES)


@pytest.mark.rule("NG-4")
@pytest.mark.parametrize("locale", ["", "en_US", "de_DE", "nonsense"])
def test_the_locale_is_ignored(connect: Connect, locale: str) -> None:
    connect(locale=locale).close()


@pytest.mark.rule("NG-4")
@pytest.mark.parametrize(
    "properties",
    [
        pytest.param({}, id="none"),
        pytest.param({"connection_name": "mine"}, id="named"),
        pytest.param({"capabilities": {}}, id="no-capabilities"),
        pytest.param({"capabilities": CAPABILITIES | {"unheard.of": True}}, id="unknown"),
        pytest.param({"deep": {"list": [1, [2, {"x": None}]]}}, id="nested"),
    ],
)
def test_client_properties_are_free(connect: Connect, properties: dict[str, Any]) -> None:
    connect(client_properties=properties).close()


@pytest.mark.rule("NG-6")
def test_tune_offers_the_default_limits(client: Client) -> None:
    tune = client.tune
    assert tune is not None
    assert (tune.channel_max, tune.frame_max, tune.heartbeat) == (2047, 131072, 60)


@pytest.mark.slow
@pytest.mark.rule("NG-6", "TN-1", "TN-2")
def test_tune_offers_the_configured_limits(start_broker: StartBroker) -> None:
    broker = start_broker(settings={"channel_max": 0, "frame_max": 65536, "heartbeat": 11})
    client = broker.connect(channel_max=0)
    tune = client.tune
    assert tune is not None
    assert (tune.channel_max, tune.frame_max, tune.heartbeat) == (0, 65536, 11)
    client.channel(65535)
    client.close()
    broker.connect(channel_max=7).close()


@pytest.mark.slow
@pytest.mark.rule("TN-1", "WI-2")
def test_frame_max_may_be_unlimited(start_broker: StartBroker) -> None:
    """Then bodies are not split."""
    client = start_broker(settings={"frame_max": 0}).connect(frame_max=0)
    assert client.tune is not None
    assert client.tune.frame_max == 0
    channel = client.channel()
    queue = channel.queue_declare(exclusive=True).queue
    channel.publish(b"x" * 1_000_000, routing_key=queue)
    assert channel.get(queue).body_frames == (1_000_000,)
    client.close()


@pytest.mark.rule("NG-8")
def test_open_is_answered_and_its_other_fields_are_ignored(raw: Connect) -> None:
    client = raw()
    client.handshake()
    client.negotiate()
    client.send(0, "connection.open", virtual_host="/", capabilities="anything", insist=True)
    client.expect("connection.open-ok", known_hosts="")
    client.close()


@pytest.mark.rule("NG-8", "CE-1")
def test_open_of_a_missing_vhost(raw: Connect) -> None:
    client = raw()
    client.handshake()
    client.negotiate()
    client.send(0, "connection.open", virtual_host="nowhere")
    client.expect_close(530, "NOT_ALLOWED - vhost nowhere not found", method="connection.open")
    client.expect_socket_closed()


@pytest.mark.rule("TN-1", "TN-2", "TN-3")
@pytest.mark.parametrize(
    "tuning",
    [
        {"frame_max": 4096},
        {"frame_max": 131072},
        {"channel_max": 1},
        {"channel_max": 2047},
        {"heartbeat": 0},
        {"heartbeat": 1},
        {"heartbeat": 65535},
    ],
    ids=str,
)
def test_values_of_tune_ok_that_are_taken(connect: Connect, tuning: dict[str, int]) -> None:
    client = connect(**tuning)
    client.channel()
    client.close()


@pytest.mark.slow
@pytest.mark.rule("TN-1", "TN-2", "TN-4")
@pytest.mark.parametrize(
    ("tuning", "text"),
    [
        (
            {"frame_max": 4095},
            "negotiated frame_max = 4095 is lower than the minimum allowed value (4096)",
        ),
        (
            {"frame_max": 131073},
            "negotiated frame_max = 131073 is higher than the maximum allowed value (131072)",
        ),
        (
            {"frame_max": 0},
            "negotiated frame_max = 0 is higher than the maximum allowed value (131072)",
        ),
        (
            {"channel_max": 2048},
            "negotiated channel_max = 2048 is higher than the maximum allowed value (2047)",
        ),
        (
            {"channel_max": 0},
            "negotiated channel_max = 0 is higher than the maximum allowed value (2047)",
        ),
    ],
    ids=str,
)
def test_values_of_tune_ok_that_are_refused(
    raw: Connect, tuning: dict[str, int], text: str
) -> None:
    """The reference says nothing and drops the socket after 3 s; saying why is better."""
    client = raw()
    client.handshake()
    client.negotiate(**tuning)
    client.send(0, "connection.open")
    try:
        client.expect_close(530, f"NOT_ALLOWED - {text}")
    except PeerClosed:
        return
    client.expect_socket_closed()


@pytest.mark.rule("TU-1", "CE-6")
def test_channel_max_limits_how_many_channels_not_their_numbers(connect: Connect) -> None:
    client = connect(channel_max=2)
    client.channel(7)
    second = client.channel(2047)
    second.close()
    client.channel(65535)
    client.send(1, "channel.open")
    client.expect_close(
        530,
        "NOT_ALLOWED - number of channels opened (2) has reached the negotiated channel_max (2)",
    )


@pytest.mark.rule("NG-11", "CS-5")
@pytest.mark.parametrize("capable", [True, False])
def test_consumer_cancel_notify(connect: Connect, unique: Any, capable: bool) -> None:
    """Only a client with the capability hears that its queue was deleted."""
    client = connect(client_properties={"capabilities": {"consumer_cancel_notify": capable}})
    channel, other = client.channel(), client.channel()
    queue = unique("queue")
    channel.queue_declare(queue)
    tag = channel.consume(queue)
    other.queue_delete(queue)
    if capable:
        channel.expect("basic.cancel", consumer_tag=tag, nowait=True)
    channel.send("channel.flow", active=True)
    channel.expect("channel.flow-ok")
    client.close()


@pytest.mark.rule("NG-7")
@pytest.mark.parametrize("skipped", ["start-ok", "tune-ok", "open"])
def test_a_step_out_of_order_ends_the_connection(raw: Connect, skipped: str) -> None:
    client = raw()
    if skipped == "start-ok":
        client.send_raw(PROTOCOL_HEADER)
        client.expect("connection.start")
        client.send(0, "connection.tune-ok", frame_max=4096)
    elif skipped == "tune-ok":
        client.handshake()
        client.expect("connection.tune")
        client.send(0, "connection.open")
    else:
        client.handshake()
        client.negotiate()
        client.send(1, "channel.open")
    try:
        close = client.next_event(channel=0)
    except Unexpected:
        assert client.closed
        return
    assert close.name == "connection.close"
    assert close.reply_code in (503, 504, 505)


@pytest.mark.rule("NG-8")
def test_connection_close_is_answered_while_negotiating(raw: Connect) -> None:
    client = raw()
    client.handshake()
    client.expect("connection.tune")
    client.send(0, "connection.close", reply_text="changed my mind")
    try:
        client.expect("connection.close-ok")
    except PeerClosed:
        return
    client.expect_socket_closed()


@pytest.mark.rule("CE-16")
def test_open_twice(client: Client) -> None:
    client.send(0, "connection.open")
    client.expect_close(
        504,
        starting("CHANNEL_ERROR - unexpected method in connection state running"),
        method="connection.open",
    )
