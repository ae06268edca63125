"""Taking patterns apart, bounding their cost, and searching without going back."""

import re
import time

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from warren.security import Pattern, PatternError
from warren.security.automaton import STATES_MAX, Automaton
from warren.security.pattern_tree import NotUnderstoodError, cost_of, parse

# Shapes with which a backtracking search takes longer than anybody lives, and names that show it.
HOSTILE = [
    ("^(a+)+$", "a" * 254 + "!"),
    ("(a|aa)+$", "a" * 254 + "!"),
    ("^(a|a)*$", "a" * 254 + "!"),
    ("^((a*)*b)*", "a" * 255),
    ("a?" * 60 + "a" * 60, "a" * 59),
    ("^.*a.*b.*c.*d.*e$", "abcd" * 63),
    (r"^(([a-z])+.)+[A-Z]([a-z])+$", "a" * 255),
    (r"^(\w+\s?)*$", "a" * 254 + "!"),
    ("(.*a){12}$", "a" * 254 + "!"),
]


@pytest.mark.parametrize(("pattern", "name"), HOSTILE)
def test_a_hostile_pattern_costs_milliseconds(pattern: str, name: str) -> None:
    compiled = Pattern(pattern)
    began = time.perf_counter()
    compiled.found_in(name.encode())
    # Some milliseconds; backtracking would not come back at all.
    assert time.perf_counter() - began < 2


@pytest.mark.parametrize(
    "pattern", ["^(?!amq)(a+)+$", "^(a+)+b(?=c)", r"^(\w+)+\1$", "(a{1,200}){200}"]
)
def test_what_cannot_be_searched_in_bounded_time_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError, match="a search for it could take too long"):
        Pattern(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        "", ".*", "^orders$", "^orders\\.", ".*foo.*", "^(a|b|c)\\.(x|y)$", "^(?!amq\\.).*",
        r"^tenant-\d+\.", r"^[^.]+\.[^.]+$", r"\.retry$", "^amq.gen-", "(?i)orders",
        "^(?:ha|lazy)-.*$",
        r"^(?!amq\.)(a|b|c)\..*-(x|y|z)-.*\.(p|q)$", r"^[0-9a-f]{8}-[0-9a-f]{4}$", "^(.*)$",
    ],
)  # fmt: skip
def test_what_people_write_is_searched_by_re_in_every_name(pattern: str) -> None:
    assert cost_of(parse(pattern.encode())).tries(255) <= 1 << 24
    Pattern(pattern)


PIECES = st.sampled_from(
    ["a", "b", "ab", ".", "^", "$", "(", ")", "(?:", "|", "*", "+", "?", "{2}", "{1,2}", "{,2}",
     "{,}", "{", "[ab]", "[^a]", "[]a]", "[a-c-]", r"[\w.]", r"\d", r"\W", r"\b", r"\B", r"\A",
     r"\Z", r"\.", r"\x61", r"\n", "(?i)", "(?s)", "A", "é", "(?#c)", "??", "++", "(?=a)", "(?P<n>"]
)  # fmt: skip
PATTERNS = st.lists(PIECES, max_size=8).map("".join)
NAMES = st.text(alphabet="abAé.1\n", max_size=7)


@given(pattern=PATTERNS, name=NAMES)
def test_the_automaton_finds_what_re_finds(pattern: str, name: str) -> None:
    octets = name.encode()
    try:
        expected = re.search(pattern.encode(), octets) is not None
        automaton = Automaton(parse(pattern.encode()))
    except (re.error, NotUnderstoodError):
        assume(False)
    assert automaton.found_in(octets) is expected


@given(pattern=PATTERNS)
def test_whatever_re_takes_is_taken_apart_or_said_not_to_be(pattern: str) -> None:
    try:
        re.compile(pattern.encode())
    except re.error:
        assume(False)
    try:
        tree = parse(pattern.encode())
    except NotUnderstoodError:
        return
    assert cost_of(tree).tries(5) >= 1


def test_an_automaton_is_limited_in_size() -> None:
    assert Automaton(parse(b"a" * (STATES_MAX - 1))).found_in(b"a" * 299)
    with pytest.raises(NotUnderstoodError):
        Automaton(parse(b"a" * STATES_MAX))
    with pytest.raises(NotUnderstoodError):
        parse(b"(" * 60 + b")" * 60)


def test_a_long_name_goes_to_the_automaton_and_gives_the_same_answer() -> None:
    pattern = Pattern("^.*a.*b.*c$")
    for name in ("xaxbxc", "x" * 100 + "a" + "b" * 100 + "c", "x" * 100 + "a" + "c" * 100):
        expected = re.search("^.*a.*b.*c$", name) is not None
        assert pattern.found_in(name.encode()) is expected
