"""How batches of records stand in a journal file, and how they are found again after a crash.

A journal is one stream of octets cut into files `journal/N.jnl`. A position in the stream, an
*lsn*, never changes and never comes twice. A file begins with 32 octets:

    offset  size
       0     8    "WRNJRNL" and the version of the format, 1
       8     4    number of the file
      12     4    its mark, with which each batch begins
      16     8    lsn of its first batch: the octet of lsn x is at 32 + x - this
      24     4    chain: the checksum of the last batch header in the file before
      28     4    checksum of the 28 octets before

and goes on with batches, each of 40 octets and a payload of whole records (`record.py`):

       0     4    the mark of the file
       4     4    checksum of the payload: that of the checksums of its blocks
       8     8    number of the batch, one more than that of the batch before
      16     8    size of the payload
      24     8    lsn of this batch
      32     4    chain: the checksum at 36 of the batch before
      36     4    checksum of the 36 octets before

A batch is written with one call and synced before anybody hears that its records are safe, and
the next one is written after that. So after a crash the last batch may be torn: it is cut off, and
nobody was told of anything in it. A batch that is not whole but has a whole one behind it is
*damage*: its records are lost, which is reported and not hidden. All checksums are CRC-32.

The mark is drawn anew for each life of a node. A whole batch behind a torn one is found by it, so a
client that publishes what looks like a batch cannot have it taken for one after a crash.

The blocks of a payload are 65,536 octets long, the last one shorter. The checksums of the blocks,
four octets each, stay in memory, so a part of a large batch can be read and checked without the
rest; the checksum of all of them together is that of the payload.
"""

import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

FILE_MAGIC: Final = b"WRNJRNL\x01"
FILE_HEADER: Final = 32
# The mark of files without octets of clients.
MARK: Final = int.from_bytes(b"WBAT", "little")
BATCH_HEADER: Final = 40
# Octets that have a checksum of their own.
BLOCK: Final = 65536


class FormatError(Exception):
    """A file of the store is not what it should be."""


@dataclass(frozen=True, slots=True)
class FileHeader:
    number: int
    lsn: int
    chain: int
    mark: int

    def encode(self) -> bytes:
        body = (
            FILE_MAGIC
            + self.number.to_bytes(4, "little")
            + self.mark.to_bytes(4, "little")
            + self.lsn.to_bytes(8, "little")
            + self.chain.to_bytes(4, "little")
        )
        return body + zlib.crc32(body).to_bytes(4, "little")


def decode_file_header(data: bytes) -> FileHeader:
    """Take a file header apart; `FormatError` says what is wrong with it."""
    if len(data) < FILE_HEADER:
        raise FormatError("it ends within its header")
    if data[:7] != FILE_MAGIC[:7]:
        raise FormatError("it does not begin like a journal")
    if data[7] != FILE_MAGIC[7]:
        raise FormatError(f"it has version {data[7]} of the format, this program knows 1")
    if zlib.crc32(data[:28]) != int.from_bytes(data[28:32], "little"):
        raise FormatError("the checksum of its header is wrong")
    return FileHeader(
        number=int.from_bytes(data[8:12], "little"),
        lsn=int.from_bytes(data[16:24], "little"),
        chain=int.from_bytes(data[24:28], "little"),
        mark=int.from_bytes(data[12:16], "little"),
    )


@dataclass(frozen=True, slots=True)
class BatchHeader:
    number: int
    size: int
    lsn: int
    chain: int
    payload_sum: int
    own_sum: int

    def end(self) -> int:
        """The lsn behind the batch."""
        return self.lsn + BATCH_HEADER + self.size


def sum_blocks(parts: "Sequence[bytes | memoryview]") -> bytes:
    """The checksums of the blocks of a payload in parts, four octets each."""
    sums = bytearray()
    running = 0
    room = BLOCK
    for part in parts:
        size = len(part)
        if size < room:
            running = zlib.crc32(part, running)
            room -= size
            continue
        view = memoryview(part)
        at = 0
        while size - at >= room:
            sums += zlib.crc32(view[at : at + room], running).to_bytes(4, "little")
            at += room
            room = BLOCK
            running = 0
        running = zlib.crc32(view[at:], running)
        room -= size - at
    if room < BLOCK:
        sums += running.to_bytes(4, "little")
    return bytes(sums)


def encode_batch_header(
    *, mark: int, number: int, lsn: int, chain: int, size: int, sums: bytes
) -> bytes:
    """The header of a batch with a payload of this size, whose blocks have these checksums."""
    body = (
        mark.to_bytes(4, "little")
        + zlib.crc32(sums).to_bytes(4, "little")
        + number.to_bytes(8, "little")
        + size.to_bytes(8, "little")
        + lsn.to_bytes(8, "little")
        + chain.to_bytes(4, "little")
    )
    return body + zlib.crc32(body).to_bytes(4, "little")


