"""The disk under the metadata: a thread that commits what the loop has already done in memory.

`MetadataStore` is the `Backend` of a node with a disk. `put` hands changes over and returns; the
thread takes all that has come while the last commit ran and makes it the next one, so a thousand
clients that declare at once share one sync. When a commit has returned, its ticket is reported to
the loop, and the answers that waited for it leave.

A *group* (`begin_group`, `end_group`) is one transaction however long it takes: an import. Changes
of others that come meanwhile are in it, too, because order is kept.

When a commit fails, `failure` says why. Full disks and locks of other programs pass: the thread
keeps what it has and tries again every RETRY_S. Anything else (an I/O error, a broken file) does
not: nothing is written any more until the node is started again, because what a disk has taken
after an error it may deny later.

Invariant: what is committed is a prefix of what was put, and only whole transactions are.
"""

import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, Protocol, final

from warren.server.metadata_batch import Batch
from warren.server.metadata_file import close_metadata, open_metadata, read_metadata
from warren.vhost.change import Change
from warren.vhost.metadata import Backend

RETRY_S: Final = 1.0
CLOSE_WAIT_S: Final = 10.0
# What passes by itself: SQLITE_FULL, SQLITE_BUSY, SQLITE_LOCKED.
_PASSING: Final = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})


class Store(Backend, Protocol):
    """A backend that a node is built on, and restored from."""

    def read(self) -> list[Change]:
        """Return everything that is stored; before `start`."""

    def start(self, call: Callable[[Callable[[], None]], object], reports: "Reports") -> None:
        """Begin to commit; `call` runs a function on the loop, from any thread."""

    def begin_group(self) -> None:
        """What is put from here on is one transaction."""

    def end_group(self) -> None:
        """Until here."""

    def close(self) -> None:
        """Commit what was put; the node is gone."""


class Reports(Protocol):
    """Who hears from the thread; called on the loop."""

    def on_committed(self, ticket: int) -> None: ...

    def on_failed(self, reason: str, *, passing: bool) -> None: ...


@final
class _Begin:
    """Opens a group."""


@final
class _End:
    """Closes a group."""


_Item = tuple[int, Sequence[Change]] | _Begin | _End | None


@final
class MetadataStore:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.failure = ""
        self.ticket = 0
        self._opened = open_metadata(path)
        self._items: queue.SimpleQueue[_Item] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._call: Callable[[Callable[[], None]], object] | None = None
        self._reports: Reports | None = None
        # The thread's own.
        self._batch = Batch()
        self._last = 0
        self._depth = 0
        self._ended = False
        self._frozen = False
        self._failing = ""

    def read(self) -> list[Change]:
        """Return everything that is stored; before `start`."""
        return read_metadata(self._opened, self.path)

    def start(self, call: Callable[[Callable[[], None]], object], reports: Reports) -> None:
        """Begin to commit; `call` runs a function on the loop, from any thread."""
        self._call = call
        self._reports = reports
        self._thread = threading.Thread(target=self._run, name="warren-metadata", daemon=True)
        self._thread.start()

    def put(self, changes: Sequence[Change]) -> int:
        self.ticket += 1
        self._items.put((self.ticket, changes))
        return self.ticket

    def begin_group(self) -> None:
        self._items.put(_Begin())

    def end_group(self) -> None:
        self._items.put(_End())

    def close(self) -> None:
        """Commit what was put, and close the file."""
        if self._thread is not None:
            self._items.put(None)
            self._thread.join(CLOSE_WAIT_S)
            if self._thread.is_alive():
                # A disk that does not answer; the file is sound without a proper end.
                return
        close_metadata(self._opened)

    # -- the thread --------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._ended:
            self._take()
            if self._batch.count and (self._depth == 0 or self._ended):
                self._commit()

    def _take(self) -> None:
        """Wait for something to do, then take all there is."""
        waiting = self._batch.count > 0 and self._depth == 0
        try:
            item = self._items.get(timeout=RETRY_S if waiting else None)
            while True:
                self._note(item)
                item = self._items.get_nowait()
        except queue.Empty:
            return

    def _note(self, item: _Item) -> None:
        if item is None:
            self._ended = True
        elif isinstance(item, _Begin):
            self._depth += 1
        elif isinstance(item, _End):
            self._depth -= 1
        elif not self._frozen:
            self._last, changes = item
            for change in changes:
                self._batch.add(change)

    def _commit(self) -> None:
        opened = self._opened
        try:
            opened.execute("BEGIN IMMEDIATE")
            for sql, values in self._batch.statements():
                opened.execute(sql, values)
            opened.execute("COMMIT")
        except sqlite3.Error as failure:
            self._fail(failure)
            return
        self._batch = Batch()
        self._failing = ""
        self._tell(partial(self._committed, self._last))

    def _fail(self, failure: sqlite3.Error) -> None:
        passing = failure.sqlite_errorcode & 0xFF in _PASSING
        with suppress(sqlite3.Error):
            self._opened.execute("ROLLBACK")
        if not passing:
            # The batch is given up with everything behind it: see the module's header.
            self._frozen = True
            self._batch = Batch()
        reason = f"{failure} ({failure.sqlite_errorname})"
        if reason != self._failing:
            self._failing = reason
            self._tell(partial(self._failed, reason, passing))

    def _tell(self, report: Callable[[], None]) -> None:
        if self._call is not None:
            with suppress(RuntimeError):
                # The loop may be closed already: then nobody waits any more.
                self._call(report)

    # -- on the loop again -------------------------------------------------------------------------

    def _committed(self, ticket: int) -> None:
        self.failure = ""
        if self._reports is not None:
            self._reports.on_committed(ticket)

    def _failed(self, reason: str, passing: bool) -> None:
        self.failure = reason
        if self._reports is not None:
            self._reports.on_failed(reason, passing=passing)
