"""What endpoints answer with, and how they refuse: RabbitMQ's shapes (O-4.2).

A refusal is an `HttpError` raised where it is found; the application makes the answer of it.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

JSON: Final = "application/json"
REALM: Final = 'Basic realm="RabbitMQ Management"'


@dataclass(slots=True, frozen=True)
class Reply:
    """A status, headers, and a body: octets, or pieces of it as they are made."""

    status: int = 200
    body: bytes | AsyncIterator[bytes] = b""
    kind: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)


class HttpError(Exception):
    """A refusal; without `error` it has no body. The reason is text, or a term as a list."""

    def __init__(
        self,
        status: int,
        error: str,
        reason: str | list[object],
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(reason)
        self.status = status
        self.error = error
        self.reason = reason
        self.headers = headers or {}

    def reply(self) -> Reply:
        if not self.error:
            return Reply(self.status, headers=self.headers)
        body = msgspec.json.encode({"error": self.error, "reason": self.reason})
        return Reply(self.status, body, headers=self.headers)


def said(value: object, status: int = 200) -> Reply:
    """Answer with JSON."""
    return Reply(status, msgspec.json.encode(value))


def not_found() -> HttpError:
    """No such path or object."""
    return HttpError(404, "Object Not Found", "Not Found")


def bad_request(reason: str) -> HttpError:
    return HttpError(400, "bad_request", reason)


def bad_value(what: str, value: object) -> HttpError:
    """What is wrong with a value that was given: RabbitMQ answers with a term of two."""
    return HttpError(400, "bad_request", [what, value])


def not_authorised(reason: str) -> HttpError:
    """Whoever asks is known and may not."""
    return HttpError(401, "not_authorised", reason)


def not_authorized(reason: str) -> HttpError:
    """Whoever asks is not who it says (RabbitMQ spells it differently)."""
    return HttpError(401, "not_authorized", reason, {"www-authenticate": REALM})
