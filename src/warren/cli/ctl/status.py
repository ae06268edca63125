"""Verbs that show the whole node: `status`, `cluster_status`, `environment`, `report`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from warren.cli.ctl.call import Call
from warren.cli.ctl.failure import Misuse
from warren.cli.ctl.lists import (
    list_bindings,
    list_channels,
    list_connections,
    list_consumers,
    list_exchanges,
    list_queues,
)
from warren.cli.ctl.term import atom, binary, broken
from warren.cli.reply import as_reply

if TYPE_CHECKING:
    from warren.server.command_runtime import Environment
    from warren.server.view import Status

_UNITS: Final = {"gb": 10**9, "gib": 2**30, "mb": 10**6, "mib": 2**20, "bytes": 1}
PURPOSES: Final = {
    "amqp": "AMQP 0-9-1",
    "amqp/ssl": "AMQP 0-9-1 over TLS",
    "http": "HTTP API",
    "http/prometheus": "Prometheus exporter API over HTTP",
}


class Page(NamedTuple):
    """What the node says of itself, gathered."""

    found: "Status"
    settings: dict[str, str]
    vhosts: int


def gather(call: Call) -> Page:
    """Ask the node for everything that `status` shows."""
    found = cast("Status", as_reply(call.ask("status")))
    vhosts = sum(1 for _ in call.rows("list_vhosts", columns=("name",)))
    return Page(found, _settings(call), vhosts)


def _watermark(found: "Status") -> tuple[str, int | float]:
    """Return what the limit in force was made of, which is not what the configuration says."""
    if found.memory_watermark_absolute is not None:
        return "absolute", found.memory_watermark_absolute
    return "relative", found.memory_watermark_relative


def _alarms(found: "Status") -> list[str]:
    return [f"{one.source.capitalize()} alarm on node {one.node}" for one in found.alarms]


def _facts(call: Call, page: Page) -> dict[str, object]:
    """Return the keys of RabbitMQ's status that mean something here."""
    found, settings = page.found, page.settings
    kind, setting = _watermark(found)
    return {
        "os": "Linux",
        "pid": found.pid,
        "uptime": found.uptime_ms // 1000,
        "is_under_maintenance": False,
        "rabbitmq_version": call.node["compatible_version"],
        "product_name": found.product,
        "product_version": found.version,
        "release_series_support_status": "supported",
        "erlang_version": f"none: Python {found.python}, {found.event_loop}",
        "crypto_lib_version": _crypto(),
        "data_directory": found.data_dir,
        "config_files": [],
        "log_files": _log_files(settings),
        "enabled_plugin_file": "",
        "active_plugins": [],
        "alarms": _alarms(found),
        "memory": {"strategy": found.memory_strategy, "total": {"rss": found.memory_bytes}},
        "vm_memory_calculation_strategy": found.memory_strategy,
        "vm_memory_high_watermark_limit": found.memory_limit_bytes,
        "vm_memory_high_watermark_setting": {kind: setting},
        "disk_free": "NaN" if found.disk_free_bytes is None else found.disk_free_bytes,
        "disk_free_limit": found.disk_free_limit_bytes,
        "file_descriptors": {
            "total_limit": found.descriptors_max,
            "total_used": found.descriptors,
            "sockets_limit": found.descriptors_max,
            "sockets_used": found.connections,
        },
        "processes": {"limit": 1, "used": 1},
        "run_queue": 0,
        "net_ticktime": 60,
        "listeners": listeners(call, found),
        "totals": {
            "connection_count": found.connections,
            "queue_count": found.queues,
            "virtual_host_count": page.vhosts,
        },
    }


def _log_files(settings: dict[str, str]) -> list[str]:
    given = settings.get("log_file", "none")
    return ["<stderr>"] if given == "none" else [given]


def _settings(call: Call) -> dict[str, str]:
    reply = cast("Environment", as_reply(call.ask("environment")))
    return {one.name: one.value for one in reply.settings}


def _crypto() -> str:
    import ssl

    return ssl.OPENSSL_VERSION


def listeners(call: Call, found: "Status") -> list[dict[str, object]]:
    """Return where the node listens."""
    return [
        {
            "node": call.name,
            "interface": f"[{one.address}]" if ":" in one.address else one.address,
            "port": one.port,
            "protocol": one.protocol,
            "purpose": PURPOSES.get(one.protocol, one.protocol),
        }
        for one in found.listeners
    ]


def places(call: Call, found: "Status") -> list[str]:
    """Return a line for each listener."""
    return [
        f"interface: {one['interface']}, port: {one['port']}, protocol: {one['protocol']}, "
        f"purpose: {one['purpose']}"
        for one in listeners(call, found)
    ]


def status(call: Call) -> None:
    unit = call.options.get("unit", "gb").lower()
    if unit not in _UNITS:
        raise Misuse(f"unit '{unit}' is not supported")
    call.banner(f"Status of node {call.name} ...")
    page = gather(call)
    if call.formatter == "json":
        call.value(_facts(call, page))
    elif call.formatter == "erlang":
        print(erlang(_facts(call, page)))
    else:
        print(_status_text(call, page, unit))


