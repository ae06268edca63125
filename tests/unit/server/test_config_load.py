"""Where configuration files are found, in which order they count, and what is only noted."""

from pathlib import Path

import pytest

from tests.support.document import document
from warren.server.config_entry import ConfigError, Entry
from warren.server.config_load import load
from warren.server.rabbit_known import APPLICATIONS, KNOWN, known


def write(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


@pytest.mark.rule("O-2.1", "O-2.8")
def test_rabbitmqs_variables_name_the_files(tmp_path: Path) -> None:
    main = write(tmp_path / "rabbitmq.conf", "heartbeat = 1\nbacklog = 1\nframe_max = 5000\n")
    write(tmp_path / "conf.d/10-a.conf", "backlog = 2\nchannel_max = 2\n")
    write(tmp_path / "conf.d/20-b.conf", "channel_max = 3\n")
    write(tmp_path / "conf.d/ignored.txt", "nonsense")
    advanced = write(tmp_path / "advanced.config", "[{rabbit, [{frame_max, 6000}]}].")
    env = {
        "RABBITMQ_CONFIG_FILE": main,
        "RABBITMQ_CONFIG_FILES": str(tmp_path / "conf.d"),
        "RABBITMQ_ADVANCED_CONFIG_FILE": advanced,
    }
    settings = load(env=env)
    assert (settings.heartbeat_s, settings.backlog, settings.channel_max) == (1, 2, 3)
    assert settings.frame_max == 6000
    assert settings.origin("channel_max") == f"{tmp_path}/conf.d/20-b.conf:1"
    pattern = {**env, "RABBITMQ_CONFIG_FILES": str(tmp_path / "conf.d/1*.conf")}
    assert load(env=pattern).channel_max == 2
    # Warren's own names win.
    own = write(tmp_path / "w.toml", "heartbeat_s = 9\n")
    settings = load(env={**env, "WARREN_CONFIG": own, "WARREN_FRAME_MAX": "7000"})
    assert (settings.heartbeat_s, settings.backlog, settings.frame_max) == (9, 1024, 7000)
    settings = load(file=own, env=env)
    assert (settings.heartbeat_s, settings.channel_max, settings.frame_max) == (9, 2047, 6000)


@pytest.mark.rule("O-2.1")
def test_a_name_without_its_end_is_that_of_a_conf_file_first(tmp_path: Path) -> None:
    named = str(tmp_path / "rabbitmq")
    with pytest.raises(ConfigError, match="rabbitmq: cannot be read"):
        load(env={"RABBITMQ_CONFIG_FILE": named})
    write(tmp_path / "rabbitmq.config", "[{rabbit, [{heartbeat, 1}]}].")
    assert load(env={"RABBITMQ_CONFIG_FILE": named}).heartbeat_s == 1
    write(tmp_path / "rabbitmq.conf", "heartbeat = 2")
    assert load(env={"RABBITMQ_CONFIG_FILE": named}).heartbeat_s == 2


@pytest.mark.parametrize(
    "text",
    [
        "[{rabbit, [{heartbeat, 7}]}].",
        "%% one\n[\n  {rabbit,\n   [{heartbeat, 7}]}\n].\n",
        "heartbeat = 7\ndefault_user = bob # a word\n",
        "heartbeat_s = 7\n",
        "heartbeat_s = 7\n[log]\nlevel = 'info'\n",
    ],
)
def test_a_file_of_any_other_name_is_what_it_looks_like(text: str, tmp_path: Path) -> None:
    assert load(file=write(tmp_path / "settings", text), env={}).heartbeat_s == 7


@pytest.mark.rule("O-2.2")
@pytest.mark.parametrize(
    "line",
    [
        "net_ticktime = 120",
        "cluster_partition_handling = autoheal",
        "cluster_partition_handling.pause_if_all_down.nodes.1 = rabbit@a",
        "management.tcp.backlog = 1",
        "management.cors.allow_origins.1 = https://x",
        "log.queue.level = debug",
        "log.file.rotation.date = $D0",
        "tcp_listen_options.keepalive = true",
        "ssl_options.ciphers.1 = X",
        "ssl_options.honor_cipher_order = true",
        "mqtt.listeners.tcp.default = 1883",
        "auth_backends.1 = internal",
        "proxy_protocol = false",
        "default_queue_type = quorum",
    ],
)
def test_what_rabbitmq_knows_and_warren_does_not_is_a_warning(line: str, tmp_path: Path) -> None:
    file = write(tmp_path / "rabbitmq.conf", f"\n{line}\n")
    (note,) = load(file=file, env={}).notes
    assert str(note) == (
        f"{file}:2: {line.split()[0]}: a RabbitMQ setting without effect in Warren"
    )
    assert note.level == "warning"


@pytest.mark.rule("O-2.2")
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("auth_backends.1 = ldap", "only the node's own users here, not ldap"),
        ("auth_backends.1.authn = http", "only the node's own users here, not http"),
        ("proxy_protocol = true", "proxy protocol is not spoken"),
        ("ssl_options.crl_check = peer", "revocation lists are not read"),
    ],
)
def test_what_would_be_unsafe_to_pass_over_is_refused(
    line: str, words: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=words):
        load(file=write(tmp_path / "rabbitmq.conf", line), env={})


