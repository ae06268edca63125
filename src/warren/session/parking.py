"""Publishes that must wait: parked in order, within a byte budget, while acks pass (CF-*, AL-*).

A connection whose publishes are blocked, by an alarm or because it has used up its credit, is read
on: the frames of its publishing channels are parked, settlements overtake them, and every other
method keeps its place in its channel's order. When the parked octets exceed the budget, the socket
is not read until the block ends, and the wait book says so.

Credit is counted only while a queue that is published to holds messages in front of itself: the
channel then has so much left for that queue, and the reader so much for the channel, as if each
had been counted from the beginning (the worked example of flow-and-alarms 1.2).
"""

from collections import deque
from typing import TYPE_CHECKING, Final

from librt.strings import read_i32_be
from mypy_extensions import i64

from warren.flow import (
    CHANNEL_TO_QUEUE,
    Effect,
    Kind,
    Reason,
    Subject,
    Wait,
)
from warren.protocol.frame import frame
from warren.protocol.methods import CONNECTION_UNBLOCKED, ConnectionBlocked
from warren.queues import QueueRef
from warren.session import block_wait, watch
from warren.session.channel import EXPECT_BODY, Channel, ParkedFrame

if TYPE_CHECKING:
    from warren.session.connection import Connection

# What a parked frame costs beside its payload.
FRAME_COST: Final = 64

ACK: Final[i64] = (60 << 16) | 80
NACK: Final[i64] = (60 << 16) | 120
REJECT: Final[i64] = (60 << 16) | 90
CHANNEL_CLOSE: Final[i64] = (20 << 16) | 40


def overtakes(channel: Channel, kind: i64, data: bytes, pos: i64, end: i64) -> bool:
    """Whether a frame passes what is parked on its channel: settlements outside tx, and close."""
    if kind != 1 or end - pos < 12:
        return False
    word = i64(read_i32_be(data, pos + 7))
    if word == CHANNEL_CLOSE:
        return True
    return channel.tx is None and (word in (ACK, NACK, REJECT))


def on_content(connection: "Connection", channel: Channel, kind: i64, payload: bytes) -> bool:
    """Content came while an alarm, lack of credit or a limit is on; True if it was parked."""
    publisher = connection.publisher
    if publisher.watchful:
        apply(connection, publisher.on_content())
    pace = connection.pace
    if not publisher.parking:
        # A limit is looked at once for a publish, with its header.
        if kind != 2 or pace is None or pace.admit(connection.broker.turn.now_ns):
            return False
        apply(connection, publisher.on_credit(True))
    elif kind == 3 and pace is not None:
        pace.give_back()
    _park_begun(connection, channel)
    park(connection, channel, kind, payload)
    return True


def _park_begun(connection: "Connection", channel: Channel) -> None:
    """Park what has come of the content in progress, so that settlements may overtake all of it."""
    collected = channel.expect == EXPECT_BODY
    props, size, chunks = channel.props, channel.body_size, channel.chunks
    park(connection, channel, 1, b"\x00\x3c\x00\x28" + channel.arguments)
    if collected:
        header = b"\x00\x3c\x00\x00" + int(size).to_bytes(8, "big") + props
        park(connection, channel, 2, header)
        for chunk in chunks:
            park(connection, channel, 3, chunk)
    channel.forget_content()


def park(connection: "Connection", channel: Channel, kind: i64, payload: bytes) -> None:
    """Put a frame aside, in its place."""
    parked = channel.parked
    if parked is None:
        parked = deque()
        channel.parked = parked
        channel.quick = False
        connection.parked_channels[channel.number] = None
    parked.append(ParkedFrame(kind, payload))
    connection.parked_bytes += len(payload) + FRAME_COST
    if connection.reading and connection.parked_bytes > connection.settings.parked_bytes_max:
        connection.reading = False
        block_wait.begin_budget(connection)


def apply(connection: "Connection", effects: tuple[Effect, ...]) -> None:
    """Do what a step of the publisher's machine asks for."""
    pace = connection.pace
    limited = pace is not None and bool(pace.throttles)
    connection.watchful = limited or connection.publisher.watchful
    for effect in effects:
        if effect is Effect.RESTART_HEARTBEAT_CHECK:
            watch.restart_check(connection)
        elif effect is Effect.NOTIFY_BLOCKED:
            method = ConnectionBlocked(reason=connection.broker.alarms.blocked_reason_text())
            connection.output.write(frame(1, 0, method.encode()))
        elif effect is Effect.NOTIFY_UNBLOCKED:
            connection.output.write(frame(1, 0, CONNECTION_UNBLOCKED))
        elif effect is Effect.RESUME_CONTENT:
            _resume(connection)
    if effects:
        block_wait.settle(connection)


