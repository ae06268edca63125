"""The records of the journal and of segments: their layout, writing them, walking over them.

All numbers are little-endian. A record begins with 24 octets that all kinds share:

    offset  size
       0     4    size of the whole record
       4     1    kind: 1 publish, 2 settled, 5 released, 8 appended, 16 kept
       5     1    flags: 1 persistent, 2 the body is in the message store, 4 was handed out before;
                  of settled ones 1: the bodies are still owed to the message store (`index.py`),
                  2: nobody knows what they referred to there; of kept ones 1: their bodies are owed
                  from now on, 2: nobody knows what those below the floor referred to
       6     2    size of the tail
       8     8    queue (its incarnation: never given twice in a data folder)
      16     8    sequence id, of a run its first

*publish* goes on with

      24     8    time of the publish, wall clock, microseconds
      32     8    time it expires, wall clock, microseconds; 0 is never
      40     4    size of the property octets
      44     4    size of the hidden keys
      48     8    size of the body
      56     8    what `protocol.properties.scan` and the queue found out about it
      64          tail (exchange and routing key, two short strings), properties, hidden keys, body

where the hidden keys (BCC) are short strings one after the other, and of a body in the message
store there are 16 octets instead: its file and its number in that file.

*settled* goes on with

      24     8    how many sequence ids from the first one on are settled
      32     8    the octets of their bodies together

*released* and *appended* are about the message store (`body_store.py`); in place of the queue they
have the number of a file of it, in place of the sequence id that of a record in it, and go on with

      24     8    how many records from the first one on
      32     8    released: zero; appended: where in the file the first one is
      40          appended: of each record its size, four octets

*kept* says what of a queue stays readable when it is settled; the sequence id is the floor, and
everything below it is gone with this record. It goes on with

      24     8    the id before which it is kept; the floor itself when nothing is kept any more
      32     8    zero

*released*: one reference to each of these bodies is gone. *Appended*: these bodies are in the file,
and were synced before the batch with this record was written.

A record has no checksum: the batch of the journal or the chunk of the segment that holds it has.
The same octets are valid in both, so checkpointing copies and does not encode.
"""

from typing import Final, final

from librt.strings import BytesWriter, read_i32_le, read_i64_le, write_i32_le, write_i64_le
from librt.vecs import vec
from mypy_extensions import i32, i64, mypyc_attr

PUBLISH: Final = 1
SETTLED: Final = 2
RELEASED: Final = 5
APPENDED: Final = 8
KEPT: Final = 16

PERSISTENT: Final = 1
STORED: Final = 2
AGAIN: Final = 4
# Flags of settled and of kept ones.
OWED: Final = 1
LEAKED: Final = 2

PUBLISH_SIZE: Final = 64
SETTLED_SIZE: Final = 40
STORED_SIZE: Final = 16


class RecordError(Exception):
    """Octets that are no records, where a checksum said that they are."""


@mypyc_attr(allow_interpreted_subclasses=True)
class RecordSink:
    """Whoever walks over records: is told of each."""

    def on_publish(self, queue: i64, seq: i64, position: i64, size: i64, data: bytes) -> None:
        """A publish record of `size` octets at `position` in `data`."""

    def on_settled(self, queue: i64, seq: i64, count: i64, size: i64, position: i64) -> None:
        """These, with `size` octets of bodies, are settled."""

    def on_owed(self, queue: i64, seq: i64, count: i64, size: i64, position: i64) -> None:
        """The same, but their bodies in the message store are not released yet."""

    def on_leaked(self, queue: i64, seq: i64, position: i64) -> None:
        """So are those that the last call was about, and their bodies are never released."""

    def on_kept(self, queue: i64, floor: i64, end: i64, flags: i64, position: i64) -> None:
        """The queue keeps what is settled from the floor to before an id, and nothing below it."""

    def on_released(self, file: i64, first: i64, count: i64, position: i64) -> None:
        """A reference to each of these bodies is gone."""

    def on_appended(self, file: i64, first: i64, count: i64, position: i64, data: bytes) -> None:
        """The message store has these bodies."""


