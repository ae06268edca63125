"""The messages of the proofs: who published them, which one it is, and a body that can be foretold.

A message is known by one number, its `ident`: publisher and sequence number. Sizes go around a
cycle that has embedded and stored messages, below and above 4096 octets, and one of two frames.
"""

import struct
from typing import Final

from warren.bench import frame

HEAD: Final = struct.Struct(">4sHQ")
MAGIC: Final = b"PROF"
SIZES: Final = (40, 1000, 200, 4200, 64, 1500, 3900, 20_000, 100, 700, 150_000, 300)
# The large ones only now and then: they would be most of the octets.
SMALL: Final = (40, 1000, 200, 64, 1500, 300, 100, 700)
LARGE_EVERY: Final = 37
_PERIOD: Final = bytes((index * 131 + 7) & 0xFF for index in range(256))
_FILLER: Final = _PERIOD * (max(SIZES) // 256 + 2)
SHIFT: Final = 40


def ident_of(publisher: int, number: int) -> int:
    return publisher << SHIFT | number


def publisher_of(ident: int) -> int:
    return ident >> SHIFT


def name_of(ident: int) -> str:
    return f"{ident >> SHIFT}:{ident & (1 << SHIFT) - 1}"


def body_of(ident: int, size: int = 0) -> bytes:
    """The body that this message has."""
    number = ident & (1 << SHIFT) - 1
    if not size:
        cycle = SIZES if number % LARGE_EVERY == 0 else SMALL
        size = cycle[number // 7 % len(cycle)]
    begin = number & 0xFF
    return HEAD.pack(MAGIC, ident >> SHIFT, number) + _FILLER[begin : begin + size - HEAD.size]


def ident_in(body: bytes) -> int | None:
    """Which message a body says it is; None when it is spoilt."""
    if len(body) < HEAD.size:
        return None
    magic, publisher, number = HEAD.unpack_from(body)
    ident = ident_of(publisher, number)
    return ident if magic == MAGIC and body == body_of(ident, len(body)) else None


def properties(*, persistent: bool, priority: int | None) -> bytes:
    flags, values = 0, b""
    if persistent:
        flags, values = flags | 1 << 12, values + b"\x02"
    if priority is not None:
        flags, values = flags | 1 << 11, values + bytes((priority,))
    return struct.pack(">H", flags) + values


def publish(exchange: str, key: str, body: bytes, props: bytes) -> bytes:
    """The frames of one basic.publish on channel 1."""
    names = b"\0\0" + frame.short_string(exchange) + frame.short_string(key) + b"\0"
    head = struct.pack(">HHQ", 60, 0, len(body)) + props
    parts = [frame.method(1, frame.PUBLISH, names), frame.frame(frame.HEADER, 1, head)]
    step = 131072 - frame.FRAME_OVERHEAD
    parts += [frame.frame(frame.BODY, 1, body[at : at + step]) for at in range(0, len(body), step)]
    return b"".join(parts)
