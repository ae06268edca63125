"""Limits of vhosts and users (VH-2): which there are, what they may be, and when one is reached.

A limit that is absent or negative is none, 0 allows nothing. A limit is looked at when something
new is wanted, in the numbers that vhosts and users keep (`VHost.connections`, `Usage`), so a check
costs the same whatever there is; what exists stays when a limit is lowered.

Refusals are `AmqpError`s in the reference's words.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from warren.core import AmqpError
from warren.core.reply import NOT_ALLOWED, PRECONDITION_FAILED
from warren.flow.bucket import TOKENS_MAX

if TYPE_CHECKING:
    from warren.vhost.broker import Broker
    from warren.vhost.vhost import VHost

MAX_CONNECTIONS: Final = "max-connections"
MAX_QUEUES: Final = "max-queues"
MAX_CHANNELS: Final = "max-channels"
# Of our own: publishes a second, and how many may come at once (`throttle.py`).
MAX_PUBLISH_RATE: Final = "max-publish-rate"
MAX_PUBLISH_BURST: Final = "max-publish-burst"

VHOST_LIMITS: Final = (MAX_CONNECTIONS, MAX_QUEUES, MAX_PUBLISH_RATE, MAX_PUBLISH_BURST)
# RabbitMQ keeps those of a vhost as a parameter; lists and definitions show them as that.
LIMITS_COMPONENT: Final = "vhost-limits"
LIMITS_NAME: Final = "limits"
USER_LIMITS: Final = (MAX_CONNECTIONS, MAX_CHANNELS, MAX_PUBLISH_RATE, MAX_PUBLISH_BURST)
_TOKENS: Final = (MAX_PUBLISH_RATE, MAX_PUBLISH_BURST)


def limits(given: Mapping[str, object], known: tuple[str, ...]) -> dict[str, int]:
    """Return limits as a change carries them; ValueError says what is wrong with one."""
    found: dict[str, int] = {}
    for name, value in given.items():
        if name not in known:
            raise ValueError(f"there is no limit '{name}', there are {', '.join(known)}")
        if not isinstance(value, int) or isinstance(value, bool):
            raise ValueError(f"{name} should be an integer, got {value!r}")
        if name in _TOKENS and value > TOKENS_MAX:
            raise ValueError(f"{name} should be at most {TOKENS_MAX}, got {value}")
        found[name] = value
    return found


def reached(of: Mapping[str, int], name: str, count: int) -> bool:
    """Whether no more than this many are allowed."""
    return 0 <= of.get(name, -1) <= count


def check_connections(broker: "Broker", vhost: "VHost", user: str) -> None:
    """Refuse one more connection: that of the vhost first (CE-3), then the user's (CE-4)."""
    if reached(vhost.limits, MAX_CONNECTIONS, vhost.connections):
        raise AmqpError(
            NOT_ALLOWED,
            f"access to vhost '{vhost.name}' refused for user '{user}': "
            f"connection limit ({vhost.limits[MAX_CONNECTIONS]}) is reached",
        )
    own = broker.metadata.limits_of_user(user)
    if reached(own, MAX_CONNECTIONS, broker.usage_of(user).connections):
        raise AmqpError(
            NOT_ALLOWED,
            f"connection refused for user '{user}': "
            f"user connection limit ({own[MAX_CONNECTIONS]}) is reached",
        )


def check_channels(broker: "Broker", user: str) -> None:
    """Refuse one more channel of a user, on whatever connection (CE-7)."""
    own = broker.metadata.limits_of_user(user)
    if reached(own, MAX_CHANNELS, broker.usage_of(user).channels):
        raise AmqpError(
            NOT_ALLOWED,
            f"number of channels opened for user '{user}' has reached the maximum allowed user "
            f"limit of ({own[MAX_CHANNELS]})",
        )


def check_queues(vhost: "VHost", name: str) -> None:
    """Refuse one more queue in a vhost (CH-13)."""
    if reached(vhost.limits, MAX_QUEUES, len(vhost.queues)):
        raise AmqpError(
            PRECONDITION_FAILED,
            f"cannot declare queue '{name}': queue limit in vhost '{vhost.name}' "
            f"({vhost.limits[MAX_QUEUES]}) is reached",
        )
