"""exchange.declare, delete, bind, unbind (spec section 4; permissions VH-3)."""

from typing import TYPE_CHECKING

from warren.protocol.frame import frame
from warren.protocol.methods import (
    EXCHANGE_BIND_OK,
    EXCHANGE_DECLARE_OK,
    EXCHANGE_DELETE_OK,
    EXCHANGE_UNBIND_OK,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
)
from warren.routing import (
    alternate_of,
    check_deletable,
    check_equivalent,
    check_kind,
    check_not_default,
    check_not_reserved,
    check_unused,
    clean_name,
)
from warren.security import Access
from warren.session.access import check_access, check_topic
from warren.session.channel import Channel
from warren.vhost import change

if TYPE_CHECKING:
    from warren.session.connection import Connection


def on_declare(connection: "Connection", channel: Channel, method: ExchangeDeclare) -> None:
    vhost = connection.vhost()
    name = clean_name(method.exchange)
    if method.passive:
        check_not_default(name)
        vhost.routing.exchange(name)
    else:
        check_kind(method.type)
        check_not_default(name)
        check_access(connection, Access.CONFIGURE, name, "exchange")
        _declare(connection, name, method)
    if not method.no_wait:
        connection.output.write(frame(1, channel.number, EXCHANGE_DECLARE_OK))


def _declare(connection: "Connection", name: str, method: ExchangeDeclare) -> None:
    vhost = connection.vhost()
    existing = vhost.routing.exchanges.get(name)
    if existing is not None:
        check_equivalent(
            existing,
            vhost.name,
            kind=method.type,
            durable=method.durable,
            auto_delete=method.auto_delete,
            internal=method.internal,
            arguments=method.arguments,
        )
        if existing.durable:
            connection.hold(name)
        return
    check_not_reserved(name)
    alternate = alternate_of(method.arguments, name, vhost.name)
    if alternate is not None:
        check_access(connection, Access.READ, name, "exchange")
        check_access(connection, Access.WRITE, alternate, "exchange")
    connection.change(
        change.ExchangePut(
            vhost=vhost.name,
            name=name,
            kind=method.type,
            durable=method.durable,
            auto_delete=method.auto_delete,
            internal=method.internal,
            arguments=change.encoded(method.arguments),
        )
    )


def on_delete(connection: "Connection", channel: Channel, method: ExchangeDelete) -> None:
    vhost = connection.vhost()
    name = clean_name(method.exchange)
    check_not_default(name)
    check_deletable(name, vhost.name)
    check_access(connection, Access.CONFIGURE, name, "exchange")
    found = vhost.routing.exchanges.get(name)
    if found is not None and method.if_unused:
        check_unused(found, vhost.name)
    connection.change(change.ExchangeDelete(vhost=vhost.name, name=name))
    if not method.no_wait:
        connection.output.write(frame(1, channel.number, EXCHANGE_DELETE_OK))


def on_bind(connection: "Connection", channel: Channel, method: ExchangeBind) -> None:
    source, destination = clean_name(method.source), clean_name(method.destination)
    _check_bind(connection, source, destination, method.routing_key)
    connection.change(
        change.BindingPut(
            vhost=connection.vhost().name,
            source=source,
            destination=destination,
            to_queue=False,
            key=method.routing_key,
            arguments=change.encoded(method.arguments),
        )
    )
    if not method.no_wait:
        connection.output.write(frame(1, channel.number, EXCHANGE_BIND_OK))


def on_unbind(connection: "Connection", channel: Channel, method: ExchangeUnbind) -> None:
    source, destination = clean_name(method.source), clean_name(method.destination)
    _check_bind(connection, source, destination, method.routing_key)
    connection.change(
        change.BindingDelete(
            vhost=connection.vhost().name,
            source=source,
            destination=destination,
            to_queue=False,
            key=method.routing_key,
            arguments=change.encoded(method.arguments),
        )
    )
    if not method.no_wait:
        connection.output.write(frame(1, channel.number, EXCHANGE_UNBIND_OK))


def _check_bind(connection: "Connection", source: str, destination: str, key: str) -> None:
    check_not_default(destination)
    check_access(connection, Access.WRITE, destination, "exchange")
    check_not_default(source)
    check_access(connection, Access.READ, source, "exchange")
    found = connection.vhost().routing.exchanges.get(source)
    if found is not None and found.kind == "topic":
        check_topic(connection, found, Access.READ, key.encode())