def write_publish(
    writer: BytesWriter,
    queue: i64,
    seq: i64,
    flags: i64,
    at_us: i64,
    expires_us: i64,
    tail: bytes,
    props: bytes,
    hidden: bytes,
    body_size: i64,
    traits: i64,
    held: i64,
) -> i64:
    """Write a publish record up to its body, of which `held` octets follow; return its size."""
    tail_size: i64 = len(tail)
    props_size: i64 = len(props)
    hidden_size: i64 = len(hidden)
    size = PUBLISH_SIZE + tail_size + props_size + hidden_size + held
    write_i64_le(writer, size | (PUBLISH << 32) | (flags << 40) | (tail_size << 48))
    write_i64_le(writer, queue)
    write_i64_le(writer, seq)
    write_i64_le(writer, at_us)
    write_i64_le(writer, expires_us)
    write_i64_le(writer, props_size | (hidden_size << 32))
    write_i64_le(writer, body_size)
    write_i64_le(writer, traits)
    writer.write(tail)
    writer.write(props)
    if hidden_size > 0:
        writer.write(hidden)
    return size


def write_settled(
    writer: BytesWriter, queue: i64, seq: i64, count: i64, size: i64, flags: i64 = 0
) -> None:
    write_i64_le(writer, SETTLED_SIZE | (SETTLED << 32) | (flags << 40))
    write_i64_le(writer, queue)
    write_i64_le(writer, seq)
    write_i64_le(writer, count)
    write_i64_le(writer, size)


def write_kept(writer: BytesWriter, queue: i64, floor: i64, end: i64, flags: i64) -> None:
    write_i64_le(writer, SETTLED_SIZE | (KEPT << 32) | (flags << 40))
    write_i64_le(writer, queue)
    write_i64_le(writer, floor)
    write_i64_le(writer, end)
    write_i64_le(writer, 0)


def write_released(writer: BytesWriter, file: i64, first: i64, count: i64) -> None:
    write_i64_le(writer, SETTLED_SIZE | (RELEASED << 32))
    write_i64_le(writer, file)
    write_i64_le(writer, first)
    write_i64_le(writer, count)
    write_i64_le(writer, 0)


def write_appended(
    writer: BytesWriter, file: i64, first: i64, offset: i64, sizes: vec[i64], begin: i64
) -> None:
    """Write where the bodies are whose sizes stand from `begin` on."""
    count = i64(len(sizes)) - begin
    write_i64_le(writer, (SETTLED_SIZE + 4 * count) | (APPENDED << 32))
    write_i64_le(writer, file)
    write_i64_le(writer, first)
    write_i64_le(writer, count)
    write_i64_le(writer, offset)
    while begin < len(sizes):
        write_i32_le(writer, i32(sizes[begin]))
        begin += 1


def walk(data: bytes, pos: i64, end: i64, sink: RecordSink) -> None:
    """Tell the sink of every record between two positions."""
    while pos < end:
        if end - pos < SETTLED_SIZE:
            raise RecordError(f"{end - pos} octets are left for a record")
        word = read_i64_le(data, pos)
        size = word & 0xFFFFFFFF
        kind = (word >> 32) & 0xFF
        if size < SETTLED_SIZE or size > end - pos:
            raise RecordError(f"a record of {size} octets where {end - pos} are left")
        queue = read_i64_le(data, pos + 8)
        seq = read_i64_le(data, pos + 16)
        if kind == PUBLISH:
            if size < PUBLISH_SIZE:
                raise RecordError(f"a publish of {size} octets")
            sink.on_publish(queue, seq, pos, size, data)
        elif kind == SETTLED:
            _settled((word >> 40) & 0xFF, queue, seq, pos, data, sink)
        elif kind == RELEASED:
            sink.on_released(queue, seq, read_i64_le(data, pos + 24), pos)
        elif kind == APPENDED:
            count = read_i64_le(data, pos + 24)
            if count < 0 or size != SETTLED_SIZE + 4 * count:
                raise RecordError(f"{count} bodies in a record of {size} octets")
            sink.on_appended(queue, seq, count, pos, data)
        elif kind == KEPT:
            end_seq = read_i64_le(data, pos + 24)
            sink.on_kept(queue, seq, end_seq, (word >> 40) & 0xFF, pos)
        else:
            raise RecordError(f"a record of kind {kind}")
        pos += size


