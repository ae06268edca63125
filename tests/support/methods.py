"""The methods of AMQP 0-9-1 with RabbitMQ's extensions, as data: ids, arguments, defaults.

Argument kinds: `o` octet, `h` short, `w` long, `q` long long, `s` short string, `S` long string,
`F` table, `t` bit (neighbouring bits share an octet). A value after `=` is the default for
sending; an argument without one is zero, empty or false.
"""

import struct
from dataclasses import dataclass, field
from typing import Any, Final

from tests.support.codec import Reader, encode_table, long_string, short_string

_SPECIFICATION: Final = """
connection.start 10 10 version_major:o version_minor:o server_properties:F mechanisms:S locales:S
connection.start-ok 10 11 client_properties:F mechanism:s=PLAIN response:S locale:s=en_US
connection.secure 10 20 challenge:S
connection.secure-ok 10 21 response:S
connection.tune 10 30 channel_max:h frame_max:w heartbeat:h
connection.tune-ok 10 31 channel_max:h frame_max:w heartbeat:h
connection.open 10 40 virtual_host:s=/ capabilities:s insist:t
connection.open-ok 10 41 known_hosts:s
connection.close 10 50 reply_code:h=200 reply_text:s class_id:h method_id:h
connection.close-ok 10 51
connection.blocked 10 60 reason:s
connection.unblocked 10 61
connection.update-secret 10 70 new_secret:S reason:s
connection.update-secret-ok 10 71
channel.open 20 10 out_of_band:s
channel.open-ok 20 11 channel_id:S
channel.flow 20 20 active:t
channel.flow-ok 20 21 active:t
channel.close 20 40 reply_code:h=200 reply_text:s class_id:h method_id:h
channel.close-ok 20 41
access.request 30 10 realm:s exclusive:t passive:t active:t write:t read:t
access.request-ok 30 11 ticket:h
exchange.declare 40 10 ticket:h exchange:s type:s=direct passive:t durable:t auto_delete:t \
internal:t nowait:t arguments:F
exchange.declare-ok 40 11
exchange.delete 40 20 ticket:h exchange:s if_unused:t nowait:t
exchange.delete-ok 40 21
exchange.bind 40 30 ticket:h destination:s source:s routing_key:s nowait:t arguments:F
exchange.bind-ok 40 31
exchange.unbind 40 40 ticket:h destination:s source:s routing_key:s nowait:t arguments:F
exchange.unbind-ok 40 51
queue.declare 50 10 ticket:h queue:s passive:t durable:t exclusive:t auto_delete:t nowait:t \
arguments:F
queue.declare-ok 50 11 queue:s message_count:w consumer_count:w
queue.bind 50 20 ticket:h queue:s exchange:s routing_key:s nowait:t arguments:F
queue.bind-ok 50 21
queue.purge 50 30 ticket:h queue:s nowait:t
queue.purge-ok 50 31 message_count:w
queue.delete 50 40 ticket:h queue:s if_unused:t if_empty:t nowait:t
queue.delete-ok 50 41 message_count:w
queue.unbind 50 50 ticket:h queue:s exchange:s routing_key:s arguments:F
queue.unbind-ok 50 51
basic.qos 60 10 prefetch_size:w prefetch_count:h global_:t
basic.qos-ok 60 11
basic.consume 60 20 ticket:h queue:s consumer_tag:s no_local:t no_ack:t exclusive:t nowait:t \
arguments:F
basic.consume-ok 60 21 consumer_tag:s
basic.cancel 60 30 consumer_tag:s nowait:t
basic.cancel-ok 60 31 consumer_tag:s
basic.publish 60 40 ticket:h exchange:s routing_key:s mandatory:t immediate:t
basic.return 60 50 reply_code:h reply_text:s exchange:s routing_key:s
basic.deliver 60 60 consumer_tag:s delivery_tag:q redelivered:t exchange:s routing_key:s
basic.get 60 70 ticket:h queue:s no_ack:t
basic.get-ok 60 71 delivery_tag:q redelivered:t exchange:s routing_key:s message_count:w
basic.get-empty 60 72 cluster_id:s
basic.ack 60 80 delivery_tag:q multiple:t
basic.reject 60 90 delivery_tag:q requeue:t
basic.recover-async 60 100 requeue:t
basic.recover 60 110 requeue:t
basic.recover-ok 60 111
basic.nack 60 120 delivery_tag:q multiple:t requeue:t
confirm.select 85 10 nowait:t
confirm.select-ok 85 11
tx.select 90 10
tx.select-ok 90 11
tx.commit 90 20
tx.commit-ok 90 21
tx.rollback 90 30
tx.rollback-ok 90 31
"""

