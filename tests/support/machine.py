"""A broker without a machine: sessions, queues, routing driven by octets, turns and a fake clock.

`Machine` is the broker with a clock, randomness and log of its own; `Peer` is one client end of a
connection, in memory. What a peer sends goes into `Connection.receive`; `Machine.turn` does what
the server's hub does at the end of a loop turn, until nothing is left to do. What comes back is
decoded by the tests' own codec, strictly, and waits in `Peer.inbox`.

Nothing is supervised here: an exception that the broker would turn into 541 reaches the test.
"""

import struct
from collections.abc import Iterable, Mapping
from typing import Any, Final

from tests.support.codec import (
    FRAME_BODY,
    FRAME_HEADER,
    FRAME_HEARTBEAT,
    FRAME_METHOD,
    PROTOCOL_HEADER,
    frame,
    header_payload,
)
from tests.support.methods import CONTENT_METHODS, decode_method, encode_method
from tests.support.wire import CAPABILITIES, Event, Message
from warren.flow import Alarm, Source
from warren.protocol.output import Outbox
from warren.security import Mechanisms, Permissions, UserStore, new_user
from warren.session import CLOSED, Connection, SessionSettings
from warren.vhost import Broker
from warren.vhost.change import PermissionPut, VHostPut, user_put

SECOND_NS: Final = 1_000_000_000
# More turns in a row than any test has work for: beyond it something schedules itself for ever.
TURNS_MAX: Final = 100_000
LOGIN: Final = b"\0guest\0guest"


class FakeClock:
    """Stands still until told."""

    def __init__(self) -> None:
        self.now_ns = 1_000 * SECOND_NS

    def monotonic_ns(self) -> int:
        return self.now_ns

    def wall_ns(self) -> int:
        return self.now_ns


class FakeRandom:
    """Counts: never the same octets twice, always the same in each run."""

    def __init__(self) -> None:
        self.drawn = 0

    def octets(self, count: int) -> bytes:
        self.drawn += 1
        return self.drawn.to_bytes(count, "big")


