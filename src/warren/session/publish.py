"""The general way of a publish: content assembly, checks in order, routing, returns (spec 6.1).

The short way in `connection` hands over to `make_route` on a cache miss and to this module
whenever a message or channel is not ordinary: several body frames, CC or BCC, expiration, user-id,
direct reply-to, a transaction, a headers exchange, a mandatory publish without a queue.
"""

from typing import TYPE_CHECKING, Final

from librt.strings import read_i64_be
from mypy_extensions import i64

from warren.core import AmqpError, reply
from warren.protocol.delay import refusal_text
from warren.protocol.frame import frame
from warren.protocol.methods import BasicReturn
from warren.protocol.properties import (
    P_BAD_MODE,
    P_EXPIRATION,
    P_HEADERS,
    P_REPLY_TO_DIRECT,
    P_ROUTED_HEADERS,
    P_USER_ID,
    decode,
    expiration_of,
    headers_of,
    scan,
    user_id_of,
    with_headers,
    with_reply_to,
)
from warren.protocol.value import ARRAY, LONG_STRING, Field, Table, kind_name
from warren.protocol.wire import check_utf8, read_u16, short_end
from warren.queues import HELD, PENDING, REFUSED, TAKEN, ConfirmLedger, Message, QueueRef
from warren.routing import check_publishable, no_exchange
from warren.security import Access
from warren.session import parking
from warren.session.access import check_access, check_topic
from warren.session.channel import (
    EXPECT_BODY,
    EXPECT_HEADER,
    Channel,
    TxPublish,
)
from warren.session.frame_error import content_error
from warren.session.route import Route, Source, queue_refs
from warren.session.settings import MESSAGE_SIZE_CAP
from warren.vhost import PREFIX

if TYPE_CHECKING:
    from warren.session.connection import Connection

# Properties that make a message take the general way.
P_LONG_WAY: Final = P_BAD_MODE | P_ROUTED_HEADERS | P_EXPIRATION | P_USER_ID | P_REPLY_TO_DIRECT
WORD_PUBLISH: Final = (60 << 16) | 40
# A body that came in several pieces is joined up to this size; a larger one is sent on in the
# pieces it came in, copied no more.
JOINED_MAX: Final = 32768
# Those among them that change what is done with the message, not only what is checked first.
P_ALWAYS_LONG: Final = P_BAD_MODE | P_ROUTED_HEADERS | P_REPLY_TO_DIRECT
# 3.10's bound for `expiration`: ten years in milliseconds.
EXPIRATION_MAX: Final = 315_360_000_000


# -- assembly ------------------------------------------------------------------------------------


def begin(channel: Channel, arguments: bytes) -> None:
    """A publish method came; its content follows. `arguments` begin with the ticket."""
    # The fields must make sense before the content is waited for.
    end: i64 = len(arguments)
    after = short_end(arguments, 2, end)
    check_utf8(arguments, 3, after)
    after_key = short_end(arguments, after, end)
    check_utf8(arguments, after + 1, after_key)
    if end - after_key != 1:
        raise AmqpError(reply.FRAME_ERROR, "cannot decode basic.publish: wrong length")
    if arguments[end - 1] & 2:
        raise AmqpError(reply.NOT_IMPLEMENTED, "immediate=true")
    channel.arguments = arguments
    channel.expect = EXPECT_HEADER
    channel.quick = False


def on_header(connection: "Connection", channel: Channel, data: bytes, pos: i64, end: i64) -> None:
    if end - pos < 14:
        raise AmqpError(reply.FRAME_ERROR, "cannot decode content header: too short")
    connection.failing_method = WORD_PUBLISH
    class_id = read_u16(data, pos)
    if class_id != 60:
        raise content_error(True, 2, class_id)
    size = read_i64_be(data, pos + 4)
    limit = connection.settings.max_message_size
    if size < 0 or size > MESSAGE_SIZE_CAP:
        # Refused before its body is collected: what is announced is never allocated.
        raise _too_large(int(size) & 0xFFFFFFFFFFFFFFFF, min(limit, MESSAGE_SIZE_CAP), limit)
    channel.props = data[pos + 12 : end]
    channel.body_size = size
    channel.body_left = size
    channel.chunks = []
    channel.oversize = size > limit
    channel.expect = EXPECT_BODY
    if size == 0:
        complete(connection, channel)


