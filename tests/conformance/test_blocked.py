"""Connections that publish during an alarm: who is told, and who is not (NG-10, NT-1 to NT-5)."""

import pytest

from tests.conformance.test_heartbeat import heard
from tests.support.fixtures import StartBroker, StartTimed

ALARM = {"vm_memory_high_watermark.relative": "0.0"}
CAPABLE = {"capabilities": {"connection.blocked": True}}


@pytest.mark.slow
@pytest.mark.rule("NG-10", "NT-1", "NT-2", "NT-4", "NT-5", "AL-3")
def test_a_capable_client_is_told_once_at_its_first_publish(start_broker: StartBroker) -> None:
    """Opening, declaring and consuming go on as ever; the capability decides who is told."""
    broker = start_broker(settings=ALARM)
    told = broker.connect(client_properties=CAPABLE)
    untold = broker.connect(client_properties={})
    consumer = broker.connect(client_properties=CAPABLE)
    for client in (told, untold, consumer):
        channel = client.channel()
        queue = channel.queue_declare(exclusive=True).queue
        channel.consume(queue)
    for client in (told, untold):
        for _ in range(3):
            client.send(1, "basic.publish", routing_key="nowhere")
            client.send_content(1, b"x")
    told.expect("connection.blocked", channel=0, reason="low on memory")
    told.expect_nothing()
    untold.expect_nothing()
    consumer.channel().queue_declare(exclusive=True)
    assert consumer.inbox == []


@pytest.mark.rule("HB-1", "HB-3", "HT-1")
def test_heartbeats_of_a_blocked_client_are_not_missed(start_timed: StartTimed) -> None:
    """The broker goes on sending its own; a silent client that did not publish is dropped."""
    broker = start_timed(**ALARM)
    blocked = broker.connect(client_properties=CAPABLE, heartbeat=1)
    blocked.channel().publish(b"x", routing_key="nowhere")
    blocked.expect("connection.blocked", channel=0)
    idle = broker.connect(heartbeat=1)
    broker.pass_time(5)
    idle.expect_socket_closed()
    before = heard(blocked)
    broker.pass_time(2.5)
    assert heard(blocked) >= before + 2
