"""amqplib, the Node client: each scenario of `node/scenarios.mjs` is one test."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.interop.target import url
from tests.support.broker import Broker

SOURCE = Path(__file__).with_name("node")
SCRIPT = (SOURCE / "scenarios.mjs").read_text()
SCENARIOS = re.findall(r"^scenario\('([^']+)'", SCRIPT, re.MULTILINE)
INSTALL = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock"]


@pytest.fixture(scope="module")
def scenarios(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scenario script beside an installed amqplib; skipped where Node or the package is not."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("node and npm are not installed")
    home = tmp_path_factory.mktemp("node")
    for file in SOURCE.iterdir():
        shutil.copy(file, home)
    try:
        installed = subprocess.run(INSTALL, cwd=home, capture_output=True, text=True, timeout=45)
    except subprocess.TimeoutExpired:
        pytest.skip("npm did not fetch amqplib in time")
    if installed.returncode != 0:
        pytest.skip(f"npm could not fetch amqplib: {installed.stderr[-200:]}")
    return home / "scenarios.mjs"


def test_there_are_scenarios() -> None:
    assert len(SCENARIOS) > 15
    assert len(set(SCENARIOS)) == len(SCENARIOS)


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_scenario(broker: Broker, name: str, scenarios: Path, scenario: str) -> None:
    command = ["node", str(scenarios), url(broker), name, scenario]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=40)
    assert ran.returncode == 0, ran.stderr