def decode_batch_header(data: bytes, pos: int, mark: int) -> BatchHeader | None:
    """The batch header at a position, if a whole one with this mark is there."""
    head = data[pos : pos + BATCH_HEADER]
    if len(head) < BATCH_HEADER or int.from_bytes(head[:4], "little") != mark:
        return None
    own_sum = int.from_bytes(head[36:40], "little")
    if zlib.crc32(head[:36]) != own_sum:
        return None
    return BatchHeader(
        number=int.from_bytes(head[8:16], "little"),
        size=int.from_bytes(head[16:24], "little"),
        lsn=int.from_bytes(head[24:32], "little"),
        chain=int.from_bytes(head[32:36], "little"),
        payload_sum=int.from_bytes(head[4:8], "little"),
        own_sum=own_sum,
    )


@dataclass(frozen=True, slots=True)
class WholeBatch:
    """A batch whose checksums are right, where it is in its file, the checksums of its blocks."""

    header: BatchHeader
    pos: int
    sums: bytes


@dataclass(frozen=True, slots=True)
class Damage:
    """Octets of the journal that held records and cannot be read."""

    file: int
    lsn: int
    size: int
    what: str


@dataclass(slots=True)
class Scan:
    """What a journal file holds: its whole batches, where it ends, what is lost."""

    header: FileHeader
    batches: list[WholeBatch] = field(default_factory=list)
    end: int = 0
    chain: int = 0
    number: int = 0
    torn: int = 0
    damages: list[Damage] = field(default_factory=list)


def scan_file(data: bytes, file: int) -> Scan:
    """Find the whole batches of the file with this number.

    A header that is damaged is made up from the first batch; `FormatError` if that is not whole.
    """
    try:
        header = decode_file_header(data)
        found = Scan(header, end=header.lsn, chain=header.chain)
        if header.number != file:
            raise FormatError(f"it is file {header.number} by its header")
    except FormatError as problem:
        found = _scan_headless(data, file, problem)
    pos = FILE_HEADER
    while pos < len(data):
        whole = _next_batch(data, pos, found)
        if whole is None:
            whole = _find_behind(data, pos, found)
            if whole is None:
                found.torn = len(data) - pos
                break
            what = "a batch before a whole one is not whole"
            found.damages.append(Damage(file, found.end, whole.pos - pos, what))
        found.batches.append(whole)
        found.end = whole.header.end()
        found.chain = whole.header.own_sum
        found.number = whole.header.number
        pos = whole.pos + BATCH_HEADER + whole.header.size
    return found


def _scan_headless(data: bytes, file: int, problem: FormatError) -> Scan:
    """Begin a scan without a header that could be trusted: its first batch has to be whole."""
    mark = int.from_bytes(data[FILE_HEADER : FILE_HEADER + 4], "little")
    whole = _batch_at(data, FILE_HEADER, mark)
    if whole is None:
        raise problem
    header = FileHeader(file, whole.header.lsn, whole.header.chain, mark)
    found = Scan(header, end=header.lsn, chain=header.chain)
    found.damages.append(Damage(file, header.lsn, 0, str(problem)))
    return found


def _batch_at(data: bytes, pos: int, mark: int) -> WholeBatch | None:
    """The batch at a position, if one is there and whole."""
    header = decode_batch_header(data, pos, mark)
    start = pos + BATCH_HEADER
    if header is None or start + header.size > len(data):
        return None
    sums = sum_blocks((memoryview(data)[start : start + header.size],))
    if zlib.crc32(sums) != header.payload_sum:
        return None
    return WholeBatch(header, pos, sums)


def _next_batch(data: bytes, pos: int, found: Scan) -> WholeBatch | None:
    """The batch at a position, if it is whole and the one that has to come next."""
    whole = _batch_at(data, pos, found.header.mark)
    if whole is None:
        return None
    header = whole.header
    if header.chain != found.chain or header.lsn != found.end:
        return None
    if found.number and header.number != found.number + 1:
        return None
    return whole


def _find_behind(data: bytes, pos: int, found: Scan) -> WholeBatch | None:
    """The next whole batch of this file behind something that is none."""
    begins = found.header.mark.to_bytes(4, "little")
    at = data.find(begins, pos + 1)
    while at >= 0:
        whole = _batch_at(data, at, found.header.mark)
        if (
            whole is not None
            and whole.header.number > found.number
            and whole.header.lsn == found.header.lsn + at - FILE_HEADER
        ):
            return whole
        at = data.find(begins, at + 1)
    return None
