"""The numbers of the feed, read off the node: of a queue, of a connection, of the node itself."""

import os
import platform
from typing import TYPE_CHECKING

import warren
from warren.management.feed import (
    AttemptCounts,
    ChannelState,
    ConnectionState,
    ConsumerState,
    ListenerState,
    NodeState,
    QueueRow,
)
from warren.queues import Consumer
from warren.queues.queue import Queue
from warren.queues.rules import DEATHS
from warren.routing.kinds import KINDS
from warren.runtime.process import descriptor_count, descriptor_count_max
from warren.server.socket_link import SocketLink
from warren.server.tls_link import TlsLink
from warren.session import RUNNING, Connection
from warren.vhost.change import encoded
from warren.vhost.policy_force import in_force

if TYPE_CHECKING:
    from warren.server.hub import Link
    from warren.server.node import Node
    from warren.session.channel import Channel


def queue_row(queue: Queue) -> QueueRow:
    """Return the numbers of a queue."""
    return (
        queue.vhost,
        queue.name,
        int(queue.ready()),
        int(queue.unacked_count),
        int(queue.ready_bytes),
        len(queue.consumers.every),
        int(queue.next_seq),
        int(queue.settled_count),
        in_force(queue).policy,
        queue.state(),
        int(queue.deduplicated_count),
    )


def connection_state(
    node: "Node", link: "Link", one: Connection, before: ConnectionState | None
) -> ConnectionState:
    """Return a connection with its channels; `before` is what was told of it last."""
    if before is None:
        host, port = _local(link)
        table = encoded(one.client_properties)
        since_ms = (one.connected_ns + node.feeds.wall_offset_ns) // 1_000_000
    else:
        host, port, table = before.host, before.port, before.client_properties
        since_ms = before.connected_at
        if not table:
            table = encoded(one.client_properties)
    running = one.phase == RUNNING
    return ConnectionState(
        identity=one.identity,
        name=f"{one.peer}:{one.peer_port} -> {host}:{port}",
        user=one.user,
        vhost=one.home.name if one.home is not None else "",
        state=one.state(),
        host=host,
        port=port,
        peer_host=one.peer,
        peer_port=one.peer_port,
        tls=one.tls,
        frame_max=one.frame_max if running else 0,
        channel_max=one.channel_max,
        timeout=one.heartbeat_s,
        connected_at=since_ms,
        received=int(one.octets_in),
        sent=int(one.output.octets_out),
        pending=int(one.output.size()),
        client_properties=table,
        channels=tuple(_channel_state(channel) for channel in one.channels.values()),
    )


def _local(link: "Link") -> tuple[str, int]:
    """The address the peer connected to."""
    found: object = None
    if isinstance(link, SocketLink) and link.socket.fileno() >= 0:
        found = link.socket.getsockname()
    elif isinstance(link, TlsLink) and link.transport is not None:
        found = link.transport.get_extra_info("sockname")
    if isinstance(found, tuple) and len(found) >= 2:
        return str(found[0]), int(found[1])
    return "", 0


def _channel_state(one: "Channel") -> ChannelState:
    outlet, ledger, tx = one.outlet, one.ledger, one.tx
    settling = 0 if tx is None else sum(len(each.deliveries) for each in tx.settlements)
    return ChannelState(
        number=one.number,
        transactional=tx is not None,
        confirm=ledger is not None,
        prefetch=one.prefetch,
        global_prefetch=int(outlet.limit),
        unacknowledged=int(outlet.unacked.count),
        unconfirmed=0 if ledger is None else len(ledger.open),
        uncommitted=0 if tx is None else len(tx.publishes),
        acks_uncommitted=settling,
        published=int(one.published),
        delivered=int(outlet.delivered),
        acknowledged=int(one.acknowledged),
        confirmed=0 if ledger is None else int(ledger.told),
        state=one.state(),
        consumers=tuple(
            ConsumerState(
                tag=consumer.tag,
                queue=consumer.queue.name,
                ack_required=not consumer.no_ack,
                exclusive=consumer.exclusive,
                prefetch=int(consumer.limit),
                priority=consumer.priority,
                active=_active(consumer),
                arguments=encoded(consumer.arguments),
            )
            for consumer in one.consumers.values()
        ),
    )


def _active(consumer: Consumer) -> bool:
    every = consumer.queue.consumers
    return not every.single or every.active is consumer


def node_state(node: "Node") -> NodeState:
    """Return the node itself; nothing here walks over objects."""
    clock, settings, totals = node.clock, node.settings, node.broker.totals
    return NodeState(
        at_ms=clock.wall_ns() // 1_000_000,
        version=warren.__version__,
        name=settings.node_name,
        cluster=node.broker.cluster_name() or settings.cluster(),
        pid=os.getpid(),
        uptime_ms=(clock.monotonic_ns() - node.view.started_ns) // 1_000_000,
        python=platform.python_version(),
        running=node.running and not node.stopping,
        listeners=tuple(
            ListenerState(protocol=one.protocol, address=one.address, port=one.port)
            for one in node.listeners.rows
        ),
        alarms=tuple(alarm.source.value for alarm in node.broker.alarms.in_force()),
        memory=node.memory.used,
        memory_limit=node.memory.limit,
        memory_strategy=node.memory.strategy,
        disk_free=node.disk.free,
        disk_free_limit=node.disk.limit,
        descriptors=descriptor_count(),
        descriptors_max=descriptor_count_max(),
        data_dir=str(settings.data_dir),
        log_files=(str(settings.log_file),) if settings.log_file is not None else (),
        exchange_kinds=KINDS,
        mechanisms=node.broker.mechanisms.enabled,
        messages=node.view.counts,
        dead_lettered=dict(zip(DEATHS, totals.dead_lettered, strict=True)),
        connections_opened=int(node.hub.next_identity) - 1,
        connections=len(node.hub.links),
        queues_created=node.feeds.queues_created,
        queues_deleted=node.feeds.queues_deleted,
        attempts={
            protocol: AttemptCounts(
                attempts=one.attempts, succeeded=one.succeeded, failed=one.failed
            )
            for protocol, one in node.broker.attempts.by_protocol.items()
        },
        certificate_days_left=node.tls.row().days_left if node.tls.enabled else None,
        certificate_file=str(settings.tls_certfile or ""),
        waits=_waits(node),
    )


def _waits(node: "Node") -> dict[str, tuple[int, int]]:
    book = node.broker.waits
    counts = book.count_by_reason()
    totals = book.total_ns_by_reason(node.clock.monotonic_ns())
    return {reason.value: (counts[reason], totals[reason] // 1_000_000) for reason in counts}
