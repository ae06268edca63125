"""`warren start` up to the node: options, the check, refusals, exit codes."""

import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

from warren.cli.main import main
from warren.cli.start import parser
from warren.runtime.lock import FileLock
from warren.server.boot_definitions import BootDefinitionsError
from warren.server.config import KEYS, Settings
from warren.server.control_socket import SocketInUseError
from warren.server.metadata_file import MetadataError

Output = pytest.CaptureFixture[str]


class Node(ModuleType):
    """Stands in for `warren.server.service`."""

    def __init__(self) -> None:
        super().__init__("warren.server.service")
        self.settings: Settings | None = None
        self.code = 0
        self.failure: Exception | None = None

    def run(self, settings: Settings) -> int:
        self.settings = settings
        if self.failure is not None:
            raise self.failure
        return self.code


@pytest.fixture(autouse=True)
def no_settings_around(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [one for one in os.environ if one.startswith(("WARREN_", "RABBITMQ_"))]:
        monkeypatch.delenv(name)


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Node:
    made = Node()
    monkeypatch.setitem(sys.modules, "warren.server.service", made)
    return made


def test_the_node_gets_the_settings_and_gives_the_exit_code(node: Node, tmp_path: Path) -> None:
    node.code = 3
    words = ["--port", "20700", "--data-dir", str(tmp_path), "--set", "heartbeat=7"]
    assert main(["start", *words, "--set", "log.file.level=debug"]) == 3
    assert node.settings is not None
    assert node.settings.port == 20700
    assert node.settings.data_dir == tmp_path
    assert node.settings.heartbeat_s == 7
    assert node.settings.log_level == "debug"
    assert node.settings.origin("port") == "--port"
    assert node.settings.origin("heartbeat_s") == "--set"


def test_later_options_win_over_earlier_ones(node: Node) -> None:
    assert main(["start", "--port", "1", "--set", "port=2"]) == 0
    assert node.settings is not None
    assert node.settings.port == 2
    assert main(["start", "--set", "port=2", "--port", "1"]) == 0
    assert node.settings.port == 1


def test_there_is_an_option_for_every_setting() -> None:
    text = parser().format_help()
    for name, facts in KEYS.items():
        assert f"--{name.replace('_', '-')} " in text
        assert facts.doc.split()[0] in text


@pytest.mark.rule("O-1.3", "O-2.2")
def test_a_refused_configuration_is_78_and_starts_nothing(
    node: Node, tmp_path: Path, capsys: Output
) -> None:
    config = tmp_path / "w.toml"
    config.write_text("prot = 1\nport = 99999\n")
    assert main(["start", "--config", str(config), "--backlog", "x"]) == 78
    assert node.settings is None
    err = capsys.readouterr().err.splitlines()
    assert err[0] == "warren: configuration refused, 3 problems:"
    assert err[1] == f"{config}:1: prot: unknown setting; did you mean port?"
    assert err[3].startswith("--backlog: backlog: expected")


def test_the_check_shows_values_and_origins_and_starts_nothing(node: Node, capsys: Output) -> None:
    assert main(["start", "--check", "--port", "7", "--default-pass", "hunter2"]) == 0
    assert node.settings is None
    out = capsys.readouterr().out
    assert ["port", "7", "--port"] in [line.split() for line in out.splitlines()]
    assert "hunter2" not in out


def test_the_check_tells_what_is_without_effect(node: Node, tmp_path: Path, capsys: Output) -> None:
    config = tmp_path / "rabbitmq.config"
    config.write_text("[{kernel, [{net_ticktime, 120}]}].\n")
    assert main(["start", "--check", "--config", str(config)]) == 0
    told = capsys.readouterr().err
    assert told == (
        f"warren: {config}:1: net_ticktime: a RabbitMQ setting without effect in Warren\n"
    )
    assert main(["start", "--config", str(config)]) == 0
    assert capsys.readouterr().err == ""
    assert node.settings is not None
    assert [note.key for note in node.settings.notes] == ["net_ticktime"]


def test_a_node_that_cannot_start_says_why(node: Node, tmp_path: Path, capsys: Output) -> None:
    held = FileLock(tmp_path / "node.lock")
    try:
        FileLock(tmp_path / "node.lock")
    except Exception as failure:
        node.failure = failure
    assert main(["start"]) == 1
    assert f"not started: {tmp_path} is in use by process {os.getpid()}" in capsys.readouterr().err
    held.release()
    node.failure = SocketInUseError("the socket is taken")
    assert main(["start"]) == 1
    assert "the socket is taken" in capsys.readouterr().err
    node.failure = PermissionError(13, "Permission denied", "/var/lib/warren")
    assert main(["start"]) == 1
    assert "/var/lib/warren: Permission denied" in capsys.readouterr().err
    node.failure = BootDefinitionsError("d.json: is no JSON object")
    assert main(["start"]) == 78
    assert "not started: d.json: is no JSON object" in capsys.readouterr().err
    node.failure = MetadataError(tmp_path / "metadata.db", "damaged: page 7", "see the doctor")
    assert main(["start"]) == 78
    assert "metadata.db: damaged: page 7\nsee the doctor" in capsys.readouterr().err
