"""How long a message is to be held: its headers x-delay and x-deliver-at.

`x-delay` is a delay in milliseconds, read as the plug-in reads it: an integer of any type, or a
string, float or decimal that is a number, cut to whole milliseconds. Zero or less is no delay, nor
is a value of another type. `x-deliver-at` is ours: a point in time, as epoch milliseconds or as an
AMQP timestamp, whose unit is the second; with it `x-delay` is not looked at. A point in the past
is no delay.

Only for properties that `properties.scan` has checked.
"""

from math import isfinite
from typing import Final

from librt.strings import BytesWriter, read_i32_be, read_i64_be, write_i32_be, write_i64_be
from mypy_extensions import i32, i64

from warren.protocol.header import header_at, headers_at
from warren.protocol.table import decode_value, value_end
from warren.protocol.value import (
    LONG,
    LONG_STRING,
    SIGNED_INT,
    TIMESTAMP,
    Decimal_,
    Field,
    is_integer,
)
from warren.protocol.wire import read_u32

# Ten years, as for `expiration`. (The plug-in sends at once what is over 49 days.)
DELAY_MS_MAX: Final[i64] = 315_360_000_000
# What `delay_of` answers besides a delay.
NOT_A_NUMBER: Final[i64] = -1
TOO_LONG: Final[i64] = -2

_DELAY: Final = b"x-delay"
_DELIVER_AT: Final = b"x-deliver-at"
# Numbers are cut to this size: what is larger is too long in any unit.
_LARGE: Final = 1 << 52
_LARGE_SECONDS: Final[i64] = 1 << 42
_NO_NUMBER: Final[i64] = -(1 << 60)
_OTHER_TYPE: Final[i64] = -(1 << 61)


def delay_of(props: bytes, wall_ms: i64) -> i64:
    """Return for how many milliseconds to hold a message: 0 not at all, below 0 a refusal."""
    at = header_at(props, _DELIVER_AT)
    delay: i64
    if at >= 0:
        delay = _number_at(props, at)
        if delay <= _NO_NUMBER:
            return NOT_A_NUMBER
        if props[at] == TIMESTAMP:
            delay = 1000 * min(delay, _LARGE_SECONDS)
        delay -= wall_ms
    else:
        at = header_at(props, _DELAY)
        if at < 0 or props[at] == TIMESTAMP:
            return 0
        delay = _number_at(props, at)
        if delay == _NO_NUMBER:
            return NOT_A_NUMBER
    if delay > DELAY_MS_MAX:
        return TOO_LONG
    return max(delay, 0)


def refusal_text(refusal: i64) -> str:
    """Say what is wrong with a message that `delay_of` refuses."""
    if refusal == TOO_LONG:
        return f"a message cannot be delayed for more than {DELAY_MS_MAX} ms"
    return "invalid delay: x-delay and x-deliver-at must be numbers"


def as_held(props: bytes) -> bytes:
    """Return the properties of a message that has been delayed, as it will be delivered.

    `x-delay` is negated, so that consumers can tell, and no further exchange delays it again.
    """
    at = header_at(props, _DELAY)
    if at < 0 or header_at(props, _DELIVER_AT) >= 0:
        return props
    delay = _number_at(props, at)
    if delay <= 0:
        return props
    start = headers_at(props)
    end = start + 4 + read_u32(props, start)
    after = value_end(props, at, end)
    value = BytesWriter()
    if -0x80000000 <= -delay <= 0x7FFFFFFF:
        value.append(SIGNED_INT)
        write_i32_be(value, i32(-delay))
    else:
        value.append(LONG)
        write_i64_be(value, -delay)
    made = BytesWriter()
    made.write(props[:start])
    size: i64 = end - start - 4 + len(value) - (after - at)
    write_i32_be(made, i32(size))
    made.write(props[start + 4 : at])
    made.write(value.getvalue())
    made.write(props[after:])
    return made.getvalue()


def _number_at(props: bytes, at: i64) -> i64:
    """Return the whole part of a number, `_NO_NUMBER` or `_OTHER_TYPE`."""
    kind: i64 = props[at]
    if kind == SIGNED_INT:
        return i64(read_i32_be(props, at + 1))
    if kind == LONG:
        return _cut(read_i64_be(props, at + 1))
    return _rare_number(decode_value(props, at, len(props)))


def _rare_number(item: Field) -> i64:
    value = item.value
    if isinstance(value, Decimal_):
        return value.value // i64(10 ** min(int(value.scale), 18))
    if isinstance(value, float):
        return _cut(int(value)) if isfinite(value) else _NO_NUMBER
    if int(item.kind) == LONG_STRING and isinstance(value, bytes):
        return _number_in(value)
    if (is_integer(item) or item.kind == TIMESTAMP) and isinstance(value, int):
        return _cut(value)
    return _OTHER_TYPE


def _number_in(text: bytes) -> i64:
    digits = text[1:] if text[:1] in (b"-", b"+") else text
    if not digits.isdigit():
        return _NO_NUMBER
    digits = digits.lstrip(b"0")
    size = int(digits) if 0 < len(digits) < 17 else (_LARGE if digits else 0)
    return _cut(-size if text[:1] == b"-" else size)


def _cut(number: int) -> i64:
    return i64(max(-_LARGE, min(_LARGE, number)))
