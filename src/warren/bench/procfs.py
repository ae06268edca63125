"""CPU time and memory of a broker's processes, and of the whole machine, from /proc.

Invariant: a process that ended keeps the CPU time last seen, so totals never fall.
"""

import os
from dataclasses import dataclass
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_MIB = os.sysconf("SC_PAGESIZE") / 1048576
PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Memory:
    """Resident memory in MiB, and the part of it that is not mapped from files."""

    rss: float
    anonymous: float


def read_text(path: Path) -> str:
    """A file of /proc; empty when the process is gone."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def stat_fields(pid: int) -> list[str]:
    """Fields of /proc/PID/stat after the command, from the state on."""
    return read_text(PROC / str(pid) / "stat").rpartition(")")[2].split()


class ProcessTree:
    """Given processes and their descendants."""

    def __init__(self, roots: tuple[int, ...]) -> None:
        self.ticks: dict[int, int] = dict.fromkeys(roots, 0)
        self.scan()

    def scan(self) -> None:
        """Take in descendants that appeared."""
        if not self.ticks:
            return
        parents: dict[int, int] = {}
        for entry in os.listdir(PROC):
            if entry.isdigit() and (fields := stat_fields(int(entry))):
                parents[int(entry)] = int(fields[1])
        grown = True
        while grown:
            found = [
                pid
                for pid, parent in parents.items()
                if parent in self.ticks and pid not in self.ticks
            ]
            self.ticks.update(dict.fromkeys(found, 0))
            grown = bool(found)

    def cpu_s(self) -> float:
        for pid, before in self.ticks.items():
            fields = stat_fields(pid)
            if len(fields) > 12:
                self.ticks[pid] = max(before, int(fields[11]) + int(fields[12]))
        return sum(self.ticks.values()) / TICKS_PER_S

    def memory(self) -> Memory:
        rss = shared = 0
        for pid in self.ticks:
            fields = read_text(PROC / str(pid) / "statm").split()
            if len(fields) > 2:
                rss += int(fields[1])
                shared += int(fields[2])
        return Memory(rss * PAGE_MIB, (rss - shared) * PAGE_MIB)

    def written_octets(self) -> int:
        """Octets sent to disk so far by the processes that live; 0 where /proc does not tell."""
        total = 0
        for pid in self.ticks:
            for line in read_text(PROC / str(pid) / "io").splitlines():
                name, _, value = line.partition(": ")
                if name == "write_bytes":
                    total += int(value)
        return total


def machine_busy_s() -> float:
    """CPU time of everything on the machine: user, nice, system, interrupts."""
    fields = [int(text) for text in read_text(PROC / "stat").split("\n", 1)[0].split()[1:8]]
    user, nice, system, _idle, _wait, irq, soft_irq = fields
    return (user + nice + system + irq + soft_irq) / TICKS_PER_S


def load_average() -> float:
    return os.getloadavg()[0]