def add_body(channel: Channel, payload: bytes) -> None:
    """Take body octets, which may be part of a frame."""
    if len(payload) > channel.body_left:
        raise content_error(False, 3, 0)
    channel.add_chunk(payload)


def on_body(connection: "Connection", channel: Channel, payload: bytes) -> None:
    if payload:
        add_body(channel, payload)
    if channel.body_left == 0:
        complete(connection, channel)


def complete(connection: "Connection", channel: Channel) -> None:
    """The whole content is here."""
    arguments = channel.arguments
    props = channel.props
    chunks = channel.chunks
    size = channel.body_size
    channel.forget_content()
    channel.settle_quick()
    body = b""
    more: list[bytes] | None = None
    if len(chunks) == 1:
        body = chunks[0]
    elif size <= JOINED_MAX:
        body = b"".join(chunks)
    else:
        more = chunks
    connection.large = more is not None
    publish(connection, channel, arguments, props, body, more, size)


# -- routing -------------------------------------------------------------------------------------


def make_route(connection: "Connection", channel: Channel, arguments: bytes) -> Route:
    """Check a publish's exchange, key and permission, and compute its targets (PB-1)."""
    connection.failing_method = WORD_PUBLISH
    end: i64 = len(arguments)
    after = short_end(arguments, 2, end)
    source = connection.routes.source_at(arguments, after)
    if source is None:
        check_utf8(arguments, 3, after)
    after_key = short_end(arguments, after, end)
    check_utf8(arguments, after + 1, after_key)
    flags = arguments[end - 1]
    if end - after_key != 1:
        raise AmqpError(reply.FRAME_ERROR, "cannot decode basic.publish: wrong length")
    if flags & 2:
        raise AmqpError(reply.NOT_IMPLEMENTED, "immediate=true")
    key = arguments[after + 1 : after_key]
    if source is None:
        source = _find_source(connection, arguments[3:after])
    if source.topic_checked:
        check_topic(connection, source.exchange, Access.WRITE, key)
    tail = arguments[2:after_key]
    mandatory = flags & 1 == 1
    if after == 3 and key.startswith(b"amq.rabbitmq.reply-to."):
        address = connection.broker.reply_addresses.get(key[len(PREFIX) :].decode())
        return Route(
            arguments,
            tail,
            [] if address is None else [address],
            mandatory=mandatory,
            again=False,
            special=True,
            is_reply=True,
        )
    if source.again:
        targets: list[QueueRef] = []
    else:
        routing = connection.vhost().routing
        targets = source.targets_of(routing.route(source.exchange, key, None, None))
    return Route(
        arguments,
        tail,
        targets,
        mandatory=mandatory,
        again=source.again,
        special=source.special,
        volatile=source.volatile,
    )


def _find_source(connection: "Connection", raw_name: bytes) -> Source:
    """Permission, existence, internal, in this order; remembered until something changes."""
    vhost = connection.vhost()
    name = raw_name.decode()
    check_access(connection, Access.WRITE, name, "exchange")
    exchange = vhost.routing.exchange_by_key(raw_name)
    if exchange is None:
        raise no_exchange(name, vhost.name)
    check_publishable(exchange, vhost.name)
    permissions = connection.broker.permissions
    source = Source(
        exchange,
        topic_checked=exchange.kind == "topic"
        and permissions.restricts_topics(connection.user, vhost.name, name),
        headers=vhost.routing.needs_headers(exchange),
        volatile=vhost.routing.is_volatile(exchange),
        traced=vhost.tracer is not None,
    )
    connection.routes.remember(raw_name, source)
    return source


