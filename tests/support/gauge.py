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

    def memory_total(self) -> int | None:
        return self.total

    def memory_used(self) -> int:
        return self.used

    def disk_free(self, folder: Path) -> int | None:
        self.folders.append(folder)
        return self.free
