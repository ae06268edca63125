"""One AMQP connection with one channel whose socket never blocks: what the proofs are made with.

Owns the octets in both directions. Frames are made and read here and in `warren.bench.frame`, not
by the broker's codec. What comes in becomes values of `Event` in the order of the wire. A peer
whose broker has gone is `gone`; what had arrived before is still read to its end, because a
confirm that left the broker counts, whatever happened to the broker afterwards.
"""

import select
import struct
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tools.bench.broker import HOST
from warren.bench import frame
from warren.bench.link import Link
from warren.bench.option import Address, TlsOptions

RECEIVE_OCTETS: Final = 1 << 18
ACK: Final = (60, 80)
NACK: Final = (60, 120)
DELIVER: Final = (60, 60)
CONSUME_OK: Final = (60, 21)
REJECT_REQUEUE: Final = b"\x02"
NO_TLS: Final = TlsOptions(ca_file=None, cert_file=None, key_file=None, insecure=False)


class BrokerGone(Exception):
    """The broker closed the connection or refused, and nobody had asked it to."""


@dataclass(frozen=True, slots=True)
class Confirm:
    """The broker's answer to one publish or to all up to one."""

    tag: int
    multiple: bool
    taken: bool


@dataclass(frozen=True, slots=True)
class Delivery:
    tag: int
    redelivered: bool
    consumer: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Notice:
    """Any other method."""

    number: tuple[int, int]
    payload: bytes


Event = Confirm | Delivery | Notice


def link_to(port: int) -> Link:
    """A connection that is asked and waited for."""
    address = Address(host=HOST, port=port, user="guest", password="guest", vhost="/", tls=False)
    return Link(address, NO_TLS)


class Peer:
    """A connection that sends what it can and takes what there is."""

    def __init__(self, port: int, *, confirm: bool = False, prefetch: int = 0) -> None:
        self.link = link_to(port)
        if confirm:
            self.link.call(frame.CONFIRM_SELECT, b"\0", frame.CONFIRM_SELECT_OK)
        if prefetch:
            self.link.call(frame.QOS, struct.pack(">IHB", 0, prefetch, 0), frame.QOS_OK)
        self.sock = self.link.sock
        self.out = bytearray()
        self.events: list[Event] = []
        self.gone = False
        self.refusal = ""  # why the broker closed the channel or the connection
        self.blocked = False
        self.last_tag = 0  # of the deliveries somebody looked at
        self._lead: tuple[int, bool, str] | None = None  # of a delivery whose content comes
        self._size = 0
        self._body = bytearray()
        self._buffer = bytearray(self.link.release())
        self._parse()

    def fileno(self) -> int:
        return self.sock.fileno()

    def method(self, number: tuple[int, int], arguments: bytes) -> None:
        """Put a method on its way."""
        self.out += frame.method(1, number, arguments)

    def consume(self, queue: str, *, tag: str = "") -> None:
        names = frame.short_string(queue) + frame.short_string(tag or queue)
        self.method(frame.CONSUME, b"\0\0" + names + b"\0" + frame.table({}))

    def ack(self, tag: int, *, multiple: bool) -> None:
        self.method(ACK, struct.pack(">QB", tag, multiple))

    def give_back(self, tag: int) -> None:
        self.method(NACK, struct.pack(">Q", tag) + REJECT_REQUEUE)

    def send(self) -> None:
        """Hand over what the socket takes."""
        if not self.out or self.gone:
            return
        try:
            sent = self.sock.send(self.out)
        except BlockingIOError:
            return
        except OSError:
            self.gone = True
            return
        del self.out[:sent]

    def receive(self) -> bool:
        """Take one piece; False when there is none."""
        try:
            piece = self.sock.recv(RECEIVE_OCTETS)
        except BlockingIOError:
            return False
        except OSError:
            piece = b""
        if not piece:
            self.gone = True
            return False
        self._buffer += piece
        self._parse()
        return True

    def take(self) -> list[Event]:
        events, self.events = self.events, []
        return events

    def read_to_the_end(self, timeout_s: float = 10.0) -> None:
        """Take what a broker that has ended left in the socket."""
        end_s = time.monotonic() + timeout_s
        while time.monotonic() < end_s:
            select.select([self.sock], [], [], 0.1)
            while self.receive():
                pass
            if self.gone:
                return
        raise BrokerGone("the connection of an ended broker stays open")

    def call(
        self, number: tuple[int, int], arguments: bytes, answer: tuple[int, int], *,
        timeout_s: float = 60.0,
    ) -> bytes:  # fmt: skip
        """Ask and wait; the events that come before the answer stay in `events`, in order."""
        self.method(number, arguments)
        end_s = time.monotonic() + timeout_s
        looked_at = len(self.events)
        while time.monotonic() < end_s:
            pump([self], 0.05)
            for place in range(looked_at, len(self.events)):
                event = self.events[place]
                if isinstance(event, Notice) and event.number == answer:
                    del self.events[place]
                    return event.payload
            looked_at = len(self.events)
            if self.gone:
                raise BrokerGone("the broker closed the connection")
        raise BrokerGone(f"no answer to {number} in {timeout_s:.0f} s")

    def close(self) -> None:
        self.sock.close()

    def _parse(self) -> None:
        buffer = self._buffer
        at, size = 0, len(buffer)
        while size - at >= 8:
            kind, _, length = struct.unpack_from(">BHI", buffer, at)
            end = at + length + 8
            if end > size:
                break
            self._frame(kind, bytes(buffer[at + 7 : end - 1]))
            at = end
        del buffer[:at]

    def _frame(self, kind: int, payload: bytes) -> None:
        if kind == frame.METHOD:
            self._method(payload)
        elif kind == frame.HEADER:
            (self._size,) = struct.unpack_from(">Q", payload, 4)
            self._body.clear()
            self._end_content()
        elif kind == frame.BODY:
            self._body += payload
            self._end_content()

    def _end_content(self) -> None:
        if len(self._body) >= self._size and self._lead is not None:
            tag, redelivered, consumer = self._lead
            self._lead = None
            self.events.append(Delivery(tag, redelivered, consumer, bytes(self._body)))

    def _method(self, payload: bytes) -> None:
        number = frame.method_number(payload)
        if number == DELIVER:
            at = 5 + payload[4]
            tag, redelivered = struct.unpack_from(">QB", payload, at)
            self._lead = (tag, bool(redelivered), payload[5:at].decode())
        elif number in (ACK, NACK):
            tag, bits = struct.unpack_from(">QB", payload, 4)
            self.events.append(Confirm(tag, bool(bits & 1), number == ACK))
        elif number in (frame.CLOSE, frame.CHANNEL_CLOSE):
            self.refusal = frame.close_reason(payload)
        else:
            if number in (frame.BLOCKED, frame.UNBLOCKED):
                self.blocked = number == frame.BLOCKED
            self.events.append(Notice(number, payload))


def pump(peers: Iterable[Peer], timeout_s: float) -> None:
    """Send and receive for all of them, once each; wait at most this long for anything to do."""
    living = [peer for peer in peers if not peer.gone]
    for peer in living:
        peer.send()
    wanting = [peer for peer in living if peer.out and not peer.gone]
    living = [peer for peer in living if not peer.gone]
    if not living:
        return
    readable, writable, _ = select.select(living, wanting, [], timeout_s)
    for peer in writable:
        peer.send()
    for peer in readable:
        peer.receive()
        if peer.refusal:
            raise BrokerGone(f"the broker refused: {peer.refusal}")
