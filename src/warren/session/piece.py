"""Body frames taken piece by piece, as their octets come.

A frame that is not whole yet is kept until it is, except a body frame: what is here of its payload
goes to the content in progress at once, so that a large body is copied once and not again with
each read. The frame's end octet is checked when it comes.
"""

from typing import TYPE_CHECKING

from mypy_extensions import i64

from warren.protocol.frame import snippet_text
from warren.session import publish
from warren.session.channel import EXPECT_BODY
from warren.session.frame_error import FatalFrameError
from warren.session.phase import RUNNING

if TYPE_CHECKING:
    from warren.session.connection import Connection


def begin_piece(
    connection: "Connection", data: bytes, pos: i64, size_all: i64, number: i64, size: i64
) -> i64:
    """Take the part of an unfinished body frame that is here, if it is worth it."""
    here = size_all - pos - 7
    channel = connection.channels.get(int(number))
    if (
        channel is None
        or here < 4096
        or connection.phase != RUNNING
        or channel.expect != EXPECT_BODY
        or channel.parked is not None
        or connection.publisher.watchful
        or size > channel.body_left
    ):
        return pos
    connection.piece_channel = channel
    connection.piece_left = size - here
    connection.piece_head = data[pos + 7 : pos + 24]
    publish.add_body(channel, data[pos + 7 : size_all])
    return size_all


def continue_piece(connection: "Connection", data: bytes, pos: i64, size_all: i64) -> i64:
    channel = connection.piece_channel
    assert channel is not None
    connection.failing = channel.number
    here = size_all - pos
    left = connection.piece_left
    if left > 0 and here > 0:
        count = min(here, left)
        if channel.expect == EXPECT_BODY:
            whole = pos == 0 and count == size_all
            publish.add_body(channel, data if whole else data[pos : pos + count])
        connection.piece_left = left - count
        pos += count
        here -= count
    connection.cursor = pos
    if connection.piece_left == 0 and here > 0:
        connection.piece_channel = None
        if data[pos] != 0xCE:
            connection.failing_method = 0
            raise FatalFrameError(
                f"{snippet_text(3, connection.piece_head)}: "
                f"{{invalid_frame_end_marker,{data[pos]}}}"
            )
        pos += 1
        connection.cursor = pos
        if channel.expect == EXPECT_BODY and channel.body_left == 0:
            publish.complete(connection, channel)
    return pos
