"""The seam of the alarms: what the memory and disk monitors ask of the machine.

`warren.runtime.memory.MachineGauge` reads the real one, tests have numbers of their own. Calls
return at once, but for `give_back`: they read what the kernel has in memory.
"""

from pathlib import Path
from typing import Protocol


class Gauge(Protocol):
    def memory_total(self) -> int | None:
        """Return how much memory the process may use; None: the system does not tell."""

    def memory_used(self) -> int:
        """Return how much of it the process uses."""

    def give_back(self) -> None:
        """Return memory to the system that is free and kept; for a thread, it takes a while."""

    def disk_free(self, folder: Path) -> int | None:
        """Return what may still be written to the folder's partition; None: not measurable."""
