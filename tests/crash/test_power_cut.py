"""Crashes at every call of the persistence layer: nothing promised is lost, nothing comes back.

A short slice of what `make crash` does for longer. A failing seed is run again with
`tools/crash.py --seed N` and stays here.
"""

import pytest

from tests.support.sim_files import SimFiles
from tests.support.store_damage import run as run_damage
from tests.support.store_damage import run_running
from tests.support.store_script import script
from tests.support.store_workload import run
from warren.store.body_file import body_path
from warren.store.compaction import CompactJob
from warren.store.persistence import CHECKPOINT, Persistence, RemoveJob


@pytest.mark.rule("CN-2", "IX-14", "IX-15", "IX-17", "IX-18", "IX-19")
@pytest.mark.parametrize("seed", range(2))
def test_crash_at_every_call_of_a_script(seed: int) -> None:
    assert script(seed, copies=2, deep=0.03) > 1000


@pytest.mark.rule("CN-1", "CN-2", "IX-2", "IX-4", "IX-6", "IX-7")
@pytest.mark.parametrize("seed", range(12))
def test_crashes_of_drawn_work(seed: int) -> None:
    assert run(seed, dense=0.05, deep=0.03) > 0


@pytest.mark.rule("IX-20")
@pytest.mark.parametrize("seed", range(6))
def test_damage_is_reported_and_never_handed_over(seed: int) -> None:
    done, felt = run_damage(seed, times=15)
    assert done == 15
    assert felt <= done


@pytest.mark.parametrize("seed", range(8))
def test_damage_under_a_running_store_is_never_handed_over(seed: int) -> None:
    assert run_running(seed) >= 0


def caught(seeds: range) -> bool:
    for seed in seeds:
        try:
            run(seed, dense=0.2, deep=0.0)
        except AssertionError:
            return True
    return False


@pytest.mark.parametrize("call", ["sync", "sync_folder"])
def test_a_disk_that_does_not_sync_is_noticed(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SimFiles, call, lambda self, what: None)
    assert caught(range(20))


def test_bodies_that_are_not_synced_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    sync = SimFiles.sync

    def lazy(self: SimFiles, handle: int) -> None:
        if not self.handles[handle][0].endswith(".rdq"):
            sync(self, handle)

    monkeypatch.setattr(SimFiles, "sync", lazy)
    assert caught(range(20))


def test_files_that_go_before_the_state_log_knows_are_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    note = Persistence._on_compacted

    def hasty(self: Persistence, job: CompactJob, error: Exception | None) -> None:
        left, right = job.pair
        paths = [body_path(int(left.number)), body_path(int(right.number))]
        self.lanes.submit(CHECKPOINT, RemoveJob(paths, []))
        note(self, job, error)

    monkeypatch.setattr(Persistence, "_on_compacted", hasty)
    assert caught(range(40))
