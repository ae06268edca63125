"""Settings: every one through every source, precedence, origins, refusals."""

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from warren.server.config import KEYS, Settings
from warren.server.config_entry import ConfigError, Entry
from warren.server.config_load import load

# Setting -> (value as text, the same in TOML, what Settings then holds). A new setting must be
# added here: the first test says so.
SAMPLES: dict[str, tuple[str, str, object]] = {
    "bind": ("::1", '"::1"', "::1"),
    "port": ("0", "0", 0),
    "extra_listeners": ("[::1]:1,10.0.0.1:2", '["[::1]:1", "10.0.0.1:2"]', None),
    "tls_bind": ("10.0.0.1", '"10.0.0.1"', "10.0.0.1"),
    "tls_port": ("5999", "5999", 5999),
    "tls_extra_listeners": ("1234", '["1234"]', ("1234",)),
    "tls_certfile": ("/dev/null", '"/dev/null"', Path("/dev/null")),
    "tls_keyfile": ("/dev/null", '"/dev/null"', Path("/dev/null")),
    "tls_cafile": ("/dev/null", '"/dev/null"', Path("/dev/null")),
    "tls_verify": ("optional", '"optional"', "optional"),
    "tls_password": ("s3cret!", '"s3cret!"', "s3cret!"),
    "tls_versions": ("tlsv1.3", '["tlsv1.3"]', ("tlsv1.3",)),
    "tls_depth": ("1", "1", 1),
    "tls_reload_interval_s": ("0", "0", 0),
    "tls_expiry_warning_days": ("7", "7", 7),
    "tls_cert_login_from": ("common_name", '"common_name"', "common_name"),
    "tls_cert_login_san_type": ("email", '"email"', "email"),
    "tls_cert_login_san_index": ("2", "2", 2),
    "auth_mechanisms": ("PLAIN", '["PLAIN"]', ("PLAIN",)),
    "data_dir": ("/var/tmp/w", '"/var/tmp/w"', Path("/var/tmp/w")),
    "metadata_store": ("memory", '"memory"', "memory"),
    "node_name": ("w@h", '"w@h"', "w@h"),
    "cluster_name": ("c", '"c"', "c"),
    "control_socket": ("/var/tmp/s", '"/var/tmp/s"', Path("/var/tmp/s")),
    "handshake_timeout_ms": ("5000", "5000", 5000),
    "frame_max": ("8kiB", '"8kiB"', 8192),
    "channel_max": ("10", "10", 10),
    "heartbeat_s": ("0", "0", 0),
    "max_message_size": ("1MB", "1000000", 1_000_000),
    "consumer_timeout_ms": ("none", '"none"', None),
    "channel_tick_interval_ms": ("1000", "1000", 1000),
    "default_consumer_prefetch": ("7", "7", 7),
    "dead_letter_counts_continue": ("no", "false", False),
    "merge_policies": ("yes", "true", True),
    "loopback_users": ("a, b", '["a", "b"]', ("a", "b")),
    "login_failures_per_s": ("10", "10", 10),
    "default_user": ("root", '"root"', "root"),
    "default_pass": ("s3cret!", '"s3cret!"', "s3cret!"),
    "default_vhost": ("/v", '"/v"', "/v"),
    "default_user_tags": ("monitoring,a", '["monitoring", "a"]', ("monitoring", "a")),
    "default_permissions_configure": ("^$", '"^$"', "^$"),
    "default_permissions_write": ("w", '"w"', "w"),
    "default_permissions_read": ("r", '"r"', "r"),
    "load_definitions": ("/dev/null", '"/dev/null"', Path("/dev/null")),
    "log_level": ("DEBUG", '"debug"', "debug"),
    "log_format": ("json", '"json"', "json"),
    "log_file": ("/var/tmp/l", '"/var/tmp/l"', Path("/var/tmp/l")),
    "log_console": ("off", "false", False),
    "parked_bytes_max": ("2MiB", "2097152", 2 << 20),
    "unsent_bytes_max": ("64k", '"64k"', 65536),
    "vm_memory_high_watermark": ("0", "0.0", 0.0),
    "vm_memory_high_watermark_absolute": ("1024M", '"1024M"', 1 << 30),
    "vm_memory_high_watermark_paging_ratio": ("1.5", "1.5", 1.5),
    "vm_memory_calculation_strategy": ("legacy", '"legacy"', "erlang"),
    "total_memory_available_override_value": ("2GiB", '"2GiB"', 2 << 30),
    "memory_monitor_interval_ms": ("1000", "1000", 1000),
    "history_sweep_interval_ms": ("100", "100", 100),
    "disk_free_limit": ("1GB", '"1GB"', 10**9),
    "disk_free_limit_relative": ("1.5", "1.5", 1.5),
    "disk_monitor_failure_retries": ("1", "1", 1),
    "disk_monitor_failure_retry_interval_ms": ("100", "100", 100),
    "queue_index_embed_msgs_below": ("1kB", "1000", 1000),
    "queue_index_max_journal_entries": ("64", "64", 64),
    "queue_resident_bytes": ("1MiB", '"1MiB"', 1 << 20),
    "journal_pending_bytes_max": ("1MiB", '"1MiB"', 1 << 20),
    "msg_store_file_size_limit": ("1MiB", '"1MiB"', 1 << 20),
    "msg_store_credit_disc_bound": ("40, 8", "[40, 8]", (40, 8)),
    "credit_flow_default_credit": ("40,20", "[40, 20]", (40, 20)),
    "backlog": ("7", "7", 7),
    "tcp_nodelay": ("false", "false", False),
    "management": ("off", '"off"', "off"),
    "management_bind": ("::1", '"::1"', "::1"),
    "management_port": ("0", "0", 0),
    "management_tls_bind": ("::1", '"::1"', "::1"),
    "management_tls_port": ("0", "0", 0),
    "management_tls_certfile": ("/dev/null", '"/dev/null"', Path("/dev/null")),
    "management_tls_keyfile": ("/dev/null", '"/dev/null"', Path("/dev/null")),
    "management_tls_password": ("hunter2", '"hunter2"', "hunter2"),
    "management_path_prefix": ("/mq", '"/mq"', "/mq"),
    "management_interval_ms": ("100", "100", 100),
    "prometheus_bind": ("::1", '"::1"', "::1"),
    "prometheus_port": ("none", '"none"', None),
    "prometheus_per_object": ("true", "true", True),
    "server_properties": ("a=b,c=d=e", '{a = "b", c = "d=e"}', {"a": "b", "c": "d=e"}),
}
SAMPLES["extra_listeners"] = (*SAMPLES["extra_listeners"][:2], ("[::1]:1", "10.0.0.1:2"))
# What a setting needs beside itself to make sense.
COMPANY = {
    name: {"tls_certfile": "/dev/null", "tls_keyfile": "/dev/null", "tls_cafile": "/dev/null"}
    for name in KEYS
    if name.startswith("tls_")
} | {
    name: {"management_tls_certfile": "/dev/null", "management_tls_keyfile": "/dev/null"}
    for name in KEYS
    if name.startswith("management_tls_")
}


