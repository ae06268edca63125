"""The state log: what the segment files hold, and from where on the journal counts.

`state/N.log` is written like a journal (`batch.py`): every checkpoint appends one batch, with a
record for each queue it touched and one that says from which lsn on the journal has to be replayed.
Of a queue the last record counts. The files of one checkpoint are synced before its batch is
written, and what becomes superfluous by it (journal files, segment files) is removed after the
batch is synced; so at any moment the last whole batch, and what it names, is there.

When the log has grown to several times what is still valid in it, everything valid is written as
the first batch of `state/N+1.log`; when that is synced the old file is removed.

Records begin like those of the journal: size, kind, incarnation of the queue. All numbers have
eight octets, little-endian, unless it says otherwise.

*queue* (kind 3) after 24 octets, of which the last eight are the next sequence id:

    disk_seq (ids below are in segment files), live ids, octets of their bodies, lsn at which this
    was true, ids with a body in the message store, flags, number of ranges that owe, number of
    segments; with the flag 2 the first id that is kept and the one before which ids are; of each
    range its first id and the one behind its last; of each segment: its number, the id behind its
    last, live ids, size of the file, number of chunks, numbers of octets of the bitmaps of settled
    and of stored ones; with the flag 2 when its first id entered, how many entered from the floor
    on, and their octets; then chunks (first id, last id, offset, size) and bitmaps

*replay* (kind 4): in place of the sequence id the lsn.
*handed out* (kind 6), only at a clean stop: number of runs, then first id and count of each; the
    messages among the live ones that come back as redelivered.
*file* (kind 9) is about a file of the message store (`body_store.py`), whose number it has in place
    of the incarnation, and in place of the sequence id the lsn at which this was true: the file on
    the disk that has its bodies, its mark, octets of all records in it, number of bodies; then,
    four octets each, where they begin, where the last one ends, and how many references each has. A
    file of the disk that several of these name was written by a compaction.
*no file* (kind 10), likewise, from that lsn on: it is no more.
*next file* (kind 11): in place of the sequence id the number from which on there was no file.
*leaked* (kind 12): references to bodies were lost with damaged records; all are counted at the next
    start.
*clean* (kind 7): in place of the sequence id the lsn at which the node stopped. It counts only if
    the journal ends there.
"""

from typing import Final

from librt.strings import BytesWriter, read_i32_le, read_i64_le, write_i32_le, write_i64_le
from librt.vecs import append, vec
from mypy_extensions import i32, i64, u8

from warren.store.batch import FormatError
from warren.store.body_store import BodyFile, Home
from warren.store.index import QueueIndex, Segment
from warren.store.journal import Journal

QUEUE: Final = 3
REPLAY: Final = 4
HANDED_OUT: Final = 6
CLEAN: Final = 7
FILE: Final = 9
NO_FILE: Final = 10
NEXT_FILE: Final = 11
LEAKED: Final = 12

HEAD: Final = 24
# What is true of a queue: some message in it has an expiry; it has a history.
EXPIRES: Final = 1
KEEPS: Final = 2


def _finish(kind: int, ident: int, value: int, rest: bytes = b"") -> bytes:
    head = (HEAD + len(rest)) | (kind << 32)
    return (
        head.to_bytes(8, "little")
        + ident.to_bytes(8, "little")
        + value.to_bytes(8, "little")
        + rest
    )


def encode_mark(kind: int, ident: int, value: int) -> bytes:
    """A record without a rest: replay, gone, clean."""
    return _finish(kind, ident, value)


def encode_runs(ident: int, runs: list[tuple[int, int]]) -> bytes:
    """The messages that were handed out when the node stopped."""
    rest = len(runs).to_bytes(8, "little") + b"".join(
        first.to_bytes(8, "little") + count.to_bytes(8, "little") for first, count in runs
    )
    return _finish(HANDED_OUT, ident, 0, rest)


def decode_runs(data: bytes, pos: int) -> list[tuple[int, int]]:
    count = int.from_bytes(data[pos + HEAD : pos + HEAD + 8], "little")
    at = pos + HEAD + 8
    return [
        (
            int.from_bytes(data[at + 16 * index : at + 16 * index + 8], "little"),
            int.from_bytes(data[at + 16 * index + 8 : at + 16 * index + 16], "little"),
        )
        for index in range(count)
    ]


def encode_queue(index: QueueIndex, lsn: i64) -> bytes:
    """Everything there is to say about a queue; what it settled is written before."""
    writer = BytesWriter()
    write_i64_le(writer, index.disk_seq)
    write_i64_le(writer, index.live)
    write_i64_le(writer, index.live_bytes)
    write_i64_le(writer, lsn)
    write_i64_le(writer, index.stored_live)
    keeps = index.kept_from < index.kept_to
    write_i64_le(writer, (EXPIRES if index.expires else 0) | (KEEPS if keeps else 0))
    write_i64_le(writer, len(index.owed) >> 1)
    write_i64_le(writer, len(index.segments))
    if keeps:
        write_i64_le(writer, index.kept_from)
        write_i64_le(writer, index.kept_to)
    for number in index.owed:
        write_i64_le(writer, number)
    for segment in index.segments.values():
        write_i64_le(writer, segment.number)
        write_i64_le(writer, segment.end)
        write_i64_le(writer, segment.live)
        write_i64_le(writer, segment.size)
        write_i64_le(writer, len(segment.chunks) >> 2)
        write_i64_le(writer, len(segment.settled))
        write_i64_le(writer, len(segment.stored))
        if keeps:
            write_i64_le(writer, segment.at_us)
            write_i64_le(writer, segment.entered)
            write_i64_le(writer, segment.octets)
        for number in segment.chunks:
            write_i64_le(writer, number)
        for octet in segment.settled:
            writer.append(int(octet))
        for octet in segment.stored:
            writer.append(int(octet))
    return _finish(QUEUE, int(index.ident), int(index.next_seq), writer.getvalue())


