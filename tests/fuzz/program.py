"""Sessions made out of octets: each octet chooses, so that a mutated input is a similar session.

What comes out is the octets a client sends after its negotiation: mostly methods that make sense,
with names from small sets, so that they meet, and now and then something broken. A rehearsal
against a broker in memory tells which channels were closed, which are opened again, and which
deliveries there are to settle; so a session is long, and still nothing but octets.
"""

import struct
from collections.abc import Callable
from typing import Any, Final

from tests.support.codec import FRAME_BODY, FRAME_HEADER, frame, header_payload
from tests.support.machine import Machine, Peer, method, publish
from warren.session import RUNNING, SessionSettings

# Small, so that inputs of a fuzzer's size reach every limit.
SETTINGS: Final = SessionSettings(
    frame_max=8192,
    channel_max=4,
    max_message_size=16_384,
    parked_bytes_max=8192,
    unsent_bytes_max=65_536,
)
QUEUES: Final = (
    "q", "r", "s", "q", "r", "s", "q", "r", "s", "q", "r", "s",
    "", "missing", "amq.rabbitmq.reply-to", "amq.q", "é\r\n",
)  # fmt: skip
EXCHANGES: Final = (
    "", "amq.direct", "amq.topic", "amq.headers", "amq.fanout", "x", "y", "", "", "", "x", "y",
    "missing", "amq.match",
)  # fmt: skip
KEYS: Final = ("q", "r", "s", "", "a.b", "#", "*.b", "amq.rabbitmq.reply-to." + "A" * 22)
TAGS: Final = ("", "t", "u")
TYPES: Final = ("direct", "fanout", "topic", "headers", "none")
ARGUMENTS: Final[tuple[dict[str, Any], ...]] = (
    {}, {}, {}, {}, {}, {}, {}, {}, {}, {},
    {"x-match": "any", "a": 1}, {"x-match": 7}, {"x-max-length": -1}, {"x-priority": 3},
    {"x-priority": "high"}, {"alternate-exchange": "y"}, {"x-queue-type": "classic"},
    {"x-single-active-consumer": True}, {"deep": {"list": [1, None, {"x": b"\xff"}]}},
)  # fmt: skip
PROPERTIES: Final[tuple[dict[str, Any] | bytes | None, ...]] = (
    None, None, None, None, None, None, None, None, None, None, None, None, None, None, None,
    {"headers": {"a": 1}}, {"headers": {"CC": ["r", "s"]}},
    {"headers": {"BCC": ["r"], "CC": []}}, {"headers": {"CC": "r"}}, {"expiration": "10"},
    {"expiration": "x"}, {"expiration": "\u00b2"}, {"delivery_mode": 2}, {"delivery_mode": 3},
    {"reply_to": "amq.rabbitmq.reply-to"}, {"user_id": "guest"}, {"user_id": "other"},
)  # fmt: skip
BAD_PROPERTIES: Final = (b"\x80", b"\xff\xff", b"\x20\x00\x00\x00\x00\x05", b"\x00\x01\x00\x00")
BODY_SIZES: Final = (0, 1, 3, 100, 100, 4088, 4096, 4097, 7000, 9000, 16_384, 20_000)


