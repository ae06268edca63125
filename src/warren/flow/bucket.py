"""A token bucket: so many messages a second in the long run, so many at once.

A machine without a clock; it is told the time. A full bucket holds `burst` tokens, one a message,
and fills at `rate` tokens a second; a rate of 0 never fills it.

Invariant: 0 <= `units` <= `burst` * UNIT, in billionths of a token, so that one nanosecond adds
`rate` of them and nothing is lost to rounding. Both numbers are at most TOKENS_MAX: then every
product here fits into 64 bits.
"""

from typing import Final, final

from mypy_extensions import i64

TOKENS_MAX: Final = 1_000_000_000
UNIT: Final[i64] = 1_000_000_000
# When a bucket that is not filled will have a token.
NEVER: Final[i64] = -1


@final
class Bucket:
    def __init__(self, rate: int, burst: int, now_ns: int) -> None:
        self.rate: i64 = rate
        self.burst: i64 = burst
        self.units: i64 = self.burst * UNIT
        self.at_ns: i64 = now_ns

    def take(self, now_ns: i64) -> bool:
        """Take a token if there is one."""
        self._fill(now_ns)
        if self.units < UNIT:
            return False
        self.units -= UNIT
        return True

    def give_back(self) -> None:
        """Put a token back that was not needed."""
        self.units = min(self.units + UNIT, self.burst * UNIT)

    def ready_ns(self, count: i64, now_ns: i64) -> i64:
        """When there will be so many tokens, of at most a full bucket; NEVER, or now or later."""
        self._fill(now_ns)
        missing = min(count, self.burst) * UNIT - self.units
        if missing <= 0 and self.burst > 0:
            return now_ns
        if self.rate == 0 or self.burst == 0:
            return NEVER
        return now_ns + (missing + self.rate - 1) // self.rate

    def change(self, rate: int, burst: int, now_ns: i64) -> None:
        """Go on with other numbers and the tokens there are."""
        self._fill(now_ns)
        self.rate = rate
        self.burst = burst
        self.units = min(self.units, self.burst * UNIT)

    def _fill(self, now_ns: i64) -> None:
        past = now_ns - self.at_ns
        if past <= 0:
            return
        self.at_ns = now_ns
        if self.rate == 0:
            return
        missing = self.burst * UNIT - self.units
        # Divided instead of multiplied: after a long time the product would not fit.
        if past > missing // self.rate:
            self.units += missing
        else:
            self.units += past * self.rate
