"""Reading a configuration file: which notation it is in, and the one that is Warren's own, TOML.

The name's end decides: `.conf` has RabbitMQ's lines (`conf_line`), `.config` its terms
(`conf_classic`), `.toml` is TOML; without any of these the content does (spec rule O-2.1). In TOML
values are typed, and tables are joined to their keys with dots (`[log] level` is `log.level`).
Unreadable files and lines become problems.
"""

import re
import tomllib
from pathlib import Path
from typing import Final

from warren.server.conf_classic import looks_classic, read_classic
from warren.server.conf_line import looks_like_lines, read_lines
from warren.server.config_entry import Entry, Problem

# A configuration of a node is a page or two; a bigger file is a mistake (a device, a log).
FILE_OCTETS_MAX: Final = 1 << 20
_HEADER: Final = re.compile(r"\s*\[([^\[\]]+)\]\s*(#.*)?\Z")
_KEY: Final = re.compile(r"""\s*([\w."'\- ]+?)\s*=""")
_SUFFIXES: Final = (".conf", ".config", ".toml")


def read_file(path: Path, problems: list[Problem], *, suffix: str = "") -> list[Entry]:
    """Return the entries of a file in order; what cannot be read is added to `problems`.

    `suffix` is what a name without one is taken for.
    """
    path = _found(path)
    text = _text(path, problems)
    if text is None:
        return []
    kind = path.suffix if path.suffix in _SUFFIXES else suffix or _kind_of(text)
    readers = {".conf": read_lines, ".config": read_classic, ".toml": _read_toml}
    return readers[kind](path, text, problems)


def read_folder(path: Path, problems: list[Problem]) -> list[Entry]:
    """Return the entries of a folder's `*.conf`, in the order of their names; or of a pattern."""
    place, pattern = (path, "*.conf") if path.is_dir() else (path.parent, path.name)
    return [one for file in sorted(place.glob(pattern)) for one in read_file(file, problems)]


def _found(path: Path) -> Path:
    """RabbitMQ's users name the file without its suffix."""
    if path.suffix in _SUFFIXES or path.exists():
        return path
    named = (path.with_name(path.name + suffix) for suffix in _SUFFIXES[:2])
    return next((one for one in named if one.exists()), path)


def _kind_of(text: str) -> str:
    """Tell the notation of a text by what it looks like."""
    if looks_classic(text):
        return ".config"
    try:
        tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return ".conf" if looks_like_lines(text) else ".toml"
    return ".toml"


def _text(path: Path, problems: list[Problem]) -> str | None:
    try:
        with path.open("rb") as opened:
            raw = opened.read(FILE_OCTETS_MAX + 1)
    except OSError as failure:
        problems.append(Problem(str(path), "", f"cannot be read: {failure.strerror}", ""))
        return None
    if len(raw) > FILE_OCTETS_MAX:
        problems.append(Problem(str(path), "", f"is larger than {FILE_OCTETS_MAX} bytes", ""))
        return None
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as failure:
        line = raw.count(b"\n", 0, failure.start) + 1
        problems.append(Problem(f"{path}:{line}", "", "is not UTF-8 text", ""))
        return None


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
