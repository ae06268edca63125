"""A machine whose memory and disk space are what the test says."""

from pathlib import Path


class FakeGauge:
    """Implements `warren.server.gauge.Gauge`; counts how often it was asked."""

    def __init__(
        self,
        *,
        total: int | None = 8 << 30,
        used: int = 100 << 20,
        free: int | None = 10_000_000_000,
    ) -> None:
        self.total = total
        self.used = used
        self.free = free
        self.folders: list[Path] = []
        # What `used` comes to when memory is given back, and how often that was asked for.
        self.used_at_least: int | None = None
        self.given_back = 0

    def memory_total(self) -> int | None:
        return self.total

    def memory_used(self) -> int:
        return self.used

    def give_back(self) -> None:
        self.given_back += 1
        if self.used_at_least is not None:
            self.used = self.used_at_least

    def disk_free(self, folder: Path) -> int | None:
        self.folders.append(folder)
        return self.free
