"""Reading a configuration file: TOML with Warren's keys, or RabbitMQ's `key = value` lines.

A name that ends in `.conf` is the line format (spec rule O-2.1): `#` comments, a later duplicate
wins, values may stand in single quotes. Everything else is TOML: typed values, tables are joined to
their keys with dots (`[log] level` is `log.level`). Unreadable files and lines become problems.
"""

import re
import tomllib
from pathlib import Path
from typing import Final

from warren.server.config_entry import Entry, Problem

# A configuration of a node is a page or two; a bigger file is a mistake (a device, a log).
FILE_OCTETS_MAX: Final = 1 << 20
_HEADER: Final = re.compile(r"\s*\[([^\[\]]+)\]\s*(#.*)?\Z")
_KEY: Final = re.compile(r"""\s*([\w."'\- ]+?)\s*=""")
_CONF_LINE: Final = re.compile(r"([^=\s]+)\s*=\s*(.*)\Z", re.DOTALL)
_QUOTED: Final = re.compile(r"'([^']*)'\s*(#.*)?\Z")
_COMMENT: Final = re.compile(r"(^|\s+)#.*\Z")


def read_file(path: Path, problems: list[Problem]) -> list[Entry]:
    """Return the entries of a file in order; what cannot be read is added to `problems`."""
    try:
        with path.open("rb") as opened:
            raw = opened.read(FILE_OCTETS_MAX + 1)
    except OSError as failure:
        problems.append(Problem(str(path), "", f"cannot be read: {failure.strerror}", ""))
        return []
    if len(raw) > FILE_OCTETS_MAX:
        problems.append(Problem(str(path), "", f"is larger than {FILE_OCTETS_MAX} bytes", ""))
        return []
    try:
        lines = raw.decode("utf-8-sig")
    except UnicodeDecodeError as failure:
        line = raw.count(b"\n", 0, failure.start) + 1
        problems.append(Problem(f"{path}:{line}", "", "is not UTF-8 text", ""))
        return []
    if path.suffix == ".conf":
        return _read_conf(path, lines, problems)
    return _read_toml(path, lines, problems)


def _read_conf(path: Path, text: str, problems: list[Problem]) -> list[Entry]:
    entries: dict[str, Entry] = {}
    folder = path.absolute().parent
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        match = _CONF_LINE.match(line)
        if match is None:
            problems.append(Problem(f"{path}:{number}", "", "expected `key = value`", ""))
            continue
        quoted = _QUOTED.match(match[2])
        value = quoted[1] if quoted else _COMMENT.sub("", match[2]).strip()
        entries.pop(match[1], None)
        entries[match[1]] = Entry(match[1], value, f"{path}:{number}", False, folder)
    return list(entries.values())


def _read_toml(path: Path, text: str, problems: list[Problem]) -> list[Entry]:
    try:
        tables: dict[str, object] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as failure:
        problems.append(Problem(str(path), "", str(failure), ""))
        return []
    except RecursionError:
        problems.append(Problem(str(path), "", "is nested too deep", ""))
        return []
    lines = _lines(text)
    folder = path.absolute().parent
    entries = []
    for name, value in _flat("", tables):
        line = lines.get(name)
        where = f"{path}:{line}" if line else str(path)
        entries.append(Entry(name, value, where, True, folder))
    return entries


def _flat(prefix: str, table: dict[str, object]) -> list[tuple[str, object]]:
    found: list[tuple[str, object]] = []
    for name, value in table.items():
        if isinstance(value, dict):
            found += _flat(f"{prefix}{name}.", value)
        else:
            found.append((prefix + name, value))
    return found


def _lines(text: str) -> dict[str, int]:
    """Map dotted keys to their lines, for messages: tomllib does not tell. First place wins."""
    found: dict[str, int] = {}
    prefix = ""
    for number, line in enumerate(text.splitlines(), start=1):
        header = _HEADER.match(line)
        if header is not None:
            prefix = _dotted(header[1]) + "."
            continue
        key = _KEY.match(line)
        if key is not None:
            found.setdefault(prefix + _dotted(key[1]), number)
    return found


def _dotted(written: str) -> str:
    return ".".join(part.strip().strip("\"'") for part in written.split("."))
