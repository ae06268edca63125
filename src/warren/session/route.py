"""Routes of publishes, cached per connection by the bytes of the publish method's arguments.

A `Route` is everything a publish needs that does not depend on its content: targets, the
ready-made end of the deliver method, flags. It is valid while the routing table and the
permissions have the version it was made under; the connection clears its cache when that changed.

The cache is bounded in entries and in octets, starts empty, and gives up for a while when a load
has more distinct keys than it can hold, so that a million routing keys cost the look-up, not the
filling.
"""

from typing import Final, final

from librt.strings import read_i64_be
from mypy_extensions import i64, mypyc_attr

from warren.queues import QueueRef
from warren.routing import Exchange, Sink

ENTRIES_MAX: Final = 1024
SOURCES_MAX: Final = 256
OCTETS_MAX: Final = 262_144
# Misses in a row, with the cache full, after which nothing is cached for `PASS_COUNT` look-ups.
PASS_COUNT: Final = 4096


# Not seen by the cycle collector: a route is made for every message of a load whose keys differ.
@mypyc_attr(acyclic=True, free_list_len=1)
@final
class Route:
    def __init__(
        self,
        key: bytes,
        tail: bytes,
        targets: list[QueueRef],
        *,
        mandatory: bool,
        again: bool,
        special: bool,
        is_reply: bool = False,
        volatile: bool = False,
    ) -> None:
        # The publish arguments this route was made from, from the ticket to the flag octet.
        self.key = key
        self.tail = tail
        self.targets = targets
        self.single: QueueRef | None = targets[0] if len(targets) == 1 else None
        self.mandatory = mandatory
        # Each message is routed anew: an exchange on the way looks at its headers, or chooses.
        self.again = again
        # Equal messages may go different ways.
        self.volatile = volatile
        # A reply to a direct reply-to address: routing never counts it as routed (DR-4).
        self.is_reply = is_reply
        # Whether its messages go back to the publisher, whoever else has them (PB-3).
        self.returned = mandatory and (is_reply or not any_routed(targets))
        # Not for the short way: headers decide, it is a reply address, it must be returned, or its
        # vhost is traced.
        self.special = special or self.returned


@final
class Source:
    """An exchange this connection may publish to, and what a route from it must know."""

    def __init__(
        self,
        exchange: Exchange,
        *,
        topic_checked: bool,
        headers: bool,
        volatile: bool,
        traced: bool,
    ) -> None:
        self.exchange = exchange
        # A topic permission restricts the keys: each one is to be checked.
        self.topic_checked = topic_checked
        # Routes depend on more than the key: on headers, or on an exchange's own choice.
        self.again = headers or volatile
        self.volatile = volatile
        # Its messages take the general way, which traces them (O-10.1).
        self.special = self.again or traced
        # The last targets reached by one key, to be shared by routes that reach the same.
        self.last_sink: Sink | None = None
        self.last_targets: list[QueueRef] = []

    def targets_of(self, sinks: list[Sink]) -> list[QueueRef]:
        if len(sinks) != 1:
            return queue_refs(sinks)
        sink = sinks[0]
        if sink is not self.last_sink:
            self.last_sink = sink
            self.last_targets = queue_refs(sinks)
        return self.last_targets


def any_routed(targets: list[QueueRef]) -> bool:
    """Whether any of the targets counts as a queue that the message was routed to."""
    for target in targets:  # noqa: SIM110 - a generator would not be compiled to a plain loop
        if target.routed:
            return True
    return False


def queue_refs(sinks: list[Sink]) -> list[QueueRef]:
    """The queues behind what routing found."""
    refs: list[QueueRef] = []
    for sink in sinks:
        target = sink.target
        assert isinstance(target, QueueRef)
        refs.append(target)
    return refs


@final
class RouteCache:
    def __init__(self) -> None:
        # Exchanges published to, by name: permission, existence and kind were checked.
        self.sources: dict[bytes, Source] = {}
        # The one that was published to last, and its name as a short string.
        self.last_name = b""
        self.last_source: Source | None = None
        # Where the last message went whose headers decided, and what it was: route, properties.
        self.again_for: Route | None = None
        self.again_props = b""
        self.again_route: Route | None = None
        self.routes: dict[bytes, Route] = {}
        self.octets: i64 = 0
        self.hits: i64 = 0
        self.passing: i64 = 0

    def get(self, key: bytes) -> Route | None:
        route = self.routes.get(key)
        if route is not None:
            self.hits += 1
        return route

    def remember(self, name: bytes, source: Source) -> None:
        if len(self.sources) >= SOURCES_MAX:
            self.sources.clear()
        self.sources[name] = source

    def put(self, route: Route) -> None:
        size: i64 = len(route.key) + len(route.tail)
        if len(self.routes) >= ENTRIES_MAX or self.octets + size > OCTETS_MAX:
            # Full. If it earned less than it holds, the load has more keys than fit.
            useless = self.hits < len(self.routes)
            self._clear_routes()
            if useless:
                self.passing = PASS_COUNT
                return
        self.routes[route.key] = route
        self.octets += size

    def remember_again(self, asked: Route, props: bytes, decided: Route) -> None:
        """Messages by this route, with these properties, go there until something changes."""
        self.again_for = asked
        self.again_props = props
        self.again_route = decided

    def source_at(self, arguments: bytes, end: i64) -> Source | None:
        """The exchange named by the publish arguments, whose name ends there, if it is known."""
        source = self.last_source
        if source is not None and same_octets(arguments, 2, end - 2, self.last_name):
            return source
        source = self.sources.get(arguments[3:end])
        if source is not None:
            self.last_source = source
            self.last_name = arguments[2:end]
        return source

    def clear(self) -> None:
        self.sources.clear()
        self.last_source = None
        self.again_for = None
        self.again_route = None
        self._clear_routes()

    def _clear_routes(self) -> None:
        self.routes.clear()
        self.octets = 0
        self.hits = 0


def same_octets(data: bytes, pos: i64, size: i64, key: bytes) -> bool:
    """Whether `data[pos:pos + size] == key`, without making the slice."""
    if len(key) != size:
        return False
    index: i64 = 0
    # Headers make long ones: four words at a time.
    while size - index >= 32:
        at = pos + index
        if (
            (read_i64_be(data, at) ^ read_i64_be(key, index))
            | (read_i64_be(data, at + 8) ^ read_i64_be(key, index + 8))
            | (read_i64_be(data, at + 16) ^ read_i64_be(key, index + 16))
            | (read_i64_be(data, at + 24) ^ read_i64_be(key, index + 24))
        ) != 0:
            return False
        index += 32
    while size - index >= 8:
        if read_i64_be(data, pos + index) != read_i64_be(key, index):
            return False
        index += 8
    while index < size:
        if data[pos + index] != key[index]:
            return False
        index += 1
    return True
