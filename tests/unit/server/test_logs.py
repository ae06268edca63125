"""The log: both forms, nothing secret, no forged lines, storms, rotation, stuck outputs."""

import io
import json
import logging
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from warren.server import logs
from warren.server.config_load import load
from warren.server.logs import LINES_PER_NAME, LINES_PER_WINDOW, WINDOW_NS, Log, open_log

if TYPE_CHECKING:
    from warren.core.log import EventLog

PEER = "127.0.0.1:40000"


class Clock:
    """A clock that stands still unless a test moves it: 2026-01-02 03:04:05.678901."""

    now_ns = 1_767_323_045_678_901_234

    def monotonic_ns(self) -> int:
        return self.now_ns

    def wall_ns(self) -> int:
        return self.now_ns


def lines(
    *events: tuple[str, str, dict[str, object]], form: str = "text", level: str = "debug"
) -> list[str]:
    out = io.StringIO()
    log = Log(clock=Clock(), level=level, form=form, console=out)
    for one in events:
        log.event(*one)
    log.close()
    return out.getvalue().splitlines()


@pytest.mark.rule("O-11.1")
def test_a_text_line_has_time_level_event_and_fields() -> None:
    fields: dict[str, object] = {"peer": PEER, "tls": False, "none": None, "n": 3}
    assert lines(("info", "connection.accepted", fields)) == [
        "2026-01-02T03:04:05.678901Z info     connection.accepted "
        "peer=127.0.0.1:40000 tls=false none=None n=3"
    ]


@pytest.mark.rule("O-11.1")
def test_a_json_line_is_one_object_with_time_level_msg_and_fields() -> None:
    fields: dict[str, object] = {"peer": PEER, "n": 3, "level": "posing", "f": float("inf")}
    (line,) = lines(("warning", "x.y", fields), form="json")
    assert json.loads(line) == {
        "time": "2026-01-02T03:04:05.678901Z",
        "level": "warning",
        "msg": "x.y",
        "peer": PEER,
        "n": 3,
        "level_": "posing",
        "f": "inf",
    }


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize(
    "name",
    ["password", "default_pass", "user_passwd", "token", "client_secret", "Authorization", "body"],
)
def test_credentials_and_payloads_never_leave(name: str, form: str) -> None:
    fields: dict[str, object] = {name: "hunter2", "nested": {name: "hunter2"}}
    fields |= {"raw": b"hunter2", "uri": "amqp://u:hunter2@host/", "list": [b"hunter2"]}
    (line,) = lines(("info", "x", fields), form=form)
    assert "hunter2" not in line
    assert "7 octets" in line
    assert "://***@host/" in line


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("evil", ["a\nb", "a\r\nb", "a\x1b[31mb", "a\u2028b", "a\x85b", "\ud800"])
def test_a_client_cannot_forge_lines_or_send_control_characters(evil: str, form: str) -> None:
    out = io.BytesIO()
    console = io.TextIOWrapper(out, encoding="utf-8", errors="backslashreplace")
    log = Log(clock=Clock(), form=form, console=console)
    log.event("info", "queue.declared", name=evil)
    log.close()
    console.flush()
    text = out.getvalue().decode("utf-8")
    assert len(text.splitlines()) == 1
    assert text.rstrip("\n").isprintable()


def test_a_long_field_is_cut() -> None:
    (line,) = lines(("info", "x", {"name": "y" * 100_000}))
    assert len(line) < 700
    assert line.endswith("...")


@pytest.mark.parametrize(
    ("level", "written"),
    [("debug", 5), ("info", 4), ("warning", 3), ("error", 2), ("critical", 1), ("none", 0)],
)
def test_the_level_is_the_least_that_is_written(level: str, written: int) -> None:
    events = ["debug", "info", "warning", "error", "critical"]
    assert len(lines(*[(one, "x", {}) for one in events], level=level)) == written


def test_the_level_can_be_changed() -> None:
    out = io.StringIO()
    log = Log(clock=Clock(), level="error", console=out)
    log.event("info", "one")
    log.level("info")
    log.event("info", "two")
    log.close()
    assert "two" in out.getvalue()
    assert "one" not in out.getvalue()


def test_a_storm_of_one_reason_is_counted_and_told() -> None:
    out = io.StringIO()
    clock = Clock()
    log = Log(clock=clock, console=out)
    for _ in range(LINES_PER_WINDOW + 7):
        log.event("warning", "login.refused", reason="bad password")
    log.event("warning", "login.refused", reason="other")
    clock.now_ns += WINDOW_NS
    log.event("warning", "login.refused", reason="bad password")
    log.close()
    written = out.getvalue().splitlines()
    assert len(written) == LINES_PER_WINDOW + 3
    assert written[-2].endswith('log.suppressed event=login.refused count=7 reason="bad password"')


def test_a_storm_that_ended_is_told_by_the_timer_and_at_the_end() -> None:
    out = io.StringIO()
    clock = Clock()
    log = Log(clock=clock, console=out)
    for _ in range(LINES_PER_WINDOW + 1):
        log.event("info", "x")
    log.tell_suppressed()
    clock.now_ns += WINDOW_NS
    log.tell_suppressed()
    log.tell_suppressed()
    for _ in range(LINES_PER_WINDOW + 2):
        log.event("info", "x")
    log.close()
    told = [one for one in out.getvalue().splitlines() if "log.suppressed" in one]
    assert [one.rpartition("count=")[2] for one in told] == ["1", "2"]


