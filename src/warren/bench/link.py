"""One connection with one channel before and after the load: handshake and blocking calls.

Owns the socket until a loop takes it over (`release`). Every wait has a timeout. Failures of the
peer or of the network are `BenchError`s with a sentence a user can act on.
"""

import contextlib
import socket
import ssl
import struct

from warren import __version__
from warren.bench import frame
from warren.bench.option import Address, TlsOptions

SETUP_TIMEOUT_S = 30.0
CLOSE_TIMEOUT_S = 2.0
# Ours as a client; RabbitMQ's own default for both sides.
FRAME_MAX = 131072

CAPABILITIES = {
    "publisher_confirms": True,
    "basic.nack": True,
    "connection.blocked": True,
    "consumer_cancel_notify": True,
    "authentication_failure_close": True,
}


class BenchError(Exception):
    """The run cannot be made or not be finished."""


def tls_context(options: TlsOptions) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=options.ca_file)
    if options.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if options.cert_file:
        context.load_cert_chain(options.cert_file, options.key_file)
    return context


class Link:
    """A connected client: `call` sends a method and waits for its answer."""

    def __init__(
        self,
        address: Address,
        tls: TlsOptions,
        *,
        channel: int = 1,
        frame_max: int = FRAME_MAX,
        open_channel: bool = True,
    ) -> None:
        self.channel = channel
        self.frame_max = frame_max
        self.received = b""
        try:
            self.sock = connect(address, tls)
            self.shake_hands(address)
            if open_channel:
                self.call(frame.CHANNEL_OPEN, b"\x00", frame.CHANNEL_OPEN_OK)
        except OSError as error:
            raise BenchError(f"{address.host}:{address.port}: {error}") from error

    def shake_hands(self, address: Address) -> None:
        self.sock.sendall(frame.PROTOCOL_HEADER)
        self.expect(frame.START)
        client = frame.table(
            {"product": "warren bench", "version": __version__} | {"capabilities": CAPABILITIES}
        )
        secret = f"\0{address.user}\0{address.password}".encode()
        self.send(
            0,
            frame.START_OK,
            client
            + frame.short_string("PLAIN")
            + frame.long_string(secret)
            + frame.short_string("en_US"),
        )
        tune = self.expect(frame.TUNE)
        channel_max, frame_max = struct.unpack_from(">HI", tune, 4)
        self.frame_max = min(self.frame_max, frame_max or self.frame_max)
        if channel_max and self.channel > channel_max:
            raise BenchError(f"the broker allows channel numbers up to {channel_max}")
        self.send(0, frame.TUNE_OK, struct.pack(">HIH", channel_max, self.frame_max, 0))
        self.send(0, frame.OPEN, frame.short_string(address.vhost) + b"\x00\x00")
        self.expect(frame.OPEN_OK)

    def send(self, channel: int, number: tuple[int, int], arguments: bytes = b"") -> None:
        self.sock.sendall(frame.method(channel, number, arguments))

    def call(self, number: tuple[int, int], arguments: bytes, answer: tuple[int, int]) -> bytes:
        """Send a method on the channel; the payload of the answering method."""
        self.send(self.channel, number, arguments)
        return self.expect(answer)

    def expect(self, number: tuple[int, int]) -> bytes:
        """The payload of the next method `number`; other methods are passed over."""
        while True:
            kind, payload = self.next_frame()
            if kind != frame.METHOD:
                continue
            got = frame.method_number(payload)
            if got == number:
                return payload
            if got in (frame.CLOSE, frame.CHANNEL_CLOSE):
                raise BenchError(f"the broker refused: {frame.close_reason(payload)}")

    def next_frame(self) -> tuple[int, bytes]:
        while True:
            if len(self.received) >= 7:
                if self.received[:4] == b"AMQP":
                    raise BenchError("the broker speaks another protocol version")
                (size,) = struct.unpack_from(">I", self.received, 3)
                if len(self.received) >= size + frame.FRAME_OVERHEAD:
                    kind, payload = self.received[0], self.received[7 : 7 + size]
                    self.received = self.received[size + frame.FRAME_OVERHEAD :]
                    return kind, payload
            chunk = self.sock.recv(65536)
            if not chunk:
                raise BenchError("the broker closed the connection (wrong user or vhost?)")
            self.received += chunk

    def release(self) -> bytes:
        """Make the socket non-blocking for a loop; what was received beyond the last answer."""
        rest, self.received = self.received, b""
        self.sock.setblocking(False)
        return rest

    def close(self, *, politely: bool = True) -> None:
        """Close; what still arrives before close-ok is read and dropped."""
        with contextlib.suppress(OSError, BenchError):
            if politely:
                self.sock.settimeout(CLOSE_TIMEOUT_S)
                self.received = b""
                self.send(0, frame.CLOSE, struct.pack(">H", 200) + b"\x03bye\x00\x00\x00\x00")
                last = frame.method(0, frame.CLOSE_OK)
                while (chunk := self.sock.recv(1 << 20)) and not chunk.endswith(last):
                    pass
        self.sock.close()


def connect(address: Address, tls: TlsOptions) -> socket.socket:
    sock = socket.create_connection((address.host, address.port), SETUP_TIMEOUT_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if not address.tls:
        return sock
    return tls_context(tls).wrap_socket(sock, server_hostname=address.host)
