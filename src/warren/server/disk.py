"""The disk alarm: free space where the node's data is, against its limit (DA-1 to DA-8).

Less than the limit is an alarm, equal is none. How long until the next look is decided after each
one: the disk is thought to fill at 250 MB a second, so it is 10 s with much headroom and 100 ms
with little; with the alarm on it is 10 s again (DA-6).

Where free space cannot be measured there is never an alarm; it is tried again a few times. Whoever
finds a disk full by writing to it has the owner check at once (`Node.check_disk`).
"""

from typing import TYPE_CHECKING, Final, final

from warren.core.log import EventLog
from warren.flow import Alarm, Alarms, Edge, Source
from warren.server.config import Settings
from warren.server.gauge import Gauge
from warren.server.memory import MemoryMonitor

if TYPE_CHECKING:
    from pathlib import Path

INTERVAL_MIN_MS: Final = 100
INTERVAL_MAX_MS: Final = 10_000
# 250 MB a second, in octets a millisecond; twice as often as the disk could fill.
FILL_RATE: Final = 250_000
MEGABYTE: Final = 1_000_000


def interval_ms(headroom: int, *, least: int = INTERVAL_MIN_MS, most: int = INTERVAL_MAX_MS) -> int:
    """Return how long the disk may go unobserved with so many octets above the limit."""
    return max(least, min(most, 2 * headroom // FILL_RATE))


@final
class DiskMonitor:
    def __init__(
        self,
        settings: Settings,
        alarms: Alarms,
        gauge: Gauge,
        log: EventLog,
        memory: MemoryMonitor,
    ) -> None:
        self.alarm = Alarm(Source.DISK, settings.node_name)
        self.alarms = alarms
        self.gauge = gauge
        self.log = log
        self.memory = memory
        self.folder: Path = settings.data_dir
        self.retries_max = settings.disk_monitor_failure_retries
        self.retry_ms = settings.disk_monitor_failure_retry_interval_ms
        self.interval_min_ms = INTERVAL_MIN_MS
        self.interval_max_ms = INTERVAL_MAX_MS
        # Somebody has set the alarm; it stays until they clear it.
        self.by_hand = False
        # An operator may switch the monitor off.
        self.enabled = True
        # None until it was measured, and where it cannot be.
        self.free: int | None = None
        self.failures = 0
        self.limit = settings.disk_free_limit
        self._relative = settings.disk_free_limit_relative
        self._begun = False

    def begin(self) -> None:
        """Tell of the limit; the first `check` is next."""
        if self._relative is not None:
            self.set_relative(self._relative)
        else:
            self.set_absolute(self.limit)

    def set_relative(self, share: float) -> None:
        """Set the limit to a share of the memory."""
        self.set_absolute(int(share * self.memory.total + 0.5))

    def set_absolute(self, octets: int) -> None:
        self.limit = octets
        if self.disabled:
            self._tell_disabled()
            return
        text = f"Disk free limit set to {octets // MEGABYTE}MB"
        self.log.event("info", "disk.limit_set", {"text": text, "limit": octets})

    def switch(self, *, on: bool) -> None:
        """Have free space looked at or not; off, there is no alarm but by hand."""
        if on == self.enabled:
            return
        self.enabled = on
        self.failures = 0
        self.free = None
        self._begun = False
        if not on:
            self._tell_disabled()

    @property
    def disabled(self) -> bool:
        return not self.enabled or self.failures > 0

    def check(self) -> Edge | None:
        """Measure; return the edge if the alarm changes."""
        if self.enabled:
            self._measure()
        low = self.free is not None and self.free < self.limit
        on = self.by_hand or low
        edge = self.alarms.set(self.alarm) if on else self.alarms.clear(self.alarm)
        if edge is not None and not self.by_hand and self.free is not None:
            state = "insufficient" if low else "sufficient"
            facts = {"state": state, "free": self.free, "limit": self.limit}
            self.log.event("info", "disk.space", facts)
        return edge

    def wait_ms(self) -> int:
        """Return how long to wait until the next check; 0: there is none to come."""
        if not self.enabled or self.failures > self.retries_max:
            return 0
        if self.free is None:
            return self.retry_ms
        if self.free < self.limit:
            return self.interval_max_ms
        return interval_ms(
            self.free - self.limit, least=self.interval_min_ms, most=self.interval_max_ms
        )

    def _measure(self) -> None:
        self.free = self.gauge.disk_free(self.folder)
        if self.free is None:
            self.failures += 1
            self._begun = False
            if self.failures == 1:
                self._tell_disabled()
            return
        self.failures = 0
        if not self._begun:
            self._begun = True
            facts = {"folder": str(self.folder), "free": self.free}
            self.log.event("info", "disk.monitoring_started", facts)

    def _tell_disabled(self) -> None:
        text = "Disabling disk free space monitoring"
        facts = {"text": text, "folder": str(self.folder), "limit": self.limit}
        self.log.event("info", "disk.monitoring_disabled", facts)
