"""What an exchange keeps comes to new bindings, in order, in slices, and goes with the exchange."""

from tests.support.machine import Machine, Peer
from warren.queues.history import History
from warren.vhost.exchange_memory import REPLAY_SLICE


def ready(length: int = 20, alternate: str = "") -> Peer:
    client = Machine().client()
    client.channel()
    table: dict[str, object] = {"x-recent-history-length": length}
    if alternate:
        table["alternate-exchange"] = alternate
    client.call(1, "exchange.declare", exchange="h", type="x-recent-history", arguments=table)
    return client


def bodies(client: Peer, queue: str) -> list[bytes]:
    found: list[bytes] = []
    while True:
        client.send(1, "basic.get", queue=queue, no_ack=True)
        event = client.take(1)
        if event.name == "basic.get-empty":
            return found
        found.append(event.body)


def publish(client: Peer, numbers: range) -> None:
    for number in numbers:
        client.publish(1, b"%d" % number, "k", exchange="h")


def test_a_new_binding_gets_the_last_messages_in_order() -> None:
    client = ready(3)
    publish(client, range(5))
    client.queue("q")
    client.call(1, "queue.bind", queue="q", exchange="h")
    publish(client, range(5, 6))
    assert bodies(client, "q") == [b"2", b"3", b"4", b"5"]
    # The same binding again is none; another one of the queue is.
    client.call(1, "queue.bind", queue="q", exchange="h")
    assert bodies(client, "q") == []
    client.call(1, "queue.bind", queue="q", exchange="h", routing_key="other")
    assert bodies(client, "q") == [b"3", b"4", b"5"]


def test_a_consumer_that_waits_gets_them_as_well() -> None:
    client = ready()
    publish(client, range(3))
    client.queue("q")
    client.consume("q", no_ack=True)
    client.send(1, "queue.bind", queue="q", exchange="h")
    assert [event.body for event in client.take_all("basic.deliver")] == [b"0", b"1", b"2"]


def test_an_exchange_that_binds_routes_them_by_its_own_rules() -> None:
    client = ready()
    client.publish(1, b"a", "a", exchange="h")
    client.publish(1, b"b", "b", exchange="h")
    client.publish(1, b"cc", "c", exchange="h", properties={"headers": {"CC": ["a"], "n": 1}})
    client.publish(1, b"n", "c", exchange="h", properties={"headers": {"n": 1}})
    for queue, exchange, kind, key, arguments in [
        ("qd", "d", "direct", "a", {}),
        ("qh", "m", "headers", "", {"n": 1}),
    ]:
        client.call(1, "exchange.declare", exchange=exchange, type=kind)
        client.queue(queue)
        client.call(
            1,
            "queue.bind",
            queue=queue,
            exchange=exchange,
            routing_key=key,
            arguments=arguments,
        )
        client.call(1, "exchange.bind", destination=exchange, source="h")
    assert bodies(client, "qd") == [b"a", b"cc"]
    assert bodies(client, "qh") == [b"cc", b"n"]


def test_two_histories_that_feed_each_other_end() -> None:
    client = ready()
    client.call(1, "exchange.declare", exchange="i", type="x-recent-history")
    publish(client, range(2))
    client.call(1, "exchange.bind", destination="i", source="h")
    client.call(1, "exchange.bind", destination="h", source="i")
    client.queue("q")
    client.call(1, "queue.bind", queue="q", exchange="h")
    assert set(bodies(client, "q")) == {b"0", b"1"}


def test_a_long_history_goes_in_slices() -> None:
    client = ready(100_000)
    count = 3 * REPLAY_SLICE + 1
    history = client.machine.vhost.routing.exchange("h").matcher.own
    assert history is not None
    assert isinstance(history.target, History)
    client.publish(1, b"x", "k", exchange="h")
    (only,) = history.target.messages()
    for _ in range(count - 1):
        history.target.publish(only, None, 0)
    client.queue("q")
    queue = client.machine.vhost.queues["q"]
    client.machine.vhost.routing.bind("h", "q", b"", {}, to_queue=True)
    assert queue.ready() == REPLAY_SLICE
    client.machine.turn()
    assert queue.ready() == count
    client.machine.vhost.routing.bind("h", "q", b"2", {}, to_queue=True)
    client.machine.vhost.delete_queue(queue)
    client.machine.turn()
    assert client.machine.broker.turn.chores == []


def test_mandatory_counts_queues_only() -> None:
    client = ready()
    client.publish(1, b"x", "k", exchange="h", mandatory=True)
    assert client.take(1, "basic.return").reply_code == 312
    client.queue("q")
    client.call(1, "queue.bind", queue="q", exchange="h")
    assert bodies(client, "q") == [b"x"]
    client.publish(1, b"y", "k", exchange="h", mandatory=True)
    assert client.take_all() == []
    client.call(1, "tx.select")
    client.call(1, "queue.unbind", queue="q", exchange="h")
    client.publish(1, b"z", "k", exchange="h", mandatory=True)
    client.send(1, "tx.commit")
    assert [event.name for event in client.take_all()] == ["basic.return", "tx.commit-ok"]


def test_the_alternate_exchange_is_used_without_bindings() -> None:
    client = ready(alternate="amq.fanout")
    client.queue("rest")
    client.call(1, "queue.bind", queue="rest", exchange="amq.fanout")
    publish(client, range(1))
    assert bodies(client, "rest") == [b"0"]


def test_a_deleted_exchange_forgets_and_a_new_one_begins_empty() -> None:
    client = ready()
    publish(client, range(3))
    own = client.machine.vhost.routing.exchange("h").matcher.own
    client.call(1, "exchange.delete", exchange="h")
    assert own is not None
    assert isinstance(own.target, History)
    assert own.target.messages() == []
    client.call(1, "exchange.declare", exchange="h", type="x-recent-history")
    client.queue("q")
    client.call(1, "queue.bind", queue="q", exchange="h")
    assert bodies(client, "q") == []


def test_a_header_keeps_a_message_out_of_the_history() -> None:
    client = ready()
    client.publish(
        1, b"x", "k", exchange="h", properties={"headers": {"x-recent-history-no-store": True}}
    )
    client.publish(1, b"y", "k", exchange="h", properties={"headers": {}})
    client.queue("q")
    client.call(1, "queue.bind", queue="q", exchange="h")
    assert bodies(client, "q") == [b"y"]
