"""Which function handles which method: on channel 0, on a channel, in which order of checks."""

from typing import TYPE_CHECKING

from mypy_extensions import i64

from warren.core import AmqpError, reply
from warren.protocol.frame import frame
from warren.protocol.methods import (
    BASIC_RECOVER_OK,
    CHANNEL_CLOSE_OK,
    CHANNEL_OPEN_OK,
    CONNECTION_UPDATE_SECRET_OK,
    AccessRequest,
    AccessRequestOk,
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicCredit,
    BasicGet,
    BasicNack,
    BasicPublish,
    BasicQos,
    BasicRecover,
    BasicRecoverAsync,
    BasicReject,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelFlowOk,
    ChannelOpen,
    ConfirmSelect,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionUpdateSecret,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
    QueueUnbind,
    TxCommit,
    TxRollback,
    TxSelect,
)
from warren.session import (
    basic_method,
    ending,
    exchange_method,
    parking,
    publish,
    queue_method,
    tx_method,
)
from warren.session.channel import Channel
from warren.session.settle import on_ack, on_nack, on_recover
from warren.vhost.limit import check_channels

if TYPE_CHECKING:
    from warren.session.connection import Connection


def on_connection_method(connection: "Connection", method: Method) -> None:
    """A method on channel 0 of an open connection."""
    if isinstance(method, ConnectionClose):
        ending.close_by_client(connection)
    elif isinstance(method, ConnectionCloseOk):
        connection.lost("close-ok without close")
    elif isinstance(method, ConnectionUpdateSecret):
        # AU-3: no backend here has credentials that expire; accepted, and nothing changes.
        connection.output.write(frame(1, 0, CONNECTION_UPDATE_SECRET_OK))
    else:
        raise AmqpError(
            reply.CHANNEL_ERROR, f"unexpected method in connection state {connection.state()}"
        )


def on_channel_method(  # noqa: C901 - one branch a method, the common ones first
    connection: "Connection",
    number: int,
    channel: Channel | None,
    method: Method,
    data: bytes,
    pos: i64,
    end: i64,
) -> None:
    """A method on a channel; data[pos:end] is its payload."""
    if channel is None:
        if isinstance(method, ChannelOpen):
            open_channel(connection, number)
            return
        if isinstance(method, ChannelCloseOk):
            # The answer to a close of ours that crossed the peer's own.
            return
        raise AmqpError(reply.CHANNEL_ERROR, "expected 'channel.open'")
    if isinstance(method, BasicPublish):
        publish.begin(channel, data[pos + 4 : end])
    elif isinstance(method, BasicAck):
        on_ack(channel, method.delivery_tag, method.multiple)
    elif isinstance(method, BasicNack):
        on_nack(channel, method.delivery_tag, method.multiple, method.requeue)
    elif isinstance(method, BasicReject):
        on_nack(channel, method.delivery_tag, False, method.requeue)
    elif isinstance(method, BasicGet):
        basic_method.on_get(connection, channel, method)
    elif method.CLASS_ID == 60:
        _on_basic(connection, channel, method)
    elif method.CLASS_ID == 50:
        _on_queue(connection, channel, method)
    elif method.CLASS_ID == 40:
        _on_exchange(connection, channel, method)
    elif method.CLASS_ID == 20:
        _on_channel(connection, channel, method)
    else:
        _on_other(connection, channel, method)


def open_channel(connection: "Connection", number: int) -> None:
    """TU-1: channel_max limits how many channels are open, not their numbers."""
    limit = connection.channel_max
    if limit != 0 and len(connection.channels) >= limit:
        raise AmqpError(
            reply.NOT_ALLOWED,
            f"number of channels opened ({len(connection.channels)}) has reached the negotiated "
            f"channel_max ({limit})",
        )
    check_channels(connection.broker, connection.user)
    connection.channels[number] = Channel(number, connection)
    connection.output.write(frame(1, number, CHANNEL_OPEN_OK))


def _on_channel(connection: "Connection", channel: Channel, method: Method) -> None:
    if isinstance(method, ChannelClose):
        connection.flush_confirms()
        parking.forget(connection, channel)
        channel.end()
        connection.channels.pop(channel.number, None)
        connection.output.write(frame(1, channel.number, CHANNEL_CLOSE_OK))
    elif isinstance(method, ChannelFlow):
        if not method.active:
            raise AmqpError(reply.NOT_IMPLEMENTED, "active=false")
        ok = ChannelFlowOk(active=True)
        connection.output.write(frame(1, channel.number, ok.encode()))
    elif isinstance(method, ChannelOpen):
        raise AmqpError(reply.CHANNEL_ERROR, "second 'channel.open' seen")
    elif not isinstance(method, ChannelCloseOk | ChannelFlowOk):
        raise unimplemented()


def _on_exchange(connection: "Connection", channel: Channel, method: Method) -> None:
    if isinstance(method, ExchangeDeclare):
        exchange_method.on_declare(connection, channel, method)
    elif isinstance(method, ExchangeDelete):
        exchange_method.on_delete(connection, channel, method)
    elif isinstance(method, ExchangeBind):
        exchange_method.on_bind(connection, channel, method)
    elif isinstance(method, ExchangeUnbind):
        exchange_method.on_unbind(connection, channel, method)
    else:
        raise unimplemented()


def _on_queue(connection: "Connection", channel: Channel, method: Method) -> None:
    if isinstance(method, QueueDeclare):
        queue_method.on_declare(connection, channel, method)
    elif isinstance(method, QueueBind):
        queue_method.on_bind(connection, channel, method)
    elif isinstance(method, QueueUnbind):
        queue_method.on_unbind(connection, channel, method)
    elif isinstance(method, QueuePurge):
        queue_method.on_purge(connection, channel, method)
    elif isinstance(method, QueueDelete):
        queue_method.on_delete(connection, channel, method)
    else:
        raise unimplemented()


def _on_basic(connection: "Connection", channel: Channel, method: Method) -> None:
    if isinstance(method, BasicQos):
        basic_method.on_qos(connection, channel, method)
    elif isinstance(method, BasicConsume):
        basic_method.on_consume(connection, channel, method)
    elif isinstance(method, BasicCancel):
        basic_method.on_cancel(connection, channel, method)
    elif isinstance(method, BasicRecover):
        _check_requeue(method.requeue)
        on_recover(channel)
        connection.output.write(frame(1, channel.number, BASIC_RECOVER_OK))
    elif isinstance(method, BasicRecoverAsync):
        _check_requeue(method.requeue)
        on_recover(channel)
    elif isinstance(method, BasicCredit):
        basic_method.on_credit(channel, method.consumer_tag)
    else:
        raise unimplemented()


def _check_requeue(requeue: bool) -> None:
    if not requeue:
        raise AmqpError(reply.NOT_IMPLEMENTED, "requeue=false")


def _on_other(connection: "Connection", channel: Channel, method: Method) -> None:
    if isinstance(method, ConfirmSelect):
        tx_method.on_confirm_select(connection, channel, method)
    elif isinstance(method, TxSelect):
        tx_method.on_select(connection, channel)
    elif isinstance(method, TxCommit):
        tx_method.on_commit(connection, channel)
    elif isinstance(method, TxRollback):
        tx_method.on_rollback(connection, channel)
    elif isinstance(method, AccessRequest):
        ok = AccessRequestOk(ticket=1)
        connection.output.write(frame(1, channel.number, ok.encode()))
    else:
        raise unimplemented()


def unimplemented() -> AmqpError:
    return AmqpError(reply.COMMAND_INVALID, "unimplemented method")
