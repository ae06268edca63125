"""What there is, listed: queues, exchanges, bindings, connections, channels, consumers."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from warren.management import view
from warren.management.access import Identity, May
from warren.management.answer import Reply, not_authorised, not_found, said
from warren.management.copy import ConnectionStat, Copy
from warren.management.feed import ChannelState
from warren.management.listing import Shown, listed, projected
from warren.management.router import Endpoint
from warren.vhost.change import BindingPut, ExchangePut, QueuePut

if TYPE_CHECKING:
    from warren.management.app import Api
    from warren.management.request import Request

DEFAULT: Final = "amq.default"


def _columns(request: "Request") -> list[str]:
    return [column for column in request.query.get("columns", "").split(",") if column]


def entered(request: "Request", vhost: str) -> bool:
    """Whether a list for this request shows what is in a virtual host."""
    asked = request.parameters.get("vhost")
    return vhost == asked if asked is not None else request.identity.enters(vhost)


# -- queues and exchanges --------------------------------------------------------------------------


async def queues(api: "Api", request: "Request") -> Reply:
    copy = await api.mirror.current()
    policies = view.Policies(copy)
    found = [one for one in copy.queues.values() if entered(request, one.vhost)]
    return await listed(
        request,
        found,
        lambda one: (one.vhost, one.name),
        lambda one: view.queue(copy, policies, one),
    )


def queue_named(copy: Copy, request: "Request") -> QueuePut:
    found = copy.queues.get((request.named("vhost"), request.named("name")))
    if found is None:
        raise not_found()
    return found


async def queue(api: "Api", request: "Request") -> Reply:
    copy = await api.mirror.current()
    found = queue_named(copy, request)
    shown = view.queue(copy, view.Policies(copy), found)
    shown["consumer_details"] = [
        view.consumer(copy, stat, channel, consumer)
        for stat in copy.connections.values()
        if stat.state.vhost == found.vhost
        for channel in stat.state.channels
        for consumer in channel.consumers
        if consumer.queue == found.name
    ]
    shown |= {"deliveries": [], "incoming": []}
    return said(projected(shown, _columns(request)))


async def exchanges(api: "Api", request: "Request") -> Reply:
    copy = await api.mirror.current()
    policies = view.Policies(copy)
    found = [one for one in copy.exchanges.values() if entered(request, one.vhost)]
    return await listed(
        request,
        found,
        lambda one: (one.vhost, one.name),
        lambda one: view.exchange(policies, one),
    )


def exchange_named(copy: Copy, request: "Request", parameter: str = "name") -> ExchangePut:
    name = request.named(parameter)
    found = copy.exchanges.get((request.named("vhost"), "" if name == DEFAULT else name))
    if found is None:
        raise not_found()
    return found


async def exchange(api: "Api", request: "Request") -> Reply:
    copy = await api.mirror.current()
    shown = view.exchange(view.Policies(copy), exchange_named(copy, request))
    shown |= {"incoming": [], "outgoing": []}
    return said(projected(shown, _columns(request)))


# -- bindings --------------------------------------------------------------------------------------


async def _bindings(request: "Request", found: list[BindingPut]) -> Reply:
    found.sort(key=lambda one: (one.vhost, one.source, one.destination, one.key))
    return await listed(request, found, lambda one: (one.vhost, ""), view.binding, paged=False)


async def bindings(api: "Api", request: "Request") -> Reply:
    copy = await api.mirror.current()
    found = [one for one in copy.bindings.values() if entered(request, one.vhost)]
    found += [view.implicit(one) for one in copy.queues.values() if entered(request, one.vhost)]
    return await _bindings(request, found)


async def queue_bindings(api: "Api", request: "Request") -> Reply:
    copy = await api.mirror.current()
    one = queue_named(copy, request)
    found = [view.implicit(one), *copy.bindings_into(one.vhost, one.name, to_queue=True)]
    return await _bindings(request, found)


async def bindings_from(api: "Api", request: "Request") -> Reply:
    copy = await api.mirror.current()
    one = exchange_named(copy, request)
    return await _bindings(request, _from(copy, one))


def _from(copy: Copy, one: ExchangePut) -> list[BindingPut]:
    if one.name:
        return list(copy.bindings_from(one.vhost, one.name))
    return [view.implicit(each) for each in copy.queues.values() if each.vhost == one.vhost]


async def bindings_into(api: "Api", request: "Request") -> Reply:
    copy = await api.mirror.current()
    one = exchange_named(copy, request)
    return await _bindings(request, list(copy.bindings_into(one.vhost, one.name, to_queue=False)))


def between(copy: Copy, request: "Request") -> list[BindingPut]:
    """The bindings between the two ends that the path names; 404 if one is not there."""
    source = exchange_named(copy, request, "source")
    vhost, name = source.vhost, request.named("destination")
    to_queue = request.named("kind") == "q"
    if not to_queue and request.named("kind") != "e":
        raise not_found()
    there = copy.queues if to_queue else copy.exchanges
    if (vhost, name) not in there:
        raise not_found()
    if not source.name:
        return [view.implicit(copy.queues[vhost, name])] if to_queue else []
    into = copy.bindings_into(vhost, name, to_queue=to_queue)
    return [one for one in into if one.source == source.name]


async def bindings_between(api: "Api", request: "Request") -> Reply:
    copy = await api.mirror.current()
    return await _bindings(request, between(copy, request))


async def binding(api: "Api", request: "Request") -> Reply:
    copy = await api.mirror.current()
    return said(view.binding(binding_named(copy, request)))


def binding_named(copy: Copy, request: "Request") -> BindingPut:
    wanted = request.named("properties")
    for one in between(copy, request):
        # The path has been decoded once; a key that is not encoded is taken as well.
        if wanted in (view.properties_key(one), one.key):
            return one
    raise not_found()


# -- who is connected ------------------------------------------------------------------------------


def _own(identity: Identity, stat: ConnectionStat) -> bool:
    return identity.monitor or stat.state.user == identity.user


def _connections(copy: Copy, request: "Request") -> list[ConnectionStat]:
    asked = request.parameters.get("vhost")
    return [
        stat
        for stat in copy.connections.values()
        if _own(request.identity, stat) and asked in (None, stat.state.vhost)
    ]


async def connections(api: "Api", request: "Request") -> Reply:
    copy = await api.mirror.current()
    return await listed(
        request,
        _connections(copy, request),
        lambda stat: ("", stat.state.name),
        lambda stat: view.connection(copy, stat),
    )


def connection_named(copy: Copy, request: "Request") -> ConnectionStat:
    for stat in copy.connections.values():
        if stat.state.name == request.named("name"):
            if not _own(request.identity, stat):
                raise not_authorised("User not authorised to access object")
            return stat
    raise not_found()


async def connection(api: "Api", request: "Request") -> Reply:
    copy = await api.mirror.current()
    shown = view.connection(copy, connection_named(copy, request))
    return said(projected(shown, _columns(request)))


async def connections_of(api: "Api", request: "Request") -> Reply:
    copy = await api.mirror.current()
    found: list[Shown] = [
        {
            "name": stat.state.name,
            "vhost": stat.state.vhost,
            "user": stat.state.user,
            "node": copy.node.name if copy.node is not None else "",
        }
        for stat in _connections(copy, request)
        if stat.state.user == request.named("user")
    ]
    return said(found)


_Held = tuple[ConnectionStat, ChannelState]


def _channels(stats: list[ConnectionStat]) -> Iterator[_Held]:
    for stat in stats:
        for channel in stat.state.channels:
            yield stat, channel


async def _listed_channels(copy: Copy, request: "Request", found: list[_Held]) -> Reply:
    return await listed(
        request,
        found,
        lambda held: ("", view.channel_name(*held)),
        lambda held: view.channel(copy, *held),
    )


async def channels(api: "Api", request: "Request") -> Reply:
    copy = await api.mirror.current()
    return await _listed_channels(copy, request, list(_channels(_connections(copy, request))))


async def channels_of(api: "Api", request: "Request") -> Reply:
    copy = await api.mirror.current()
    found = list(_channels([connection_named(copy, request)]))
    return await _listed_channels(copy, request, found)


async def channel(api: "Api", request: "Request") -> Reply:
    copy = await api.mirror.current()
    for stat, one in _channels(list(copy.connections.values())):
        if view.channel_name(stat, one) == request.named("name"):
            if not _own(request.identity, stat):
                raise not_authorised("User not authorised to access object")
            shown = view.channel(copy, stat, one)
            shown["consumer_details"] = [
                view.consumer(copy, stat, one, consumer) for consumer in one.consumers
            ]
            return said(projected(shown, _columns(request)))
    raise not_found()


async def consumers(api: "Api", request: "Request") -> Reply:
    copy = await api.mirror.current()
    shown = [
        view.consumer(copy, stat, held, one)
        for stat in copy.connections.values()
        if entered(request, stat.state.vhost)
        for held in stat.state.channels
        for one in held.consumers
    ]
    return await listed(request, shown, lambda one: ("", ""), lambda one: one, paged=False)


ENDPOINTS: Final = (
    Endpoint("GET", "/api/queues", May.ANY, queues),
    Endpoint("GET", "/api/queues/{vhost}", May.VHOST, queues),
    Endpoint("GET", "/api/queues/{vhost}/{name}", May.VHOST, queue),
    Endpoint("GET", "/api/queues/{vhost}/{name}/bindings", May.VHOST, queue_bindings),
    Endpoint("GET", "/api/exchanges", May.ANY, exchanges),
    Endpoint("GET", "/api/exchanges/{vhost}", May.VHOST, exchanges),
    Endpoint("GET", "/api/exchanges/{vhost}/{name}", May.VHOST, exchange),
    Endpoint("GET", "/api/exchanges/{vhost}/{name}/bindings/source", May.VHOST, bindings_from),
    Endpoint("GET", "/api/exchanges/{vhost}/{name}/bindings/destination", May.VHOST, bindings_into),
    Endpoint("GET", "/api/bindings", May.ANY, bindings),
    Endpoint("GET", "/api/bindings/{vhost}", May.VHOST, bindings),
    Endpoint(
        "GET", "/api/bindings/{vhost}/e/{source}/{kind}/{destination}", May.VHOST, bindings_between
    ),
    Endpoint(
        "GET",
        "/api/bindings/{vhost}/e/{source}/{kind}/{destination}/{properties}",
        May.VHOST,
        binding,
    ),
    Endpoint("GET", "/api/connections", May.ANY, connections),
    Endpoint("GET", "/api/vhosts/{vhost}/connections", May.VHOST, connections),
    Endpoint("GET", "/api/connections/{name}", May.ANY, connection),
    Endpoint("GET", "/api/connections/{name}/channels", May.ANY, channels_of),
    Endpoint("GET", "/api/connections/username/{user}", May.ANY, connections_of),
    Endpoint("GET", "/api/channels", May.ANY, channels),
    Endpoint("GET", "/api/vhosts/{vhost}/channels", May.VHOST, channels),
    Endpoint("GET", "/api/channels/{name}", May.ANY, channel),
    Endpoint("GET", "/api/consumers", May.ANY, consumers),
    Endpoint("GET", "/api/consumers/{vhost}", May.VHOST, consumers),
)
