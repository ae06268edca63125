"""One request as endpoints see it: path parameters, query, headers, a bounded body.

The path is taken apart before its percent signs are decoded, because the name of a virtual host is
usually `%2F` (T-5).
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, final
from urllib.parse import parse_qsl, unquote

import msgspec

from warren.management.access import NOBODY, Identity
from warren.management.answer import HttpError, bad_request, not_found

Event = Mapping[str, object]
Receive = Callable[[], Awaitable[Event]]

# Definitions of some hundred thousand objects; everything else is small.
BODY_OCTETS_MAX: Final = 256 << 20
QUERY_FIELDS_MAX: Final = 100


def segments(raw_path: bytes) -> list[str]:
    """Return the decoded parts of a path, one slash at its end or none; refuse what is no text."""
    try:
        path = raw_path.partition(b"?")[0].decode("ascii").removesuffix("/")
        return [unquote(part, errors="strict") for part in path.split("/")[1:]]
    except UnicodeDecodeError:
        raise not_found() from None


def query_of(raw: bytes) -> dict[str, str]:
    try:
        pairs = parse_qsl(
            raw.decode("ascii"), keep_blank_values=True, max_num_fields=QUERY_FIELDS_MAX
        )
    except ValueError:
        raise bad_request("the query is not understood") from None
    return dict(pairs)


@final
class Request:
    def __init__(
        self,
        method: str,
        parameters: dict[str, str],
        query: dict[str, str],
        headers: dict[str, str],
        receive: Receive,
    ) -> None:
        self.method = method
        self.parameters = parameters
        self.query = query
        self.headers = headers
        self.identity: Identity = NOBODY
        self._receive = receive
        # Where this node's API begins, for links.
        self.port = 0

    def named(self, name: str) -> str:
        """A parameter of the path."""
        return self.parameters[name]

    def flag(self, name: str) -> bool:
        return self.query.get(name) == "true"

    async def body(self) -> bytes:
        """The whole body; 413 beyond BODY_OCTETS_MAX."""
        parts: list[bytes] = []
        octets = 0
        while True:
            event = await self._receive()
            if event["type"] == "http.disconnect":
                raise ConnectionResetError("the client is gone")
            part = event.get("body", b"")
            assert isinstance(part, bytes)
            octets += len(part)
            if octets > BODY_OCTETS_MAX:
                raise HttpError(413, "too_large", f"at most {BODY_OCTETS_MAX} octets are taken")
            parts.append(part)
            if not event.get("more_body"):
                return b"".join(parts)

    async def json_object(self) -> dict[str, object]:
        """The body as an object; none at all is an empty one."""
        raw = await self.body()
        return read_object(raw)


def read_object(raw: bytes) -> dict[str, object]:
    if not raw.strip():
        return {}
    try:
        return msgspec.json.decode(raw, type=dict[str, object])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise bad_request("not_json") from None
