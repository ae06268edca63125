"""A reader of Erlang terms as they stand in configuration files (spec rule O-2.4).

Lists, tuples, atoms (plain and quoted), strings, binaries, whole and fractional numbers; `%` begins
a comment, a dot ends a term. Nothing else of the language: no maps, no functions, no variables.
A term knows its line. Two liberties that documents need: a line that begins with `#` is a comment,
and the dot behind a single tuple at the end of the file may be missing.

Bounded: terms in terms at most DEPTH_MAX deep; the caller bounds the text.
"""

import re
from bisect import bisect_left
from dataclasses import dataclass
from typing import Final, NoReturn

DEPTH_MAX: Final = 64
_SPACE: Final = re.compile(r"(?:\s+|%[^\n]*|(?<![^\n])#(?!\{)[^\n]*)+")
_ATOM: Final = re.compile(r"[a-z][A-Za-z0-9_@]*")
_FLOAT: Final = re.compile(r"[+-]?[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?")
_BASED: Final = re.compile(r"([+-]?)([0-9]{1,2})#([0-9A-Za-z]+)")
_INTEGER: Final = re.compile(r"[+-]?[0-9]+(?:_[0-9]+)*")
_QUOTED: Final = {
    quote: re.compile(rf"{quote}((?:[^{quote}\\]|\\.)*){quote}", re.DOTALL) for quote in "\"'"
}
_ESCAPE: Final = re.compile(r"\\(x\{[0-9A-Fa-f]+\}|x[0-9A-Fa-f]{2}|[0-7]{1,3}|\^.|.)", re.DOTALL)
_LETTERS: Final = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "s": " ",
    "e": "\x1b",
    "b": "\b",
    "f": "\f",
    "v": "\v",
    "d": "\x7f",
}
_TYPE: Final = re.compile(r"/[a-z0-9\-]+")


class Atom(str):
    """A word of the language: `true`, `infinity`, `'PLAIN'`."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Tuple:
    items: tuple["Term", ...]
    line: int


@dataclass(frozen=True, slots=True)
class List:
    items: tuple["Term", ...]
    line: int


# A string is str, a binary bytes.
Term = Atom | str | bytes | int | float | Tuple | List


class TermError(Exception):
    """The text is no term; `line` is where that shows."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line
        self.reason = reason


def read_terms(text: str) -> list[Term]:
    """Return the terms of a file."""
    reader = _Reader(text)
    found: list[Term] = []
    while reader.skip():
        term = reader.term(0)
        more = reader.skip()
        if reader.take("."):
            if (reader.peek() or " ") not in " \t\r\n%":
                reader.fail("expected white space behind the dot")
        elif more or not isinstance(term, Tuple):
            reader.fail("expected the closing dot")
        found.append(term)
    return found


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.place = 0
        self.ends = [found.start() for found in re.finditer("\n", text)]

    def fail(self, reason: str) -> NoReturn:
        raise TermError(self.line(), reason)

    def line(self) -> int:
        return bisect_left(self.ends, self.place) + 1

    def peek(self) -> str:
        return self.text[self.place : self.place + 1]

    def skip(self) -> bool:
        """Go past blanks and comments; return whether there is more."""
        found = _SPACE.match(self.text, self.place)
        if found is not None:
            self.place = found.end()
        return self.place < len(self.text)

    def take(self, word: str) -> bool:
        if not self.text.startswith(word, self.place):
            return False
        self.place += len(word)
        return True

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self.text, self.place)
        if found is not None:
            self.place = found.end()
        return found

    def term(self, depth: int) -> Term:
        if depth > DEPTH_MAX:
            self.fail("terms are nested too deep")
        line = self.line()
        if self.take("{"):
            return Tuple(self.items("}", depth), line)
        if self.take("["):
            return List(self.items("]", depth), line)
        if self.take("<<"):
            return self.binary()
        number = self.number()
        return self.word() if number is None else number

    def items(self, end: str, depth: int) -> tuple[Term, ...]:
        """Read what is between brackets, of which the first is behind us."""
        found: list[Term] = []
        if not self.skip():
            self.fail(f"the file ends before {end}")
        if self.take(end):
            return ()
        while True:
            found.append(self.term(depth + 1))
            if not self.skip():
                self.fail(f"the file ends before {end}")
            if self.take(end):
                return tuple(found)
            if not self.take(","):
                self.fail(f"expected , or {end}, got {self.peek()!r}")
            if not self.skip():
                self.fail(f"the file ends before {end}")

    def number(self) -> int | float | None:
        found = self.match(_FLOAT)
        if found is not None:
            return float(found[0])
        found = self.match(_BASED)
        if found is not None:
            try:
                return int(found[1] + found[3], int(found[2]))
            except ValueError:
                self.fail(f"{found[0]} is no number")
        found = self.match(_INTEGER)
        return None if found is None else int(found[0].replace("_", ""))

    def word(self) -> Term:
        start = self.peek()
        if start == '"':
            return self.string()
        if start == "'":
            return Atom(self.quoted("'"))
        found = self.match(_ATOM)
        if found is not None:
            return Atom(found[0])
        reason = f"expected a term, got {start!r}" if start else "the file ends too early"
        return self.fail("maps and records are not read here" if start == "#" else reason)

    def string(self) -> str:
        """Read a string; several in a row are one."""
        parts = []
        while self.peek() == '"':
            parts.append(self.quoted('"'))
            place = self.place
            self.skip()
            if self.peek() != '"':
                self.place = place
                break
        return "".join(parts)

    def quoted(self, quote: str) -> str:
        found = self.match(_QUOTED[quote])
        if found is None:
            self.fail(f"a {quote} is not closed")
        return _ESCAPE.sub(_unescaped, found[1])

    def binary(self) -> bytes:
        self.skip()
        if self.take(">>"):
            return b""
        found = b""
        while True:
            if self.peek() == '"':
                found += self.quoted('"').encode()
                self.match(_TYPE)
            else:
                octet = self.match(_INTEGER)
                if octet is None or not 0 <= int(octet[0]) <= 255:
                    self.fail("expected text or octets in <<>>")
                found += bytes((int(octet[0]),))
            self.skip()
            if self.take(">>"):
                return found
            if not self.take(","):
                self.fail("a << is not closed")
            self.skip()


def _unescaped(found: re.Match[str]) -> str:
    word = found[1]
    if word[0] == "x" and len(word) > 1:
        code = int(word.strip("x{}"), 16)
        return chr(code) if code < 0x110000 else "\ufffd"
    if word[0] in "01234567":
        return chr(int(word, 8))
    if word[0] == "^":
        return chr(ord(word[1]) & 0x1F)
    return _LETTERS.get(word, word)
