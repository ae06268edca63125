"""The command line against a control socket with a fake node behind it."""

import asyncio
import json
import os
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.server.fake_node import MEMORY_ALARM, NAME, Events, FakeNode
from warren.cli.main import VERBS, main
from warren.server.command_node import COMMANDS
from warren.server.control import Control
from warren.server.control_socket import ControlServer

Output = pytest.CaptureFixture[str]


class Running:
    """A fake node that serves a socket from a thread of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.node = FakeNode()
        self._loop = asyncio.new_event_loop()
        self._server = ControlServer(path, Control(self.node, Events(), COMMANDS), Events())
        self._loop.run_until_complete(self._server.start())
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self.node.on_stop = self.end_soon

    def end_soon(self) -> None:
        """What a node does when it is told to stop: it ends a little later."""
        self._loop.call_later(0.1, lambda: self._loop.create_task(self._server.close()))

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._server.close(), self._loop).result(5)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    for name in [one for one in os.environ if one.startswith("WARREN_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("WARREN_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "100")
    found = Running(tmp_path / "control.sock")
    yield found
    found.close()


@pytest.mark.rule("O-1.10")
def test_status_is_one_aligned_page_without_colour(running: Running, capsys: Output) -> None:
    assert main(["status"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "warren@test  Warren 0.1.0, up 1 h 2 min"
    assert "  messages    1,234,567 ready, 8 unacknowledged" in lines
    assert "  listens     amqp [::1]:5672" in lines
    assert "  disk        1.0 MiB free, limit 47.7 MiB" in lines
    assert "  memory      64.0 MiB of 1.0 GiB (6.2 %)" in lines
    assert "  alarm       disk: 1 MB free (on warren@test, setting disk_free_limit)" in lines
    assert all("\x1b" not in line for line in lines)


def test_status_json_is_the_reply(running: Running, capsys: Output) -> None:
    assert main(["status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["pid"] == 4711


@pytest.mark.parametrize("words", [["queue:orders"], ["queue", "orders"], ["orders"]])
def test_why_draws_the_chain_down_to_the_root(
    words: list[str], running: Running, capsys: Output
) -> None:
    assert main(["why", *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "queue 'orders' in vhost '/'"
    assert lines[1] == "└─ flow 5.0 s, credit"
    assert any(line.strip() == "waits for store 'journal'" for line in lines)
    assert any("└─ flow 6.0 s, journal_full" in line for line in lines)
    assert any("Setting: journal_bytes_max" in line for line in lines)
    # Advice stands at the root cause only.
    assert sum("faster disk" in line for line in lines) == 1
    assert not any("bottleneck" in line for line in lines)


def test_why_without_a_name_shows_all_that_waits(running: Running, capsys: Output) -> None:
    assert main(["why"]) == 0
    assert capsys.readouterr().out.startswith(f"channel '{NAME} (1)'\n└─ flow 2.0 s")


def test_why_of_something_that_does_not_wait_or_exist(running: Running, capsys: Output) -> None:
    assert main(["why", "connection:" + NAME]) == 0
    assert capsys.readouterr().out == f"connection '{NAME}' does not wait.\n"
    assert main(["why", "gone"]) == 1
    assert "there is no 'gone' on this node" in capsys.readouterr().err


@pytest.mark.rule("O-1.13")
def test_health_tells_by_its_exit_code_and_reasons(running: Running, capsys: Output) -> None:
    assert main(["health"]) == 0
    assert "healthy" in capsys.readouterr().out
    running.node.failed_checks.append(MEMORY_ALARM)
    assert main(["health"]) == 1
    out = capsys.readouterr().out
    assert "FAIL  memory     memory_alarm: 1 GiB used" in out
    assert "consume what is queued" in out
    assert main(["health", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["checks"][1]["reason"] == "memory_alarm"


def test_diag_shows_settings_with_their_origins(running: Running, capsys: Output) -> None:
    assert main(["diag"]) == 0
    out = capsys.readouterr().out
    assert "node_name" in out
    assert "guest" in out
    assert re.search(r"default_pass +\*\*\*", out)


def test_lists_show_a_page_and_how_to_go_on(running: Running, capsys: Output) -> None:
    assert main(["list-queues", "--limit", "2", "--offset", "9"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines[1:3]] == [
        ["/", "q9", "running", "9", "0", "1", "D"],
        ["/", "q10", "running", "10", "0", "1", "D"],
    ]
    assert lines[3] == "  10-11 of 2,500; more with --offset 11"
    assert main(["list-queues", "--vhost", "none"]) == 0
    assert capsys.readouterr().out == "  none\n"


def test_names_from_clients_cannot_control_the_terminal(running: Running, capsys: Output) -> None:
    assert main(["list-connections"]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "evil\\x1b[31m" in out


def test_stop_waits_until_the_node_is_gone(running: Running, capsys: Output) -> None:
    assert main(["stop", "--reason", "new kernel"]) == 0
    assert running.node.stopped == ["new kernel"]
    assert not running.path.exists()
    assert f"node stopped (pid {os.getpid()})" in capsys.readouterr().out


def test_stop_gives_up_in_time(running: Running, capsys: Output) -> None:
    running.node.on_stop = lambda: None
    assert main(["stop", "--timeout", "0.1"]) == 75
    assert "still runs" in capsys.readouterr().err
    assert main(["stop", "--no-wait"]) == 0
    assert "is stopping" in capsys.readouterr().out


@pytest.mark.rule("O-1.3")
@pytest.mark.parametrize("verb", ["status", "why", "health", "diag", "stop", "list-queues"])
def test_no_node_is_69_with_advice(verb: str, tmp_path: Path, capsys: Output) -> None:
    assert main([verb, "--data-dir", str(tmp_path)]) == 69
    err = capsys.readouterr().err
    assert f"no node answers at {tmp_path}/control.sock" in err
    assert "warren start" in err


def test_the_node_is_found_by_every_road(
    running: Running, tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARREN_DATA_DIR", "/nowhere")
    assert main(["health"]) == 69
    assert main(["health", "--data-dir", str(tmp_path)]) == 0
    assert main(["health", "--socket", str(tmp_path / "control.sock")]) == 0
    config = tmp_path / "w.toml"
    config.write_text(f'control_socket = "{tmp_path}/control.sock"\n')
    assert main(["health", "--config", str(config)]) == 0
    monkeypatch.setenv("WARREN_CONFIG", str(config))
    assert main(["health"]) == 0
    monkeypatch.delenv("WARREN_CONFIG")
    monkeypatch.setenv("WARREN_CONTROL_SOCKET", str(tmp_path / "control.sock"))
    assert main(["health"]) == 0
    config.write_text("prot = 1\n")
    assert main(["health", "--config", str(config)]) == 78
    assert "did you mean port" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("reply", "code", "words"),
    [
        (b"", 69, "closed the connection"),
        (b"nonsense\n", 69, "no valid reply"),
        (b"[]\n", 69, "no valid reply"),
        (b'{"v":1,"ok":{"node":1}}\n', 1, "of another version"),
        (b'{"v":1,"error":{"code":"busy","message":"full","fix":"try later"}}\n', 1, "try later"),
        (None, 75, "did not answer within"),
    ],
)
def test_a_node_that_answers_oddly(
    reply: bytes | None, code: int, words: str, tmp_path: Path, capsys: Output
) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def answer() -> None:
            client, _ = listener.accept()
            with client:
                client.recv(10_000)
                if reply is not None:
                    client.sendall(reply)
                    return
                # Until the client gives up.
                client.recv(1)

        thread = threading.Thread(target=answer)
        thread.start()
        assert main(["status", "--socket", str(path), "--timeout", "0.2"]) == code
        thread.join(5)
    assert words in capsys.readouterr().err


@pytest.mark.rule("O-1.3")
@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["statos"], "did you mean status?"),
        (["list_queues"], "did you mean list-queues?"),
        (["status", "--wrong"], "usage: warren status"),
        (["start", "--prot=1"], "did you mean --port?"),
        (["start", "--set", "x"], "expected KEY=VALUE"),
        ([], "usage: warren"),
    ],
)
def test_wrong_usage_is_2_with_a_hint(words: list[str], hint: str, capsys: Output) -> None:
    assert main(words) == 2
    assert hint in capsys.readouterr().err


@pytest.mark.parametrize("verb", [one for one in VERBS if one not in {"bench", "version"}])
def test_every_verb_has_help(verb: str, capsys: Output) -> None:
    assert main([verb, "--help"]) == 0
    assert f"warren {verb}" in capsys.readouterr().out


def test_help_and_version(capsys: Output) -> None:
    for word in ("help", "--help", "-h"):
        assert main([word]) == 0
        assert "exit codes" in capsys.readouterr().out
    for word in ("version", "--version"):
        assert main([word]) == 0
        assert capsys.readouterr().out == "warren 0.1.0\n"
