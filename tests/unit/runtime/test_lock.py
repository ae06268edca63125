"""One node per data folder."""

import subprocess
import sys
from pathlib import Path

import pytest

from warren.runtime.lock import FileLock, LockHeldError, LookLock

HOLD = """
import sys
from pathlib import Path
from warren.runtime.lock import FileLock
held = FileLock(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def test_a_second_owner_is_refused_until_the_first_lets_go(tmp_path: Path) -> None:
    path = tmp_path / "node.lock"
    first = FileLock(path)
    with pytest.raises(LockHeldError, match="is in use by process") as refusal:
        FileLock(path)
    assert str(tmp_path) in str(refusal.value)
    first.release()
    first.release()
    FileLock(path).release()


def test_the_lock_dies_with_its_process_and_names_it(tmp_path: Path) -> None:
    path = tmp_path / "node.lock"
    owner = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)],
        env={"PYTHONPATH": ":".join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "held\n"
        with pytest.raises(LockHeldError) as refusal:
            FileLock(path)
        assert refusal.value.pid == str(owner.pid)
        owner.kill()
    FileLock(path).release()


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "node.lock").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match=r"node\.lock"):
        FileLock(tmp_path / "node.lock")
    assert (tmp_path / "victim").read_text() == "precious"


def test_who_looks_keeps_owners_out_and_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "node.lock"
    LookLock(path).release()
    assert not path.exists()
    FileLock(path).release()
    before = path.read_bytes()
    first, second = LookLock(path), LookLock(path)
    with pytest.raises(LockHeldError):
        FileLock(path)
    first.release()
    second.release()
    second.release()
    assert path.read_bytes() == before
    owner = FileLock(path)
    with pytest.raises(LockHeldError, match="is in use by process"):
        LookLock(path)
    owner.release()
