r"""Regular expressions as RabbitMQ's users write them, searched in names.

Owns their translation to Python's `re`. The reference uses PCRE on octets, so pattern and name are
octets (UTF-8) here too: `\w` is ASCII and `.` is one octet. The empty pattern matches nothing.

Translated: `\z`, `\Z`, `\h`, `\Q...\E`, `(?<name>`, POSIX classes such as `[[:alpha:]]`. Not
understood, and refused when set: recursion, callouts, `\R`, `\X`, `\K`, `\G`, verbs, `\x{...}`,
negated POSIX classes, inline flags after the beginning. The reference refuses none of these.

Cost: a backtracking search can take exponential time, and `re` cannot be interrupted. What is
searched has at most 255 octets, patterns are set by administrators and policy makers only, and a
pattern is limited to PATTERN_OCTETS_MAX; beyond that, `costly` recognises the usual shapes (an
unbounded repeat within an unbounded repeat, or more than three in a row), so that whoever sets one
is warned. It is advice, not a proof. The reference gives up after a number of steps and takes that
as no match.
"""

import re
import warnings
from typing import Final, final

# No list of names written by hand is longer; a limit for what the compiler of `re` is given.
PATTERN_OCTETS_MAX: Final = 8192

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
            with warnings.catch_warnings():
                # Python warns that `[[` or `&&` in a set may mean more one day; not so in PCRE.
                warnings.simplefilter("ignore", FutureWarning)
                self._search = re.compile(_translate(text).encode()).search
        except (re.error, OverflowError, RecursionError) as error:
            raise PatternError(text, str(error)) from error

    def found_in(self, octets: bytes) -> bool:
        return bool(self.text) and self._search(octets) is not None


def escape(text: str) -> str:
    """Return a pattern that stands for exactly this text."""
    return re.sub(r"[^\w\s]", lambda match: "\\" + match[0], text, flags=re.ASCII)


def costly(text: str) -> bool:
    """Whether a search may take very long: unbounded repeats nested, or many in a row."""
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
