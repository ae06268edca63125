"""The control socket: rights, stale files, hostile clients, an orderly end."""

import asyncio
import json
import os
import socket
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.server.fake_node import Events, FakeNode
from warren.server import control_socket
from warren.server.command_node import COMMANDS
from warren.server.control import Control, NoArgs, Slices, listing
from warren.server.control_socket import REQUEST_OCTETS_MAX, ControlServer, SocketInUseError

STATUS = b'{"v":1,"id":"a","command":"status"}\n'


class Served:
    """A running server and ways to be its client."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.node = FakeNode()
        self.events = Events()
        self.control = Control(self.node, self.events, COMMANDS)
        self.server = ControlServer(path, self.control, self.events)

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_unix_connection(self.path)

    async def exchange(self, request: bytes) -> Any:
        reader, writer = await self.open()
        writer.write(request)
        line = await asyncio.wait_for(reader.readline(), 5)
        writer.close()
        return json.loads(line)

    async def answers(self) -> bool:
        return "ok" in await self.exchange(STATUS)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "control.sock"


def serve(path: Path, use: Callable[[Served], Awaitable[None]]) -> Served:
    """Run `use` against a server, then close it."""

    async def run() -> Served:
        served = Served(path)
        await served.server.start()
        try:
            await use(served)
        finally:
            await asyncio.wait_for(served.server.close(), 5)
        return served

    return asyncio.run(run())


def test_requests_of_one_client_are_answered_in_order(path: Path) -> None:
    async def use(served: Served) -> None:
        reader, writer = await served.open()
        for index in range(50):
            writer.write(b'{"v":1,"id":%d,"command":"health"}\n\n' % index)
        for index in range(50):
            assert json.loads(await reader.readline())["id"] == index
        writer.close()

    serve(path, use)


def test_other_clients_are_served_between_the_parts_of_a_list(path: Path) -> None:
    async def use(served: Served) -> None:
        slices = 0

        def endless(view: object, args: NoArgs) -> Slices:
            nonlocal slices
            while not served.node.stopped:
                slices += 1
                yield [slices] if slices == 1 else []

        served.control.add(listing("endless", "Rows until the node stops.", NoArgs, endless))
        reader, writer = await served.open()
        writer.write(b'{"v":1,"id":1,"command":"endless"}\n')
        assert json.loads(await reader.readline())["rows"] == [1]
        assert await served.answers()
        assert slices > 1
        served.node.stopped.append("enough")
        assert json.loads(await reader.readline())["ok"] == {"count": 1}
        writer.close()

    serve(path, use)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def replace(path: Path) -> None:
    path.unlink()
    path.write_text("another's")


def test_only_the_owner_may_open_the_socket(path: Path) -> None:
    before = os.umask(0)
    try:

        async def use(served: Served) -> None:
            assert mode(path) == 0o600
            assert await served.answers()

        serve(path, use)
        assert os.umask(0) == 0
    finally:
        os.umask(before)
    assert not path.exists()


def test_the_file_of_a_dead_node_is_replaced(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
        dead.listen()

    async def use(served: Served) -> None:
        assert await served.answers()

    serve(path, use)


def test_a_second_node_is_refused_and_the_first_goes_on(path: Path) -> None:
    async def use(served: Served) -> None:
        with pytest.raises(SocketInUseError, match="belongs to a running node"):
            await Served(path).server.start()
        assert await served.answers()

    serve(path, use)


def test_a_file_that_is_no_socket_is_left_alone(path: Path) -> None:
    path.write_text("precious")
    with pytest.raises(SocketInUseError, match="is not a socket"):
        asyncio.run(Served(path).server.start())
    assert path.read_text() == "precious"


def test_a_socket_that_was_replaced_is_not_removed_at_the_end(path: Path) -> None:
    async def use(served: Served) -> None:
        replace(path)

    serve(path, use)
    assert path.read_text() == "another's"


@pytest.mark.parametrize(
    "request_", [b"x" * (2 * REQUEST_OCTETS_MAX) + b"\n", b"x" * (2 * REQUEST_OCTETS_MAX)]
)
def test_a_request_that_is_too_large_is_refused(path: Path, request_: bytes) -> None:
    async def use(served: Served) -> None:
        assert (await served.exchange(request_))["error"]["code"] == "too_large"
        assert await served.answers()

    serve(path, use)


@pytest.mark.parametrize(
    "request_", [b"\0" * 100, b"GET / HTTP/1.1\r\n\r\n", b"AMQP\0\0\x09\x01\n", b"{" * 9999 + b"\n"]
)
def test_garbage_is_refused_and_the_next_client_served(path: Path, request_: bytes) -> None:
    async def use(served: Served) -> None:
        assert (await served.exchange(request_ + b"\n"))["error"]["code"] == "bad_request"
        assert await served.answers()

    assert serve(path, use).events.seen == []


def test_a_request_cut_short_is_not_run(path: Path) -> None:
    async def use(served: Served) -> None:
        reader, writer = await served.open()
        writer.write(b'{"v":1,"command":"stop"}')
        writer.write_eof()
        assert await asyncio.wait_for(reader.read(), 5) == b""
        writer.close()
        assert served.node.stopped == []

    serve(path, use)


def test_a_client_that_goes_away_before_its_reply_hurts_nobody(path: Path) -> None:
    async def use(served: Served) -> None:
        for _ in range(20):
            _, writer = await served.open()
            writer.write(STATUS * 100)
            writer.transport.abort()
        assert await served.answers()

    serve(path, use)


def test_a_client_that_does_not_read_is_dropped(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control_socket, "WRITE_S_MAX", 0.05)

    async def use(served: Served) -> None:
        _, writer = await served.open()
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        request = b'{"v":1,"command":"queue_page","args":{"limit":1000}}\n'
        for _ in range(200):
            writer.write(request)
        for _ in range(500):
            if served.events.seen:
                break
            await asyncio.sleep(0.01)
        writer.transport.abort()
        assert served.events.seen[0][1] == "control.client_lost"
        assert await served.answers()

    serve(path, use)


def test_a_silent_client_is_dropped(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_socket, "SILENCE_S_MAX", 0.02)

    async def use(served: Served) -> None:
        reader, writer = await served.open()
        assert await asyncio.wait_for(reader.read(), 5) == b""
        writer.close()

    serve(path, use)


def test_the_number_of_clients_is_bounded(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_socket, "CLIENTS_MAX", 2)

    async def use(served: Served) -> None:
        clients = [await served.open() for _ in range(2)]
        for reader, writer in clients:
            writer.write(STATUS)
            assert b'"ok"' in await reader.readline()
        assert (await served.exchange(b""))["error"]["code"] == "busy"
        clients[0][1].close()
        for _ in range(500):
            if await _served(served):
                break
            await asyncio.sleep(0.01)
        else:
            pytest.fail("the place of a client that left stays taken")
        clients[1][1].close()

    serve(path, use)


async def _served(served: Served) -> bool:
    try:
        return await served.answers()
    except (ConnectionError, json.JSONDecodeError):
        return False


def test_the_end_closes_idle_clients_and_removes_the_file(path: Path) -> None:
    async def run() -> None:
        served = Served(path)
        await served.server.start()
        reader, writer = await served.open()
        writer.write(STATUS)
        assert b'"ok"' in await reader.readline()
        await served.server.close()
        await served.server.close()
        assert await asyncio.wait_for(reader.read(), 5) == b""
        writer.close()

    asyncio.run(run())
    assert not path.exists()
