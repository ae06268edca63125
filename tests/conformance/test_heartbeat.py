"""Heartbeats in both directions (rules HT-1, HT-2)."""

import time

import pytest

from tests.support.codec import FRAME_BODY, FRAME_HEADER, FRAME_HEARTBEAT, frame, header_payload
from tests.support.expectation import NothingCame, starting
from tests.support.fixtures import Connect
from tests.support.timed import Timed
from tests.support.wire import Client


def heard(client: Client) -> int:
    """How many heartbeats have come so far, and nothing else."""
    try:
        event = client.receive(time.monotonic() + 0.05)
    except NothingCame:
        return len(client.heartbeats)
    raise AssertionError(f"expected heartbeats only, got {event}")


@pytest.mark.rule("HT-1")
def test_the_server_sends_when_it_has_nothing_else_to_send(timed: Timed) -> None:
    """A heartbeat of 2 s: one frame about every second, as long as the client is heard."""
    client = timed.connect(heartbeat=2)
    for seconds in range(1, 6):
        client.send_heartbeat()
        timed.pass_time(1.0)
        assert seconds - 1 <= heard(client) <= seconds + 1


@pytest.mark.slow
@pytest.mark.rule("HT-1")
def test_a_silent_client_is_dropped_without_a_method(connect: Connect) -> None:
    """After 2 to 3 intervals; heartbeats that the server sends do not keep it alive."""
    client = connect(heartbeat=1)
    assert 1.5 < client.expect_socket_closed(within=6) < 4.5


@pytest.mark.rule("HT-1")
def test_a_client_that_sends_heartbeats_stays(timed: Timed) -> None:
    client = timed.connect(heartbeat=1)
    for _ in range(5):
        timed.pass_time(0.9)
        client.send_heartbeat()
    client.close()


@pytest.mark.rule("HT-1")
def test_any_traffic_counts_as_a_sign_of_life(timed: Timed) -> None:
    """Even single octets of a frame that is not complete."""
    client = timed.connect(heartbeat=1)
    channel = client.channel()
    queue = channel.queue_declare(exclusive=True).queue
    channel.send("basic.publish", routing_key=queue)
    rest = frame(FRAME_HEADER, 1, header_payload(6)) + frame(FRAME_BODY, 1, b"stream")
    step = len(rest) // 6 + 1
    for at in range(0, len(rest), step):
        timed.pass_time(0.9)
        client.send_raw(rest[at : at + step])
    assert channel.get(queue).body == b"stream"
    client.close()


@pytest.mark.rule("HT-1", "TN-3")
def test_zero_turns_heartbeats_off(timed: Timed) -> None:
    silent, watched = timed.connect(heartbeat=0), timed.connect(heartbeat=1)
    timed.pass_time(5)
    watched.expect_socket_closed()
    assert heard(silent) == 0
    silent.close()


@pytest.mark.rule("HT-2", "CE-24")
def test_a_heartbeat_on_a_channel_is_refused(client: Client) -> None:
    client.channel()
    client.send_frame(FRAME_HEARTBEAT, 1, b"")
    client.expect_close(505, starting("UNEXPECTED_FRAME - type 8, "), method=(0, 0))


@pytest.mark.rule("HT-2", "CE-25")
@pytest.mark.parametrize("channel", [0, 1])
def test_a_heartbeat_with_a_payload_is_refused(client: Client, channel: int) -> None:
    client.channel()
    client.send_frame(FRAME_HEARTBEAT, channel, b"alive")
    client.expect_close(501, starting("FRAME_ERROR - type 8, "), method=(0, 0))
