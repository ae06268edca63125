"""Blocks of basic.publish frames from ready-made pieces, compiled.

Owns what a message looks like on the wire after its constant parts were encoded once. Per message
only the sequence number, the optional time stamp and the digits of a variable routing key change,
so a block costs one copy of each constant piece and a few integers.

Layout of one message: `lead` key digits `middle` sequence u64 [stamp u64] `tail`.
Invariant: `middle` ends with magic and producer; the digits' width is a multiple of three.
"""

from typing import final

from librt.strings import BytesWriter, write_i64_be
from mypy_extensions import i64


@final
class Shape:
    """One message size, cut where something varies."""

    def __init__(self, lead: bytes, middle: bytes, tail: bytes, *, body_octets: int) -> None:
        self.lead: bytes = lead
        self.middle: bytes = middle
        self.tail: bytes = tail
        self.body_octets: int = body_octets

    def octets(self, key_width: int, stamped: bool) -> int:
        """Length of the whole message with its frames."""
        varying = key_width + (16 if stamped else 8)
        return len(self.lead) + len(self.middle) + len(self.tail) + varying


@final
class BlockBuilder:
    """Builds the frames of consecutive messages of one producer."""

    def __init__(
        self,
        shapes: list[Shape],
        cycle: list[int],
        *,
        key_count: int,
        key_width: int,
        stamped: bool,
    ) -> None:
        self.shapes: list[Shape] = shapes
        self.cycle: list[int] = cycle  # message number modulo its length -> index of the shape
        self.cycle_length: i64 = len(cycle)
        self.key_count: i64 = key_count
        self.key_groups: i64 = key_width // 3
        self.stamped: bool = stamped
        self.triples: list[bytes] = [b"%03d" % number for number in range(1000)]
        first = shapes[0]
        self.opening: bytes = first.lead + first.middle
        self.joint: bytes = first.tail + first.lead + first.middle
        self.closing: bytes = first.tail
        self.uniform: bool = len(shapes) == 1 and key_width == 0
        self.writer: BytesWriter = BytesWriter()

    def build(self, first: i64, count: i64, stamp_ns: i64) -> bytes:
        """The frames of messages first .. first + count - 1, all with one stamp."""
        writer = self.writer
        writer.truncate(0)
        if self.uniform:
            self.write_uniform(writer, first, count, stamp_ns)
        else:
            self.write_mixed(writer, first, count, stamp_ns)
        return writer.getvalue()

    def write_uniform(self, writer: BytesWriter, first: i64, count: i64, stamp_ns: i64) -> None:
        joint = self.joint
        stamped = self.stamped
        end = first + count
        sequence = first
        writer.write(self.opening)
        while True:
            write_i64_be(writer, sequence)
            if stamped:
                write_i64_be(writer, stamp_ns)
            sequence += 1
            if sequence == end:
                break
            writer.write(joint)
        writer.write(self.closing)

    def write_mixed(self, writer: BytesWriter, first: i64, count: i64, stamp_ns: i64) -> None:
        shapes = self.shapes
        cycle = self.cycle
        triples = self.triples
        groups = self.key_groups
        turn = first % self.cycle_length
        key = first % self.key_count
        sequence = first
        end = first + count
        while sequence < end:
            shape = shapes[cycle[turn]]
            writer.write(shape.lead)
            if groups == 1:
                writer.write(triples[key])
            elif groups == 2:
                writer.write(triples[key // 1000])
                writer.write(triples[key % 1000])
            elif groups == 3:
                writer.write(triples[key // 1000000])
                writer.write(triples[key // 1000 % 1000])
                writer.write(triples[key % 1000])
            writer.write(shape.middle)
            write_i64_be(writer, sequence)
            if self.stamped:
                write_i64_be(writer, stamp_ns)
            writer.write(shape.tail)
            sequence += 1
            turn += 1
            if turn == self.cycle_length:
                turn = 0
            key += 1
            if key == self.key_count:
                key = 0