def company(name: str) -> list[Entry]:
    return [Entry(key, text, "test") for key, text in COMPANY.get(name, {}).items() if key != name]


def read_conf(tmp_path: Path, text: str, **more: Any) -> Settings:
    file = tmp_path / "rabbitmq.conf"
    file.write_text(text)
    return load(file=file, env=more.pop("env", {}), **more)


def read_toml(tmp_path: Path, text: str, **more: Any) -> Settings:
    file = tmp_path / "warren.toml"
    file.write_text(text)
    return load(file=file, env=more.pop("env", {}), **more)


def problems(refusal: pytest.ExceptionInfo[ConfigError]) -> list[str]:
    return [str(one) for one in refusal.value.problems]


def test_every_setting_has_a_sample_and_is_described() -> None:
    assert set(SAMPLES) == set(KEYS)
    assert {one.name for one in fields(Settings)} == {*KEYS, "origins", "notes"}
    for name, (_, _, value) in SAMPLES.items():
        assert getattr(Settings(), name) != value or name == "consumer_timeout_ms", name
        assert KEYS[name].doc
    assert Settings().consumer_timeout_ms is not None


@pytest.mark.rule("O-2.5", "O-2.6")
@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize("source", ["toml", "conf", "environment", "option"])
def test_every_setting_comes_through_every_source(name: str, source: str, tmp_path: Path) -> None:
    text, typed, value = SAMPLES[name]
    if source == "toml":
        settings = read_toml(tmp_path, f"\n{name} = {typed}\n", options=company(name))
        origin = f"{tmp_path}/warren.toml:2"
    elif source == "conf":
        settings = read_conf(tmp_path, f"# one\n\n{name} = {text}\n", options=company(name))
        origin = f"{tmp_path}/rabbitmq.conf:3"
    elif source == "environment":
        origin = "WARREN_" + name.upper()
        settings = load(env={origin: text}, options=company(name))
    else:
        origin = "--" + name.replace("_", "-")
        settings = load(env={}, options=[*company(name), Entry(name, text, origin)])
    assert getattr(settings, name) == value
    if name != "server_properties" or source != "toml":
        assert settings.origin(name) == origin
    others = set(settings.origins) - set(COMPANY.get(name, {})) - {name}
    assert others == set()


