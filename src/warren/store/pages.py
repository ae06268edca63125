"""Page files: what is transient and does not fit into memory (the transient message store).

`msg_store_transient/N.rdq` holds pages, one after the other, each of 16 octets and publish records
(`record.py`):

    offset  size
       0     4    "WPAG"
       4     4    checksum of the records
       8     8    size of the records

Nothing here is ever synced: what a page holds does not survive the node, and the folder is emptied
at a start (MS-24). A file is removed when all its pages were dropped and it is not the one being
written (MS-14). Who wrote a page knows where it is; nobody else does.
"""

import zlib
from typing import TYPE_CHECKING, Final, Protocol, final

from mypy_extensions import i64

from warren.store.batch import FormatError
from warren.store.record import Publish, RecordSink, walk

if TYPE_CHECKING:
    from warren.core.seam import Files, Lanes

FOLDER: Final = "msg_store_transient"
PAGE_MAGIC: Final = b"WPAG"
PAGE_HEADER: Final = 16
PAGE_LANE: Final = 3
# A file is closed with the page that reaches this size.
FILE_SIZE: Final[i64] = 16 * 1024 * 1024


def page_path(number: int) -> str:
    return f"{FOLDER}/{number}.rdq"


class PageWriteEnd(Protocol):
    def ended(self, page: "PageWrite", error: Exception | None) -> None: ...


class PageReadEnd(Protocol):
    def ended(self, page: "PageRead", error: Exception | None) -> None: ...


@final
class PageWrite:
    """A page on its way to its file: a job."""

    def __init__(self, records: bytes, owner: PageWriteEnd) -> None:
        self.records = records
        self.owner = owner
        self.file: i64 = 0
        self.offset: i64 = 0
        self.size: i64 = PAGE_HEADER + len(records)
        self.pages: Pages | None = None

    def run(self, files: "Files") -> None:
        header = PAGE_MAGIC + zlib.crc32(self.records).to_bytes(4, "little")
        header += len(self.records).to_bytes(8, "little")
        pages = self.pages
        assert pages is not None
        handle = pages.handle(files, int(self.file))
        files.write(handle, int(self.offset), [header, self.records])

    def done(self, error: Exception | None) -> None:
        self.records = b""
        if self.pages is not None:
            self.pages.pending_bytes -= self.size
        self.owner.ended(self, error)


@final
class PageRead:
    """A page on its way back: a job. Its records are taken apart on the lane."""

    def __init__(self, file: i64, offset: i64, size: i64, owner: PageReadEnd) -> None:
        self.file = file
        self.offset = offset
        self.size = size
        self.owner = owner
        self.records: list[Publish] = []

    def run(self, files: "Files") -> None:
        handle = files.open(page_path(int(self.file)))
        try:
            data = files.read(handle, int(self.offset), int(self.size))
        finally:
            files.close(handle)
        if len(data) != self.size or data[:4] != PAGE_MAGIC:
            raise FormatError(f"no page of {self.size} octets is in {page_path(int(self.file))}")
        if zlib.crc32(memoryview(data)[PAGE_HEADER:]) != int.from_bytes(data[4:8], "little"):
            raise FormatError(f"the checksum of a page in {page_path(int(self.file))} is wrong")
        sink = Records()
        walk(data, PAGE_HEADER, self.size, sink)
        self.records = sink.found

    def done(self, error: Exception | None) -> None:
        self.owner.ended(self, error)


@final
class Records(RecordSink):
    """Takes all records apart."""

    def __init__(self) -> None:
        self.found: list[Publish] = []

    def on_publish(self, queue: i64, seq: i64, position: i64, size: i64, data: bytes) -> None:
        self.found.append(Publish(data, position))


@final
class RemovePage:
    """A file whose pages are all dropped."""

    def __init__(self, pages: "Pages", number: int) -> None:
        self.pages = pages
        self.number = number

    def run(self, files: "Files") -> None:
        self.pages.close(files, self.number)
        files.remove(page_path(self.number))

    def done(self, error: Exception | None) -> None:
        """What is left lies there until the next start empties the folder."""


@final
class Pages:
    """Where pages are; the open handles belong to the lane."""

    def __init__(self, lanes: "Lanes", file_size: i64 = FILE_SIZE) -> None:
        self.lanes = lanes
        self.file_size = file_size
        self.number: i64 = 0
        self.offset: i64 = 0
        # Octets of pages that somebody still needs, by file.
        self.live: dict[int, int] = {}
        self.written_bytes: i64 = 0
        # Octets of pages that are on their way to their files: they are in memory twice.
        self.pending_bytes: i64 = 0
        self._handles: dict[int, int] = {}

    def write(self, page: PageWrite) -> None:
        """Give a page its place and have it written."""
        if self.offset >= self.file_size:
            self._leave()
        page.pages = self
        page.file = self.number
        page.offset = self.offset
        self.offset += page.size
        number = int(self.number)
        self.live[number] = self.live.get(number, 0) + int(page.size)
        self.written_bytes += page.size
        self.pending_bytes += page.size
        self.lanes.submit(PAGE_LANE, page)

    def read(self, page: PageRead) -> None:
        self.lanes.submit(PAGE_LANE, page)

    def drop(self, file: i64, size: i64) -> None:
        """Nobody needs a page any more."""
        number = int(file)
        left = self.live.get(number, 0) - int(size)
        self.live[number] = left
        if left <= 0 and file != self.number:
            self._remove(number)

    def _leave(self) -> None:
        number = int(self.number)
        self.number += 1
        self.offset = 0
        if self.live.get(number, 0) <= 0:
            self._remove(number)

    def _remove(self, number: int) -> None:
        self.live.pop(number, None)
        self.lanes.submit(PAGE_LANE, RemovePage(self, number))

    # On the lane.

    def handle(self, files: "Files", number: int) -> int:
        handle = self._handles.get(number)
        if handle is None:
            for other in list(self._handles):
                self.close(files, other)
            files.make_folder(FOLDER)
            handle = files.create(page_path(number))
            self._handles[number] = handle
        return handle

    def close(self, files: "Files", number: int) -> None:
        handle = self._handles.pop(number, None)
        if handle is not None:
            files.close(handle)
