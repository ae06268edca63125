"""Expressions as RabbitMQ's users write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.security import Pattern, PatternError, costly
from warren.security.pattern import PATTERN_OCTETS_MAX, escape


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        (r"\Aq\z", "q", True),
        (r"\Aq\z", "q\n", False),
        (r"\Aq\Z", "q\n", True),
        (r"\Aq\Z", "q\nx", False),
        (r"^\Qa.b\E$", "a.b", True),
        (r"^\Qa.b\E$", "axb", False),
        (r"^\Qa(b", "a(b", True),
        (r"^(?<first>a)(?P=first)$", "aa", True),
        (r"(?<=a)b", "ab", True),
        (r"(?<!a)b", "ab", False),
        (r"^[[:alpha:]_]+$", "a_b", True),
        (r"^[[:alpha:]_]+$", "a1", False),
        (r"^[^[:digit:]]+$", "a1", False),
        (r"^[[:punct:]]+$", "!]-^`~", True),
        (r"^[[:punct:]]$", "a", False),
        (r"^[[:punct:]]$", "1", False),
        (r"^[]a]$", "]", True),
        (r"^[(?<x>]+$", "<x>?(", True),
        (r"^[[a]$", "[", True),
        (r"^[a&&b]$", "&", True),
        (r"^[a||b]$", "|", True),
        (r"^a\h+b$", "a \tb", True),
        (r"^\\z$", "\\z", True),
        (r"(?i)^Q$", "q", True),
        (r"^a++b$", "aab", True),
        (r"^\w+$", "é", False),
    ],
)
def test_what_is_translated(pattern: str, name: str, expected: bool) -> None:
    assert Pattern(pattern).found_in(name.encode()) is expected


@pytest.mark.parametrize(
    "pattern", ["(", "*", "[a", r"\R", "(?R)", "a{2,1}", "(?<a>", "(*ANY)", "[[:^digit:]]"]
)
def test_what_is_not_understood_is_refused_with_the_pattern_in_the_text(pattern: str) -> None:
    with pytest.raises(PatternError) as caught:
        Pattern(pattern)
    assert repr(pattern)[1:-1].replace("\\\\", "\\") in str(caught.value)
    assert caught.value.detail


def test_a_pattern_is_limited_in_size() -> None:
    assert Pattern("a" * PATTERN_OCTETS_MAX).text
    with pytest.raises(PatternError, match="longer than 8192 octets"):
        Pattern("a" * (PATTERN_OCTETS_MAX + 1))


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (".*", False),
        ("^(a|b).*$", False),
        ("^(amq\\.gen.*|orders.*|x.*|y.*|z.*)$", False),
        ("^.*a.*b.*$", False),
        ("^(a+)+$", True),
        ("^(a*){2,}$", True),
        ("^((ab)*c)*$", True),
        ("^.*a.*b.*c.*d$", True),
        ("^(a++)+$", False),
        ("^(a+)++$", False),
        ("^([a+]b)+$", False),
        ("^(a\\+b)+$", False),
        (")", False),
    ],
)
def test_the_usual_costly_shapes_are_recognised(pattern: str, expected: bool) -> None:
    assert costly(pattern) is expected


@given(text=st.text(max_size=20), other=st.text(max_size=20))
def test_an_escaped_text_stands_for_itself_only(text: str, other: str) -> None:
    pattern = Pattern(rf"\A{escape(text)}\z")
    assert pattern.found_in(text.encode())
    assert pattern.found_in(other.encode()) is (text == other)


@given(text=st.text(max_size=30), name=st.text(max_size=10))
def test_any_text_is_a_pattern_or_a_typed_refusal(text: str, name: str) -> None:
    assert costly(text) in (True, False)
    try:
        found = Pattern(text).found_in(name.encode())
    except PatternError:
        found = False
    assert found is False or text
