"""From a method and a path to an endpoint.

`/queues/{vhost}/{name}` has two parameters; a part without braces is matched as it is, and wins.
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

from warren.management.access import May
from warren.management.answer import HttpError, Reply, not_found

if TYPE_CHECKING:
    from warren.management.app import Api
    from warren.management.request import Request

Handler = Callable[["Api", "Request"], Awaitable[Reply]]
ALWAYS: Final = ("HEAD", "GET", "OPTIONS")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What one method does at one path, and who may have it done."""

    method: str
    path: str
    may: May
    handler: Handler
    # Whether the virtual host of the path need not be there.
    makes_vhost: bool = False


@final
class _Place:
    """A path and its methods."""

    def __init__(self, parts: list[str]) -> None:
        self.parts = parts
        self.endpoints: dict[str, Endpoint] = {}

    def match(self, given: list[str]) -> dict[str, str] | None:
        found: dict[str, str] = {}
        for part, one in zip(self.parts, given, strict=True):
            if part.startswith("{"):
                found[part[1:-1]] = one
            elif part != one:
                return None
        return found

    def allowed(self) -> str:
        methods = {*self.endpoints, "OPTIONS"}
        if "GET" in methods:
            methods.add("HEAD")
        return ", ".join(sorted(methods))


@final
class Router:
    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        self._places: dict[int, list[_Place]] = {}
        made: dict[str, _Place] = {}
        for one in endpoints:
            place = made.get(one.path)
            if place is None:
                place = _Place(one.path.split("/")[1:])
                made[one.path] = place
                self._places.setdefault(len(place.parts), []).append(place)
            if one.method in place.endpoints:
                raise ValueError(f"{one.method} {one.path} is there twice")
            place.endpoints[one.method] = one
        for places in self._places.values():
            # Parts as they are before parameters, from left to right.
            places.sort(key=lambda place: [part.startswith("{") for part in place.parts])

    def find(self, method: str, parts: list[str]) -> tuple[Endpoint, dict[str, str]]:
        """Return the endpoint and the parameters; 404 without a path, 405 without a method."""
        for place in self._places.get(len(parts), ()):
            parameters = place.match(parts)
            if parameters is None:
                continue
            endpoint = place.endpoints.get("GET" if method == "HEAD" else method)
            if endpoint is not None:
                return endpoint, parameters
            if method == "OPTIONS":
                raise HttpError(200, "", "", {"allow": place.allowed()})
            raise HttpError(405, "", "", {"allow": place.allowed()})
        raise not_found()
