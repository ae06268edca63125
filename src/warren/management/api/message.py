"""Messages over HTTP: published to an exchange, got from a queue (O-4.11).

They are for a look and a try, not for traffic: each is several hundred times the work it is over
AMQP. Both are commands of the node, with the rights of who asks.
"""

import base64
import binascii
from typing import TYPE_CHECKING, Final, NoReturn

import msgspec

from warren.core.reply import ACCESS_REFUSED, NOT_FOUND, reply_text
from warren.management.access import May
from warren.management.answer import (
    HttpError,
    Reply,
    bad_request,
    bad_value,
    not_authorised,
    said,
)
from warren.management.api.change import Given, body_with, text
from warren.management.control import RefusedError
from warren.management.listing import Shown
from warren.management.router import Endpoint
from warren.protocol.properties import Properties, decode
from warren.protocol.value import (
    ARRAY,
    BOOL,
    DOUBLE,
    LONG,
    LONG_STRING,
    TABLE,
    Field,
    Table,
    plain,
)

if TYPE_CHECKING:
    from warren.management.app import Api
    from warren.management.request import Request

DEFAULT: Final = "amq.default"
TEST_QUEUE: Final = "aliveness-test"
# What becomes of messages that were got.
THEN: Final = {
    "ack_requeue_false": "ack",
    "ack_requeue_true": "requeue",
    "reject_requeue_false": "reject",
    "reject_requeue_true": "requeue",
}
NUMBERS: Final = {"delivery_mode": 8, "priority": 8, "timestamp": 64}
TEXTS: Final = (
    "content_type",
    "content_encoding",
    "correlation_id",
    "reply_to",
    "expiration",
    "message_id",
    "type",
    "user_id",
    "app_id",
    "cluster_id",
)
# In which they are shown.
PROPERTIES: Final = ("headers", *NUMBERS, *TEXTS)
# A request to the node, in base 64, is not larger than it takes.
PAYLOAD_OCTETS_MAX: Final = 3_000_000

# As `server.command_message.MessageRow`.
_ROWS: Final = msgspec.json.Decoder(list[tuple[int, bool, str, str, int, bytes, bytes]])


async def publish(api: "Api", request: "Request") -> Reply:
    given = await body_with(request, "routing_key", "properties", "payload", "payload_encoding")
    payload = _payload(given)
    name = request.named("name")
    args = {
        "user": request.identity.user,
        "vhost": request.named("vhost"),
        "exchange": "" if name == DEFAULT else name,
        "routing_key": text(given, "routing_key"),
        "properties": _properties(given["properties"]),
        "payload": payload,
    }
    try:
        done = await api.control.ask("publish", args)
    except RefusedError as refusal:
        if refusal.fix.isdecimal():
            code = int(refusal.fix)
            raise bad_request(f"{code} {reply_text(code, refusal.message)}") from None
        raise
    if done["refused"]:
        raise bad_request("rejected Unable to publish message. Check queue limits.")
    return said({"routed": done["routed"]})


def _payload(given: Given) -> bytes:
    payload, encoding = given["payload"], given["payload_encoding"]
    if not isinstance(payload, str):
        raise bad_request("payload_not_string")
    if encoding == "string":
        octets = payload.encode()
    elif encoding == "base64":
        try:
            octets = base64.b64decode(payload, validate=True)
        except (binascii.Error, ValueError):
            raise bad_value("not_base64", payload[:1000]) from None
    else:
        raise bad_value("unsupported_encoding", encoding)
    if len(octets) > PAYLOAD_OCTETS_MAX:
        raise HttpError(413, "too_large", f"at most {PAYLOAD_OCTETS_MAX} octets are published")
    return octets


def _properties(given: object) -> bytes:
    """The properties as on the wire; what RabbitMQ does not know of is passed over."""
    if given == []:
        # So an object without members is written by those who write lists of pairs.
        given = {}
    if not isinstance(given, dict):
        raise bad_request("properties should be an object")
    made = Properties()
    if given.get("headers") is not None:
        headers = given["headers"]
        if headers == []:
            headers = {}
        if not isinstance(headers, dict):
            raise bad_request("headers should be an object")
        made.headers = _table(headers)
    for name, bits in NUMBERS.items():
        value = given.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << bits:
            raise bad_value("not_int", name)
        setattr(made, name, value)
    for name in TEXTS:
        value = given.get(name)
        if value is None:
            continue
        if not isinstance(value, str) or len(value.encode()) > 255:
            raise bad_value("not_string", name)
        setattr(made, name, value)
    return made.encode()


