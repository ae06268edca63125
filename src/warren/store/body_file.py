"""How bodies stand in a file of the message store, and how one of them is checked.

`msg_store_persistent/N.rdq` has bodies of messages that are too large for the journal, each once,
whatever number of queues has the message (ST-4). A file begins with 32 octets:

    offset  size
       0     8    "WRNBODY" and the version of the format, 1
       8     8    number of the file
      16     4    its mark, with which each record begins
      20     8    zero
      28     4    checksum of the 28 octets before

and goes on with records, each of 24 octets and the body:

       0     4    the mark of the file
       4     4    checksum of the body
       8     4    the file that the body was first written to
      12     4    its number in that file
      16     4    size of the body
      20     4    checksum of the 20 octets before

A file is only appended to, and never changes once it is closed. A compaction writes another file
with the same records under its own mark: file and number in a record stay what they were, and so
does the *place* that queues know a body by. Checksums are CRC-32.

Which octets of a file count is said by the journal (`record.py`: appended) and the state log
(`state.py`: file). What is behind them was written by a commit that did not come to its end.
The mark is drawn anew for each life of a node, so that a client that publishes what looks like a
record cannot have it taken for one when files are looked through after damage.
"""

import zlib
from typing import TYPE_CHECKING, Final

from warren.store.batch import FormatError

if TYPE_CHECKING:
    from warren.core.seam import Files

FOLDER: Final = "msg_store_persistent"
FILE_MAGIC: Final = b"WRNBODY\x01"
FILE_HEADER: Final = 32
RECORD_HEADER: Final = 24


def body_path(number: int) -> str:
    return f"{FOLDER}/{number}.rdq"


def body_numbers(files: "Files") -> list[int]:
    """The numbers of the files that are on the disk."""
    stems = [name.removesuffix(".rdq") for name in files.names(FOLDER) if name.endswith(".rdq")]
    return sorted(int(stem) for stem in stems if stem.isdigit())


def file_header(number: int, mark: int) -> bytes:
    body = FILE_MAGIC + number.to_bytes(8, "little") + mark.to_bytes(4, "little") + bytes(8)
    return body + zlib.crc32(body).to_bytes(4, "little")


def read_mark(data: bytes, number: int) -> int:
    """The mark in the header of the file with this number; `FormatError` if that is damaged."""
    if len(data) < FILE_HEADER or data[:8] != FILE_MAGIC:
        raise FormatError("it does not begin like a file of the message store")
    if zlib.crc32(data[:28]) != int.from_bytes(data[28:32], "little"):
        raise FormatError("the checksum of its header is wrong")
    if int.from_bytes(data[8:16], "little") != number:
        raise FormatError("it is another file by its header")
    return int.from_bytes(data[16:20], "little")


def record_header(*, mark: int, file: int, number: int, size: int, body_sum: int) -> bytes:
    body = (
        mark.to_bytes(4, "little")
        + body_sum.to_bytes(4, "little")
        + file.to_bytes(4, "little")
        + number.to_bytes(4, "little")
        + size.to_bytes(4, "little")
    )
    return body + zlib.crc32(body).to_bytes(4, "little")


def decode_record_header(data: bytes) -> tuple[int, int, int, int]:
    """File, number, size of the body and its checksum; `FormatError` if these octets are none."""
    if len(data) < RECORD_HEADER or zlib.crc32(data[:20]) != int.from_bytes(data[20:24], "little"):
        raise FormatError("no record is where one should be")
    return (
        int.from_bytes(data[8:12], "little"),
        int.from_bytes(data[12:16], "little"),
        int.from_bytes(data[16:20], "little"),
        int.from_bytes(data[4:8], "little"),
    )


def check_record(data: bytes, *, file: int, number: int, size: int) -> bytes:
    """The body of this record, if these octets begin with it and it is whole."""
    found = decode_record_header(data[:RECORD_HEADER])
    if found[:3] != (file, number, size):
        raise FormatError("another record is where this one should be")
    body = data[RECORD_HEADER : RECORD_HEADER + size]
    if len(body) != size:
        raise FormatError(f"a body of {size} octets ends after {len(body)}")
    if zlib.crc32(body) != found[3]:
        raise FormatError("the checksum of a body is wrong")
    return body
