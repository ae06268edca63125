"""The node and all of it: `/api/overview`, `/api/nodes`, names, what is offered."""

import os
from typing import TYPE_CHECKING, Final

from warren.management.access import Identity, May
from warren.management.answer import Reply, not_found, said
from warren.management.copy import Copy
from warren.management.feed import NodeState
from warren.management.listing import Shown, listed, projected
from warren.management.router import Endpoint
from warren.management.view import rate

if TYPE_CHECKING:
    from warren.management.app import Api
    from warren.management.request import Request

# The release of the reference whose API this is.
VERSION: Final = "3.10.8"
# What counters of messages are called, in the order of `NodeState.messages`.
MESSAGES: Final = ("publish", "deliver_get", "ack", "confirm")


def state(copy: Copy) -> NodeState:
    assert copy.node is not None
    return copy.node


def exchange_types(node: NodeState) -> list[Shown]:
    return [
        {"name": kind, "description": f"exchange type {kind}", "enabled": True}
        for kind in node.exchange_kinds
    ]


def counted(copy: Copy) -> tuple[dict[str, int], Shown]:
    """The counters of messages, and how fast they rise."""
    node, before = state(copy), copy.node_before
    totals = dict(zip(MESSAGES, node.messages, strict=True))
    stats: Shown = {}
    for place, name in enumerate(MESSAGES):
        old = None if before is None else before.messages[place]
        stats[name] = node.messages[place]
        stats[f"{name}_details"] = rate(node.messages[place], old, copy.seconds())
    return totals, stats


def _churn(copy: Copy) -> Shown:
    now = _churned(state(copy))
    before = now if copy.node_before is None else _churned(copy.node_before)
    shown: Shown = {}
    for name, number in now.items():
        shown |= {name: number, f"{name}_details": rate(number, before[name], copy.seconds())}
    return shown


def _churned(node: NodeState) -> dict[str, int]:
    return {
        "connection_created": node.connections_opened,
        "connection_closed": node.connections_opened - node.connections,
        "queue_created": node.queues_created,
        "queue_declared": node.queues_created,
        "queue_deleted": node.queues_deleted,
    }


def _listeners(node: NodeState) -> list[Shown]:
    return [
        {
            "node": node.name,
            "protocol": one.protocol,
            "ip_address": one.address,
            "port": one.port,
            "socket_opts": {},
        }
        for one in node.listeners
    ]


def object_totals(copy: Copy, identity: Identity) -> tuple[Shown, Shown]:
    """How many messages and objects there are in the virtual hosts that are seen."""
    ready = unacked = consumers = connections = channels = 0
    for stat in copy.queue_stats.values():
        if identity.sees(stat.row[0]):
            ready += stat.row[2]
            unacked += stat.row[3]
            consumers += stat.row[5]
    for one in copy.connections.values():
        if identity.monitor or one.state.user == identity.user:
            connections += 1
            channels += len(one.state.channels)
    messages: Shown = {}
    for name, number in (
        ("messages", ready + unacked),
        ("messages_ready", ready),
        ("messages_unacknowledged", unacked),
    ):
        messages |= {name: number, f"{name}_details": {"rate": 0.0}}
    objects: Shown = {
        "channels": channels,
        "connections": connections,
        "consumers": consumers,
        "exchanges": sum(1 for place in copy.exchanges if identity.sees(place[0])),
        "queues": sum(1 for place in copy.queues if identity.sees(place[0])),
    }
    return messages, objects


async def overview(api: "Api", request: "Request") -> Reply:
    copy = await api.mirror.current()
    node, identity = state(copy), request.identity
    messages, objects = object_totals(copy, identity)
    shown: Shown = {
        "management_version": VERSION,
        "rates_mode": "basic",
        "sample_retention_policies": {"global": [600], "basic": [600], "detailed": [600]},
        "exchange_types": exchange_types(node),
        "product_version": VERSION,
        "product_name": "RabbitMQ",
        "rabbitmq_version": VERSION,
        "cluster_name": node.cluster,
        "erlang_version": node.python,
        "erlang_full_version": f"Python {node.python}, Warren {node.version}",
        "release_series_support_status": "supported",
        "disable_stats": False,
        "enable_queue_totals": False,
        "message_stats": counted(copy)[1],
        "churn_rates": _churn(copy),
        "queue_totals": messages,
        "object_totals": objects,
        "statistics_db_event_queue": 0,
    }
    if identity.monitor:
        shown |= {
            "node": node.name,
            "listeners": _listeners(node),
            "contexts": _contexts(node),
        }
    return said(projected(shown, _columns(request)))


