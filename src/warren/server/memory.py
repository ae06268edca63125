"""The memory alarm: what the node uses against its limit, once a second (MA-1 to MA-12).

The limit is a share of the memory that the process may use, or octets, at most that memory. It is
computed when it is set: at the start from the settings, later by command until the node stops; the
memory itself is asked for each time anew (MA-7). `used` above `limit` is an alarm, equal is none.

For whoever decides what stays in memory, `used`, `limit` and `paging_ratio` are plain attributes:
messages leave memory from `limit * paging_ratio` on, never with a ratio above 1 (MA-12).
"""

import platform
import sys
from typing import Final, final

from warren.core.log import EventLog
from warren.flow import Alarm, Alarms, Edge, Source
from warren.server.config import Settings
from warren.server.gauge import Gauge

# Assumed where the system does not tell how much memory it has (MA-8).
TOTAL_ASSUMED: Final = 1 << 30
# What a process can address at all (MA-7).
ADDRESS_SPACE: Final = 1 << 48 if sys.maxsize > 1 << 32 else 1 << 31
MIB: Final = 1 << 20


@final
class MemoryMonitor:
    def __init__(
        self,
        settings: Settings,
        alarms: Alarms,
        gauge: Gauge,
        log: EventLog,
        *,
        address_space: int = ADDRESS_SPACE,
    ) -> None:
        self.alarm = Alarm(Source.MEMORY, settings.node_name)
        self.alarms = alarms
        self.gauge = gauge
        self.log = log
        self.address_space = address_space
        self.override = settings.total_memory_available_override_value
        self.strategy = settings.vm_memory_calculation_strategy
        self.paging_ratio = settings.vm_memory_high_watermark_paging_ratio
        # Somebody has set the alarm; it stays until they clear it.
        self.by_hand = False
        self.used = 0
        self.limit = 0
        self.total = 0
        # Whether the system does not tell its memory.
        self.assumed = False
        # What the limit was made of: the octets, or without them the share.
        self.absolute: int | None = None
        self.relative = 0.0
        self._told_unknown = False
        if settings.vm_memory_high_watermark_absolute is not None:
            self.set_absolute(settings.vm_memory_high_watermark_absolute)
        else:
            self.set_relative(settings.vm_memory_high_watermark)

    def set_relative(self, share: float) -> None:
        """Set the limit to a share of the memory; more than all of it only if that is a guess."""
        self._measure_total()
        if share > 1.0 and not self.honours_more:
            facts = {"value": share, "used": 1.0}
            self.log.event("warning", "memory.watermark_replaced", facts)
            share = 1.0
        self.absolute, self.relative = None, share
        self._set(int(share * self.total))

    def set_absolute(self, octets: int) -> None:
        """Set the limit to octets, or to all memory where there is less."""
        self._measure_total()
        self.absolute = octets
        self._set(min(octets, self.total))

    @property
    def honours_more(self) -> bool:
        """Whether a share above 1 is taken at its word (MA-9)."""
        return self.assumed or self.override is not None

    def check(self) -> Edge | None:
        """Measure; return the edge if the alarm changes."""
        self.used = self.gauge.memory_used()
        on = self.by_hand or self.used > self.limit
        edge = self.alarms.set(self.alarm) if on else self.alarms.clear(self.alarm)
        if edge is not None and not self.by_hand:
            facts = {
                "state": "set" if self.used > self.limit else "clear",
                "used": self.used,
                "allowed": self.limit,
            }
            self.log.event("info", "memory.watermark", facts)
        return edge

    def _set(self, limit: int) -> None:
        self.limit = limit
        facts = {
            "limit_mib": limit // MIB,
            "limit": limit,
            "total_mib": self.total // MIB,
            "total": self.total,
        }
        self.log.event("info", "memory.limit_set", facts)

    def _measure_total(self) -> None:
        told = self.override
        if told is None:
            told = self.gauge.memory_total()
        self.assumed = told is None
        total = TOTAL_ASSUMED if told is None else told
        if self.assumed and not self._told_unknown:
            self._told_unknown = True
            system = platform.system() or "this system"
            text = (
                f"Unknown total memory size for your OS {system}. "
                f"Assuming memory size is {TOTAL_ASSUMED // MIB}MB."
            )
            facts: dict[str, object] = {"os": system, "assumed": TOTAL_ASSUMED, "text": text}
            self.log.event("warning", "memory.total_unknown", facts)
        self.total = min(total, self.address_space)
        if self.total < total:
            facts = {"usable": self.total, "total": total}
            self.log.event("warning", "memory.address_space", facts)
