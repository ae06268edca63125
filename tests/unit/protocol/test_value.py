"""Building, comparing and printing field values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.protocol.value import (
    Decimal_,
    Field,
    field,
    kind_name,
    plain,
    same_value,
    sorted_table,
    table,
    term_text,
)

INTEGER_LETTERS = "bBsuIilL"


def of(letter: str, value: object) -> Field:
    return Field(ord(letter), value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("é", of("S", "é".encode())),
        (b"\xff", of("S", b"\xff")),
        (True, of("t", True)),
        (0, of("I", 0)),
        (-(2**31), of("I", -(2**31))),
        (2**31 - 1, of("I", 2**31 - 1)),
        (2**31, of("l", 2**31)),
        (-(2**31) - 1, of("l", -(2**31) - 1)),
        (1.5, of("d", 1.5)),
        (None, of("V", None)),
        ([1, "a"], of("A", [of("I", 1), of("S", b"a")])),
        ({"k": None}, of("F", {"k": of("V", None)})),
        (Decimal_(2, 314), of("D", Decimal_(2, 314))),
        (of("b", 1), of("b", 1)),
    ],
)
def test_plain_values_become_fields(value: object, expected: Field) -> None:
    assert field(value) == expected


def test_a_value_without_field_type_is_refused() -> None:
    with pytest.raises(TypeError, match="no field type for set"):
        field({1, 2})


def test_fields_become_plain_values() -> None:
    values = table({"text": "é", "list": [1, None, {"x": True}], "raw": b"a\xffb"})
    assert {key: plain(entry) for key, entry in values.items()} == {
        "text": "é",
        "list": [1, None, {"x": True}],
        "raw": "a\\xffb",
    }
    assert plain(of("D", Decimal_(2, 314))) == pytest.approx(3.14)


def test_equal_fields_have_equal_hashes_and_kinds_differ() -> None:
    assert hash(of("S", b"a")) == hash(of("S", b"a"))
    assert hash(field({"a": 1})) == hash(field({"a": 1}))
    assert hash(of("D", Decimal_(1, 2))) == hash(of("D", Decimal_(1, 2)))
    assert of("I", 1) != of("l", 1)
    assert of("S", b"a") != b"a"
    assert Decimal_(1, 2) != Decimal_(2, 2)


@pytest.mark.rule("WI-5")
def test_every_type_letter_has_its_name() -> None:
    names = {letter: kind_name(ord(letter)) for letter in "SIDTFAbBsuilLfdtxV"}
    assert names == {
        "S": "longstr",
        "I": "signedint",
        "D": "decimal",
        "T": "timestamp",
        "F": "table",
        "A": "array",
        "b": "byte",
        "B": "unsignedbyte",
        "s": "short",
        "u": "unsignedshort",
        "i": "unsignedint",
        "l": "long",
        "L": "long",
        "f": "float",
        "d": "double",
        "t": "bool",
        "x": "binary",
        "V": "void",
    }
    assert kind_name(ord("?")) == "unknown"


@pytest.mark.rule("QD-1")
@given(st.sampled_from(INTEGER_LETTERS), st.sampled_from(INTEGER_LETTERS), st.integers(0, 127))
def test_all_integer_types_are_one_class(a: str, b: str, value: int) -> None:
    assert same_value(of(a, value), of(b, value))
    assert not same_value(of(a, value), of(b, value + 1))


@pytest.mark.rule("QD-1")
@pytest.mark.parametrize(
    ("a", "b"),
    [
        (of("I", 1), of("T", 1)),
        (of("I", 1), of("d", 1.0)),
        (of("I", 1), of("t", True)),
        (of("I", 1), of("D", Decimal_(0, 1))),
        (of("S", b"1"), of("I", 1)),
        (of("S", b"a"), of("x", b"a")),
        (of("S", b"a"), of("S", b"b")),
        (of("A", [of("I", 1)]), of("A", [of("I", 1), of("I", 2)])),
        (of("A", [of("I", 1)]), of("A", [of("I", 2)])),
        (of("F", {"a": of("I", 1)}), of("F", {"b": of("I", 1)})),
        (of("F", {"a": of("I", 1)}), of("F", {})),
        (of("V", None), None),
        (None, of("I", 0)),
    ],
)
def test_other_classes_and_other_values_differ(a: Field | None, b: Field | None) -> None:
    assert not same_value(a, b)
    assert not same_value(b, a)


@pytest.mark.rule("QD-1")
def test_equivalence_reaches_into_tables_and_arrays() -> None:
    left = of("F", {"a": of("I", 1), "b": of("A", [of("f", 2.0), of("V", None)])})
    right = of("F", {"b": of("A", [of("d", 2.0), of("V", None)]), "a": of("l", 1)})
    assert same_value(left, right)
    assert same_value(None, None)


@pytest.mark.rule("QD-1")
@pytest.mark.parametrize(
    ("value", "text"),
    [
        (of("S", b"lazy"), "lazy"),
        (of("S", b"a\xff"), "a\\xff"),
        (of("I", 1000), "1000"),
        (of("t", True), "true"),
        (of("t", False), "false"),
        (of("V", None), "undefined"),
        (of("d", 1.5), "1.5"),
        (of("T", 7), "7"),
        (of("D", Decimal_(2, 314)), "{2,314}"),
        (of("A", [of("S", b"a"), of("I", 1)]), '[{longstr,<<"a">>},{signedint,1}]'),
        (of("F", {"k": of("S", b"\x00\x01")}), '[{<<"k">>,longstr,<<0,1>>}]'),
        (of("A", [of("S", b""), of("S", b'a"\\')]), '[{longstr,<<>>},{longstr,<<"a\\"\\\\">>}]'),
        (of("A", []), "[]"),
    ],
)
def test_values_print_as_in_reply_texts(value: Field, text: str) -> None:
    assert term_text(value) == text


@pytest.mark.rule("WI-5")
def test_only_the_top_level_is_sorted() -> None:
    values = table({"b": {"z": 1, "y": 2}, "a": 0})
    ordered = sorted_table(values)
    assert list(ordered) == ["a", "b"]
    assert ordered["b"] is values["b"]
    assert list(values) == ["b", "a"]
