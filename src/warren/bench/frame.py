"""Frames, methods and field tables that the load generator sends before and after the load.

The bytes are made here and not by `warren.protocol`: a tool that verifies the broker shares no
code with the broker's codec, so a mistake there cannot cancel itself out. AMQP 0-9-1 §2.3, §4.2.
"""

import struct
from collections.abc import Mapping

FieldValue = bool | int | str | Mapping[str, bool | int | str]

METHOD, HEADER, BODY = 1, 2, 3
FRAME_OVERHEAD = 8
PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"

START, START_OK = (10, 10), (10, 11)
TUNE, TUNE_OK = (10, 30), (10, 31)
OPEN, OPEN_OK = (10, 40), (10, 41)
CLOSE, CLOSE_OK = (10, 50), (10, 51)
BLOCKED, UNBLOCKED = (10, 60), (10, 61)
CHANNEL_OPEN, CHANNEL_OPEN_OK = (20, 10), (20, 11)
FLOW, FLOW_OK = (20, 20), (20, 21)
CHANNEL_CLOSE = (20, 40)
EXCHANGE_DECLARE, EXCHANGE_DECLARE_OK = (40, 10), (40, 11)
EXCHANGE_DELETE, EXCHANGE_DELETE_OK = (40, 20), (40, 21)
QUEUE_DECLARE, QUEUE_DECLARE_OK = (50, 10), (50, 11)
QUEUE_BIND, QUEUE_BIND_OK = (50, 20), (50, 21)
QUEUE_DELETE, QUEUE_DELETE_OK = (50, 40), (50, 41)
QOS, QOS_OK = (60, 10), (60, 11)
CONSUME, CONSUME_OK = (60, 20), (60, 21)
CANCEL = (60, 30)
PUBLISH = (60, 40)
CONFIRM_SELECT, CONFIRM_SELECT_OK = (85, 10), (85, 11)


def short_string(text: str) -> bytes:
    raw = text.encode()
    return bytes([len(raw)]) + raw


def long_string(raw: bytes) -> bytes:
    return struct.pack(">I", len(raw)) + raw


def field_value(value: FieldValue) -> bytes:
    """A field with its type letter, as RabbitMQ's clients choose it (t, I, l, S, F)."""
    if isinstance(value, bool):
        return b"t\x01" if value else b"t\x00"
    if isinstance(value, int):
        if -(2**31) <= value < 2**31:
            return struct.pack(">ci", b"I", value)
        return struct.pack(">cq", b"l", value)
    if isinstance(value, str):
        return b"S" + long_string(value.encode())
    return b"F" + table(value)


def table(fields: Mapping[str, FieldValue]) -> bytes:
    return long_string(
        b"".join(short_string(name) + field_value(value) for name, value in fields.items())
    )


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + b"\xce"


def method(channel: int, number: tuple[int, int], arguments: bytes = b"") -> bytes:
    """A method frame."""
    return frame(METHOD, channel, struct.pack(">HH", *number) + arguments)


def method_number(payload: bytes) -> tuple[int, int]:
    class_id, method_id = struct.unpack_from(">HH", payload)
    return int(class_id), int(method_id)


def close_reason(payload: bytes) -> str:
    """The code and text of a connection.close or channel.close payload."""
    (code,) = struct.unpack_from(">H", payload, 4)
    text = payload[7 : 7 + payload[6]].decode("utf-8", "replace")
    return f"{code} {text}"
