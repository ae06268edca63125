"""Every method of every class is there, with its numbers, its reply and its nowait (1.2)."""

from typing import Any

import pytest

from tests.support.channel import Channel
from tests.support.wire import Client


@pytest.mark.rule("MT-1", "NG-8")
def test_connection_close_is_answered(client: Client) -> None:
    client.send(0, "connection.close", reply_code=200, reply_text="bye")
    client.expect("connection.close-ok", channel=0)


@pytest.mark.rule("MT-2")
def test_channel_open_flow_close(client: Client) -> None:
    channel = client.channel(9)
    channel.flow(True)
    channel.close()
    channel.reopen().close()


@pytest.mark.rule("MT-4")
def test_exchange_methods(channel: Channel, unique: Any) -> None:
    """The reply to unbind is method 51, not 41."""
    one, other = unique("one"), unique("other")
    channel.exchange_declare(one, "fanout")
    channel.exchange_declare(other, "direct")
    channel.exchange_bind(other, one, "key")
    channel.send("exchange.unbind", destination=other, source=one, routing_key="key")
    channel.expect("exchange.unbind-ok")
    channel.exchange_delete(one)


@pytest.mark.rule("MT-5")
def test_queue_methods(channel: Channel, unique: Any) -> None:
    name = unique("q")
    declared = channel.queue_declare(name)
    assert (declared.queue, declared.message_count, declared.consumer_count) == (name, 0, 0)
    channel.queue_bind(name, "amq.direct", name)
    channel.publish(b"1", exchange="amq.direct", routing_key=name)
    channel.publish(b"2", exchange="amq.direct", routing_key=name)
    assert channel.queue_purge(name).message_count == 2
    channel.queue_unbind(name, "amq.direct", name)
    channel.publish(b"3", routing_key=name)
    assert channel.queue_delete(name).message_count == 1


@pytest.mark.rule("MT-6")
def test_basic_methods(channel: Channel, queue: str) -> None:
    channel.qos(10)
    channel.publish(b"1", routing_key=queue)
    message = channel.get(queue)
    assert (message.delivery_tag, message.redelivered, message.message_count) == (1, False, 0)
    assert (message.exchange, message.routing_key) == ("", queue)
    channel.reject(1, requeue=True)
    tag = channel.consume(queue, "mine")
    delivery = channel.recv_delivery()
    assert (delivery.consumer_tag, delivery.delivery_tag) == (tag, 2)
    assert (delivery.redelivered, delivery.exchange, delivery.routing_key) == (True, "", queue)
    channel.nack(2, requeue=True)
    assert channel.recv_delivery().delivery_tag == 3
    channel.recover()
    assert channel.recv_delivery().delivery_tag == 4
    channel.send("basic.recover-async", requeue=True)
    assert channel.recv_delivery().delivery_tag == 5
    channel.ack(5)
    channel.cancel(tag)
    assert channel.get(queue) is None


@pytest.mark.rule("MT-6", "PB-3")
def test_basic_return(channel: Channel) -> None:
    channel.publish(b"body", routing_key="nowhere", mandatory=True, message_id="id")
    returned = channel.expect("basic.return", reply_code=312, reply_text="NO_ROUTE")
    assert (returned.exchange, returned.routing_key) == ("", "nowhere")
    assert (returned.body, returned.properties) == (b"body", {"message_id": "id"})


@pytest.mark.rule("MT-7")
def test_confirm_select(channel: Channel, queue: str) -> None:
    channel.confirm_select()
    channel.publish(b"1", routing_key=queue)
    channel.expect("basic.ack", delivery_tag=1)


@pytest.mark.rule("MT-8")
def test_tx_methods(channel: Channel, queue: str) -> None:
    channel.tx_select()
    channel.publish(b"1", routing_key=queue)
    channel.tx_rollback()
    assert channel.get(queue) is None
    channel.publish(b"2", routing_key=queue)
    channel.tx_commit()
    assert channel.get(queue).body == b"2"


@pytest.mark.rule("MT-9")
def test_nowait_means_no_reply(channel: Channel, unique: Any) -> None:
    """Each does its work; the only events are those of the consumer."""
    queue, exchange, other = unique("q"), unique("x"), unique("y")
    channel.exchange_declare(exchange, "fanout", nowait=True)
    channel.exchange_declare(other, "fanout", nowait=True)
    channel.exchange_bind(other, exchange, nowait=True)
    channel.queue_declare(queue, nowait=True)
    channel.queue_bind(queue, other, nowait=True)
    channel.publish(b"purged", exchange=exchange)
    channel.queue_purge(queue, nowait=True)
    channel.confirm_select(nowait=True)
    channel.publish(b"delivered", exchange=exchange)
    channel.expect("basic.ack", delivery_tag=1)
    channel.consume(queue, "tag", nowait=True)
    assert channel.recv_delivery().body == b"delivered"
    channel.cancel("tag", nowait=True)
    channel.exchange_unbind(other, exchange, nowait=True)
    channel.publish(b"nowhere", exchange=exchange)
    channel.expect("basic.ack", delivery_tag=2)
    channel.exchange_delete(exchange, nowait=True)
    channel.queue_delete(queue, nowait=True)
    channel.sync()
    assert channel.client.inbox == []
    channel.send("queue.declare", queue=queue, passive=True)
    channel.expect_close(404, f"NOT_FOUND - no queue '{queue}' in vhost '/'")


@pytest.mark.rule("MT-9")
def test_nowait_does_not_hide_errors(channel: Channel) -> None:
    channel.send("queue.bind", queue="missing", exchange="amq.direct", nowait=True)
    channel.expect_close(404, "NOT_FOUND - no queue 'missing' in vhost '/'", method="queue.bind")
