r"""Regular expressions as RabbitMQ's users write them, searched in names.

Owns their translation to Python's `re`. The reference uses PCRE on octets, so pattern and name are
octets (UTF-8) here too: `\w` is ASCII and `.` is one octet. The empty pattern matches nothing.

Translated: `\z`, `\Z`, `\h`, `\Q...\E`, `(?<name>`, POSIX classes such as `[[:alpha:]]`. Not
understood, and refused when set: recursion, callouts, `\R`, `\X`, `\K`, `\G`, verbs, `\x{...}`,
negated POSIX classes, inline flags after the beginning. The reference refuses none of these.

Cost: a backtracking search can take exponential time, and `re` cannot be interrupted. So `re` is
asked only where it need not try more than TRIES_MAX ways, which for nearly every pattern means
always; else the pattern is followed by an automaton, whose time grows with name times pattern. A
pattern that neither can search in bounded time is refused: one that repeats what is variable
itself and also looks around or refers back, or one that is very large. The reference gives up
after a number of steps instead, and takes that as no match.
"""

import re
import warnings
from typing import Final, final

from warren.security.automaton import Automaton
from warren.security.pattern_tree import HOPELESS, Cost, NotUnderstoodError, Tree, cost_of, parse

# No list of names written by hand is longer; a limit for what the compiler of `re` is given.
PATTERN_OCTETS_MAX: Final = 8192
# Names of queues, exchanges and the like, and routing keys.
NAME_OCTETS_MAX: Final = 255
# About ten milliseconds of `re` in the worst case.
TRIES_MAX: Final = 1 << 20
# The same for patterns that only `re` can search: names that come near are of the longest.
TRIES_MAX_ALONE: Final = 1 << 24

_UNBOUNDED_IN_A_ROW_MAX: Final = 3

_POSIX: Final[dict[str, str]] = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7f",
    "blank": r" \t",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": r"\x21-\x7e",
    "lower": "a-z",
    "print": r"\x20-\x7e",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\s",
    "upper": "A-Z",
    "word": r"\w",
    "xdigit": "0-9A-Fa-f",
}
_ESCAPES: Final[dict[str, str]] = {r"\z": r"\Z", r"\Z": r"(?=\n?\Z)", r"\h": r"[ \t]"}
_TOKEN: Final = re.compile(
    r"\\Q(?P<quoted>.*?)(?:\\E|\Z)"
    r"|(?P<escape>\\.)"
    r"|\(\?<(?P<name>[A-Za-z_]\w*)>"
    r"|(?P<set>\[\^?\]?(?:\[:\^?[a-z]+:\]|\\.|[^\]\\])*(?:\]|\Z))",
    re.DOTALL,
)
_POSIX_CLASS: Final = re.compile(r"\\.|\[:(\^?[a-z]+):\]", re.DOTALL)
# Escapes, sets and possessive repeats are stepped over; only what has a mark counts.
_STRUCTURE: Final = re.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*(?:\]|\Z)|[*+?}]\+|(?P<mark>[*+]|\{\d+,\}(?!\+)|[()|])", re.DOTALL
)
_UNBOUNDED: Final = re.compile(r"(?:[*+]|\{\d+,\})(?!\+)")


class PatternError(Exception):
    """The pattern is not a regular expression, or one that is not understood here."""

    def __init__(self, pattern: str, detail: str) -> None:
        super().__init__(f"invalid regular expression '{pattern}': {detail}")
        self.pattern = pattern
        self.detail = detail


@final
class Pattern:
    """One compiled pattern; raises `PatternError` when it cannot be one."""

    def __init__(self, text: str) -> None:
        if len(text.encode()) > PATTERN_OCTETS_MAX:
            raise PatternError(text[:40] + "...", f"longer than {PATTERN_OCTETS_MAX} octets")
        self.text = text
        try:
            translated = _translate(text).encode()
            with warnings.catch_warnings():
                # Python warns that `[[` or `&&` in a set may mean more one day; not so in PCRE.
                warnings.simplefilter("ignore", FutureWarning)
                self._search = re.compile(translated).search
        except (re.error, OverflowError, RecursionError) as error:
            raise PatternError(text, str(error)) from error
        cost, tree = _taken_apart(text, translated)
        # The longest name that `re` searches.
        self._octets_max = _octets_max(cost)
        self._automaton: Automaton | None = None
        if self._octets_max < NAME_OCTETS_MAX:
            self._automaton = _automaton(tree)
            if self._automaton is None and cost.tries(NAME_OCTETS_MAX) > TRIES_MAX_ALONE:
                raise PatternError(text, "a search for it could take too long")

    def found_in(self, octets: bytes) -> bool:
        if not self.text:
            return False
        if len(octets) > self._octets_max and self._automaton is not None:
            return self._automaton.found_in(octets)
        return self._search(octets) is not None


def _taken_apart(text: str, translated: bytes) -> tuple[Cost, Tree | None]:
    try:
        tree = parse(translated)
    except NotUnderstoodError:
        return Cost(HOPELESS if costly(text) else 1), None
    return cost_of(tree), tree


def _octets_max(cost: Cost) -> int:
    if cost.tries(NAME_OCTETS_MAX) <= TRIES_MAX:
        return NAME_OCTETS_MAX
    return next(octets for octets in range(NAME_OCTETS_MAX) if cost.tries(octets + 1) > TRIES_MAX)


def _automaton(tree: Tree | None) -> Automaton | None:
    try:
        return None if tree is None else Automaton(tree)
    except NotUnderstoodError:
        return None


def escape(text: str) -> str:
    """Return a pattern that stands for exactly this text."""
    return re.sub(r"[^\w\s]", lambda match: "\\" + match[0], text, flags=re.ASCII)


def costly(text: str) -> bool:
    """Whether a search may take very long: unbounded repeats nested, or many in a row.

    A look at the surface, for patterns that cannot be taken apart.
    """
    # Per open group: unbounded repeats in the branch at hand, and the most in an earlier branch.
    here, most = [0], [0]
    for match in _STRUCTURE.finditer(text):
        mark = match["mark"]
        if mark is None:
            continue
        if mark == "(":
            here.append(0)
            most.append(0)
        elif mark == "|":
            most[-1] = max(most[-1], here[-1])
            here[-1] = 0
        elif mark == ")":
            if len(here) == 1:
                return False
            closed = max(most.pop(), here.pop())
            if closed and _UNBOUNDED.match(text, match.end()):
                return True
            here[-1] += closed
        else:
            here[-1] += 1
        if here[-1] > _UNBOUNDED_IN_A_ROW_MAX:
            return True
    return False


def _translate(text: str) -> str:
    return _TOKEN.sub(_translate_token, text)


def _translate_token(match: re.Match[str]) -> str:
    if match["quoted"] is not None:
        return escape(match["quoted"])
    if match["name"] is not None:
        return f"(?P<{match['name']}>"
    if match["set"] is not None:
        return _POSIX_CLASS.sub(_translate_class, match["set"])
    return _ESCAPES.get(match["escape"], match["escape"])


def _translate_class(match: re.Match[str]) -> str:
    name = match[1]
    if name is None:
        return match[0]
    if name not in _POSIX:
        raise re.error(f"the class [:{name}:] is not supported")
    return _POSIX[name]
