"""What many changes come to: the rows to write, the rows to take away, in as few statements.

Changes are added in their order; what a later one makes void is never written. The statements then
go in an order of their own: what hangs on something deleted first, single rows next, new rows
last. Each carries up to ROWS_MAX rows, because the interpreter is left and entered once for each
(the thread that runs them shares it with the event loop).

Invariant: a row in `_rows` is newer than every deletion in `_cuts` that would take it.
"""

from collections.abc import Iterator
from typing import Final, final

from warren.server.metadata_table import (
    BINDING,
    CURSOR,
    EXCHANGE,
    PERMISSION,
    QUEUE,
    TABLES,
    TOPIC_PERMISSION,
    USER,
    USER_LIMIT,
    VHOST,
    Row,
    Table,
    checksum,
    key_of,
    row_of,
)
from warren.vhost.change import Change, ExchangeDelete, QueueDelete, UserDelete, VHostDelete

# With seven columns still below the 999 variables that every SQLite allows.
ROWS_MAX: Final = 140

# Columns that name what rows hang on.
_INTO: Final = ("vhost", "to_queue", "destination")
_FROM: Final = ("vhost", "source")


@final
class Batch:
    def __init__(self) -> None:
        self.count = 0
        # By table and key: the row to write, or None to take it away.
        self._rows: dict[Table, dict[Row, Row | None]] = {table: {} for table in TABLES}
        # By table and columns: the values whose rows go.
        self._cuts: dict[tuple[Table, tuple[str, ...]], dict[Row, None]] = {}
        # The bindings to write, by either end.
        self._bound: dict[Row, list[Row]] = {}

    def add(self, change: Change) -> None:
        """Take one more change in."""
        self.count += 1
        put = row_of(change)
        if put is not None:
            table, row = put
            key = row[: len(table.key)]
            self._rows[table][key] = row
            if table is BINDING:
                self._bound.setdefault(row[:3], []).append(key)
                self._bound.setdefault((row[0], row[3]), []).append(key)
            return
        taken = key_of(change)
        if taken is not None:
            self._rows[taken[0]][taken[1]] = None
            return
        match change:
            case QueueDelete(vhost=vhost, name=name):
                self._rows[QUEUE][vhost, name] = None
                self._cut_cursors((vhost, name))
                self._cut_bindings(_INTO, (vhost, 1, name))
            case ExchangeDelete(vhost=vhost, name=name):
                self._rows[EXCHANGE][vhost, name] = None
                self._cut_bindings(_INTO, (vhost, 0, name))
                self._cut_bindings(_FROM, (vhost, name))
            case VHostDelete(name=name):
                self._cut(VHOST, "name", name)
                for table in TABLES:
                    if "vhost" in table.columns:
                        self._cut(table, "vhost", name)
            case UserDelete(name=name):
                self._cut(USER, "name", name)
                for table in (USER_LIMIT, PERMISSION, TOPIC_PERMISSION):
                    self._cut(table, "user", name)
            case _:
                raise TypeError(f"no row for {type(change).__name__}")

    def _cut_cursors(self, queue: Row) -> None:
        """Take away the cursors of a queue: few queues have any."""
        self._cuts.setdefault((CURSOR, ("vhost", "queue")), {})[queue] = None
        rows = self._rows[CURSOR]
        for key in [key for key in rows if key[:2] == queue]:
            del rows[key]

    def _cut_bindings(self, columns: tuple[str, ...], values: Row) -> None:
        self._cuts.setdefault((BINDING, columns), {})[values] = None
        rows = self._rows[BINDING]
        for key in self._bound.pop(values, ()):
            rows.pop(key, None)

    def _cut(self, table: Table, column: str, value: str) -> None:
        """Take away all rows with a value; this looks at every row of the batch, and is rare."""
        self._cuts.setdefault((table, (column,)), {})[value,] = None
        place = table.columns.index(column)
        rows = self._rows[table]
        for key in [key for key in rows if key[place] == value]:
            del rows[key]

    def statements(self) -> Iterator[tuple[str, Row]]:
        """Yield what is to be executed, each with its parameters."""
        for (table, columns), values in self._cuts.items():
            yield from _deletions(table, columns, list(values))
        for table, rows in self._rows.items():
            gone = [key for key, row in rows.items() if row is None]
            yield from _deletions(table, table.key_columns, gone)
        for table, rows in self._rows.items():
            yield from _insertions(table, [row for row in rows.values() if row is not None])


def _deletions(
    table: Table, columns: tuple[str, ...], values: list[Row]
) -> Iterator[tuple[str, Row]]:
    one = "(" + " AND ".join(f"{column} = ?" for column in columns) + ")"
    for first in range(0, len(values), ROWS_MAX):
        part = values[first : first + ROWS_MAX]
        # Alternatives are looked up one by one in the key or the index; `(a, b) IN (VALUES ...)`
        # would read the whole table.
        sql = f"DELETE FROM {table.name} WHERE {' OR '.join([one] * len(part))}"
        yield sql, tuple(value for row in part for value in row)


def _insertions(table: Table, rows: list[Row]) -> Iterator[tuple[str, Row]]:
    marks = "(" + ", ".join("?" * (len(table.columns) + 1)) + ")"
    for first in range(0, len(rows), ROWS_MAX):
        part = rows[first : first + ROWS_MAX]
        sql = f"INSERT OR REPLACE INTO {table.name} VALUES {', '.join([marks] * len(part))}"
        yield sql, tuple(value for row in part for value in (*row, checksum(row)))
