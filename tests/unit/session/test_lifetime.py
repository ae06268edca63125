"""What ended is gone at once: the broker runs with the cycle collector switched off."""

import gc
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.support.machine import Machine, Peer, method, publish
from warren.queues import Consumer, Outlet, Queue
from warren.session import Connection
from warren.session.channel import Channel, Transaction

KINDS = (Connection, Channel, Consumer, Queue, Outlet, Transaction)


@pytest.fixture
def uncollected() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def alive() -> Counter[str]:
    return Counter(type(each).__name__ for each in gc.get_objects() if type(each) in KINDS)


def use(client: Peer, number: int) -> None:
    """Leave behind everything a connection can hold, by turns."""
    own = f"own-{number}"
    client.feed(
        b"".join(method(each, "channel.open") for each in (1, 2, 3)),
        method(1, "queue.declare", queue=own, exclusive=True),
        method(1, "queue.bind", queue=own, exchange="amq.topic", routing_key="a.#"),
        method(2, "basic.qos", prefetch_count=2),
        method(1, "basic.consume", queue=own, consumer_tag="a"),
        method(2, "basic.consume", queue="shared", consumer_tag="b"),
        method(2, "basic.consume", queue="amq.rabbitmq.reply-to", no_ack=True),
        method(3, "tx.select"),
        publish(3, b"in a transaction", "shared"),
        publish(1, b"1", "a.b", exchange="amq.topic"),
        publish(1, b"2", own),
        *[publish(1, b"x", "shared") for _ in range(4)],
        method(3, "basic.get", queue="shared"),
        method(3, "basic.ack", delivery_tag=1),
        method(2, "confirm.select"),
        publish(2, b"y" * 9000, "shared", frame_max=4096),
    )
    assert "channel.close" not in {event.name for event in client.inbox}


def leave(client: Peer, way: int) -> None:
    """End a connection in every way there is."""
    if way == 0:
        client.send(0, "connection.close")
        client.drop()
    elif way == 1:
        for number in (1, 2, 3):
            client.send(number, "channel.close")
        client.drop()
    elif way == 2:
        client.feed(publish(1, b"x" * 10_000, "shared")[:6000])
        client.drop()
    elif way == 3:
        client.feed(b"\x01\x00\x00\x00\x00\x00\x00\x00\x00")
        client.machine.pass_time(4)
    elif way == 4:
        client.send(1, "basic.ack", delivery_tag=99)
        client.send(2, "channel.open")
        client.send(0, "connection.close-ok")
    elif way == 5:
        client.machine.alarm(on=True)
        client.publish(1, b"parked", "shared")
        client.drop()
        client.machine.alarm(on=False)
    elif way == 6:
        client.reads = False
        client.feed(*[publish(1, b"x" * 1000, "a.b", exchange="amq.topic") for _ in range(3)])
        client.drop()
    else:
        client.machine.vhost.delete_queue(client.machine.vhost.queues["shared"])
        client.drop()
        client.machine.vhost.add_queue(
            "shared", durable=False, auto_delete=False, owner=0, arguments={}
        )
    assert not client.alive()


@pytest.mark.slow
@pytest.mark.rule("EX-3", "EX-4", "QD-2")
@pytest.mark.usefixtures("uncollected")
def test_a_thousand_connections_leave_nothing() -> None:
    machine = Machine()
    first = machine.client()
    first.channel()
    first.queue("shared")
    before = alive()
    assert min(before["Connection"], before["Channel"], before["Queue"]) >= 1
    for number in range(1000):
        client = machine.client()
        use(client, number)
        leave(client, number % 8)
        del client
        machine.vhost.queues["shared"].purge()
        machine.turn()
        first.inbox.clear()
    assert alive() == before
    assert list(machine.vhost.queues) == ["shared"]
    assert machine.broker.reply_addresses == {}
    assert machine.broker.waits.all() == []
    assert machine.vhost.connections == 1
    usage = machine.broker.usage_of("guest")
    assert (usage.connections, usage.channels) == (1, 1)
    first.drop()
    assert machine.broker.usages == {}


@pytest.mark.usefixtures("uncollected")
def test_a_handshake_that_failed_leaves_nothing() -> None:
    machine = Machine()
    before = alive()
    for sent in (b"HTTP/1.1", b"AMQP\x00\x00\x09\x01", b"AMQP\x00\x00\x09\x01\x01\x00\x00\xff"):
        peer = machine.peer()
        peer.feed(sent)
        machine.pass_time(15)
        assert not peer.alive()
        del peer
    assert alive() == before


@pytest.mark.usefixtures("uncollected")
def test_channels_that_come_and_go_leave_nothing() -> None:
    machine = Machine()
    client = machine.client()
    client.channel(9)
    client.queue("q", 9)
    before = alive()
    for _ in range(200):
        client.channel(1)
        client.consume("q", 1)
        client.publish(1, b"x", "q")
        client.send(1, "basic.reject", delivery_tag=77)
        client.send(1, "channel.close-ok")
        client.inbox.clear()
        client.channel(2)
        client.consume("q", 2)
        client.send(2, "channel.close")
        client.inbox.clear()
        machine.vhost.queues["q"].purge()
        machine.turn()
    assert alive() == before
