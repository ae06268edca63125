"""How channels and connections end: by an error, by the client, by the node, by the network.

Whatever the way, everything of the connection ends first and completely (spec EX-2 to EX-5):
unacked messages are back in their queues and exclusive queues are gone before the peer is told.
"""

from typing import TYPE_CHECKING

from librt.strings import read_i32_be
from mypy_extensions import i64

from warren.core import AmqpError, reply
from warren.protocol.frame import frame
from warren.protocol.methods import (
    CHANNEL_CLOSE_OK,
    CONNECTION_CLOSE_OK,
    ChannelClose,
    ConnectionClose,
    ConnectionCloseOk,
    decode,
)
from warren.protocol.wire import DecodeError
from warren.session import parking
from warren.session.channel import EXPECT_CLOSE_OK, Channel
from warren.session.frame_error import FatalFrameError
from warren.session.phase import (
    CLOSE_WAIT_NS,
    CLOSED,
    CLOSING,
    DOOMED,
    FAREWELL_NS,
    RUNNING,
    SECOND_NS,
    SILENCE_NS,
)

if TYPE_CHECKING:
    from warren.session.connection import Connection


def fail_channel(connection: "Connection", channel: Channel, error: AmqpError) -> None:
    """EX-2: requeue and remove consumers first, then channel.close, then deaf but for close."""
    connection.broker.log.event(
        "warning",
        "channel.error",
        {
            "connection": connection.subject.name,
            "channel": channel.number,
            "user": connection.user,
            "code": error.code,
            "text": error.detail,
        },
    )
    connection.flush_confirms()
    parking.forget(connection, channel)
    channel.end()
    channel.expect = EXPECT_CLOSE_OK
    method = ChannelClose(
        reply_code=error.code,
        reply_text=error.text(),
        class_id=error.class_id,
        method_id=error.method_id,
    )
    connection.output.write(frame(1, channel.number, method.encode()))


def close(connection: "Connection", error: AmqpError) -> None:
    """EX-3, EX-5: everything of this connection ends, then connection.close goes out."""
    if connection.phase >= CLOSING:
        return
    connection.broker.log.event(
        "warning" if error.code != reply.CONNECTION_FORCED else "info",
        "connection.error",
        {
            "connection": connection.subject.name,
            "user": connection.user,
            "code": error.code,
            "text": error.detail,
        },
    )
    connection.close_text = error.text()
    opened = connection.phase == RUNNING
    end_everything(connection)
    method = ConnectionClose(
        reply_code=error.code,
        reply_text=error.text(),
        class_id=error.class_id,
        method_id=error.method_id,
    )
    connection.output.write(frame(1, 0, method.encode()))
    now = connection.broker.turn.now_ns
    if isinstance(error, FatalFrameError):
        connection.phase = DOOMED
        connection.drop_at_ns = now + SILENCE_NS
        return
    connection.phase = CLOSING
    wait = CLOSE_WAIT_NS if opened else SILENCE_NS
    if opened and 0 < connection.heartbeat_s < 30:
        wait = connection.heartbeat_s * SECOND_NS
    connection.drop_at_ns = now + wait


def go_silent(connection: "Connection", why: str) -> None:
    """Say nothing more and drop the socket in a while: a brake on guessing (AU-1, AU-2)."""
    connection.close_text = why
    end_everything(connection)
    connection.phase = DOOMED
    connection.drop_at_ns = connection.broker.turn.now_ns + SILENCE_NS


def close_by_client(connection: "Connection") -> None:
    """EX-4: the same for a client's connection.close, then close-ok.

    The client closes the socket then; one that does not is dropped soon after.
    """
    end_everything(connection)
    connection.output.write(frame(1, 0, CONNECTION_CLOSE_OK))
    connection.close_text = "closed by client"
    connection.phase = CLOSING
    connection.drop_at_ns = connection.broker.turn.now_ns + FAREWELL_NS


def lost(connection: "Connection", why: str) -> None:
    """The socket is gone or is to go: nothing can be sent any more."""
    if not connection.close_text:
        connection.close_text = why
    if not connection.gone:
        connection.broker.log.event(
            "info",
            "connection.closed",
            {
                "connection": connection.subject.name,
                "user": connection.user,
                "reason": connection.close_text,
            },
        )
    if connection.phase != CLOSED:
        end_everything(connection)
        connection.phase = CLOSED
    # Until now: the rest of a frame still has to be passed over while a close is under way.
    connection.piece_channel = None
    connection.piece_left = 0
    connection.rest = b""
    connection.gone = True
    connection.output.discard()


def end_everything(connection: "Connection") -> None:
    connection.flush_confirms()
    channels = list(connection.channels.values())
    # Before anything goes back: what dies by that must not come to another channel that ends.
    for channel in channels:
        channel.stop_consuming()
    for channel in channels:
        parking.forget(connection, channel)
        channel.end()
    connection.channels = {}
    parking.forget_all(connection)
    home = connection.home
    if home is not None:
        for name in list(connection.exclusive):
            queue = home.queues.get(name)
            if queue is not None and queue.owner == connection.identity:
                home.delete_queue(queue)
        connection.exclusive.clear()
        home.connections -= 1
        connection.home = None
        connection.usage = None
        connection.broker.depart(connection.user)
    connection.routes.clear()
    connection.route = None
    connection.load.route = None


def on_method_closing(connection: "Connection", data: bytes, pos: i64, end: i64) -> None:
    try:
        method = decode(data, pos + 7, end - 1)
    except DecodeError:
        return
    if isinstance(method, ConnectionCloseOk):
        connection.phase = CLOSED
    elif isinstance(method, ConnectionClose):
        connection.output.write(frame(1, 0, CONNECTION_CLOSE_OK))


def on_method_after_exception(
    connection: "Connection", channel: Channel, data: bytes, pos: i64, end: i64
) -> None:
    """EX-2: only close-ok and close mean anything on a channel that failed."""
    word: i64 = i64(read_i32_be(data, pos)) if end - pos >= 4 else 0
    if word == (20 << 16) | 41:
        del connection.channels[channel.number]
    elif word == (20 << 16) | 40:
        del connection.channels[channel.number]
        connection.output.write(frame(1, channel.number, CHANNEL_CLOSE_OK))
