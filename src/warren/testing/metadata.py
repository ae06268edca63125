"""Where the metadata of a test's broker is kept between one node and the next: in memory.

The tables are those of the file on a disk, so what `Broker.restart` restores is what a node finds
in that file. Invariant: what `put` has taken is kept when it returns; nobody waits for a commit.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, final

from warren.server.metadata_batch import Batch
from warren.server.metadata_file import open_in_memory, read_metadata
from warren.server.metadata_store import Reports
from warren.vhost.change import Change


@final
class KeptMetadata:
    """A `Store` without a disk, a thread, or a failure."""

    failure: Final = ""

    def __init__(self) -> None:
        self._opened = open_in_memory()

    def read(self) -> list[Change]:
        return read_metadata(self._opened, Path(":memory:"))

    def start(self, call: Callable[[Callable[[], None]], object], reports: Reports) -> None:
        """There is nothing to wait for, so there are no reports."""

    def put(self, changes: Sequence[Change]) -> int:
        batch = Batch()
        for change in changes:
            batch.add(change)
        for sql, values in batch.statements():
            self._opened.execute(sql, values)
        return 0

    def begin_group(self) -> None:
        """Nothing is ever half kept here."""

    def end_group(self) -> None:
        """Likewise."""

    def close(self) -> None:
        """The node is gone; what is kept is for the next one."""

    def forget(self) -> None:
        """The broker is gone."""
        self._opened.close()
