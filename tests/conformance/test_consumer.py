"""Consumers: tags, order of replies, exclusive ones, whose turn it is (6.4)."""

import re
from collections import Counter
from typing import Any

import pytest

from tests.support.channel import Channel
from tests.support.expectation import starting
from tests.support.fixtures import Connect

GENERATED = re.compile(r"amq\.ctag-[A-Za-z0-9_-]{22}")


def deliveries(channel: Channel, count: int) -> list[str]:
    """Take deliveries; return the tags they came for."""
    return [channel.recv_delivery().consumer_tag for _ in range(count)]


@pytest.mark.rule("CS-1")
def test_tags_made_by_the_broker(channel: Channel, queue: str) -> None:
    tags = {channel.consume(queue) for _ in range(10)}
    assert len(tags) == 10
    assert all(GENERATED.fullmatch(tag) for tag in tags)


@pytest.mark.rule("CS-1")
@pytest.mark.parametrize("tag", ["t", "ö" * 127, "amq.ctag-mine", " "])
def test_a_tag_of_the_client(channel: Channel, queue: str, tag: str) -> None:
    assert channel.consume(queue, tag) == tag
    channel.publish(b"x", routing_key=queue)
    channel.recv_delivery(consumer_tag=tag)


@pytest.mark.rule("CS-1")
def test_a_tag_is_unique_on_its_channel_only(channel: Channel, queue: str) -> None:
    other = channel.client.channel()
    channel.consume(queue, "tag")
    other.consume(queue, "tag")
    channel.send("basic.consume", queue=queue, consumer_tag="tag")
    channel.client.expect_close(
        530, "NOT_ALLOWED - attempt to reuse consumer tag 'tag'", method="basic.consume"
    )


@pytest.mark.rule("CS-1")
def test_consume_ok_precedes_the_first_delivery(channel: Channel, queue: str) -> None:
    for number in range(100):
        channel.publish(b"%d" % number, routing_key=queue)
    channel.send("basic.consume", queue=queue, consumer_tag="tag", no_ack=True)
    channel.expect("basic.consume-ok", consumer_tag="tag")
    for number in range(100):
        assert channel.recv_delivery(delivery_tag=number + 1).body == b"%d" % number


@pytest.mark.rule("CS-1")
def test_consume_without_waiting(channel: Channel, queue: str) -> None:
    channel.publish(b"x", routing_key=queue)
    channel.consume(queue, "tag", nowait=True)
    channel.recv_delivery(consumer_tag="tag")


@pytest.mark.rule("CS-1")
@pytest.mark.parametrize("no_ack", [False, True])
def test_cancel_ok_follows_the_last_delivery(
    connect: Connect, channel: Channel, shared_queue: str, no_ack: bool
) -> None:
    other = connect().channel()
    other.consume(shared_queue, "tag", no_ack=no_ack)
    for number in range(200):
        channel.publish(b"%d" % number, routing_key=shared_queue)
    other.send("basic.cancel", consumer_tag="tag")
    before = 0
    while (event := other.client.next_event(channel=other.number)).name == "basic.deliver":
        before += 1
    assert (event.name, event.consumer_tag) == ("basic.cancel-ok", "tag")
    channel.sync()
    other.sync()
    assert other.client.inbox == []
    assert channel.queue_purge(shared_queue).message_count == 200 - before


@pytest.mark.rule("CS-1")
def test_what_a_cancelled_consumer_holds_stays_with_its_channel(
    channel: Channel, queue: str
) -> None:
    """Trap 32."""
    for body in (b"1", b"2", b"3"):
        channel.publish(body, routing_key=queue)
    channel.consume(queue, "tag")
    tags = [channel.recv_delivery().delivery_tag for _ in range(3)]
    channel.cancel("tag")
    other = channel.client.channel()
    assert other.get(queue) is None
    channel.ack(tags[0])
    channel.nack(tags[1])
    channel.sync()
    assert other.get(queue).body == b"2"
    channel.consume(queue, "tag")
    channel.close()
    assert other.get(queue).body == b"3"


@pytest.mark.rule("CS-1")
def test_a_tag_may_be_used_again_after_cancel(channel: Channel, queue: str) -> None:
    for _ in range(3):
        channel.consume(queue, "tag")
        channel.publish(b"x", routing_key=queue)
        channel.ack(channel.recv_delivery(consumer_tag="tag").delivery_tag)
        channel.cancel("tag", nowait=True)


@pytest.mark.rule("CS-1")
def test_no_local_is_ignored(channel: Channel, queue: str) -> None:
    channel.consume(queue, no_local=True)
    channel.publish(b"own", routing_key=queue)
    assert channel.recv_delivery().body == b"own"


