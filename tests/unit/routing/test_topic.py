"""Topic exchanges: which patterns match which keys, and what matching costs."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.routing import RoutingTable

PATTERNS = ["#", "*", "a.*", "a.#", "*.b", "#.b", "a.*.c", "a.#.c", "", "a..b", "*.*", "#.*", "a"]
PATTERNS.append("#.#")

# The observed table of TP-3.
MATCHES = {
    "": ["#", "", "#.#"],
    "a": ["#", "*", "a.#", "#.*", "a", "#.#"],
    "b": ["#", "*", "#.b", "#.*", "#.#"],
    "a.b": ["#", "a.*", "a.#", "*.b", "#.b", "*.*", "#.*", "#.#"],
    "a.b.c": ["#", "a.#", "a.*.c", "a.#.c", "#.*", "#.#"],
    "a.c": ["#", "a.*", "a.#", "a.#.c", "*.*", "#.*", "#.#"],
    "a..b": ["#", "a.#", "#.b", "a..b", "#.*", "#.#"],
    ".": ["#", "*.*", "#.*", "#.#"],
    "a.": ["#", "a.*", "a.#", "*.*", "#.*", "#.#"],
    ".b": ["#", "*.b", "#.b", "*.*", "#.*", "#.#"],
}


def topic_table(patterns: list[str]) -> RoutingTable:
    """One queue per pattern, named like it."""
    table = RoutingTable("/")
    table.declare_exchange("t", "topic")
    for pattern in patterns:
        table.add_queue(pattern, None)
        table.bind("t", pattern, pattern.encode(), {}, to_queue=True)
    return table


def matched(table: RoutingTable, key: str, extra_keys: list[bytes] | None = None) -> set[str]:
    sinks = table.route(table.exchange("t"), key.encode(), extra_keys, None)
    names = [sink.name for sink in sinks]
    assert len(names) == len(set(names))
    return set(names)


def words(key: str) -> list[str]:
    return key.split(".") if key else []


def matches(pattern: list[str], key: list[str]) -> bool:
    """Say the rule TP-2 in the plainest way."""
    if not pattern:
        return not key
    if pattern[0] == "#":
        return any(matches(pattern[1:], key[skipped:]) for skipped in range(len(key) + 1))
    return bool(key) and pattern[0] in {"*", key[0]} and matches(pattern[1:], key[1:])


@pytest.mark.rule("TP-1", "TP-2", "TP-3")
@pytest.mark.parametrize("key", list(MATCHES))
def test_observed_table(key: str) -> None:
    assert matched(topic_table(PATTERNS), key) == set(MATCHES[key])


@pytest.mark.rule("TP-2")
def test_wildcard_inside_a_word_is_literal() -> None:
    table = topic_table(["a.b#", "*#", "a*", "##", "**"])
    assert matched(table, "a.bx") == set()
    assert matched(table, "x") == set()
    assert matched(table, "a.b#") == {"a.b#"}
    assert matched(table, "*#") == {"*#"}
    assert matched(table, "##") == {"##"}


@pytest.mark.rule("TP-2")
def test_wildcards_in_the_routing_key_are_plain_words() -> None:
    table = topic_table(["a.b", "a.*", "a.x.#", "*.y"])
    assert matched(table, "a.*") == {"a.*"}
    assert matched(table, "#") == set()
    assert matched(table, "*.y") == {"*.y"}


@pytest.mark.rule("PB-4", "TP-2", "XC-8")
def test_every_key_is_matched_and_a_queue_is_reached_once() -> None:
    table = topic_table(["a.*", "b.#", "c", "#"])
    table.bind("t", "c", b"*.x", {}, to_queue=True)
    assert matched(table, "a.x", [b"b", b"c"]) == {"a.*", "b.#", "c", "#"}
    assert matched(table, "z", [b"a.x", b"a.x"]) == {"a.*", "c", "#"}


@pytest.mark.rule("TP-2")
def test_removed_patterns_match_no_more_and_leave_no_nodes() -> None:
    from warren.routing.topic import Topic

    table = topic_table(PATTERNS)
    for pattern in PATTERNS:
        assert table.unbind("t", pattern, pattern.encode(), {}, to_queue=True)
        assert pattern not in matched(table, pattern)
    matcher = table.exchange("t").matcher
    assert isinstance(matcher, Topic)
    assert matcher.root.is_bare()
    assert not matcher.exact.chains


PATTERN = st.lists(st.sampled_from(["a", "b", "", "*", "#"]), max_size=6).map(".".join)
KEY = st.lists(st.sampled_from(["a", "b", "", "c"]), max_size=7).map(".".join)


@pytest.mark.rule("TP-1", "TP-2")
@given(patterns=st.lists(PATTERN, unique=True, max_size=12), keys=st.lists(KEY, max_size=6))
def test_agrees_with_the_plain_rule(patterns: list[str], keys: list[str]) -> None:
    table = topic_table(patterns)
    gone = patterns[::3]
    for key in keys:
        expected = {pattern for pattern in patterns if matches(words(pattern), words(key))}
        assert matched(table, key) == expected
    for pattern in gone:
        table.unbind("t", pattern, pattern.encode(), {}, to_queue=True)
    for key in keys:
        expected = {pattern for pattern in patterns if matches(words(pattern), words(key))}
        assert matched(table, key) == expected - set(gone)


@pytest.mark.rule("TP-2")
def test_many_hashes_and_a_hostile_key_stay_cheap() -> None:
    """127 words; a matcher that tries every split would not return."""
    pattern = ".".join(["#", "a"] * 40 + ["#", "b"])
    table = topic_table([pattern, pattern + ".#", "#.a.#.a.#.c.#"])
    key = ".".join(["a"] * 127)
    started = time.process_time()
    assert matched(table, key) == set()
    assert matched(table, key[:-1] + "b") == {pattern, pattern + ".#"}
    assert time.process_time() - started < 1.0


@pytest.mark.rule("TP-2")
def test_cost_does_not_grow_with_patterns_that_do_not_match() -> None:
    """The number of trie nodes live for a key is the same beside 3 and beside 3,000 patterns."""

    def seconds(count: int) -> float:
        table = topic_table([f"#.w{number}.*" for number in range(count)] + ["k.#"])
        best = 1.0
        for _ in range(5):
            started = time.perf_counter()
            for _ in range(100):
                assert matched(table, "k.x.y.z") == {"k.#"}
            best = min(best, time.perf_counter() - started)
        return best

    assert seconds(3000) < 10 * seconds(3)
