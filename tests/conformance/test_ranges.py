"""Reading queues without consuming, on a running node: nothing changes, nothing is missed."""

import base64
import threading
from typing import Any

import pytest

from tests.support.broker import Broker
from tests.support.channel import Channel
from tests.support.fixtures import StartBroker
from warren.cli.exit import CliError

pytestmark = [
    pytest.mark.differs_from_reference("it has no ranges"),
    pytest.mark.slow,
]


def pages(broker: Broker, queue: str, begin: int = 0, **options: Any) -> list[dict[str, Any]]:
    """Every answer from an id on, up to what is stable now."""
    found: list[dict[str, Any]] = []
    info = broker.control("range_info", queue=queue)
    keys = {"incarnation": info["incarnation"], "purges": info["purges"]}
    options = {"to_seq": info["stable"], **options}
    while not found or not found[-1]["end"]:
        found.append(broker.control("range_read", queue=queue, from_seq=begin, **keys, **options))
        assert found[-1]["end"] or found[-1]["next_seq"] > begin
        begin = found[-1]["next_seq"]
    return found


def bodies(broker: Broker, queue: str, begin: int = 0, **options: Any) -> list[bytes]:
    return [
        base64.b64decode(record["body"])
        for page in pages(broker, queue, begin, **options)
        for record in page["records"]
    ]


def fill(channel: Channel, queue: str, *numbers: int, size: int = 0, **properties: Any) -> None:
    channel.confirm_select()
    for number in numbers:
        channel.publish(b"%d" % number + b"." * size, routing_key=queue, **properties)
    channel.wait_confirms(len(numbers))
    channel.close()


def state(broker: Broker) -> list[list[Any]]:
    columns = ["name", "messages_ready", "messages_unacknowledged", "message_bytes", "memory"]
    return broker.rows("list_queues", columns=columns[:4])


@pytest.mark.rule("PL-1", "PL-2", "PL-3")
@pytest.mark.parametrize("lazy", [False, True], ids=["default", "lazy"])
def test_reading_changes_nothing(start_broker: StartBroker, lazy: bool) -> None:
    broker = start_broker({"queue_resident_bytes": 1 << 20})
    client = broker.connect()
    channel = client.channel()
    arguments = {"x-queue-mode": "lazy"} if lazy else {}
    channel.queue_declare("q", durable=True, arguments=arguments)
    fill(client.channel(), "q", *range(3000), size=1000, delivery_mode=2, headers={"h": 1})
    fill(client.channel(), "q", *range(3000, 3010))
    channel.qos(50)
    channel.consume("q")
    for _ in range(50):
        channel.recv_delivery()
    before = state(broker)
    found = pages(broker, "q", limit=777)
    records = [record for page in found for record in page["records"]]
    assert [record["seq"] for record in records] == list(range(3010))
    assert [record["state"] for record in records[:51]] == ["unacked"] * 50 + ["ready"]
    assert [record["redelivered"] for record in records[49:51]] == [True, False]
    assert all(record["ts"] for record in records[:3000])
    assert [record["ts"] for record in records[3000:]] == [None] * 10
    assert not any(page["gaps"] for page in found)
    assert state(broker) == before
    # What is delivered from here on is what would have been.
    channel.ack(50, multiple=True)
    event = channel.recv_delivery()
    assert event.body.startswith(b"50.")
    assert not event.redelivered


@pytest.mark.rule("PL-1", "PL-4")
def test_a_range_belongs_to_one_incarnation(start_broker: StartBroker) -> None:
    broker = start_broker()
    channel = broker.connect().channel()
    for durable in (True, False):
        name = f"q-{durable}"
        channel.queue_declare(name, durable=durable)
        fill(channel.client.channel(), name, 1, 2, 3, delivery_mode=2)
        info = broker.control("range_info", queue=name)
        keys = {"queue": name, "incarnation": info["incarnation"], "purges": info["purges"]}
        assert len(broker.control("range_read", **keys)["records"]) == 3
        channel.queue_purge(name)
        with pytest.raises(CliError, match="was purged"):
            broker.control("range_read", **keys)
        channel.queue_delete(name)
        with pytest.raises(CliError, match="there is no queue"):
            broker.control("range_read", **keys)
        channel.queue_declare(name, durable=durable)
        with pytest.raises(CliError, match="it was made anew"):
            broker.control("range_read", **keys)


@pytest.mark.rule("PL-1")
@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_after_a_restart_the_same_is_read(start_broker: StartBroker, kill: bool) -> None:
    broker = start_broker()
    client = broker.connect()
    channel = client.channel()
    channel.queue_declare("q", durable=True, arguments={"x-max-priority": 2})
    channel.confirm_select()
    for number in range(300):
        mode = 1 if number % 10 == 9 else 2
        channel.publish(b"%d" % number, routing_key="q", delivery_mode=mode, priority=number % 3)
    channel.wait_confirms(300)
    assert bodies(broker, "q") == [b"%d" % number for number in range(300)]
    before = broker.control("range_info", queue="q")
    broker.restart(kill=kill)
    assert broker.control("range_info", queue="q")["incarnation"] == before["incarnation"]
    stayed = [b"%d" % number for number in range(300) if number % 10 != 9]
    assert bodies(broker, "q", limit=40) == stayed
    read = pages(broker, "q", to_seq=20)[0]
    assert {gap["first"] for gap in read["gaps"]} == {9, 19}


