"""What a connection looks at by the clock: heartbeats both ways, deliveries held for too long."""

from typing import TYPE_CHECKING

from mypy_extensions import i64

from warren.core import AmqpError, reply
from warren.protocol.frame import HEARTBEAT_FRAME
from warren.session.phase import RUNNING, SECOND_NS

if TYPE_CHECKING:
    from warren.session.connection import Connection


def next_look_ns(connection: "Connection") -> i64:
    """When `Connection.tick` will do something if nothing comes in before; 0: never.

    For a driver that goes from one such moment to the next instead of looking at intervals. Keep it
    true: whatever `tick` compares with the clock belongs here.
    """
    at = connection.drop_at_ns
    if connection.phase != RUNNING:
        return at
    if connection.heartbeat_s > 0:
        at = _earlier(at, connection.next_look_ns)
        at = _earlier(at, connection.last_out_ns + connection.heartbeat_s * SECOND_NS // 2)
    if connection.settings.consumer_timeout_ms > 0 and connection.channels:
        at = _earlier(at, connection.next_channel_tick_ns)
    return at


def _earlier(at: i64, other: i64) -> i64:
    return other if at == 0 or other < at else at


def tick(connection: "Connection", now_ns: i64) -> None:
    """The time limits of handshake and close, heartbeats both ways, deliveries held for long."""
    if connection.drop_at_ns > 0 and now_ns >= connection.drop_at_ns:
        if connection.phase < RUNNING:
            connection.broker.log.event(
                "warning",
                "connection.handshake_timeout",
                {"connection": connection.subject.name, "state": connection.state()},
            )
        connection.lost("handshake timeout" if connection.phase < RUNNING else "close timeout")
        return
    if connection.phase == RUNNING:
        if connection.heartbeat_s > 0:
            check_heartbeat(connection, now_ns)
        if now_ns >= connection.next_channel_tick_ns:
            check_deliveries(connection, now_ns)


def check_heartbeat(connection: "Connection", now_ns: i64) -> None:
    interval = connection.heartbeat_s * SECOND_NS
    out = connection.output.octets_out + connection.output.size()
    if out != connection.seen_out:
        connection.seen_out = out
        connection.last_out_ns = now_ns
    elif now_ns - connection.last_out_ns >= interval // 2:
        connection.last_out_ns = now_ns
        # To a peer that reads nothing, one pending heartbeat says as much as a thousand.
        if connection.output.size() < connection.output.bound:
            connection.output.write(HEARTBEAT_FRAME)
            connection.seen_out = out + len(HEARTBEAT_FRAME)
    if now_ns < connection.next_look_ns:
        return
    connection.next_look_ns = now_ns + interval
    if connection.octets_in != connection.seen_in or connection.publisher.parking:
        connection.seen_in = connection.octets_in
        connection.misses = 0
        return
    connection.misses += 1
    if connection.misses >= 2:
        connection.broker.log.event(
            "warning",
            "connection.heartbeat_missed",
            {
                "connection": connection.subject.name,
                "text": f"missed heartbeats from client, timeout: {connection.heartbeat_s}s",
            },
        )
        connection.lost("missed heartbeats from client")


def restart_check(connection: "Connection") -> None:
    """HB-2: after a pause the look at the client begins afresh."""
    connection.misses = 0
    connection.seen_in = connection.octets_in
    connection.next_look_ns = connection.broker.turn.now_ns + connection.heartbeat_s * SECOND_NS


def check_deliveries(connection: "Connection", now_ns: i64) -> None:
    """CT-1: a periodic look at the oldest unacked delivery of each channel."""
    connection.next_channel_tick_ns = now_ns + connection.settings.channel_tick_ms * 1_000_000
    timeout = connection.settings.consumer_timeout_ms
    if timeout <= 0:
        return
    for channel in list(connection.channels.values()):
        oldest = channel.outlet.unacked.oldest()
        if oldest is not None and now_ns - oldest.at_ns > timeout * 1_000_000:
            connection.fail_channel(
                channel,
                AmqpError(
                    reply.PRECONDITION_FAILED,
                    f"delivery acknowledgement on channel {channel.number} timed out. "
                    f"Timeout value used: {timeout} ms. This timeout value can be "
                    "configured, see the setting consumer_timeout",
                ),
            )
