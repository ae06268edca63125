"""The machine's clock, as `warren.core.seam.Clock`."""

import time


class SystemClock:
    """Monotonic time that no one can set back, and the wall time people and messages carry."""

    def monotonic_ns(self) -> int:
        return time.monotonic_ns()

    def wall_ns(self) -> int:
        return time.time_ns()