class FakeLog:
    """Keeps what was logged."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, Mapping[str, object]]] = []

    def event(self, level: str, name: str, fields: Mapping[str, object], /) -> None:
        self.events.append((level, name, fields))

    def names(self) -> list[str]:
        return [name for _, name, _ in self.events]


class Decoder:
    """Octets from the broker -> events; anything a correct broker never sends is an error."""

    def __init__(self) -> None:
        self.held = b""
        self.heartbeats = 0
        self.headers = 0
        self.partial: dict[int, list[Any]] = {}

    def feed(self, data: bytes) -> list[Event]:
        self.held += data
        found: list[Event] = []
        at = 0
        while len(self.held) - at >= 8:
            if self.held[at : at + 8] == PROTOCOL_HEADER:
                self.headers += 1
                at += 8
                continue
            kind, channel, size = struct.unpack_from(">BHI", self.held, at)
            after = at + 8 + size
            if after > len(self.held):
                break
            assert self.held[after - 1] == 0xCE, f"end octet {self.held[after - 1]:#x}"
            event = self._assemble(kind, channel, self.held[at + 7 : after - 1])
            if event is not None:
                found.append(event)
            at = after
        self.held = self.held[at:]
        return found

    def _assemble(self, kind: int, channel: int, payload: bytes) -> Event | None:
        if kind == FRAME_HEARTBEAT:
            assert (channel, payload) == (0, b""), f"heartbeat on {channel} with {payload!r}"
            self.heartbeats += 1
            return None
        content = self.partial.get(channel)
        if kind == FRAME_METHOD and content is None:
            method = decode_method(payload, channel)
            if method.name not in CONTENT_METHODS:
                return method
            self.partial[channel] = [method, None, 0, b"", ()]
        elif kind == FRAME_HEADER and content and content[1] is None:
            class_id, weight, size = struct.unpack_from(">HHQ", payload)
            assert (class_id, weight) == (60, 0), f"content header {payload!r}"
            content[1], content[2] = payload[12:], size
        elif kind == FRAME_BODY and content and content[1] is not None:
            assert payload, "an empty body frame"
            content[3] += payload
            content[4] += (len(payload),)
        else:
            raise AssertionError(f"frame of type {kind} out of order on channel {channel}")
        method, raw, size, body, sizes = self.partial[channel]
        assert len(body) <= size, f"{len(body)} octets of a body of {size}"
        if raw is None or len(body) < size:
            return None
        del self.partial[channel]
        return Message(method, raw, body, sizes)


class Machine:
    """One broker, its clock, and the peers connected to it."""

    def __init__(
        self, settings: SessionSettings | None = None, clock: FakeClock | None = None
    ) -> None:
        self.clock = clock or FakeClock()
        self.random = FakeRandom()
        self.log = FakeLog()
        self.broker = Broker(
            node_name="machine",
            clock=self.clock,
            random=self.random,
            log=self.log,
            users=UserStore(),
            permissions=Permissions(),
            mechanisms=Mechanisms(),
        )
        self.settings = settings or SessionSettings()
        self.begin()
        self.vhost = self.broker.vhosts["/"]
        self.outbox = Outbox()
        self.peers: list[Peer] = []
        self.connected = 0

    def begin(self) -> None:
        """What there is before anybody connects."""
        guest = new_user("guest", b"guest", self.random, ("administrator",))
        self.broker.metadata.apply(
            (
                VHostPut(name="/"),
                user_put(guest),
                PermissionPut(user="guest", vhost="/", configure=".*", write=".*", read=".*"),
            )
        )

    def peer(self, address: str = "127.0.0.1") -> "Peer":
        """A client that has connected and sent nothing yet."""
        peer = Peer(self, address)
        self.peers.append(peer)
        return peer

    def client(self, **tuning: Any) -> "Peer":
        """A client that has gone through the negotiation."""
        return self.peer().open(**tuning)

    def turn(self) -> None:
        """End the loop turn, and have as many more as there is work for."""
        self.broker.turn.now_ns = self.clock.now_ns
        for _ in range(TURNS_MAX):
            more = self.broker.turn.run()
            self.before_flush()
            for output in self.outbox.take_dirty():
                owner = output.owner
                if not isinstance(owner, Peer):
                    output.discard()
                elif not self.keeps_back(owner):
                    owner.flush()
            more = self.after_flush() or more
            if not (more or self.broker.turn.queues or self.outbox.dirty):
                return
        raise AssertionError("turns without end")

    def before_flush(self) -> None:
        """The turn has ended, nothing of it was sent yet."""

    def keeps_back(self, peer: "Peer") -> bool:
        """Whether what a peer is about to be told is not stored yet."""
        return False

    def after_flush(self) -> bool:
        """Everything was sent; True if there is more to do."""
        return False

    def pass_time(self, seconds: float) -> None:
        """Let time pass and every connection look at the clock."""
        self.clock.now_ns += int(seconds * SECOND_NS)
        self.broker.turn.now_ns = self.clock.now_ns
        for peer in list(self.peers):
            if peer.alive():
                peer.connection.tick(self.clock.now_ns)
                peer.look()
        self.turn()

    def alarm(self, source: Source = Source.MEMORY, *, on: bool, node: str = "machine") -> None:
        """Set or clear an alarm, and tell every connection."""
        alarms = self.broker.alarms
        if on:
            alarms.set(Alarm(source, node))
        else:
            alarms.clear(Alarm(source, node))
        for peer in list(self.peers):
            if peer.alive():
                peer.connection.on_alarm()
        self.turn()


class Peer:
    """The client's end of one connection."""

    def __init__(self, machine: Machine, address: str = "127.0.0.1") -> None:
        self.machine = machine
        machine.connected += 1
        self.connection = Connection(
            machine.connected,
            address,
            40_000 + machine.connected,
            machine.broker,
            machine.settings,
            machine.outbox,
            tls=False,
            now_ns=machine.clock.now_ns,
        )
        self.connection.output.owner = self
        self.decoder = Decoder()
        self.received = b""
        self.inbox: list[Event] = []
        # Whether the client reads what the broker sends.
        self.reads = True
        self.frame_max = 131_072

    # What the server's link does.

    def alive(self) -> bool:
        return self.connection.output.owner is self

    def flush(self) -> None:
        output = self.connection.output
        data = b"".join(output.take())
        if self.reads:
            output.sent(len(data))
            self.received += data
            self.inbox += self.decoder.feed(data)
        if output.stalled and output.parts_size <= output.bound // 2:
            self.connection.drained()
        self.look()

    def look(self) -> None:
        connection = self.connection
        if connection.gone or (connection.phase == CLOSED and connection.output.size() == 0):
            self.drop()

    def drop(self) -> None:
        """The socket is gone."""
        self.connection.lost("connection closed by peer")
        self.connection.output.owner = None
        if self in self.machine.peers:
            self.machine.peers.remove(self)

    def read_on(self) -> None:
        """Read again, beginning with what was not read meanwhile."""
        self.reads = True
        self.flush()
        self.machine.turn()

    # Sending.

    def feed(self, *pieces: bytes) -> None:
        """Hand octets to the broker, each piece a read of its own, and end the turn."""
        for data in pieces:
            if not self.alive():
                return
            self.connection.receive(data)
            self.look()
        self.machine.turn()

    def send(self, channel: int, name: str, **arguments: Any) -> None:
        self.feed(method(channel, name, **arguments))

    def publish(self, channel: int, body: bytes, key: str, **arguments: Any) -> None:
        self.feed(publish(channel, body, key, frame_max=self.frame_max, **arguments))

    def call(self, channel: int, name: str, **arguments: Any) -> Any:
        """Send a method and take the next event of its channel."""
        self.send(channel, name, **arguments)
        return self.take(channel)

    # Receiving.

    def take(self, channel: int | None = None, name: str = "") -> Any:
        """Take the next event (of the channel); demand its name if one is given."""
        for place, event in enumerate(self.inbox):
            if channel is None or event.channel == channel:
                assert not name or event.name == name, f"expected {name}, got {event}"
                return self.inbox.pop(place)
        raise AssertionError(f"nothing came on channel {channel}: {self.inbox}")

    def take_all(self, name: str = "", channel: int | None = None) -> list[Any]:
        """Take every event of that name and channel; without a name, every event."""
        wanted = [
            event
            for event in self.inbox
            if (not name or event.name == name) and (channel is None or event.channel == channel)
        ]
        chosen = {id(event) for event in wanted}
        self.inbox = [event for event in self.inbox if id(event) not in chosen]
        return wanted

    # Longer exchanges.

    def open(
        self,
        *,
        vhost: str = "/",
        channel_max: int | None = None,
        frame_max: int | None = None,
        heartbeat: int = 0,
        capabilities: Mapping[str, bool] = CAPABILITIES,
    ) -> "Peer":
        settings = self.machine.settings
        self.frame_max = settings.frame_max if frame_max is None else frame_max
        self.feed(
            opening(
                vhost=vhost,
                channel_max=settings.channel_max if channel_max is None else channel_max,
                frame_max=self.frame_max,
                heartbeat=heartbeat,
                capabilities=capabilities,
            )
        )
        names = [event.name for event in self.take_all()]
        assert names == ["connection.start", "connection.tune", "connection.open-ok"], names
        return self

    def channel(self, number: int = 1) -> int:
        assert self.call(number, "channel.open").name == "channel.open-ok"
        return number

    def queue(self, name: str = "", channel: int = 1, **arguments: Any) -> str:
        declared = self.call(channel, "queue.declare", queue=name, **arguments)
        assert declared.name == "queue.declare-ok", declared
        queue: str = declared.queue
        return queue

    def consume(self, queue: str, channel: int = 1, **arguments: Any) -> str:
        answer = self.call(channel, "basic.consume", queue=queue, **arguments)
        assert answer.name == "basic.consume-ok", answer
        tag: str = answer.consumer_tag
        return tag

    def close(self) -> None:
        self.send(0, "connection.close")
        self.drop()


