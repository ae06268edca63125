"""Messages to the service manager."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from warren.server.notify import Notifier, notifier, watchdog_interval_ns


@pytest.fixture(params=["file", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[socket.socket, str]]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as opened:
        opened.settimeout(5)
        if request.param == "file":
            address = str(tmp_path / "notify")
            opened.bind(address)
        else:
            opened.bind("")
            address = "@" + opened.getsockname()[1:].decode()
        yield opened, address


@pytest.mark.rule("O-9.3")
def test_the_states_of_a_node_are_told(manager: tuple[socket.socket, str]) -> None:
    opened, address = manager
    told = notifier({"NOTIFY_SOCKET": address})
    assert told.ready()
    assert opened.recv(100) == b"READY=1\nSTATUS="
    assert told.status("Startup in\nprogress")
    assert opened.recv(100) == b"STATUS=Startup in progress"
    assert told.watchdog()
    assert opened.recv(100) == b"WATCHDOG=1"
    assert told.stopping("bye")
    assert opened.recv(100) == b"STOPPING=1\nSTATUS=bye"


@pytest.mark.parametrize("address", ["", "relative", "/", "/gone/for/ever", "@" + "x" * 200])
def test_a_manager_that_is_not_there_stops_nothing(address: str) -> None:
    assert not Notifier(address).ready()


def test_the_watchdog_is_fed_twice_as_often_as_asked() -> None:
    env = {"WATCHDOG_USEC": "30000000"}
    assert watchdog_interval_ns(env) == 15_000_000_000
    assert watchdog_interval_ns(env | {"WATCHDOG_PID": "7"}, pid=7) == 15_000_000_000
    assert watchdog_interval_ns(env | {"WATCHDOG_PID": "7"}, pid=8) == 0
    assert watchdog_interval_ns({}) == 0
    assert watchdog_interval_ns({"WATCHDOG_USEC": "soon"}) == 0
