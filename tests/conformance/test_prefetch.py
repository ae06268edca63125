"""basic.qos: the limits of each consumer and of the channel, and how they meet (6.5)."""

from collections import Counter

import pytest

from tests.support.channel import Channel
from tests.support.fixtures import StartBroker


def fill(channel: Channel, queue: str, count: int) -> None:
    for number in range(1, count + 1):
        channel.publish(b"%d" % number, routing_key=queue)
    channel.sync()


def receive(channel: Channel, count: int) -> list[str]:
    """Take exactly that many deliveries, and no more come; return their consumers' tags."""
    tags = [channel.recv_delivery().consumer_tag for _ in range(count)]
    channel.expect_nothing(within=0.15)
    return tags


@pytest.fixture
def publisher(channel: Channel) -> Channel:
    return channel.client.channel()


@pytest.mark.rule("QO-1")
def test_a_limit_per_consumer(publisher: Channel, channel: Channel, queue: str) -> None:
    fill(publisher, queue, 10)
    channel.qos(2)
    channel.consume(queue, "a")
    assert receive(channel, 2) == ["a", "a"]
    channel.consume(queue, "b")
    assert receive(channel, 2) == ["b", "b"]
    channel.ack(1)
    assert receive(channel, 1) == ["a"]
    channel.nack(4, requeue=False)
    assert receive(channel, 1) == ["b"]
    channel.ack(0, multiple=True)
    assert Counter(receive(channel, 4)) == {"a": 2, "b": 2}


@pytest.mark.rule("QO-1")
def test_existing_consumers_keep_their_limit(
    publisher: Channel, channel: Channel, queue: str
) -> None:
    """Trap 9."""
    channel.qos(1)
    channel.consume(queue, "one")
    channel.qos(3)
    channel.consume(queue, "three")
    channel.qos(0)
    fill(publisher, queue, 10)
    assert Counter(receive(channel, 4)) == {"one": 1, "three": 3}
    channel.consume(queue, "unlimited")
    assert receive(channel, 6) == ["unlimited"] * 6


@pytest.mark.rule("QO-1", "QO-5")
def test_no_limit_is_the_default_and_0(publisher: Channel, channel: Channel, queue: str) -> None:
    fill(publisher, queue, 50)
    channel.consume(queue, "a")
    assert len(receive(channel, 50)) == 50
    channel.qos(1)
    channel.qos(0)
    channel.consume(queue, "b")
    fill(publisher, queue, 50)
    assert Counter(receive(channel, 50)) == {"a": 25, "b": 25}


@pytest.mark.slow
@pytest.mark.rule("QO-5", "QO-1")
def test_a_default_for_each_consumer(start_broker: StartBroker) -> None:
    """Until the client says something else; 0 is then no limit."""
    broker = start_broker(settings={"default_consumer_prefetch": 2})
    channel = broker.connect().channel()
    queue = channel.queue_declare(exclusive=True).queue
    fill(channel, queue, 10)
    for tag in ("a", "b"):
        channel.consume(queue, tag)
        assert receive(channel, 2) == [tag, tag]
    channel.qos(0)
    channel.consume(queue, "c")
    assert receive(channel, 6) == ["c"] * 6
    assert channel.client.channel().get(queue) is None


@pytest.mark.rule("QO-1")
def test_a_limit_belongs_to_its_channel(publisher: Channel, channel: Channel, queue: str) -> None:
    other = channel.client.channel()
    channel.qos(1)
    channel.qos(2, shared=True)
    other.consume(queue)
    fill(publisher, queue, 5)
    assert len(receive(other, 5)) == 5


@pytest.mark.rule("QO-2")
def test_one_limit_for_the_channel(publisher: Channel, channel: Channel, queue: str) -> None:
    second = channel.queue_declare(exclusive=True).queue
    channel.qos(3, shared=True)
    channel.consume(queue, "a")
    channel.consume(second, "b")
    fill(publisher, queue, 2)
    assert receive(channel, 2) == ["a", "a"]
    fill(publisher, second, 5)
    assert receive(channel, 1) == ["b"]
    channel.ack(1)
    assert receive(channel, 1) == ["b"]
    channel.ack(0, multiple=True)
    assert receive(channel, 3) == ["b"] * 3


