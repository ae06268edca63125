"""A slow disk: the kernel holds the writes of some processes to so many octets a second.

By cgroup v1 (`blkio`) or v2 (`io`), whichever may be written here (root). It counts what the
processes write themselves, and what a sync of theirs makes the kernel write: a broker that syncs
meets the limit exactly, one that leaves its pages to the kernel hardly. Where neither may be
written, a slow disk can be had with a device of device-mapper's delay target, or a real one.
"""

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

ROOT: Final = Path("/sys/fs/cgroup")
NAME: Final = f"warren-proof-{os.getpid()}"
MEBI: Final = 1 << 20


def disk_of(folder: Path) -> str:
    """The numbers of the whole disk that a folder lies on."""
    device = folder.stat().st_dev
    found = f"{os.major(device)}:{os.minor(device)}"
    block = Path("/sys/dev/block") / found
    if (block / "partition").exists():
        found = (block.resolve().parent / "dev").read_text().strip()
    return found


def make_group(folder: Path, mib_per_s: float) -> Path | None:
    """A group with the limit; None where it cannot be made."""
    disk, octets = disk_of(folder), int(mib_per_s * MEBI)
    for parent, name, line in (
        (ROOT / "blkio", "blkio.throttle.write_bps_device", f"{disk} {octets}"),
        (ROOT, "io.max", f"{disk} wbps={octets}"),
    ):
        group = parent / NAME
        with suppress(OSError):
            group.mkdir()
            (group / name).write_text(line)
            return group
        with suppress(OSError):
            group.rmdir()
    return None


@contextmanager
def slow_disk(folder: Path, mib_per_s: float, pids: Iterable[int]) -> Iterator[bool]:
    """Hold these processes, with all their threads, to the limit; False where it cannot be done."""
    group = make_group(folder, mib_per_s)
    try:
        if group is not None:
            for pid in pids:
                (group / "cgroup.procs").write_text(str(pid))
        yield group is not None
    finally:
        if group is not None:
            leave(group)


def leave(group: Path) -> None:
    """Everybody back where they came from, and the group away."""
    for pid in (group / "cgroup.procs").read_text().split():
        with suppress(OSError):
            (group.parent / "cgroup.procs").write_text(pid)
    for _ in range(50):
        with suppress(OSError):
            group.rmdir()
            return
        time.sleep(0.1)
