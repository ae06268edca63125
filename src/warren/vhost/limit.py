"""Limits of vhosts and users (VH-2): which there are, and what their values may be.

A limit that is absent or negative is none, 0 allows nothing. Who enforces them asks
`Metadata.limits_of_vhost` and `limits_of_user`.
"""

from collections.abc import Mapping
from typing import Final

VHOST_LIMITS: Final = ("max-connections", "max-queues")
# RabbitMQ keeps those of a vhost as a parameter; lists and definitions show them as that.
LIMITS_COMPONENT: Final = "vhost-limits"
LIMITS_NAME: Final = "limits"
USER_LIMITS: Final = ("max-connections", "max-channels")


def limits(given: Mapping[str, object], known: tuple[str, ...]) -> dict[str, int]:
    """Return limits as a change carries them; ValueError says what is wrong with one."""
    found: dict[str, int] = {}
    for name, value in given.items():
        if name not in known:
            raise ValueError(f"there is no limit '{name}', there are {', '.join(known)}")
        if not isinstance(value, int) or isinstance(value, bool):
            raise ValueError(f"{name} should be an integer, got {value!r}")
        found[name] = value
    return found
