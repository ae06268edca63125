"""A small AMQP client for tests: blocking sockets, every octet under the test's control.

It checks nothing before sending, so it can also play a broken or hostile peer. What comes in is
decoded strictly and queues up in `Client.inbox`, in wire order, one entry per method (a method
with content is one `Message`). Every wait has a limit, and a wait that ends badly says what was
expected and everything that came instead.

Two ways to wait: `expect` takes the *next* event of the channel and demands that it is the one;
`wait_for` takes the first event of that name and leaves the others in place.
"""

import socket
import ssl
import struct
import time
from dataclasses import dataclass
from typing import Any, Final, Self

from tests.support.channel import Channel
from tests.support.codec import (
    FRAME_BODY,
    FRAME_HEADER,
    FRAME_HEARTBEAT,
    FRAME_METHOD,
    PROTOCOL_HEADER,
    Typed,
    decode_properties,
    frame,
    header_payload,
    table_body,
)
from tests.support.expectation import NothingCame, PeerClosed, Text, Unexpected, check_close
from tests.support.methods import CONTENT_METHODS, Method, decode_method, encode_method

WAIT: Final = 10.0  # Seconds any single wait may take; far above what an idle broker needs.

CAPABILITIES: Final = {
    "publisher_confirms": True,
    "exchange_exchange_bindings": True,
    "basic.nack": True,
    "consumer_cancel_notify": True,
    "connection.blocked": True,
    "authentication_failure_close": True,
}


@dataclass(frozen=True)
class Message:
    """A method together with its content."""

    method: Method
    raw_properties: bytes
    body: bytes
    body_frames: tuple[int, ...]

    @property
    def name(self) -> str:
        return self.method.name

    @property
    def channel(self) -> int:
        return self.method.channel

    @property
    def properties(self) -> dict[str, Any]:
        return decode_properties(self.raw_properties)

    @property
    def headers(self) -> dict[str, Any]:
        found: dict[str, Any] = self.properties.get("headers", {})
        return found

    @property
    def typed_headers(self) -> dict[str, Typed]:
        properties = decode_properties(self.raw_properties, typed=True)
        found: dict[str, Typed] = properties.get("headers", {})
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self.method, name)

    def __str__(self) -> str:
        return f"{self.method} with {self.properties} and a body of {len(self.body)} octets"


Event = Method | Message


