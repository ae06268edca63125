"""A message as tests see it, and the properties a test may give to one it publishes."""

from dataclasses import dataclass
from typing import Final, TypedDict, cast, final

from warren.protocol import Properties, plain
from warren.protocol.value import table

# Stands for "no headers at all", which is not the same as an empty table on the wire.
_NO_HEADERS: Final[dict[str, object]] = {}


class GivenProperties(TypedDict, total=False):
    """The properties of AMQP 0-9-1 but for the headers, by their names."""

    content_type: str
    content_encoding: str
    delivery_mode: int
    priority: int
    correlation_id: str
    reply_to: str
    expiration: str
    message_id: str
    timestamp: int
    type: str
    user_id: str
    app_id: str


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message taken out of a queue. Headers are plain values: strings, numbers, lists, dicts."""

    body: bytes
    exchange: str
    routing_key: str
    redelivered: bool
    headers: dict[str, object]
    properties: GivenProperties

    @property
    def text(self) -> str:
        return self.body.decode()


def encoded(headers: dict[str, object] | None, given: GivenProperties) -> bytes:
    """Return the octets of these properties."""
    return Properties(headers=None if headers is None else table(headers), **given).encode()


def properties_of(found: Properties) -> GivenProperties:
    """Return the properties that are there."""
    every = {name: cast("object", getattr(found, name)) for name in GivenProperties.__annotations__}
    present = {name: value for name, value in every.items() if value is not None}
    return cast("GivenProperties", present)


def headers_of(found: Properties) -> dict[str, object]:
    if found.headers is None:
        return _NO_HEADERS.copy()
    return {key: plain(value) for key, value in found.headers.items()}