@pytest.mark.rule("O-2.2")
@pytest.mark.parametrize("name", ["net_tick", "log.file.levl", "management.tcp.prot", "x.y"])
def test_what_nobody_knows_is_refused(name: str) -> None:
    assert not known(name)
    with pytest.raises(ConfigError, match="unknown setting"):
        load(env={}, options=[Entry(name, "1", "--set")])


@pytest.mark.rule("MA-5")
def test_a_share_wins_over_octets_of_the_same_source_and_a_later_source_over_both(
    tmp_path: Path,
) -> None:
    text = (
        "vm_memory_high_watermark.absolute = 1GB\nvm_memory_high_watermark.relative = 0.5\n"
        "disk_free_limit.relative = 1.5\ndisk_free_limit.absolute = 1GB\n"
    )
    file = write(tmp_path / "rabbitmq.conf", text)
    settings = load(file=file, env={})
    assert settings.vm_memory_high_watermark_absolute is None
    assert (settings.vm_memory_high_watermark, settings.disk_free_limit_relative) == (0.5, 1.5)
    assert [note.key for note in settings.notes] == [
        "vm_memory_high_watermark_absolute",
        "disk_free_limit",
    ]
    options = [
        Entry("vm_memory_high_watermark_absolute", "7MB", "--x"),
        Entry("disk_free_limit", "8MB", "--y"),
    ]
    settings = load(file=file, env={}, options=options)
    assert settings.vm_memory_high_watermark_absolute == 7_000_000
    assert (settings.disk_free_limit, settings.disk_free_limit_relative) == (8_000_000, None)
    assert "disk_free_limit_relative" not in settings.origins
    # And back.
    options = [Entry("vm_memory_high_watermark", "0.1", "--x")]
    file = write(tmp_path / "a.conf", "vm_memory_high_watermark.absolute = 1GB\n")
    settings = load(file=file, env={}, options=options)
    assert (settings.vm_memory_high_watermark, settings.vm_memory_high_watermark_absolute) == (
        0.1,
        None,
    )


@pytest.mark.rule("MA-5")
def test_an_unreadable_limit_is_the_default_in_rabbitmqs_notation_only(tmp_path: Path) -> None:
    file = write(tmp_path / "rabbitmq.conf", "vm_memory_high_watermark.absolute = 1TB\n")
    settings = load(file=file, env={})
    assert settings.vm_memory_high_watermark_absolute is None
    assert [note.level for note in settings.notes] == ["error"]
    with pytest.raises(ConfigError, match="expected a size"):
        load(env={"WARREN_VM_MEMORY_HIGH_WATERMARK_ABSOLUTE": "1TB"})
    with pytest.raises(ConfigError, match="expected a size"):
        load(file=write(tmp_path / "w.toml", 'disk_free_limit = "1TB"\n'), env={})


def test_the_page_lists_what_is_without_effect() -> None:
    """Each name of RabbitMQ's that is passed over, and the applications of the other notation."""
    code = set(document("docs/reference/rabbitmq-settings.md").code())
    names = {name for group in KNOWN.values() for name in group.split()}
    assert names - code == set()
    assert APPLICATIONS - code == set()
