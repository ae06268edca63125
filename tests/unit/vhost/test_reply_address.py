"""Direct reply-to between two connections: alive, forged, outdated (DR-1 to DR-6)."""

import pytest

from tests.support.machine import Machine, Peer
from warren.vhost import PSEUDO_QUEUE


def asked(machine: Machine, client: Peer) -> str:
    """Send a request; return the address its reader finds in it."""
    client.publish(1, b"question", "work", properties={"reply_to": PSEUDO_QUEUE})
    server = machine.client()
    server.channel()
    found = server.call(1, "basic.get", queue="work", no_ack=True)
    server.close()
    address: str = found.properties["reply_to"]
    return address


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
def client(machine: Machine) -> Peer:
    peer = machine.client()
    peer.channel()
    peer.queue("work")
    peer.consume(PSEUDO_QUEUE, consumer_tag="replies", no_ack=True)
    return peer


@pytest.mark.rule("DR-2", "DR-3", "DR-5")
@pytest.mark.parametrize("size", [0, 5, 300_000])
def test_replies_reach_the_channel_that_asked(machine: Machine, client: Peer, size: int) -> None:
    address = asked(machine, client)
    assert address.startswith(PSEUDO_QUEUE + ".")
    server = machine.client()
    server.channel()
    for _ in range(2):
        server.publish(1, b"a" * size, address)
    replies = client.take_all("basic.deliver")
    assert [(each.body, each.delivery_tag, each.redelivered) for each in replies] == [
        (b"a" * size, 1, False)
    ] * 2
    assert {each.consumer_tag for each in replies} == {"replies"}
    assert set(machine.vhost.queues) == {"work"}


@pytest.mark.rule("DR-3", "DR-4", "DR-6")
@pytest.mark.parametrize("end", ["cancel", "channel", "connection", "lost"])
def test_an_address_ends_with_its_consumer(machine: Machine, client: Peer, end: str) -> None:
    address = asked(machine, client)
    server = machine.client()
    server.channel()
    assert server.call(1, "queue.declare", queue=address).consumer_count == 1
    if end == "cancel":
        client.call(1, "basic.cancel", consumer_tag="replies")
    elif end == "channel":
        client.call(1, "channel.close")
    elif end == "connection":
        client.close()
    else:
        client.drop()
    server.call(1, "confirm.select")
    server.publish(1, b"late", address, mandatory=True)
    assert server.take(1, "basic.return").body == b"late"
    assert server.take(1, "basic.ack").delivery_tag == 1
    assert client.take_all("basic.deliver") == []
    assert machine.broker.reply_addresses == {}
    assert server.call(1, "queue.declare", queue=address).reply_code == 404


@pytest.mark.rule("DR-3")
def test_a_forged_address_leads_nowhere(machine: Machine, client: Peer) -> None:
    for token in ("", "A" * 22, "\u00e9"):
        client.publish(1, b"x", f"{PSEUDO_QUEUE}.{token}")
    assert client.take_all() == []
