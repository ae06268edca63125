"""Numbers and short strings."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from warren.protocol import wire
from warren.protocol.wire import DecodeError

PUTS: list[tuple[Callable[[BytesWriter, int], None], int]] = [
    (wire.put_u8, 8),
    (wire.put_u16, 16),
    (wire.put_u32, 32),
    (wire.put_u64, 64),
]


@pytest.mark.parametrize(("put", "bits"), PUTS)
def test_numbers_are_unsigned_and_big_endian(
    put: Callable[[BytesWriter, int], None], bits: int
) -> None:
    for number in (0, 1, (1 << bits - 1) - 1, 1 << bits - 1, (1 << bits) - 1):
        out = BytesWriter()
        put(out, number)
        assert out.getvalue() == number.to_bytes(bits // 8, "big")


@pytest.mark.parametrize(("put", "bits"), PUTS)
def test_numbers_that_do_not_fit_are_refused(
    put: Callable[[BytesWriter, int], None], bits: int
) -> None:
    for number in (-1, 1 << bits, 1 << 70):
        with pytest.raises(ValueError, match="does not fit"):
            put(BytesWriter(), number)


@given(st.integers(0, 2**64 - 1))
def test_reading_undoes_writing(number: int) -> None:
    raw = number.to_bytes(8, "big")
    assert wire.read_u64(raw, 0) == number
    assert wire.read_u32(raw, 4) == number & 0xFFFFFFFF
    assert wire.read_u16(raw, 6) == number & 0xFFFF


@pytest.mark.rule("WI-6")
@given(st.text(max_size=80))
def test_short_strings_round_trip(text: str) -> None:
    out = BytesWriter()
    try:
        wire.put_short(out, text)
    except ValueError:
        assert len(text.encode("utf-8", "surrogatepass")) > 255 or not text.isprintable()
        return
    raw = out.getvalue()
    end = wire.short_end(raw, 0, len(raw))
    assert end == len(raw)
    assert wire.short_text(raw, 0, end) == text


@pytest.mark.rule("WI-6")
def test_a_short_string_holds_255_octets_and_no_more() -> None:
    out = BytesWriter()
    wire.put_short(out, "a" * 255)
    assert len(out.getvalue()) == 256
    with pytest.raises(ValueError, match="256 octets"):
        wire.put_short(out, "é" * 128)


@pytest.mark.rule("WI-6")
@pytest.mark.parametrize(
    "raw", [b"\xff", b"aaaaaaaaaaaa\xc3", b"\xed\xa0\x80", b"\xc0\xaf", b"12345678\x80abcdefgh"]
)
def test_malformed_utf8_is_a_frame_error(raw: bytes) -> None:
    data = bytes([len(raw)]) + raw
    for check in (wire.short_text, lambda d, p, e: wire.check_utf8(d, p + 1, e)):
        with pytest.raises(DecodeError) as caught:
            check(data, 0, len(data))
        assert (caught.value.code, caught.value.detail) == (501, "Malformed UTF-8 in shortstr")


@given(st.binary(max_size=40))
def test_the_quick_check_agrees_with_the_decoder(raw: bytes) -> None:
    try:
        raw.decode()
    except UnicodeDecodeError:
        with pytest.raises(DecodeError):
            wire.check_utf8(raw, 0, len(raw))
    else:
        wire.check_utf8(raw, 0, len(raw))


@given(st.text(alphabet=st.characters(min_codepoint=0x80, exclude_categories=["Cs"]), min_size=1))
def test_valid_text_beyond_ascii_passes_the_check(text: str) -> None:
    raw = text.encode()
    wire.check_utf8(raw, 0, len(raw))


@pytest.mark.parametrize("size", range(5))
def test_lengths_beyond_the_end_are_refused(size: int) -> None:
    short = b"\x05abcde"[: size + 1]
    long = b"\x00\x00\x00\x05abcde"[: size + 4]
    for ends, data in ((wire.short_end, short), (wire.long_end, long), (wire.long_end, long[:3])):
        with pytest.raises(DecodeError):
            ends(data, 0, len(data))
    with pytest.raises(DecodeError):
        wire.short_end(b"\x00", 1, 1)


def test_octets_after_the_end_do_not_count() -> None:
    with pytest.raises(DecodeError):
        wire.short_end(b"\x02ab", 0, 2)
    with pytest.raises(DecodeError):
        wire.need(1, 2, 2)
    wire.need(1, 1, 2)
