"""The classic notation: every quoted example, the names it means, refusals with their lines."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.server.config import Settings
from warren.server.config_entry import ConfigError
from warren.server.config_load import load

HEARTBEAT = "[{rabbit, [{heartbeat, 7}]}].\n"


def config(tmp_path: Path, text: str, name: str = "rabbitmq.config", **env: str) -> Settings:
    file = tmp_path / name
    file.write_text(text)
    return load(file=file, env=env)


def rabbit(tmp_path: Path, *keys: str) -> Settings:
    return config(tmp_path, f"[{{rabbit, [{', '.join(keys)}]}}].")


# What the guides to RabbitMQ print, as they print it.
QUOTED = {
    "relative": """\
[
    {
        rabbit, [
            {vm_memory_high_watermark, 0.4}
        ]
    }
].
""",
    "absolute": """\
[
    {
        rabbit, [
            {vm_memory_high_watermark, {absolute, 1073741824}}
        ]
    }
].
""",
    "unit": """\
[
    {
        rabbit, [
            {vm_memory_high_watermark, {absolute, "1024M"}}
        ]
    }
].
""",
    "paging": """\
[
    {
        rabbit, [
            {vm_memory_high_watermark_paging_ratio, 0.75},
            {vm_memory_high_watermark, 0.4}
        ]
    }
].
""",
    "disk": """\
[
    {
        rabbit, [
            {disk_free_limit, 1000000000}
        ]
    }
].
""",
    "disk unit": """\
[
    {
        rabbit, [
            {disk_free_limit, "1GB"}
        ]
    }
].
""",
    "disk relative": """\
[
    {
        rabbit, [
            {disk_free_limit, {mem_relative, 1.0}}
        ]
    }
].
""",
    "cluster": """\
