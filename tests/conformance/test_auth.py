"""Logging in, and being refused (2.2; rules AU-1 to AU-3)."""

from typing import Any

import pytest

from tests.support.codec import Typed, long_string, short_string, table_body
from tests.support.expectation import PeerClosed
from tests.support.fixtures import Connect
from tests.support.timed import Timed
from tests.support.wire import Client

REFUSED = (
    "ACCESS_REFUSED - Login was refused using authentication mechanism {}. "
    "For details see the broker logfile."
)
INCAPABLE: dict[str, Any] = {"capabilities": {"authentication_failure_close": False}}

# A brake on guessing: this long nothing is said, then the socket is closed.
BRAKE_SECONDS = (2.0, 6.0)


def expect_silent_end(timed: Timed, client: Client) -> None:
    shortest, longest = BRAKE_SECONDS
    timed.pass_time(shortest)
    client.expect_nothing(within=0.05)
    timed.pass_time(longest - shortest)
    client.expect_socket_closed()


@pytest.mark.rule("AM-1")
def test_plain(connect: Connect) -> None:
    connect(mechanism="PLAIN", response=b"\0guest\0guest").close()


@pytest.mark.rule("AM-2")
def test_amqplain_is_a_table_without_its_length(connect: Connect) -> None:
    connect(mechanism="AMQPLAIN").close()


@pytest.mark.rule("AM-2")
def test_amqplain_fields_in_any_order_and_with_others(connect: Connect) -> None:
    fields = {"PASSWORD": "guest", "OTHER": 1, "LOGIN": "guest"}
    connect(mechanism="AMQPLAIN", response=table_body(fields)).close()


@pytest.mark.rule("AU-1", "NG-12")
@pytest.mark.parametrize("mechanism", ["PLAIN", "AMQPLAIN"])
@pytest.mark.parametrize(
    ("user", "password"),
    [("guest", "wrong"), ("guest", ""), ("nobody", "guest"), ("", ""), ("Guest", "guest")],
)
def test_a_refused_login_is_told_to_a_capable_client(
    raw: Connect, mechanism: str, user: str, password: str
) -> None:
    client = raw()
    client.handshake(user=user, password=password, mechanism=mechanism)
    client.expect_close(403, REFUSED.format(mechanism), within=2)


@pytest.mark.rule("AU-1", "AM-1")
def test_an_authorisation_identity_is_refused(timed: Timed) -> None:
    client = timed.raw()
    client.handshake(response=b"guest\0guest\0guest")
    timed.pass_time(BRAKE_SECONDS[1])
    try:
        client.expect_close(403, REFUSED.format("PLAIN"))
    except PeerClosed:
        return
    client.expect_socket_closed()


@pytest.mark.rule("AU-1", "NG-12")
@pytest.mark.parametrize(
    "client_properties", [{}, INCAPABLE, {"capabilities": {}}], ids=["none", "false", "empty"]
)
def test_a_refused_login_is_not_told_to_other_clients(
    timed: Timed, client_properties: dict[str, Any]
) -> None:
    client = timed.raw()
    client.handshake(password="wrong", client_properties=client_properties)
    expect_silent_end(timed, client)


@pytest.mark.slow
@pytest.mark.rule("AU-1")
def test_the_brake_in_real_time(raw: Connect) -> None:
    client = raw()
    client.handshake(password="wrong", client_properties={})
    shortest, longest = BRAKE_SECONDS
    assert shortest < client.expect_socket_closed(within=longest)


@pytest.mark.rule("AU-2", "AM-4")
@pytest.mark.parametrize(
    "mechanism", ["NONSENSE", "", "plain", "RABBIT-CR-DEMO", "EXTERNAL", "ANONYMOUS"]
)
def test_a_mechanism_that_is_not_offered_ends_in_silence(timed: Timed, mechanism: str) -> None:
    client = timed.raw()
    client.handshake(mechanism=mechanism, response=b"\0guest\0guest")
    expect_silent_end(timed, client)


@pytest.mark.rule("AU-2")
@pytest.mark.parametrize(
    ("mechanism", "response"),
    [
        pytest.param("PLAIN", b"", id="plain-empty"),
        pytest.param("PLAIN", b"guest", id="plain-no-nul"),
        pytest.param("PLAIN", b"\0guest", id="plain-one-nul"),
        pytest.param("AMQPLAIN", b"", id="amqplain-empty"),
        pytest.param("AMQPLAIN", table_body({"LOGIN": "guest"}), id="amqplain-no-password"),
        pytest.param("AMQPLAIN", short_string("LOGIN") + b"S\0\0", id="amqplain-cut-short"),
        pytest.param(
            "AMQPLAIN",
            long_string(table_body({"LOGIN": "guest", "PASSWORD": "guest"})),
            id="amqplain-with-length",
        ),
        pytest.param(
            "AMQPLAIN",
            table_body({"LOGIN": Typed("I", 1), "PASSWORD": Typed("t", True)}),
            id="amqplain-wrong-kinds",
        ),
    ],
)
def test_a_malformed_response_is_refused(timed: Timed, mechanism: str, response: bytes) -> None:
    """In silence after the brake, or as any other refused login; never let in."""
    client = timed.raw()
    client.handshake(mechanism=mechanism, response=response)
    timed.pass_time(BRAKE_SECONDS[1])
    try:
        client.expect_close(403, REFUSED.format(mechanism))
    except PeerClosed:
        return
    client.expect_socket_closed()


@pytest.mark.rule("AU-3", "MT-1")
def test_update_secret_is_taken_and_changes_nothing(client: Client) -> None:
    client.send(0, "connection.update-secret", new_secret="whatever", reason="it is time")
    client.expect("connection.update-secret-ok", channel=0)
    channel = client.channel()
    channel.queue_declare(exclusive=True)
    client.send(0, "connection.update-secret", new_secret="", reason="")
    client.expect("connection.update-secret-ok", channel=0)
    channel.queue_declare(exclusive=True)


@pytest.mark.rule("PB-2")
def test_the_user_id_property_must_be_the_user(client: Client) -> None:
    channel = client.channel()
    queue = channel.queue_declare(exclusive=True).queue
    channel.publish(b"mine", routing_key=queue, user_id="guest")
    assert channel.get(queue).properties == {"user_id": "guest"}
