"""What RabbitMQ's configuration may say and Warren has no meaning for: told, and without effect.

`KNOWN` has the names of `rabbitmq.conf` by subject: `*` is one part of a name, `**` any number of
them. `APPLICATIONS` are those of the classic notation that are passed over whole. A few values are
refused all the same (`refusal`): a node that ignores them would be less safe than its configuration
says, or of no use. What is in neither list is a mistake of whoever wrote it.
"""

import re
from collections.abc import Mapping
from typing import Final

from warren.server.config_entry import Entry

_FORMATTER: Final = (
    "formatter.time_format formatter.level_format formatter.single_line "
    "formatter.plaintext.format formatter.json.field_map formatter.json.verbosity_map"
)
_ROTATION: Final = "rotation.date rotation.compress rotation.size rotation.count"
_TLS: Final = (
    "cacerts.* cert client_renegotiation crl_check dh dhfile honor_cipher_order "
    "honor_ecc_order key.* log_level log_alert psk_identity reuse_session reuse_sessions "
    "secure_renegotiate ciphers.* ciphers bypass_pem_cache"
)
_PEER: Final = "verify fail_if_no_peer_cert cacertfile certfile keyfile password depth versions.*"
_COWBOY: Final = (
    "compress idle_timeout inactivity_timeout request_timeout shutdown_timeout max_keepalive"
)


def _under(prefix: str, *words: str) -> str:
    return " ".join(f"{prefix}.{word}" for part in words for word in part.split())