[
  {rabbit, [{tcp_listeners, [5672]}]},
  {kernel, [{net_ticktime,  120}]}
].
""",
    "bare watermark": "{vm_memory_high_watermark, 0.4}\n",
    "bare ratio": "{vm_memory_high_watermark_paging_ratio, 0.75}\n",
    "bare disk": "{disk_free_limit, 50000000}\n",
}


@pytest.mark.rule("O-2.4", "O-2.5", "MA-5", "MA-12", "DA-3")
@pytest.mark.parametrize(
    ("quoted", "values"),
    [
        ("relative", {"vm_memory_high_watermark": 0.4, "vm_memory_high_watermark_absolute": None}),
        ("absolute", {"vm_memory_high_watermark_absolute": 1 << 30}),
        ("unit", {"vm_memory_high_watermark_absolute": 1 << 30}),
        (
            "paging",
            {"vm_memory_high_watermark_paging_ratio": 0.75, "vm_memory_high_watermark": 0.4},
        ),
        ("disk", {"disk_free_limit": 10**9, "disk_free_limit_relative": None}),
        ("disk unit", {"disk_free_limit": 10**9}),
        ("disk relative", {"disk_free_limit_relative": 1.0}),
        ("cluster", {"port": 5672, "bind": "0.0.0.0"}),
        ("bare watermark", {"vm_memory_high_watermark": 0.4}),
        ("bare ratio", {"vm_memory_high_watermark_paging_ratio": 0.75}),
        ("bare disk", {"disk_free_limit": 50_000_000}),
    ],
)
@pytest.mark.parametrize("name", ["rabbitmq.config", "advanced", "x.txt"])
def test_quoted_examples_are_taken_as_they_are(
    quoted: str, values: dict[str, Any], name: str, tmp_path: Path
) -> None:
    settings = config(tmp_path, QUOTED[quoted], name)
    assert {one: getattr(settings, one) for one in values} == values
    for one in values:
        if getattr(Settings(), one) != values[one]:
            assert settings.origin(one).startswith(f"{tmp_path}/{name}:")
    told = [note.key for note in settings.notes]
    assert told == (["net_ticktime"] if quoted == "cluster" else [])


def test_a_whole_box_of_examples_is_taken_too(tmp_path: Path) -> None:
    """Comments of a shell between them; of a key that comes again, the later one counts."""
    names = ("relative", "absolute", "unit")
    text = "".join(f"# {number}. {name}\n{QUOTED[name]}\n" for number, name in enumerate(names, 1))
    settings = config(tmp_path, text + "# k, kiB: kibibytes (2^10 bytes)\n")
    assert settings.vm_memory_high_watermark_absolute == 1 << 30


@pytest.mark.rule("O-2.5", "O-2.6")
@pytest.mark.parametrize(
    ("key", "name", "value"),
    [
        ("{tcp_listeners, [5673]}", "port", 5673),
        ('{tcp_listeners, [{"127.0.0.1", 5673}]}', "bind", "127.0.0.1"),
        ('{tcp_listeners, [{"::1", 5673}]}', "bind", "::1"),
        ('{tcp_listeners, [{"[::1]", 5673}]}', "port", 5673),
        ("{tcp_listeners, [1, 2, 3]}", "extra_listeners", ("0.0.0.0:2", "0.0.0.0:3")),
        ("{heartbeat, 30}", "heartbeat_s", 30),
        ("{frame_max, 8192}", "frame_max", 8192),
        ("{channel_max, 0}", "channel_max", 0),
        ("{handshake_timeout, 2000}", "handshake_timeout_ms", 2000),
        ("{consumer_timeout, undefined}", "consumer_timeout_ms", None),
        ("{consumer_timeout, 60000}", "consumer_timeout_ms", 60_000),
        ('{default_user, <<"u">>}', "default_user", "u"),
        ('{default_pass, <<"p">>}', "default_pass", "p"),
        ('{default_vhost, <<"/v">>}', "default_vhost", "/v"),
        ("{default_user_tags, [monitoring, policymaker]}", "default_user_tags", None),
        ('{default_permissions, [<<"c">>, <<"w">>, <<"r">>]}', "default_permissions_write", "w"),
        ('{default_permissions, [<<"c">>, <<"w">>, <<"r">>]}', "default_permissions_read", "r"),
        ("{loopback_users, []}", "loopback_users", ()),
        ('{loopback_users, [<<"a">>, <<"b">>]}', "loopback_users", ("a", "b")),
        ("{auth_mechanisms, ['PLAIN']}", "auth_mechanisms", ("PLAIN",)),
        ("{tcp_listen_options, [binary, {backlog, 7}, {nodelay, false}]}", "backlog", 7),
        ("{tcp_listen_options, [{backlog, 7}, {nodelay, false}]}", "tcp_nodelay", False),
        ("{collect_statistics_interval, 1000}", "management_interval_ms", 1000),
        ("{max_message_size, 1000}", "max_message_size", 1000),
        ("{queue_index_embed_msgs_below, 0}", "queue_index_embed_msgs_below", 0),
        ("{queue_index_max_journal_entries, 64}", "queue_index_max_journal_entries", 64),
        ("{msg_store_file_size_limit, 1048576}", "msg_store_file_size_limit", 1 << 20),
        ("{msg_store_credit_disc_bound, {40, 8}}", "msg_store_credit_disc_bound", (40, 8)),
        ("{credit_flow_default_credit, {40, 8}}", "credit_flow_default_credit", (40, 8)),
        ("{default_consumer_prefetch, {false, 9}}", "default_consumer_prefetch", 9),
        ("{vm_memory_high_watermark, 3}", "vm_memory_high_watermark", 3.0),
        ("{vm_memory_high_watermark, {relative, 0.5}}", "vm_memory_high_watermark", 0.5),
        (
            "{vm_memory_high_watermark_paging_ratio, 1.5}",
            "vm_memory_high_watermark_paging_ratio",
            1.5,
        ),
        ("{vm_memory_calculation_strategy, legacy}", "vm_memory_calculation_strategy", "erlang"),
        ('{total_memory_available_override_value, "5000MB"}', None, 5 * 10**9),
        ("{disk_free_limit, {absolute, 5}}", "disk_free_limit", 5),
        ("{disk_free_limit, {relative, 1.5}}", "disk_free_limit_relative", 1.5),
        ("{memory_monitor_interval, 1000}", "memory_monitor_interval_ms", 1000),
        ('{server_properties, [{<<"a">>, longstr, <<"b">>}]}', "server_properties", {"a": "b"}),
        ('{server_properties, [{"a", true}]}', "server_properties", {"a": "true"}),
        ('{log, [{file, [{file, "x"}, {level, debug}]}]}', "log_level", "debug"),
        ("{log, [{file, [{file, false}]}]}", "log_file", None),
        ("{log, [{console, [{enabled, false}]}]}", "log_console", False),
    ],
)
def test_keys_mean_what_they_mean_in_the_other_notation(
    key: str, name: str | None, value: object, tmp_path: Path
) -> None:
    settings = rabbit(tmp_path, key)
    name = name or "total_memory_available_override_value"
    expected = ("monitoring", "policymaker") if name == "default_user_tags" else value
    assert getattr(settings, name) == expected
    assert settings.notes == ()


@pytest.mark.rule("O-2.5")
def test_tls_and_the_applications_of_plug_ins(tmp_path: Path) -> None:
    settings = config(
        tmp_path,
        """
        [{rabbit, [{tcp_listeners, []},
                   {ssl_listeners, [{"127.0.0.1", 5671}]},
                   {ssl_options, [{cacertfile, "/dev/null"},
                                  {certfile, "/dev/null"},
                                  {keyfile, "/dev/null"},
                                  {versions, ['tlsv1.3']},
                                  {depth, 2},
                                  {verify, verify_peer},
                                  {fail_if_no_peer_cert, true}]}]},
         {rabbitmq_management, [{listener, [{port, 12345}, {ip, "127.0.0.1"}]},
                                {path_prefix, "/mq"},
                                {load_definitions, "/dev/null"},
                                {rates_mode, none}]},
         {rabbitmq_prometheus, [{tcp_config, [{port, 9999}]},
                                {return_per_object_metrics, true}]},
         {warren, [{parked_bytes_max, "1MiB"}]},
         {rabbitmq_shovel, [{shovels, [{s, [{sources, []}]}]}]}].
        """,
    )
    assert settings.tcp_listeners() == ()
    assert settings.tls_listeners() == (("127.0.0.1", 5671),)
    assert (settings.tls_versions, settings.tls_depth) == (("tlsv1.3",), 2)
    assert settings.tls_verify == "required"
    assert (settings.management_port, settings.management_path_prefix) == (12345, "/mq")
    assert (settings.prometheus_port, settings.prometheus_per_object) == (9999, True)
    assert settings.load_definitions == Path("/dev/null")
    assert settings.parked_bytes_max == 1 << 20
    keys = [(note.level, note.key) for note in settings.notes]
    assert keys == [("warning", "management.rates_mode"), ("warning", "rabbitmq_shovel")]


def test_relative_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    settings = rabbit(tmp_path, '{log, [{file, [{file, "rabbit.log"}]}]}')
    assert settings.log_file == tmp_path / "rabbit.log"


@pytest.mark.rule("O-2.2")
def test_all_problems_are_told_with_their_lines(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refusal:
        config(
            tmp_path,
            """[
 {rabbit, [{heartbeat, "60"},
           {hartbeat, 60},
           nonsense,
           {tcp_listeners, 5672},
           {default_permissions, [<<".*">>]},
           {disk_free_limit, {about, 5}},
           {auth_backends, [rabbit_auth_backend_ldap]}]},
 {my_plugin, [{a, b}]},
 {rabbit}
].
""",
        )
    file = f"{tmp_path}/rabbitmq.config"
    assert [str(one) for one in refusal.value.problems] == [
        f"{file}:2: expected {{key, value}}",
        f'{file}:5: tcp_listeners: expected a list of ports or {{"address", port}}',
        f"{file}:6: default_permissions: expected three patterns: configure, write, read",
        f"{file}:7: disk_free_limit: expected a value, or {{absolute, ...}}, {{relative, ...}}, "
        "{mem_relative, ...}",
        f"{file}:9: my_plugin: an application that neither Warren nor RabbitMQ has",
        f"{file}:10: expected {{application, [{{key, value}}, ...]}}",
        f"{file}:2: heartbeat: expected a whole number from 0 to 65535, got '60'",
        f"{file}:3: hartbeat: unknown setting; did you mean heartbeat?",
        f"{file}:8: auth_backends: there are only the node's own users here, not "
        "rabbit_auth_backend_ldap",
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[{rabbit, [}].", "rabbitmq.config:1: expected a term, got '}'"),
        ("5.", "expected a list of {application"),
        ("[5].", "expected {application"),
        ("[{rabbit, 5}].", "expected {application"),
        ("[{rabbit, [{server_properties, 5}]}].", "server_properties: expected a list"),
        ("[{rabbit, [{server_properties, [5]}]}].", "expected a list of {name, value}"),
        ("[{rabbit, [{default_consumer_prefetch, {true, 5}}]}].", "expected {false, count}"),
    ],
)
def test_what_is_no_configuration_is_refused(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refusal:
        config(tmp_path, text)
    assert words in str(refusal.value)


@pytest.mark.rule("MA-5")
@pytest.mark.parametrize(
    ("key", "name"),
    [
        ('{vm_memory_high_watermark, {absolute, "1TB"}}', "vm_memory_high_watermark.absolute"),
        ('{disk_free_limit, "lots"}', "disk_free_limit"),
        ("{vm_memory_calculation_strategy, guess}", "vm_memory_calculation_strategy"),
    ],
)
def test_a_limit_that_cannot_be_read_is_the_default(key: str, name: str, tmp_path: Path) -> None:
    settings = rabbit(tmp_path, key)
    ((level, found),) = [(note.level, note) for note in settings.notes]
    assert (level, found.key) == ("error", name)
    assert found.reason.endswith("; the default is used")
    assert settings.vm_memory_high_watermark_absolute is None
    assert settings.disk_free_limit == 50_000_000
    assert settings.vm_memory_calculation_strategy == "rss"


KEYED = st.sampled_from(
    [
        "tcp_listeners",
        "ssl_listeners",
        "ssl_options",
        "vm_memory_high_watermark",
        "disk_free_limit",
        "default_permissions",
        "default_user_tags",
        "server_properties",
        "default_consumer_prefetch",
        "auth_backends",
        "auth_mechanisms",
        "loopback_users",
        "heartbeat",
        "credit_flow_default_credit",
        "log",
        "load_definitions",
        "unheard_of",
    ]
)
VALUES = st.recursive(
    st.sampled_from(["1", "-1", "0.5", "true", "none", '"1GB"', '<<"x">>', "relative", "file"]),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda parts: "[" + ", ".join(parts) + "]")
        | st.lists(inner, max_size=3).map(lambda parts: "{" + ", ".join(parts) + "}")
    ),
    max_leaves=8,
)


@given(st.lists(st.tuples(KEYED, VALUES), max_size=4))
def test_any_terms_give_settings_or_a_refusal(
    tmp_path_factory: pytest.TempPathFactory, keys: list[tuple[str, str]]
) -> None:
    text = ", ".join(f"{{{key}, {value}}}" for key, value in keys)
    file = tmp_path_factory.getbasetemp() / "any.config"
    file.write_text(f"[{{rabbit, [{text}]}}].")
    refused: list[str] = []
    try:
        load(file=file, env={})
    except ConfigError as refusal:
        refused = [one.where for one in refusal.problems]
    # Each problem says where it stands; what settings mean together may be a default's.
    assert all(where.startswith(f"{file}:1") or where == "default" for where in refused)
