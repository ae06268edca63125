"""`warren delayed` against a node that holds messages."""

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.server.asking import Asker
from tests.unit.server.test_command_delayed import delaying, hold
from warren.cli.main import main
from warren.server.config import Settings
from warren.server.control_socket import ControlServer

Output = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """The data folder of a node with an exchange `x` that holds three messages."""
    loop = asyncio.new_event_loop()

    async def start() -> ControlServer:
        asker = Asker(Settings(data_dir=tmp_path, node_name="warren@test"))
        await asker.node.prepare()
        hold(asker, delaying(asker), 60_000, 90_000, 120_000)
        server = ControlServer(tmp_path / "control.sock", asker.node.control, asker.log)
        await server.start()
        return server

    server = loop.run_until_complete(start())
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield tmp_path
    asyncio.run_coroutine_threadsafe(server.close(), loop).result(5)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(5)
    loop.close()


def run(folder: Path, capsys: Output, *words: str, code: int = 0) -> str:
    assert main(["delayed", *words, "--data-dir", str(folder)]) == code
    shown = capsys.readouterr()
    return shown.out if code == 0 else shown.out + shown.err


def rows(folder: Path, capsys: Output, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run(folder, capsys, *words, "--json"))
    return found


def test_exchanges_and_messages(folder: Path, capsys: Output) -> None:
    lines = run(folder, capsys).splitlines()
    assert lines[0].split() == ["vhost", "name", "messages_delayed", "memory", "survives_restart"]
    assert lines[1].split()[:3] == ["/", "x", "3"]
    found = rows(folder, capsys, "x")
    assert [one["left_ms"] for one in found] == [60_000, 90_000, 120_000]
    assert [one["routing_key"] for one in found] == ["key.0", "key.1", "key.2"]
    page = rows(folder, capsys, "x", "--limit", "1", "--after", found[0]["id"])
    assert page == found[1:2]
    assert "1970-01-01 00:17:40.000" in run(folder, capsys, "x")


def test_cancelling(folder: Path, capsys: Output) -> None:
    first, second, third = (one["id"] for one in rows(folder, capsys, "x"))
    assert run(folder, capsys, "x", "--cancel", first, second) == "cancelled 2\n"
    told = run(folder, capsys, "x", "--cancel", first, code=1)
    assert told == f"cancelled 0\n{first} is not there, or about to be delivered\n"
    assert [one["id"] for one in rows(folder, capsys, "x")] == [third]
    assert run(folder, capsys, "x", "--cancel-all") == "cancelled 1\n"
    assert run(folder, capsys, "x") == "  none\n"


def test_what_is_refused(folder: Path, capsys: Output) -> None:
    assert "no exchange 'y' of type x-delayed-message" in run(folder, capsys, "y", code=1)
    assert "is no id" in run(folder, capsys, "x", "--cancel", "1", code=1)
    assert "name the exchange" in run(folder, capsys, "--cancel-all", code=2)
    assert "no node answers" in run(folder / "nobody", capsys, code=69)
