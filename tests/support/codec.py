"""AMQP 0-9-1 as the tests know it: frames, field tables, properties and method arguments.

An oracle beside the broker's own codec: it shares no code with it, favours plainness over speed,
and can also write what a correct peer never would (any frame type, end octet or field kind).

Python values stand for fields as a user would write them: str and bytes are `S`, bool is `t`, int
is `I` (or `l` when it needs 64 bits), float is `d`, dict is `F`, list is `A`, None is `V`. Where
the kind on the wire matters, write `Typed("s", 5)` and read with `typed=True`.
"""

import struct
from dataclasses import dataclass
from typing import Any, Final

FRAME_METHOD: Final = 1
FRAME_HEADER: Final = 2
FRAME_BODY: Final = 3
FRAME_HEARTBEAT: Final = 8
FRAME_END: Final = 0xCE
PROTOCOL_HEADER: Final = b"AMQP\x00\x00\x09\x01"

_FIXED: Final = {
    "b": ">b", "B": ">B", "s": ">h", "u": ">H", "I": ">i", "i": ">I", "l": ">q", "L": ">q",
    "T": ">Q", "f": ">f", "d": ">d",
}  # fmt: skip

PROPERTIES: Final = (
    ("content_type", "s"), ("content_encoding", "s"), ("headers", "F"), ("delivery_mode", "B"),
    ("priority", "B"), ("correlation_id", "s"), ("reply_to", "s"), ("expiration", "s"),
    ("message_id", "s"), ("timestamp", "T"), ("type", "s"), ("user_id", "s"), ("app_id", "s"),
    ("cluster_id", "s"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Typed:
    """A field value together with the letter of its kind on the wire."""

    kind: str
    value: Any


def frame(kind: int, channel: int, payload: bytes, end: int = FRAME_END) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + bytes([end])


def short_string(value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return bytes([len(raw)]) + raw


def long_string(value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack(">I", len(raw)) + raw


def as_typed(value: Any) -> Typed:
    if isinstance(value, Typed):
        return value
    if isinstance(value, bool):
        return Typed("t", value)
    if isinstance(value, int):
        return Typed("I" if -(2**31) <= value < 2**31 else "l", value)
    for kind, python in (("S", (str, bytes)), ("d", float), ("F", dict), ("A", (list, tuple))):
        if isinstance(value, python):
            return Typed(kind, value)
    if value is None:
        return Typed("V", None)
    raise TypeError(f"no field kind for {value!r}")


def encode_field(value: Any) -> bytes:
    field = as_typed(value)
    kind, content = field.kind, field.value
    head = kind.encode()
    if kind in _FIXED:
        return head + struct.pack(_FIXED[kind], content)
    if kind == "t":
        return head + bytes([1 if content else 0])
    if kind in "Sx":
        return head + long_string(content)
    if kind == "D":
        scale, number = content
        return head + struct.pack(">BI", scale, number)
    if kind == "F":
        return head + encode_table(content)
    if kind == "A":
        return head + long_string(b"".join(encode_field(item) for item in content))
    if kind == "V":
        return head
    raise TypeError(f"unknown field kind {kind!r}")


def table_body(table: dict[str, Any]) -> bytes:
    return b"".join(short_string(key) + encode_field(value) for key, value in table.items())


def encode_table(table: dict[str, Any]) -> bytes:
    return long_string(table_body(table))


class Reader:
    """Reads values one after another from a payload that the broker sent."""

    def __init__(self, data: bytes, typed: bool = False) -> None:
        self.data = data
        self.at = 0
        self.typed = typed

    def take(self, count: int) -> bytes:
        taken = self.data[self.at : self.at + count]
        if len(taken) != count:
            raise AssertionError(f"the broker sent a payload cut short: {self.data!r}")
        self.at += count
        return taken

    def number(self, form: str) -> Any:
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def short_string(self) -> str:
        return self.take(self.number(">B")).decode()

    def long_string(self) -> bytes:
        return self.take(self.number(">I"))

    def field(self) -> Any:
        kind = self.take(1).decode("latin-1")
        value: Any
        if kind in _FIXED:
            value = self.number(_FIXED[kind])
        elif kind == "t":
            value = self.number(">B") != 0
        elif kind == "S":
            raw = self.long_string()
            value = raw if self.typed else raw.decode(errors="surrogateescape")
        elif kind == "x":
            value = self.long_string()
        elif kind == "D":
            value = (self.number(">B"), self.number(">I"))
        elif kind == "F":
            value = self.table()
        elif kind == "A":
            inner = Reader(self.long_string(), self.typed)
            value = []
            while inner.at < len(inner.data):
                value.append(inner.field())
        elif kind == "V":
            value = None
        else:
            raise AssertionError(f"the broker sent a field of unknown kind {kind!r}")
        return Typed(kind, value) if self.typed else value

    def table(self) -> dict[str, Any]:
        inner = Reader(self.long_string(), self.typed)
        table: dict[str, Any] = {}
        while inner.at < len(inner.data):
            key = inner.short_string()
            table[key] = inner.field()
        return table


def encode_properties(properties: dict[str, Any]) -> bytes:
    """Return property flags and property list, in the order of the flags (WI-4)."""
    flags, parts = 0, []
    for place, (name, kind) in enumerate(PROPERTIES):
        if properties.get(name) is None:
            continue
        flags |= 1 << (15 - place)
        value = properties[name]
        if kind == "s":
            parts.append(short_string(value))
        elif kind == "F":
            parts.append(encode_table(value))
        else:
            parts.append(struct.pack(_FIXED[kind], value))
    unknown = set(properties) - {name for name, _ in PROPERTIES}
    if unknown:
        raise TypeError(f"unknown properties {unknown}")
    return struct.pack(">H", flags) + b"".join(parts)


def decode_properties(raw: bytes, typed: bool = False) -> dict[str, Any]:
    reader = Reader(raw, typed)
    flags = reader.number(">H")
    found: dict[str, Any] = {}
    for place, (name, kind) in enumerate(PROPERTIES):
        if flags & (1 << (15 - place)):
            if kind == "s":
                found[name] = reader.short_string()
            elif kind == "F":
                found[name] = reader.table()
            else:
                found[name] = reader.number(_FIXED[kind])
    if reader.at != len(raw):
        raise AssertionError(f"octets left over after the properties: {raw[reader.at :]!r}")
    return found


def header_payload(
    body_size: int, properties: dict[str, Any] | bytes | None = None, class_id: int = 60
) -> bytes:
    raw = properties if isinstance(properties, bytes) else encode_properties(properties or {})
    return struct.pack(">HHQ", class_id, 0, body_size) + raw
