"""Field tables and arrays: octets <-> `Table` (WI-5).

Layout: 4 octets of length, then entries of short string key, type letter, value; an array is the
same without keys. The end of a value follows from its letter and at most its length octets, so
nothing is read twice and the cost of any input is linear in its size. Nesting is bounded by
TABLE_DEPTH_MAX; whatever is malformed raises `DecodeError` and nothing else.

Of several entries with one key the first counts, as RabbitMQ looks it up.
"""

from typing import Final, cast

from librt.strings import (
    BytesWriter,
    read_f32_be,
    read_f64_be,
    read_i16_be,
    read_i32_be,
    read_i64_be,
    write_f32_be,
    write_f64_be,
    write_i16_be,
    write_i32_be,
    write_i64_be,
)
from mypy_extensions import i16, i32, i64, u8

from warren.core.reply import FRAME_ERROR, SYNTAX_ERROR
from warren.protocol.value import (
    ARRAY,
    BINARY,
    BOOL,
    BYTE,
    DECIMAL,
    DOUBLE,
    FLOAT,
    LONG,
    LONG_AS_READ,
    LONG_STRING,
    SHORT,
    SIGNED_INT,
    TABLE,
    TIMESTAMP,
    UNSIGNED_BYTE,
    UNSIGNED_INT,
    UNSIGNED_SHORT,
    VOID,
    Decimal_,
    Field,
    Table,
)
from warren.protocol.wire import (
    DecodeError,
    TruncatedError,
    check_utf8,
    long_end,
    put_short,
    put_u8,
    put_u16,
    put_u32,
    put_u64,
    read_u16,
    read_u32,
    read_u64,
    short_end,
    short_text,
)

# Levels of tables and arrays inside each other. The deepest that clients are known to send is
# x-death (a table in an array in a table); the bound keeps the recursion far from any stack's end.
TABLE_DEPTH_MAX: Final = 64

_TOO_DEEP: Final = f"tables nested deeper than {TABLE_DEPTH_MAX} levels"


def decode_table(data: bytes, pos: i64, end: i64) -> Table:
    """Decode the table whose 4 octets of length are at `pos`."""
    return _table(data, pos + 4, long_end(data, pos, end), 1)


def decode_entries(data: bytes, pos: i64, end: i64) -> Table:
    """Decode data[pos:end], the entries of a table without its length octets (AMQPLAIN)."""
    return _table(data, pos, end, 1)


def skip_table(data: bytes, pos: i64, end: i64) -> i64:
    """Check the table at `pos` completely without building it; return where it ends."""
    after = long_end(data, pos, end)
    _check_entries(data, pos + 4, after, 1)
    return after


def encode_table(table: Table) -> bytes:
    """Encode a table with its 4 octets of length, in the order of the dict."""
    out = BytesWriter()
    put_table(out, table)
    return out.getvalue()


def decode_value(data: bytes, pos: i64, end: i64) -> Field:
    """Decode the one value whose type letter is at `pos`."""
    return _value(data, pos, value_end(data, pos, end), 1)


def value_end(data: bytes, pos: i64, end: i64) -> i64:
    """Return where the value ends whose type letter is at `pos`."""
    if pos >= end:
        raise TruncatedError()
    kind: i64 = data[pos]
    after: i64
    if kind in (LONG_STRING, TABLE, ARRAY, BINARY):
        return long_end(data, pos + 1, end)
    if kind in (SIGNED_INT, UNSIGNED_INT, FLOAT):
        after = pos + 5
    elif kind in (BOOL, BYTE, UNSIGNED_BYTE):
        after = pos + 2
    elif kind in (LONG, TIMESTAMP, DOUBLE, LONG_AS_READ):
        after = pos + 9
    elif kind in (SHORT, UNSIGNED_SHORT):
        after = pos + 3
    elif kind == DECIMAL:
        after = pos + 6
    elif kind == VOID:
        after = pos + 1
    else:
        raise DecodeError(FRAME_ERROR, f"cannot decode: unknown field type {kind}")
    if after > end:
        raise TruncatedError()
    return after


def check_value(data: bytes, pos: i64, end: i64, depth: i64) -> i64:
    """Check the value whose type letter is at `pos`, with all that it holds; return its end."""
    after = value_end(data, pos, end)
    kind: i64 = data[pos]
    if kind == TABLE:
        _check_entries(data, pos + 5, after, depth + 1)
    elif kind == ARRAY:
        if depth >= TABLE_DEPTH_MAX:
            raise DecodeError(SYNTAX_ERROR, _TOO_DEEP)
        pos += 5
        while pos < after:
            pos = check_value(data, pos, after, depth + 1)
    return after


def _check_entries(data: bytes, pos: i64, end: i64, depth: i64) -> None:
    if depth > TABLE_DEPTH_MAX:
        raise DecodeError(SYNTAX_ERROR, _TOO_DEEP)
    while pos < end:
        key_end = short_end(data, pos, end)
        check_utf8(data, pos + 1, key_end)
        pos = check_value(data, key_end, end, depth)


def _table(data: bytes, pos: i64, end: i64, depth: i64) -> Table:
    if depth > TABLE_DEPTH_MAX:
        raise DecodeError(SYNTAX_ERROR, _TOO_DEEP)
    table: Table = {}
    while pos < end:
        key_end = short_end(data, pos, end)
        key = short_text(data, pos, key_end)
        pos = value_end(data, key_end, end)
        entry = _value(data, key_end, pos, depth)
        if key not in table:
            table[key] = entry
    return table


