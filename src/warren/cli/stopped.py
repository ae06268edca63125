"""A queue of a node that does not run: its incarnation from the metadata, its messages from files.

Nothing is written into the data folder. A node is kept from starting meanwhile by its own lock. The
metadata is read from a copy: a reader of a write-ahead log writes beside it.
"""

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

from warren.cli.exit import CONFIG, FAILED, CliError
from warren.runtime.files import SystemFiles
from warren.runtime.lock import LockHeldError, LookLock
from warren.server.message_store import idents_of
from warren.server.metadata_file import FILE_NAME, MetadataError, connect, read_metadata
from warren.store.reader import ChangedError, StoppedStore
from warren.vhost.change import Change, QueuePut

if TYPE_CHECKING:
    from collections.abc import Iterator

    from warren.store.record import Publish

LOCK_NAME: Final = "warren.lock"


@final
class StoppedQueue:
    def __init__(self, folder: Path, vhost: str, name: str) -> None:
        self.folder = folder
        try:
            self._lock = LookLock(folder / LOCK_NAME)
        except LockHeldError as held:
            raise CliError(f"{held}, but it does not answer", FAILED) from None
        except OSError as failure:
            raise CliError(f"{folder}: {failure.strerror}", FAILED) from None
        try:
            changes = metadata_of(folder)
            found = [
                change
                for change in changes
                if isinstance(change, QueuePut) and (change.vhost, change.name) == (vhost, name)
            ]
            if not found or not found[0].incarnation:
                message = f"there is no durable queue '{name}' in vhost '{vhost}' in {folder}"
                raise CliError(message, FAILED)
            self.incarnation = found[0].incarnation
            self.idents = idents_of(found[0])
            known = [ident for change in changes for ident in idents_of(change)]
            self.store = StoppedStore(SystemFiles(folder, look_only=True), known)
        except BaseException:
            self._lock.release()
            raise

    def __enter__(self) -> "StoppedQueue":
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def next_seq(self) -> int:
        return self.store.next_seq(self.idents)

    def records(self, begin: int, end: int) -> "Iterator[Publish]":
        try:
            yield from self.store.records(self.idents, begin, end)
        except ChangedError as failure:
            raise CliError(str(failure), FAILED) from None

    def problems(self) -> list[str]:
        """What could not be read, if anything."""
        damages = [
            f"journal file {one.file} at {one.lsn}: {one.what}" for one in self.store.damages
        ]
        return damages + self.store.problems


def metadata_of(folder: Path) -> list[Change]:
    """Everything in the metadata of a node that does not run."""
    path = folder / FILE_NAME
    if not path.exists():
        raise CliError(f"{path} is not there: no node ran in {folder}", FAILED)
    with tempfile.TemporaryDirectory() as copy:
        for name in (FILE_NAME, f"{FILE_NAME}-wal"):
            if (folder / name).exists():
                shutil.copyfile(folder / name, Path(copy) / name)
        try:
            opened = connect(Path(copy) / FILE_NAME, writing=True)
            try:
                return read_metadata(opened, path)
            finally:
                opened.close()
        except MetadataError as refusal:
            raise CliError(str(refusal), CONFIG) from None
