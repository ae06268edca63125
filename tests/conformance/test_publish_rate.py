"""Limits of publishes a second, over sockets; RabbitMQ has none."""

from typing import Any

import pytest

from tests.support.fixtures import StartTimed
from tests.support.timed import Timed
from tests.support.wire import Client

pytestmark = pytest.mark.differs_from_reference("it has no limit of publishes a second")


def limit(timed: Timed, **definition: int) -> None:
    named = {name.replace("_", "-"): value for name, value in definition.items()}
    timed.broker.command("set_user_limits", user="guest", definition=named)


def steps(timed: Timed, subject: str = "") -> list[dict[str, Any]]:
    """What `why` tells."""
    found = timed.broker.command("why", subject=subject)["steps"]
    assert isinstance(found, list)
    return found


def publish(client: Client, count: int, body: bytes = b"x") -> None:
    for _ in range(count):
        client.send(1, "basic.publish", routing_key="q")
        client.send_content(1, body)
    # When a later method on another channel is answered, these have been looked at.
    client.send(2, "channel.flow", active=True)
    client.expect("channel.flow-ok", channel=2)


@pytest.mark.rule("VH-2")
def test_a_limited_publisher_is_slowed_down_and_told_nothing(timed: Timed) -> None:
    client = timed.connect()
    client.channel().queue_declare("q")
    client.channel()
    limit(timed, max_publish_rate=10, max_publish_burst=5)
    publish(client, 20)
    assert timed.broker.ready("q") == 5
    (shown,) = timed.broker.connections()
    assert shown.state == "flow"
    timed.pass_time(0.55)
    assert timed.broker.ready("q") == 10
    timed.pass_time(1)
    assert timed.broker.ready("q") == 20
    assert client.inbox == []
    timed.pass_time(10)
    (shown,) = timed.broker.connections()
    assert shown.state == "running"


def test_why_names_the_limit(timed: Timed) -> None:
    client, idle = timed.connect(), timed.connect()
    client.channel().queue_declare("q")
    client.channel()
    limit(timed, max_publish_rate=0)
    publish(client, 1)
    host, port = client.socket.getsockname()
    for subject in (f"connection:{host}:{port}", "user:guest"):
        (step,) = steps(timed, subject)
        assert step["reason"] == "publish_rate"
        assert step["state"] == "flow"
        assert step["setting"] == "max-publish-rate"
        assert "user 'guest' may" in step["fact"]
    host, port = idle.socket.getsockname()
    assert steps(timed, f"connection:{host}:{port}") == []
    assert steps(timed, "vhost:/") == []
    timed.broker.command("clear_user_limits", user="guest", limit="all")
    timed.pass_time(0.1)
    assert timed.broker.ready("q") == 1


@pytest.mark.rule("CF-11")
def test_past_the_budget_the_socket_rests_and_is_read_on(start_timed: StartTimed) -> None:
    """Everything comes in its order, however much was sent ahead."""
    timed = start_timed(parked_bytes_max="20000")
    client = timed.connect()
    channel = client.channel()
    channel.queue_declare("q")
    limit(timed, max_publish_rate=10, max_publish_burst=10)
    frames = 3000
    for number in range(frames):
        client.send(1, "basic.publish", routing_key="q")
        client.send_content(1, b"%d" % number)
    timed.broker.settle()
    (step, *more) = steps(timed)
    assert {step["reason"], *(one["reason"] for one in more)} == {"publish_rate", "parked_budget"}
    timed.pass_time(5)
    assert timed.broker.ready("q") == 60
    limit(timed, max_publish_rate=-1)
    timed.pass_time(1)
    channel.queue_declare("end")
    assert timed.broker.ready("q") == frames
    got = [message.body for message in timed.broker.get_all("q")]
    assert got == [b"%d" % number for number in range(frames)]


@pytest.mark.rule("HB-1", "HB-3")
def test_a_slowed_down_client_is_not_dropped_for_silence(timed: Timed) -> None:
    """As with an alarm: what it sends may lie behind what is not read."""
    client = timed.connect(heartbeat=1)
    client.channel().queue_declare("q")
    client.channel()
    limit(timed, max_publish_rate=0)
    publish(client, 1)
    timed.pass_time(10)
    client.channel()


def test_a_limit_survives_a_restart(start_timed: StartTimed) -> None:
    timed = start_timed()
    limit(timed, max_publish_rate=0)
    timed.broker.restart()
    client = timed.connect()
    client.channel().queue_declare("q")
    client.channel()
    publish(client, 3)
    assert timed.broker.ready("q") == 0