class Source:
    """Reads choices off the input; behind its end every choice is the first."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def left(self) -> int:
        return len(self.data) - self.at

    def octet(self) -> int:
        self.at += 1
        return self.data[self.at - 1] if self.at <= len(self.data) else 0

    def below(self, limit: int) -> int:
        return self.octet() % limit

    def pick(self, choices: tuple[Any, ...]) -> Any:
        return choices[self.below(len(choices))]

    def octets(self, count: int) -> bytes:
        taken = self.data[self.at : self.at + count]
        self.at += count
        return taken

    def channel(self) -> int:
        return (1, 1, 1, 2, 2, 3)[self.below(6)]

    def rare(self, of: int) -> bool:
        """A choice that would end most sessions early if it came as often as the others."""
        return self.octet() >= 256 - max(1, 256 // of)


def _declare(source: Source) -> bytes:
    return method(
        source.channel(),
        "queue.declare",
        queue=source.pick(QUEUES),
        passive=source.rare(4),
        durable=source.rare(4),
        exclusive=source.rare(4),
        auto_delete=source.rare(4),
        nowait=source.rare(4),
        arguments=source.pick(ARGUMENTS),
    )


def _declare_exchange(source: Source) -> bytes:
    return method(
        source.channel(),
        "exchange.declare",
        exchange=source.pick(EXCHANGES),
        type=source.pick(TYPES),
        passive=source.rare(4),
        auto_delete=source.rare(3),
        internal=source.rare(5),
        nowait=source.rare(4),
        arguments=source.pick(ARGUMENTS),
    )


def _bind(source: Source) -> bytes:
    name = source.pick(("queue.bind", "queue.bind", "queue.unbind"))
    return method(
        source.channel(),
        name,
        queue=source.pick(QUEUES),
        exchange=source.pick(EXCHANGES),
        routing_key=source.pick(KEYS),
        arguments=source.pick(ARGUMENTS),
    )


def _bind_exchange(source: Source) -> bytes:
    name = source.pick(("exchange.bind", "exchange.bind", "exchange.unbind"))
    return method(
        source.channel(),
        name,
        destination=source.pick(EXCHANGES),
        source=source.pick(EXCHANGES),
        routing_key=source.pick(KEYS),
        arguments=source.pick(ARGUMENTS),
    )


def _publish(source: Source) -> bytes:
    size = source.pick(BODY_SIZES)
    part = source.pick((4088, 4088, 8184, 8192, 1000, 5000))
    properties = BAD_PROPERTIES if source.rare(50) else PROPERTIES
    return publish(
        source.channel(),
        bytes([source.octet()]) * size,
        source.pick(KEYS),
        exchange=source.pick(EXCHANGES),
        mandatory=source.rare(4),
        properties=source.pick(properties),
        frame_max=part + 8,
    )


def _publish_plain(source: Source) -> bytes:
    """What most publishes are."""
    choice = source.octet()
    key = ("q", "r", "s")[choice % 3]
    return publish(1 + choice // 3 % 3, bytes((choice,)) * (choice >> 4), key)


def _consume(source: Source) -> bytes:
    return method(
        source.channel(),
        "basic.consume",
        queue=source.pick(QUEUES),
        consumer_tag=source.pick(TAGS),
        no_ack=source.rare(2),
        exclusive=source.rare(5),
        nowait=source.rare(4),
        arguments=source.pick(ARGUMENTS),
    )


def _settle(source: Source, outstanding: dict[int, list[int]]) -> bytes:
    name = source.pick(("basic.ack", "basic.ack", "basic.nack", "basic.reject"))
    channel = source.channel()
    tags = outstanding.get(channel, [])
    if not tags and not source.rare(8):
        return b""
    tag = tags[source.below(len(tags))] if tags else source.below(8)
    arguments: dict[str, Any] = {"delivery_tag": 0 if source.rare(20) else tag}
    if name != "basic.reject":
        arguments["multiple"] = source.rare(3)
    if name != "basic.ack":
        arguments["requeue"] = source.rare(2)
    return method(channel, name, **arguments)


def _small(source: Source) -> bytes:
    """One of the methods with few arguments."""
    channel = source.channel()
    queue = source.pick(QUEUES)
    name, arguments = source.pick(
        (
            ("basic.get", {"queue": queue}),
            ("basic.get", {"queue": queue, "no_ack": True}),
            ("basic.qos", {"prefetch_count": source.below(4), "global_": source.rare(2)}),
            ("basic.cancel", {"consumer_tag": source.pick(TAGS)}),
            ("basic.recover", {"requeue": True}),
            ("confirm.select", {}),
            ("tx.select", {}),
            ("tx.commit", {}),
            ("tx.rollback", {}),
            ("queue.purge", {"queue": queue}),
            ("queue.delete", {"queue": queue, "if_empty": source.rare(3)}),
            ("exchange.delete", {"exchange": source.pick(EXCHANGES)}),
            ("channel.flow", {"active": not source.rare(8)}),
            ("access.request", {}),
        )
    )
    return method(channel, name, **arguments)


def _life(source: Source) -> bytes:
    """Channels come and go; now and then the connection goes."""
    channel = source.channel()
    if source.rare(40):
        return method(0, source.pick(("connection.close", "connection.close-ok")))
    if source.rare(10):
        return method(channel, source.pick(("channel.open", "channel.close-ok", "channel.flow-ok")))
    return method(channel, "channel.close")


def _odd(source: Source) -> bytes:
    """Frames in the wrong place, of the wrong kind, or with any octets inside."""
    channel = source.below(4)
    choice = source.below(12)
    if choice == 0:
        return frame(FRAME_HEADER, channel, header_payload(source.below(9)))
    if choice == 1:
        return frame(FRAME_BODY, channel, source.octets(source.below(9)))
    if choice == 2:
        return frame(source.octet(), channel, source.octets(source.below(5)))
    if choice == 3 and source.rare(4):
        return frame(1, channel, b"\x00\x3c\x00\x50", end=source.octet())
    if choice == 4 and source.rare(4):
        return struct.pack(">BHI", 1 + source.below(3), channel, 4097 + source.octet())
    if choice == 5 and source.rare(4):
        return source.octets(source.below(16))
    if choice == 6:
        ids = struct.pack(">HH", source.pick((10, 20, 40, 50, 60, 85, 90)), source.octet())
        return frame(1, channel, ids + source.octets(source.below(20)))
    if choice == 7:
        return method(channel, "basic.publish", exchange=source.pick(EXCHANGES), immediate=True)
    if choice == 8:
        return method(channel, "basic.publish", routing_key=source.pick(KEYS))
    return frame(8, 0, b"")


OPERATIONS: Final[tuple[Callable[[Source], bytes] | None, ...]] = (
    _publish, _publish, _publish, _publish, _publish_plain, _publish_plain, _publish_plain,
    _publish_plain, _publish_plain, _publish_plain, _publish_plain, _declare, _declare,
    _declare_exchange, _bind, _bind, _bind_exchange, _consume, _consume, _consume, _small, _small,
    _small, _small, _life, None, None, None, None,
)  # fmt: skip


def transcript(source: Source, *, operations_max: int = 60) -> bytes:
    """Everything one client sends after its negotiation."""
    stage = Machine(SETTINGS)
    actor = stage.client()
    parts: list[bytes] = []

    def say(data: bytes) -> None:
        parts.append(data)
        actor.feed(data)

    for number in (1, 2, 3):
        say(method(number, "channel.open"))
    for name in ("q", "r", "s"):
        say(method(1, "queue.declare", queue=name))
    for name, kind in (("x", "topic"), ("y", "fanout")):
        say(method(2, "exchange.declare", exchange=name, type=kind))
    for _ in range(operations_max):
        if source.left() <= 0 or actor.connection.phase != RUNNING:
            break
        if source.rare(30):
            say(_odd(source))
            continue
        operation = source.pick(OPERATIONS)
        if operation is None:
            say(_settle(source, _outstanding(actor)))
        else:
            say(operation(source))
        for closed in actor.take_all("channel.close"):
            say(method(closed.channel, "channel.close-ok") + method(closed.channel, "channel.open"))
        for closed in actor.take_all("channel.close-ok"):
            say(method(closed.channel, "channel.open"))
    return b"".join(parts)


def _outstanding(actor: Peer) -> dict[int, list[int]]:
    """The tags that await settlement, by channel."""
    return {
        number: [int(delivery.tag) for delivery in channel.outlet.unacked._outstanding()]
        for number, channel in actor.connection.channels.items()
    }
