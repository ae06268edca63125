"""Verbs that change a running node, seen by a client."""

import json
from typing import Any

import pytest

from tests.ctl.conftest import Ctl
from tests.support.broker import Broker

SET = "rabbit_alarm:set_alarm({{resource_limit, %s, node()}, []})."
CLEAR = "rabbit_alarm:clear_alarm({resource_limit, %s, node()})."


def test_a_watermark_blocks_publishers_and_lets_them_go(ctl: Ctl, node: Broker) -> None:
    with node.connect() as client:
        channel = client.channel()
        assert ctl("set_vm_memory_high_watermark", "0.0001").code == 0
        channel.publish(b"x", routing_key="nowhere")
        assert client.wait_for("connection.blocked").reason == "low on memory"
        assert ctl("check_local_alarms").code == 69
        assert ctl("set_vm_memory_high_watermark", "0.4").code == 0
        client.wait_for("connection.unblocked")
        assert ctl("check_local_alarms").code == 0
        client.close()


def test_alarms_by_hand_stay_until_they_are_cleared(ctl: Ctl, node: Broker) -> None:
    with node.connect() as client:
        channel = client.channel()
        for source in ("memory", "disk"):
            assert ctl("eval", SET % source).out == "ok\n"
            channel.publish(b"x", routing_key="nowhere")
            assert client.wait_for("connection.blocked").reason == f"low on {source}"
            # The monitor looks at the memory again, and finds that all is well.
            assert ctl("set_vm_memory_high_watermark", "0.4").code == 0
            assert (
                f"{source.capitalize()} alarm on node rabbit@test: set by hand" in ctl("alarms").out
            )
            assert ctl("eval", CLEAR % source).out == "ok\n"
            client.wait_for("connection.unblocked")
        client.close()


def test_channel_max_holds_for_new_connections(ctl: Ctl, node: Broker) -> None:
    for number in (10, 2047):
        set_env = f"application:set_env(rabbit, channel_max, {number})."
        assert ctl("eval", set_env).out == "ok\n"
        with node.connect() as client:
            assert client.tune is not None
            assert client.tune.channel_max == number
            client.close()


def test_loopback_users_are_replaced(ctl: Ctl) -> None:
    assert ctl("eval", "application:set_env(rabbit, loopback_users, []).").out == "ok\n"
    set_env = 'application:set_env(rabbit, loopback_users, [<<"guest">>, <<"other">>]).'
    assert ctl("eval", set_env).out == "ok\n"


def test_listeners_are_suspended_and_resumed(ctl: Ctl, node: Broker) -> None:
    with node.connect() as client:
        assert ctl("suspend_listeners").code == 0
        refused = ctl("check_port_listener", str(node.port))
        assert refused.code == 69
        client.channel().queue_declare("still")
        assert ctl("resume_listeners").code == 0
        assert ctl("check_port_listener", str(node.port)).code == 0
        assert ctl("check_port_connectivity").code == 0
        client.close()


def test_what_a_connection_is_called_closes_it(ctl: Ctl, node: Broker) -> None:
    with node.connect() as client, node.connect() as other:
        port = str(client.socket.getsockname()[1])
        rows = ctl.rows("list_connections", "pid", "peer_port", "client_properties")
        ((pid, _, properties),) = [row for row in rows if row[1] == port]
        assert properties.startswith("[{")
        assert ctl("close_connection", pid, "go away").code == 0
        client.expect_close(320, "CONNECTION_FORCED - go away")
        other.channel()
        other.close()


def test_status_has_the_keys_of_rabbitmq(ctl: Ctl, node: Broker) -> None:
    found = json.loads(ctl("status", "--formatter", "json").out)
    assert found["rabbitmq_version"] == "3.10.8"
    assert found["vm_memory_high_watermark_setting"] == {"relative": 0.4}
    assert found["listeners"][0]["port"] == node.port
    assert set(found["totals"]) == {"connection_count", "queue_count", "virtual_host_count"}
    text = ctl("status").out
    for head in ("Runtime", "Data directory", "Alarms", "Memory", "File Descriptors", "Totals"):
        assert f"\x1b[1m{head}\x1b[0m\n\n" in text
    assert "\x1b[1mRunning Nodes\x1b[0m\n\nrabbit@test\n" in ctl("cluster_status").out
    settings = json.loads(ctl("environment", "--formatter", "json").out)["warren"]
    assert settings["default_pass"] == "***"
    assert ctl("report").code == 0


