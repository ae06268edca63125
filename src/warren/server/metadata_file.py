"""Opening, reading and closing the metadata file; what is wrong with it, in words.

Everything here blocks: it runs before the loop does, in the store's thread, or in `warren doctor`.
The file holds password hashes, so it has mode 0600 from its first moment.

A write is on the disk when COMMIT has returned: the journal is a write-ahead log and every commit
is synced (`synchronous = FULL`). A process that is killed, or a machine that loses its power, loses
what was not committed and nothing else.
"""

import os
import sqlite3
from pathlib import Path
from typing import Final, cast

from warren.protocol.wire import DecodeError
from warren.server.metadata_table import (
    APPLICATION,
    TABLES,
    UPGRADES,
    VERSION,
    Row,
    Table,
    change_of,
    checksum,
    schema,
)
from warren.vhost.change import Change

FILE_NAME: Final = "metadata.db"
# Somebody looks at the file with another tool and holds a lock.
BUSY_WAIT_S: Final = 5.0
_BLANK: Final = "without the file the node begins blank"
_DOCTOR: Final = "run `warren doctor` with this data_dir, then `warren doctor --repair`"


class MetadataError(Exception):
    """The metadata file cannot be used: what is wrong, where, and what to do."""

    def __init__(self, path: Path, problem: str, fix: str) -> None:
        super().__init__(f"{path}: {problem}\n{fix}")
        self.path = path
        self.problem = problem
        self.fix = fix


def create_file(path: Path) -> None:
    """Make an empty file that only its owner may read, if there is none."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return
    os.fsync(descriptor)
    os.close(descriptor)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Have the system write down which files a folder has."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def connect(path: Path, *, writing: bool) -> sqlite3.Connection:
    """Open a file that is there; transactions are begun and ended by statements."""
    mode = "mode=rw" if writing else "mode=ro"
    if not writing and not path.with_name(path.name + "-wal").exists():
        # Nobody has it open: reading needs no log, and leaves none behind.
        mode = "immutable=1"
    place = f"file:{_escaped(path)}?{mode}"
    return sqlite3.connect(
        place, uri=True, isolation_level=None, timeout=BUSY_WAIT_S, check_same_thread=False
    )


def _escaped(path: Path) -> str:
    return str(path.absolute()).replace("%", "%25").replace("?", "%3f").replace("#", "%23")


def open_metadata(path: Path) -> sqlite3.Connection:
    """Open the file for writing, make it if there is none, and bring it to this version."""
    try:
        if not path.exists():
            _make(path)
        elif path.stat().st_size == 0:
            raise MetadataError(
                path, "is empty, which a node leaves at no time", "put a copy back; " + _BLANK
            )
        opened = connect(path, writing=True)
    except sqlite3.Error as failure:
        raise MetadataError(
            path, f"cannot be opened: {failure}", "see its owner and mode"
        ) from None
    try:
        opened.execute("PRAGMA journal_mode = WAL")
        opened.execute("PRAGMA synchronous = FULL")
        _bring_up(opened, path)
    except sqlite3.Error as failure:
        opened.close()
        raise MetadataError(path, f"damaged: {failure}", _DOCTOR) from None
    except MetadataError:
        opened.close()
        raise
    return opened


def _make(path: Path) -> None:
    """Put a file with all tables in its place in one step: a half-made one is never found."""
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    create_file(new)
    opened = connect(new, writing=True)
    try:
        _bring_up(opened, new)
    finally:
        opened.close()
    new.rename(path)
    sync_folder(path.parent)


def open_in_memory() -> sqlite3.Connection:
    """Open the same tables without a file; they are gone when the connection is closed."""
    opened = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    _bring_up(opened, Path(":memory:"))
    return opened


def version_of(opened: sqlite3.Connection) -> int | None:
    """Return the version of the format, 0 for an empty file, None for another program's file."""
    application = number(opened, "PRAGMA application_id")
    version = number(opened, "PRAGMA user_version")
    if application == APPLICATION:
        return version
    objects = number(opened, "SELECT count(*) FROM sqlite_master")
    return 0 if objects == version == application == 0 else None


def number(opened: sqlite3.Connection, sql: str) -> int:
    """Return the one number that a query answers."""
    return cast("int", opened.execute(sql).fetchone()[0])


def _bring_up(opened: sqlite3.Connection, path: Path) -> None:
    version = version_of(opened)
    if version is None:
        raise MetadataError(
            path, "is not a metadata file of Warren", "move it away, or set another data_dir"
        )
    if version > VERSION:
        raise MetadataError(
            path,
            f"was written by a newer Warren: format {version}, this one knows {VERSION}",
            "start it with that version or a later one",
        )
    if version == VERSION:
        return
    opened.create_function("row_crc", -1, lambda *row: checksum(row), deterministic=True)
    opened.execute("BEGIN IMMEDIATE")
    if version == 0:
        steps = schema()
    else:
        steps = tuple(
            sql
            for old in range(version, VERSION)
            for sql in (*UPGRADES[old], f"PRAGMA user_version = {old + 1}")
        )
    for sql in steps:
        opened.execute(sql)
    opened.execute("COMMIT")


def read_metadata(opened: sqlite3.Connection, path: Path) -> list[Change]:
    """Return everything in the file, each thing behind what it stands on."""
    found: list[Change] = []
    for table in TABLES:
        try:
            found.extend(checked_change(table, row) for row in rows_of(opened, table))
        except sqlite3.Error as failure:
            raise MetadataError(
                path, f"damaged in table {table.name}: {failure}", _DOCTOR
            ) from None
        except ValueError as failure:
            raise MetadataError(path, f"damaged: {failure}", _DOCTOR) from None
    return found


def rows_of(opened: sqlite3.Connection, table: Table) -> list[Row]:
    """Return the rows of a table with their checksums, in the order of their keys."""
    columns = ", ".join((*table.columns, "crc"))
    order = ", ".join(table.key_columns)
    return opened.execute(f"SELECT {columns} FROM {table.name} ORDER BY {order}").fetchall()


def checked_change(table: Table, row: Row) -> Change:
    """Return what a row stands for; ValueError, with its name, when it is damaged."""
    if checksum(row[:-1]) != row[-1]:
        raise ValueError(f"{row_label(table, row)} does not match its checksum")
    try:
        return change_of(table, row[:-1])
    except (ValueError, TypeError, DecodeError) as failure:
        raise ValueError(f"{row_label(table, row)} cannot be read: {failure}") from None


def row_label(table: Table, row: Row) -> str:
    """Return how messages name a row: its table and its key."""
    key = " ".join(repr(value) for value in row[: len(table.key)])
    return f"{table.name} {key}"


def close_metadata(opened: sqlite3.Connection) -> None:
    """Close in good order: what is in the log goes into the file, and the log is removed."""
    try:
        opened.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.Error:
        # It is all in the log, which the next start reads.
        pass
    finally:
        opened.close()
