"""A regular expression taken apart: a tree of what it is made of, and how costly a search may be.

Reads what Python's `re` reads on octets, after `re` has accepted it; that alone makes it valid. The
tree has what decides whether something matches, nothing of which part matches what: greed, groups
and their names are gone. What an automaton cannot do (looking around, references back, parts that
are not tried again) stays as `Opaque`, for the reckoning of the cost only.

`cost_of` bounds how many ways of matching a backtracking search may have to try in a name of so
many octets. It is exact or too high, never too low.
"""

from dataclasses import dataclass
from typing import Final, final

# More than anybody waits for.
HOPELESS: Final = 1 << 62
# Groups within groups; deeper ones are not taken apart.
_DEPTH_MAX: Final = 50

ALL_OCTETS: Final = (1 << 256) - 1


class NotUnderstoodError(Exception):
    """Something that is not taken apart here, though `re` may know it."""


@dataclass(frozen=True, slots=True)
class Octet:
    """One octet out of a set, bit by bit."""

    mask: int


@dataclass(frozen=True, slots=True)
class Place:
    """A condition on a place in the name: `^`, `$`, `\\A`, `\\Z`, `\\b`, `\\B`."""

    kind: str


@dataclass(frozen=True, slots=True)
class Row:
    """One after the other."""

    parts: tuple["Tree", ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several."""

    parts: tuple["Tree", ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """The same again and again; without end if `most` is None."""

    part: "Tree"
    least: int
    most: int | None


@dataclass(frozen=True, slots=True)
class Opaque:
    """Something that an automaton cannot do, made of this."""

    part: "Tree"


Tree = Octet | Place | Row | Choice | Repeat | Opaque

NOTHING: Final = Row(())


@dataclass(frozen=True, slots=True)
class Cost:
    """Ways to try: `factor`, times the octets of the name to the power of `degree`."""

    factor: int
    degree: int = 0

    def tries(self, octets: int) -> int:
        """The ways to try in a name of so many octets."""
        power: int = (octets + 1) ** self.degree
        return min(self.factor * power, HOPELESS)


_ONCE: Final = Cost(1)


def cost_of(tree: Tree) -> Cost:
    """Bound the cost of a search, wherever in the name it begins."""
    rows = tree.parts if isinstance(tree, Choice) else (tree,)
    costs = [_row_cost(row) for row in rows]
    anchored = all(_is_anchored(row) for row in rows)
    degree = max(cost.degree for cost in costs)
    return Cost(sum(cost.factor for cost in costs), degree if anchored else degree + 1)


def _row_cost(row: Tree) -> Cost:
    """The same for one row of the whole; a plain repeat at its end cannot fail."""
    parts = row.parts if isinstance(row, Row) else (row,)
    if parts:
        last = parts[-1]
        if isinstance(last, Repeat) and last.least == 0 and _has_one_length(last.part):
            return _cost(Row(parts[:-1]))
    return _cost(row)


def _is_anchored(row: Tree) -> bool:
    if isinstance(row, Row) and row.parts:
        row = row.parts[0]
    return isinstance(row, Place) and row.kind in ("^", "\\A")


def _cost(tree: Tree) -> Cost:
    match tree:
        case Octet() | Place():
            return _ONCE
        case Row(parts=parts):
            factor, degree = 1, 0
            for cost in map(_cost, parts):
                factor, degree = min(factor * cost.factor, HOPELESS), degree + cost.degree
            return Cost(factor, degree)
        case Choice(parts=parts):
            costs = [_cost(part) for part in parts]
            return Cost(sum(cost.factor for cost in costs), max(cost.degree for cost in costs))
        case Opaque(part=part):
            return _cost(part)
        case Repeat():
            return _repeat_cost(tree)


def _repeat_cost(tree: Repeat) -> Cost:
    inner = _cost(tree.part)
    if tree.most == 1:
        return Cost(inner.factor + 1, inner.degree) if tree.least == 0 else inner
    if not _has_one_length(tree.part):
        # What is repeated may be cut into turns in many ways, and each of them be matched in many.
        return Cost(HOPELESS)
    return Cost(1, 1) if tree.most is None else Cost(tree.most - tree.least + 1)


def _has_one_length(tree: Tree) -> bool:
    """Whether a part can match in one way only, and is not empty."""
    parts = tree.parts if isinstance(tree, Row) else (tree,)
    return bool(parts) and all(isinstance(part, Octet) for part in parts)


def parse(pattern: bytes) -> Tree:
    """Take a pattern apart; `NotUnderstoodError` if there is something in it that is not."""
    return _Parser(pattern).parse()


def _mask(octets: bytes) -> int:
    found = 0
    for octet in octets:
        found |= 1 << octet
    return found


_DIGITS: Final = b"0123456789"
_LOWER: Final = b"abcdefghijklmnopqrstuvwxyz"
_WORD: Final = _DIGITS + _LOWER + _LOWER.upper() + b"_"
_CLASSES: Final = {
    b"d": _mask(_DIGITS),
    b"w": _mask(_WORD),
    b"s": _mask(b" \t\n\r\f\v"),
}
_CONTROLS: Final = {b"n": 10, b"r": 13, b"t": 9, b"f": 12, b"v": 11, b"a": 7}
WORD_MASK: Final = _CLASSES[b"w"]


@final
class _Parser:
    def __init__(self, pattern: bytes) -> None:
        self.pattern = pattern
        self.at = 0
        self.depth = 0
        self.any_octet = ALL_OCTETS & ~(1 << 10)
        self.folds = False

    def parse(self) -> Tree:
        self._global_flags()
        tree = self._choice()
        if self.at < len(self.pattern):
            raise NotUnderstoodError
        return tree

    def _take(self, count: int = 1) -> bytes:
        taken = self.pattern[self.at : self.at + count]
        self.at += count
        return taken

    def _ahead(self, text: bytes) -> bool:
        return self.pattern.startswith(text, self.at)

    def _skip(self, text: bytes) -> bool:
        if not self._ahead(text):
            return False
        self.at += len(text)
        return True

    def _global_flags(self) -> None:
        end = self.pattern.find(b")")
        flags = self.pattern[2:end]
        if not self.pattern.startswith(b"(?") or not flags.isalpha():
            return
        if flags.strip(b"ais"):
            raise NotUnderstoodError
        self.at = end + 1
        self.folds = b"i" in flags
        if b"s" in flags:
            self.any_octet = ALL_OCTETS

    # -- rows and choices ------------------------------------------------------------------------

    def _choice(self) -> Tree:
        self.depth += 1
        if self.depth > _DEPTH_MAX:
            raise NotUnderstoodError
        rows = [self._row()]
        while self._skip(b"|"):
            rows.append(self._row())
        self.depth -= 1
        return rows[0] if len(rows) == 1 else Choice(tuple(rows))

    def _row(self) -> Tree:
        parts: list[Tree] = []
        while self.at < len(self.pattern) and not self._ahead(b"|") and not self._ahead(b")"):
            parts.append(self._repeats(self._one()))
        return parts[0] if len(parts) == 1 else Row(tuple(parts))

    def _repeats(self, part: Tree) -> Tree:
        while True:
            bounds = self._bounds()
            if bounds is None:
                return part
            part = Repeat(part, *bounds)
            if self._skip(b"+"):
                part = Opaque(part)
            else:
                self._skip(b"?")

    def _bounds(self) -> tuple[int, int | None] | None:
        for text, bounds in ((b"*", (0, None)), (b"+", (1, None)), (b"?", (0, 1))):
            if self._skip(text):
                return bounds
        if not self._ahead(b"{"):
            return None
        end = self.pattern.find(b"}", self.at)
        least, comma, most = self.pattern[self.at + 1 : end].partition(b",")
        if end < 0 or (least + most).strip(_DIGITS) or not (least + comma):
            return None  # Then it is a brace and nothing else.
        self.at = end + 1
        fewest = int(least or b"0")
        return fewest, (int(most) if most else None) if comma else fewest

    # -- single things ---------------------------------------------------------------------------

    def _one(self) -> Tree:
        if self._skip(b"("):
            return self._group()
        if self._skip(b"["):
            return Octet(self._set())
        if self._skip(b"\\"):
            return self._escape()
        octet = self._take()
        if octet == b".":
            return Octet(self.any_octet)
        if octet in (b"^", b"$"):
            return Place(octet.decode())
        return Octet(self._folded(_mask(octet)))

    def _folded(self, mask: int) -> int:
        if self.folds:
            for lower in _LOWER:
                both = 1 << lower | 1 << lower - 32
                if mask & both:
                    mask |= both
        return mask

    def _group(self) -> Tree:
        if self._skip(b"?P="):
            self.at = self.pattern.index(b")", self.at) + 1
            return Opaque(NOTHING)
        opaque = False
        if self._ahead(b"?"):
            if self._skip(b"?P<"):
                self.at = self.pattern.index(b">", self.at) + 1
            elif not self._skip(b"?:"):
                opaque = any(self._skip(text) for text in (b"?=", b"?!", b"?<=", b"?<!", b"?>"))
                if not opaque:
                    raise NotUnderstoodError
        inner = self._choice()
        if not self._skip(b")"):
            raise NotUnderstoodError
        return Opaque(inner) if opaque else inner

    def _escape(self) -> Tree:
        octet = self._take()
        if octet in (b"A", b"Z", b"b", b"B"):
            return Place("\\" + octet.decode())
        if octet in _DIGITS and octet != b"0":
            # A reference, or an octal number of three digits; too rare to tell apart.
            raise NotUnderstoodError
        found = self._class_or_code(octet)
        return Octet(found if octet.lower() in _CLASSES else self._folded(found))

    def _class_or_code(self, octet: bytes) -> int:
        if octet in _CLASSES:
            return _CLASSES[octet]
        if octet.lower() in _CLASSES:
            return ALL_OCTETS & ~_CLASSES[octet.lower()]
        if octet in _CONTROLS:
            return 1 << _CONTROLS[octet]
        if octet == b"x":
            return 1 << int(self._take(2), 16)
        if octet.isalnum():
            raise NotUnderstoodError
        return _mask(octet)

    def _set(self) -> int:
        negated = self._skip(b"^")
        found = 0
        first = True
        while first or not self._ahead(b"]"):
            first = False
            low = self._member()
            if self._ahead(b"-") and not self._ahead(b"-]") and low.bit_count() == 1:
                self._take()
                high = self._member().bit_length()
                low = (1 << high) - (1 << low.bit_length() - 1)
            found |= low
        self._take()
        found = self._folded(found)
        return ALL_OCTETS & ~found if negated else found

    def _member(self) -> int:
        if self.at >= len(self.pattern):
            raise NotUnderstoodError
        octet = self._take()
        if octet != b"\\":
            return _mask(octet)
        octet = self._take()
        if octet == b"b":
            return 1 << 8
        if octet in _DIGITS:
            raise NotUnderstoodError
        return self._class_or_code(octet)