def status_of(ctl: Ctl) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ctl("status", "--formatter", "json").out)
    return found


@pytest.mark.rule("DA-4", "AL-1", "NT-2")
def test_a_disk_limit_blocks_publishers_and_lets_them_go(ctl: Ctl, node: Broker) -> None:
    with node.connect() as client:
        channel = client.channel()
        done = ctl("set_disk_free_limit", "1000000GiB")
        assert (done.code, done.out) == (
            0,
            "Setting disk free limit on rabbit@test to 1000000GiB bytes ...\n",
        )
        channel.publish(b"x", routing_key="nowhere")
        assert client.wait_for("connection.blocked").reason == "low on disk"
        failed = ctl("check_local_alarms")
        assert failed.code == 69
        assert "Disk alarm on node rabbit@test" in failed.err
        assert ctl("check_alarms").code == 69
        listed = ctl("alarms")
        assert (listed.code, "Disk alarm on node rabbit@test" in listed.out) == (0, True)
        found = json.loads(ctl("alarms", "--formatter", "json").out)
        assert found["local"] == found["global"] != []
        assert status_of(ctl)["alarms"] == ["Disk alarm on node rabbit@test"]
        done = ctl("set_disk_free_limit", "mem_relative", "0.0")
        assert done.code == 0
        client.wait_for("connection.unblocked")
        assert ctl("check_alarms").code == 0
        assert ctl("check_local_alarms").code == 0
        assert "reported no alarms" in ctl("alarms").out
        client.close()


@pytest.mark.rule("NT-2", "NT-3", "AL-2", "MA-3")
@pytest.mark.parametrize("first", ["memory", "disk"])
def test_both_alarms_are_one_blocked_and_one_unblocked(ctl: Ctl, node: Broker, first: str) -> None:
    clear = {
        "memory": ("set_vm_memory_high_watermark", "0.4"),
        "disk": ("set_disk_free_limit", "50MB"),
    }
    second = "disk" if first == "memory" else "memory"
    with node.connect() as client:
        assert ctl("set_vm_memory_high_watermark", "0").code == 0
        assert ctl("set_disk_free_limit", "1000000GiB").code == 0
        client.channel().publish(b"x", routing_key="nowhere")
        assert client.wait_for("connection.blocked").reason == "low on disk & memory"
        assert len(json.loads(ctl("alarms", "--formatter", "json").out)["local"]) == 2
        assert ctl(*clear[first]).code == 0
        assert ctl("check_alarms").code == 69
        client.expect_nothing()
        assert ctl(*clear[second]).code == 0
        client.expect("connection.unblocked", channel=0)
        assert ctl("check_alarms").code == 0
        client.close()


@pytest.mark.rule("MA-5", "MA-6", "DA-4", "O-1.3")
@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        ("set_vm_memory_high_watermark 1.1", 65, "should be a fraction between 0.0 and 1.0"),
        ("set_vm_memory_high_watermark -0.1", 65, "should be a fraction between 0.0 and 1.0"),
        ("set_vm_memory_high_watermark half", 65, "Bad argument."),
        ("set_vm_memory_high_watermark absolute 0", 65, "Bad argument."),
        ("set_vm_memory_high_watermark absolute 1T", 65, "Invalid units."),
        ("set_vm_memory_high_watermark absolute 1mB", 65, "Invalid units."),
        ("set_vm_memory_high_watermark absolute 1.5GB", 65, "should be an integer"),
        ("set_vm_memory_high_watermark absolute", 64, "not enough arguments."),
        ("set_vm_memory_high_watermark absolute 1 2", 64, "too many arguments."),
        ("set_vm_memory_high_watermark 0.4 0.5", 64, "too many arguments."),
        ("set_vm_memory_high_watermark", 64, "not enough arguments."),
        ("set_disk_free_limit 1XB", 65, "Invalid units."),
        ("set_disk_free_limit 1.5GB", 65, "should be an integer"),
        ("set_disk_free_limit lots", 65, "Bad argument."),
        ("set_disk_free_limit mem_relative -1", 65, "Bad argument."),
        ("set_disk_free_limit mem_relative", 64, "not enough arguments."),
        ("set_disk_free_limit mem_relative 1 2", 64, "too many arguments."),
        ("set_disk_free_limit 1 2", 64, "too many arguments."),
        ("set_disk_free_limit", 64, "not enough arguments."),
    ],
)
def test_limits_that_cannot_be_are_refused(ctl: Ctl, words: str, code: int, text: str) -> None:
    before = status_of(ctl)
    refused = ctl(*words.split())
    assert refused.code == code
    assert text in refused.err
    after = status_of(ctl)
    for name in ("vm_memory_high_watermark_limit", "disk_free_limit"):
        assert after[name] == before[name]


