"""The index finds what trying every pattern finds."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.vhost.policy import Policy
from warren.vhost.policy_index import Entry, PolicyIndex, literals


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("orders", [b"orders"]),
        (r"^tenant-17\.", [b"tenant-17."]),
        (r"\.retry$", [b".retry"]),
        (r"^(a|b)\.orders$", [b".orders"]),
        (r"[abc]orders\d+done", [b"orders", b"done"]),
        ("orders?", [b"order"]),
        ("foo{2}bar", [b"bar"]),
        ("foo{bar}", [b"foo{bar}"]),
        ("(?:orders)x", []),
        ("orders(?#a comment)?", []),
        ("é+orders", [b"orders"]),
        (".*", []),
        ("", []),
        ("ab", []),
        ("orders|bills", []),
        ("(?i)orders", []),
        (r"\x41orders", []),
        (r"(a)\1orders", []),
        (r"\Qorders\E", []),
        (r"orders\nx", [b"orders"]),
        (r"[]orders]", []),
        (r"[[:alpha:]]orders", [b"orders"]),
    ],
)
def test_literals_are_what_every_match_contains(pattern: str, found: list[bytes]) -> None:
    assert literals(pattern) == found


# Pieces that patterns are made of, and names likely to match some of them.
PIECES = st.sampled_from(
    ["a", "b", "abc", "bca", "^", "$", ".", ".*", "a+", "b?", "c{2}", "c{0,2}", "(", ")", "|",
     "(?:", "(?!", "(?i)", "[ab]", "[^c]", r"\.", r"\d", r"\x61", r"\Qab.\E", "é", "(?#a)", "*?"]
)  # fmt: skip
PATTERNS = st.lists(PIECES, max_size=6).map("".join)
NAMES = st.text(alphabet="abcA.1é\n", max_size=8)


def compiles(pattern: str) -> bool:
    return Entry(policy_of(pattern, 0)).pattern is not None


def policy_of(pattern: str, number: int) -> Policy:
    keys = ("max-length", "ha-mode", "dead-letter-strategy")
    return Policy(
        vhost="/",
        name=f"p{number:02}",
        pattern=pattern,
        definition={keys[number % 3]: 1},
        priority=number // 2 % 3,
    )


@given(
    patterns=st.lists(PATTERNS.filter(compiles), max_size=12),
    names=st.lists(NAMES, min_size=1, max_size=4),
    gone=st.sets(st.integers(0, 11)),
    queue_type=st.sampled_from(["classic", "quorum", "stream", ""]),
)
def test_the_index_finds_what_trying_every_one_finds(
    patterns: list[str], names: list[str], gone: set[int], queue_type: str
) -> None:
    entries = [Entry(policy_of(pattern, number)) for number, pattern in enumerate(patterns)]
    index = PolicyIndex()
    for entry in entries:
        index.add(entry)
    for number in sorted(gone & set(range(len(entries)))):
        index.remove(entries[number])
    left = [entry for number, entry in enumerate(entries) if number not in gone]
    left.sort(key=lambda entry: entry.order)
    for name in names:
        tried = [one.policy for one in left if one.matches(name.encode(), queue_type)]
        assert index.every(name, queue_type) == tried
        assert index.first(name, queue_type) == (tried[0] if tried else None)


@given(pattern=PATTERNS.filter(compiles), name=NAMES)
def test_a_name_without_the_literals_is_no_match(pattern: str, name: str) -> None:
    texts = literals(pattern)
    if not all(text in name.encode() for text in texts):
        assert not Entry(policy_of(pattern, 0)).matches(name.encode(), "")


def test_a_policy_of_a_thousand_is_found_with_few_searches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    index = PolicyIndex()
    for number in range(1000):
        index.add(
            Entry(
                Policy(
                    vhost="/",
                    name=f"p{number}",
                    pattern=rf"^tenant-{number}\.",
                    definition={"max-length": 1},
                )
            )
        )
    searched: list[str] = []

    def counted(entry: Entry, name: bytes, queue_type: str) -> bool:
        searched.append(entry.policy.pattern)
        return re.search(entry.policy.pattern.encode(), name) is not None

    monkeypatch.setattr(Entry, "matches", counted)
    found = index.first("tenant-17.orders", "classic")
    assert found is not None
    assert found.name == "p17"
    assert index.first("amq.gen-abcdefghijklmnopqrstuv", "classic") is None
    assert len(searched) < 20
