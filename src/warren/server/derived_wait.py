"""Waits that are read off the state when somebody asks, instead of being booked as they begin.

A consumer runs into its prefetch limit and out of it thousands of times a second; booking each
would cost every message. Unfinished handshakes and refused logins are read off too, so that a
storm of connections costs nothing here, and so are publishers that are faster than the loop, from
what `Connection.load` found. `since` is then the last moment known: a connection's arrival, or now.
"""

from collections.abc import Iterable
from typing import Final

from warren.flow import LINGER_CONNECTION_NS, Kind, Reason, Subject, Wait
from warren.queues import Consumer
from warren.session import RUNNING, Connection
from warren.session.block_wait import channel_subject
from warren.session.phase import SILENCE_NS

# As many as people can read at once.
WAITS_MAX: Final = 1000


def derived_waits(connections: Iterable[Connection], now_ns: int) -> list[Wait]:
    """Return the waits of unfinished handshakes and of consumers that are passed over."""
    found: list[Wait] = []
    for connection in connections:
        if connection.phase < RUNNING:
            found.append(
                Wait(
                    Reason.HANDSHAKE,
                    connection.subject,
                    None,
                    int(connection.connected_ns),
                    setting="handshake_timeout_ms",
                    detail=connection.state(),
                )
            )
        elif connection.refused:
            found.append(_refused_wait(connection, now_ns))
        else:
            found += _busy_waits(connection, now_ns)
        for channel in connection.channels.values():
            found.extend(
                _consumer_wait(connection, channel.number, consumer, now_ns)
                for consumer in channel.consumers.values()
                if consumer.passed_over
            )
        if len(found) >= WAITS_MAX:
            break
    return found[:WAITS_MAX]


def _busy_waits(connection: Connection, now_ns: int) -> list[Wait]:
    """A publisher that is faster than the loop; one that waited for credit has other reasons."""
    load = connection.load
    if load.last_ns < 0 or now_ns - load.last_ns >= LINGER_CONNECTION_NS:
        return []
    if load.credit_ns >= 0 and now_ns - load.credit_ns < LINGER_CONNECTION_NS:
        return []
    channel = connection.channels.get(int(load.channel))
    if channel is None:
        return []
    subject = channel_subject(connection, channel)
    detail = (
        f"of its reads {load.full_share} % were full; the loop was busy {load.busy_share} % of the"
        f" time, {load.own_share} % with its octets"
    )
    since = int(load.since_ns)
    if not load.stored:
        return [Wait(Reason.ROUTING_BUSY, connection.subject, subject, since, detail=detail)]
    queue = Subject(Kind.QUEUE, load.queue, connection.vhost().name)
    return [
        Wait(Reason.QUEUE_BUSY, connection.subject, queue, since, detail=detail),
        Wait(Reason.QUEUE_BUSY, subject, queue, since, detail=detail),
    ]


def _refused_wait(connection: Connection, now_ns: int) -> Wait:
    """`since` is when the silence began; a connection that lingers waits for nothing else."""
    left_ns = max(0, int(connection.drop_at_ns) - now_ns)
    return Wait(
        Reason.LOGIN_REFUSED,
        connection.subject,
        None,
        min(now_ns, int(connection.drop_at_ns - SILENCE_NS)),
        setting="login_failures_per_s",
        detail=f"{left_ns // 1_000_000} ms left",
    )


def _consumer_wait(connection: Connection, number: int, consumer: Consumer, now_ns: int) -> Wait:
    subject = Subject(Kind.CONSUMER, consumer.tag, consumer.queue.vhost)
    channel = channel_subject(connection, connection.channels[number])
    oldest = consumer.outlet.unacked.oldest()
    output = connection.output
    if output.size() > output.bound:
        return Wait(
            Reason.OUTPUT_FULL,
            subject,
            connection.subject,
            now_ns,
            setting="unsent_bytes_max",
            detail=f"{output.size()} octets unsent; consumes queue '{consumer.queue.name}'",
        )
    return Wait(
        Reason.PREFETCH_FULL,
        subject,
        channel,
        # Since the oldest of the deliveries that fill it, at most.
        now_ns if oldest is None else int(oldest.at_ns),
        setting="basic.qos",
        detail=f"{consumer.unacked} unacknowledged; consumes queue '{consumer.queue.name}'",
    )


def concerns(wait: Wait, subject: Subject) -> bool:
    """Whether a derived wait is part of the answer for this object."""
    if subject in (wait.subject, wait.cause):
        return True
    if subject.kind is Kind.QUEUE:
        return wait.subject.vhost == subject.vhost and wait.detail.endswith(
            f"consumes queue '{subject.name}'"
        )
    if subject.kind is Kind.CONNECTION and wait.cause is not None:
        return wait.cause.name.startswith(subject.name + " (")
    return False
