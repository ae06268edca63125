"""How long to hold a message, read from its headers; and what they are afterwards."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.protocol.fields import FIELDS
from warren.protocol.delay import (
    DELAY_MS_MAX,
    NOT_A_NUMBER,
    TOO_LONG,
    as_held,
    delay_of,
    refusal_text,
)
from warren.protocol.properties import Properties, headers_of, scan
from warren.protocol.value import Decimal_, Field, Table, field

NOW = 1_790_000_000_000
INTEGER_KINDS = "bBsuIilL"


def props(**headers: Field) -> bytes:
    table = {name.replace("_", "-"): value for name, value in headers.items()}
    made = Properties(content_type="t", headers=table, message_id="m", priority=3).encode()
    scan(made, 0, len(made))
    return made


def kind(letter: str, value: object) -> Field:
    return Field(ord(letter), value)


@pytest.mark.parametrize("letter", INTEGER_KINDS)
def test_any_integer_type_is_a_delay(letter: str) -> None:
    assert delay_of(props(x_delay=kind(letter, 100)), NOW) == 100
    assert delay_of(props(x_delay=kind(letter, 0)), NOW) == 0
    if letter in "bsIlL":
        assert delay_of(props(x_delay=kind(letter, -100)), NOW) == 0


@pytest.mark.parametrize(
    ("value", "delay"),
    [
        (field("1500"), 1500),
        (field("+1500"), 1500),
        (field("-1500"), 0),
        (field("0000000000000000000000001500"), 1500),
        (field("0"), 0),
        (field(""), NOT_A_NUMBER),
        (field("-"), NOT_A_NUMBER),
        (field("soon"), NOT_A_NUMBER),
        (field("1500 "), NOT_A_NUMBER),
        (field("1_500"), NOT_A_NUMBER),
        (field("1e3"), NOT_A_NUMBER),
        (field("1.5"), NOT_A_NUMBER),
        (field("\u0661"), NOT_A_NUMBER),
        (field("9" * 400), TOO_LONG),
        (field("-" + "9" * 400), 0),
        (field(1500.9), 1500),
        (field(-1500.9), 0),
        (field(1e300), TOO_LONG),
        (field(float("nan")), NOT_A_NUMBER),
        (field(float("inf")), NOT_A_NUMBER),
        (kind("f", 0.5), 0),
        (field(Decimal_(1, 15009)), 1500),
        (field(Decimal_(255, 15009)), 0),
        (kind("l", (1 << 63) - 1), TOO_LONG),
        (kind("l", -(1 << 63)), 0),
        (kind("l", DELAY_MS_MAX), DELAY_MS_MAX),
        (kind("l", DELAY_MS_MAX + 1), TOO_LONG),
        # The plug-in passes these by.
        (field(True), 0),
        (field(None), 0),
        (field([1]), 0),
        (field({"a": 1}), 0),
        (kind("T", 1500), 0),
        (kind("x", b"1500"), 0),
    ],
)
def test_what_a_delay_may_be(value: Field, delay: int) -> None:
    assert delay_of(props(x_delay=value), NOW) == delay


@pytest.mark.parametrize(
    ("value", "delay"),
    [
        (kind("l", NOW + 70), 70),
        (kind("l", NOW), 0),
        (kind("l", 5), 0),
        (kind("l", -5), 0),
        (field(str(NOW + 70)), 70),
        (field(float(NOW + 70)), 70),
        (kind("T", NOW // 1000 + 7), 7000),
        (kind("T", 0), 0),
        (kind("T", (1 << 64) - 1), TOO_LONG),
        (kind("l", NOW + DELAY_MS_MAX), DELAY_MS_MAX),
        (kind("l", NOW + DELAY_MS_MAX + 1), TOO_LONG),
        (field("tomorrow"), NOT_A_NUMBER),
        (field(None), NOT_A_NUMBER),
        (field(True), NOT_A_NUMBER),
        (field([NOW]), NOT_A_NUMBER),
    ],
)
def test_a_point_in_time(value: Field, delay: int) -> None:
    assert delay_of(props(x_deliver_at=value), NOW) == delay
    # It rules out the delay.
    assert delay_of(props(x_delay=field(9), x_deliver_at=value), NOW) == delay


def test_without_headers() -> None:
    assert delay_of(Properties().encode(), NOW) == 0
    assert delay_of(props(other=field(5)), NOW) == 0
    assert as_held(Properties().encode()) == Properties().encode()


def test_every_refusal_has_a_text() -> None:
    assert str(DELAY_MS_MAX) in refusal_text(TOO_LONG)
    assert "numbers" in refusal_text(NOT_A_NUMBER)


@given(
    st.one_of(
        st.builds(kind, st.just("l"), st.integers(1, DELAY_MS_MAX)),
        st.builds(kind, st.just("I"), st.integers(1, (1 << 31) - 1)),
        st.builds(lambda ms: field(str(ms)), st.integers(1, DELAY_MS_MAX)),
        st.builds(field, st.floats(1, 1e10)),
    )
)
def test_afterwards_the_delay_is_negative_and_all_else_as_it_was(value: Field) -> None:
    before = props(a=field([1, "x"]), x_delay=value, z=field({"b": 2.5}))
    delay = delay_of(before, NOW)
    after = as_held(before)
    table: Table = headers_of(after) or {}
    size = "I" if delay <= 1 << 31 else "l"
    assert table["x-delay"] == kind(size, -delay)
    assert delay_of(after, NOW) == 0
    assert scan(after, 0, len(after)) == scan(before, 0, len(before))
    back = dict(table)
    back["x-delay"] = value
    assert list(back) == ["a", "x-delay", "z"]
    assert Properties(content_type="t", headers=back, message_id="m", priority=3).encode() == before


def test_a_point_in_time_stays_as_it_is() -> None:
    before = props(x_delay=field(5), x_deliver_at=kind("l", NOW + 5))
    assert as_held(before) == before


@given(FIELDS, FIELDS, st.booleans())
def test_whatever_the_headers_are_there_is_an_answer(a: Field, b: Field, both: bool) -> None:
    headers = {"x_delay": a, "x_deliver_at": b} if both else {"x_delay": a}
    before = props(**headers)
    assert TOO_LONG <= delay_of(before, NOW) <= DELAY_MS_MAX
    after = as_held(before)
    scan(after, 0, len(after))
    if both:
        assert after == before
    else:
        assert delay_of(after, NOW) <= 0
