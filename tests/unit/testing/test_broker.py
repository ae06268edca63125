"""The life of a test's broker, its settings, its users, its log, and what it leaves behind."""

import gc
import os
import signal
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.expectation import PeerClosed
from tests.support.wire import Client
from warren.server.config_entry import ConfigError
from warren.testing import Broker, CommandError, StoppedError


def connect(broker: Broker, **options: Any) -> Client:
    return Client(broker.host, broker.port).open(**options)


def test_it_starts_at_once() -> None:
    with Broker():
        pass
    began = time.monotonic()
    with Broker() as broker:
        assert broker.port > 0
    assert time.monotonic() - began < 0.1


def test_several_at_once() -> None:
    with Broker() as one, Broker() as other:
        assert one.port != other.port
        one.declare_queue("q")
        assert other.queue("q") is None
        one.clock.stop()
        assert other.clock.running
        with connect(one) as client, connect(other) as neighbour:
            one.drop_connections()
            client.expect_socket_closed()
            neighbour.channel()


def test_nothing_of_the_process_is_touched(capfd: pytest.CaptureFixture[str]) -> None:
    handlers = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)]
    umask = os.umask(0o022)
    os.umask(umask)
    threads = threading.active_count()
    descriptors = len(os.listdir("/proc/self/fd"))
    with Broker() as broker:
        broker.publish("x", "nowhere")
        folder = broker.command("diag")["paths"]
        assert isinstance(folder, dict)
        assert not Path(folder["data_dir"]).exists()
    assert gc.isenabled()
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)] == handlers
    assert os.umask(umask) == umask
    assert threading.active_count() == threads
    assert len(os.listdir("/proc/self/fd")) == descriptors
    assert capfd.readouterr() == ("", "")


def test_the_end_is_told_and_final() -> None:
    with Broker() as broker:
        client = connect(broker)
    close = client.expect("connection.close", channel=0)
    assert close.reply_code == 320
    with pytest.raises(PeerClosed):
        client.read_octets(1)
    client.drop()
    with pytest.raises(StoppedError, match="not running"):
        broker.publish("x", "q")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((broker.host, broker.port))
    broker.close()


def test_before_its_start_it_says_so() -> None:
    broker = Broker()
    with pytest.raises(StoppedError, match="`with` block"):
        broker.queues()
    broker.close()


def test_settings_by_either_name() -> None:
    with (
        Broker(heartbeat=7, channel_max=5, log_level="debug") as broker,
        Client(broker.host, broker.port) as client,
    ):
        client.handshake()
        tune = client.expect("connection.tune", channel=0)
        assert (tune.heartbeat, tune.channel_max) == (7, 5)


def test_a_setting_that_does_not_exist() -> None:
    with pytest.raises(ConfigError, match="hartbeat"):
        Broker(hartbeat=7)


def test_the_environment_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARREN_DEFAULT_USER", "ann")
    with Broker() as broker:
        assert broker.url.startswith("amqp://guest:guest@")


def test_a_port_that_is_taken(warren_broker: Broker) -> None:
    taken = Broker(port=warren_broker.port)
    with pytest.raises(OSError, match="Address already in use"):
        taken.start()


def test_users_and_their_permissions(warren_broker: Broker) -> None:
    warren_broker.declare_queue("q")
    warren_broker.add_user("bob", "p@ss/word", configure="^$")
    assert warren_broker.url_for("bob", "p@ss/word").startswith("amqp://bob:p%40ss%2Fword@")
    with connect(warren_broker, user="bob", password="p@ss/word") as client:
        channel = client.channel()
        channel.publish(b"x", routing_key="q")
        assert channel.get("q").body == b"x"
        channel.send("queue.declare", queue="other")
        assert channel.expect("channel.close").reply_code == 403


def test_restart_on_the_same_port(warren_broker: Broker) -> None:
    port = warren_broker.port
    client = connect(warren_broker)
    warren_broker.restart()
    assert client.expect("connection.close", channel=0).reply_code == 320
    client.drop()
    assert warren_broker.port == port
    killed = connect(warren_broker)
    warren_broker.restart(kill=True)
    killed.expect_socket_closed()
    killed.drop()
    with connect(warren_broker) as client:
        client.channel()