def _settled(flags: i64, queue: i64, seq: i64, pos: i64, data: bytes, sink: RecordSink) -> None:
    count = read_i64_le(data, pos + 24)
    size = read_i64_le(data, pos + 32)
    if flags & OWED:
        sink.on_owed(queue, seq, count, size, pos)
        return
    sink.on_settled(queue, seq, count, size, pos)
    if flags & LEAKED:
        sink.on_leaked(queue, seq, pos)


def body_size_at(data: bytes, pos: i64) -> i64:
    """The size of the body of the publish record at a position."""
    return read_i64_le(data, pos + 48)


def expires_at(data: bytes, pos: i64) -> i64:
    """When the message of the publish record at a position expires; 0 is never."""
    return read_i64_le(data, pos + 32)


def at_us_at(data: bytes, pos: i64) -> i64:
    """When the message of the publish record at a position was published."""
    return read_i64_le(data, pos + 24)


def place_at(data: bytes, pos: i64) -> i64:
    """Where the message store has the body of the publish record at a position; 0 is nowhere."""
    word = read_i64_le(data, pos)
    if (word >> 40) & STORED == 0:
        return 0
    at = pos + (word & 0xFFFFFFFF) - STORED_SIZE
    return pack_place(read_i64_le(data, at), read_i64_le(data, at + 8))


def pack_place(file: i64, number: i64) -> i64:
    """A file of the message store and a number in it, as one number that is not 0."""
    return (file << 32) | (number + 1)


@final
class Publish:
    """A publish record, taken apart.

    The body of one that is `STORED` is not in the record: `place` says where the message store has
    it, and whoever read it there puts it into `body`.
    """

    def __init__(self, data: bytes, pos: i64) -> None:
        word = read_i64_le(data, pos)
        size = word & 0xFFFFFFFF
        self.flags: i64 = (word >> 40) & 0xFF
        tail_size = (word >> 48) & 0xFFFF
        self.seq = read_i64_le(data, pos + 16)
        self.at_us = read_i64_le(data, pos + 24)
        self.expires_us = read_i64_le(data, pos + 32)
        props_size: i64 = i64(read_i32_le(data, pos + 40))
        hidden_size: i64 = i64(read_i32_le(data, pos + 44))
        self.body_size = read_i64_le(data, pos + 48)
        self.traits = read_i64_le(data, pos + 56)
        at = pos + PUBLISH_SIZE
        end = pos + size
        if props_size < 0 or hidden_size < 0 or at + tail_size + props_size + hidden_size > end:
            raise RecordError("the parts of a publish are larger than it")
        self.tail = data[at : at + tail_size]
        at += tail_size
        self.props = data[at : at + props_size]
        at += props_size
        self.hidden = data[at : at + hidden_size]
        at += hidden_size
        self.place: i64 = 0
        if self.flags & STORED:
            if end - at != STORED_SIZE:
                raise RecordError("a publish whose body is stored says nowhere where")
            self.place = pack_place(read_i64_le(data, at), read_i64_le(data, at + 8))
            at = end
        self.body = data[at:end]


def join_keys(keys: list[bytes]) -> bytes:
    """Hidden keys as they are written."""
    return b"".join([bytes((len(key),)) + key for key in keys])


def split_keys(data: bytes) -> list[bytes]:
    """The hidden keys of a record."""
    keys: list[bytes] = []
    pos = 0
    while pos < len(data):
        size = data[pos]
        keys.append(data[pos + 1 : pos + 1 + size])
        pos += 1 + size
    return keys