def _array(data: bytes, pos: i64, end: i64, depth: i64) -> list[Field]:
    if depth > TABLE_DEPTH_MAX:
        raise DecodeError(SYNTAX_ERROR, _TOO_DEEP)
    entries: list[Field] = []
    while pos < end:
        after = value_end(data, pos, end)
        entries.append(_value(data, pos, after, depth))
        pos = after
    return entries


def _value(data: bytes, pos: i64, after: i64, depth: i64) -> Field:
    """Decode the value at `pos`; `after` comes from `value_end`, so its octets are all there."""
    kind: i64 = data[pos]
    pos += 1
    if kind in (LONG_STRING, BINARY):
        return Field(kind, data[pos + 4 : after])
    if kind == SIGNED_INT:
        return Field(kind, i64(read_i32_be(data, pos)))
    if kind == BOOL:
        return Field(kind, data[pos] != 0)
    if kind in (LONG, LONG_AS_READ):
        return Field(kind, read_i64_be(data, pos))
    if kind == TABLE:
        return Field(kind, _table(data, pos + 4, after, depth + 1))
    if kind == ARRAY:
        return Field(kind, _array(data, pos + 4, after, depth + 1))
    if kind == TIMESTAMP:
        return Field(kind, read_u64(data, pos))
    if kind == DOUBLE:
        return Field(kind, read_f64_be(data, pos))
    if kind == FLOAT:
        return Field(kind, read_f32_be(data, pos))
    return _rare_value(kind, data, pos)


def _rare_value(kind: i64, data: bytes, pos: i64) -> Field:
    if kind == BYTE:
        octet: i64 = data[pos]
        return Field(kind, octet if octet < 128 else octet - 256)
    if kind == UNSIGNED_BYTE:
        return Field(kind, data[pos])
    if kind == SHORT:
        return Field(kind, i64(read_i16_be(data, pos)))
    if kind == UNSIGNED_SHORT:
        return Field(kind, read_u16(data, pos))
    if kind == UNSIGNED_INT:
        return Field(kind, read_u32(data, pos))
    if kind == DECIMAL:
        return Field(kind, Decimal_(data[pos], read_u32(data, pos + 1)))
    return Field(kind, None)


def put_table(out: BytesWriter, table: Table) -> None:
    start = len(out)
    write_i32_be(out, 0)
    for key, entry in table.items():
        put_short(out, key)
        put_field(out, entry)
    _patch_size(out, start)


def _put_array(out: BytesWriter, entries: list[Field]) -> None:
    start = len(out)
    write_i32_be(out, 0)
    for entry in entries:
        put_field(out, entry)
    _patch_size(out, start)


def _patch_size(out: BytesWriter, start: i64) -> None:
    size = len(out) - start - 4
    out[start] = u8((size >> 24) & 0xFF)
    out[start + 1] = u8((size >> 16) & 0xFF)
    out[start + 2] = u8((size >> 8) & 0xFF)
    out[start + 3] = u8(size & 0xFF)


def put_field(out: BytesWriter, entry: Field) -> None:
    """Write type letter and value; `ValueError` or `TypeError` if value and kind disagree."""
    kind = entry.kind
    value = entry.value
    out.append(LONG if kind == LONG_AS_READ else kind)
    if kind in (LONG_STRING, BINARY):
        raw = cast("bytes", value)
        put_u32(out, len(raw))
        out.write(raw)
    elif kind == TABLE:
        put_table(out, cast("Table", value))
    elif kind == ARRAY:
        _put_array(out, cast("list[Field]", value))
    elif kind == BOOL:
        out.append(1 if cast("bool", value) else 0)
    elif kind == DOUBLE:
        write_f64_be(out, cast("float", value))
    elif kind == FLOAT:
        write_f32_be(out, cast("float", value))
    elif kind == DECIMAL:
        decimal = cast("Decimal_", value)
        put_u8(out, decimal.scale)
        put_u32(out, decimal.value)
    elif kind != VOID:
        _put_integer(out, kind, cast("int", value))


def _put_integer(out: BytesWriter, kind: i64, number: int) -> None:
    if kind == SIGNED_INT:
        _fit(number, 32)
        write_i32_be(out, i32(number))
    elif kind in (LONG, LONG_AS_READ):
        _fit(number, 64)
        write_i64_be(out, i64(number))
    elif kind == TIMESTAMP:
        put_u64(out, number)
    elif kind == UNSIGNED_INT:
        put_u32(out, number)
    elif kind == UNSIGNED_SHORT:
        put_u16(out, number)
    elif kind == UNSIGNED_BYTE:
        put_u8(out, number)
    elif kind == SHORT:
        _fit(number, 16)
        write_i16_be(out, i16(number))
    elif kind == BYTE:
        _fit(number, 8)
        out.append(number & 0xFF)
    else:
        raise ValueError(f"no field type has the letter code {kind}")


def _fit(number: int, bits: int) -> None:
    """Raise unless the number fits into a signed field of so many bits."""
    if number < -(1 << (bits - 1)) or number >= 1 << (bits - 1):
        raise ValueError(f"{number} does not fit into a signed {bits} bit field")