@pytest.mark.rule("O-2.5", "O-2.6")
@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("listeners.tcp.default = 5673", "port", 5673),
        ("listeners.tcp.default = 5673", "bind", "0.0.0.0"),
        ("listeners.tcp.1 = 127.0.0.1:5674", "bind", "127.0.0.1"),
        ("listeners.tcp.1 = ::1:5674", "bind", "::1"),
        ("listeners.tcp.1 = [::1]:5674", "port", 5674),
        ("handshake_timeout = 2000", "handshake_timeout_ms", 2000),
        ("frame_max = 0", "frame_max", 0),
        ("channel_max = 0", "channel_max", 0),
        ("heartbeat = 30", "heartbeat_s", 30),
        ("max_message_size = 536870912", "max_message_size", 536870912),
        ("consumer_timeout = 60000", "consumer_timeout_ms", 60000),
        ("consumer_timeout = infinity", "consumer_timeout_ms", None),
        ("loopback_users.guest = false", "loopback_users", ()),
        ("loopback_users.bob = true", "loopback_users", ("guest", "bob")),
        ("loopback_users = none", "loopback_users", ()),
        ("default_user = u", "default_user", "u"),
        ("default_pass = 'a # b'", "default_pass", "a # b"),
        ("default_vhost = x # comment", "default_vhost", "x"),
        ("log.file.level = debug", "log_level", "debug"),
        ("log.console.level = error", "log_level", "error"),
        ("log.console.formatter = plaintext", "log_format", "text"),
        ("log.console = false", "log_console", False),
        ("log.file = false", "log_file", None),
        ("vm_memory_high_watermark.relative = 0.6", "vm_memory_high_watermark", 0.6),
        ("vm_memory_high_watermark = 1", "vm_memory_high_watermark", 1.0),
        ("vm_memory_high_watermark.absolute = 1GB", "vm_memory_high_watermark_absolute", 10**9),
        ("tcp_listen_options.backlog = 4096", "backlog", 4096),
        ("tcp_listen_options.nodelay = false", "tcp_nodelay", False),
        ("cluster_name = rabbits", "cluster_name", "rabbits"),
        ("server_properties.product = X", "server_properties", {"product": "X"}),
    ],
)
def test_rabbitmq_names_are_understood(line: str, name: str, value: object, tmp_path: Path) -> None:
    assert getattr(read_conf(tmp_path, line), name) == value
    # The same names serve on the command line.
    key, _, text = line.partition(" = ")
    text = text.partition(" # c")[0].strip("'")
    assert getattr(load(env={}, options=[Entry(key, text, "--set")]), name) == value


