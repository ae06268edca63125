"""Every setting of a node: its type, default, range, meaning and RabbitMQ name, in one table.

`config_load.load` makes them of their sources and remembers in `Settings.origins` where each value
came from. Nothing else in Warren reads configuration: settings arrive through constructors. Spec
rules O-2.5, O-2.6.

To add a setting, add one line to `Settings`; the four sources, the help and the tests follow.
"""

# ruff: noqa: RUF009 - a setting is declared by a call that returns a dataclass field.

import os
import re
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Final, cast

from warren.security import DEFAULT_MECHANISMS, MECHANISM_NAMES
from warren.server.config_entry import Note
from warren.server.place import SOCKET_NAME, default_data_dir
from warren.server.setting import (
    FACTS,
    FLAG,
    Facts,
    choice,
    computed,
    integer,
    names,
    number,
    pair,
    path,
    read_address,
    setting,
    size,
    table,
    text,
)

# RabbitMQ's own hard limit: 512 MiB, whatever the setting says.
MESSAGE_SIZE_MAX: Final = 536_870_912
_NODE_NAME: Final = re.compile(r"[^@\s]+@[^@\s]+")
_PORT: Final = integer(0, 65535)


def _node_name() -> str:
    return "warren@" + (socket.gethostname().partition(".")[0] or "localhost")


def _data_dir() -> Path:
    return default_data_dir(os.environ)


def _no_properties() -> Mapping[str, str]:
    return {}


def _address(given: str) -> object:
    return read_address(given, bind="")


def _one_of(*words: str) -> Callable[[str], object]:
    def check(word: str) -> object:
        if word not in words:
            raise ValueError(f"expected one of {', '.join(words)}, got {word!r}")
        return word

    return check


