"""Memory and disk space of the real machine, and of folders that look like one."""

import os
from pathlib import Path

import pytest

from warren.runtime.memory import MachineGauge

MEMINFO = "MemTotal:        8000000 kB\nMemFree:  1 kB\n"
GIB = 1 << 30


def machine(root: Path, files: dict[str, str]) -> MachineGauge:
    for name, text in {"proc/meminfo": MEMINFO, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return MachineGauge(root)


@pytest.mark.rule("MA-7")
@pytest.mark.parametrize(
    ("files", "total"),
    [
        ({}, 8_000_000 * 1024),
        # A container sees its own group as the root.
        ({"sys/fs/cgroup/memory.max": f"{GIB}\n"}, GIB),
        ({"sys/fs/cgroup/memory.max": "max\n"}, 8_000_000 * 1024),
        ({"sys/fs/cgroup/memory/memory.limit_in_bytes": f"{GIB}\n"}, GIB),
        ({"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 8_000_000 * 1024),
        # A service has one further down, and the least of those above it counts.
        (
            {
                "proc/self/cgroup": "0::/system.slice/warren.service\n",
                "sys/fs/cgroup/system.slice/memory.max": f"{2 * GIB}\n",
                "sys/fs/cgroup/system.slice/warren.service/memory.max": f"{3 * GIB}\n",
            },
            2 * GIB,
        ),
        (
            {
                "proc/self/cgroup": "4:cpu,memory:/docker/1\n1:name=systemd:/docker/1\n0::/\n",
                "sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes": f"{GIB}\n",
            },
            GIB,
        ),
        # A limit above the machine's memory says nothing.
        ({"sys/fs/cgroup/memory.max": f"{64 * GIB}\n"}, 8_000_000 * 1024),
        ({"proc/self/cgroup": "nonsense\n"}, 8_000_000 * 1024),
    ],
)
def test_control_groups_limit_the_memory(files: dict[str, str], total: int, tmp_path: Path) -> None:
    assert machine(tmp_path, files).memory_total() == total


@pytest.mark.rule("MA-8")
def test_a_system_that_does_not_tell(tmp_path: Path) -> None:
    assert MachineGauge(tmp_path).memory_total() is None
    assert machine(tmp_path, {"proc/meminfo": "MemTotal: lots\n"}).memory_total() is None


@pytest.mark.rule("DA-1")
def test_free_space_is_what_an_unprivileged_process_may_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.statvfs(tmp_path)
    monkeypatch.setattr(os, "statvfs", lambda _: real)
    assert MachineGauge().disk_free(tmp_path) == real.f_bavail * real.f_frsize


def test_a_folder_that_is_not_there_counts_as_the_one_it_would_be_made_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Path] = []
    real = os.statvfs(tmp_path)

    def statvfs(place: Path) -> os.statvfs_result:
        asked.append(place)
        return real

    monkeypatch.setattr(os, "statvfs", statvfs)
    MachineGauge().disk_free(tmp_path / "a" / "b")
    assert asked == [tmp_path]


@pytest.mark.rule("DA-7")
def test_a_disk_that_cannot_be_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(place: Path) -> None:
        raise OSError

    monkeypatch.setattr(os, "statvfs", refuse)
    assert MachineGauge().disk_free(Path("/")) is None


def test_the_real_machine_has_memory() -> None:
    gauge = MachineGauge()
    total = gauge.memory_total()
    assert total is not None
    assert 0 < gauge.memory_used() < total
