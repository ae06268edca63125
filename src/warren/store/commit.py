"""The job that takes one batch to the disk, and the end of the journal that it moves.

`JournalEnd` belongs to the journal's lane alone: the open file, its size, the chain of checksums.
Order of writes: the bodies that go to the message store (`body_commit.py`), synced; then the header
of a new file and its name, then the batch, then one sync of the file. A crash in between leaves
octets of bodies that nothing names, a file without batches, or a torn one, of which nobody was
told. A batch that finds no room is written once more, at the same place (`full.py`).
"""

from typing import TYPE_CHECKING, Final, final

from warren.store.batch import FILE_HEADER, FileHeader, encode_batch_header, sum_blocks
from warren.store.body_commit import BodyEnd
from warren.store.full import DiskFullError, if_full
from warren.store.journal import FILE_SIZE, Batch

if TYPE_CHECKING:
    from collections.abc import Callable

    from warren.core.seam import Files

FOLDER: Final = "journal"


def journal_path(number: int) -> str:
    return f"{FOLDER}/{number}.jnl"


@final
class JournalEnd:
    """Where the journal is written. `number` is that of the last file there is."""

    def __init__(self, number: int, chain: int, mark: int, file_size: int = FILE_SIZE) -> None:
        self.number = number
        self.chain = chain
        self.mark = mark
        self.file_size = file_size
        self.handle = -1
        self.start = 0
        self.offset = 0
        self.bodies = BodyEnd()

    def append(self, files: "Files", batch: Batch, sums: bytes) -> tuple[int, int]:
        """Write and sync a batch; return number and first lsn of the file that has it."""
        if self.handle < 0:
            try:
                self._open_next(files, int(batch.lsn))
            except OSError as failure:
                raise if_full(failure) from failure
        header = encode_batch_header(
            mark=self.mark,
            number=int(batch.number),
            lsn=int(batch.lsn),
            chain=self.chain,
            size=int(batch.size),
            sums=sums,
        )
        try:
            files.write(self.handle, self.offset, [header, *batch.parts])
        except OSError as failure:
            raise if_full(failure) from failure
        files.sync(self.handle)
        self.offset += len(header) + int(batch.size)
        self.chain = int.from_bytes(header[36:40], "little")
        place = self.number, self.start
        if self.offset >= self.file_size:
            self.close(files)
        return place

    def _open_next(self, files: "Files", lsn: int) -> None:
        number = self.number + 1
        handle = files.create(journal_path(number))
        try:
            files.write(handle, 0, [FileHeader(number, lsn, self.chain, self.mark).encode()])
            files.sync(handle)
            files.sync_folder(FOLDER)
        except OSError:
            files.close(handle)
            raise
        self.handle = handle
        self.number = number
        self.start = lsn
        self.offset = FILE_HEADER

    def close(self, files: "Files") -> None:
        if self.handle >= 0:
            files.close(self.handle)
            self.handle = -1


@final
class CommitJob:
    """One batch on its way; `ended` is told how it went."""

    def __init__(
        self,
        end: JournalEnd,
        batch: Batch,
        ended: "Callable[[CommitJob, Exception | None], None]",
    ) -> None:
        self.end = end
        self.batch = batch
        self.ended = ended
        # The file that has the batch, and the checksums of its blocks.
        self.file = -1
        self.start = 0
        self.sums = b""

    def run(self, files: "Files") -> None:
        if self.batch.bodies:
            self.end.bodies.write(files, self.batch.bodies)
        self.sums = sum_blocks(self.batch.parts)
        self.file, self.start = self.end.append(files, self.batch, self.sums)

    def done(self, error: Exception | None) -> None:
        if not isinstance(error, DiskFullError):
            # The octets are on the disk; the waiters are all that is still of interest.
            self.batch.parts = []
            self.batch.bodies = []
        self.ended(self, error)