def test_many_reasons_take_bounded_memory_and_lose_no_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(logs, "REASONS_MAX", 10)
    out = io.StringIO()
    log = Log(clock=Clock(), console=out)
    for _ in range(LINES_PER_WINDOW + 1):
        log.event("info", "x", reason="first")
    for index in range(50):
        log.event("info", "x", reason=f"r{index}")
    assert log.flush()
    # The oldest made room, and its count was not lost.
    assert out.getvalue().count("log.suppressed event=x count=1 reason=first") == 1
    log.close()
    assert out.getvalue().count("log.suppressed") == 1


@pytest.mark.rule("O-11.1")
def test_reasons_that_clients_choose_are_no_way_around_the_limit() -> None:
    out, clock = io.StringIO(), Clock()
    log = Log(clock=clock, level="debug", form="text", console=out)
    for number in range(LINES_PER_NAME + 50):
        log.event("warning", "x", {"reason": f"word {number}"})
    log.event("warning", "y")
    assert log.flush()
    assert out.getvalue().count(" x reason") == LINES_PER_NAME
    clock.now_ns += WINDOW_NS
    log.tell_suppressed()
    log.event("warning", "x", {"reason": "later"})
    log.close()
    assert out.getvalue().count("log.suppressed event=x count=50 reason=any") == 1
    assert "x reason=later" in out.getvalue()
    assert " y" in out.getvalue()


@pytest.mark.rule("O-11.1")
def test_a_moved_file_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "logs" / "w.log"
    log = Log(clock=Clock(), file=file, console=None)
    log.event("info", "one")
    assert log.flush()
    file.rename(tmp_path / "w.log.1")
    log.event("info", "two")
    log.close()
    assert "one" in (tmp_path / "w.log.1").read_text()
    assert "two" in file.read_text()
    assert "two" not in (tmp_path / "w.log.1").read_text()


def opened() -> set[Path]:
    """The files this process has open."""
    return {one.resolve() for one in Path("/proc/self/fd").iterdir()}


def test_reopen_closes_the_old_file(tmp_path: Path) -> None:
    file = tmp_path / "w.log"
    log = Log(clock=Clock(), file=file, console=None)
    log.event("info", "one")
    assert log.flush()
    file.rename(tmp_path / "old")
    assert (tmp_path / "old") in opened()
    log.reopen()
    assert (tmp_path / "old") not in opened()
    log.event("info", "two")
    log.close()
    assert "two" in file.read_text()


def test_a_folder_that_vanished_does_not_stop_the_log(tmp_path: Path) -> None:
    out = io.StringIO()
    folder = tmp_path / "logs"
    log = Log(clock=Clock(), file=folder / "w.log", console=out)
    (folder / "w.log").unlink()
    folder.rmdir()
    log.event("info", "one")
    log.event("info", "two")
    log.close()
    assert len(out.getvalue().splitlines()) == 2


def test_a_file_that_cannot_be_opened_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="directory"):
        Log(clock=Clock(), file=tmp_path, console=None)


class Stuck(io.StringIO):
    """A terminal that takes nothing until it is released."""

    def __init__(self) -> None:
        super().__init__()
        self.free = threading.Event()

    def write(self, text: str) -> int:
        self.free.wait(30)
        return super().write(text)


def test_a_stuck_output_blocks_nobody_and_the_loss_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(logs, "LINES_WAITING_MAX", 5)
    out = Stuck()
    log = Log(clock=Clock(), console=out)
    for index in range(15):
        log.event("info", "x", reason=str(index))
    out.free.set()
    assert log.flush()
    log.event("info", "after")
    log.close()
    assert "log.dropped count=" in out.getvalue()
    assert "after" in out.getvalue()


def test_closing_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "CLOSE_WAIT_S", 0.01)
    out = Stuck()
    log = Log(clock=Clock(), console=out)
    log.event("info", "x")
    log.close()
    log.close()
    log.event("info", "ignored after the end")
    assert not out.getvalue()
    out.free.set()


def test_records_of_libraries_become_events() -> None:
    out = io.StringIO()
    log = Log(clock=Clock(), console=out)
    before = logging.getLogger().handlers[:]
    try:
        log.adopt_libraries()
        logging.getLogger("asyncio").info("not this")
        try:
            raise ValueError("odd")
        except ValueError:
            logging.getLogger("asyncio").exception("socket.send() raised")
        log.close()
    finally:
        logging.getLogger().handlers[:] = before
    (line,) = out.getvalue().splitlines()
    assert 'log.library logger=asyncio message="socket.send() raised"' in line
    assert "error=\"ValueError('odd')\"" in line
    assert "test_logs.py:" in line


def test_a_log_is_opened_as_the_settings_say(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    env = {"WARREN_LOG_FILE": str(tmp_path / "l"), "WARREN_LOG_FORMAT": "json"}
    log = open_log(load(env=env | {"WARREN_LOG_CONSOLE": "false"}), Clock())
    seen: EventLog = log
    seen.event("info", "x", {})
    log.close()
    assert json.loads((tmp_path / "l").read_text())["msg"] == "x"
    assert capsys.readouterr().err == ""
