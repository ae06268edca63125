"""The reader of Erlang terms: what is read, what is refused and where, and that it is bounded."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.server.conf_term import DEPTH_MAX, Atom, List, Term, TermError, Tuple, read_terms


def plain(term: Term) -> Any:
    """Tuples and lists of Python, without lines."""
    if isinstance(term, Tuple):
        return tuple(plain(one) for one in term.items)
    if isinstance(term, List):
        return [plain(one) for one in term.items]
    return term


def read(text: str) -> list[Any]:
    return [plain(one) for one in read_terms(text)]


@pytest.mark.rule("O-2.4")
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[].", []),
        ("{}.", ()),
        ("0.", 0),
        ("-5.", -5),
        ("+5.", 5),
        ("1_000.", 1000),
        ("16#fF.", 255),
        ("0.4.", 0.4),
        ("-1.5e-3.", -0.0015),
        ("true.", "true"),
        ("'PLAIN'.", "PLAIN"),
        ("'with space'.", "with space"),
        ("rabbit@my_host.", "rabbit@my_host"),
        ('"1024M".', "1024M"),
        ('"".', ""),
        ('"a" "b"\n"c".', "abc"),
        (r'"\"\\\n\t\x41\x{20AC}\101\^a\q".', '"\\\n\tA€A\x01q'),
        ('"größe".', "größe"),
        ('<<"x">>.', b"x"),
        ("<<>>.", b""),
        ('<<"ü"/utf8>>.', "ü".encode()),
        ('<<1, 255, "a">>.', b"\x01\xffa"),
        ("[{a,1},{b,[2,{c,<<>>}]}].", [("a", 1), ("b", [2, ("c", b"")])]),
        ("[ a , b ] .", ["a", "b"]),
        ("%% head\n[a, % one\n b]. %% end", ["a", "b"]),
        ("\ufeff[].".lstrip("\ufeff"), []),
    ],
)
def test_terms(text: str, value: object) -> None:
    (found,) = read(text)
    assert found == value
    assert type(found) is not bool


@pytest.mark.rule("O-2.4")
def test_atoms_are_not_strings() -> None:
    (found,) = read_terms("[true, \"true\", 'true'].")
    assert isinstance(found, List)
    assert [isinstance(one, Atom) for one in found.items] == [True, False, True]


def test_terms_know_their_lines() -> None:
    (found,) = read_terms("\n[\n {a,\n  [1]},\n {b, 2}].")
    assert isinstance(found, List)
    assert (found.line, [one.line for one in found.items if isinstance(one, Tuple)]) == (2, [3, 5])


def test_several_terms_and_comments_as_documents_have_them() -> None:
    assert read("# 1. one\n[a].\n\n# 2. two\n[b].\n") == [["a"], ["b"]]
    assert read("{disk_free_limit, 50000000}") == [("disk_free_limit", 50000000)]
    assert read("") == []
    assert read("% nothing\n") == []


@pytest.mark.rule("O-2.4", "O-2.2")
@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("[a]", 1, "expected the closing dot"),
        ("[a]\n[b].", 2, "expected the closing dot"),
        ("[a].[b].", 1, "white space behind the dot"),
        ("[a,\n b", 2, "the file ends before ]"),
        ("[a,", 1, "the file ends before ]"),
        ("[", 1, "the file ends before ]"),
        ("{a,\n\n]}.", 3, "expected a term, got ']'"),
        ("[a b].", 1, "expected , or ], got 'b'"),
        ("[a | b].", 1, "expected , or ], got '|'"),
        ("[a,].", 1, "expected a term, got ']'"),
        ("[Variable].", 1, "expected a term, got 'V'"),
        ("[#{a => b}].", 1, "maps and records"),
        ('["a].\n', 1, 'a " is not closed'),
        ("['a].", 1, "a ' is not closed"),
        ("[<<a>>].", 1, "text or octets in <<>>"),
        ("[<<256>>].", 1, "text or octets in <<>>"),
        ('[<<"a"].', 1, "a << is not closed"),
        ("[37#1].", 1, "37#1 is no number"),
        ("[2#3].", 1, "2#3 is no number"),
        ("[fun() -> ok end].", 1, "expected , or ], got '('"),
        ("[[rabbit]}.", 1, "expected , or ], got '}'"),
        (".", 1, "expected a term, got '.'"),
    ],
)
def test_what_is_no_term_is_refused_with_its_line(text: str, line: int, words: str) -> None:
    with pytest.raises(TermError) as refusal:
        read_terms(text)
    assert (refusal.value.line, words in refusal.value.reason) == (line, True), refusal.value.reason


def test_depth_is_bounded() -> None:
    assert read_terms("[" * DEPTH_MAX + "]" * DEPTH_MAX + ".")
    with pytest.raises(TermError, match="too deep"):
        read_terms("[" * 100_000 + "]" * 100_000 + ".")


@given(st.text("[]{}<>\"'.,%#\\ \n0159abTz_-+e/|$", max_size=60))
def test_any_text_gives_terms_or_a_refusal(text: str) -> None:
    line = 1
    try:
        read_terms(text)
    except TermError as refusal:
        line = refusal.line
    assert 1 <= line <= text.count("\n") + 1


TERMS = st.recursive(
    st.integers() | st.sampled_from(["a", "true", "x_1"]),
    lambda inner: st.lists(inner, max_size=4).map(tuple) | st.lists(inner, max_size=4),
    max_leaves=20,
)


def written(value: object) -> str:
    if isinstance(value, tuple):
        return "{" + " ,".join(written(one) for one in value) + "}"
    if isinstance(value, list):
        return "[\n" + ",".join(written(one) for one in value) + "% end\n]"
    return str(value)


@given(TERMS)
def test_what_is_written_is_read(value: object) -> None:
    assert read(written([value]) + ".") == [[value]]
