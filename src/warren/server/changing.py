"""What commands that change metadata have in common: they reply when it is stored, or refuse."""

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from warren.core import AmqpError
from warren.security import PatternError, User
from warren.server.commits import NotStoredError
from warren.server.control import Code, ControlError
from warren.vhost.change import Change

if TYPE_CHECKING:
    from warren.server.node import Node
    from warren.vhost import VHost

# Names are short strings on the wire (WI-6).
Name = Annotated[str, Meta(min_length=1, max_length=255)]


class Done(Struct, frozen=True):
    """It is done, and stored."""


class Args(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of a command."""


DONE = Done()


async def make(node: "Node", *changes: Change) -> Done:
    """Make changes true and reply when they are stored."""
    # What a change leaves to the end of a turn begins in this one.
    node.hub.begin()
    try:
        ticket = node.broker.metadata.apply(changes)
        await node.commits.durable(ticket)
    except AmqpError as refusal:
        raise ControlError(Code.REFUSED, refusal.detail) from None
    except PatternError as refusal:
        raise ControlError(Code.BAD_ARGUMENTS, str(refusal)) from None
    except NotStoredError as failure:
        message = f"done in memory, but it could not be stored: {failure}"
        raise ControlError(Code.REFUSED, message, "see `warren health`") from None
    return DONE


def user_named(node: "Node", name: str) -> User:
    user = node.broker.users.get(name)
    if user is None:
        raise ControlError(Code.NOT_FOUND, f'User "{name}" does not exist')
    return user


def vhost_named(node: "Node", name: str) -> "VHost":
    vhost = node.broker.vhosts.get(name)
    if vhost is None:
        raise ControlError(Code.NOT_FOUND, f"Virtual host '{name}' does not exist")
    return vhost