def test_what_is_durable_survives_a_restart(warren_broker: Broker) -> None:
    """As on a disk: topology, users and messages; not what is transient."""
    place = warren_broker.vhost("place")
    warren_broker.add_user("bob", "secret", tags=("monitoring",), vhost="place")
    place.declare_exchange("events", "topic", durable=True)
    place.declare_queue("kept", durable=True, arguments={"x-max-priority": 3})
    place.declare_queue("gone")
    place.bind("kept", "events", "order.*")
    place.publish("x", "kept", delivery_mode=2)
    place.publish("lost", "kept")
    warren_broker.restart(kill=True)
    assert [one.name for one in place.queues()] == ["kept"]
    assert place.ready("kept") == 1
    assert place.publish("y", "order.new", exchange="events")
    with connect(warren_broker, vhost="place", user="bob", password="secret") as client:
        channel = client.channel()
        assert [channel.get("kept").body for _ in range(2)] == [b"x", b"y"]


@pytest.mark.parametrize("kill", [False, True])
def test_messages_are_there_again(warren_broker: Broker, kill: bool) -> None:
    warren_broker.declare_queue("q", durable=True)
    arguments: dict[str, object] = {"x-delayed-type": "fanout"}
    warren_broker.declare_exchange("later", "x-delayed-message", durable=True, arguments=arguments)
    warren_broker.bind("q", "later", "")
    with connect(warren_broker) as client:
        channel = client.channel()
        channel.confirm_select()
        for number in range(3000):
            channel.publish(b"%d" % number, routing_key="q", delivery_mode=2)
        headers = {"x-delay": 60_000}
        channel.publish(b"held", exchange="later", delivery_mode=2, headers=headers)
        channel.wait_confirms(3001)
        channel.consume("q")
        for number in range(10):
            tag = channel.recv_delivery(body=b"%d" % number).delivery_tag
        channel.ack(tag, multiple=True)
        channel.recv_delivery(body=b"10")
        warren_broker.settle()
    warren_broker.restart(kill=kill)
    warren_broker.restart(kill=kill)
    assert warren_broker.ready("q") == 2990
    with connect(warren_broker) as client:
        channel = client.channel()
        first = channel.get("q", no_ack=True)
        assert (first.body, first.redelivered) == (b"10", True)
        for number in range(11, 3000):
            assert channel.get("q", no_ack=True).body == b"%d" % number
        warren_broker.clock.advance(61)
        assert channel.get("q", no_ack=True).body == b"held"


def test_a_broker_of_its_own_begins_empty() -> None:
    for _ in range(2):
        with Broker() as broker:
            assert broker.queues() == []
            broker.declare_queue("q", durable=True)
            broker.publish("x", "q", delivery_mode=2)


def test_commands_of_the_control_interface(warren_broker: Broker) -> None:
    warren_broker.declare_queue("q")
    status = warren_broker.command("status")
    assert (status["node"], status["queues"]) == ("warren@testing", 1)
    warren_broker.vhost("place")
    listed = warren_broker.command("list_vhosts", columns=["name"])
    assert listed == {"count": 2, "rows": [["/"], ["place"]]}
    with pytest.raises(CommandError, match="unknown_command"):
        warren_broker.command("make_coffee")


def test_the_log_is_kept(warren_broker: Broker) -> None:
    connect(warren_broker).drop()
    closed = warren_broker.wait_until(lambda: warren_broker.log("connection.closed"))[0]
    assert closed.level == "info"
    assert closed.fields["user"] == "guest"
    assert "connection.closed" in warren_broker.log_text()
    assert str(closed) in warren_broker.log_text()


def test_a_failure_carries_the_log() -> None:
    with pytest.raises(ZeroDivisionError) as failed, Broker():
        raise ZeroDivisionError
    assert "node.started" in failed.value.__notes__[0]


def test_an_error_of_the_loop_is_in_the_log(warren_broker: Broker) -> None:
    loop = warren_broker._engine.loop
    loop.call_soon_threadsafe(lambda: 1 // 0)
    event = warren_broker.wait_until(lambda: warren_broker.log("log.library"))[0]
    assert "ZeroDivisionError" in str(event.fields["error"])


def test_settle_waits_for_what_was_sent(warren_broker: Broker) -> None:
    warren_broker.declare_queue("q")
    with connect(warren_broker) as client:
        channel = client.channel()
        for number in range(1, 30):
            channel.publish(bytes(10_000), routing_key="q")
            warren_broker.settle()
            assert warren_broker.ready("q") == number


def test_the_collector_stays_as_it_is() -> None:
    gc.disable()
    try:
        with Broker():
            assert not gc.isenabled()
    finally:
        gc.enable()
