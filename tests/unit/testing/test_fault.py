"""Faults: they look to clients as the real thing does, and end with their block."""

import socket

import pytest

from tests.support.expectation import NothingCame
from tests.support.wire import Client
from tests.unit.testing.conftest import Connect
from warren.testing import Broker

BLOCKED = {"capabilities": {"connection.blocked": True}}


@pytest.fixture
def client(warren_broker: Broker, connect: Connect) -> Client:
    warren_broker.declare_queue("q")
    return connect(client_properties=BLOCKED)


def test_one_connection_is_cut(warren_broker: Broker, client: Client, connect: Connect) -> None:
    other = connect()
    port = client.socket.getsockname()[1]
    name = next(one.name for one in warren_broker.connections() if one.name.endswith(f":{port}"))
    assert warren_broker.drop_connections(name) == 1
    client.expect_socket_closed()
    other.channel()
    assert warren_broker.drop_connections() == 1
    other.expect_socket_closed()
    assert warren_broker.connections() == []
    assert warren_broker.drop_connections() == 0


def test_an_operator_closes(warren_broker: Broker, client: Client) -> None:
    assert warren_broker.close_connections(reason="lunch") == 1
    close = client.expect("connection.close", channel=0)
    assert close.reply_code == 320
    assert "lunch" in close.reply_text


@pytest.mark.parametrize("source", ["memory", "disk"])
def test_publishers_are_blocked(warren_broker: Broker, client: Client, source: str) -> None:
    channel = client.channel()
    with warren_broker.block_publishers(source):
        channel.publish(b"x", routing_key="q")
        reason = client.expect("connection.blocked", channel=0).reason
        assert source in reason
        warren_broker.clock.advance(seconds=5)
        assert warren_broker.ready("q") == 0
    client.expect("connection.unblocked", channel=0)
    warren_broker.wait_for_queue("q", ready=1)


def test_deliveries_rest(warren_broker: Broker, client: Client, connect: Connect) -> None:
    channel = client.channel()
    channel.consume("q", no_ack=True)
    late = connect().channel()
    with warren_broker.pause_deliveries():
        comer = connect().channel()
        comer.consume("q", no_ack=True)
        for _ in range(30):
            warren_broker.publish("x", "q")
        warren_broker.settle()
        assert warren_broker.ready("q") == 30
        assert late.get("q").body == b"x"
        assert channel.client.inbox == []
    warren_broker.wait_for_queue("q", ready=0)
    for one in (channel, comer):
        one.recv_delivery()


def test_nobody_can_connect(warren_broker: Broker, client: Client, connect: Connect) -> None:
    with warren_broker.refuse_connections():
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((warren_broker.host, warren_broker.port))
        client.channel()
    connect().drop()


def test_the_broker_hangs(warren_broker: Broker, client: Client) -> None:
    channel = client.channel()
    with warren_broker.freeze():
        channel.send("queue.declare", queue="q")
        with pytest.raises(NothingCame):
            client.next_event(within=0.05)
    assert channel.client.next_event(channel=1).name == "queue.declare-ok"
