"""Octets <-> numbers and short strings, and `DecodeError`, the one error of every decoder.

Numbers are unsigned and in network order. Readers take `end`, the first octet that is not theirs,
and check against it; they never read past it and raise nothing but `DecodeError`. Writers raise
`ValueError` for what does not fit: that is a mistake of ours, not of the peer.

Short strings are at most 255 octets of valid UTF-8 (WI-6).
"""

from typing import Final

from librt.strings import (
    BytesWriter,
    read_i16_be,
    read_i32_be,
    read_i64_be,
    write_i16_be,
    write_i32_be,
    write_i64_be,
)
from mypy_extensions import i16, i32, i64

from warren.core.reply import FRAME_ERROR

SHORT_STRING_OCTETS_MAX: Final = 255

_MALFORMED_UTF8: Final = "Malformed UTF-8 in shortstr"
# The top bit of each of eight octets, as the signed number that `read_i64_be` would give.
_TOP_BITS: Final[i64] = -0x7F7F7F7F7F7F7F80


class DecodeError(Exception):
    """The peer's octets cannot be decoded: the reply code and text of the connection.close.

    `class_id` and `method_id` name the method that failed, 0 if there is none (EX-1).
    """

    def __init__(self, code: int, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.class_id = 0
        self.method_id = 0


class TruncatedError(DecodeError):
    """The octets end before the value does, or go on after it."""

    def __init__(self) -> None:
        super().__init__(FRAME_ERROR, "cannot decode: wrong length")


def need(pos: i64, count: i64, end: i64) -> None:
    """Raise unless `count` octets lie between `pos` and `end`."""
    if count > end - pos:
        raise TruncatedError()


def read_u16(data: bytes, pos: i64) -> i64:
    return i64(read_i16_be(data, pos)) & 0xFFFF


def read_u32(data: bytes, pos: i64) -> i64:
    return i64(read_i32_be(data, pos)) & 0xFFFFFFFF


def read_u64(data: bytes, pos: i64) -> int:
    number: int = read_i64_be(data, pos)
    if number < 0:
        number += 1 << 64
    return number


def short_end(data: bytes, pos: i64, end: i64) -> i64:
    """Return where the short string at `pos` ends."""
    if pos >= end:
        raise TruncatedError()
    size: i64 = data[pos]
    after = pos + 1 + size
    if after > end:
        raise TruncatedError()
    return after


def short_text(data: bytes, pos: i64, after: i64) -> str:
    """Return the text of the short string at `pos`, whose end is known from `short_end`."""
    try:
        return data[pos + 1 : after].decode("utf-8")
    except UnicodeDecodeError:
        raise DecodeError(FRAME_ERROR, _MALFORMED_UTF8) from None


def check_utf8(data: bytes, pos: i64, end: i64) -> None:
    """Raise unless data[pos:end] is valid UTF-8; plain ASCII costs no allocation."""
    at = pos
    while at + 8 <= end:
        if read_i64_be(data, at) & _TOP_BITS != 0:
            _check_utf8_slow(data, at, end)
            return
        at += 8
    while at < end:
        if data[at] >= 128:
            _check_utf8_slow(data, at, end)
            return
        at += 1


def _check_utf8_slow(data: bytes, pos: i64, end: i64) -> None:
    try:
        data[pos:end].decode("utf-8")
    except UnicodeDecodeError:
        raise DecodeError(FRAME_ERROR, _MALFORMED_UTF8) from None


def long_end(data: bytes, pos: i64, end: i64) -> i64:
    """Return where the long string (or table, or array) at `pos` ends."""
    if end - pos < 4:
        raise TruncatedError()
    after = pos + 4 + read_u32(data, pos)
    if after > end:
        raise TruncatedError()
    return after


def put_u8(out: BytesWriter, number: int) -> None:
    if number < 0 or number > 0xFF:
        raise ValueError(f"{number} does not fit into an octet")
    out.append(number)


def put_u16(out: BytesWriter, number: int) -> None:
    if number < 0 or number > 0xFFFF:
        raise ValueError(f"{number} does not fit into 16 bits")
    write_i16_be(out, i16(number if number < 0x8000 else number - 0x10000))


def put_u32(out: BytesWriter, number: int) -> None:
    if number < 0 or number > 0xFFFFFFFF:
        raise ValueError(f"{number} does not fit into 32 bits")
    write_i32_be(out, i32(number if number < 0x80000000 else number - 0x100000000))


def put_u64(out: BytesWriter, number: int) -> None:
    if number < 0 or number > 0xFFFFFFFFFFFFFFFF:
        raise ValueError(f"{number} does not fit into 64 bits")
    write_i64_be(out, i64(number if number < 1 << 63 else number - (1 << 64)))


def put_short(out: BytesWriter, text: str) -> None:
    raw = text.encode("utf-8")
    size = len(raw)
    if size > SHORT_STRING_OCTETS_MAX:
        raise ValueError(f"a short string of {size} octets")
    out.append(size)
    out.write(raw)


def put_long(out: BytesWriter, raw: bytes) -> None:
    put_u32(out, len(raw))
    out.write(raw)
