"""Field tables: every type, malformed input, depth and cost."""

import struct
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.protocol.fields import TABLES
from warren.protocol.table import (
    TABLE_DEPTH_MAX,
    decode_entries,
    decode_table,
    encode_table,
    skip_table,
)
from warren.protocol.value import Decimal_, Field, Table, table
from warren.protocol.wire import DecodeError

# One entry of every type letter: the octets after the key, and the value they stand for.
EVERY_TYPE: list[tuple[str, bytes, object]] = [
    ("S", b"\0\0\0\2\xff\0", b"\xff\0"),
    ("I", b"\xff\xff\xff\xfe", -2),
    ("D", b"\x02\x00\x00\x01\x3a", Decimal_(2, 314)),
    ("T", b"\xff" * 8, 2**64 - 1),
    ("F", b"\0\0\0\3\1kV", {"k": Field(ord("V"), None)}),
    ("A", b"\0\0\0\2t\1", [Field(ord("t"), True)]),
    ("b", b"\x80", -128),
    ("B", b"\xff", 255),
    ("s", b"\x80\x00", -32768),
    ("u", b"\xff\xff", 65535),
    ("i", b"\xff\xff\xff\xff", 2**32 - 1),
    ("l", b"\x80" + b"\0" * 7, -(2**63)),
    ("L", b"\x7f" + b"\xff" * 7, 2**63 - 1),
    ("f", struct.pack(">f", 1.5), 1.5),
    ("d", struct.pack(">d", 0.1), 0.1),
    ("t", b"\1", True),
    ("x", b"\0\0\0\1\x00", b"\0"),
    ("V", b"", None),
]


def sized(entries: bytes) -> bytes:
    return len(entries).to_bytes(4, "big") + entries


def whole(raw: bytes) -> Table:
    return decode_table(raw, 0, len(raw))


@pytest.mark.rule("WI-5")
@pytest.mark.parametrize(("letter", "octets", "value"), EVERY_TYPE)
def test_every_type_is_read_and_written(letter: str, octets: bytes, value: object) -> None:
    raw = sized(b"\1k" + letter.encode() + octets)
    decoded = whole(raw)
    assert decoded == {"k": Field(ord(letter), value)}
    assert skip_table(raw, 0, len(raw)) == len(raw)
    written = raw.replace(b"kL", b"kl")
    assert encode_table(decoded) == written


@pytest.mark.rule("WI-5")
@given(TABLES)
def test_tables_round_trip(values: Table) -> None:
    raw = encode_table(values)
    assert whole(raw) == values
    assert encode_table(whole(raw)) == raw
    assert skip_table(raw, 0, len(raw)) == len(raw)


@given(TABLES, st.binary(max_size=8), st.binary(max_size=8))
def test_octets_around_a_table_are_left_alone(values: Table, before: bytes, after: bytes) -> None:
    raw = encode_table(values)
    data = before + raw + after
    start, end = len(before), len(before) + len(raw)
    assert decode_table(data, start, len(data)) == values
    assert skip_table(data, start, len(data)) == end
    assert decode_entries(data, start + 4, end) == values


def test_a_table_cut_short_anywhere_is_an_error() -> None:
    entries = b"".join(
        bytes([1]) + letter.lower().encode() + letter.encode() + octets
        for letter, octets, _ in EVERY_TYPE
    )
    raw = sized(entries)
    whole(raw)
    for size in range(len(raw)):
        for decoder in (decode_table, skip_table):
            with pytest.raises(DecodeError):
                decoder(raw, 0, size)
    boundaries = 0
    for size in range(len(entries)):
        # The length is right, the entries are cut: only a cut between two entries is a table.
        cut = sized(entries[:size])
        outcomes = {outcome(decode_table, cut), outcome(skip_table, cut)}
        assert len(outcomes) == 1
        boundaries += outcomes == {True}
    assert boundaries == len(EVERY_TYPE)


def outcome(decoder: object, raw: bytes) -> bool:
    assert callable(decoder)
    try:
        decoder(raw, 0, len(raw))
    except DecodeError:
        return False
    return True


@given(st.binary(max_size=200))
def test_any_octets_give_a_table_or_a_decode_error(junk: bytes) -> None:
    raw = sized(junk)
    assert outcome(decode_table, raw) == outcome(skip_table, raw)