# -- the publish itself --------------------------------------------------------------------------


def publish(
    connection: "Connection",
    channel: Channel,
    arguments: bytes,
    props: bytes,
    body: bytes,
    more: list[bytes] | None,
    size: i64,
) -> Route:
    """Publish one message whose content is complete, with every check in its order (PB-1).

    Return where it went.
    """
    connection.failing_method = WORD_PUBLISH
    limit = connection.settings.max_message_size
    if size > limit:
        raise _too_large(int(size), limit, limit)
    route = connection.find_route(channel, arguments)
    connection.load.route = route
    traits = scan(props, 0, len(props))
    tail = route.tail
    if traits & P_LONG_WAY != 0:
        _check_properties(connection, channel, props, traits)
        connection.checked_props = props
        if traits & P_REPLY_TO_DIRECT:
            address = channel.reply
            if address is None:
                raise _refused("fast reply consumer does not exist")
            props = with_reply_to(props, address.name)
            traits &= ~P_REPLY_TO_DIRECT
    headers: Table | None = None
    extra: list[bytes] | None = None
    hidden: list[bytes] | None = None
    if traits & P_HEADERS and (route.again or traits & P_ROUTED_HEADERS):
        headers = headers_of(props)
        if headers is not None and traits & P_ROUTED_HEADERS:
            extra = _header_keys(headers, "CC")
            hidden = _header_keys(headers, "BCC")
            extra += hidden
            props = _without_bcc(props, headers)
    tracer = connection.vhost().tracer
    if route.again or extra:
        asked = route
        route = _route_again(connection, asked, extra, headers, props)
        if tracer is None and not extra and not route.returned and not asked.volatile:
            connection.routes.remember_again(asked, props, route)
    message = Message(tail, props, body, more, size, traits, 0, hidden)
    channel.published += 1
    if tracer is not None:
        tracer.published(channel.party(), message, route.targets)
    if channel.tx is not None:
        channel.tx.publishes.append(TxPublish(route, message))
        return route
    hand_over(channel, route, message)
    return route


def hand_over(channel: Channel, route: Route, message: Message) -> None:
    """Give a message to its queues; return it if it must and has none, then confirm."""
    if route.returned:
        return_message(channel, message)
    ledger = channel.ledger
    if ledger is not None:
        to_queues_confirmed(channel, ledger, route, message)
        return
    for target in route.targets:
        if target.publish(message, None, 0) >= HELD:
            on_held(channel, target)


def to_queues_confirmed(
    channel: Channel, ledger: ConfirmLedger, route: Route, message: Message
) -> None:
    """Give a message to its queues under the next confirm number (CO-1, CO-2)."""
    number = ledger.published + 1
    ledger.published = number
    if not ledger.listed:
        ledger.listed = True
        channel.connection.ledgers.append(ledger)
    owed = 0
    refused = False
    for target in route.targets:
        answer = target.publish(message, ledger, number)
        if answer == TAKEN:
            continue
        if answer == REFUSED:
            refused = True
            continue
        if answer == PENDING:
            owed += 1
        on_held(channel, target)
    if owed:
        ledger.owe(number, owed)
    if refused:
        ledger.refuse(number)


def on_held(channel: Channel, target: QueueRef) -> None:
    """A queue keeps a publish in front of itself: it costs the channel credit for that queue."""
    parking.charge(channel, target)


def return_message(channel: Channel, message: Message) -> None:
    """PB-3: basic.return with the content, before the confirm of that publish."""
    method = BasicReturn(
        reply_code=reply.NO_ROUTE,
        reply_text="NO_ROUTE",
        exchange=message.exchange().decode(),
        routing_key=message.routing_key().decode(),
    )
    write_content(channel.connection, channel.number, method.encode(), message)