@pytest.mark.rule("MA-5")
@pytest.mark.parametrize(
    ("written", "octets"),
    [
        ("64000000", 64_000_000),
        ("62500k", 64_000_000),
        ("62500kiB", 64_000_000),
        ("62500KiB", 64_000_000),
        ("61M", 61 << 20),
        ("61MiB", 61 << 20),
        ("1G", 1 << 30),
        ("1GiB", 1 << 30),
        ("64000kB", 64_000_000),
        ("64MB", 64_000_000),
        ("1GB", 10**9),
    ],
)
def test_every_unit_on_the_command_line(ctl: Ctl, written: str, octets: int) -> None:
    assert ctl("set_vm_memory_high_watermark", "absolute", written).code == 0
    found = status_of(ctl)
    assert found["vm_memory_high_watermark_setting"] == {"absolute": octets}
    assert found["vm_memory_high_watermark_limit"] == octets
    assert ctl("set_disk_free_limit", written).code == 0
    assert status_of(ctl)["disk_free_limit"] == octets
    assert ctl("set_vm_memory_high_watermark", "0.4").code == 0
    assert ctl("set_disk_free_limit", "50MB").code == 0


@pytest.mark.rule("MA-6", "DA-4", "O-2.3")
def test_limits_by_command_are_lost_at_a_restart(ctl_fresh: Ctl) -> None:
    before = status_of(ctl_fresh)
    assert ctl_fresh("set_vm_memory_high_watermark", "absolute", "900MB").code == 0
    assert ctl_fresh("set_disk_free_limit", "7MB").code == 0
    changed = status_of(ctl_fresh)
    assert (changed["vm_memory_high_watermark_limit"], changed["disk_free_limit"]) == (
        900_000_000,
        7_000_000,
    )
    # The configuration is what the node was started with.
    settings = json.loads(ctl_fresh("environment", "--formatter", "json").out)["warren"]
    assert settings["vm_memory_high_watermark_absolute"] == "none"
    assert settings["disk_free_limit"] == "50000000"
    assert ctl_fresh("stop_app").code == 0
    assert ctl_fresh("start_app").code == 0
    after = status_of(ctl_fresh)
    for name in ("vm_memory_high_watermark_limit", "disk_free_limit"):
        assert after[name] == before[name]
    assert after["disk_free_limit"] == 50_000_000


@pytest.mark.rule("CF-13")
def test_states_are_listed(ctl: Ctl, node: Broker) -> None:
    with node.connect() as client:
        client.channel().queue_declare("listed")
        assert ["running"] in ctl.rows("list_channels", "state")
        assert ["running"] in ctl.rows("list_connections", "state")
        assert ["listed", "running"] in ctl.rows("list_queues", "name", "state")
        client.close()


@pytest.mark.rule("O-1.10", "DA-8")
def test_status_tells_of_the_disk(ctl: Ctl) -> None:
    found = status_of(ctl)
    assert found["disk_free"] > found["disk_free_limit"] == 50_000_000
    text = ctl("status", "--unit", "mb").out
    assert "Low free disk space watermark: 50 mb\n" in text
    assert "Free disk space: " in text