class Client:
    """One TCP connection to a broker, from the first octet on."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        dribble: bool = False,
        wait: float = WAIT,
        tls: ssl.SSLContext | None = None,
        source: str = "",
    ) -> None:
        self.wait = wait
        self.dribble = dribble
        own = (source, 0) if source else None
        self.socket = socket.create_connection((host, port), timeout=wait, source_address=own)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname="localhost")
        self.buffer = b""
        self.inbox: list[Event] = []
        self.heartbeats: list[float] = []
        self.closed = False
        self.partial: dict[int, list[Any]] = {}
        self.frame_max = 131072
        self.highest_channel = 0
        self.start: Method | None = None
        self.tune: Method | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.drop()

    # Handshake.

    def handshake(
        self,
        *,
        user: str = "guest",
        password: str = "guest",
        mechanism: str = "PLAIN",
        response: bytes | None = None,
        client_properties: dict[str, Any] | None = None,
        locale: str = "en_US",
    ) -> Method:
        """Go from the protocol header up to start-ok; return `connection.start`."""
        self.send_raw(PROTOCOL_HEADER)
        self.start = self.expect("connection.start", channel=0)
        if response is None and mechanism == "AMQPLAIN":
            response = table_body({"LOGIN": user, "PASSWORD": password})
        elif response is None:
            response = f"\0{user}\0{password}".encode()
        if client_properties is None:
            client_properties = {"product": "conformance", "capabilities": CAPABILITIES}
        self.send(
            0,
            "connection.start-ok",
            client_properties=client_properties,
            mechanism=mechanism,
            response=response,
            locale=locale,
        )
        return self.start

    def negotiate(
        self,
        *,
        channel_max: int | None = None,
        frame_max: int | None = None,
        heartbeat: int = 0,
    ) -> Method:
        """Take `connection.tune` and answer it, with the broker's values where none is given."""
        self.tune = self.expect("connection.tune", channel=0)
        self.frame_max = self.tune.frame_max if frame_max is None else frame_max
        self.send(
            0,
            "connection.tune-ok",
            channel_max=self.tune.channel_max if channel_max is None else channel_max,
            frame_max=self.frame_max,
            heartbeat=heartbeat,
        )
        return self.tune

    def open(
        self,
        *,
        vhost: str = "/",
        channel_max: int | None = None,
        frame_max: int | None = None,
        heartbeat: int = 0,
        **login: Any,
    ) -> Self:
        """Go through the whole negotiation; `login` are the arguments of `handshake`."""
        self.handshake(**login)
        self.negotiate(channel_max=channel_max, frame_max=frame_max, heartbeat=heartbeat)
        self.send(0, "connection.open", virtual_host=vhost)
        self.expect("connection.open-ok", channel=0)
        return self

    # Sending.

    def send_raw(self, data: bytes) -> None:
        if self.dribble:
            for place in range(len(data)):
                self.socket.sendall(data[place : place + 1])
        else:
            self.socket.sendall(data)

    def send_frame(self, kind: int, channel: int, payload: bytes) -> None:
        self.send_raw(frame(kind, channel, payload))

    def send(self, channel: int, name: str, **arguments: Any) -> None:
        self.send_frame(FRAME_METHOD, channel, encode_method(name, **arguments))

    def send_method(
        self, channel: int, class_id: int, method_id: int, arguments: bytes = b""
    ) -> None:
        """Send a method by numbers, with its arguments already encoded: any nonsense passes."""
        self.send_frame(FRAME_METHOD, channel, struct.pack(">HH", class_id, method_id) + arguments)

    def send_heartbeat(self) -> None:
        self.send_frame(FRAME_HEARTBEAT, 0, b"")

    def send_content(
        self,
        channel: int,
        body: bytes,
        properties: dict[str, Any] | bytes | None = None,
        *,
        part_size: int | None = None,
    ) -> None:
        part_size = part_size or (self.frame_max - 8 if self.frame_max else max(1, len(body)))
        head = frame(FRAME_HEADER, channel, header_payload(len(body), properties))
        parts = range(0, len(body), part_size)
        frames = [frame(FRAME_BODY, channel, body[at : at + part_size]) for at in parts]
        self.send_raw(head + b"".join(frames))

    # Receiving.

    def receive(self, deadline: float) -> Event:
        """Return the next event that is not in the inbox yet."""
        while True:
            kind, channel, payload = self._read_frame(deadline)
            if kind == FRAME_HEARTBEAT:
                if channel or payload:
                    raise Unexpected(f"bad heartbeat frame: channel {channel}, {payload!r}")
                self.heartbeats.append(time.monotonic())
                continue
            event = self._assemble(kind, channel, payload)
            if event is not None:
                return event

    def expect(
        self, name: str, *, channel: int | None = None, within: float | None = None, **wanted: Any
    ) -> Any:
        """Take the next event (of the channel); demand this method with these arguments."""
        event = self.next_event(channel=channel, within=within, reason=name)
        if event.name != name:
            raise Unexpected(f"expected {name}, got {event}; then {self._rest()}")
        for key, value in wanted.items():
            if getattr(event, key) != value:
                raise Unexpected(f"expected {key}={value!r} in {event}")
        return event

    def next_event(
        self, *, channel: int | None = None, within: float | None = None, reason: str = "an event"
    ) -> Event:
        deadline = time.monotonic() + (self.wait if within is None else within)
        looked_at = 0
        while True:
            for place in range(looked_at, len(self.inbox)):
                if channel is None or self.inbox[place].channel == channel:
                    return self.inbox.pop(place)
            looked_at = len(self.inbox)
            try:
                self.inbox.append(self.receive(deadline))
            except (NothingCame, PeerClosed) as error:
                raise type(error)(f"waiting for {reason}: {error}; {self._rest()}") from None

    def wait_for(
        self, name: str, *, channel: int | None = None, within: float | None = None
    ) -> Any:
        """Take the first event of that name; what came before it stays in the inbox."""
        deadline = time.monotonic() + (self.wait if within is None else within)
        looked_at = 0
        while True:
            for place in range(looked_at, len(self.inbox)):
                event = self.inbox[place]
                if event.name == name and (channel is None or event.channel == channel):
                    return self.inbox.pop(place)
            looked_at = len(self.inbox)
            try:
                self.inbox.append(self.receive(deadline))
            except (NothingCame, PeerClosed) as error:
                raise type(error)(f"waiting for {name}: {error}; {self._rest()}") from None

    def expect_nothing(self, *, channel: int | None = None, within: float = 0.3) -> None:
        """Demand silence. Prefer a reply that proves the broker is past the point in question."""
        try:
            event = self.next_event(channel=channel, within=within)
        except NothingCame:
            return
        raise Unexpected(f"expected nothing, got {event}")

    def expect_close(
        self,
        code: int,
        text: Text,
        *,
        method: str | tuple[int, int] | None = None,
        within: float | None = None,
        answer: bool = True,
    ) -> Event:
        """Demand `connection.close` as the next event of channel 0; answer it."""
        close = self.next_event(channel=0, within=within, reason=f"connection.close {code}")
        check_close(close, "connection.close", code, text, method)
        if answer:
            self.send(0, "connection.close-ok")
        return close

    def expect_socket_closed(self, *, within: float | None = None) -> float:
        """Demand the end of the stream, and no further method before it; return the seconds."""
        began = time.monotonic()
        try:
            event = self.receive(began + (self.wait if within is None else within))
        except PeerClosed:
            return time.monotonic() - began
        raise Unexpected(f"expected the socket to be closed, got {event}")

    # Channels, and the end.

    def channel(self, number: int | None = None) -> Channel:
        """Open a channel, by default the number after the highest one used so far."""
        if number is None:
            number = self.highest_channel + 1
        self.highest_channel = max(number, self.highest_channel)
        self.send(number, "channel.open")
        self.expect("channel.open-ok", channel=number)
        return Channel(self, number)

    def close(self) -> None:
        """Close in order. Anything still under way is thrown away."""
        self.send(0, "connection.close", reply_text="bye")
        self.wait_for("connection.close-ok", channel=0)
        self.drop()

    def drop(self) -> None:
        """Close the socket without a word."""
        self.socket.close()

    def _read_frame(self, deadline: float) -> tuple[int, int, bytes]:
        head = self.read_octets(7, deadline)
        if head[:4] == b"AMQP":
            raise Unexpected(f"the broker sent a protocol header {head!r}")
        kind, channel, size = struct.unpack(">BHI", head)
        rest = self.read_octets(size + 1, deadline)
        if rest[-1] != 0xCE:
            raise Unexpected(f"the broker sent a frame with end octet {rest[-1]:#x}")
        if self.frame_max and size + 8 > self.frame_max:
            raise Unexpected(f"the broker sent {size + 8} octets, above {self.frame_max}")
        return kind, channel, rest[:-1]

    def read_octets(self, count: int, deadline: float | None = None) -> bytes:
        if deadline is None:
            deadline = time.monotonic() + self.wait
        while len(self.buffer) < count:
            left = deadline - time.monotonic()
            if left <= 0:
                raise NothingCame(f"nothing came in time (pending octets: {self.buffer!r})")
            self.socket.settimeout(left)
            try:
                received = self.socket.recv(65536)
            except TimeoutError:
                continue
            except ConnectionError:
                received = b""
            finally:
                self.socket.settimeout(self.wait)
            if not received:
                self.closed = True
                raise PeerClosed(f"the broker closed the socket (pending: {self.buffer!r})")
            self.buffer += received
        taken, self.buffer = self.buffer[:count], self.buffer[count:]
        return taken

    def _assemble(self, kind: int, channel: int, payload: bytes) -> Event | None:
        open_content = self.partial.get(channel)
        if kind == FRAME_METHOD and open_content is None:
            method = decode_method(payload, channel)
            if method.name not in CONTENT_METHODS:
                return method
            self.partial[channel] = [method, None, 0, b"", ()]
        elif kind == FRAME_HEADER and open_content and open_content[1] is None:
            class_id, weight, size = struct.unpack(">HHQ", payload[:12])
            if (class_id, weight) != (60, 0):
                raise Unexpected(f"bad content header {payload!r}")
            open_content[1], open_content[2] = payload[12:], size
        elif kind == FRAME_BODY and open_content and open_content[1] is not None:
            open_content[3] += payload
            open_content[4] += (len(payload),)
        else:
            raise Unexpected(f"frame of type {kind} out of order on channel {channel}")
        method, raw, size, body, sizes = self.partial[channel]
        if raw is None or len(body) < size:
            return None
        del self.partial[channel]
        return Message(method, raw, body, sizes)

    def _rest(self) -> str:
        if not self.inbox:
            return "nothing else is in the inbox"
        return "the inbox holds " + "; ".join(str(event) for event in self.inbox[:20])