@pytest.mark.rule("QO-2")
def test_the_channel_limit_holds_for_existing_consumers_at_once(
    publisher: Channel, channel: Channel, queue: str
) -> None:
    channel.consume(queue)
    fill(publisher, queue, 3)
    receive(channel, 3)
    channel.qos(2, shared=True)
    fill(publisher, queue, 3)
    receive(channel, 0)
    channel.ack(1)
    receive(channel, 0)
    channel.ack(2)
    receive(channel, 1)
    channel.ack(0, multiple=True)
    receive(channel, 2)


@pytest.mark.rule("QO-2")
def test_raising_and_removing_the_channel_limit(
    publisher: Channel, channel: Channel, queue: str
) -> None:
    channel.qos(1, shared=True)
    channel.consume(queue)
    fill(publisher, queue, 10)
    receive(channel, 1)
    channel.qos(4, shared=True)
    receive(channel, 3)
    channel.qos(2, shared=True)
    channel.ack(1)
    channel.ack(2)
    receive(channel, 0)
    channel.ack(3)
    receive(channel, 1)
    channel.qos(0, shared=True)
    receive(channel, 5)


@pytest.mark.rule("QO-2")
def test_gets_that_are_unacked_count_when_the_limit_is_set(
    publisher: Channel, channel: Channel, queue: str
) -> None:
    fill(publisher, queue, 6)
    for _ in range(2):
        channel.get(queue)
    channel.qos(3, shared=True)
    channel.consume(queue)
    receive(channel, 1)


@pytest.mark.rule("QO-3")
def test_both_limits_hold_together(publisher: Channel, channel: Channel, queue: str) -> None:
    channel.qos(2)
    channel.qos(3, shared=True)
    channel.consume(queue, "a")
    channel.consume(queue, "b")
    fill(publisher, queue, 10)
    tags = receive(channel, 3)
    assert max(Counter(tags).values()) == 2
    lonely = next(tag for tag, count in Counter(tags).items() if count == 1)
    double = next(tag for tag in "ab" if tag != lonely)
    channel.ack(tags.index(lonely) + 1)
    assert receive(channel, 1) == [lonely]
    for place, tag in enumerate(tags, start=1):
        if tag == double:
            channel.ack(place)
    assert sorted(receive(channel, 2)) in (["a", "b"], [double, double])


@pytest.mark.rule("QO-3")
@pytest.mark.parametrize("count", [0, 1, 5])
def test_a_consumer_limit_removes_the_channel_limit(
    publisher: Channel, channel: Channel, queue: str, count: int
) -> None:
    """Trap 9: any qos with global=false does, at once."""
    channel.qos(2, shared=True)
    channel.consume(queue, "old")
    fill(publisher, queue, 6)
    receive(channel, 2)
    channel.qos(count)
    assert receive(channel, 4) == ["old"] * 4
    channel.consume(queue, "new")
    fill(publisher, queue, 3)
    tags = receive(channel, 3)
    assert tags.count("new") == (1 if count == 1 else tags.count("new"))


@pytest.mark.rule("QO-4")
def test_quiet_consumers_have_no_limit_of_their_own(
    publisher: Channel, channel: Channel, queue: str
) -> None:
    channel.qos(1)
    channel.consume(queue, no_ack=True)
    fill(publisher, queue, 20)
    receive(channel, 20)


@pytest.mark.rule("QO-4")
def test_quiet_consumers_stop_while_the_channel_limit_is_reached(
    publisher: Channel, channel: Channel, queue: str
) -> None:
    second = channel.queue_declare(exclusive=True).queue
    channel.qos(1, shared=True)
    channel.consume(queue, "quiet", no_ack=True)
    fill(publisher, queue, 5)
    assert receive(channel, 5) == ["quiet"] * 5
    channel.consume(second, "loud")
    fill(publisher, second, 1)
    loud = channel.recv_delivery(consumer_tag="loud")
    fill(publisher, queue, 3)
    receive(channel, 0)
    channel.ack(loud.delivery_tag)
    assert receive(channel, 3) == ["quiet"] * 3


@pytest.mark.rule("QO-4")
def test_get_ignores_all_limits(publisher: Channel, channel: Channel, queue: str) -> None:
    channel.qos(1)
    channel.qos(1, shared=True)
    channel.consume(queue)
    fill(publisher, queue, 5)
    receive(channel, 1)
    assert [channel.get(queue).message_count for _ in range(4)] == [3, 2, 1, 0]


