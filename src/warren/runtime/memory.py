"""How much memory and disk space the machine has for this process: `MachineGauge`.

Memory is what `/proc/meminfo` says, or less where a control group of the process or one above it
has a limit (a container, `MemoryMax=` of a service), in either version of control groups. What the
system does not tell is None, never a guess.
"""

import os
from pathlib import Path
from typing import Final, final

from warren.runtime.allocator import give_back
from warren.runtime.process import resident_bytes

_ROOT: Final = Path("/")
_LIMIT_FILES: Final = {"": "memory.max", "memory": "memory.limit_in_bytes"}


@final
class MachineGauge:
    """Reads the machine under `root`: the real one, or a folder that looks like one."""

    def __init__(self, root: Path = _ROOT) -> None:
        self.proc = root / "proc"
        self.groups = root / "sys/fs/cgroup"

    def memory_total(self) -> int | None:
        """Return the octets of memory this process may use; None where the system does not tell."""
        machine = self._machine()
        limits = list(self._group_limits())
        found = limits if machine is None else [machine, *limits]
        return min(found, default=None)

    def memory_used(self) -> int:
        return resident_bytes()

    def give_back(self) -> None:
        """Return memory to the system that is free and kept."""
        give_back()

    def disk_free(self, folder: Path) -> int | None:
        """Return what this process may still write to a folder's partition; None: not measurable.

        A folder that is not there counts as the one it would be made in.
        """
        place = folder.absolute()
        while not place.exists() and place != place.parent:
            place = place.parent
        try:
            found = os.statvfs(place)
        except OSError:
            return None
        return found.f_bavail * found.f_frsize

    def _machine(self) -> int | None:
        try:
            for line in (self.proc / "meminfo").read_text().splitlines():
                if line.startswith("MemTotal:"):
                    return int(line.split()[1]) * 1024
        except (OSError, ValueError, IndexError):
            pass
        return None

    def _group_limits(self) -> list[int]:
        """Return the limits of the process's control groups, up to their roots."""
        found = []
        for folder, name in self._places():
            for place in (folder, *folder.parents):
                if not place.is_relative_to(self.groups):
                    break
                try:
                    limit = int((place / name).read_text())
                except (OSError, ValueError):
                    # Also the word "max": there is no limit.
                    continue
                # Version 1 says "no limit" by a number near 2**63.
                if 0 < limit < 1 << 62:
                    found.append(limit)
        return found

    def _places(self) -> list[tuple[Path, str]]:
        """Return the folders of the process's groups, and what the file with the limit is called.

        In a container the group's path may be the host's: then the roots are looked at.
        """
        places = [(self.groups, "memory.max"), (self.groups / "memory", "memory.limit_in_bytes")]
        try:
            lines = (self.proc / "self/cgroup").read_text().splitlines()
        except OSError:
            return places
        for line in lines:
            _, controllers, path = (*line.split(":", 2), "", "")[:3]
            for controller in controllers.split(","):
                if controller in _LIMIT_FILES and path:
                    folder = self.groups / controller / path.lstrip("/")
                    places.append((folder, _LIMIT_FILES[controller]))
        return places
