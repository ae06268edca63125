"""The one table of AMQP methods: every class and method of 0-9-1 with RabbitMQ's extensions.

Code and documents about methods are made from this table; nothing else lists them. Each row is
class id, method id, name, direction and arguments. Directions: `c` from the client, `s` from the
server, `b` both. An argument is `type name`; a leading `=` marks a reserved one, which is skipped
when read and written as zero, empty or false. Extensions to plain 0-9-1 are marked `extension`.
"""

from dataclasses import dataclass
from typing import Literal

Direction = Literal["c", "s", "b"]

TYPES = ("octet", "short", "long", "longlong", "shortstr", "longstr", "bit", "table")

# Methods followed by a content header and body frames.
WITH_CONTENT = frozenset({"basic.publish", "basic.return", "basic.deliver", "basic.get-ok"})


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a method: its AMQP type, its name in Python, whether it is reserved."""

    type: str
    name: str
    reserved: bool


@dataclass(frozen=True, slots=True)
class MethodRow:
    """One method of the table."""

    class_id: int
    method_id: int
    name: str
    direction: Direction
    arguments: tuple[Argument, ...]
    extension: bool

    @property
    def has_content(self) -> bool:
        return self.name in WITH_CONTENT

    @property
    def has_nowait(self) -> bool:
        return any(argument.name == "no_wait" for argument in self.arguments)


# Python's keywords among the names of the specification.
_RENAMED = {"global": "global_"}


def _arguments(text: str) -> tuple[Argument, ...]:
    arguments = []
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        reserved = part.startswith("=")
        kind, name = part.removeprefix("=").split()
        if kind not in TYPES:
            raise ValueError(f"unknown argument type {kind!r}")
        arguments.append(Argument(kind, _RENAMED.get(name, name), reserved))
    return tuple(arguments)


def _row(
    class_id: int,
    method_id: int,
    name: str,
    direction: Direction,
    arguments: str = "",
    *,
    extension: bool = False,
) -> MethodRow:
    return MethodRow(class_id, method_id, name, direction, _arguments(arguments), extension)


_CLOSE = "short reply_code, shortstr reply_text, short class_id, short method_id"
_TUNE = "short channel_max, long frame_max, short heartbeat"
_EXCHANGE_BIND = (
    "=short reserved_1, shortstr destination, shortstr source, shortstr routing_key, "
    "bit no_wait, table arguments"
)

METHODS: tuple[MethodRow, ...] = (
    _row(
        10,
        10,
        "connection.start",
        "s",
        "octet version_major, octet version_minor, table server_properties, "
        "longstr mechanisms, longstr locales",
    ),
    _row(
        10,
        11,
        "connection.start-ok",
        "c",
        "table client_properties, shortstr mechanism, longstr response, shortstr locale",
    ),
    _row(10, 20, "connection.secure", "s", "longstr challenge"),
    _row(10, 21, "connection.secure-ok", "c", "longstr response"),
    _row(10, 30, "connection.tune", "s", _TUNE),
    _row(10, 31, "connection.tune-ok", "c", _TUNE),
    _row(
        10,
        40,
        "connection.open",
        "c",
        "shortstr virtual_host, =shortstr capabilities, =bit insist",
    ),
    _row(10, 41, "connection.open-ok", "s", "=shortstr known_hosts"),
    _row(10, 50, "connection.close", "b", _CLOSE),
    _row(10, 51, "connection.close-ok", "b"),
    _row(10, 60, "connection.blocked", "s", "shortstr reason", extension=True),
    _row(10, 61, "connection.unblocked", "s", extension=True),
    _row(
        10,
        70,
        "connection.update-secret",
        "c",
        "longstr new_secret, shortstr reason",
        extension=True,
    ),
    _row(10, 71, "connection.update-secret-ok", "s", extension=True),
    _row(20, 10, "channel.open", "c", "=shortstr out_of_band"),
    _row(20, 11, "channel.open-ok", "s", "=longstr channel_id"),
    _row(20, 20, "channel.flow", "b", "bit active"),
    _row(20, 21, "channel.flow-ok", "b", "bit active"),
    _row(20, 40, "channel.close", "b", _CLOSE),
    _row(20, 41, "channel.close-ok", "b"),
    _row(
        30,
        10,
        "access.request",
        "c",
        "shortstr realm, bit exclusive, bit passive, bit active, bit write, bit read",
    ),
    _row(30, 11, "access.request-ok", "s", "short ticket"),
    _row(
        40,
        10,
        "exchange.declare",
        "c",
        "=short reserved_1, shortstr exchange, shortstr type, bit passive, bit durable, "
        "bit auto_delete, bit internal, bit no_wait, table arguments",
    ),
    _row(40, 11, "exchange.declare-ok", "s"),
    _row(
        40,
        20,
        "exchange.delete",
        "c",
        "=short reserved_1, shortstr exchange, bit if_unused, bit no_wait",
    ),
    _row(40, 21, "exchange.delete-ok", "s"),
    _row(40, 30, "exchange.bind", "c", _EXCHANGE_BIND, extension=True),
    _row(40, 31, "exchange.bind-ok", "s", extension=True),
    _row(40, 40, "exchange.unbind", "c", _EXCHANGE_BIND, extension=True),
    _row(40, 51, "exchange.unbind-ok", "s", extension=True),
    _row(
        50,
        10,
        "queue.declare",
        "c",
        "=short reserved_1, shortstr queue, bit passive, bit durable, bit exclusive, "
        "bit auto_delete, bit no_wait, table arguments",
    ),
    _row(
        50,
        11,
        "queue.declare-ok",
        "s",
        "shortstr queue, long message_count, long consumer_count",
    ),
    _row(
        50,
        20,
        "queue.bind",
        "c",
        "=short reserved_1, shortstr queue, shortstr exchange, shortstr routing_key, "
        "bit no_wait, table arguments",
    ),
    _row(50, 21, "queue.bind-ok", "s"),
    _row(50, 30, "queue.purge", "c", "=short reserved_1, shortstr queue, bit no_wait"),
    _row(50, 31, "queue.purge-ok", "s", "long message_count"),
    _row(
        50,
        40,
        "queue.delete",
        "c",
        "=short reserved_1, shortstr queue, bit if_unused, bit if_empty, bit no_wait",
    ),
    _row(50, 41, "queue.delete-ok", "s", "long message_count"),
    _row(
        50,
        50,
        "queue.unbind",
        "c",
        "=short reserved_1, shortstr queue, shortstr exchange, shortstr routing_key, "
        "table arguments",
    ),
    _row(50, 51, "queue.unbind-ok", "s"),
    _row(60, 10, "basic.qos", "c", "long prefetch_size, short prefetch_count, bit global"),
    _row(60, 11, "basic.qos-ok", "s"),
    _row(
        60,
        20,
        "basic.consume",
        "c",
        "=short reserved_1, shortstr queue, shortstr consumer_tag, bit no_local, bit no_ack, "
        "bit exclusive, bit no_wait, table arguments",
    ),
    _row(60, 21, "basic.consume-ok", "s", "shortstr consumer_tag"),
    _row(60, 30, "basic.cancel", "b", "shortstr consumer_tag, bit no_wait"),
    _row(60, 31, "basic.cancel-ok", "b", "shortstr consumer_tag"),
    _row(
        60,
        40,
        "basic.publish",
        "c",
        "=short reserved_1, shortstr exchange, shortstr routing_key, bit mandatory, bit immediate",
    ),
    _row(
        60,
        50,
        "basic.return",
        "s",
        "short reply_code, shortstr reply_text, shortstr exchange, shortstr routing_key",
    ),
    _row(
        60,
        60,
        "basic.deliver",
        "s",
        "shortstr consumer_tag, longlong delivery_tag, bit redelivered, shortstr exchange, "
        "shortstr routing_key",
    ),
    _row(60, 70, "basic.get", "c", "=short reserved_1, shortstr queue, bit no_ack"),
    _row(
        60,
        71,
        "basic.get-ok",
        "s",
        "longlong delivery_tag, bit redelivered, shortstr exchange, shortstr routing_key, "
        "long message_count",
    ),
    _row(60, 72, "basic.get-empty", "s", "=shortstr cluster_id"),
    _row(60, 80, "basic.ack", "b", "longlong delivery_tag, bit multiple"),
    _row(60, 90, "basic.reject", "c", "longlong delivery_tag, bit requeue"),
    _row(60, 100, "basic.recover-async", "c", "bit requeue"),
    _row(60, 110, "basic.recover", "c", "bit requeue"),
    _row(60, 111, "basic.recover-ok", "s"),
    _row(
        60,
        120,
        "basic.nack",
        "b",
        "longlong delivery_tag, bit multiple, bit requeue",
        extension=True,
    ),
    _row(
        60,
        200,
        "basic.credit",
        "c",
        "shortstr consumer_tag, long credit, bit drain",
        extension=True,
    ),
    _row(60, 201, "basic.credit-ok", "s", "long available", extension=True),
    _row(
        60,
        202,
        "basic.credit-drained",
        "s",
        "shortstr consumer_tag, long credit_drained",
        extension=True,
    ),
    _row(85, 10, "confirm.select", "c", "bit no_wait", extension=True),
    _row(85, 11, "confirm.select-ok", "s", extension=True),
    _row(90, 10, "tx.select", "c"),
    _row(90, 11, "tx.select-ok", "s"),
    _row(90, 20, "tx.commit", "c"),
    _row(90, 21, "tx.commit-ok", "s"),
    _row(90, 30, "tx.rollback", "c"),
    _row(90, 31, "tx.rollback-ok", "s"),
)
