"""Finding the policies whose pattern may be found in a name, without searching with all of them.

A pattern that cannot match without some literal text of three octets or more is filed under one
run of three octets (a *gram*) of that text, the one least used so far; a name is then looked up by
its own grams. Patterns without such a text (`.*`, `a|b`) are tried for every name, in order.
A name of 20 octets among 1,000 policies such as `^tenant-17\\.` costs a few searches, not 1,000.

Invariant: an entry is in exactly one place, under one gram or among the loose ones; these are in
order.
"""

import re
from bisect import insort
from collections.abc import Iterator
from operator import attrgetter
from typing import Final, final

from warren.security.pattern import Pattern, PatternError
from warren.vhost.policy import Policy
from warren.vhost.policy_key import refused_types

GRAM: Final = 3

_ORDER: Final = attrgetter("order")

# What stands in a pattern, one thing at a time: quoted text, an escape, a set, a repeat, anything.
_PART: Final = re.compile(
    rb"(?P<quoted>\\Q.*?(?:\\E|\Z))"
    rb"|\\(?P<escaped>.)"
    rb"|(?P<set>\[\^?\]?(?:\[:\^?[a-z]+:\]|\\.|[^\]\\])*(?:\]|\Z))"
    rb"|(?P<repeat>[*+?]|\{[0-9]*,?[0-9]*\})"
    rb"|(?P<other>.)",
    re.DOTALL,
)
_MEANING: Final = frozenset(b".^$")
# Escapes that are over after one letter. Others, as `\x41`, would have to be read on.
_SHORT_ESCAPES: Final = frozenset(b"dDwWsSbBAzZhnrtfva")


def literals(pattern: str) -> list[bytes]:
    """Return texts that every name in which the pattern is found contains; perhaps none.

    Careful rather than clever: only what stands outside of groups counts, and nothing does in a
    pattern with flags or comments, with a choice outside of groups, or with an escape that is not
    known.
    """
    if pattern.startswith("(?") or "(?#" in pattern:
        return []
    runs: list[bytes] = [b""]
    depth = 0
    for part in _PART.finditer(pattern.encode()):
        octet = part["other"]
        if octet == b"(":
            depth += 1
        elif octet == b")":
            depth -= 1
        elif depth > 0:
            continue
        elif octet == b"|":
            return []
        elif part["repeat"] is not None:
            # What is repeated may not be there at all.
            runs[-1] = runs[-1][:-1]
        elif part["escaped"] is not None and part["escaped"].isalnum():
            if part["escaped"][0] not in _SHORT_ESCAPES:
                return []
        else:
            plain = part["escaped"] or octet
            if plain is not None and (part["escaped"] or plain[0] not in _MEANING):
                runs[-1] += plain
                continue
        runs.append(b"")
    return [run for run in runs if len(run) >= GRAM]


@final
class Entry:
    """A policy ready to be matched."""

    __slots__ = ("everywhere", "order", "pattern", "policy", "refused_types")

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.order = policy.order()
        # The empty pattern is found everywhere, unlike in permissions.
        self.everywhere = not policy.pattern
        self.pattern = _compiled(policy.pattern)
        self.refused_types = refused_types(policy.definition)

    def matches(self, name: bytes, queue_type: str) -> bool:
        """Whether it applies to what has this name; exchanges have no queue type."""
        if queue_type in self.refused_types:
            return False
        return self.everywhere or (self.pattern is not None and self.pattern.found_in(name))


def _compiled(pattern: str) -> Pattern | None:
    """Patterns are checked when they are set; a stored one of another version may be none here."""
    try:
        return Pattern(pattern)
    except PatternError:
        return None


@final
class PolicyIndex:
    """Entries by what their patterns need; see above."""

    def __init__(self) -> None:
        self._by_gram: dict[bytes, list[Entry]] = {}
        # Where each entry is filed; not in here means loose.
        self._gram_of: dict[Entry, bytes] = {}
        self._loose: list[Entry] = []

    def add(self, entry: Entry) -> None:
        grams = {gram for run in literals(entry.policy.pattern) for gram in _grams(run)}
        if not grams:
            insort(self._loose, entry, key=_ORDER)
            return
        gram = min(grams, key=lambda one: (len(self._by_gram.get(one, ())), one))
        self._by_gram.setdefault(gram, []).append(entry)
        self._gram_of[entry] = gram

    def remove(self, entry: Entry) -> None:
        gram = self._gram_of.pop(entry, None)
        if gram is None:
            self._loose.remove(entry)
            return
        filed = self._by_gram[gram]
        filed.remove(entry)
        if not filed:
            del self._by_gram[gram]

    def first(self, name: str, queue_type: str) -> Policy | None:
        """Return the one that comes first of those that apply (PO-2)."""
        octets = name.encode()
        best: Entry | None = None
        for entry in self._filed(octets):
            if (best is None or entry.order < best.order) and entry.matches(octets, queue_type):
                best = entry
        for entry in self._loose:
            if best is not None and best.order < entry.order:
                break
            if entry.matches(octets, queue_type):
                best = entry
                break
        return None if best is None else best.policy

    def every(self, name: str, queue_type: str) -> list[Policy]:
        """Return all that apply, in order."""
        octets = name.encode()
        found = [one for one in self._filed(octets) if one.matches(octets, queue_type)]
        found += [one for one in self._loose if one.matches(octets, queue_type)]
        found.sort(key=_ORDER)
        return [one.policy for one in found]

    def _filed(self, octets: bytes) -> Iterator[Entry]:
        if self._by_gram:
            for gram in _grams(octets):
                yield from self._by_gram.get(gram, ())


def _grams(octets: bytes) -> set[bytes]:
    return {octets[start : start + GRAM] for start in range(len(octets) - GRAM + 1)}
