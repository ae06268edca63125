"""Numbers from octets that are the same on every node and after every restart.

Python's own hash differs from process to process. Arithmetic stays below 2**63, so that the
compiled and the interpreted form agree. Nothing here withstands someone who looks for collisions:
who can choose routing keys can choose which queue they go to, and nothing else.
"""

import hashlib
import zlib
from typing import Final

from mypy_extensions import i64

HASH_BITS: Final = 32
HASH_RANGE: Final[i64] = 1 << 32
_MASK: Final[i64] = (1 << 32) - 1
# An odd constant of 27 bits, so that its product with 32 bits fits.
_FACTOR: Final[i64] = 0x45D9F3B


def mix(value: i64) -> i64:
    """Spread a number of 32 bits over all of them; no two give the same."""
    value = ((value >> 16) ^ value) * _FACTOR & _MASK
    value = ((value >> 16) ^ value) * _FACTOR & _MASK
    return (value >> 16) ^ value


def key_hash(key: bytes) -> i64:
    """A number of 32 bits for one message; cheap, asked once per message."""
    return mix(i64(zlib.crc32(key)))


def keys_hash(key: bytes, extra_keys: list[bytes] | None) -> i64:
    """A number of 32 bits for all routing keys of a message."""
    if not extra_keys:
        return key_hash(key)
    digest = zlib.crc32(key)
    for extra in extra_keys:
        digest = zlib.crc32(extra, digest)
    return mix(i64(digest))


def name_hash(name: bytes) -> i64:
    """A number of 60 bits for a name; collisions do not happen."""
    octets = hashlib.blake2b(name, digest_size=8).digest()
    return i64(int.from_bytes(octets, "big") >> 4)