@pytest.mark.rule("CS-2")
@pytest.mark.parametrize("exclusive", [False, True])
def test_an_exclusive_consumer_is_the_only_one(
    connect: Connect, channel: Channel, shared_queue: str, exclusive: bool
) -> None:
    refusal = f"ACCESS_REFUSED - queue '{shared_queue}' in vhost '/' in exclusive use"
    channel.consume(shared_queue, "only", exclusive=True)
    for each in (channel.client.channel(), connect().channel()):
        each.send("basic.consume", queue=shared_queue, exclusive=exclusive)
        each.expect_close(403, refusal, method="basic.consume")
    channel.publish(b"x", routing_key=shared_queue)
    channel.recv_delivery(consumer_tag="only")
    channel.cancel("only")
    connect().channel().consume(shared_queue)
    channel.send("basic.consume", queue=shared_queue, exclusive=True)
    channel.expect_close(403, refusal, method="basic.consume")


@pytest.mark.rule("CS-2", "GT-1")
def test_an_exclusive_consumer_does_not_forbid_get(channel: Channel, shared_queue: str) -> None:
    """Trap 33."""
    channel.qos(1)
    channel.consume(shared_queue, exclusive=True)
    for body in (b"1", b"2"):
        channel.publish(body, routing_key=shared_queue)
    assert channel.recv_delivery().body == b"1"
    assert channel.client.channel().get(shared_queue).body == b"2"


@pytest.mark.rule("CS-2", "EX-2")
def test_exclusive_use_ends_with_the_channel(channel: Channel, shared_queue: str) -> None:
    other = channel.client.channel()
    other.consume(shared_queue, exclusive=True)
    other.close()
    channel.consume(shared_queue, exclusive=True)


@pytest.mark.rule("CS-3")
@pytest.mark.parametrize("spread", ["one channel", "channels", "connections"])
def test_round_robin(connect: Connect, channel: Channel, shared_queue: str, spread: str) -> None:
    channels = [channel] * 3
    if spread == "channels":
        channels = [channel.client.channel() for _ in range(3)]
    elif spread == "connections":
        channels = [connect().channel() for _ in range(3)]
    for number, each in enumerate(channels):
        each.consume(shared_queue, f"c{number}", no_ack=number == 1)
    for number in range(30):
        channel.publish(b"%d" % number, routing_key=shared_queue)
    found: dict[int, str] = {}
    for number, each in enumerate(channels):
        for _ in range(10):
            delivery = each.recv_delivery()
            found[int(delivery.body)] = delivery.consumer_tag
        if spread != "one channel":
            assert set(found.values()) >= {f"c{number}"}
    ordered = [found[number] for number in range(30)]
    assert ordered == [ordered[0], ordered[1], ordered[2]] * 10
    assert set(ordered) == {"c0", "c1", "c2"}


@pytest.mark.rule("CS-3")
def test_round_robin_of_a_backlog(channel: Channel, queue: str) -> None:
    """The first consumer takes what it can before the others come; then they take turns."""
    channel.qos(2)
    for number in range(20):
        channel.publish(b"%d" % number, routing_key=queue)
    for tag in "abc":
        channel.consume(queue, tag)
        assert deliveries(channel, 2) == [tag, tag]
    channel.ack(6, multiple=True)
    assert Counter(deliveries(channel, 6)) == {"a": 2, "b": 2, "c": 2}
    channel.ack(3 + 6)
    assert len(deliveries(channel, 1)) == 1
    channel.sync()
    assert channel.client.inbox == []


@pytest.mark.rule("CS-3")
def test_priorities(channel: Channel, queue: str) -> None:
    """High ones first, while they can; negative ones after those without."""
    channel.qos(2)
    for tag, priority in (("none", None), ("low", -1), ("high", 10), ("mid", 5)):
        arguments = {} if priority is None else {"x-priority": priority}
        channel.consume(queue, tag, arguments=arguments)
    for number in range(9):
        channel.publish(b"%d" % number, routing_key=queue)
    found = [channel.recv_delivery() for _ in range(8)]
    assert [each.consumer_tag for each in found] == [
        "high", "high", "mid", "mid", "none", "none", "low", "low"
    ]  # fmt: skip
    channel.expect_nothing(within=0.1)
    channel.ack(found[7].delivery_tag)
    assert deliveries(channel, 1) == ["low"]
    for each in found[:2]:
        channel.ack(each.delivery_tag)
    channel.sync()
    for _ in range(3):
        channel.publish(b"x", routing_key=queue)
    assert deliveries(channel, 2) == ["high", "high"]
    channel.ack(found[2].delivery_tag)
    assert deliveries(channel, 1) == ["mid"]


@pytest.mark.rule("CS-3")
def test_a_better_consumer_gets_the_next_message(channel: Channel, queue: str) -> None:
    channel.consume(queue, "first")
    channel.publish(b"1", routing_key=queue)
    assert deliveries(channel, 1) == ["first"]
    channel.consume(queue, "better", arguments={"x-priority": 1})
    for _ in range(5):
        channel.publish(b"x", routing_key=queue)
    assert deliveries(channel, 5) == ["better"] * 5
    channel.cancel("better")
    channel.publish(b"x", routing_key=queue)
    assert deliveries(channel, 1) == ["first"]