@pytest.mark.rule("O-2.5")
def test_several_listeners_and_tls(tmp_path: Path) -> None:
    settings = read_conf(
        tmp_path,
        """
        listeners.tcp.1 = 127.0.0.1:5672
        listeners.tcp.2 = ::1:5672
        listeners.ssl.default = 5671
        ssl_options.certfile = /dev/null
        ssl_options.keyfile = /dev/null
        ssl_options.cacertfile = /dev/null
        ssl_options.verify = verify_peer
        """,
    )
    assert settings.tcp_listeners() == (("127.0.0.1", 5672), ("::1", 5672))
    assert settings.tls_listeners() == (("0.0.0.0", 5671),)
    assert settings.tls_verify == "optional"


@pytest.mark.rule("O-2.5")
def test_listeners_may_be_none_when_tls_listens(tmp_path: Path) -> None:
    tls = "ssl_options.certfile = /dev/null\nssl_options.keyfile = /dev/null\n"
    settings = read_conf(tmp_path, "listeners.tcp = none\n" + tls)
    assert settings.tcp_listeners() == ()
    assert settings.tls_listeners() == (("127.0.0.1", 5671),)
    with pytest.raises(ConfigError, match="no listener at all"):
        read_conf(tmp_path, "listeners.tcp = none\n")


@pytest.mark.parametrize(
    ("lines", "verify"),
    [
        (["verify = verify_none"], "none"),
        (["verify = verify_peer"], "optional"),
        (["verify = verify_peer", "fail_if_no_peer_cert = true"], "required"),
        (["fail_if_no_peer_cert = true", "verify = verify_peer"], "required"),
        (["verify = verify_peer", "fail_if_no_peer_cert = false"], "optional"),
    ],
)
def test_rabbitmq_peer_verification(lines: list[str], verify: str, tmp_path: Path) -> None:
    text = "".join(f"ssl_options.{line}\n" for line in lines)
    for part in ("certfile", "keyfile", "cacertfile"):
        text += f"ssl_options.{part} = /dev/null\n"
    assert read_conf(tmp_path, text).tls_verify == verify


@pytest.mark.rule("O-2.5", "AM-3")
def test_rabbitmq_lists_have_a_number_a_line(tmp_path: Path) -> None:
    """In the order of the numbers; the numbers themselves mean nothing."""
    tls = "".join(f"ssl_options.{part} = /dev/null\n" for part in ("certfile", "keyfile"))
    settings = read_conf(
        tmp_path,
        f"""
        {tls}
        ssl_options.cacertfile = /dev/null
        ssl_options.verify = verify_peer
        ssl_options.versions.1 = tlsv1.3
        ssl_options.depth = 2
        ssl_options.password = secret
        auth_mechanisms.10 = AMQPLAIN
        auth_mechanisms.2 = PLAIN
        auth_mechanisms.1 = EXTERNAL
        ssl_cert_login_from = subject_alt_name
        ssl_cert_login_san_type = email
        ssl_cert_login_san_index = 1
        """,
    )
    assert settings.auth_mechanisms == ("EXTERNAL", "PLAIN", "AMQPLAIN")
    assert settings.tls_versions == ("tlsv1.3",)
    assert (settings.tls_depth, settings.tls_password) == (2, "secret")
    assert settings.tls_cert_login_from == "subject_alternative_name"
    assert (settings.tls_cert_login_san_type, settings.tls_cert_login_san_index) == ("email", 1)
    assert settings.origin("auth_mechanisms").endswith(".conf:12")


