"""Permission checks of an operation, in the reference's words; always before existence (VH-3)."""

from typing import TYPE_CHECKING

from warren.core import AmqpError, reply
from warren.routing import Exchange
from warren.security import DEFAULT_EXCHANGE_NAME, Access

if TYPE_CHECKING:
    from warren.session.connection import Connection


def check_access(connection: "Connection", access: Access, name: str, what: str) -> None:
    """Refuse (403) what the user has no permission for; before existence (VH-3)."""
    vhost = connection.vhost()
    if connection.broker.permissions.allowed(connection.user, vhost.name, access, name):
        return
    raise AmqpError(
        reply.ACCESS_REFUSED,
        f"access to {what} '{name or DEFAULT_EXCHANGE_NAME}' in vhost '{vhost.name}' refused "
        f"for user '{connection.user}'",
    )


def check_topic(connection: "Connection", exchange: Exchange, access: Access, key: bytes) -> None:
    """Refuse (403) a routing or binding key the user has no topic permission for (VH-4)."""
    vhost = connection.vhost()
    permissions = connection.broker.permissions
    if permissions.topic_allowed(connection.user, vhost.name, exchange.name, access, key):
        return
    raise AmqpError(
        reply.ACCESS_REFUSED,
        f"access to topic '{key.decode()}' in exchange '{exchange.name}' in vhost "
        f"'{vhost.name}' refused for user '{connection.user}'",
    )
