"""A node in a process of its own, and `warrenctl` called as a function in this one."""

import io
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.broker import Broker, external_broker_named, reference_named, start_broker
from warren.cli.ctl.main import main


@dataclass
class Outcome:
    """What a call printed, and its exit code."""

    out: str
    err: str
    code: int


class Ctl:
    """Runs command lines against one node."""

    def __init__(self, broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
        self.broker = broker
        self.capsys = capsys

    def __call__(self, *words: str) -> Outcome:
        self.capsys.readouterr()
        code = main(words)
        told = self.capsys.readouterr()
        return Outcome(told.out, told.err, code)

    def rows(self, *words: str) -> list[list[str]]:
        """Return the cells of a list; it must succeed."""
        found = self(*words, "-q", "--no-table-headers")
        assert found.code == 0, found.err
        return [line.split("\t") for line in found.out.splitlines()]


def clean_environment(monkeypatch: pytest.MonkeyPatch, broker: Broker) -> None:
    for name in [one for one in os.environ if one.startswith(("WARREN_CON", "WARREN_DATA"))]:
        monkeypatch.delenv(name)
    # A password that is missing is asked for there.
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert broker.log is not None
    monkeypatch.setenv("WARREN_DATA_DIR", str(broker.log.parent / "data"))
    # A verb that writes a file writes it there, whatever word it takes for the name.
    monkeypatch.chdir(broker.log.parent)


@pytest.fixture(autouse=True, scope="session")
def _only_for_warren() -> None:
    if external_broker_named() or reference_named():
        pytest.skip("warrenctl asks a Warren that was started here")


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    broker = start_broker(tmp_path_factory.mktemp("node"), {"node_name": "rabbit@test"})
    yield broker
    broker.stop()


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Broker]:
    """A node that nobody else has touched."""
    broker = start_broker(tmp_path, {"node_name": "rabbit@test"})
    yield broker
    broker.stop()


@pytest.fixture
def ctl(node: Broker, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> Ctl:
    clean_environment(monkeypatch, node)
    return Ctl(node, capsys)


@pytest.fixture
def ctl_fresh(fresh: Broker, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> Ctl:
    clean_environment(monkeypatch, fresh)
    return Ctl(fresh, capsys)
