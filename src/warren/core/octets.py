"""Numbers of octets as people write them: a whole number, and a unit right behind it (MA-5).

`k`, `M` and `G`, with or without `iB`, are powers of two; `kB`, `MB` and `GB` are decimal; without
a unit it is octets. The spellings are the union of what RabbitMQ's documents, its configuration and
its command line take. Configuration and command line share this one reader.
"""

import re
from collections.abc import Mapping
from typing import Final

_WRITTEN: Final = re.compile(r"([0-9]+)([A-Za-z]*)\Z")
_FRACTION: Final = re.compile(r"[0-9]+\.[0-9]*[A-Za-z]*\Z")
_SPELLINGS: Final[Mapping[int, str]] = {
    1 << 10: "k K kiB kib KIB KiB",
    1 << 20: "M m MiB mib MIB",
    1 << 30: "G g GiB gib GIB",
    10**3: "kB KB kb Kb",
    10**6: "MB mb Mb",
    10**9: "GB gb Gb",
}
UNITS: Final[Mapping[str, int]] = {
    "": 1,
    **{unit: factor for factor, units in _SPELLINGS.items() for unit in units.split()},
}


class OctetsError(ValueError):
    """What was written is no number of octets; the text says what is wrong with it."""


def read_octets(written: str) -> int:
    """Return the number of octets that a text means."""
    found = _WRITTEN.match(written)
    if found is None:
        if _FRACTION.match(written):
            raise OctetsError("The value should be an integer")
        raise OctetsError("")
    factor = UNITS.get(found[2])
    if factor is None:
        raise OctetsError("Invalid units.")
    return int(found[1]) * factor