KNOWN: Final[Mapping[str, str]] = {
    "connections": (
        "num_acceptors.tcp num_acceptors.ssl socket_writer.gc_threshold reverse_dns_lookups "
        "initial_frame_max connection_max channel_max_per_node consumer_max_per_channel "
        "ranch_connection_max vhost_max tcp_listen_options ssl_handshake_timeout "
        "proxy_protocol "
        + _under(
            "tcp_listen_options",
            "buffer delay_send dontroute exit_on_close fd high_msgq_watermark high_watermark "
            "keepalive low_msgq_watermark low_watermark packet port priority recbuf reuseaddr "
            "send_timeout send_timeout_close sndbuf tos linger linger.on linger.timeout",
        )
    ),
    "TLS": "ssl_allow_poodle_attack ssl_options " + _under("ssl_options", _TLS),
    "users": (
        "auth_backends auth_backends.* auth_backends.*.authn auth_backends.*.authz "
        "password_hashing_module credential_validator.validation_backend "
        "credential_validator.min_length credential_validator.regexp config_entry_decoder.** "
        "default_users.** default_policies.** default_limits.**"
    ),
    "queues": (
        "default_queue_type queue_index_segment_entry_count "
        "queue_explicit_gc_run_operation_threshold "
        "lazy_queue_explicit_gc_run_operation_threshold backing_queue_module "
        "msg_store_io_batch_size msg_store_shutdown_timeout message_store_shutdown_timeout "
        "msg_store_index_module queue_master_locator queue_leader_locator "
        "mirroring_flow_control mirroring_sync_batch_size mirroring_sync_max_throughput "
        "cluster_queue_limit classic_queue.default_version quorum_queue.** "
        "quorum_commands_soft_limit quorum_cluster_size stream.** raft.** "
        "vhost_restart_strategy"
    ),
    "clusters": (
        "cluster_partition_handling cluster_partition_handling.** cluster_formation.** "
        "cluster_nodes cluster_keepalive_interval net_ticktime distribution.** delegate_count "
        "kernel.** mnesia_table_loading_retry_timeout mnesia_table_loading_retry_limit"
    ),
    "definitions": (
        "definitions.import_backend definitions.skip_if_unchanged "
        "definitions.hashing.algorithm definitions.https.url definitions.tls.**"
    ),
    "logs": (
        "log.dir log_levels log.console.stdio log.console.use_colors log.console.color_esc_seqs.* "
        + _under("log.console", _FORMATTER)
        + " "
        + _under("log.file", _FORMATTER, _ROTATION, "date size count compress")
        + " "
        + _under("log.exchange", "level formatter", _FORMATTER)
        + " log.exchange log.journald log.journald.level log.journald.fields log.syslog "
        + _under(
            "log.syslog",
            "level formatter identity facility multiline_mode ip host port transport protocol",
            _FORMATTER,
        )
        + " log.syslog.ssl_options.** log.categories.** "
        + _under("log.*", "level file", _ROTATION)
    ),
    "management": (
        "management.http_log_dir management.rates_mode management.delegate_count "
        "management.http.max_body_size management.login_session_timeout "
        "management.disable_stats management.enable_queue_totals "
        "management.db_cache_multiplier management.process_stats_gc_timeout management.cors.** "
        "management.cors_allow_origins management.cors_max_age "
        "management.content_security_policy management.strict_transport_security "
        "management.management_db_cache_multiplier management.csp.policy "
        "management.hsts.policy management.headers.* management.sample_retention_policies.** "
        "management.oauth_** management.restrictions.** "
        + _under("management.tcp", "max_connections backlog", _COWBOY)
        + " "
        + _under("management.ssl", "port ip backlog max_connections", _PEER, _TLS, _COWBOY)
        + " management.listener.ssl management.listener.ssl_opts management.listener.ssl_opts.** "
        "management.listener.server.* management_agent.** prometheus.path "
        "prometheus.aggregated_metrics_ttl prometheus.filter_aggregated_queue_metrics_pattern "
        "prometheus.ssl.** " + _under("prometheus.tcp", "max_connections backlog", _COWBOY)
    ),
    "the runtime": (
        "collect_statistics trace_vhosts hipe_compile hipe_modules background_gc_enabled "
        "background_gc_target_interval default_worker_pool_size erlang.* sysmon_handler.** "
        "deprecated_features.** product.name product.version motd_file "
        "permit_deprecated_features.**"
    ),
    "plug-ins": (
        "mqtt.** stomp.** web_mqtt.** web_stomp.** amqp1_0.** auth_ldap.** auth_http.** "
        "auth_oauth2.** auth_cache.** trust_store.** peer_discovery.** shovel.** federation.** "
        "management_exchange.** metadata_store.**"
    ),
}
_APPLICATIONS: Final = (
    "amqp_client aten cowboy inets lager mnesia oauth2_client observer_cli os_mon osiris "
    "prometheus ra rabbit_common rabbitmq_amqp1_0 rabbitmq_auth_backend_cache "
    "rabbitmq_auth_backend_http rabbitmq_auth_backend_ldap rabbitmq_auth_backend_oauth2 "
    "rabbitmq_auth_mechanism_ssl rabbitmq_consistent_hash_exchange "
    "rabbitmq_delayed_message_exchange rabbitmq_event_exchange rabbitmq_federation "
    "rabbitmq_federation_management rabbitmq_management_agent rabbitmq_mqtt "
    "rabbitmq_peer_discovery_aws rabbitmq_peer_discovery_common rabbitmq_peer_discovery_consul "
    "rabbitmq_peer_discovery_etcd rabbitmq_peer_discovery_k8s rabbitmq_prelaunch "
    "rabbitmq_sharding rabbitmq_shovel rabbitmq_shovel_management rabbitmq_stomp "
    "rabbitmq_stream rabbitmq_stream_management rabbitmq_top rabbitmq_tracing "
    "rabbitmq_trust_store rabbitmq_web_mqtt rabbitmq_web_stomp ranch sasl ssl stdlib syslog "
    "sysmon_handler"
)
APPLICATIONS: Final = frozenset(_APPLICATIONS.split())
INTERNAL: Final = frozenset({"internal", "rabbit_auth_backend_internal"})


def _pattern(names: str) -> str:
    name = re.escape(names)
    return name.replace(r"\*\*", r".+").replace(r"\*", r"[^.]+")


_KNOWN: Final = re.compile(
    "|".join(_pattern(name) for names in KNOWN.values() for name in names.split())
)


def known(name: str) -> bool:
    """Whether RabbitMQ has a key, or an application, of this name."""
    return name in APPLICATIONS or _KNOWN.fullmatch(name) is not None


def refusal(entry: Entry) -> str:
    """Return why a known key may not be passed over with this value; or nothing."""
    if entry.name.split(".")[0] == "auth_backends":
        given = entry.value if isinstance(entry.value, list | tuple) else (entry.value,)
        others = sorted({str(one) for one in given} - INTERNAL)
        return (
            f"there are only the node's own users here, not {', '.join(others)}" if others else ""
        )
    on = str(entry.value).lower() not in ("false", "off")
    if entry.name == "proxy_protocol" and on:
        return "the proxy protocol is not spoken here: no connection would be understood"
    if entry.name == "ssl_options.crl_check" and on:
        return "revocation lists are not read here: a revoked certificate would be accepted"
    return ""
