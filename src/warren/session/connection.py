"""One connection: octets in, frames out, and the short way of a publish.

`receive` is handed whatever the socket gave and makes one pass over every whole frame in it. A
publish whose three frames are complete, on a channel where nothing special holds, is recognised
in place and goes from the received octets to the queues without a method object; everything else
takes the general way through `_on_frame`. What is left of an unfinished frame is kept, except
that body octets are taken as they come.

Errors: `AmqpError` and `DecodeError` end the frame that raised them; scope and text follow from
the code (spec EX-1 to EX-5), and the pass goes on behind that frame.

This is a machine without I/O: time is handed in by `tick`, octets leave through `output`, and the
driver looks at `phase`, `reading` and `drop_at_ns` after each call.
"""

from typing import TYPE_CHECKING, Final, final

from librt.strings import read_i32_be, read_i64_be
from mypy_extensions import i64

from warren.core import AmqpError, reply
from warren.flow import Handle, Kind, PublisherState, Reason, Subject
from warren.protocol.methods import (
    Method,
    UnknownMethod,
    decode,
)
from warren.protocol.output import Outbox, Output
from warren.protocol.properties import scan
from warren.protocol.wire import DecodeError
from warren.queues import HELD, ConfirmLedger, Message
from warren.security import Mechanism
from warren.session import ending, handshake, parking, publish, watch
from warren.session.channel import (
    EXPECT_BODY,
    EXPECT_CLOSE_OK,
    EXPECT_HEADER,
    EXPECT_METHOD,
    Channel,
)
from warren.session.dispatch import on_channel_method, on_connection_method
from warren.session.frame_error import (
    FatalFrameError,
    content_error,
    frame_text,
    misplaced_frame,
    unknown_frame,
)
from warren.session.load import Load
from warren.session.pace import Pace, publish_paid, renew
from warren.session.phase import (
    CLOSED,
    CLOSING,
    DOOMED,
    HANDSHAKE,
    HEADER,
    RUNNING,
    SECOND_NS,
)
from warren.session.piece import begin_piece, continue_piece
from warren.session.publish import P_ALWAYS_LONG, P_LONG_WAY
from warren.session.route import Route, RouteCache, same_octets
from warren.session.settings import SessionSettings
from warren.session.settle import on_ack
from warren.vhost import Broker, Usage, VHost

if TYPE_CHECKING:
    from warren.protocol.value import Table
    from warren.vhost.change import Change

WORD_PUBLISH: Final[i64] = (60 << 16) | 40
WORD_ACK: Final[i64] = (60 << 16) | 80
WORD_NACK: Final[i64] = (60 << 16) | 120
WORD_REJECT: Final[i64] = (60 << 16) | 90
WORD_HEADER: Final[i64] = 60 << 16


