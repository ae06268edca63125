"""What a connection looks at by the clock: heartbeats both ways, deliveries held for too long."""

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from warren.core import AmqpError, reply
from warren.protocol.frame import HEARTBEAT_FRAME
from warren.queues import Queue
from warren.session.phase import RUNNING, SECOND_NS

if TYPE_CHECKING:
    from warren.session.channel import Channel
    from warren.session.connection import Connection

MS: Final[i64] = 1_000_000
# Deliveries of one channel that one look goes through when queues have timeouts of their own. With
# more that may wait for long, what is due behind them is seen when these are settled.
LOOKED_AT_MAX: Final[i64] = 20_000


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
    if connection.channels and (
        connection.settings.consumer_timeout_ms > 0 or least_timeout_ms(connection) >= 0
    ):
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
    connection.next_channel_tick_ns = now_ns + connection.settings.channel_tick_ms * MS
    least_ms = least_timeout_ms(connection)
    if least_ms >= 0:
        for channel in list(connection.channels.values()):
            _check_each(connection, channel, now_ns, least_ms)
        return
    timeout_ms = connection.settings.consumer_timeout_ms
    if timeout_ms <= 0:
        return
    for channel in list(connection.channels.values()):
        oldest = channel.outlet.unacked.oldest()
        if oldest is not None and now_ns - oldest.at_ns > timeout_ms * MS:
            _time_out(connection, channel, timeout_ms, "the setting consumer_timeout")


def least_timeout_ms(connection: "Connection") -> i64:
    """The shortest timeout that queues of this vhost have of their own; -1 without one."""
    home = connection.home
    return -1 if home is None else home.policies.consumer_timeout_ms


def _check_each(connection: "Connection", channel: "Channel", now_ns: i64, least_ms: i64) -> None:
    """Look at each delivery that is old enough for some queue: each queue has its own timeout."""
    general_ms: i64 = connection.settings.consumer_timeout_ms
    if 0 < general_ms < least_ms:
        least_ms = general_ms
    for delivery in channel.outlet.unacked.older(now_ns - least_ms * MS, LOOKED_AT_MAX):
        queue = delivery.queue
        own_ms: i64 = queue.rules.consumer_timeout_ms if isinstance(queue, Queue) else -1
        timeout_ms = own_ms if own_ms >= 0 else general_ms
        if (own_ms >= 0 or general_ms > 0) and now_ns - delivery.at_ns > timeout_ms * MS:
            place = "consumer-timeout in the policy of the queue"
            _time_out(
                connection,
                channel,
                int(timeout_ms),
                place if own_ms >= 0 else "the setting consumer_timeout",
            )
            return


def _time_out(connection: "Connection", channel: "Channel", timeout_ms: int, place: str) -> None:
    connection.fail_channel(
        channel,
        AmqpError(
            reply.PRECONDITION_FAILED,
            f"delivery acknowledgement on channel {channel.number} timed out. "
            f"Timeout value used: {timeout_ms} ms. This timeout value can be "
            f"configured, see {place}",
        ),
    )