def _resume(connection: "Connection") -> None:
    """Handle what was parked, channel by channel, until it is blocked anew; then read on."""
    parked = connection.parked_channels
    while parked and not connection.publisher.parking:
        number = next(iter(parked))
        del parked[number]
        channel = connection.channels.get(number)
        if channel is not None and channel.parked is not None:
            _replay(connection, channel)
    room = connection.parked_bytes <= connection.settings.parked_bytes_max // 2
    if not connection.reading and (room or not connection.publisher.parking):
        connection.reading = True
        # The link looks whether to read at the end of the turn.
        connection.output.open()


def wait(connection: "Connection", channel: Channel, payload: bytes) -> None:
    """Put a method first in line, for what it asks is not in memory yet."""
    if channel.parked is None:
        park(connection, channel, 1, payload)
    else:
        channel.parked.appendleft(ParkedFrame(1, payload))
        connection.parked_bytes += len(payload) + FRAME_COST


def go_on(connection: "Connection", channel: Channel) -> None:
    """Handle what a channel parked for its own sake, unless its connection is blocked as well."""
    if channel.parked is None or connection.publisher.parking:
        return
    connection.parked_channels.pop(channel.number, None)
    _replay(connection, channel)
    if not connection.reading:
        _resume(connection)


def _replay(connection: "Connection", channel: Channel) -> None:
    frames = channel.take_parked()
    while frames:
        item = frames.popleft()
        connection.parked_bytes -= len(item.payload) + FRAME_COST
        connection.replay(channel, item.kind, item.payload)
        if channel.number not in connection.channels:
            connection.parked_bytes = max(0, connection.parked_bytes - _cost(frames))
            return
        if channel.parked is not None:
            # Blocked anew in the middle: the rest keeps its order behind what was parked now.
            frames.extendleft(reversed(channel.parked))
            channel.parked = frames
            return
    channel.settle_quick()


def _cost(frames: deque[ParkedFrame]) -> int:
    cost = 0
    for item in frames:
        cost += len(item.payload) + FRAME_COST
    return cost


def forget(connection: "Connection", channel: Channel) -> None:
    """A channel ends: nothing of it stays parked or charged."""
    if channel.parked is not None:
        connection.parked_bytes -= _cost(channel.parked)
        channel.parked = None
    connection.parked_channels.pop(channel.number, None)
    for name in list(channel.blocked_on):
        unblock(channel, name)


def forget_all(connection: "Connection") -> None:
    connection.parked_channels.clear()
    connection.parked_bytes = 0
    if connection.pace is not None:
        connection.pace.end()
    block_wait.forget(connection)


# -- credit --------------------------------------------------------------------------------------


def charge(channel: Channel, target: QueueRef) -> None:
    """A publish is held in front of a queue: one credit of the channel for it is gone."""
    connection = channel.connection
    cost = target.cost()
    before = channel.held_for.get(target.name, 0)
    if before == 0:
        target.watch(channel)
    channel.held_for[target.name] = before + int(cost)
    if before < connection.settings.credit_initial <= before + cost:
        _block_channel(connection, channel, target)
    if channel.blocked_on:
        channel.reader_credit -= cost
        if channel.reader_credit <= 0 and not connection.credit_out:
            connection.credit_out = True
            apply(connection, connection.publisher.on_credit(True))
            block_wait.settle(connection)


def _block_channel(connection: "Connection", channel: Channel, target: QueueRef) -> None:
    now = int(connection.broker.turn.now_ns)
    if not channel.blocked_on:
        # By now the channel has granted the reader what it has taken in whole steps of the refill,
        # and grants no more.
        settings = connection.settings
        granted = settings.credit_initial // settings.credit_refill * settings.credit_refill
        channel.reader_credit = granted + 1
    vhost = connection.vhost().name
    channel.blocked_on[target.name] = connection.broker.waits.begin(
        Wait(
            Reason.CREDIT,
            block_wait.channel_subject(connection, channel),
            Subject(Kind.QUEUE, target.name, vhost),
            now,
            setting=CHANNEL_TO_QUEUE.setting,
        )
    )
    channel.flow_since_ns = now


def unblock(channel: Channel, name: str) -> None:
    """A queue has taken what it held, or is gone: the channel's credit for it is whole again."""
    connection = channel.connection
    channel.held_for.pop(name, None)
    handle = channel.blocked_on.pop(name, None)
    if handle is None:
        return
    connection.broker.waits.end(handle, int(connection.broker.turn.now_ns))
    if channel.blocked_on:
        return
    for other in connection.channels.values():
        if other.blocked_on and other.reader_credit <= 0:
            return
    connection.credit_out = False
    _on_room(connection)


# -- limits of publishes a second ----------------------------------------------------------------


def on_tokens(connection: "Connection") -> None:
    """It is the connection's turn to publish again."""
    _on_room(connection)
    if connection.ledgers:
        connection.flush_confirms()


def _on_room(connection: "Connection") -> None:
    """Credit or tokens are back: go on if the other is not wanting."""
    pace = connection.pace
    waits = pace is not None and pace.waits_for is not None
    apply(connection, connection.publisher.on_credit(connection.credit_out or waits))
    block_wait.settle(connection)