@final
class Connection:
    def __init__(  # noqa: PLR0915 - a connection has that much state, and it is all here
        self,
        identity: int,
        peer: str,
        peer_port: int,
        broker: Broker,
        settings: SessionSettings,
        outbox: Outbox,
        *,
        tls: bool,
        now_ns: int,
        own_mechanism: Mechanism | None = None,
    ) -> None:
        self.identity = identity
        self.peer = peer
        self.peer_port = peer_port
        self.tls = tls
        # A way to log in that only this connection has: its peer's certificate (EXTERNAL).
        self.own_mechanism = own_mechanism
        self.broker = broker
        self.settings = settings
        self.output = Output(outbox, settings.unsent_bytes_max)
        self.phase: i64 = HEADER
        self.handshake_step = 0
        self.channels: dict[int, Channel] = {}
        self.user = ""
        # How it logged in.
        self.mechanism = ""
        # Its login was refused; it only lingers.
        self.refused = False
        self.home: VHost | None = None
        self.usage: Usage | None = None
        self.client_properties: Table = {}
        self.capabilities: frozenset[str] = frozenset()
        self.channel_max = settings.channel_max
        self.frame_max = settings.frame_max
        self.heartbeat_s = 0
        self.connected_ns = now_ns
        # The payload limit (WI-3): frame_max itself is tolerated; 4096 before tuning.
        self.payload_max: i64 = 4096
        # The largest body the short way takes: of one frame, and within the size limit (PB-1).
        self.quick_body_max: i64 = 0
        self.rest = b""
        self.cursor: i64 = 0
        # The channel number of the frame being handled.
        self.failing: i64 = 0
        # The method it carries, class id in the upper half; 0 while there is none to name (EX-1).
        self.failing_method: i64 = 0
        # A body frame that is being taken piece by piece: what is missing of its payload.
        self.piece_left: i64 = 0
        self.piece_channel: Channel | None = None
        # Its first octets, for the text of an error.
        self.piece_head = b""
        # Routes, and the versions they hold for.
        self.routes = RouteCache()
        self.routes_version: i64 = -1
        self.route: Route | None = None
        self.props = b""
        self.traits: i64 = 0
        # The last properties whose user-id and expiration were checked.
        self.checked_props = b""
        self.ledgers: list[ConfirmLedger] = []
        # Exclusive queues by name, deleted with the connection.
        self.exclusive: dict[str, None] = {}
        # Blocking by alarm or credit, and what is parked meanwhile.
        self.publisher = PublisherState(notifiable=False, alarm=False)
        self.watchful = False
        self.parked_channels: dict[int, None] = {}
        self.parked_bytes: i64 = 0
        self.credit_out = False
        # The limits of its publishes a second; None while there never was one.
        self.pace: Pace | None = None
        self.block_waits: dict[Reason, Handle] = {}
        self.block_reason = ""
        self.last_flow_ns: i64 = -1
        # How much it asks of the loop.
        self.load = Load()
        # Whether the last content came in pieces: then larger reads are worth their memory.
        self.large = False
        # What the driver looks at.
        self.reading = True
        self.drop_at_ns: i64 = now_ns + settings.handshake_timeout_ms * 1_000_000
        self.close_text = ""
        # The peer cannot be reached any more, or is not worth a farewell.
        self.gone = False
        # Heartbeats.
        self.octets_in: i64 = 0
        self.seen_in: i64 = 0
        self.misses: i64 = 0
        self.next_look_ns: i64 = 0
        self.next_channel_tick_ns: i64 = now_ns + settings.channel_tick_ms * 1_000_000
        self.seen_out: i64 = 0
        self.last_out_ns: i64 = now_ns
        self.subject = Subject(Kind.CONNECTION, f"{peer}:{peer_port}")

    # -- what others ask -----------------------------------------------------------------------

    def pressure(self) -> i64:
        """How far the consumers of what is published here are behind."""
        route = self.route
        if route is None or not route.targets:
            return 0
        return route.targets[0].pressure()

    def vhost(self) -> VHost:
        home = self.home
        assert home is not None
        return home

    def capable(self, name: str) -> bool:
        return name in self.capabilities

    def state(self) -> str:
        """The state in listings (flow-and-alarms 2.6)."""
        if self.phase < RUNNING:
            return handshake.state_text(self.handshake_step)
        if self.phase > RUNNING:
            return "closing" if self.phase < CLOSED else "closed"
        since_ns = self.broker.turn.now_ns - self.last_flow_ns
        return self.publisher.shown(self.last_flow_ns >= 0 and since_ns < 5 * SECOND_NS)

    # -- metadata --------------------------------------------------------------------------------

    def change(self, change: "Change") -> None:
        """Make a change of metadata on behalf of the client, and answer when it is stored."""
        home = self.vhost()
        if self.broker.vhosts.get(home.name) is not home:
            # Deleted already; the close of this connection is on its way (VH-6).
            raise AmqpError(reply.CONNECTION_FORCED, f"vhost '{home.name}' is deleted")
        output = self.output
        output.hold = max(output.hold, i64(self.broker.metadata.apply((change,))))

    def hold(self, name: str) -> None:
        """Answer when a durable queue or exchange that is there is stored, whoever made it."""
        output = self.output
        ticket = i64(self.broker.metadata.ticket_of(self.vhost().name, name))
        output.hold = max(output.hold, ticket)

    # -- octets in -----------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """Take what the socket gave; everything that follows from it is done on return."""
        self.octets_in += len(data)
        if self.phase == HEADER:
            data = handshake.protocol_header(self, data)
            if self.phase != HANDSHAKE:
                return
        elif self.phase >= DOOMED:
            return
        if self.rest:
            data = self.rest + data
            self.rest = b""
        self.cursor = 0
        while True:
            try:
                self._frames(data, self.cursor)
                break
            except DecodeError as malformed:
                self.fail_decoding(malformed)
            except AmqpError as refusal:
                self.fail(refusal)
            if self.phase >= DOOMED:
                return
        if self.cursor < len(data) and self.phase < DOOMED:
            self.rest = data[self.cursor :]
        if self.ledgers:
            self.flush_confirms()

    def _frames(self, data: bytes, pos: i64) -> None:  # noqa: C901, PLR0915 - the hot loop
        """Handle every whole frame; `cursor` is behind the last one handled or being handled."""
        size_all: i64 = len(data)
        if self.routes_version != self.broker.version:
            self._forget_routes()
        if self.piece_left > 0 or self.piece_channel is not None:
            pos = continue_piece(self, data, pos, size_all)
        channel: Channel | None = None
        number: i64 = -1
        while size_all - pos >= 8:
            word = read_i64_be(data, pos)
            size = (word >> 8) & 0xFFFFFFFF
            end = pos + 8 + size
            if size > self.payload_max:
                raise self._too_large((word >> 56) & 0xFF, data, pos, size)
            if end > size_all:
                if (word >> 56) & 0xFF == 3:
                    pos = begin_piece(self, data, pos, size_all, (word >> 40) & 0xFFFF, size)
                break
            if data[end - 1] != 0xCE:
                self.failing_method = 0
                raise FatalFrameError(
                    f"{frame_text((word >> 56) & 0xFF, data, pos, end)}: "
                    f"{{invalid_frame_end_marker,{data[end - 1]}}}"
                )
            self.cursor = end
            wanted = (word >> 40) & 0xFFFF
            if wanted != number:
                number = wanted
                self.failing = number
                channel = self.channels.get(int(number))
            if (word >> 56) & 0xFF == 1 and channel is not None and size >= 4:
                method = i64(read_i32_be(data, pos + 7))
                if method == WORD_PUBLISH and channel.quick:
                    if not self.watchful:
                        done = self.publish_in_place(channel, data, pos, end, size_all)
                    else:
                        done = publish_paid(self, channel, data, pos, end, size_all)
                    if done > 0:
                        pos = done
                        continue
                elif method == WORD_ACK and size == 13 and channel.expect == EXPECT_METHOD:
                    self.failing_method = WORD_ACK
                    on_ack(channel, read_i64_be(data, pos + 11), data[pos + 19] & 1 == 1)
                    pos = end
                    continue
            self._on_frame((word >> 56) & 0xFF, number, channel, data, pos, end)
            if self.phase != RUNNING and self.phase >= DOOMED:
                return
            # Whatever it was, it may have changed channels, topology or permissions.
            number = -1
            if self.routes_version != self.broker.version:
                self._forget_routes()
            pos = end
        self.cursor = pos
        if size_all - pos == 7:
            # The head alone tells a frame that will never be taken.
            size = i64(read_i32_be(data, pos + 3)) & 0xFFFFFFFF
            if size > self.payload_max:
                raise self._too_large(data[pos], data, pos, size)

    def _too_large(self, kind: i64, data: bytes, pos: i64, size: i64) -> FatalFrameError:
        self.failing_method = 0
        return FatalFrameError(
            f"{frame_text(kind, data, pos, len(data))}: "
            f"{{frame_too_large,{size},{self.payload_max - 8}}}"
        )

    def publish_in_place(  # noqa: C901 - the hot path, all checks in one place
        self, channel: Channel, data: bytes, pos: i64, end: i64, size_all: i64
    ) -> i64:
        """Publish a message whose frames are all here; 0 if it must take the general way.

        Otherwise return the position behind its last frame. All positions are checked against
        the end of the data before they are read.
        """
        # The header frame: type, channel, class and weight as the general way would check them.
        if size_all - end < 22:
            return 0
        word = read_i64_be(data, end)
        head = (word >> 40) & 0xFFFFFF
        number = (read_i64_be(data, pos) >> 40) & 0xFFFF
        if head != (2 << 16) | number or i64(read_i32_be(data, end + 7)) != WORD_HEADER:
            return 0
        header_size = (word >> 8) & 0xFFFFFFFF
        header_end = end + 8 + header_size
        if header_size < 14 or header_size > self.payload_max or header_end > size_all:
            return 0
        if data[header_end - 1] != 0xCE:
            return 0
        body_size = read_i64_be(data, end + 11)
        done = header_end
        if body_size != 0:
            # The body frame: exactly one, of the whole body.
            if size_all - header_end < 8:
                return 0
            word = read_i64_be(data, header_end)
            if (word >> 40) & 0xFFFFFF != (3 << 16) | number:
                return 0
            if (word >> 8) & 0xFFFFFFFF != body_size or body_size > self.quick_body_max:
                return 0
            done = header_end + 8 + body_size
            if done > size_all or data[done - 1] != 0xCE:
                return 0
        # The route: the same as the last one, a cached one, or the general way finds it.
        route = self.route
        start = pos + 11
        if route is None or not same_octets(data, start, end - 1 - start, route.key):
            route = self.find_route(channel, data[start : end - 1])
            self.route = route
        if route.special and route is not self.routes.again_for:
            return 0
        # The properties: the same as the last message's, or validated now.
        start = end + 19
        if not same_octets(data, start, header_end - 1 - start, self.props):
            self.failing_method = WORD_PUBLISH
            self.traits = scan(data, start, header_end - 1)
            self.props = data[start : header_end - 1]
        traits = self.traits
        if traits & P_LONG_WAY != 0 and (
            traits & P_ALWAYS_LONG != 0 or self.props != self.checked_props
        ):
            return 0
        if route.special:
            decided = self.routes.again_route
            if decided is None or self.props != self.routes.again_props:
                return 0
            route = decided
        body = data[header_end + 7 : done - 1] if body_size != 0 else b""
        message = Message(route.tail, self.props, body, None, body_size, traits, 0, None)
        self.cursor = done
        channel.published += 1
        ledger = channel.ledger
        if ledger is None:
            single = route.single
            if single is not None:
                if single.publish(message, None, 0) >= HELD:
                    publish.on_held(channel, single)
                return done
            for target in route.targets:
                if target.publish(message, None, 0) >= HELD:
                    publish.on_held(channel, target)
            return done
        publish.to_queues_confirmed(channel, ledger, route, message)
        return done

    def find_route(self, channel: Channel, key: bytes) -> Route:
        routes = self.routes
        if routes.passing > 0:
            routes.passing -= 1
            return publish.make_route(self, channel, key)
        route = routes.get(key)
        if route is None:
            route = publish.make_route(self, channel, key)
            if not route.is_reply:
                self.routes.put(route)
        return route

    def enter(self, vhost: VHost, publisher: PublisherState) -> None:
        """connection.open was granted."""
        self.home = vhost
        vhost.connections += 1
        self.usage = self.broker.arrive(self.user)
        self.publisher = publisher
        self.watchful = publisher.watchful
        renew(self)
        self.phase = RUNNING
        self.drop_at_ns = 0
        facts = {"connection": self.subject.name, "user": self.user, "vhost": vhost.name}
        self.broker.log.event("info", "connection.open", facts)

    def on_alarm(self) -> None:
        """Some alarm was set or cleared."""
        if self.phase == RUNNING:
            parking.apply(self, self.publisher.on_alarm(self.broker.alarms.any()))
            if self.ledgers:
                self.flush_confirms()

    def on_messages_here(self, channel: Channel) -> None:
        """What a basic.get of this channel waits for is in memory, or gone."""
        parking.go_on(self, channel)
        self.flush_confirms()

    def on_queue_open(self, channel: Channel, name: str) -> None:
        """A queue has taken the publishes of this channel that it held."""
        parking.unblock(channel, name)
        if channel.ledger is not None:
            channel.ledger.flush()

    def replay(self, channel: Channel, kind: i64, payload: bytes) -> None:
        """Handle a frame that was parked; an error ends its channel as it would have then."""
        self.failing = channel.number
        self.failing_method = 0
        if self.routes_version != self.broker.version:
            self._forget_routes()
        try:
            self.on_payload(kind, channel.number, channel, payload, 0, len(payload))
        except DecodeError as malformed:
            self.fail_decoding(malformed)
        except AmqpError as refusal:
            self.fail(refusal)

    def _forget_routes(self) -> None:
        self.routes.clear()
        self.route = None
        self.load.route = None
        self.checked_props = b""
        self.routes_version = self.broker.version
        renew(self)

    # -- the general way -----------------------------------------------------------------------

    def _on_frame(
        self, kind: i64, number: i64, channel: Channel | None, data: bytes, pos: i64, end: i64
    ) -> None:
        """Handle one whole frame, data[pos:end]."""
        self.failing_method = 0
        if kind == 8:
            if end - pos != 8:
                raise unknown_frame(kind, data, pos, end)
            if number != 0:
                raise misplaced_frame(kind, data, pos, end)
            return
        if kind < 1 or kind > 3:
            raise unknown_frame(kind, data, pos, end)
        if number == 0:
            if kind != 1:
                raise misplaced_frame(kind, data, pos, end)
            if self.phase == CLOSING:
                ending.on_method_closing(self, data, pos, end)
                return
            method = self._decode(data, pos + 7, end - 1)
            self.failing_method = i64(read_i32_be(data, pos + 7))
            if self.phase == HANDSHAKE:
                handshake.on_method(self, method)
            else:
                on_connection_method(self, method)
            return
        if self.phase == CLOSING:
            return
        if self.phase != RUNNING:
            raise AmqpError(
                reply.CHANNEL_ERROR,
                f"unexpected frame on channel {number} in connection state {self.state()}",
            )
        self._on_channel_frame(kind, number, channel, data, pos, end)

    def _on_channel_frame(
        self, kind: i64, number: i64, channel: Channel | None, data: bytes, pos: i64, end: i64
    ) -> None:
        if (
            channel is not None
            and channel.parked is not None
            and not parking.overtakes(channel, kind, data, pos, end)
        ):
            parking.park(self, channel, kind, data[pos + 7 : end - 1])
            return
        self.on_payload(kind, number, channel, data, pos + 7, end - 1)

    def on_payload(
        self, kind: i64, number: i64, channel: Channel | None, data: bytes, pos: i64, end: i64
    ) -> None:
        """Handle the payload data[pos:end] of one frame, received now or parked before."""
        if kind == 1:
            if channel is not None and channel.expect == EXPECT_CLOSE_OK:
                ending.on_method_after_exception(self, channel, data, pos, end)
                return
            if channel is not None and channel.expect != EXPECT_METHOD:
                raise content_error(channel.expect == EXPECT_HEADER, kind, 0)
            method = self._decode(data, pos, end)
            self.failing_method = i64(read_i32_be(data, pos))
            on_channel_method(self, int(number), channel, method, data, pos, end)
            return
        if channel is None:
            raise AmqpError(reply.CHANNEL_ERROR, "expected 'channel.open'")
        if channel.expect == EXPECT_CLOSE_OK:
            return
        if channel.expect == EXPECT_METHOD:
            raise AmqpError(
                reply.UNEXPECTED_FRAME,
                "expected method frame, got non method frame instead",
            )
        if kind == 2 and channel.expect != EXPECT_HEADER:
            raise content_error(False, kind, 0)
        if kind == 3 and channel.expect != EXPECT_BODY:
            raise content_error(True, kind, 0)
        if self.watchful and parking.on_content(self, channel, kind, data[pos:end]):
            return
        if kind == 2:
            publish.on_header(self, channel, data, pos, end)
        else:
            publish.on_body(self, channel, data[pos:end])

    def _decode(self, data: bytes, pos: i64, end: i64) -> Method:
        try:
            return decode(data, pos, end)
        except UnknownMethod as error:
            raise AmqpError(
                reply.COMMAND_INVALID, error.detail, error.class_id, error.method_id
            ) from None

    # -- errors and the end ----------------------------------------------------------------------

    def fail_decoding(self, error: DecodeError) -> None:
        self.fail(AmqpError(error.code, error.detail, error.class_id, error.method_id))

    def fail(self, error: AmqpError) -> None:
        """Turn an error into channel.close or connection.close; the code decides (EX-1)."""
        if self.phase >= CLOSING:
            # What cannot be framed cannot be passed over either: nothing more is read (EX-5).
            if self.phase == CLOSING and isinstance(error, FatalFrameError):
                self.phase = DOOMED
            return
        if error.class_id == 0:
            error.class_id = int(self.failing_method >> 16)
            error.method_id = int(self.failing_method & 0xFFFF)
        channel = self.channels.get(int(self.failing))
        if error.closes_channel_only() and channel is not None and self.phase == RUNNING:
            self.fail_channel(channel, error)
            return
        self.close(error)

    def fail_channel(self, channel: Channel, error: AmqpError) -> None:
        ending.fail_channel(self, channel, error)

    def close(self, error: AmqpError) -> None:
        """End the connection with an error, ours or an operator's."""
        ending.close(self, error)

    def lost(self, why: str) -> None:
        """The socket is gone or is to go: nothing can be sent any more."""
        ending.lost(self, why)

    # -- confirms --------------------------------------------------------------------------------

    def flush_confirms(self) -> None:
        """Send the confirms that became ready since the last call, coalesced (CO-4)."""
        ledgers, self.ledgers = self.ledgers, []
        for ledger in ledgers:
            ledger.listed = False
            ledger.flush()

    def tick(self, now_ns: i64) -> None:
        """Look at the clock."""
        watch.tick(self, now_ns)

    def drained(self) -> None:
        """The socket took what was waiting: consumers of this connection may go on."""
        self.output.stalled = False
        for channel in self.channels.values():
            if channel.outlet.waiting > 0:
                channel.outlet.wake()