def stored_live_of(record: bytes) -> i64:
    """How many messages of the queue with this record have their body in the message store."""
    return read_i64_le(record, HEAD + 32)


def keeps_of(record: bytes) -> bool:
    """Whether the queue with this record has a history."""
    return read_i64_le(record, HEAD + 40) & KEEPS != 0


def decode_queue(data: bytes, pos: i64, journal: Journal) -> tuple[QueueIndex, i64]:
    """A queue as its record has it, and the lsn at which that was true."""
    end = pos + (read_i64_le(data, pos) & 0xFFFFFFFF)
    index = QueueIndex(read_i64_le(data, pos + 8), journal)
    index.next_seq = read_i64_le(data, pos + 16)
    at = pos + HEAD
    index.disk_seq = read_i64_le(data, at)
    index.live = read_i64_le(data, at + 8)
    index.live_bytes = read_i64_le(data, at + 16)
    lsn = read_i64_le(data, at + 24)
    index.stored_live = read_i64_le(data, at + 32)
    flags = read_i64_le(data, at + 40)
    index.expires = flags & EXPIRES != 0
    ranges = read_i64_le(data, at + 48) << 1
    left = read_i64_le(data, at + 56)
    at += 64
    keeps = flags & KEEPS != 0
    if keeps:
        index.kept_from = read_i64_le(data, at)
        index.kept_to = read_i64_le(data, at + 8)
        at += 16
    if at + ranges * 8 > end:
        raise FormatError("a queue's record is longer than it says")
    while ranges > 0:
        index.owed = append(index.owed, read_i64_le(data, at))
        at += 8
        ranges -= 1
    _decode_segments(index, data, at, end, left, keeps)
    return index, lsn


def _decode_segments(
    index: QueueIndex, data: bytes, at: i64, end: i64, left: i64, keeps: bool
) -> None:
    last: Segment | None = None
    while left > 0:
        segment = Segment(read_i64_le(data, at))
        segment.end = read_i64_le(data, at + 8)
        segment.live = read_i64_le(data, at + 16)
        segment.size = read_i64_le(data, at + 24)
        numbers = read_i64_le(data, at + 32) << 2
        octets = read_i64_le(data, at + 40)
        more = read_i64_le(data, at + 48)
        at += 56
        if keeps:
            segment.at_us = read_i64_le(data, at)
            segment.entered = read_i64_le(data, at + 8)
            segment.octets = read_i64_le(data, at + 16)
            at += 24
        if at + numbers * 8 + octets + more > end:
            raise FormatError("a queue's record is longer than it says")
        chunks = vec[i64](capacity=numbers)
        while numbers > 0:
            chunks = append(chunks, read_i64_le(data, at))
            at += 8
            numbers -= 1
        segment.chunks = chunks
        segment.settled = _octets(data, at, octets)
        segment.stored = _octets(data, at + octets, more)
        at += octets + more
        index.segments[int(segment.number)] = segment
        if last is None or segment.number > last.number:
            last = segment
        left -= 1
    index.last = last


def _octets(data: bytes, at: i64, count: i64) -> vec[u8]:
    found = vec[u8](capacity=count)
    while count > 0:
        found = append(found, u8(data[at]))
        at += 1
        count -= 1
    return found


def encode_file(file: BodyFile, lsn: i64) -> bytes:
    """Everything there is to say about a file of the message store."""
    writer = BytesWriter()
    write_i64_le(writer, file.home.number)
    write_i64_le(writer, file.home.mark)
    write_i64_le(writer, file.home.size)
    write_i64_le(writer, len(file.refs))
    for offset in file.offsets:
        write_i32_le(writer, offset)
    for count in file.refs:
        write_i32_le(writer, count)
    return _finish(FILE, int(file.number), int(lsn), writer.getvalue())


def decode_file(data: bytes, pos: i64) -> tuple[BodyFile, i64]:
    """A file as its record has it, in a home that has nothing else, and when that was true."""
    end = pos + (read_i64_le(data, pos) & 0xFFFFFFFF)
    at = pos + HEAD
    home = Home(read_i64_le(data, at), read_i64_le(data, at + 8))
    home.size = read_i64_le(data, at + 16)
    file = BodyFile(read_i64_le(data, pos + 8), home)
    count = read_i64_le(data, at + 24)
    at += 32
    if count < 0 or at + 8 * count + 4 != end:
        raise FormatError("a file's record has not the size that it says")
    offsets = vec[i32](capacity=count + 1)
    left = count + 1
    while left > 0:
        offsets = append(offsets, read_i32_le(data, at))
        at += 4
        left -= 1
    refs = vec[i32](capacity=count)
    left = count
    while left > 0:
        refs = append(refs, read_i32_le(data, at))
        at += 4
        left -= 1
    file.offsets = offsets
    file.refs = refs
    return file, read_i64_le(data, pos + 16)