@given(TABLES, st.data())
def test_a_damaged_table_gives_a_table_or_a_decode_error(
    values: Table, data: st.DataObject
) -> None:
    raw = bytearray(encode_table(values))
    raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    damaged = bytes(raw)
    assert outcome(decode_table, damaged) == outcome(skip_table, damaged)


def test_an_unknown_type_letter_is_named() -> None:
    raw = sized(b"\1k?\0")
    for decoder in (decode_table, skip_table):
        with pytest.raises(DecodeError, match="unknown field type 63") as caught:
            decoder(raw, 0, len(raw))
        assert caught.value.code == 501


@pytest.mark.rule("WI-6")
def test_a_key_that_is_not_utf8_is_an_error() -> None:
    raw = sized(b"\1\xffV")
    for decoder in (decode_table, skip_table):
        with pytest.raises(DecodeError, match="Malformed UTF-8"):
            decoder(raw, 0, len(raw))


def test_of_equal_keys_the_first_counts() -> None:
    assert whole(sized(b"\1kt\1" + b"\1kt\0")) == {"k": Field(ord("t"), True)}


def test_a_true_boolean_is_any_octet_but_zero() -> None:
    assert encode_table(whole(sized(b"\1kt\x07"))) == sized(b"\1kt\1")


def nested_tables(levels: int) -> bytes:
    raw = sized(b"")
    for _ in range(levels - 1):
        raw = sized(b"\1kF" + raw)
    return raw


def nested_arrays(levels: int) -> bytes:
    raw = sized(b"")
    for _ in range(levels - 2):
        raw = sized(b"A" + raw)
    return sized(b"\1kA" + raw)


@pytest.mark.parametrize("nested", [nested_tables, nested_arrays])
def test_depth_is_bounded(nested: object) -> None:
    assert callable(nested)
    assert outcome(decode_table, nested(TABLE_DEPTH_MAX))
    assert outcome(skip_table, nested(TABLE_DEPTH_MAX))
    for levels in (TABLE_DEPTH_MAX + 1, 5000):
        for decoder in (decode_table, skip_table):
            with pytest.raises(DecodeError, match="nested deeper") as caught:
                decoder(nested(levels), 0, len(nested(levels)))
            assert caught.value.code == 502


@pytest.mark.slow
@pytest.mark.parametrize(
    ("entry", "size"),
    [
        (b"\0V", 1_000_000),
        (b"\1kA\0\0\0\0", 2_000_000),
        (b"\1kF\0\0\0\x08\1kF\0\0\0\1\0", 10_000_000),
        (b"\1kS\0\0\0\x64" + b"\xff" * 100, 10_000_000),
        (b"\xff" + b"\xc3\xa9" * 127 + b"aV", 10_000_000),
    ],
)
def test_megabytes_of_junk_cost_linear_time(entry: bytes, size: int) -> None:
    small = cost_seconds(sized(entry * (size // 10 // len(entry))))
    large = cost_seconds(sized(entry * (size // len(entry))))
    # Ten times the octets: quadratic cost would take a hundred times as long.
    assert large < 40 * small + 0.05


def cost_seconds(raw: bytes) -> float:
    best = 60.0
    for _ in range(2):
        before = time.perf_counter()
        outcome(decode_table, raw)
        outcome(skip_table, raw)
        best = min(best, time.perf_counter() - before)
    return best


@pytest.mark.parametrize(
    "entry",
    [
        Field(ord("b"), 128),
        Field(ord("B"), -1),
        Field(ord("s"), 2**15),
        Field(ord("u"), 2**16),
        Field(ord("I"), 2**31),
        Field(ord("i"), -1),
        Field(ord("l"), 2**63),
        Field(ord("T"), -1),
        Field(ord("D"), Decimal_(256, 0)),
        Field(ord("?"), 1),
    ],
)
def test_what_does_not_fit_its_type_is_not_written(entry: Field) -> None:
    with pytest.raises(ValueError, match=r"does not fit|no field type"):
        encode_table({"k": entry})


@pytest.mark.rule("WI-5")
def test_a_table_is_written_in_the_order_of_the_dict() -> None:
    assert encode_table(table({"b": None, "a": None})) == sized(b"\1bV\1aV")
