"""Looking at a metadata file without starting a node, and saving what can be read of a damaged one.

`examine` finds everything that is wrong; `repair` writes a new file beside the old one from what is
readable, leaves out what refers to nothing, and only then puts it in the old one's place. The old
file is kept under another name, with its log. Both work on a file of this version only.

A table is read from both ends of its key: a page that cannot be read hides the rows on it, and
those before and behind it are found all the same.
"""

import os
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, cast, final

from warren.server.metadata_batch import Batch
from warren.server.metadata_file import (
    MetadataError,
    checked_change,
    connect,
    create_file,
    row_label,
    sync_folder,
    version_of,
)
from warren.server.metadata_table import (
    EXCHANGE,
    QUEUE,
    TABLES,
    USER,
    VERSION,
    VHOST,
    Row,
    Table,
    schema,
)
from warren.vhost.change import (
    BindingPut,
    Change,
    CursorPut,
    ExchangePut,
    PermissionPut,
    QueuePut,
    TopicPermissionPut,
    UserLimitsPut,
    UserPut,
    VHostPut,
)

# Exchanges that every vhost has and no file needs to name.
_PREDECLARED: Final = "amq."
# What is told of one kind of problem; the rest is counted.
TOLD_MAX: Final = 20


@dataclass(slots=True)
class Examination:
    """What a file holds and what is wrong with it; no problems: it is sound."""

    counts: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    # What can be kept, in order.
    changes: list[Change] = field(default_factory=list)


def examine(path: Path) -> Examination:
    """Look at everything in a file; `MetadataError` when it is none that can be looked at."""
    found = Examination()
    try:
        with closing(connect(path, writing=False)) as opened:
            version = version_of(opened)
            if version != VERSION:
                raise MetadataError(path, *_unfit(version))
            _examine_structure(opened, found)
            for table in TABLES:
                _examine_table(opened, table, found)
    except sqlite3.Error as failure:
        raise MetadataError(
            path,
            f"nothing in it can be read: {failure}",
            "move it away to start with a blank node, and import definitions if you have them",
        ) from None
    _examine_references(found)
    return found


def _unfit(version: int | None) -> tuple[str, str]:
    if version is None:
        return "is not a metadata file of Warren", "name another data_dir"
    if version == 0:
        return "is empty", "put a copy back; without the file the node begins blank"
    return f"has format {version}, this Warren knows {VERSION}", "use the Warren that wrote it"


def _examine_structure(opened: sqlite3.Connection, found: Examination) -> None:
    try:
        rows = opened.execute(f"PRAGMA integrity_check({TOLD_MAX})").fetchall()
    except sqlite3.Error as failure:
        found.problems.append(f"structure: {failure}")
        return
    found.problems += [f"structure: {text}" for (text,) in rows if text != "ok"]


def _examine_table(opened: sqlite3.Connection, table: Table, found: Examination) -> None:
    reading = _Reading(opened, table)
    bad = []
    for row in reading.rows():
        try:
            found.changes.append(checked_change(table, row))
        except ValueError as failure:
            bad.append(str(failure))
    found.counts[table.name] = len(reading.keys) - len(bad)
    found.problems += [*bad[:TOLD_MAX], *_more(len(bad) - TOLD_MAX), *reading.problems]


def _more(count: int) -> list[str]:
    return [f"and {count} more of this kind"] if count > 0 else []


@final
class _Reading:
    """One table, read forwards and, if that fails, backwards."""

    def __init__(self, opened: sqlite3.Connection, table: Table) -> None:
        self.opened = opened
        self.table = table
        self.keys: set[Row] = set()
        self.problems: list[str] = []

    def rows(self) -> Iterable[Row]:
        forwards, failure = self._read("ASC")
        if failure is None:
            return forwards
        backwards, _ = self._read("DESC")
        last = f"behind {row_label(self.table, forwards[-1])}" if forwards else "from its beginning"
        first = f"before {row_label(self.table, backwards[-1])}" if backwards else "to its end"
        self.problems.append(
            f"table {self.table.name}: rows {last} and {first} cannot be read: {failure}"
        )
        return [*forwards, *reversed(backwards)]

    def _read(self, direction: str) -> tuple[list[Row], sqlite3.Error | None]:
        table = self.table
        columns = ", ".join((*table.columns, "crc"))
        order = ", ".join(f"{column} {direction}" for column in table.key_columns)
        rows: list[Row] = []
        try:
            for row in self.opened.execute(f"SELECT {columns} FROM {table.name} ORDER BY {order}"):
                key = row[: len(table.key)]
                # What the other direction has reached already is where both have met.
                if key in self.keys:
                    break
                self.keys.add(key)
                rows.append(row)
        except sqlite3.Error as failure:
            return rows, failure
        return rows, None


