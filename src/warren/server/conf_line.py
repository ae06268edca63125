"""RabbitMQ's `rabbitmq.conf`: a `key = value` a line (spec rule O-2.1).

`#` begins a comment; a value in single quotes may have one inside; a later line wins over an
earlier one with the same key. Lines that are none become problems.
"""

import re
from typing import TYPE_CHECKING, Final

from warren.server.config_entry import Entry, Problem

if TYPE_CHECKING:
    from pathlib import Path

_LINE: Final = re.compile(r"([^=\s]+)\s*=\s*(.*)\Z", re.DOTALL)
_QUOTED: Final = re.compile(r"'([^']*)'\s*(#.*)?\Z")
_COMMENT: Final = re.compile(r"(^|\s+)#.*\Z")


def read_lines(path: "Path", text: str, problems: list[Problem]) -> list[Entry]:
    """Return the entries of a file, each key once, in the order of the lines that count."""
    entries: dict[str, Entry] = {}
    folder = path.absolute().parent
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        match = _LINE.match(line)
        if match is None:
            problems.append(Problem(f"{path}:{number}", "", "expected `key = value`", ""))
            continue
        quoted = _QUOTED.match(match[2])
        value = quoted[1] if quoted else _COMMENT.sub("", match[2]).strip()
        entries.pop(match[1], None)
        where = f"{path}:{number}"
        entries[match[1]] = Entry(match[1], value, where, False, folder, rabbit=True)
    return list(entries.values())


def looks_like_lines(text: str) -> bool:
    """Whether every line that says something is one of this notation."""
    lines = [line.strip() for line in text.splitlines()]
    said = [line for line in lines if line and not line.startswith("#")]
    return all(_LINE.match(line) for line in said)
