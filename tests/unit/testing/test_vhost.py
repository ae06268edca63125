"""The helpers of a virtual host: they do what a client does, and say what a client is told."""

import threading

import pytest

from tests.support.wire import Client
from warren.testing import Broker, NotInTimeError, RefusedError


def test_publish_and_get(warren_broker: Broker) -> None:
    name = warren_broker.declare_queue("orders", durable=True)
    assert name == "orders"
    assert warren_broker.publish(
        "hello", "orders", headers={"tries": 3, "tags": ["a", None]}, priority=5, app_id="test"
    )
    message = warren_broker.get("orders")
    assert message is not None
    assert message.body == b"hello"
    assert message.text == "hello"
    assert (message.exchange, message.routing_key) == ("", "orders")
    assert message.headers == {"tries": 3, "tags": ["a", None]}
    assert message.properties == {"priority": 5, "app_id": "test"}
    assert not message.redelivered
    assert warren_broker.get("orders") is None


def test_a_dict_goes_as_json(warren_broker: Broker) -> None:
    warren_broker.declare_queue("q")
    warren_broker.publish({"id": 1}, "q")
    message = warren_broker.get("q")
    assert message is not None
    assert message.body == b'{"id": 1}'
    assert message.properties == {"content_type": "application/json"}


@pytest.mark.parametrize("size", [0, 1, 131_064, 131_065, 3_000_000])
def test_bodies_of_any_size(warren_broker: Broker, size: int) -> None:
    body = bytes(index % 251 for index in range(size))
    warren_broker.declare_queue("q")
    warren_broker.publish(body, "q")
    message = warren_broker.get("q")
    assert message is not None
    assert message.body == body


def test_what_reaches_no_queue(warren_broker: Broker) -> None:
    assert not warren_broker.publish("lost", "nowhere")
    warren_broker.declare_exchange("topics", "topic")
    queue = warren_broker.declare_queue()
    warren_broker.bind(queue, "topics", "order.*")
    assert warren_broker.publish("a", "order.new", exchange="topics")
    assert not warren_broker.publish("b", "invoice.new", exchange="topics")
    assert [one.body for one in warren_broker.get_all(queue)] == [b"a"]


def test_topology_comes_and_goes(warren_broker: Broker) -> None:
    warren_broker.declare_exchange("from")
    warren_broker.declare_exchange("to", "fanout", durable=True)
    queue = warren_broker.declare_queue("q", arguments={"x-max-priority": 3})
    warren_broker.bind_exchange("to", "from", "key")
    warren_broker.bind(queue, "to")
    for _ in range(3):
        warren_broker.publish("x", "key", exchange="from")
    assert warren_broker.ready("q") == 3
    assert warren_broker.purge("q") == 3
    found = warren_broker.queue("q")
    assert found is not None
    assert found.arguments == {"x-max-priority": 3}
    assert (found.durable, found.exclusive, found.auto_delete) == (False, False, False)
    warren_broker.delete_exchange("to")
    assert not warren_broker.publish("x", "key", exchange="from")
    warren_broker.delete_queue("q")
    assert warren_broker.queue("q") is None
    assert warren_broker.queues() == []


def test_a_refusal_has_the_code_a_client_gets(warren_broker: Broker) -> None:
    with pytest.raises(RefusedError, match="404 NOT_FOUND") as refused:
        warren_broker.get("missing")
    assert refused.value.code == 404
    warren_broker.declare_queue("q")
    with pytest.raises(RefusedError, match="406 PRECONDITION_FAILED"):
        warren_broker.declare_queue("q", durable=True)
    with pytest.raises(RefusedError, match="404"):
        warren_broker.publish("x", "q", exchange="missing")


def test_the_helpers_leave_no_trace(warren_broker: Broker) -> None:
    warren_broker.declare_queue("q")
    warren_broker.publish("x", "q")
    assert warren_broker.connections() == []
    names = [one.name for one in warren_broker.log()]
    assert names == [
        "store.recovered",
        "metadata.restored",
        "memory.limit_set",
        "listener.started",
        "disk.limit_set",
        "disk.monitoring_started",
        "node.started",
    ]


def test_counts_of_a_queue(warren_broker: Broker) -> None:
    warren_broker.declare_queue("q")
    for _ in range(5):
        warren_broker.publish("x", "q")
    with Client(warren_broker.host, warren_broker.port).open() as client:
        channel = client.channel()
        channel.qos(2)
        channel.consume("q")
        found = warren_broker.wait_for_queue("q", consumers=1, unacked=2)
        assert (found.ready, found.unacked, found.consumers) == (3, 2, 1)
        assert str(found) == "q in /: 3 ready, 2 unacked, 1 consumers"
        assert (warren_broker.ready("q"), warren_broker.unacked("q")) == (3, 2)
        assert warren_broker.consumers("q") == 1
        connection = warren_broker.connections()[0]
        assert (connection.user, connection.vhost, connection.channels) == ("guest", "/", 1)
    assert (warren_broker.ready("missing"), warren_broker.consumers("missing")) == (0, 0)


def test_receive_waits_for_the_message(warren_broker: Broker) -> None:
    warren_broker.declare_queue("q")
    later = threading.Timer(0.02, warren_broker.publish, ("late", "q"))
    later.start()
    assert warren_broker.receive("q").body == b"late"
    later.join()


def test_a_wait_in_vain_shows_what_is_there(warren_broker: Broker) -> None:
    warren_broker.declare_queue("q")
    with pytest.raises(NotInTimeError) as failed:
        warren_broker.wait_for_queue("q", ready=2, consumers=1, within=0.01)
    told = str(failed.value)
    assert told.startswith("not within 0.01 s: queue 'q' with 2 ready, 1 consumers\n")
    assert "q in /: 0 ready, 0 unacked, 0 consumers" in told
    assert "node.started" in told
    with pytest.raises(NotInTimeError, match="the moon is full"):
        warren_broker.wait_until(lambda: False, within=0, what="the moon is full")


def test_a_wait_returns_what_came_true(warren_broker: Broker) -> None:
    warren_broker.declare_queue("q")
    assert warren_broker.wait_until(lambda: warren_broker.queue("q")) is not None


def test_vhosts_are_apart(warren_broker: Broker) -> None:
    one, other = warren_broker.vhost("one"), warren_broker.vhost()
    one.declare_queue("q")
    one.publish("x", "q")
    assert other.name != one.name
    assert other.queue("q") is None
    assert warren_broker.queue("q") is None
    assert warren_broker.vhost("one").ready("q") == 1
    assert one.url == f"amqp://guest:guest@127.0.0.1:{warren_broker.port}/one"
    assert warren_broker.url.endswith("/%2F")
    with Client(warren_broker.host, warren_broker.port).open(vhost="one") as client:
        assert client.channel().get("q").body == b"x"


def test_a_vhost_goes_with_its_block(warren_broker: Broker) -> None:
    with warren_broker.vhost() as place:
        place.declare_queue("q")
        client = Client(warren_broker.host, warren_broker.port).open(vhost=place.name)
    assert client.expect("connection.close", channel=0).reply_code == 320
    client.drop()
    assert place.queues() == []
    with pytest.raises(RefusedError, match="530"):
        place.declare_queue("q")
