"""Verbs that change a running node, seen by a client."""

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
            assert f"{source} alarm: set by hand" in ctl("alarms").out
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
    import json

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
