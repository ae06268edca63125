"""Metrics in Prometheus' text form, under RabbitMQ's names (O-6.1 to O-6.3).

What Warren does not count is not there, rather than always zero. Aggregated by default: then the
size of the answer does not depend on the number of objects.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from warren.management.access import May
from warren.management.answer import Reply
from warren.management.api.overview import VERSION, state
from warren.management.copy import Copy
from warren.management.router import Endpoint

if TYPE_CHECKING:
    from warren.management.app import Api
    from warren.management.request import Request

TEXT: Final = "text/plain; version=0.0.4"
OWN: Final = "warren_"
PIECE_LINES: Final = 2000


@dataclass(frozen=True, slots=True)
class Metric:
    """A name without its prefix, what it is, and whether it only rises."""

    name: str
    doc: str
    counter: bool = False
    # What RabbitMQ does not have is not named after it.
    prefix: str = "rabbitmq_"


Sample = tuple[Mapping[str, str], float]
Family = tuple[Metric, Iterable[Sample]]

# Numbers of `QueueRow`, at the places below.
QUEUE: Final = (
    Metric("queue_messages_ready", "Messages ready to be delivered to consumers"),
    Metric("queue_messages_unacked", "Messages delivered to consumers but not yet acknowledged"),
    Metric("queue_messages_ready_bytes", "Size in bytes of ready messages"),
    Metric("queue_consumers", "Consumers on a queue"),
    Metric("queue_messages_published_total", "Total number of messages published to queues", True),
    Metric("queue_messages_deduplicated_total", "Total number of duplicates not enqueued", True),
)
QUEUE_PLACES: Final = (2, 3, 4, 5, 6, 10)
QUEUE_MESSAGES: Final = Metric("queue_messages", "Sum of ready and unacknowledged messages")
CHANNEL: Final = (
    (Metric("channel_consumers", "Consumers on a channel"), lambda one: len(one.consumers)),
    (
        Metric("channel_messages_unacked", "Delivered but not yet acknowledged messages"),
        lambda one: one.unacknowledged,
    ),
    (
        Metric("channel_messages_unconfirmed", "Published but not yet confirmed messages"),
        lambda one: one.unconfirmed,
    ),
    (
        Metric("channel_messages_uncommitted", "Messages received in a transaction not committed"),
        lambda one: one.uncommitted,
    ),
    (
        Metric("channel_acks_uncommitted", "Acknowledgements in a transaction not yet committed"),
        lambda one: one.acks_uncommitted,
    ),
    (
        Metric("consumer_prefetch", "Limit of unacknowledged messages for each consumer"),
        lambda one: one.prefetch,
    ),
    (
        Metric("channel_prefetch", "Total limit of unacknowledged messages on a channel"),
        lambda one: one.global_prefetch,
    ),
    (
        Metric("channel_messages_published_total", "Messages published on a channel", True),
        lambda one: one.published,
    ),
    (
        Metric("channel_messages_confirmed_total", "Messages confirmed to publishers", True),
        lambda one: one.confirmed,
    ),
    (
        Metric("channel_messages_acked_total", "Messages acknowledged by consumers", True),
        lambda one: one.acknowledged,
    ),
)
CONNECTION: Final = (
    (
        Metric("connection_incoming_bytes_total", "Bytes received on a connection", True),
        lambda one: one.received,
    ),
    (
        Metric("connection_outgoing_bytes_total", "Bytes sent on a connection", True),
        lambda one: one.sent,
    ),
    (Metric("connection_channels", "Channels on a connection"), lambda one: len(one.channels)),
)
NOTHING: Final[Mapping[str, str]] = {}
AMQP: Final = {"protocol": "amqp091"}


def _one(name: str, doc: str, value: float, *, counter: bool = False) -> Family:
    return Metric(name, doc, counter), ((NOTHING, value),)


def _node(copy: Copy) -> Iterator[Family]:
    node = state(copy)
    identity = {
        "rabbitmq_node": node.name,
        "rabbitmq_cluster": node.cluster,
        "rabbitmq_cluster_permanent_id": node.cluster,
    }
    build = {
        "rabbitmq_version": VERSION,
        "prometheus_plugin_version": VERSION,
        "prometheus_client_version": node.version,
        "erlang_version": node.python,
    }
    yield Metric("identity_info", "RabbitMQ node & cluster identity info"), ((identity, 1),)
    yield Metric("build_info", "RabbitMQ & Erlang/OTP version info"), ((build, 1),)
    closed = node.connections_opened - node.connections
    yield _one(
        "connections_opened_total",
        "Total number of connections opened",
        node.connections_opened,
        counter=True,
    )
    yield _one(
        "connections_closed_total", "Total number of connections closed", closed, counter=True
    )
    yield _one(
        "queues_declared_total",
        "Total number of queues declared",
        node.queues_created,
        counter=True,
    )
    yield _one(
        "queues_created_total", "Total number of queues created", node.queues_created, counter=True
    )
    yield _one(
        "queues_deleted_total", "Total number of queues deleted", node.queues_deleted, counter=True
    )
    yield _one("process_open_fds", "Open file descriptors", node.descriptors)
    yield _one("process_max_fds", "Open file descriptors limit", node.descriptors_max)
    yield _one("process_open_tcp_sockets", "Open TCP sockets", node.connections)
    yield _one("process_max_tcp_sockets", "Open TCP sockets limit", node.descriptors_max)
    yield _one("process_resident_memory_bytes", "Memory used in bytes", node.memory)
    yield _one("resident_memory_limit_bytes", "Memory high watermark in bytes", node.memory_limit)
    if node.disk_free is not None:
        yield _one("disk_space_available_bytes", "Disk space available in bytes", node.disk_free)
    yield _one(
        "disk_space_available_limit_bytes",
        "Free disk space low watermark in bytes",
        node.disk_free_limit,
    )
    yield _one("erlang_uptime_seconds", "Node uptime", node.uptime_ms / 1000)
    yield _one(
        "alarms_memory_used_watermark",
        "is 1 if VM memory watermark alarm is in effect",
        "memory" in node.alarms,
    )
    yield _one(
        "alarms_free_disk_space_watermark",
        "is 1 if free disk space watermark alarm is in effect",
        "disk" in node.alarms,
    )
    yield _one(
        "alarms_file_descriptor_limit",
        "is 1 if file descriptor limit alarm is in effect",
        node.descriptors >= node.descriptors_max,
    )
    yield from _logins(copy)
    yield from _global(copy)
    yield from _waits(copy)


def _logins(copy: Copy) -> Iterator[Family]:
    for name, doc, field in (
        ("auth_attempts_total", "Total number of authentication attempts", "attempts"),
        (
            "auth_attempts_succeeded_total",
            "Total number of successful authentication attempts",
            "succeeded",
        ),
        ("auth_attempts_failed_total", "Total number of failed authentication attempts", "failed"),
    ):
        samples: list[Sample] = [
            ({"protocol": protocol}, getattr(one, field))
            for protocol, one in state(copy).attempts.items()
        ]
        yield Metric(name, doc, counter=True), samples


def _waits(copy: Copy) -> Iterator[Family]:
    """What is read off only when somebody asks is not counted: see docs/reference/waits.md."""
    waits = state(copy).waits
    running: list[Sample] = [({"reason": one}, count) for one, (count, _) in waits.items()]
    waited: list[Sample] = [({"reason": one}, ms / 1000) for one, (_, ms) in waits.items()]
    yield Metric("waits", "Waits that go on, by reason", prefix=OWN), running
    doc = "Total time waited, by reason"
    yield Metric("wait_seconds_total", doc, counter=True, prefix=OWN), waited


def _global(copy: Copy) -> Iterator[Family]:
    node = state(copy)
    published, delivered, acked, confirmed = node.messages
    of_classic = {**AMQP, "queue_type": "rabbit_classic_queue"}
    for name, doc, labels, value in (
        ("received", "Total number of messages received from publishers", AMQP, published),
        ("confirmed", "Total number of messages confirmed to publishers", AMQP, confirmed),
        ("delivered", "Total number of messages delivered to consumers", of_classic, delivered),
        (
            "acknowledged",
            "Total number of messages acknowledged by consumers",
            of_classic,
            acked,
        ),
    ):
        yield Metric(f"global_messages_{name}_total", doc, counter=True), ((labels, value),)
    dead = {"queue_type": "rabbit_classic_queue", "dead_letter_strategy": "at_most_once"}
    for reason, count in node.dead_lettered.items():
        name = f"global_messages_dead_lettered_{reason}_total"
        doc = f"Total number of messages dead-lettered due to {reason}"
        yield Metric(name, doc, counter=True), ((dead, count),)


def _totals(copy: Copy) -> Iterator[Family]:
    stats = [one.state for one in copy.connections.values()]
    yield _one("connections", "Connections currently open", len(stats))
    yield _one("channels", "Channels currently open", sum(len(one.channels) for one in stats))
    consumers = sum(len(held.consumers) for one in stats for held in one.channels)
    yield _one("consumers", "Consumers currently connected", consumers)
    yield _one("queues", "Queues available", len(copy.queues))


def _summed(copy: Copy) -> Iterator[Family]:
    rows = [stat.row for stat in copy.queue_stats.values()]
    yield QUEUE_MESSAGES, ((NOTHING, sum(row[2] + row[3] for row in rows)),)
    for metric, place in zip(QUEUE, QUEUE_PLACES, strict=True):
        yield metric, ((NOTHING, sum(int(row[place]) for row in rows)),)
    connections = [one.state for one in copy.connections.values()]
    for metric, number in CONNECTION:
        yield metric, ((NOTHING, sum(number(one) for one in connections)),)
    channels = [channel for one in connections for channel in one.channels]
    for metric, count in CHANNEL:
        yield metric, ((NOTHING, sum(count(one) for one in channels)),)


def _per_object(copy: Copy) -> Iterator[Family]:
    rows = [
        ({"vhost": stat.row[0], "queue": stat.row[1]}, stat.row)
        for stat in copy.queue_stats.values()
    ]
    yield QUEUE_MESSAGES, [(labels, row[2] + row[3]) for labels, row in rows]
    for metric, place in zip(QUEUE, QUEUE_PLACES, strict=True):
        yield metric, [(labels, int(row[place])) for labels, row in rows]
    connections = [one.state for one in copy.connections.values()]
    for metric, number in CONNECTION:
        yield metric, [({"connection": one.name}, number(one)) for one in connections]
    channels = [
        ({"channel": f"{one.name} ({channel.number})"}, channel)
        for one in connections
        for channel in one.channels
    ]
    for metric, count in CHANNEL:
        yield metric, [(labels, count(one)) for labels, one in channels]


def lines(families: Iterable[Family]) -> Iterator[str]:
    """Yield the text of metrics, line by line."""
    for metric, samples in families:
        name = f"{metric.prefix}{metric.name}"
        yield f"# TYPE {name} {'counter' if metric.counter else 'gauge'}\n"
        yield f"# HELP {name} {metric.doc}\n"
        for labels, value in samples:
            yield f"{name}{_labels(labels)} {_number(value)}\n"


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{key}="{_escaped(value)}"' for key, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))


async def _answer(api: "Api", *, per_object: bool) -> Reply:
    copy = await api.mirror.current()
    families = [*_node(copy), *_totals(copy)]
    families += _per_object(copy) if per_object else _summed(copy)
    pieces: list[str] = []
    for count, line in enumerate(lines(families), 1):
        pieces.append(line)
        if count % PIECE_LINES == 0:
            await asyncio.sleep(0)
    return Reply(200, "".join(pieces).encode(), kind=TEXT)


async def metrics(api: "Api", request: "Request") -> Reply:
    return await _answer(api, per_object=api.per_object)


async def per_object(api: "Api", request: "Request") -> Reply:
    return await _answer(api, per_object=True)


ENDPOINTS: Final = (
    Endpoint("GET", "/metrics", May.EVERYBODY, metrics),
    Endpoint("GET", "/metrics/per-object", May.EVERYBODY, per_object),
)