def opening(
    *,
    vhost: str = "/",
    channel_max: int = 2047,
    frame_max: int = 131_072,
    heartbeat: int = 0,
    capabilities: Mapping[str, bool] = CAPABILITIES,
) -> bytes:
    """Everything a client sends until its connection is open, in one piece."""
    properties = {"product": "machine", "capabilities": dict(capabilities)}
    tuning = {"channel_max": channel_max, "frame_max": frame_max, "heartbeat": heartbeat}
    return b"".join(
        (
            PROTOCOL_HEADER,
            method(0, "connection.start-ok", client_properties=properties, response=LOGIN),
            method(0, "connection.tune-ok", **tuning),
            method(0, "connection.open", virtual_host=vhost),
        )
    )


def method(channel: int, name: str, **arguments: Any) -> bytes:
    """The frame of one method."""
    return frame(FRAME_METHOD, channel, encode_method(name, **arguments))


def publish(
    channel: int,
    body: bytes,
    key: str,
    *,
    exchange: str = "",
    mandatory: bool = False,
    properties: dict[str, Any] | bytes | None = None,
    frame_max: int = 131_072,
    part_sizes: Iterable[int] | None = None,
) -> bytes:
    """The frames of one publish; the body is cut at `frame_max` or as `part_sizes` say."""
    frames = [
        method(channel, "basic.publish", exchange=exchange, routing_key=key, mandatory=mandatory),
        frame(FRAME_HEADER, channel, header_payload(len(body), properties)),
    ]
    at = 0
    for size in part_sizes or ():
        frames.append(frame(FRAME_BODY, channel, body[at : at + size]))
        at += size
    step = frame_max - 8
    starts = range(at, len(body), step)
    frames += [frame(FRAME_BODY, channel, body[begin : begin + step]) for begin in starts]
    return b"".join(frames)