def test_later_sources_win_and_origins_say_which(tmp_path: Path) -> None:
    file = tmp_path / "w.toml"
    file.write_text("port = 1\nbacklog = 1\nheartbeat_s = 1\n")
    env = {"WARREN_BACKLOG": "2", "WARREN_HEARTBEAT_S": "2", "OTHER": "x"}
    settings = load(file=file, env=env, options=[Entry("heartbeat_s", "3", "--heartbeat-s")])
    assert (settings.port, settings.backlog, settings.heartbeat_s) == (1, 2, 3)
    assert settings.origin("port") == f"{file}:1"
    assert settings.origin("backlog") == "WARREN_BACKLOG"
    assert settings.origin("heartbeat_s") == "--heartbeat-s"
    assert settings.origin("bind") == "default"


def test_the_environment_may_name_the_file_and_the_option_wins(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("port = 1\n")
    (tmp_path / "b.toml").write_text("port = 2\n")
    env = {"WARREN_CONFIG": str(tmp_path / "a.toml")}
    assert load(env=env).port == 1
    assert load(env=env, file=tmp_path / "b.toml").port == 2


@pytest.mark.rule("O-2.1")
def test_a_later_duplicate_wins_in_a_conf_file(tmp_path: Path) -> None:
    settings = read_conf(tmp_path, "heartbeat = 1\nheartbeat = 2\n")
    assert settings.heartbeat_s == 2
    assert settings.origin("heartbeat_s").endswith(":2")


def test_toml_tables_are_joined_to_their_keys(tmp_path: Path) -> None:
    text = '[log]\nlevel = "debug"\n[vm_memory_high_watermark]\nrelative = 0.5\n'
    settings = read_toml(tmp_path, text + '[server_properties]\nproduct = "W"\n')
    assert settings.log_level == "debug"
    assert settings.vm_memory_high_watermark == 0.5
    assert settings.server_properties == {"product": "W"}
    assert settings.origin("log_level") == f"{tmp_path}/warren.toml:2"


def test_relative_paths_in_a_file_are_relative_to_it(tmp_path: Path) -> None:
    assert read_toml(tmp_path, 'log_file = "x.log"\n').log_file == tmp_path / "x.log"
    assert read_conf(tmp_path, "data_dir = d\n").data_dir == tmp_path / "d"


@pytest.mark.rule("O-2.2")
def test_all_problems_are_told_at_once_with_file_line_key_and_reason(tmp_path: Path) -> None:
    text = "prot = 5\nheartbeat = soon\nnonsense\nnet_ticktime = 1\nlog.file.levl = x\n"
    with pytest.raises(ConfigError) as refusal:
        read_conf(
            tmp_path, text, env={"WARREN_PORRT": "1"}, options=[Entry("backlog", "0", "--backlog")]
        )
    file = f"{tmp_path}/rabbitmq.conf"
    assert problems(refusal) == [
        f"{file}:3: expected `key = value`",
        f"{file}:1: prot: unknown setting; did you mean port?",
        f"{file}:2: heartbeat: expected a whole number from 0 to 65535, got 'soon'",
        f"{file}:5: log.file.levl: unknown setting; did you mean log.file.level?",
        "WARREN_PORRT: porrt: unknown setting; did you mean port?",
        "--backlog: backlog: expected a whole number from 1 to 65535, got 0",
    ]


@pytest.mark.rule("O-2.2")
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("port", "65536"),
        ("port", "-1"),
        ("port", "\u0665"),
        ("port", "1_0"),
        ("frame_max", "4095"),
        ("frame_max", "1 XB"),
        ("max_message_size", "536870913"),
        ("max_message_size", "0"),
        ("tls_verify", "maybe"),
        ("tls_versions", "tlsv1.1"),
        ("auth_mechanisms", "plain"),
        ("log_level", "loud"),
        ("log_console", "perhaps"),
        ("node_name", "no-at-sign"),
        ("default_user", ""),
        ("default_user", "x" * 256),
        ("default_vhost", "a\nb"),
        ("vm_memory_high_watermark", "nan"),
        ("vm_memory_high_watermark", "-0.1"),
        ("loopback_users", "a,,b"),
        ("extra_listeners", "nowhere"),
        ("server_properties", "novalue"),
        ("credit_flow_default_credit", "400"),
        ("credit_flow_default_credit", "200,400"),
        ("msg_store_credit_disc_bound", "4000,0"),
        ("vm_memory_high_watermark_absolute", "1 GB"),
        ("disk_free_limit", "1TB"),
        ("disk_free_limit_relative", "-1"),
        ("data_dir", ""),
        ("listeners.tcp.1", "1.2.3.4:99999"),
        ("listeners.tcp.1", ":5672"),
        ("listeners.tcp", "5672"),
        ("ssl_options.verify", "x"),
    ],
)
def test_values_out_of_range_are_refused(name: str, text: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        load(env={}, options=[Entry(name, text, "--set")])
    assert len(refusal.value.problems) == 1
    assert refusal.value.problems[0].key == name


@pytest.mark.rule("O-2.2")
@pytest.mark.parametrize(
    "line", ['port = "5672"', "port = true", "log_console = 1", "bind = 1", "port = [1]"]
)
def test_toml_values_must_have_their_type(line: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"warren.toml:1: {line.split()[0]}: expected")):
        read_toml(tmp_path, line)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("gone.toml", None, "cannot be read: No such file"),
        ("bad.toml", b"port = \n", r"Invalid value \(at line 1"),
        ("bin.conf", b"\n\xff\xfe", "bin.conf:2: is not UTF-8"),
        ("deep.toml", b"a = " + b"[" * 5000 + b"]" * 5000, "nested"),
        ("big.conf", b"#" * (1 << 20) + b"#", "larger than"),
    ],
)
def test_a_file_that_cannot_be_read_is_a_problem(
    name: str, content: bytes | None, words: str, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigError, match=words):
        load(file=tmp_path / name, env={})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"tls_certfile": "/dev/null"}, "needs tls_keyfile"),
        ({"tls_port": "1"}, "no effect without tls_certfile"),
        ({"tls_verify": "required"}, "needs tls_cafile"),
        ({"tls_versions": "none"}, "tls_versions: needs at least one"),
        ({"auth_mechanisms": "none"}, "nobody could log in"),
        ({"auth_mechanisms": "EXTERNAL,PLAIN"}, "EXTERNAL needs tls_certfile and tls_verify"),
        ({"tls_certfile": "/nope", "tls_keyfile": "/dev/null"}, "cannot be read: /nope"),
        ({"data_dir": "/" + "x" * 120}, "set control_socket to a shorter one"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(given: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        load(env={}, options=[Entry(name, text, "--set") for name, text in given.items()])


def test_kubernetes_service_links_are_no_settings() -> None:
    env = {
        "WARREN_PORT": "tcp://10.96.0.1:5672",
        "WARREN_PORT_5672_TCP_ADDR": "10.96.0.1",
        "WARREN_SERVICE_HOST": "10.96.0.1",
        "WARREN_PURE": "1",
    }
    assert load(env=env).port == 5672


def test_secrets_are_neither_shown_nor_in_the_representation() -> None:
    settings = load(env={"WARREN_DEFAULT_PASS": "hunter2"})
    assert settings.default_pass == "hunter2"
    assert settings.shown("default_pass") == "***"
    assert "hunter2" not in repr(settings)


def test_values_are_shown_for_people() -> None:
    settings = load(env={"WARREN_SERVER_PROPERTIES": "a=b", "WARREN_CONSUMER_TIMEOUT_MS": "none"})
    shown = {name: settings.shown(name) for name in KEYS}
    assert shown["server_properties"] == "a=b"
    assert shown["consumer_timeout_ms"] == "none"
    assert shown["tcp_nodelay"] == "true"
    assert shown["loopback_users"] == "guest"


def test_derived_values_follow_the_settings(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, node_name="a@b")
    assert settings.socket_path() == tmp_path / "control.sock"
    assert settings.cluster() == "a@b"
    assert Settings(control_socket=tmp_path / "s").socket_path() == tmp_path / "s"
    assert Settings(cluster_name="c").cluster() == "c"
