"""How batches of records stand in a journal file, and how they are found again after a crash.

A journal is one stream of octets cut into files `journal/N.jnl`. A position in the stream, an
*lsn*, never changes and never comes twice. A file begins with 32 octets:

    offset  size
       0     8    "WRNJRNL" and the version of the format, 1
       8     8    number of the file
      16     8    lsn of its first batch: the octet of lsn x is at 32 + x - this
      24     4    chain: the checksum of the last batch header in the file before
      28     4    checksum of the 28 octets before

and goes on with batches, each of 40 octets and a payload of whole records (`record.py`):

       0     4    "WBAT"
       4     4    checksum of the payload
       8     8    number of the batch, one more than that of the batch before
      16     8    size of the payload
      24     8    lsn of this batch
      32     4    chain: the checksum at 36 of the batch before
      36     4    checksum of the 36 octets before

A batch is written with one call and synced before anybody hears that its records are safe, and
the next one is written after that. So after a crash the last batch may be torn: it is cut off, and
nobody was told of anything in it. A batch that is not whole but has a whole one behind it is
*damage*: its records are lost, which is reported and not hidden. All checksums are CRC-32.
"""

import zlib
from dataclasses import dataclass, field
from typing import Final

FILE_MAGIC: Final = b"WRNJRNL\x01"
FILE_HEADER: Final = 32
BATCH_MAGIC: Final = b"WBAT"
BATCH_HEADER: Final = 40


class FormatError(Exception):
    """A file of the store is not what it should be."""


@dataclass(frozen=True, slots=True)
class FileHeader:
    number: int
    lsn: int
    chain: int

    def encode(self) -> bytes:
        body = (
            FILE_MAGIC
            + self.number.to_bytes(8, "little")
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
        int.from_bytes(data[8:16], "little"),
        int.from_bytes(data[16:24], "little"),
        int.from_bytes(data[24:28], "little"),
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


def encode_batch_header(number: int, lsn: int, chain: int, parts: list[bytes]) -> bytes:
    """The header of a batch whose payload is these parts."""
    total = 0
    payload_sum = 0
    for part in parts:
        payload_sum = zlib.crc32(part, payload_sum)
        total += len(part)
    body = (
        BATCH_MAGIC
        + payload_sum.to_bytes(4, "little")
        + number.to_bytes(8, "little")
        + total.to_bytes(8, "little")
        + lsn.to_bytes(8, "little")
        + chain.to_bytes(4, "little")
    )
    return body + zlib.crc32(body).to_bytes(4, "little")


def decode_batch_header(data: bytes, pos: int) -> BatchHeader | None:
    """The batch header at a position, if a whole one is there."""
    head = data[pos : pos + BATCH_HEADER]
    if len(head) < BATCH_HEADER or head[:4] != BATCH_MAGIC:
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
    batches: list[BatchHeader] = field(default_factory=list)
    end: int = 0
    chain: int = 0
    number: int = 0
    torn: int = 0
    damages: list[Damage] = field(default_factory=list)


def scan_file(data: bytes, number: int) -> Scan:
    """Find the whole batches of a file; `number` is that of the last batch before it."""
    header = decode_file_header(data)
    found = Scan(header, end=header.lsn, chain=header.chain, number=number)
    pos = FILE_HEADER
    while pos < len(data):
        batch = _whole_batch(data, pos, found)
        if batch is not None:
            _take(found, batch)
            pos += BATCH_HEADER + batch.size
            continue
        following = _find_behind(data, pos, found)
        if following is None:
            found.torn = len(data) - pos
            break
        at, batch = following
        found.damages.append(
            Damage(header.number, found.end, at - pos, "a batch before a whole one is not whole")
        )
        found.chain = batch.chain
        _take(found, batch)
        pos = at + BATCH_HEADER + batch.size
    return found


def _take(found: Scan, batch: BatchHeader) -> None:
    found.batches.append(batch)
    found.end = batch.end()
    found.chain = batch.own_sum
    found.number = batch.number


def _whole_batch(data: bytes, pos: int, found: Scan) -> BatchHeader | None:
    """The batch at a position, if it is whole and the one that has to come next."""
    batch = decode_batch_header(data, pos)
    if batch is None or batch.chain != found.chain or batch.lsn != found.end:
        return None
    if found.number and batch.number != found.number + 1:
        return None
    return batch if _payload_holds(data, pos, batch) else None


def _payload_holds(data: bytes, pos: int, batch: BatchHeader) -> bool:
    start = pos + BATCH_HEADER
    if start + batch.size > len(data):
        return False
    return zlib.crc32(memoryview(data)[start : start + batch.size]) == batch.payload_sum


def _find_behind(data: bytes, pos: int, found: Scan) -> tuple[int, BatchHeader] | None:
    """The next whole batch of this file behind something that is none."""
    at = data.find(BATCH_MAGIC, pos + 1)
    while at >= 0:
        batch = decode_batch_header(data, at)
        if (
            batch is not None
            and batch.number > found.number
            and batch.lsn == found.header.lsn + at - FILE_HEADER
            and _payload_holds(data, at, batch)
        ):
            return at, batch
        at = data.find(BATCH_MAGIC, at + 1)
    return None
