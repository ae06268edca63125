"""Frames: type, channel, size, payload, end octet (WI-1), and contents cut into frames (WI-2).

`frame` and `content_frames` write the cold paths; the broker's deliveries go through `output.py`.
`FrameSplitter` reads for clients; the broker's receive loop splits in place. A splitter holds at
most one unfinished frame: `payload_max` octets and the 8 around them.
"""

from typing import Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64

from warren.core.reply import FRAME_ERROR
from warren.protocol.value import binary_text
from warren.protocol.wire import DecodeError, put_u8, put_u16, put_u32, put_u64, read_u16, read_u32

FRAME_METHOD: Final = 1
FRAME_HEADER: Final = 2
FRAME_BODY: Final = 3
FRAME_HEARTBEAT: Final = 8
FRAME_END: Final = 0xCE
FRAME_OVERHEAD: Final = 8
FRAME_MIN_SIZE: Final = 4096
PROTOCOL_HEADER: Final = b"AMQP\x00\x00\x09\x01"
HEARTBEAT_FRAME: Final = b"\x08\x00\x00\x00\x00\x00\x00\xce"

_HEAD_SIZE: Final = 7
_CLASS_BASIC: Final = 60
# As many octets of a bad frame as RabbitMQ shows in the reply text.
_SNIPPET_OCTETS: Final = 16


@final
class RawFrame:
    """One frame as it was cut out of the stream."""

    def __init__(self, kind: int, channel: int, payload: bytes) -> None:
        self.kind: int = kind
        self.channel: int = channel
        self.payload: bytes = payload

    def __repr__(self) -> str:
        return f"RawFrame({self.kind}, {self.channel}, {self.payload!r})"


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    """Return one frame."""
    out = BytesWriter()
    _put_frame(out, kind, channel, payload)
    return out.getvalue()


def header_payload(body_size: int, props: bytes) -> bytes:
    """Return the payload of a content header of class basic."""
    out = BytesWriter()
    put_u16(out, _CLASS_BASIC)
    put_u16(out, 0)
    put_u64(out, body_size)
    out.write(props)
    return out.getvalue()


def content_frames(
    channel: int, method_payload: bytes, props: bytes, body: bytes, frame_max: int
) -> bytes:
    """Return the frames of a method with content; a `frame_max` of 0 does not split the body."""
    out = BytesWriter()
    _put_frame(out, FRAME_METHOD, channel, method_payload)
    _put_frame(out, FRAME_HEADER, channel, header_payload(len(body), props))
    size = len(body)
    step = size if frame_max == 0 else frame_max - FRAME_OVERHEAD
    at = 0
    while at < size:
        _put_frame(out, FRAME_BODY, channel, body[at : at + step])
        at += step
    return out.getvalue()


def _put_frame(out: BytesWriter, kind: int, channel: int, payload: bytes) -> None:
    put_u8(out, kind)
    put_u16(out, channel)
    put_u32(out, len(payload))
    out.write(payload)
    out.append(FRAME_END)


def snippet_text(kind: int, payload: bytes) -> str:
    """Return how reply texts show a frame that cannot be used: its type and first octets."""
    if len(payload) <= _SNIPPET_OCTETS:
        return f"type {kind}, all octets = {binary_text(payload)}"
    return f"type {kind}, first 16 octets = {binary_text(payload[:_SNIPPET_OCTETS])}"


@final
class FrameSplitter:
    """Cuts a stream of octets into frames; after a `DecodeError` the stream cannot be used."""

    def __init__(self, payload_max: int = 131072) -> None:
        self.payload_max: int = payload_max
        self._held = bytearray()
        self._wanted: i64 = _HEAD_SIZE

    def feed(self, data: bytes) -> list[RawFrame]:
        """Return the frames completed by these octets."""
        if self._held:
            self._held += data
            if len(self._held) < self._wanted:
                return []
            data = bytes(self._held)
            self._held.clear()
        frames: list[RawFrame] = []
        pos: i64 = 0
        size: i64 = len(data)
        while True:
            self._wanted = self._frame_size(data, pos, size)
            if size - pos < self._wanted:
                break
            frames.append(self._frame(data, pos, pos + self._wanted))
            pos += self._wanted
        if pos < size:
            self._held += data[pos:]
        return frames

    def held_size(self) -> int:
        """Return how many octets of an unfinished frame are held."""
        return len(self._held)

    def _frame_size(self, data: bytes, pos: i64, size: i64) -> i64:
        if size - pos < _HEAD_SIZE:
            return _HEAD_SIZE
        kind: i64 = data[pos]
        payload_size = read_u32(data, pos + 3)
        if payload_size > self.payload_max:
            shown = snippet_text(kind, data[pos + _HEAD_SIZE : size])
            reason = f"{{frame_too_large,{payload_size},{self.payload_max}}}"
            raise DecodeError(FRAME_ERROR, f"{shown}: {reason}")
        return payload_size + FRAME_OVERHEAD

    def _frame(self, data: bytes, pos: i64, after: i64) -> RawFrame:
        kind: i64 = data[pos]
        payload = data[pos + _HEAD_SIZE : after - 1]
        end_octet: i64 = data[after - 1]
        if end_octet != FRAME_END:
            reason = f"{{invalid_frame_end_marker,{end_octet}}}"
            raise DecodeError(FRAME_ERROR, f"{snippet_text(kind, payload)}: {reason}")
        if kind not in (FRAME_BODY, FRAME_METHOD, FRAME_HEADER, FRAME_HEARTBEAT):
            raise DecodeError(FRAME_ERROR, f"{snippet_text(kind, payload)}: unknown_frame")
        return RawFrame(kind, read_u16(data, pos + 1), payload)
