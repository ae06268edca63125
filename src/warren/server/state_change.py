"""All metadata there is, as the changes that would make it: for a copy that begins from nothing.

What an object stands on comes before it. The walk may be interrupted after every change, and the
broker may change meanwhile: what was there all the time is told once, what came or went meanwhile
may or may not be told.
"""

from collections.abc import Iterator

from warren.routing import Exchange
from warren.routing.listing import BindingRow, BindingScan
from warren.vhost import Broker, VHost
from warren.vhost.change import (
    BindingPut,
    Change,
    ExchangePut,
    GlobalParameterPut,
    ParameterPut,
    PermissionPut,
    QueuePut,
    TopicPermissionPut,
    UserLimitsPut,
    VHostLimitsPut,
    VHostPut,
    VHostTracing,
    encoded,
    policy_put,
    user_put,
)


def everything(broker: Broker) -> Iterator[Change]:
    """Yield all metadata of a broker."""
    for name, value in list(broker.global_parameters.items()):
        yield GlobalParameterPut(name=name, value=value)
    for vhost in list(broker.vhosts.values()):
        yield from _vhost(vhost)
    yield from _users(broker)
    for vhost in list(broker.vhosts.values()):
        yield from exchanges(vhost)
        yield from _queues(vhost)
        yield from _bindings(vhost)


def _vhost(vhost: VHost) -> Iterator[Change]:
    yield VHostPut(
        name=vhost.name,
        description=vhost.description,
        tags=vhost.tags,
        default_queue_type=vhost.default_queue_type,
    )
    if vhost.tracer is not None:
        yield VHostTracing(vhost=vhost.name, tracing=True)
    if vhost.limits:
        yield VHostLimitsPut(vhost=vhost.name, limits=vhost.limits)
    for (component, name), value in list(vhost.parameters.items()):
        yield ParameterPut(vhost=vhost.name, component=component, name=name, value=value)
    for operator in (False, True):
        for policy in vhost.policies.book.all(operator=operator):
            yield policy_put(policy)


def _users(broker: Broker) -> Iterator[Change]:
    for name in broker.users.names():
        user = broker.users.get(name)
        if user is not None:
            yield user_put(user)
    for name, limits in list(broker.user_limits.items()):
        yield UserLimitsPut(user=name, limits=limits)
    for one in broker.permissions.all():
        yield PermissionPut(
            user=one.user,
            vhost=one.vhost,
            configure=one.configure,
            write=one.write,
            read=one.read,
        )
    for topic in broker.permissions.all_topic():
        yield TopicPermissionPut(
            user=topic.user,
            vhost=topic.vhost,
            exchange=topic.exchange,
            write=topic.write,
            read=topic.read,
        )


def exchanges(vhost: VHost) -> Iterator[Change]:
    """Yield the exchanges of a vhost, those that every vhost has among them."""
    for one in list(vhost.routing.exchanges.values()):
        yield exchange_put(vhost.name, one)


def exchange_put(vhost: str, one: Exchange) -> ExchangePut:
    return ExchangePut(
        vhost=vhost,
        name=one.name,
        kind=one.kind,
        durable=one.durable,
        auto_delete=one.auto_delete,
        internal=one.internal,
        arguments=encoded(one.arguments),
    )


def _queues(vhost: VHost) -> Iterator[Change]:
    for one in list(vhost.queues.values()):
        yield QueuePut(
            vhost=vhost.name,
            name=one.name,
            durable=one.durable,
            auto_delete=one.auto_delete,
            owner=one.owner,
            arguments=encoded(one.arguments),
        )


def _bindings(vhost: VHost) -> Iterator[Change]:
    scan = BindingScan(vhost.routing)
    while rows := scan.step():
        for row in rows:
            # The implicit ones follow from the queues.
            if row.source:
                yield _binding_put(vhost.name, row)


def _binding_put(vhost: str, row: BindingRow) -> BindingPut:
    return BindingPut(
        vhost=vhost,
        source=row.source,
        destination=row.destination,
        to_queue=row.to_queue,
        key=row.key,
        arguments=encoded(row.arguments),
    )
