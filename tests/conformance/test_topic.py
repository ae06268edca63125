"""Topic exchanges: words, wildcards, and what matches what (4.1)."""

from typing import Any

import pytest

from tests.conformance.test_exchange import bodies
from tests.support.channel import Channel

PATTERNS = [
    "#",
    "*",
    "a.*",
    "a.#",
    "*.b",
    "#.b",
    "a.*.c",
    "a.#.c",
    "EMPTY",
    "a..b",
    "*.*",
    "#.*",
    "a",
    "#.#",
]
MATCHED = {
    "": "# EMPTY #.#",
    "a": "# * a.# #.* a #.#",
    "b": "# * #.b #.* #.#",
    "a.b": "# a.* a.# *.b #.b *.* #.* #.#",
    "a.b.c": "# a.# a.*.c a.#.c #.* #.#",
    "a.c": "# a.* a.# a.#.c *.* #.* #.#",
    "a..b": "# a.# #.b a..b #.* #.#",
    ".": "# *.* #.* #.#",
    "a.": "# a.* a.# *.* #.* #.#",
    ".b": "# *.b #.b *.* #.* #.#",
}


def matched(channel: Channel, exchange: str, queues: dict[str, str], key: str) -> set[str]:
    """Publish under the key; return the patterns whose queues got it."""
    channel.publish(b"x", exchange=exchange, routing_key=key)
    return {pattern for pattern, queue in queues.items() if bodies(channel, queue) == [b"x"]}


def bound(channel: Channel, exchange: str, patterns: list[str]) -> dict[str, str]:
    channel.exchange_declare(exchange, "topic")
    queues = {}
    for pattern in patterns:
        queues[pattern] = channel.queue_declare(exclusive=True).queue
        channel.queue_bind(queues[pattern], exchange, "" if pattern == "EMPTY" else pattern)
    return queues


@pytest.mark.rule("TP-1", "TP-2", "TP-3")
def test_the_table_of_matches(channel: Channel, unique: Any) -> None:
    exchange = unique("x")
    queues = bound(channel, exchange, PATTERNS)
    found = {key: matched(channel, exchange, queues, key) for key in MATCHED}
    assert found == {key: set(patterns.split()) for key, patterns in MATCHED.items()}


@pytest.mark.rule("TP-2")
def test_wildcards_are_whole_words(channel: Channel, unique: Any) -> None:
    """Trap 23."""
    exchange = unique("x")
    queues = bound(channel, exchange, ["a.b#", "*#", "a*", "##", "**", "a.#b.c"])
    for literal in queues:
        assert matched(channel, exchange, queues, literal) == {literal}
    for key in ("a.b", "a.bc", "a.b.c", "a", "ab", "x", "", "a.xb.c"):
        assert matched(channel, exchange, queues, key) == set()


@pytest.mark.rule("TP-2")
def test_several_hashes(channel: Channel, unique: Any) -> None:
    exchange = unique("x")
    queues = bound(channel, exchange, ["#.a.#", "#.a.#.b.#", "a.#.#", "#.#.*", "*.#.*", "#.a.#.a"])
    expected = {
        "a": {"#.a.#", "a.#.#", "#.#.*"},
        "x": {"#.#.*"},
        "": set(),
        "a.a": {"#.a.#", "a.#.#", "#.#.*", "*.#.*", "#.a.#.a"},
        "a.b": {"#.a.#", "#.a.#.b.#", "a.#.#", "#.#.*", "*.#.*"},
        "b.a": {"#.a.#", "#.#.*", "*.#.*"},
        "x.a.y.b.z": {"#.a.#", "#.a.#.b.#", "#.#.*", "*.#.*"},
        "b.x.a": {"#.a.#", "#.#.*", "*.#.*"},
        "a.x.a.x.a": {"#.a.#", "a.#.#", "#.#.*", "*.#.*", "#.a.#.a"},
    }
    assert {key: matched(channel, exchange, queues, key) for key in expected} == expected


@pytest.mark.rule("TP-2")
def test_wildcards_in_routing_keys_are_ordinary_words(channel: Channel, unique: Any) -> None:
    exchange = unique("x")
    queues = bound(channel, exchange, ["a.b", "a.*", "#"])
    assert matched(channel, exchange, queues, "a.#") == {"a.*", "#"}
    assert matched(channel, exchange, queues, "*.b") == {"#"}
    assert matched(channel, exchange, queues, "#") == {"#"}


@pytest.mark.rule("TP-1")
def test_words_are_case_sensitive_and_any_text(channel: Channel, unique: Any) -> None:
    exchange = unique("x")
    queues = bound(channel, exchange, ["ä.ö", "Ä.ö", "a b.c", "*.ö"])
    assert matched(channel, exchange, queues, "ä.ö") == {"ä.ö", "*.ö"}
    assert matched(channel, exchange, queues, "Ä.ö") == {"Ä.ö", "*.ö"}
    assert matched(channel, exchange, queues, "a b.c") == {"a b.c"}


@pytest.mark.rule("TP-1", "TP-2")
def test_the_longest_keys(channel: Channel, unique: Any) -> None:
    exchange = unique("x")
    words = ".".join("a" * 127)
    queues = bound(channel, exchange, ["#", "." * 127, words, "#.b", "a.#.b.a"])
    assert matched(channel, exchange, queues, "." * 127) == {"#", "." * 127}
    assert matched(channel, exchange, queues, words) == {"#", words}
    assert matched(channel, exchange, queues, "b." * 127 + "b") == {"#", "#.b"}


@pytest.mark.differs_from_reference("its time grows exponentially with the number of hashes")
@pytest.mark.rule("TP-2")
def test_a_pattern_of_many_hashes_does_not_take_long(channel: Channel, unique: Any) -> None:
    exchange = unique("x")
    greedy, hashes = ".".join(["#", "a"] * 60), ".".join(["#"] * 120)
    queues = bound(channel, exchange, [greedy, hashes])
    assert matched(channel, exchange, queues, "." * 127) == {hashes}
    assert matched(channel, exchange, queues, ".".join("a" * 127)) == {greedy, hashes}
    assert matched(channel, exchange, queues, ".".join("a" * 126) + ".b") == {hashes}


@pytest.mark.rule("TP-2")
def test_unbinding_a_pattern_leaves_the_others(channel: Channel, unique: Any) -> None:
    exchange = unique("x")
    queues = bound(channel, exchange, ["a.#", "a.*", "a.b", "a.b.#"])
    for pattern in ("a.*", "a.b.#"):
        channel.queue_unbind(queues[pattern], exchange, pattern)
    assert matched(channel, exchange, queues, "a.b") == {"a.#", "a.b"}
    channel.queue_bind(queues["a.*"], exchange, "a.*")
    assert matched(channel, exchange, queues, "a.b") == {"a.#", "a.b", "a.*"}
