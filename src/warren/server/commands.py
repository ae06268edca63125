"""Every command of the control interface, subject by subject.

A subject is a module `command_*` with the function `commands(node)`; a new one is a line here.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from warren.server import (
    command_connection,
    command_cursor,
    command_delayed,
    command_feed,
    command_import,
    command_list,
    command_message,
    command_node,
    command_object,
    command_parameter,
    command_permission,
    command_policy,
    command_queue,
    command_range,
    command_replay,
    command_runtime,
    command_tls,
    command_user,
    command_vhost,
)
from warren.server.control import Command

if TYPE_CHECKING:
    from warren.server.node import Node


def commands(node: "Node") -> Iterator[Command]:
    """Return the commands of a node."""
    yield from command_node.COMMANDS
    yield from command_list.commands(node)
    yield from command_runtime.commands(node)
    yield from command_user.commands(node)
    yield from command_vhost.commands(node)
    yield from command_permission.commands(node)
    yield from command_parameter.commands(node)
    yield from command_connection.commands(node)
    yield from command_queue.commands(node)
    yield from command_range.commands(node)
    yield from command_replay.commands(node)
    yield from command_policy.commands(node)
    yield from command_delayed.commands(node)
    yield from command_cursor.commands(node)
    yield from command_tls.commands(node)
    yield from command_feed.commands(node)
    yield from command_import.commands(node)
    yield from command_object.commands(node)
    yield from command_message.commands(node)
