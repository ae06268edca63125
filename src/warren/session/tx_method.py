"""Confirm and transaction modes: select, commit, rollback (spec CO-1, CO-5, TX-1 to TX-5)."""

from typing import TYPE_CHECKING

from warren.core import AmqpError, reply
from warren.protocol.frame import frame
from warren.protocol.methods import (
    CONFIRM_SELECT_OK,
    TX_COMMIT_OK,
    TX_ROLLBACK_OK,
    TX_SELECT_OK,
    ConfirmSelect,
)
from warren.queues import HELD, REFUSED, ConfirmLedger
from warren.session import publish
from warren.session.channel import Channel, Transaction
from warren.session.settle import reject, settle

if TYPE_CHECKING:
    from warren.session.connection import Connection


def on_confirm_select(connection: "Connection", channel: Channel, method: ConfirmSelect) -> None:
    if channel.tx is not None:
        raise AmqpError(reply.PRECONDITION_FAILED, "cannot switch from tx to confirm mode")
    if channel.ledger is None:
        channel.ledger = ConfirmLedger(channel.number, connection.output)
    if not method.no_wait:
        connection.output.write(frame(1, channel.number, CONFIRM_SELECT_OK))


def on_select(connection: "Connection", channel: Channel) -> None:
    if channel.ledger is not None:
        raise AmqpError(reply.PRECONDITION_FAILED, "cannot switch from confirm to tx mode")
    if channel.tx is None:
        channel.tx = Transaction()
        channel.settle_quick()
    connection.output.write(frame(1, channel.number, TX_SELECT_OK))


def on_commit(connection: "Connection", channel: Channel) -> None:
    """Publishes in order, then acks and rejects; returns go out before commit-ok (TX-3)."""
    tx = _transaction(channel)
    channel.tx = Transaction()
    refused = False
    for item in tx.publishes:
        route = item.route
        if route.returned:
            publish.return_message(channel, item.message)
        for target in route.targets:
            answer = target.publish(item.message, None, 0)
            if answer == REFUSED:
                refused = True
            elif answer >= HELD:
                publish.on_held(channel, target)
    channel.outlet.deferred = 0
    for settlement in tx.settlements:
        if settlement.acked:
            settle(settlement.deliveries)
            channel.outlet.release(settlement.deliveries)
        else:
            reject(channel, settlement.deliveries, settlement.requeue)
    if refused or not _hold(connection):
        raise AmqpError(reply.PRECONDITION_FAILED, "partial tx completion")
    connection.output.write(frame(1, channel.number, TX_COMMIT_OK))


def _hold(connection: "Connection") -> bool:
    """Answer when everything that was written down so far is on the disk (TX-3).

    False if it never will be.
    """
    storage = connection.broker.turn.storage
    if storage is None:
        return True
    if storage.journal.broken:
        return False
    output = connection.output
    output.hold_batch = max(output.hold_batch, storage.open_batch())
    return True


def on_rollback(connection: "Connection", channel: Channel) -> None:
    """Forget publishes; what was acked or rejected is unacked again, in tag order (TX-4)."""
    tx = _transaction(channel)
    channel.tx = Transaction()
    channel.outlet.deferred = 0
    for settlement in tx.settlements:
        channel.outlet.unacked.restore(settlement.deliveries)
    connection.output.write(frame(1, channel.number, TX_ROLLBACK_OK))


def _transaction(channel: Channel) -> Transaction:
    if channel.tx is None:
        raise AmqpError(reply.PRECONDITION_FAILED, "channel is not transactional")
    return channel.tx