def _examine_references(found: Examination) -> None:
    """Find what refers to something that is not there; it is not kept."""
    there: dict[Table, set[tuple[str, ...]]] = {VHOST: set(), USER: set(), EXCHANGE: set()}
    there[QUEUE] = set()
    for change in found.changes:
        match change:
            case VHostPut(name=name):
                there[VHOST].add((name,))
            case UserPut(name=name):
                there[USER].add((name,))
            case ExchangePut(vhost=vhost, name=name):
                there[EXCHANGE].add((vhost, name))
            case QueuePut(vhost=vhost, name=name):
                there[QUEUE].add((vhost, name))
    kept, lost = [], []
    for change in found.changes:
        missing = [
            f"{table.name} {' '.join(map(repr, key))}"
            for table, key in _needed(change)
            if key not in there[table]
        ]
        if missing:
            lost.append(f"{_label(change)} refers to {missing[0]}, which is not there")
        else:
            kept.append(change)
    found.changes = kept
    found.problems += [*lost[:TOLD_MAX], *_more(len(lost) - TOLD_MAX)]


def _needed(change: Change) -> list[tuple[Table, tuple[str, ...]]]:
    needed: list[tuple[Table, tuple[str, ...]]] = []
    vhost = cast("str | None", getattr(change, "vhost", None))
    if vhost is not None:
        needed.append((VHOST, (vhost,)))
    if isinstance(change, PermissionPut | TopicPermissionPut | UserLimitsPut):
        needed.append((USER, (change.user,)))
    if isinstance(change, CursorPut):
        needed.append((QUEUE, (change.vhost, change.queue)))
    if isinstance(change, BindingPut):
        if not change.source.startswith(_PREDECLARED):
            needed.append((EXCHANGE, (change.vhost, change.source)))
        if change.to_queue:
            needed.append((QUEUE, (change.vhost, change.destination)))
        elif not change.destination.startswith(_PREDECLARED):
            needed.append((EXCHANGE, (change.vhost, change.destination)))
    return needed


def _label(change: Change) -> str:
    kind = type(change).__name__.removesuffix("Put")
    facts = [f"{name} {getattr(change, name)!r}" for name in change.__struct_fields__[:3]]
    return f"{kind} ({', '.join(facts)})"


def repair(path: Path, found: Examination, *, stamp: str) -> Path:
    """Put a new file with what can be kept in the place of the old one; return where that is."""
    new = path.with_name(f"{path.name}.repaired")
    old = path.with_name(f"{path.name}.damaged-{stamp}")
    for leftover in _files(new):
        leftover.unlink()
    create_file(new)
    batch = Batch()
    for change in found.changes:
        batch.add(change)
    with closing(connect(new, writing=True)) as opened:
        opened.execute("PRAGMA synchronous = FULL")
        opened.execute("BEGIN IMMEDIATE")
        for sql in schema():
            opened.execute(sql)
        for sql, values in batch.statements():
            opened.execute(sql, values)
        opened.execute("COMMIT")
    # A second name first, so that there is a file at every moment; but never a log of the old file
    # beside the new one, which would be taken for its own.
    os.link(path, old)
    for file in _files(path):
        if file != path:
            os.rename(file, file.with_name(file.name.replace(path.name, old.name, 1)))
    os.rename(new, path)
    sync_folder(path.parent)
    return old


def _files(path: Path) -> list[Path]:
    """Return the files of a database that are there: itself, its log, its index of the log."""
    places = [path.with_name(path.name + suffix) for suffix in ("", "-wal", "-shm", "-journal")]
    return [place for place in places if place.exists()]
