"""What waits to be written to one peer, and the pool of writers all connections of a loop share.

Owns the layout of outgoing content (AMQP 0-9-1 §4.2.6; spec WI-2) and the promise that an idle
connection holds no buffer: a writer is taken from the pool with the first octet of a loop turn and
given back when the turn's output is taken.

Invariant: the bytes to send are `parts` in order, then what `writer` holds. An `Output` that holds
a writer is in `Outbox.dirty` exactly once, or its link keeps it back (`hold`).
"""

from typing import Final, final

from librt.strings import BytesWriter, write_i32_be, write_i64_be
from mypy_extensions import i32, i64

# A body of this size is queued as it is instead of being copied into the writer: from here on the
# two copies cost more than one more entry in the list handed to sendmsg.
SHARED_BODY_MIN: Final = 16384

# Writers kept for reuse. More are only needed while that many peers have output in one turn.
WRITERS_MAX: Final = 32

FRAME_END: Final[i64] = 0xCE
# Frame end, body frame type, in the two top octets of a 64 bit word (as a signed number), so that
# end octet of the header frame and the 7 octets that open a body frame are one store.
END_AND_BODY: Final[i64] = (0xCE03 - 0x10000) << 48
# The same in front of a header frame.
END_AND_HEADER: Final[i64] = (0xCE02 - 0x10000) << 48
CLASS_BASIC_WORD: Final[i32] = 60 << 16


def deliver_method(consumer_tag: str) -> bytes:
    """A deliver method up to the delivery tag, without the first octet of its class id."""
    raw_tag = consumer_tag.encode()
    return b"\x3c\x00\x3c" + bytes((len(raw_tag),)) + raw_tag


@final
class Outbox:
    """The outputs touched in this loop turn, and the free writers."""

    def __init__(self) -> None:
        self.dirty: list[Output] = []
        self.writers: list[BytesWriter] = []

    def take_dirty(self) -> "list[Output]":
        """Hand out the outputs touched since the last call and start a new turn."""
        dirty = self.dirty
        self.dirty = []
        return dirty


