"""The words of a command line: global options, the verb, its options and arguments, in any order.

What a verb takes is read off its usage line in `verbs`: `<name>` is needed, `[<name>]` may be left
out, `...` may come many times, `[--name <value>]` and `[--name]` are options, `|` separates forms.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from warren.cli.ctl.failure import Misuse

# Options of every verb; those with a value first. `--socket`, `--data-dir` and `--config` name a
# node by its files, which no node name can.
VALUED: Final = frozenset(
    {
        "node",
        "vhost",
        "timeout",
        "formatter",
        "file",
        "printer",
        "erlang-cookie",
        "script-name",
        "socket",
        "data-dir",
        "config",
    }
)
FLAGS: Final = frozenset(
    {"quiet", "silent", "longnames", "no-table-headers", "dry-run", "print-stacktrace", "help"}
)
ALIASES: Final = {
    "n": "node",
    "p": "vhost",
    "t": "timeout",
    "f": "formatter",
    "q": "quiet",
    "s": "silent",
    "l": "longnames",
    "?": "help",
    "h": "help",
}
# Options whose value is a number.
NUMBERS: Final = frozenset(
    {"priority", "limit", "per-connection-delay", "queue-timeout", "pid", "within", "iterations"}
)
_OPTION: Final = re.compile(r"--([a-z-]+)(?:\|-(\w))?( <[^>]*>)?")
_NUMBER: Final = re.compile(r"-?\d+(\.\d+)?\Z")


class Takes(NamedTuple):
    """What a verb takes."""

    least: int
    most: int
    valued: frozenset[str]
    flags: frozenset[str]
    aliases: Mapping[str, str]


class Words(NamedTuple):
    """A command line, taken apart."""

    verb: str
    arguments: list[str]
    options: dict[str, str]
    # What was not understood: option and value.
    unknown: list[tuple[str, str]]


def takes(usage: str) -> Takes:
    """Read a usage line."""
    options = _OPTION.findall(usage)
    rest = re.sub(r"\[--[^]]*\]", "", usage)
    counts = [_count(form) for form in rest.split(" | ")]
    return Takes(
        min(least for least, _ in counts),
        max(most for _, most in counts),
        frozenset(name for name, _, value in options if value),
        frozenset(name for name, _, value in options if not value),
        {short: name for name, short, _ in options if short},
    )


def _count(form: str) -> tuple[int, int]:
    words = re.findall(r"\[<[^>]*>(?: \.\.\.)?\]|\[\.\.\.\]|<[^>]*>|\S+", form)
    least = sum(not one.startswith("[") for one in words)
    many = any(one.endswith("...]") for one in words)
    return least, 1_000_000 if many else len(words)


def read(words: Sequence[str], usage_of: Mapping[str, str]) -> Words:
    """Take a command line apart; `usage_of` has the usage line of every verb."""
    verb = _verb(words, usage_of)
    own = takes(usage_of.get(verb, ""))
    arguments: list[str] = []
    options: dict[str, str] = {}
    unknown: list[tuple[str, str]] = []
    left = list(words)
    while left:
        word = left.pop(0)
        if word == "--":
            arguments += left
            break
        if not word.startswith("-") or word == "-" or _NUMBER.match(word):
            arguments.append(word)
            continue
        name, equals, value = word.lstrip("-").partition("=")
        if not word.startswith("--"):
            name = own.aliases.get(name) or ALIASES.get(name, name)
        name = name.replace("_", "-")
        if name in VALUED | own.valued:
            if not equals and left:
                equals, value = "=", left.pop(0)
            if not equals or not _is_fit(name, value):
                unknown.append((word.partition("=")[0], value))
            options[name] = value
        elif name in FLAGS | own.flags and not equals:
            options[name] = "true"
        else:
            unknown.append((word.partition("=")[0], value))
    return Words(verb, arguments[1:], options, unknown)


def _is_fit(name: str, value: str) -> bool:
    if name == "timeout":
        return value == "infinity" or re.fullmatch(r"\d+(\.\d+)?", value) is not None
    return name not in NUMBERS or re.fullmatch(r"-?\d+", value) is not None


def _verb(words: Sequence[str], usage_of: Mapping[str, str]) -> str:
    """Find the verb: the first word that is no option and no option's value."""
    skip = False
    for word in words:
        if skip:
            skip = False
        elif not word.startswith("-"):
            return word
        else:
            name = word.lstrip("-")
            skip = (name if word.startswith("--") else ALIASES.get(name, name)) in VALUED
    return ""


def check(words: Words, usage: str) -> None:
    """Refuse options that there are not, and too few or too many arguments."""
    if words.unknown:
        told = "\n".join(f"{option} : {value}" for option, value in words.unknown)
        raise Misuse(f"Invalid options for this command:\n{told}")
    own = takes(usage)
    if len(words.arguments) < own.least:
        raise Misuse("not enough arguments.")
    if len(words.arguments) > own.most:
        raise Misuse("too many arguments.")
