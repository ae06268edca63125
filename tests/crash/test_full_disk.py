"""The disk of a real broker runs full: an alarm, no confirm that does not hold, and it goes on.

A smaller disk than that of `make full-disk`. Needs root: the data lies on a file system of its own.
"""

import sys
from pathlib import Path

import pytest

from tests.support.broker import free_port
from tools.bench.broker import Place
from tools.full_disk import build_parser, cannot_mount, prove
from tools.proof.subject import Subject


@pytest.mark.rule("CN-2")
@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("how", [[], ["--abrupt"]], ids=["by messages", "at once"])
def test_a_full_disk_loses_nothing_and_passes(tmp_path: Path, how: list[str]) -> None:
    if reason := cannot_mount(tmp_path / "try"):
        pytest.skip(reason)
    place = Place(tmp_path / "disk" / "node", free_port())
    subject = Subject("warren", [sys.executable, "-m", "warren.cli.main"], place)
    args = build_parser().parse_args([*how, "--size", "80", "--limit", "20", "--ballast", "25"])
    assert prove(subject, args).faults == []
