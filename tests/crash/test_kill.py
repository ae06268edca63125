"""A real broker is killed under load: what it confirmed is there, what was acknowledged is not.

A short slice of what `make kill` does for longer.
"""

import sys
from pathlib import Path

import pytest

from tests.support.broker import free_port
from tools.bench.broker import Place
from tools.kill import Plan, run
from tools.proof.subject import Subject


@pytest.mark.rule("CN-2", "CN-3", "VQ-18", "VQ-20", "VQ-22", "PQ-1", "PQ-3", "LZ-5")
@pytest.mark.slow
@pytest.mark.timeout(180)
def test_three_kills_and_a_stop_keep_what_was_promised(tmp_path: Path) -> None:
    place = Place(tmp_path / "node", free_port())
    broker = Subject("warren", [sys.executable, "-m", "warren.cli.main"], place).start()
    try:
        series = run(broker, Plan(kills=4, seconds=0.6, during_start=0.3, clean_every=4))
    finally:
        broker.stop()
    assert series.verdict.words == []
    assert series.rounds == 4
    # Or the rounds would have shown nothing.
    assert min(series.confirmed, series.acked, series.looked_at) > 0
