"""Waits that are read off the state when somebody asks, instead of being booked as they begin.

A consumer runs into its prefetch limit and out of it thousands of times a second; booking each
would cost every message. Unfinished handshakes and refused logins are read off too, so that a
storm of connections costs nothing here. `since` is then the last moment known: a connection's
arrival, or now.
"""

from collections.abc import Iterable
from typing import Final

from warren.flow import Kind, Reason, Subject, Wait
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
        for channel in connection.channels.values():
            found.extend(
                _consumer_wait(connection, channel.number, consumer, now_ns)
                for consumer in channel.consumers.values()
                if consumer.passed_over
            )
        if len(found) >= WAITS_MAX:
            break
    return found[:WAITS_MAX]


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
