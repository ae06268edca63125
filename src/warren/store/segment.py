"""How messages of one queue stand in its segment files, and how a chunk of them is read.

`queues/<incarnation>/N.idx` has the messages with the ids from 16384 N on that lived long enough to
be checkpointed out of the journal. It begins with 32 octets:

    offset  size
       0     8    "WRNSEGM" and the version of the format, 1
       8     8    incarnation of the queue
      16     8    number of the segment
      24     4    zero
      28     4    checksum of the 28 octets before

and goes on with chunks in the order of their ids, each of 40 octets and publish records
(`record.py`):

       0     4    "WCHK"
       4     4    checksum of the records
       8     8    first id
      16     8    last id
      24     8    size of the records
      32     4    how many
      36     4    checksum of the 36 octets before

Chunks are only appended, and what the state log (`state.py`) does not know of is not there: a crash
between the append and the entry in the state log leaves octets that the next append overwrites.
A chunk is the unit of reading: it is small, and its checksum is looked at each time.
"""

import zlib
from typing import Final

from warren.store.batch import FormatError

FOLDER: Final = "queues"
FILE_MAGIC: Final = b"WRNSEGM\x01"
FILE_HEADER: Final = 32
CHUNK_MAGIC: Final = b"WCHK"
CHUNK_HEADER: Final = 40
# Records are added to a chunk up to this size.
CHUNK_SIZE: Final = 128 * 1024


def queue_folder(ident: int) -> str:
    return f"{FOLDER}/{ident:016x}"


def segment_path(ident: int, number: int) -> str:
    return f"{FOLDER}/{ident:016x}/{number}.idx"


def file_header(ident: int, number: int) -> bytes:
    body = FILE_MAGIC + ident.to_bytes(8, "little") + number.to_bytes(8, "little") + bytes(4)
    return body + zlib.crc32(body).to_bytes(4, "little")


def chunk_header(first: int, last: int, count: int, parts: list[bytes]) -> bytes:
    """The header of a chunk with so many records, of which these parts consist."""
    payload_sum = 0
    size = 0
    for part in parts:
        payload_sum = zlib.crc32(part, payload_sum)
        size += len(part)
    body = (
        CHUNK_MAGIC
        + payload_sum.to_bytes(4, "little")
        + first.to_bytes(8, "little")
        + last.to_bytes(8, "little")
        + size.to_bytes(8, "little")
        + count.to_bytes(4, "little")
    )
    return body + zlib.crc32(body).to_bytes(4, "little")


def check_chunk(data: bytes, size: int) -> None:
    """Raise unless these octets are a whole chunk of this size, its header included."""
    if len(data) != size:
        raise FormatError(f"a chunk of {size} octets ends after {len(data)}")
    if data[:4] != CHUNK_MAGIC:
        raise FormatError("no chunk is where one should be")
    if zlib.crc32(data[:36]) != int.from_bytes(data[36:40], "little"):
        raise FormatError("the checksum of a chunk's header is wrong")
    if zlib.crc32(memoryview(data)[CHUNK_HEADER:]) != int.from_bytes(data[4:8], "little"):
        raise FormatError("the checksum of a chunk is wrong")
