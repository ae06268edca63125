"""The test modules in the guide on testing pass, as they stand."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import warren
from tests.support.document import document

PAGE = "docs/guides/testing.md"
# The entry point is there only where the package is installed.
CONFTEST = """
from warren.testing import plugin

def pytest_configure(config):
    if not config.pluginmanager.hasplugin("warren"):
        config.pluginmanager.register(plugin, "warren")
"""


@pytest.mark.slow
def test_the_examples_pass(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    blocks = document(PAGE).blocks("python")
    for number, block in enumerate(blocks):
        (tmp_path / f"test_example_{number}.py").write_text(block.text)
    sources = str(Path(warren.__file__).parent.parent)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--strict-markers", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": sources},
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
    tests = sum(block.text.count("\ndef test_") for block in blocks)
    assert f"{tests} passed" in done.stdout, done.stdout + done.stderr
