"""Acting on behalf of a user, as that user would over AMQP: a session without a peer.

So checks, their order and the words of a refusal are the protocol's. A refusal has the reply code
of the protocol as its `fix`.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from warren.core import AmqpError
from warren.protocol.output import Outbox
from warren.protocol.wire import DecodeError
from warren.queues import ConfirmLedger
from warren.server.changing import DONE, Done, vhost_named
from warren.server.commits import NotStoredError
from warren.server.control import Code, ControlError
from warren.session import Connection
from warren.session.channel import Channel

if TYPE_CHECKING:
    from warren.server.node import Node

# How often a publish looks whether queues and the disk have answered, and after how long.
# A nack on the wire.
NACK: Final = b"\x00\x3c\x00\x78"
LOOK_COUNT: Final = 4000
LOOK_S: Final = 0.005


def stand_in(node: "Node", user: str, vhost: str) -> Channel:
    """Return a channel of this user; `let_go` must follow."""
    home = vhost_named(node, vhost)
    node.hub.begin()
    session = Connection(
        0,
        "",
        0,
        node.broker,
        node.listeners.session,
        Outbox(),
        tls=False,
        now_ns=node.clock.monotonic_ns(),
    )
    session.user = user
    session.home = home
    return Channel(1, session)


def let_go(channel: Channel) -> None:
    """Break what refers to each other in a circle: the cycle collector does not run."""
    channel.outlet.owner = None
    channel.connection.output.discard()


def refusal_of(error: AmqpError | DecodeError) -> ControlError:
    code = Code.NOT_FOUND if error.code == 404 else Code.REFUSED
    return ControlError(code, error.detail, str(error.code))


async def act_as(
    node: "Node", user: str, vhost: str, act: Callable[[Connection, Channel], None]
) -> Done:
    """Do something as a user of a vhost; the reply comes when what was changed is stored."""
    channel = stand_in(node, user, vhost)
    session = channel.connection
    try:
        act(session, channel)
    except AmqpError as refusal:
        raise refusal_of(refusal) from None
    finally:
        let_go(channel)
    try:
        await node.commits.durable(int(session.output.hold))
    except NotStoredError as failure:
        message = f"done in memory, but it could not be stored: {failure}"
        raise ControlError(Code.REFUSED, message, "see `warren health`") from None
    return DONE


async def confirmed(ledger: ConfirmLedger) -> bool:
    """Wait until every queue has answered and what they store is on the disk.

    Return what a peer would be told: False is a nack.
    """
    for _ in range(LOOK_COUNT):
        ledger.flush()
        if not ledger.open and not ledger.marks:
            told = b"".join(ledger.output.take())
            return NACK not in told
        await asyncio.sleep(LOOK_S)
    raise ControlError(Code.BUSY, "a queue has not taken the message yet")