def _table(given: dict[str, object]) -> Table:
    if any(len(name.encode()) > 255 for name in given):
        raise bad_request("the name of a header has at most 255 octets")
    return {name: _field(value) for name, value in given.items()}


def _field(value: object) -> Field:
    """A value with the type that RabbitMQ gives it."""
    if isinstance(value, str):
        return Field(LONG_STRING, value.encode())
    if isinstance(value, bool):
        return Field(BOOL, value)
    if isinstance(value, int) and -(1 << 63) <= value < 1 << 63:
        return Field(LONG, value)
    if isinstance(value, float | int):
        return Field(DOUBLE, float(value))
    if isinstance(value, list):
        return Field(ARRAY, [_field(one) for one in value])
    if isinstance(value, dict):
        return Field(TABLE, _table(value))
    raise bad_request("null_not_allowed")


# -- getting ---------------------------------------------------------------------------------------


async def get(api: "Api", request: "Request") -> Reply:
    given = await body_with(request, "ackmode", "count", "encoding")
    then = THEN.get(text(given, "ackmode"))
    if then is None:
        raise bad_request(f"ackmode should be one of {', '.join(THEN)}")
    encoding = given["encoding"]
    if encoding not in {"auto", "base64"}:
        raise bad_request("Unsupported encoding. Please use auto or base64.")
    args: Given = {
        "user": request.identity.user,
        "vhost": request.named("vhost"),
        "queue": request.named("name"),
        "count": _integer(given["count"]),
        "then": then,
    }
    if given.get("truncate") is not None:
        args["truncate"] = _integer(given["truncate"])
    shown = []
    try:
        async for part in api.control.parts("get", args):
            shown += [_message(row, base_64=encoding == "base64") for row in _ROWS.decode(part)]
    except RefusedError as refusal:
        _refuse(refusal)
    return said(shown)


def _integer(value: object) -> int:
    """A count, as a number or as text."""
    if isinstance(value, str) and value.isascii() and value.isdecimal():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 31:
        raise bad_value("not_integer", value)
    return value


def _message(row: tuple[int, bool, str, str, int, bytes, bytes], *, base_64: bool) -> Shown:
    size, again, exchange, key, left, props, payload = row
    try:
        told = None if base_64 else payload.decode()
    except UnicodeDecodeError:
        told = None
    return {
        "payload_bytes": size,
        "redelivered": again,
        "exchange": exchange,
        "routing_key": key,
        "message_count": left,
        # None at all are an empty list there.
        "properties": _shown(props) or [],
        "payload": base64.b64encode(payload).decode() if told is None else told,
        "payload_encoding": "base64" if told is None else "string",
    }


def _shown(props: bytes) -> Shown:
    found = decode(props)
    shown: Shown = {}
    for name in PROPERTIES:
        value = getattr(found, name)
        if value is not None:
            shown[name] = value
    if found.headers is not None:
        shown["headers"] = {key: plain(item) for key, item in found.headers.items()}
    return shown


# -- both ------------------------------------------------------------------------------------------


async def aliveness(api: "Api", request: "Request") -> Reply:
    """Send a message through a queue that is there for that, and stays (T-12)."""
    place: Given = {"user": request.identity.user, "vhost": request.named("vhost")}
    sent = {**place, "exchange": "", "routing_key": TEST_QUEUE, "payload": b"test_message"}
    taken: Given = {**place, "queue": TEST_QUEUE, "count": 1, "then": "ack"}
    try:
        await api.control.ask("declare_queue", {**place, "name": TEST_QUEUE})
        await api.control.ask("publish", sent)
        rows = [row async for part in api.control.parts("get", taken) for row in _ROWS.decode(part)]
    except RefusedError as refusal:
        _refuse(refusal)
    if not rows:
        raise HttpError(503, "service_unavailable", f"{TEST_QUEUE} queue is empty")
    return said({"status": "ok"})


def _refuse(refusal: RefusedError) -> NoReturn:
    if not refusal.fix.isdecimal():
        raise refusal
    code = int(refusal.fix)
    told = reply_text(code, refusal.message)
    if code == NOT_FOUND:
        raise HttpError(404, "not_found", told)
    if code == ACCESS_REFUSED:
        raise not_authorised(told)
    raise bad_request(f"{code} {told}")


ENDPOINTS: Final = (
    Endpoint("POST", "/api/exchanges/{vhost}/{name}/publish", May.VHOST, publish),
    Endpoint("POST", "/api/queues/{vhost}/{name}/get", May.VHOST, get),
    Endpoint("GET", "/api/aliveness-test/{vhost}", May.VHOST, aliveness),
)