@final
class Output:
    """Bytes for one peer. `owner` is whoever drives the socket; this class never looks at it."""

    def __init__(self, outbox: Outbox, bound: int) -> None:
        self.outbox = outbox
        self.writer: BytesWriter | None = None
        self.parts: list[bytes] = []
        self.parts_size: i64 = 0
        # Above this many unsent octets the consumers of this peer are passed over.
        self.bound: i64 = bound
        self.stalled = False
        self.owner: object = None
        # The peer's limit for the payload of one body frame.
        self.body_max: i64 = 4088
        self.octets_out: i64 = 0
        # Nothing leaves before this ticket of the metadata is committed.
        self.hold: i64 = 0
        # Nor before this batch of the journal is safe.
        self.hold_batch: i64 = 0
        # The peer has a part of `parts[0]`.
        self.torn = False

    def open(self) -> BytesWriter:
        """Return the writer, taking one from the pool with the first octet of a turn."""
        writer = self.writer
        if writer is not None:
            return writer
        outbox = self.outbox
        writer = outbox.writers.pop() if outbox.writers else BytesWriter()
        self.writer = writer
        outbox.dirty.append(self)
        return writer

    def size(self) -> i64:
        writer = self.writer
        if writer is None:
            return self.parts_size
        return self.parts_size + len(writer)

    def write(self, data: bytes) -> None:
        """Append ready-made frames."""
        self.open().write(data)

    def share(self, data: bytes) -> None:
        """Append bytes without copying them."""
        writer = self.open()
        if len(writer) > 0:
            piece = writer.getvalue()
            writer.truncate(0)
            self.parts.append(piece)
            self.parts_size += len(piece)
        self.parts.append(data)
        self.parts_size += len(data)

    def deliver(
        self,
        method: bytes,
        tag: i64,
        again: bool,
        channel: i64,
        tail: bytes,
        props: bytes,
        body: bytes,
    ) -> None:
        """Write one message: the three frames of a basic.deliver whose body came in one piece.

        `method` is `deliver_method(consumer_tag)`, `tail` exchange and routing key.
        """
        writer = self.writer
        if writer is None:
            writer = self.open()
        size: i64 = len(body)
        self._head(writer, method, tag, again, channel, tail, props, size)
        if size == 0:
            writer.append(0xCE)
            return
        if size > self.body_max:
            writer.append(0xCE)
            self.body_frames(channel, [body], size)
            return
        write_i64_be(writer, END_AND_BODY | (channel << 32) | size)
        if size >= SHARED_BODY_MIN:
            self.share(body)
        else:
            writer.write(body)
        writer.append(0xCE)

    def deliver_chunks(
        self,
        method: bytes,
        tag: i64,
        again: bool,
        channel: i64,
        tail: bytes,
        props: bytes,
        chunks: list[bytes],
    ) -> None:
        """Write one message whose body came in several pieces; frames are filled all the same."""
        writer = self.open()
        size: i64 = 0
        for chunk in chunks:
            size += len(chunk)
        self._head(writer, method, tag, again, channel, tail, props, size)
        writer.append(0xCE)
        self.body_frames(channel, chunks, size)

    def _head(
        self,
        writer: BytesWriter,
        method: bytes,
        tag: i64,
        again: bool,
        channel: i64,
        tail: bytes,
        props: bytes,
        size: i64,
    ) -> None:
        """Write the method frame and the header frame but for its end octet."""
        method_size: i64 = len(method) + 10 + len(tail)
        # Type, channel, size, and the first octet of the class id.
        write_i64_be(writer, (1 << 56) | (channel << 40) | (method_size << 8))
        writer.write(method)
        write_i64_be(writer, tag)
        writer.append(1 if again else 0)
        writer.write(tail)
        props_size: i64 = len(props)
        # Frame end, type, channel and size of the header frame; then class, weight, body size.
        write_i64_be(writer, END_AND_HEADER | (channel << 32) | (12 + props_size))
        write_i32_be(writer, CLASS_BASIC_WORD)
        write_i64_be(writer, size)
        writer.write(props)

    def body_frames(self, channel: i64, chunks: list[bytes], size: i64) -> None:
        """Write the body frames of a content of `size` octets, as large as the peer takes."""
        writer = self.open()
        limit = self.body_max
        room: i64 = 0
        for chunk in chunks:
            length: i64 = len(chunk)
            pos: i64 = 0
            while pos < length:
                if room == 0:
                    room = min(size, limit)
                    size -= room
                    writer.append(3)
                    writer.append((channel >> 8) & 0xFF)
                    writer.append(channel & 0xFF)
                    writer.append((room >> 24) & 0xFF)
                    writer.append((room >> 16) & 0xFF)
                    writer.append((room >> 8) & 0xFF)
                    writer.append(room & 0xFF)
                count = length - pos
                if count > room:
                    count = room
                piece = chunk if count == length else chunk[pos : pos + count]
                if count >= SHARED_BODY_MIN:
                    self.share(piece)
                else:
                    writer.write(piece)
                pos += count
                room -= count
                if room == 0:
                    writer.append(0xCE)

    def take(self) -> list[bytes]:
        """Close the turn: give the writer back and return all that is to be sent, in order."""
        writer = self.writer
        if writer is not None:
            if len(writer) > 0:
                piece = writer.getvalue()
                writer.truncate(0)
                self.parts.append(piece)
                self.parts_size += len(piece)
            self.writer = None
            if len(self.outbox.writers) < WRITERS_MAX:
                self.outbox.writers.append(writer)
        return self.parts

    def sent(self, count: i64) -> None:
        """Drop the first `count` octets: they have left."""
        self.octets_out += count
        self.parts_size -= count
        parts = self.parts
        self.torn = self.parts_size != 0
        if not self.torn:
            self.parts = []
            return
        index = 0
        while count > 0:
            length: i64 = len(parts[index])
            if length > count:
                parts[index] = parts[index][count:]
                break
            count -= length
            index += 1
        if index > 0:
            del parts[:index]

    def discard(self) -> None:
        """Forget everything unsent: the peer is gone."""
        self.take()
        self.parts = []
        self.parts_size = 0