@pytest.mark.rule("PL-1")
def test_a_large_body_comes_in_parts(start_broker: StartBroker) -> None:
    broker = start_broker()
    channel = broker.connect().channel()
    channel.queue_declare("q", durable=True)
    body = bytes(range(256)) * 40_000
    for mode in (1, 2):
        channel.publish(body, routing_key="q", delivery_mode=mode)
    channel.sync()
    fill(channel.client.channel(), "q", 1, delivery_mode=2)
    for seq in (0, 1):
        parts = b""
        while len(parts) < len(body):
            page = broker.control("range_read", queue="q", from_seq=seq, body_from=len(parts))
            assert page["records"][0]["size"] == len(body)
            parts += base64.b64decode(page["records"][0]["body"])
        assert parts == body


def test_reading_while_everything_happens(start_broker: StartBroker) -> None:
    """Whatever stays in the queue is in each reading, whatever happens to the rest."""
    broker = start_broker()
    channel = broker.connect().channel()
    channel.queue_declare("q", durable=True)
    fill(channel.client.channel(), "q", *range(2000), delivery_mode=2)
    ended = threading.Event()

    def consume(mine: Channel) -> None:
        """Take messages and give them back; new ones come behind and go."""
        mine.queue_declare("other", durable=True)
        while not ended.is_set():
            for number in range(50):
                mine.publish(b"new", routing_key="q", delivery_mode=1 + number % 2)
            held = [mine.get("q") for _ in range(20)]
            mine.nack(held[-1].delivery_tag, multiple=True)
            mine.sync()

    threads = [
        threading.Thread(target=consume, args=(broker.connect().channel(),)) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    try:
        for _ in range(10):
            found = [body for body in bodies(broker, "q", limit=300) if body != b"new"]
            assert found == [b"%d" % number for number in range(2000)]
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def test_what_a_transaction_has_settled_is_there_until_it_commits(
    start_broker: StartBroker,
) -> None:
    broker = start_broker()
    channel = broker.connect().channel()
    channel.queue_declare("q")
    for number in range(4):
        channel.publish(b"%d" % number, routing_key="q")
    mine = channel.client.channel()
    mine.call("tx.select")
    for _ in range(3):
        tag = mine.get("q").delivery_tag
    mine.ack(tag - 1, multiple=True)
    mine.sync()
    records = pages(broker, "q")[0]["records"]
    assert [one["seq"] for one in records] == [0, 1, 2, 3]
    assert [one["state"] for one in records] == ["unacked"] * 3 + ["ready"]
    assert broker.control("range_info", queue="q")["first"] == 0
    mine.call("tx.commit")
    page = pages(broker, "q")[0]
    assert [one["seq"] for one in page["records"]] == [2, 3]
    assert page["gaps"] == [{"first": 0, "end": 2, "reason": "settled"}]


def test_a_slice_is_published_again_with_a_mark(start_broker: StartBroker) -> None:
    broker = start_broker()
    client = broker.connect()
    channel = client.channel()
    channel.queue_declare("q", durable=True)
    channel.queue_declare("target", durable=True, arguments={"x-max-length": 3})
    fill(client.channel(), "q", *range(5), delivery_mode=2, headers={"own": "kept"})
    done = broker.control("replay_range", queue="q", from_seq=1, to_seq=3, into="target")
    assert (done["published"], done["next_seq"], done["end"]) == (2, 3, True)
    for seq in (1, 2):
        event = channel.get("target", no_ack=True)
        assert (event.body, event.routing_key, event.exchange) == (b"%d" % seq, "target", "")
        incarnation = broker.control("range_info", queue="q")["incarnation"]
        mark = {"queue": "q", "seq": seq, "incarnation": incarnation}
        assert event.headers == {"own": "kept", "x-warren-replayed": mark}
    done = broker.control("replay_range", queue="q", exchange="amq.fanout")
    assert (done["published"], done["unroutable"]) == (5, 5)
    with pytest.raises(CliError, match="there is no exchange"):
        broker.control("replay_range", queue="q", exchange="none")
    # What is confirmed is stored.
    broker.control("replay_range", queue="q", into="target", to_seq=2)
    broker.restart(kill=True)
    assert bodies(broker, "target") == [b"0", b"1"]


def test_a_queue_that_refuses_stops_the_replay(start_broker: StartBroker) -> None:
    broker = start_broker()
    client = broker.connect()
    channel = client.channel()
    channel.queue_declare("q", durable=True)
    limits = {"x-max-length": 3, "x-overflow": "reject-publish"}
    channel.queue_declare("target", arguments=limits)
    fill(client.channel(), "q", *range(5), delivery_mode=2)
    done = broker.control("replay_range", queue="q", into="target")
    assert (done["published"], done["next_seq"], done["refused"]) == (3, 3, True)
    assert not done["end"]
