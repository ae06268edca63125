"""The application behind both listeners: from an HTTP request to an endpoint and back.

In the order the reference has it: a path that there is not is 404 and a method that it does not
have 405, whoever asks; then who asks and what that may; then the endpoint. What goes wrong in an
endpoint is its own 500, and the node notices nothing.
"""

import traceback
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast, final

from warren.core import Clock
from warren.management.access import Access, May, check
from warren.management.answer import HttpError, Reply, not_found
from warren.management.control import ControlClient, NodeGoneError, RefusedError
from warren.management.mirror import Mirror
from warren.management.request import Receive, Request, query_of, segments
from warren.management.router import Router

Send = Callable[[dict[str, object]], Awaitable[None]]

METHODS: Final = ("GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS")
CSP: Final = "script-src 'self' 'unsafe-eval' 'unsafe-inline'; object-src 'self'"


@dataclass(slots=True)
class Api:
    """What endpoints work with."""

    control: ControlClient
    mirror: Mirror
    access: Access
    clock: Clock
    path_prefix: str
    per_object: bool


@final
class App:
    """An ASGI application."""

    def __init__(self, api: Api, *, main: Router, metrics: Router, metrics_ports: set[int]) -> None:
        self._api = api
        self._main = main
        self._metrics = metrics
        self._metrics_ports = metrics_ports

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:  # type: ignore[explicit-any]
        if scope["type"] != "http":
            return
        try:
            reply = await self._answer(scope, receive)
        except ConnectionResetError:
            return
        await _send(reply, send, head=scope["method"] == "HEAD")

    async def _answer(self, scope: Mapping[str, Any], receive: Receive) -> Reply:  # type: ignore[explicit-any]
        try:
            return await self._handle(scope, receive)
        except HttpError as refusal:
            return refusal.reply()
        except RefusedError as refusal:
            return refusal_of(refusal).reply()
        except NodeGoneError as failure:
            return HttpError(503, "service_unavailable", str(failure)).reply()
        except ConnectionResetError:
            raise
        except Exception:  # The supervisor of endpoints.
            traceback.print_exc()
            return HttpError(500, "internal_server_error", "see the node's log").reply()

    async def _handle(self, scope: Mapping[str, Any], receive: Receive) -> Reply:  # type: ignore[explicit-any]
        method = str(scope["method"])
        if method not in METHODS:
            raise HttpError(501, "not_implemented", "unknown method")
        parts = segments(scope["raw_path"])
        for part in self._api.path_prefix.split("/")[1:]:
            if not parts or parts.pop(0) != part:
                raise not_found()
        server = cast("tuple[str, int] | None", scope.get("server"))
        port = 0 if server is None else server[1]
        router = self._metrics if port in self._metrics_ports else self._main
        endpoint, parameters = router.find(method, parts)
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        query = query_of(scope["query_string"])
        request = Request(method, parameters, query, headers, receive)
        request.port = port
        client = cast("tuple[str, int] | None", scope.get("client"))
        peer = client[0] if client is not None else ""
        if endpoint.may is not May.EVERYBODY:
            request.identity = await self._api.access.login(headers.get("authorization"), peer)
            copy = await self._api.mirror.current()
            vhost = parameters.get("vhost")
            check(endpoint.may, request.identity, vhost, copy.vhosts)
            if vhost is not None and vhost not in copy.vhosts and not endpoint.makes_vhost:
                raise not_found()
        return await endpoint.handler(self._api, request)


def refusal_of(refusal: RefusedError) -> HttpError:
    """A refusal of the node in HTTP's terms."""
    match refusal.code:
        case "not_found":
            return HttpError(404, "not_found", refusal.message)
        case "busy":
            return HttpError(503, "service_unavailable", refusal.message)
        case "internal":
            return HttpError(500, "internal_server_error", refusal.message)
        case _:
            return HttpError(400, "bad_request", refusal.message)


async def _send(reply: Reply, send: Send, *, head: bool) -> None:
    headers = {
        "content-security-policy": CSP,
        "vary": "accept, accept-encoding, origin",
        **reply.headers,
    }
    if reply.status == 200:
        headers.setdefault("cache-control", "no-cache")
    whole = reply.body if isinstance(reply.body, bytes) else None
    if whole is not None and reply.status != 204:
        headers["content-length"] = str(len(whole))
    if whole is None or whole:
        headers.setdefault("content-type", reply.kind)
    written = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": reply.status, "headers": written})
    if whole is not None:
        await send({"type": "http.response.body", "body": b"" if head else whole})
        return
    assert not isinstance(reply.body, bytes)
    if not head:
        async for piece in reply.body:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