def _status_text(call: Call, page: Page, unit: str) -> str:
    found = page.found
    kind, setting = _watermark(found)
    of = " of available memory" if kind == "relative" else " bytes"
    limit = _in(found.memory_limit_bytes, unit)
    blocks = {
        "Runtime": [
            f"OS PID: {found.pid}",
            "OS: Linux",
            f"Uptime (seconds): {found.uptime_ms // 1000}",
            "Is under maintenance?: false",
            f"RabbitMQ version: {call.node['compatible_version']}",
            f"{found.product} version: {found.version}",
            f"Node name: {found.node}",
            f"Erlang configuration: none: Python {found.python}, {found.event_loop}",
            f"Crypto library: {_crypto()}",
        ],
        "Plugins": ["Enabled plugins:", "", "(none: what is here is built in)"],
        "Data directory": [f"Node data directory: {found.data_dir}"],
        "Log file(s)": _listed(_log_files(page.settings)),
        "Alarms": _listed(_alarms(found), lead=""),
        "Memory": [
            f"Total memory used: {_in(found.memory_bytes, unit)}",
            f"Calculation strategy: {found.memory_strategy}",
            f"Memory high watermark setting: {setting}{of}, computed to: {limit}",
        ],
        "File Descriptors": [
            f"Total: {found.descriptors}, limit: {found.descriptors_max}",
            f"Sockets: {found.connections}, limit: {found.descriptors_max}",
        ],
        "Free Disk Space": _disk(found, unit),
        "Totals": [
            f"Connection count: {found.connections}",
            f"Queue count: {found.queues}",
            f"Virtual host count: {page.vhosts}",
        ],
        "Listeners": [one[:1].upper() + one[1:] for one in places(call, found)],
    }
    return _blocks(blocks)


def _disk(found: "Status", unit: str) -> list[str]:
    free = found.disk_free_bytes
    unknown = "(unknown)" if found.disk_monitored else "(unknown: it is not looked at)"
    return [
        f"Low free disk space watermark: {_in(found.disk_free_limit_bytes, unit)}",
        f"Free disk space: {unknown if free is None else _in(free, unit)}",
    ]


def _blocks(blocks: dict[str, list[str]]) -> str:
    return "\n\n".join(
        f"\x1b[1m{head}\x1b[0m\n\n" + "\n".join(lines) for head, lines in blocks.items()
    )


def _listed(lines: list[str], lead: str = " * ") -> list[str]:
    return [lead + one for one in lines] or ["(none)"]


def _in(octets: int, unit: str) -> str:
    return f"{round(octets / _UNITS[unit], 4):g} {unit}"


def cluster_status(call: Call) -> None:
    call.banner(f"Cluster status of node {call.name} ...")
    found = cast("Status", as_reply(call.ask("status")))
    version = str(call.node["compatible_version"])
    if call.formatter == "json":
        versions = {"rabbitmq_name": "RabbitMQ", "rabbitmq_version": version}
        facts = {
            "alarms": _alarms(found),
            "cluster_name": found.cluster,
            "disk_nodes": [call.name],
            "ram_nodes": [],
            "running_nodes": [call.name],
            "partitions": {},
            "listeners": {call.name: listeners(call, found)},
            "maintenance_status": {call.name: "not under maintenance"},
            "versions": {call.name: versions},
        }
        call.value(facts)
        return
    blocks = {
        "Basics": [f"Cluster name: {found.cluster}"],
        "Disk Nodes": [call.name],
        "Running Nodes": [call.name],
        "Versions": [f"{call.name}: RabbitMQ {version} (Warren {found.version})"],
        "Maintenance status": [f"Node: {call.name}, status: not under maintenance"],
        "Alarms": _listed(_alarms(found), lead=""),
        "Network Partitions": ["(none)"],
        "Listeners": [f"Node: {call.name}, {one}" for one in places(call, found)],
    }
    print(_blocks(blocks))


def environment(call: Call) -> None:
    call.banner(f"Application environment of node {call.name} ...")
    settings = _settings(call)
    if call.formatter == "json":
        call.value({"warren": settings})
    else:
        print(erlang({"warren": settings}))


def erlang(facts: Mapping[str, object]) -> str:
    """Return facts as a property list."""
    return broken([f"{{{atom(key)},{_term(value)}}}" for key, value in facts.items()])


def _term(value: object) -> str:
    if isinstance(value, dict):
        return broken([f"{{{atom(key)},{_term(one)}}}" for key, one in value.items()], "  ")
    if isinstance(value, list):
        return "[" + ",".join(_term(one) for one in value) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return binary(value) if isinstance(value, str) else str(value)


def report(call: Call) -> None:
    """Everything that a bug report needs, in one go."""
    call.banner(f"Reporting server status of node {call.name} ...\n")
    for show in (status, cluster_status, environment, list_connections, list_channels):
        show(call)
        print()
    for (vhost,) in list(call.rows("list_vhosts", columns=("name",))):
        call.vhost = str(vhost)
        for show in (list_queues, list_exchanges, list_bindings, list_consumers):
            show(call)
            print()
