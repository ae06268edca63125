"""The plugin in a run of pytest of its own: what it costs unused, what it gives, what it shows."""

import os
import subprocess
import sys
from pathlib import Path

import warren
from warren.testing import Broker, Clock

# The entry point is there only where the package is installed.
CONFTEST = """
from warren.testing import plugin

def pytest_configure(config):
    if not config.pluginmanager.hasplugin("warren"):
        config.pluginmanager.register(plugin, "warren")
"""


def run(folder: Path, test: str) -> str:
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_it.py").write_text(test)
    sources = str(Path(warren.__file__).parent.parent)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--strict-markers", "-p", "no:cacheprovider"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": sources},
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
    return done.stdout + done.stderr


def test_unused_it_imports_nothing_of_the_broker(tmp_path: Path) -> None:
    test = """
import sys

def test_it():
    loaded = {name.partition(".")[2] for name in sys.modules if name.startswith("warren")}
    assert loaded <= {"", "_build", "_pure", "testing", "testing.plugin"}
    assert "asyncio" not in sys.modules
"""
    assert "1 passed" in run(tmp_path, test)


def test_each_test_has_its_own_broker_and_the_session_one(tmp_path: Path) -> None:
    test = """
import pytest

seen = []

@pytest.mark.parametrize("number", [1, 2])
def test_it(warren_broker, warren_broker_session, number):
    assert warren_broker.queues() == []
    warren_broker.declare_queue("q")
    assert len(warren_broker_session.queues()) == number - 1
    warren_broker_session.declare_queue(f"q{number}")
    seen.append((warren_broker.port, warren_broker_session.port))
    assert len({port for port, _ in seen}) == number
    assert len({port for _, port in seen}) == 1

@pytest.mark.warren(heartbeat_s=7, channel_max=5)
class TestSettings:
    @pytest.mark.warren(channel_max=9)
    def test_it(self, warren_broker):
        settings = {row["name"]: row["value"] for row in warren_broker.command("diag")["settings"]}
        assert (settings["heartbeat_s"], settings["channel_max"]) == ("7", "9")
"""
    assert "3 passed" in run(tmp_path, test)


def test_a_failure_shows_the_log(tmp_path: Path) -> None:
    test = """
def test_it(warren_broker):
    assert False

def test_other(warren_broker):
    pass
"""
    told = run(tmp_path, test)
    assert "1 failed, 1 passed" in told
    assert told.count("log of warren_broker") == 1
    assert "node.started node=warren@testing" in told


def test_the_clock_fixture_stands_still(warren_broker: Broker, warren_clock: Clock) -> None:
    assert not warren_clock.running
    assert warren_clock is warren_broker.clock