@pytest.mark.rule("QO-1", "QO-2")
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("how", ["nack", "recover"])
def test_what_is_requeued_gives_its_room_back(
    publisher: Channel, channel: Channel, queue: str, shared: bool, how: str
) -> None:
    channel.qos(2, shared=shared)
    channel.consume(queue)
    fill(publisher, queue, 4)
    receive(channel, 2)
    if how == "nack":
        channel.nack(2, multiple=True)
    else:
        channel.recover()
    again = [channel.recv_delivery(redelivered=True).body for _ in range(2)]
    assert again == [b"1", b"2"]
    channel.expect_nothing(within=0.1)


@pytest.mark.rule("QO-2", "CS-1")
def test_a_cancelled_consumer_still_fills_the_channel(
    publisher: Channel, channel: Channel, queue: str
) -> None:
    channel.qos(2, shared=True)
    channel.consume(queue, "a")
    fill(publisher, queue, 4)
    receive(channel, 2)
    channel.cancel("a")
    channel.consume(queue, "b")
    receive(channel, 0)
    channel.ack(1)
    assert receive(channel, 1) == ["b"]


@pytest.mark.rule("QO-1", "CS-1")
def test_a_new_consumer_has_its_own_room(publisher: Channel, channel: Channel, queue: str) -> None:
    channel.qos(2)
    channel.consume(queue, "a")
    fill(publisher, queue, 4)
    receive(channel, 2)
    channel.cancel("a")
    channel.consume(queue, "a")
    assert receive(channel, 2) == ["a", "a"]


@pytest.mark.rule("QO-2", "CS-3")
def test_a_channel_limit_starves_no_queue(publisher: Channel, channel: Channel) -> None:
    """Two full queues share the room of one message; both get on."""
    queues = [channel.queue_declare(exclusive=True).queue for _ in range(2)]
    for queue in queues:
        fill(publisher, queue, 100)
    channel.qos(1, shared=True)
    for queue in queues:
        channel.consume(queue, queue, nowait=True)
    served: Counter[str] = Counter()
    for _ in range(80):
        delivery = channel.recv_delivery()
        served[delivery.consumer_tag] += 1
        channel.ack(delivery.delivery_tag)
    assert min(served[queue] for queue in queues) >= 10


@pytest.mark.rule("QO-2", "CS-3")
def test_a_channel_limit_starves_no_consumer(
    publisher: Channel, channel: Channel, queue: str
) -> None:
    fill(publisher, queue, 100)
    channel.qos(1, shared=True)
    for tag in "abc":
        channel.consume(queue, tag, nowait=True)
    served: Counter[str] = Counter()
    for _ in range(60):
        delivery = channel.recv_delivery()
        served[delivery.consumer_tag] += 1
        channel.ack(delivery.delivery_tag)
    assert min(served[tag] for tag in "abc") >= 10


@pytest.mark.rule("QO-1")
def test_prefetch_over_many_messages(publisher: Channel, channel: Channel, queue: str) -> None:
    """The window is always full and never more."""
    channel.qos(7)
    channel.consume(queue)
    fill(publisher, queue, 500)
    open_tags: list[int] = []
    for number in range(1, 501):
        delivery = channel.recv_delivery(delivery_tag=number)
        assert delivery.body == b"%d" % number
        open_tags.append(number)
        if len(open_tags) == 7:
            channel.ack(open_tags[number % 7])
            del open_tags[number % 7]
    channel.sync()
    assert channel.client.inbox == []


@pytest.mark.rule("QO-1", "QO-2")
def test_the_largest_count(publisher: Channel, channel: Channel, queue: str) -> None:
    channel.qos(65535)
    channel.qos(65535, shared=True)
    channel.consume(queue)
    fill(publisher, queue, 100)
    receive(channel, 100)


@pytest.mark.rule("QO-1")
@pytest.mark.parametrize("shared", [False, True])
def test_a_size_is_not_implemented(channel: Channel, shared: bool) -> None:
    channel.send("basic.qos", prefetch_size=10, prefetch_count=1, global_=shared)
    channel.client.expect_close(540, "NOT_IMPLEMENTED - prefetch_size!=0 (10)", method="basic.qos")