@pytest.mark.rule("CS-3")
def test_round_robin_among_equals_of_a_priority(channel: Channel, queue: str) -> None:
    for tag in ("a", "b"):
        channel.consume(queue, tag, arguments={"x-priority": 3})
    channel.consume(queue, "idle")
    for _ in range(10):
        channel.publish(b"x", routing_key=queue)
    found = deliveries(channel, 10)
    assert found in (["a", "b"] * 5, ["b", "a"] * 5)


@pytest.mark.rule("CS-3")
def test_a_full_consumer_is_passed_over(connect: Connect, channel: Channel, queue: str) -> None:
    channel.qos(1)
    channel.consume(queue, "full")
    channel.qos(0)
    channel.consume(queue, "free")
    for _ in range(10):
        channel.publish(b"x", routing_key=queue)
    found = deliveries(channel, 10)
    assert Counter(found) == {"full": 1, "free": 9}
    channel.ack(found.index("full") + 1)
    channel.sync()
    for _ in range(2):
        channel.publish(b"x", routing_key=queue)
    assert sorted(deliveries(channel, 2)) == ["free", "full"]


@pytest.mark.rule("CS-3", "AK-2")
def test_a_rejected_message_goes_to_another_consumer(channel: Channel, queue: str) -> None:
    """Order stays: what was rejected goes out again before what is younger."""
    other = channel.client.channel()
    channel.qos(3)
    channel.consume(queue, "a")
    for number in range(6):
        channel.publish(b"%d" % number, routing_key=queue)
    for _ in range(3):
        channel.recv_delivery(consumer_tag="a")
    channel.cancel("a")
    channel.nack(3, multiple=True)
    channel.sync()
    other.consume(queue, "b")
    found = [other.recv_delivery(consumer_tag="b") for _ in range(6)]
    assert [int(each.body) for each in found] == list(range(6))
    assert [each.redelivered for each in found] == [True] * 3 + [False] * 3


@pytest.mark.rule("CS-1", "CS-6")
def test_many_queues_on_one_channel(channel: Channel) -> None:
    queues = [channel.queue_declare(exclusive=True).queue for _ in range(20)]
    for number, queue in enumerate(queues):
        channel.consume(queue, str(number))
    for number, queue in enumerate(queues):
        channel.publish(b"%d" % number, routing_key=queue)
    found = [channel.recv_delivery() for _ in queues]
    assert {each.consumer_tag for each in found} == {str(number) for number in range(20)}
    assert all(each.body.decode() == each.consumer_tag for each in found)
    assert [each.delivery_tag for each in found] == list(range(1, 21))


@pytest.mark.rule("CS-7", "GT-1")
def test_redelivered_is_told_to_consumers_and_to_get(channel: Channel, queue: str) -> None:
    channel.publish(b"1", routing_key=queue)
    channel.publish(b"2", routing_key=queue)
    channel.reject(channel.get(queue).delivery_tag)
    channel.sync()
    channel.consume(queue)
    assert channel.recv_delivery(redelivered=True).body == b"1"
    assert channel.recv_delivery(redelivered=False).body == b"2"


@pytest.mark.rule("CS-3")
def test_a_peer_that_does_not_read_does_not_hold_up_the_others(
    connect: Connect, channel: Channel, shared_queue: str
) -> None:
    """What does not fit into its socket stays in the queue, for those who read."""
    deaf = connect()
    deaf.channel().consume(shared_queue, "deaf", no_ack=True)
    count = 600
    for _ in range(count):
        channel.publish(b"x" * 100_000, routing_key=shared_queue)
    channel.sync()
    other = connect().channel()
    other.consume(shared_queue, "other", no_ack=True)
    channel.publish(b"last", routing_key=shared_queue)
    while other.recv_delivery().body != b"last":
        pass
    deaf.drop()


@pytest.mark.rule("CS-4")
def test_a_channel_error_of_one_consumer_leaves_the_others(
    channel: Channel, shared_queue: str
) -> None:
    other = channel.client.channel()
    channel.consume(shared_queue, "good")
    other.consume(shared_queue, "bad")
    other.send("basic.consume", queue=shared_queue, arguments={"x-priority": "much"})
    other.expect_close(406, starting("PRECONDITION_FAILED - invalid arg 'x-priority'"))
    for _ in range(3):
        channel.publish(b"x", routing_key=shared_queue)
    assert deliveries(channel, 3) == ["good"] * 3


@pytest.mark.rule("GT-1")
def test_get_tells_how_many_are_left(channel: Channel, queue: str) -> None:
    assert channel.get(queue) is None
    for _ in range(3):
        channel.publish(b"x", exchange="", routing_key=queue)
    other = channel.client.channel()
    assert [other.get(queue).message_count for _ in range(3)] == [2, 1, 0]
    assert other.get(queue) is None
    other.nack(2, multiple=True)
    other.sync()
    got: Any = channel.get(queue, no_ack=True)
    assert (got.message_count, got.redelivered, got.routing_key) == (1, True, queue)