def write_content(connection: "Connection", number: i64, method: bytes, message: Message) -> None:
    """Write a method with content, for what is not a delivery to a consumer."""
    output = connection.output
    header = b"\x00\x3c\x00\x00" + int(message.size).to_bytes(8, "big") + message.props
    output.write(frame(1, int(number), method) + frame(2, int(number), header))
    output.body_frames(number, message.chunks(), message.size)


# -- properties that need a look -----------------------------------------------------------------


def _check_properties(
    connection: "Connection", channel: Channel, props: bytes, traits: i64
) -> None:
    """user-id, expiration, delivery-mode, in the order of PB-1."""
    if traits & P_USER_ID:
        claimed = user_id_of(props)
        if claimed != connection.user:
            user = connection.broker.users.get(connection.user)
            if user is None or "impersonator" not in user.tags:
                raise _refused(
                    f"user_id property set to '{claimed}' but authenticated user was "
                    f"'{connection.user}'"
                )
    if traits & P_EXPIRATION:
        _check_expiration(expiration_of(props) or "")
    if traits & P_BAD_MODE:
        mode = decode(props).delivery_mode
        raise _refused(f"invalid message: {{delivery_mode_unknown,{mode}}}")


def _check_expiration(text: str) -> None:
    if text.isascii() and text.isdigit() and len(text) < 12:
        return
    digits = text[1:] if text[:1] in ("-", "+") else text
    end = 0
    while end < len(digits) and "0" <= digits[end] <= "9":
        end += 1
    if end == 0:
        raise _refused(f"invalid expiration '{text}': no_integer")
    if end < len(digits):
        raise _refused(f"invalid expiration '{text}': {{leftover_string,\"{digits[end:]}\"}}")
    value = int(text)
    if value < 0:
        raise _refused(f"invalid expiration '{text}': {{value_negative,{value}}}")
    if value > EXPIRATION_MAX:
        raise _refused(f"invalid expiration '{text}': {{value_too_large,{value}}}")


def _header_keys(headers: Table, name: str) -> list[bytes]:
    """The additional routing keys of CC or BCC (PB-4)."""
    keys: list[bytes] = []
    item = headers.get(name)
    if item is None:
        return keys
    value = item.value
    if item.kind != ARRAY or not isinstance(value, list):
        raise _refused(
            f'invalid message: {{unacceptable_type_in_header,"{name}",{kind_name(int(item.kind))}}}'
        )
    for entry in value:
        # What is no string in the array is no key, and no error either.
        if isinstance(entry, Field) and entry.kind == LONG_STRING:
            assert isinstance(entry.value, bytes)
            keys.append(entry.value)
    return keys


def _without_bcc(props: bytes, headers: Table) -> bytes:
    if "BCC" not in headers:
        return props
    kept = {name: item for name, item in headers.items() if name != "BCC"}
    return with_headers(props, kept)


def _route_again(
    connection: "Connection",
    route: Route,
    extra: list[bytes] | None,
    headers: Table | None,
    props: bytes,
) -> Route:
    """Route with what only this message has: its properties, its CC and BCC keys."""
    tail = route.tail
    name = tail[1 : 1 + tail[0]]
    key = tail[2 + tail[0] :]
    routing = connection.vhost().routing
    exchange = routing.exchange_by_key(name)
    assert exchange is not None
    sinks = routing.route(exchange, key, extra, headers, props)
    if routing.reach.refusal:
        raise _refused(refusal_text(routing.reach.refusal))
    return Route(
        route.key,
        tail,
        queue_refs(sinks),
        mandatory=route.mandatory,
        again=False,
        special=True,
    )


def _refused(detail: str) -> AmqpError:
    return AmqpError(reply.PRECONDITION_FAILED, detail)


def _too_large(size: int, limit: int, configured: int) -> AmqpError:
    word = "configured max size" if configured < MESSAGE_SIZE_CAP else "max size"
    return _refused(f"message size {size} is larger than {word} {limit}")
