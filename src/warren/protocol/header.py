"""One header of a message, found in its properties without decoding the others.

For messages whose properties have been checked by `properties.scan`: positions are not checked
again. Of several headers with one name the first counts, as in `table`.
"""

from typing import Final

from mypy_extensions import i64

from warren.protocol.table import value_end
from warren.protocol.wire import read_u16, read_u32

_CONTENT_TYPE: Final = 0x8000
_CONTENT_ENCODING: Final = 0x4000
_HEADERS: Final = 0x2000


def headers_at(props: bytes) -> i64:
    """Return where the length of the header table is, -1 without headers."""
    flags = read_u16(props, 0)
    if not flags & _HEADERS:
        return -1
    pos: i64 = 2
    if flags & _CONTENT_TYPE:
        pos += 1 + i64(props[pos])
    if flags & _CONTENT_ENCODING:
        pos += 1 + i64(props[pos])
    return pos


def header_at(props: bytes, name: bytes) -> i64:
    """Return where the type letter of a header's value is, -1 when it is not there."""
    pos = headers_at(props)
    if pos < 0:
        return -1
    size: i64 = len(name)
    first = name[0]
    end = pos + 4 + read_u32(props, pos)
    pos += 4
    while pos < end:
        value = pos + 1 + i64(props[pos])
        if value - pos - 1 == size and props[pos + 1] == first and props[pos + 1 : value] == name:
            return value
        pos = value_end(props, value, end)
    return -1
