"""The management process beside the node: it may die, the node may not notice."""

import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.broker import Broker
from tests.support.fixtures import StartBroker
from tests.support.http import PATIENCE_S, SETTINGS, Managed, managed

pytestmark = pytest.mark.slow


@pytest.fixture
def start(start_broker: StartBroker) -> Callable[..., Broker]:
    pytest.importorskip("uvicorn")

    def started(**settings: str | int) -> Broker:
        return start_broker({**SETTINGS, **settings})

    return started


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def alive(pid: int) -> bool:
    """Whether a process runs: what waits to be reaped by somebody else does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_killed_it_costs_no_message_and_no_connection_and_comes_back(
    start: Callable[..., Broker],
) -> None:
    site = managed(start())
    assert site.get("/api/whoami") == {"name": "guest", "tags": ["administrator"]}
    client = site.broker.connect()
    channel = client.channel()
    channel.queue_declare("kept")
    channel.call("confirm.select")
    sent = 0
    first = site.child()
    for round_ in range(2):
        killed = site.child()
        os.kill(killed, signal.SIGKILL)
        for _ in range(200):
            sent += 1
            channel.publish(b"%d" % sent, routing_key="kept")
        while channel.wait_for("basic.ack").delivery_tag < sent:
            pass
        wait_until(lambda gone=killed: site.child() not in (0, gone))  # type: ignore[misc]
        # A request that comes while nobody is there waits for the next one.
        assert site.get("/api/whoami")["name"] == "guest", round_
    assert site.child() != first
    assert channel.queue_declare("kept", passive=True).message_count == sent
    client.close()


def test_it_ends_with_a_node_that_is_killed(start: Callable[..., Broker]) -> None:
    site = managed(start())
    site.get("/api/whoami")
    pid = site.child()
    site.broker.kill()
    wait_until(lambda: not alive(pid))


def test_it_ends_with_a_node_that_stops(start: Callable[..., Broker]) -> None:
    site = managed(start())
    site.get("/api/whoami")
    pid = site.child()
    site.broker.stop()
    assert not alive(pid)


def test_a_port_that_is_taken_is_no_reason_not_to_start(start: Callable[..., Broker]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        broker = start(management="auto", management_port=port)
        assert "management.absent" in broker.log_text()
        broker.connect().close()
        with pytest.raises(AssertionError, match="Address already in use"):
            start(management="on", management_port=port)


def test_it_listens_where_rabbitmqs_settings_say(start: Callable[..., Broker]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    keys = {"management.tcp.port": port, "management.path_prefix": "/mq"}
    broker = start(**keys)
    site = Managed(broker, port, 0)
    assert site.get("/mq/api/whoami")["name"] == "guest"
    assert site.ask("GET", "/api/whoami").status == 404
