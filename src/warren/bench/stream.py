"""One pass over received chunks: deliveries are verified, confirms entered, compiled.

Owns the inbound bytes of one connection (one channel). Bodies are walked over, not gathered: a
position past the end of a chunk says how many octets of the next ones belong to a body already
judged. A frame cut by the end of a chunk is kept in `left`, which therefore never holds more than
one frame.

Invariant: between two `feed` calls at most one of `left` and `skip` is set; a message counts, and
is acknowledged, only when its last octet is here. Frame layout: AMQP 0-9-1 §2.3.5.
"""

from typing import Final, final

from librt.strings import BytesWriter, read_i32_be, read_i64_be, write_i32_be, write_i64_be
from mypy_extensions import i64, u8

from warren.bench.confirm import Ledger
from warren.bench.histogram import Histogram
from warren.bench.verify import HEAD_OCTETS, MAGIC, STAMPED_HEAD_OCTETS, Cursor, Verdict, check_slow

FRAME_METHOD: Final = 1
FRAME_HEADER: Final = 2
FRAME_BODY: Final = 3
FRAME_HEARTBEAT: Final = 8
FRAME_END: Final = 0xCE

BASIC_RETURN: Final = (60 << 16) | 50
BASIC_DELIVER: Final = (60 << 16) | 60
BASIC_ACK: Final = (60 << 16) | 80
BASIC_NACK: Final = (60 << 16) | 120

# Enough for the rest of any method frame of the hot path plus a content header.
JOIN_OCTETS: Final = 1024

# The shortest frames a verified delivery can have: method 24, header 22, body 8 and its head.
DELIVERY_OCTETS_MIN: Final = 24 + 22 + 8 + HEAD_OCTETS
HEADER_OCTETS_MIN: Final = 22

CONTENT_NONE: Final = 0
CONTENT_DELIVERY: Final = 1
CONTENT_RETURN: Final = 2


class StreamError(Exception):
    """The broker sent something that is not AMQP frames."""


