"""The memory alarm: resident memory of the node against its limit, once a second (MA-1)."""

from pathlib import Path
from typing import Final, final

from warren.flow import Alarm, Alarms, Edge, Source
from warren.runtime.process import resident_bytes
from warren.server.config import Settings

# Assumed where the system does not tell how much memory it has (MA-8).
TOTAL_ASSUMED: Final = 1 << 30


# What a container may use, by either version of control groups.
CGROUP_LIMITS: Final = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


def total_bytes() -> int:
    """Return what this process may use: the machine's memory or its container's limit."""
    total = machine_bytes()
    for path in CGROUP_LIMITS:
        try:
            limit = int(path.read_text())
        except (OSError, ValueError):
            continue
        # Version 1 says "no limit" by a number near 2**63.
        if 0 < limit < total:
            return limit
    return total


def machine_bytes() -> int:
    """Return the machine's memory, 1 GiB where it does not tell."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemTotal:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return TOTAL_ASSUMED


def limit_bytes(settings: Settings, total: int) -> int:
    if settings.vm_memory_high_watermark_absolute is not None:
        return min(settings.vm_memory_high_watermark_absolute, total)
    return int(settings.vm_memory_high_watermark * total)


@final
class MemoryMonitor:
    def __init__(self, settings: Settings, alarms: Alarms) -> None:
        self.alarm = Alarm(Source.MEMORY, settings.node_name)
        self.alarms = alarms
        self.limit = limit_bytes(settings, total_bytes())
        self.used = 0
        # Somebody has set the alarm; it stays until they clear it.
        self.by_hand = False

    def check(self) -> Edge | None:
        """Measure; return the edge if the alarm changes."""
        self.used = resident_bytes()
        if self.by_hand or self.used > self.limit:
            return self.alarms.set(self.alarm)
        return self.alarms.clear(self.alarm)