def _contexts(node: NodeState) -> list[Shown]:
    return [
        {
            "node": node.name,
            "description": "Prometheus" if "prometheus" in one.protocol else "HTTP API",
            "path": "/",
            "ip": one.address,
            "port": str(one.port),
        }
        for one in node.listeners
        if one.protocol.startswith("http")
    ]


def _columns(request: "Request") -> list[str]:
    return [column for column in request.query.get("columns", "").split(",") if column]


def _node(copy: Copy) -> Shown:
    node = state(copy)
    return {
        "name": node.name,
        "type": "disc",
        "running": node.running,
        "being_drained": False,
        "partitions": [],
        "os_pid": str(node.pid),
        "uptime": node.uptime_ms,
        "processors": os.cpu_count() or 1,
        "run_queue": 0,
        "mem_used": node.memory,
        "mem_used_details": {"rate": 0.0},
        "mem_limit": node.memory_limit,
        "mem_alarm": "memory" in node.alarms,
        "mem_calculation_strategy": node.memory_strategy,
        # The reference's word for a number that is not known.
        "disk_free": "NaN" if node.disk_free is None else node.disk_free,
        "disk_free_details": {"rate": 0.0},
        "disk_free_limit": node.disk_free_limit,
        "disk_free_alarm": "disk" in node.alarms,
        "fd_used": node.descriptors,
        "fd_total": node.descriptors_max,
        "sockets_used": node.connections,
        "sockets_total": node.descriptors_max,
        "proc_used": 1,
        "proc_total": 1,
        "rates_mode": "basic",
        "net_ticktime": 60,
        "db_dir": node.data_dir,
        "log_files": list(node.log_files),
        "config_files": [],
        "applications": [{"name": "warren", "description": "Warren", "version": node.version}],
        "auth_mechanisms": [
            {"name": name, "description": name, "enabled": True} for name in node.mechanisms
        ],
        "exchange_types": exchange_types(node),
        "enabled_plugins": ["rabbitmq_management", "rabbitmq_prometheus"],
        "contexts": _contexts(node),
        "cluster_links": [],
        **_churn(copy),
    }


async def nodes(api: "Api", request: "Request") -> Reply:
    copy = await api.mirror.current()
    return await listed(
        request, [_node(copy)], lambda one: ("", str(one["name"])), lambda one: one, paged=False
    )


async def node(api: "Api", request: "Request") -> Reply:
    copy = await api.mirror.current()
    if request.named("name") != state(copy).name:
        raise not_found()
    return said(projected(_node(copy), _columns(request)))


async def cluster_name(api: "Api", request: "Request") -> Reply:
    copy = await api.mirror.current()
    given = copy.global_parameters.get("cluster_name")
    if given is not None:
        return Reply(200, b'{"name":' + given.value + b"}")
    return said({"name": state(copy).cluster})


async def extensions(api: "Api", request: "Request") -> Reply:
    return said([{"javascript": "dispatcher.js"}])


async def attempts(api: "Api", request: "Request") -> Reply:
    copy = await api.mirror.current()
    if request.named("name") != state(copy).name:
        raise not_found()
    return said(
        [
            {
                "protocol": protocol,
                "auth_attempts": one.attempts,
                "auth_attempts_failed": one.failed,
                "auth_attempts_succeeded": one.succeeded,
            }
            for protocol, one in state(copy).attempts.items()
        ]
    )


ENDPOINTS: Final = (
    Endpoint("GET", "/api/overview", May.ANY, overview),
    Endpoint("GET", "/api/nodes", May.MONITOR, nodes),
    Endpoint("GET", "/api/nodes/{name}", May.MONITOR, node),
    Endpoint("GET", "/api/cluster-name", May.ANY, cluster_name),
    Endpoint("GET", "/api/extensions", May.ANY, extensions),
    Endpoint("GET", "/api/auth/attempts/{name}", May.MONITOR, attempts),
)
