"""What a blank node is given: a vhost, a user, and its permissions (spec O-2.7)."""

from typing import Final

from warren.core import Random
from warren.security import new_user
from warren.server.config import Settings
from warren.vhost.change import Change, PermissionPut, VHostPut, user_put

DESCRIPTION: Final = "Default virtual host"


def blank_changes(settings: Settings, random: Random) -> tuple[Change, ...]:
    """Return the changes that make a node without any metadata usable."""
    name, vhost = settings.default_user, settings.default_vhost
    tags = settings.default_user_tags
    user = new_user(name, settings.default_pass.encode(), random, tags)
    return (
        VHostPut(name=vhost, description=DESCRIPTION),
        user_put(user),
        PermissionPut(
            user=name,
            vhost=vhost,
            configure=settings.default_permissions_configure,
            write=settings.default_permissions_write,
            read=settings.default_permissions_read,
        ),
    )
