"""Searching with an automaton: the time grows with name times pattern, whatever the pattern is.

For patterns with which a backtracking search could take for ever. All ways to match are followed at
once, octet by octet, so nothing is tried twice; a search of a name of 255 octets takes at most
STATES_MAX steps for each of them, some milliseconds in the worst case.
"""

from typing import Final, final

from warren.security.pattern_tree import (
    WORD_MASK,
    Choice,
    NotUnderstoodError,
    Octet,
    Opaque,
    Place,
    Repeat,
    Row,
    Tree,
)

STATES_MAX: Final = 300

_LINE_FEED: Final = 10


@final
class Automaton:
    """States by number: each takes an octet, or a condition on the place, or leads on freely."""

    def __init__(self, tree: Tree) -> None:
        # What a state takes: a mask of octets, a kind of place, or nothing at all.
        self._takes: list[int | str | None] = []
        self._leads: list[list[int]] = []
        self._end = self._state(None)
        self._start = self._add(tree, self._end)

    def found_in(self, name: bytes) -> bool:
        """Whether some part of the name matches."""
        active: set[int] = set()
        for at in range(len(name) + 1):
            active.add(self._start)
            self._spread(active, name, at)
            if self._end in active:
                return True
            if at < len(name):
                active = self._step(active, name[at])
        return False

    def _step(self, active: set[int], octet: int) -> set[int]:
        following: set[int] = set()
        for state in active:
            takes = self._takes[state]
            if isinstance(takes, int) and takes >> octet & 1:
                following.update(self._leads[state])
        return following

    def _spread(self, active: set[int], name: bytes, at: int) -> None:
        """Go on from the states that take no octet."""
        left = list(active)
        while left:
            state = left.pop()
            takes = self._takes[state]
            if isinstance(takes, int) or (takes is not None and not _holds(takes, name, at)):
                continue
            for following in self._leads[state]:
                if following not in active:
                    active.add(following)
                    left.append(following)

    # -- making it -------------------------------------------------------------------------------

    def _state(self, takes: int | str | None, *leads: int) -> int:
        if len(self._takes) >= STATES_MAX:
            raise NotUnderstoodError
        self._takes.append(takes)
        self._leads.append(list(leads))
        return len(self._takes) - 1

    def _add(self, tree: Tree, following: int) -> int:
        """Add the states of a part that goes on with `following`; return its first one."""
        match tree:
            case Octet(mask=mask):
                return self._state(mask, following)
            case Place(kind=kind):
                return self._state(kind, following)
            case Row(parts=parts):
                for part in reversed(parts):
                    following = self._add(part, following)
                return following
            case Choice(parts=parts):
                return self._state(None, *[self._add(part, following) for part in parts])
            case Repeat():
                return self._add_repeat(tree, following)
            case Opaque():
                raise NotUnderstoodError

    def _add_repeat(self, tree: Repeat, following: int) -> int:
        if tree.most is None:
            loop = self._state(None, following)
            self._leads[loop].append(self._add(tree.part, loop))
            first = loop
        else:
            first = following
            for _ in range(tree.most - tree.least):
                first = self._state(None, following, self._add(tree.part, first))
        for _ in range(tree.least):
            first = self._add(tree.part, first)
        return first


def _holds(kind: str, name: bytes, at: int) -> bool:
    """Whether a place in a name is one of this kind."""
    if kind in ("^", "\\A"):
        return at == 0
    if kind == "\\Z":
        return at == len(name)
    if kind == "$":
        return at == len(name) or (at == len(name) - 1 and name[at] == _LINE_FEED)
    before = at > 0 and WORD_MASK >> name[at - 1] & 1
    after = at < len(name) and WORD_MASK >> name[at] & 1
    # A bound of a word; Python finds no `\B` in a name without octets.
    return (
        (bool(before) != bool(after))
        if kind == "\\b"
        else bool(name) and bool(before) == bool(after)
    )