@final
class Stream:
    """Inbound side of one connection."""

    def __init__(
        self,
        *,
        channel: int,
        cursors: list[Cursor],
        queues: int = 1,
        sizes: list[int],
        verdict: Verdict,
        latency: Histogram,
        ledger: Ledger,
        ack_every: int,
        stamped: bool,
        filler: bytes,
    ) -> None:
        self.channel: i64 = channel
        # By producer; of a consumer of several queues by queue, then producer. Then the number of a
        # message says which of `queues` it went to.
        self.cursors: list[Cursor] = cursors
        self.queues: i64 = queues
        self.producers: i64 = len(cursors) // queues
        self.sizes: list[int] = sizes  # message number modulo its length -> body octets
        self.verdict: Verdict = verdict
        self.latency: Histogram = latency
        self.ledger: Ledger = ledger
        self.ack_every: i64 = ack_every  # 0: the broker does not wait for acks
        self.stamped: bool = stamped
        self.head_octets: i64 = STAMPED_HEAD_OCTETS if stamped else HEAD_OCTETS
        self.filler: bytes = filler  # not empty: every octet of a body is compared
        self.out: BytesWriter = BytesWriter()
        self.events: list[bytes] = []  # payloads of methods that are not on the hot path
        self.warm_until_ns: i64 = 0
        self.consumed: i64 = 0
        self.body_octets: i64 = 0
        self.returned: i64 = 0
        self.delivery_tag: i64 = 0
        self.unacked: i64 = 0
        self.left: bytes = b""
        self.skip: i64 = 0
        self.content: i64 = CONTENT_NONE
        self.body_size: i64 = 0
        self.body_left: i64 = 0

    def feed(self, chunk: bytes, now_ns: i64) -> None:
        """Take received bytes."""
        data = chunk
        pos = self.skip
        left = self.left
        if len(left) > 0:
            joined = left + chunk[:JOIN_OCTETS]
            pos = self.walk(joined, 0, len(left), now_ns)
            if pos >= len(left):
                pos -= len(left)
            else:
                data = left + chunk
        pos = self.walk(data, pos, len(data), now_ns)
        size: i64 = len(data)
        if pos > size:
            self.skip = pos - size
            self.left = b""
        else:
            self.skip = 0
            self.left = data[pos:] if pos < size else b""

    def walk(self, data: bytes, pos: i64, stop: i64, now_ns: i64) -> i64:
        """Handle the frames that begin in pos .. stop - 1; return where the next one begins."""
        size: i64 = len(data)
        if self.skip > 0:
            if pos > size:
                return pos
            self.skip = 0
            self.end_body_frame(data[pos - 1])
        while pos < stop:
            if self.content == CONTENT_NONE and stop == size and len(self.filler) == 0:
                pos = self.walk_whole(data, pos, now_ns)
            if size - pos < 8:
                break
            kind = data[pos]
            length = i64(read_i32_be(data, pos + 3))
            end = pos + length + 8
            if length < 0:
                raise StreamError("frame longer than 2 GiB")
            if kind == FRAME_BODY:
                if not self.begin_body_frame(data, pos + 7, length, size, now_ns):
                    break
                pos = end
                if pos > size:
                    self.skip = pos - size
                    break
                self.end_body_frame(data[pos - 1])
                continue
            if end > size:
                break
            self.take_frame(kind, data, pos, end, now_ns)
            pos = end
        return pos

    def walk_whole(self, data: bytes, pos: i64, now_ns: i64) -> i64:
        """Take deliveries that are here to their last octet, with one body frame each.

        The common case in one step a message; the first thing that is anything else ends it.
        """
        size: i64 = len(data)
        verdict = self.verdict
        consumed: i64 = 0
        octets_sum: i64 = 0
        while size - pos > DELIVERY_OCTETS_MIN:
            length = i64(read_i32_be(data, pos + 3))
            if read_i32_be(data, pos + 7) != BASIC_DELIVER or data[pos] != FRAME_METHOD:
                break
            header = pos + length + 8
            if length < 0 or size - header < HEADER_OCTETS_MIN or data[header] != FRAME_HEADER:
                break
            header_length = i64(read_i32_be(data, header + 3))
            octets = read_i64_be(data, header + 11)
            body = header + header_length + 8
            end = body + octets + 8
            if header_length < 0 or octets < self.head_octets or octets > size or end > size:
                break
            if data[body] != FRAME_BODY or i64(read_i32_be(data, body + 3)) != octets:
                break
            at = pos + 12 + data[pos + 11]
            if at + 8 >= header or data[header - 1] != FRAME_END:
                break
            if data[body - 1] != FRAME_END or data[end - 1] != FRAME_END:
                break
            self.delivery_tag = read_i64_be(data, at)
            if data[at + 8] != 0:
                verdict.redelivered += 1
            self.body_size = octets
            self.judge(data, body + 7, now_ns)
            consumed += 1
            octets_sum += octets
            if self.ack_every > 0:
                self.unacked += 1
                if self.unacked >= self.ack_every:
                    self.acknowledge()
            pos = end
        self.consumed += consumed
        self.body_octets += octets_sum
        return pos

    def take_frame(self, kind: u8, data: bytes, pos: i64, end: i64, now_ns: i64) -> None:
        """Handle a whole frame that is not a body."""
        if data[end - 1] != FRAME_END:
            raise StreamError("frame end octet missing")
        if kind == FRAME_METHOD:
            self.on_method(data, pos + 7, end - 1, now_ns)
        elif kind == FRAME_HEADER:
            self.body_size = read_i64_be(data, pos + 11)
            self.body_left = self.body_size
            if self.body_size == 0:
                self.verdict.bad += 1
                self.end_content()
        elif kind != FRAME_HEARTBEAT:
            raise StreamError("unknown frame type")

    def on_method(self, data: bytes, pos: i64, end: i64, now_ns: i64) -> None:
        method = i64(read_i32_be(data, pos))
        if method == BASIC_DELIVER:
            at = pos + 5 + data[pos + 4]
            self.delivery_tag = read_i64_be(data, at)
            if data[at + 8] != 0:
                self.verdict.redelivered += 1
            self.content = CONTENT_DELIVERY
        elif method == BASIC_ACK:
            self.ledger.settle(read_i64_be(data, pos + 4), (data[pos + 12] & 1) != 0, False, now_ns)
        elif method == BASIC_NACK:
            self.ledger.settle(read_i64_be(data, pos + 4), (data[pos + 12] & 1) != 0, True, now_ns)
        elif method == BASIC_RETURN:
            self.content = CONTENT_RETURN
        else:
            self.events.append(data[pos:end])

    def begin_body_frame(self, data: bytes, pos: i64, length: i64, size: i64, now_ns: i64) -> bool:
        """Judge a body frame by its first octets; False when too little of it is here."""
        if self.content == CONTENT_DELIVERY:
            if len(self.filler) > 0:
                if pos + length > size:
                    return False
                self.compare_filler(data, pos, length)
            if self.body_left == self.body_size:
                wanted = self.head_octets
                if size - pos < wanted and size - pos < length:
                    return False
                if length < wanted:
                    self.verdict.bad += 1
                else:
                    self.judge(data, pos, now_ns)
        self.body_left -= length
        return True

    def judge(self, data: bytes, pos: i64, now_ns: i64) -> None:
        head = i64(read_i32_be(data, pos))
        producer = head & 0xFFFF
        if head >> 16 != MAGIC or producer >= self.producers:
            self.verdict.bad += 1
            return
        sequence = read_i64_be(data, pos + 4)
        if self.queues > 1:
            producer += (sequence % self.queues) * self.producers
        cursor = self.cursors[producer]
        track = cursor.track
        if sequence == track.expect and track.holes == 0:
            track.expect = sequence + track.step
            if sequence >= cursor.high:
                cursor.high = sequence + 1
        else:
            check_slow(self.verdict, cursor, sequence)
        sizes = self.sizes
        count: i64 = len(sizes)
        expected: i64 = sizes[0] if count == 1 else sizes[sequence % count]
        if self.body_size != expected:
            self.verdict.bad += 1
        if self.stamped:
            sent_ns = read_i64_be(data, pos + 12)
            if sent_ns >= self.warm_until_ns:
                self.latency.add(now_ns - sent_ns)

    def compare_filler(self, data: bytes, pos: i64, length: i64) -> None:
        offset = self.body_size - self.body_left
        begin = self.head_octets if offset == 0 else i64(0)
        if data[pos + begin : pos + length] != self.filler[offset + begin : offset + length]:
            self.verdict.bad += 1

    def end_body_frame(self, last: u8) -> None:
        if last != FRAME_END:
            raise StreamError("frame end octet missing after a body")
        if self.body_left <= 0:
            if self.body_left < 0:
                raise StreamError("body longer than its header says")
            self.end_content()

    def end_content(self) -> None:
        content = self.content
        self.content = CONTENT_NONE
        if content == CONTENT_RETURN:
            self.returned += 1
        elif content == CONTENT_DELIVERY:
            self.consumed += 1
            self.body_octets += self.body_size
            if self.ack_every > 0:
                self.unacked += 1
                if self.unacked >= self.ack_every:
                    self.acknowledge()

    def acknowledge(self) -> None:
        """Queue one basic.ack for everything delivered so far."""
        out = self.out
        out.append(FRAME_METHOD)
        out.append(self.channel >> 8)
        out.append(self.channel & 0xFF)
        write_i32_be(out, 13)
        write_i32_be(out, BASIC_ACK)
        write_i64_be(out, self.delivery_tag)
        out.append(1 if self.unacked > 1 else 0)
        out.append(FRAME_END)
        self.unacked = 0
