"""Times in policies: milliseconds as a number, or a number with one of the letters s, m, h, d."""

import re
from typing import Final

_UNITS: Final = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_TIME: Final = re.compile(r"([0-9]{1,12})([smhd])")


def milliseconds(value: object) -> int:
    """How long that is; -1 if it is no time."""
    if isinstance(value, int) and not isinstance(value, bool):
        return max(-1, value)
    found = _TIME.fullmatch(value) if isinstance(value, str) else None
    return -1 if found is None else int(found[1]) * _UNITS[found[2]]


def is_duration(value: object) -> bool:
    return milliseconds(value) >= 0
