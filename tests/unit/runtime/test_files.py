"""Files of the machine, and those of the simulated disk: one conformance, and what only one has."""

import errno
from pathlib import Path
from random import Random

import pytest

from tests.support.files_conformance import check_files
from tests.support.sim_files import SimFiles
from warren.runtime.files import SystemFiles


def test_the_files_of_the_machine(tmp_path: Path) -> None:
    check_files(SystemFiles(tmp_path))


def test_the_files_of_the_simulated_disk() -> None:
    check_files(SimFiles(Random(0)))


def test_files_that_are_only_looked_at_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"octets")
    files = SystemFiles(tmp_path, look_only=True)
    handle = files.open("f")
    assert files.read(handle, 2, 3) == b"tet"
    with pytest.raises(OSError, match="Bad file descriptor"):
        files.write(handle, 0, [b"x"])
    files.close(handle)


def test_a_machine_that_cannot_sync_one_file_system_syncs_all(tmp_path: Path) -> None:
    files = SystemFiles(tmp_path)
    files._libc = None
    files.sync_all()


def octets_after(random: Random) -> tuple[bytes, ...]:
    """A file with synced octets and others, after a power cut."""
    files = SimFiles(random)
    handle = files.create("a")
    files.write(handle, 0, [b"s" * 1024])
    files.sync(handle)
    files.sync_folder("")
    files.write(handle, 1024, [b"n" * 1024])
    after = files.after_power_cut(random)
    handle = after.open("a")
    data = after.read(handle, 0, 4096)
    assert data[:1024] == b"s" * 1024, "what was synced is there"
    return tuple(data[at : at + 512] for at in range(1024, len(data), 512))


def test_a_power_cut_keeps_any_sectors_that_were_not_synced() -> None:
    seen = {octets_after(Random(seed)) for seed in range(300)}
    new, zeros = b"n" * 512, bytes(512)
    assert {(), (new,), (new, new), (zeros, new)} <= seen
    assert any(sectors and not any(sectors[-1]) for sectors in seen), "extended and not written"


def test_a_power_cut_brings_back_names_that_were_not_synced() -> None:
    seen = set()
    for seed in range(100):
        files = SimFiles(Random(seed))
        files.close(files.create("old"))
        files.sync_folder("")
        files.remove("old")
        files.close(files.create("new"))
        seen.add(tuple(files.after_power_cut(Random(seed)).names("")))
    assert seen == {(), ("new",), ("old",), ("new", "old")}


def test_a_rename_happens_whole_or_not() -> None:
    seen = set()
    for seed in range(100):
        files = SimFiles(Random(seed))
        files.close(files.create("a"))
        files.sync_folder("")
        files.rename("a", "b")
        seen.add(tuple(files.after_power_cut(Random(seed)).names("")))
    assert seen == {("a",), ("b",)}


def test_what_a_failed_sync_forgot_no_later_sync_writes() -> None:
    lengths = set()
    for seed in range(50):
        files = SimFiles(Random(seed))
        handle = files.create("a")
        files.sync_folder("")
        files.write(handle, 0, [b"x" * 5000])
        files.fail = lambda call, path: OSError(errno.EIO, "injected") if call == "sync" else None
        with pytest.raises(OSError, match="injected"):
            files.sync(handle)
        files.fail = lambda call, path: None
        files.sync(handle)
        assert files.read(handle, 0, 5000) == b"x" * 5000
        after = files.after_power_cut(Random(seed))
        lengths.add(after.read(after.open("a"), 0, 5000).count(b"x"))
    assert {0, 5000} < lengths