@dataclass(frozen=True, slots=True)
class Settings:
    """A node's settings, checked. Sizes are bytes; units are in the names otherwise."""

    bind: str = setting("127.0.0.1", text(), "address of the AMQP listener")
    port: int | None = setting(
        5672, integer(0, 65535, none=True), "AMQP port; 0: any free one, none: TLS only"
    )
    extra_listeners: tuple[str, ...] = setting(
        (), names(_address), "further AMQP listeners, address:port"
    )
    tls_bind: str = setting("", text(empty=True), "address of the TLS listener; empty: as bind")
    tls_port: int = setting(5671, _PORT, "AMQP over TLS port; listens when tls_certfile is set")
    tls_extra_listeners: tuple[str, ...] = setting(
        (), names(_address), "further TLS listeners, address:port"
    )
    tls_certfile: Path | None = setting(
        None, path(none=True), "certificate chain, PEM", rabbit="ssl_options.certfile"
    )
    tls_keyfile: Path | None = setting(
        None, path(none=True), "private key, PEM", rabbit="ssl_options.keyfile"
    )
    tls_cafile: Path | None = setting(
        None, path(none=True), "authorities for clients, PEM", rabbit="ssl_options.cacertfile"
    )
    tls_verify: str = setting(
        "none", choice("none", "optional", "required"), "whether clients must show a certificate"
    )
    tls_password: str = setting(
        "",
        text(empty=True),
        "password of the private key",
        rabbit="ssl_options.password",
        secret=True,
    )
    tls_versions: tuple[str, ...] = setting(
        ("tlsv1.2", "tlsv1.3"),
        names(_one_of("tlsv1.2", "tlsv1.3")),
        "versions offered to clients",
        rabbit="ssl_options.versions",
    )
    tls_depth: int = setting(
        10,
        integer(0, 100),
        "most intermediate authorities between a client's certificate and tls_cafile",
        rabbit="ssl_options.depth",
    )
    tls_reload_interval_s: int = setting(
        120, integer(0, 86_400), "how often the files are looked at for a change; 0: never"
    )
    tls_expiry_warning_days: int = setting(
        30, integer(0, 3650), "days before its end from which the certificate is warned of"
    )
    tls_cert_login_from: str = setting(
        "distinguished_name",
        choice(
            "distinguished_name",
            "common_name",
            "subject_alternative_name",
            synonyms={"subject_alt_name": "subject_alternative_name"},
        ),
        "what of a client's certificate is the user's name (EXTERNAL)",
        rabbit="ssl_cert_login_from",
    )
    tls_cert_login_san_type: str = setting(
        "dns",
        choice("dns", "ip", "email", "uri", "other_name"),
        "the type of alternative name that is",
        rabbit="ssl_cert_login_san_type",
    )
    tls_cert_login_san_index: int = setting(
        0,
        integer(0, 1000),
        "which one of that type, counted from 0",
        rabbit="ssl_cert_login_san_index",
    )
    auth_mechanisms: tuple[str, ...] = setting(
        DEFAULT_MECHANISMS,
        names(_one_of(*MECHANISM_NAMES)),
        "ways to log in, in the order they are offered",
    )
    data_dir: Path = computed(_data_dir, path(), "where the node keeps everything")
    metadata_store: str = setting(
        "disk",
        choice("disk", "memory"),
        "where users, queues, bindings and policies are kept; memory: until the node stops",
    )
    node_name: str = computed(_node_name, text(check=_NODE_NAME), "name@host of this node")
    cluster_name: str = setting(
        "", text(empty=True), "name shown to clients and people; empty: the node's name"
    )
    control_socket: Path | None = setting(
        None, path(none=True), "local socket of the command line; none: control.sock in data_dir"
    )
    handshake_timeout_ms: int = setting(
        10_000,
        integer(100, 3_600_000),
        "a connection must be open within this",
        rabbit="handshake_timeout",
    )
    frame_max: int = setting(
        131_072, size(4096, 1 << 27, zero=True), "largest frame offered to clients; 0: no limit"
    )
    channel_max: int = setting(
        2047, integer(0, 65535), "most channels of one connection; 0: no limit"
    )
    heartbeat_s: int = setting(
        60, integer(0, 65535), "heartbeat offered to clients; 0: none", rabbit="heartbeat"
    )
    max_message_size: int = setting(134_217_728, size(1, MESSAGE_SIZE_MAX), "largest message body")
    consumer_timeout_ms: int | None = setting(
        1_800_000,
        integer(1000, 1 << 53, none=True),
        "a delivery must be settled within this",
        rabbit="consumer_timeout",
    )
    channel_tick_interval_ms: int = setting(
        60_000,
        integer(100, 3_600_000),
        "how often a channel looks at its oldest delivery",
        rabbit="channel_tick_interval",
    )
    default_consumer_prefetch: int = setting(
        0,
        integer(0, 65_535),
        "prefetch of consumers on channels without basic.qos; 0 is none",
        rabbit="default_consumer_prefetch",
    )
    dead_letter_counts_continue: bool = setting(
        True, FLAG, "count deaths on from the x-death a client sends with a message"
    )
    merge_policies: bool = setting(
        False, FLAG, "all policies that match apply, not only the one with the highest priority"
    )
    loopback_users: tuple[str, ...] = setting(
        ("guest",), names(), "users who may log in from this machine only"
    )
    login_failures_per_s: int | None = setting(
        1000,
        integer(1, 1_000_000, none=True),
        "failed logins of one address beyond which its new connections are dropped",
    )
    default_user: str = setting("guest", text(), "user made on a blank node")
    default_pass: str = setting("guest", text(), "its password", secret=True)
    default_vhost: str = setting("/", text(), "virtual host made on a blank node")
    default_user_tags: tuple[str, ...] = setting(
        ("administrator",), names(), "tags of that user: what it may see and do over HTTP"
    )
    default_permissions_configure: str = setting(
        ".*",
        text(empty=True),
        "what it may configure in that virtual host",
        rabbit="default_permissions.configure",
    )
    default_permissions_write: str = setting(
        ".*", text(empty=True), "what it may write to", rabbit="default_permissions.write"
    )
    default_permissions_read: str = setting(
        ".*", text(empty=True), "what it may read from", rabbit="default_permissions.read"
    )
    load_definitions: Path | None = setting(
        None,
        path(none=True),
        "definitions, a JSON file or a folder of them, imported at each start",
        rabbit="load_definitions management.load_definitions definitions.local.path",
    )
    log_level: str = setting(
        "info",
        choice(
            "debug",
            "info",
            "warning",
            "error",
            "critical",
            "none",
            synonyms={"notice": "warning", "alert": "critical", "emergency": "critical"},
        ),
        "least level that is written",
        rabbit="log.level log.default.level log.file.level log.console.level",
    )
    log_format: str = setting(
        "text",
        choice("text", "json", synonyms={"plaintext": "text"}),
        "form of a log line",
        rabbit="log.file.formatter log.console.formatter",
    )
    log_file: Path | None = setting(
        None, path(none=True), "log file; none writes no file", rabbit="log.file"
    )
    log_console: bool = setting(True, FLAG, "write the log to stderr", rabbit="log.console")
    parked_bytes_max: int = setting(
        1 << 20, size(0, 1 << 30), "publishes a blocked connection may park while acks pass"
    )
    unsent_bytes_max: int = setting(
        256 << 10, size(4096, 1 << 30), "output of a consumer's connection that may wait"
    )
    vm_memory_high_watermark: float = setting(
        0.4,
        number(0, 1024),
        "share of memory that raises the alarm; 0 blocks all publishers",
        rabbit="vm_memory_high_watermark.relative",
    )
    vm_memory_high_watermark_absolute: int | None = setting(
        None,
        size(0, 1 << 53, none=True),
        "the same in bytes; the share wins where one source gives both",
        rabbit="vm_memory_high_watermark.absolute",
    )
    vm_memory_high_watermark_paging_ratio: float = setting(
        0.5,
        number(0, 1024),
        "share of the limit from which messages leave memory for the disk; above 1: never",
        rabbit="vm_memory_high_watermark_paging_ratio",
    )
    vm_memory_calculation_strategy: str = setting(
        "rss",
        choice("rss", "allocated", "erlang", synonyms={"legacy": "erlang"}),
        "what counts as used memory; all three are the resident memory of the node",
        rabbit="vm_memory_calculation_strategy",
    )
    total_memory_available_override_value: int | None = setting(
        None,
        size(1, 1 << 53, none=True),
        "the machine's memory, instead of what the system tells",
        rabbit="total_memory_available_override_value",
    )
    memory_monitor_interval_ms: int = setting(
        2500,
        integer(100, 3_600_000),
        "how often it is decided how many messages stay in memory",
        rabbit="memory_monitor_interval",
    )
    history_sweep_interval_ms: int = setting(
        5000,
        integer(10, 3_600_000),
        "how often it is decided how much of the history of queues is let go",
    )
    disk_free_limit: int = setting(
        50_000_000,
        size(0, 1 << 60),
        "free disk space below which the alarm is raised",
        rabbit="disk_free_limit.absolute",
    )
    disk_free_limit_relative: float | None = setting(
        None,
        number(0, 1024, none=True),
        "the same as a share of memory; wins where one source gives both",
        rabbit="disk_free_limit.relative disk_free_limit.mem_relative",
    )
    disk_monitor_failure_retries: int = setting(
        10,
        integer(0, 1_000_000),
        "how often free space is asked for again when it cannot be measured",
        rabbit="disk_monitor_failure_retries",
    )
    disk_monitor_failure_retry_interval_ms: int = setting(
        120_000,
        integer(100, 86_400_000),
        "how long after the last time",
        rabbit="disk_monitor_failure_retry_interval",
    )
    queue_index_embed_msgs_below: int = setting(
        4096,
        size(0, 1 << 30),
        "messages smaller than this are stored in their queue's index; 0: none",
        rabbit="queue_index_embed_msgs_below",
    )
    queue_index_max_journal_entries: int = setting(
        32_768,
        integer(1, 1 << 31),
        "entries of a queue's journal before it is flushed",
        rabbit="queue_index_max_journal_entries",
    )
    queue_resident_bytes: int = setting(
        32 << 20, size(0, 1 << 53), "bodies of one queue's stored messages that stay in memory"
    )
    journal_pending_bytes_max: int = setting(
        32 << 20,
        size(65_536, 1 << 40),
        "what may be on its way to the disk; with more, publishers are slowed down",
    )
    msg_store_file_size_limit: int = setting(
        16_777_216,
        size(1024, 1 << 40),
        "size from which a new file of the message store is begun",
        rabbit="msg_store_file_size_limit",
    )
    msg_store_credit_disc_bound: tuple[int, int] = setting(
        (4000, 800),
        pair(1, 1 << 31),
        "credit of a queue for writing bodies: initial, and how much is granted at once",
        rabbit="msg_store_credit_disc_bound",
    )
    credit_flow_default_credit: tuple[int, int] = setting(
        (400, 200),
        pair(1, 1 << 31),
        "credit of a connection and of a channel for publishing, likewise",
        rabbit="credit_flow_default_credit",
    )
    backlog: int = setting(
        1024,
        integer(1, 65535),
        "connections the system may queue",
        rabbit="tcp_listen_options.backlog",
    )
    tcp_nodelay: bool = setting(
        True, FLAG, "send small frames at once", rabbit="tcp_listen_options.nodelay"
    )
    management: str = setting(
        "auto",
        choice("auto", "on", "off"),
        "whether the management process runs; auto: if it can",
    )
    management_bind: str = setting(
        "127.0.0.1",
        text(),
        "address of the HTTP API",
        rabbit="management.tcp.ip management.listener.ip",
    )
    management_port: int | None = setting(
        15672,
        integer(0, 65535, none=True),
        "port of the HTTP API; 0: any free one; none: only with TLS",
        rabbit="management.tcp.port management.listener.port",
    )
    management_tls_bind: str = setting(
        "",
        text(empty=True),
        "address of the HTTP API with TLS; empty: as management_bind",
        rabbit="management.ssl.ip",
    )
    management_tls_port: int = setting(
        15671,
        _PORT,
        "port of the HTTP API with TLS; listens when management_tls_certfile is set",
        rabbit="management.ssl.port",
    )
    management_tls_certfile: Path | None = setting(
        None,
        path(none=True),
        "certificate chain of the HTTP API, PEM",
        rabbit="management.ssl.certfile",
    )
    management_tls_keyfile: Path | None = setting(
        None, path(none=True), "its private key, PEM", rabbit="management.ssl.keyfile"
    )
    management_tls_password: str = setting(
        "",
        text(empty=True),
        "password of that key",
        rabbit="management.ssl.password",
        secret=True,
    )
    management_path_prefix: str = setting(
        "",
        text(empty=True, check=re.compile(r"(/[\w.~-]+)*")),
        "path in front of the HTTP API's own",
        rabbit="management.path_prefix",
    )
    management_interval_ms: int = setting(
        5000,
        integer(100, 3_600_000),
        "how often counters go to the management process",
        rabbit="collect_statistics_interval",
    )
    prometheus_bind: str = setting(
        "",
        text(empty=True),
        "address of the metrics; empty: as management_bind",
        rabbit="prometheus.tcp.ip",
    )
    prometheus_port: int | None = setting(
        15692,
        integer(0, 65535, none=True),
        "port of the metrics; none: with the HTTP API only",
        rabbit="prometheus.tcp.port",
    )
    prometheus_per_object: bool = setting(
        False,
        FLAG,
        "whether /metrics tells of each queue, channel and connection",
        rabbit="prometheus.return_per_object_metrics",
    )
    server_properties: Mapping[str, str] = computed(
        _no_properties, table(), "further server properties shown to clients"
    )
    origins: Mapping[str, str] = field(
        default_factory=lambda: MappingProxyType({}), compare=False, repr=False
    )
    # What was given and is without effect, or was replaced.
    notes: tuple[Note, ...] = field(default=(), compare=False, repr=False)

    def tcp_listeners(self) -> tuple[tuple[str, int], ...]:
        """Return the addresses to listen on without TLS."""
        first = () if self.port is None else ((self.bind, self.port),)
        return first + tuple(read_address(one, bind=self.bind) for one in self.extra_listeners)

    def tls_listeners(self) -> tuple[tuple[str, int], ...]:
        """Return the addresses to listen on with TLS: none without a certificate."""
        if self.tls_certfile is None:
            return ()
        host = self.tls_bind or self.bind
        further = tuple(read_address(one, bind=host) for one in self.tls_extra_listeners)
        return ((host, self.tls_port), *further)

    def socket_path(self) -> Path:
        """Return where the control socket is."""
        return self.control_socket or self.data_dir / SOCKET_NAME

    def cluster(self) -> str:
        """Return the cluster's name: the node's own when none was given."""
        return self.cluster_name or self.node_name

    def origin(self, name: str) -> str:
        """Return where the value came from: `default`, a file and line, a variable, an option."""
        return self.origins.get(name, "default")

    def shown(self, name: str) -> str:
        """Return the value for people; secrets are masked."""
        value = cast("object", getattr(self, name))
        if KEYS[name].secret:
            return "***" if value else ""
        if value is None:
            return "none"
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, tuple):
            return ", ".join(str(one) for one in value) or "none"
        if isinstance(value, Mapping):
            return ", ".join(f"{key}={one}" for key, one in value.items()) or "none"
        return str(value)


KEYS: Final[Mapping[str, Facts]] = MappingProxyType(
    {
        one.name: cast("Facts", one.metadata[FACTS])
        for one in fields(Settings)
        if FACTS in one.metadata
    }
)
RABBIT_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {rabbit: name for name, facts in KEYS.items() for rabbit in facts.rabbit}
)