CONTENT_METHODS: Final = frozenset(
    {"basic.publish", "basic.return", "basic.deliver", "basic.get-ok"}
)
_NUMBERS: Final = {"o": ">B", "h": ">H", "w": ">I", "q": ">Q"}
_EMPTY: Final[dict[str, Any]] = {"s": "", "S": b"", "F": {}, "t": False}


@dataclass(frozen=True, slots=True)
class Argument:
    name: str
    kind: str
    default: Any


@dataclass(frozen=True, slots=True)
class Signature:
    name: str
    class_id: int
    method_id: int
    arguments: tuple[Argument, ...]


def _argument(text: str) -> Argument:
    name, _, rest = text.partition(":")
    kind, given, default = rest.partition("=")
    if not given:
        return Argument(name, kind, _EMPTY.get(kind, 0))
    return Argument(name, kind, int(default) if kind in _NUMBERS else default)


def _signatures() -> dict[str, Signature]:
    found = {}
    for line in _SPECIFICATION.strip().splitlines():
        name, class_id, method_id, *arguments = line.split()
        found[name] = Signature(
            name, int(class_id), int(method_id), tuple(_argument(each) for each in arguments)
        )
    return found


METHODS: Final = _signatures()
BY_ID: Final = {(each.class_id, each.method_id): each for each in METHODS.values()}


@dataclass(frozen=True)
class Method:
    """One method as it came: its name, and its arguments as attributes."""

    name: str
    channel: int
    arguments: dict[str, Any] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        try:
            return self.arguments[name]
        except KeyError:
            raise AttributeError(f"{self.name} has no argument {name}") from None

    def __str__(self) -> str:
        inside = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        return f"{self.name}({inside}) on channel {self.channel}"


def encode_method(name: str, **given: Any) -> bytes:
    """Return the payload of a method frame."""
    signature = METHODS[name]
    unknown = set(given) - {each.name for each in signature.arguments}
    if unknown:
        raise TypeError(f"{name} has no arguments {unknown}")
    out = bytearray(struct.pack(">HH", signature.class_id, signature.method_id))
    bits: list[bool] = []

    def flush_bits() -> None:
        if bits:
            out.append(sum(1 << place for place, bit in enumerate(bits) if bit))
            bits.clear()

    for argument in signature.arguments:
        value = given.get(argument.name, argument.default)
        if argument.kind == "t":
            bits.append(bool(value))
            continue
        flush_bits()
        if argument.kind in _NUMBERS:
            out += struct.pack(_NUMBERS[argument.kind], value)
        elif argument.kind == "s":
            out += short_string(value)
        elif isinstance(value, (bytes, str)):
            out += long_string(value)
        else:
            out += encode_table(value)
    flush_bits()
    return bytes(out)


def decode_method(payload: bytes, channel: int) -> Method:
    reader = Reader(payload)
    ids = (reader.number(">H"), reader.number(">H"))
    if ids not in BY_ID:
        raise AssertionError(f"the broker sent a method of unknown ids {ids}: {payload!r}")
    signature = BY_ID[ids]
    arguments: dict[str, Any] = {}
    octet, bit = 0, 8
    for argument in signature.arguments:
        if argument.kind == "t":
            if bit == 8:
                octet, bit = reader.number(">B"), 0
            arguments[argument.name] = bool(octet >> bit & 1)
            bit += 1
            continue
        bit = 8
        if argument.kind in _NUMBERS:
            arguments[argument.name] = reader.number(_NUMBERS[argument.kind])
        elif argument.kind == "s":
            arguments[argument.name] = reader.short_string()
        elif argument.kind == "S":
            arguments[argument.name] = reader.long_string()
        else:
            arguments[argument.name] = reader.table()
    if reader.at != len(payload):
        raise AssertionError(f"octets left over after {signature.name}: {payload!r}")
    return Method(signature.name, channel, arguments)
