"""Transactions: what waits for commit, what does not, what rollback brings back (6.3)."""

from typing import Any

import pytest

from tests.conformance.test_exchange import bodies
from tests.support.channel import Channel
from tests.support.expectation import starting


@pytest.fixture
def tx(channel: Channel) -> Channel:
    """A transactional channel beside the plain one, on the same connection."""
    beside = channel.client.channel()
    beside.tx_select()
    return beside


def fill(channel: Channel, queue: str, count: int) -> None:
    for number in range(1, count + 1):
        channel.publish(b"%d" % number, routing_key=queue)
    channel.sync()


@pytest.mark.rule("TX-1", "TX-3")
def test_publishes_wait_for_commit(channel: Channel, tx: Channel, queue: str) -> None:
    for number in range(5):
        tx.publish(b"%d" % number, routing_key=queue)
    tx.sync()
    assert channel.get(queue) is None
    tx.tx_commit()
    assert bodies(channel, queue) == [b"0", b"1", b"2", b"3", b"4"]


@pytest.mark.rule("TX-4")
def test_rollback_forgets_publishes(channel: Channel, tx: Channel, queue: str) -> None:
    tx.publish(b"forgotten", routing_key=queue)
    tx.publish(b"forgotten", routing_key="nobody", mandatory=True)
    tx.tx_rollback()
    tx.publish(b"kept", routing_key=queue)
    tx.tx_commit()
    assert bodies(channel, queue) == [b"kept"]
    tx.sync()
    assert tx.client.inbox == []


@pytest.mark.rule("TX-3")
def test_a_new_transaction_begins_by_itself(channel: Channel, tx: Channel, queue: str) -> None:
    tx.tx_commit()
    for body in (b"1", b"2"):
        tx.publish(body, routing_key=queue)
        tx.sync()
        assert channel.get(queue) is None
        tx.tx_commit()
        assert bodies(channel, queue) == [body]
    tx.tx_rollback()
    tx.tx_commit()
    assert channel.get(queue) is None


@pytest.mark.rule("TX-2", "TX-3")
def test_routing_happens_at_publish_time(
    channel: Channel, tx: Channel, queue: str, unique: Any
) -> None:
    """Trap 28."""
    exchange = unique("x")
    channel.exchange_declare(exchange, "direct")
    channel.queue_bind(queue, exchange, "early")
    tx.publish(b"routed", exchange=exchange, routing_key="early")
    tx.publish(b"not routed", exchange=exchange, routing_key="late", mandatory=True)
    tx.sync()
    channel.queue_unbind(queue, exchange, "early")
    channel.queue_bind(queue, exchange, "late")
    channel.exchange_delete(exchange)
    tx.send("tx.commit")
    assert tx.expect("basic.return", routing_key="late").body == b"not routed"
    tx.expect("tx.commit-ok")
    assert bodies(channel, queue) == [b"routed"]


@pytest.mark.rule("TX-3", "PB-3")
def test_returns_come_during_commit(tx: Channel, queue: str) -> None:
    for number in range(4):
        tx.publish(b"%d" % number, routing_key=queue if number % 2 else "nobody", mandatory=True)
    tx.sync()
    assert tx.client.inbox == []
    tx.send("tx.commit")
    assert tx.expect("basic.return").body == b"0"
    assert tx.expect("basic.return").body == b"2"
    tx.expect("tx.commit-ok")


@pytest.mark.rule("TX-2", "TX-4")
def test_a_refused_publish_ends_the_transaction(
    channel: Channel, tx: Channel, shared_queue: str
) -> None:
    """Checks come at once, before commit; what was buffered is rolled back with the channel."""
    tx.publish(b"buffered", routing_key=shared_queue)
    tx.publish(b"x", exchange="missing")
    tx.expect_close(404, starting("NOT_FOUND - no exchange"), method="basic.publish")
    again = tx.reopen()
    again.publish(b"plain again", routing_key=shared_queue)
    again.sync()
    assert bodies(channel, shared_queue) == [b"plain again"]


@pytest.mark.rule("TX-1", "TX-3")
@pytest.mark.parametrize("how", ["ack", "nack", "reject", "drop"])
def test_settlements_wait_for_commit(channel: Channel, tx: Channel, queue: str, how: str) -> None:
    fill(channel, queue, 2)
    first, second = tx.get(queue), tx.get(queue)
    if how == "ack":
        tx.ack(second.delivery_tag, multiple=True)
    elif how == "nack":
        tx.nack(second.delivery_tag, multiple=True)
    else:
        for got in (first, second):
            tx.reject(got.delivery_tag, requeue=how == "reject")
    tx.sync()
    assert channel.get(queue) is None
    tx.tx_commit()
    left = [b"1", b"2"] if how in ("nack", "reject") else []
    assert bodies(channel, queue) == left
    tx.close()
    assert channel.get(queue) is None


@pytest.mark.rule("TX-2", "AK-1")
@pytest.mark.parametrize("end", ["rollback", "commit"])
def test_a_tag_is_taken_off_at_once(
    channel: Channel, tx: Channel, shared_queue: str, end: str
) -> None:
    fill(channel, shared_queue, 1)
    tag = tx.get(shared_queue).delivery_tag
    tx.ack(tag)
    tx.sync()
    tx.ack(tag)
    tx.expect_close(406, f"PRECONDITION_FAILED - unknown delivery tag {tag}", method="basic.ack")
    assert bodies(channel, shared_queue) == [b"1"]


@pytest.mark.rule("TX-4")
def test_rollback_makes_deliveries_unacked_again(channel: Channel, tx: Channel, queue: str) -> None:
    """Trap 28: nothing is requeued or delivered again, and the old tags work."""
    fill(channel, queue, 4)
    tags = [tx.get(queue).delivery_tag for _ in range(4)]
    tx.nack(tags[3])
    tx.ack(tags[0])
    tx.reject(tags[2], requeue=False)
    tx.tx_rollback()
    assert channel.get(queue) is None
    tx.ack(tags[2], multiple=True)
    tx.tx_commit()
    tx.nack(tags[3])
    tx.tx_commit()
    again = channel.get(queue)
    assert (again.body, again.redelivered) == (b"4", True)
    assert channel.get(queue) is None


@pytest.mark.rule("TX-4", "AK-1")
def test_multiple_after_rollback_goes_by_tag_order(
    channel: Channel, tx: Channel, queue: str
) -> None:
    fill(channel, queue, 6)
    tags = [tx.get(queue).delivery_tag for _ in range(6)]
    for place in (5, 1, 3):
        tx.ack(tags[place])
    tx.tx_rollback()
    tx.nack(tags[3], multiple=True)
    tx.tx_commit()
    assert bodies(channel, queue) == [b"1", b"2", b"3", b"4"]
    tx.nack(0, multiple=True)
    tx.tx_commit()
    assert bodies(channel, queue) == [b"5", b"6"]


@pytest.mark.rule("TX-4", "RC-2")
@pytest.mark.parametrize("end", ["close", "exception"])
def test_the_end_of_the_channel_is_a_rollback(
    channel: Channel, tx: Channel, shared_queue: str, end: str
) -> None:
    fill(channel, shared_queue, 3)
    tags = [tx.get(shared_queue).delivery_tag for _ in range(3)]
    tx.ack(tags[1])
    tx.reject(tags[2], requeue=False)
    tx.publish(b"forgotten", routing_key=shared_queue)
    if end == "close":
        tx.close()
    else:
        tx.ack(99)
        tx.expect_close(406, starting("PRECONDITION_FAILED"))
    found = [channel.get(shared_queue) for _ in range(3)]
    assert [got.body for got in found] == [b"1", b"2", b"3"]
    assert all(got.redelivered for got in found)
    assert channel.get(shared_queue) is None


@pytest.mark.rule("TX-1")
def test_get_consume_and_deliver_are_not_transactional(
    channel: Channel, tx: Channel, queue: str
) -> None:
    fill(channel, queue, 2)
    assert tx.get(queue, no_ack=True).body == b"1"
    tx.consume(queue, no_ack=True)
    assert tx.recv_delivery().body == b"2"
    tx.tx_rollback()
    assert channel.get(queue) is None


@pytest.mark.rule("TX-1", "RC-1")
def test_recover_is_not_transactional(channel: Channel, tx: Channel, queue: str) -> None:
    """It concerns what is unacked; what was acked in the transaction is not."""
    fill(channel, queue, 3)
    tags = [tx.get(queue).delivery_tag for _ in range(3)]
    tx.ack(tags[1])
    tx.recover()
    assert bodies(channel, queue) == [b"1", b"3"]
    tx.tx_rollback()
    tx.nack(tags[1])
    tx.tx_commit()
    assert bodies(channel, queue) == [b"2"]


@pytest.mark.rule("TX-1", "QO-2")
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("waiting", [1, 3])
def test_prefetch_is_given_back_at_commit(
    channel: Channel, tx: Channel, queue: str, shared: bool, waiting: int
) -> None:
    fill(channel, queue, waiting)
    tx.qos(1, shared=shared)
    tx.consume(queue)
    first = tx.recv_delivery()
    tx.ack(first.delivery_tag)
    tx.sync()
    channel.publish(b"2", routing_key=queue)
    channel.sync()
    tx.expect_nothing(within=0.2)
    tx.tx_rollback()
    tx.expect_nothing(within=0.2)
    tx.ack(first.delivery_tag)
    tx.tx_commit()
    assert tx.recv_delivery().body == b"2"
    tx.sync()
    assert tx.client.inbox == []


@pytest.mark.rule("TX-3", "AK-3")
def test_a_mixed_commit(channel: Channel, tx: Channel, queue: str) -> None:
    """Publishes first, then settlements: what is requeued stands before what is new."""
    fill(channel, queue, 3)
    tags = [tx.get(queue).delivery_tag for _ in range(3)]
    tx.nack(tags[2])
    tx.publish(b"new", routing_key=queue)
    tx.ack(tags[1])
    tx.nack(tags[0])
    tx.tx_commit()
    assert bodies(channel, queue) == [b"1", b"3", b"new"]


@pytest.mark.rule("TX-2", "PB-4")
def test_copies_in_a_transaction(channel: Channel, tx: Channel) -> None:
    queues = [channel.queue_declare(exclusive=True).queue for _ in range(2)]
    tx.publish(b"x", routing_key=queues[0], headers={"BCC": [queues[1]]})
    tx.publish(b"y" * 300_000, routing_key=queues[0], headers={"CC": [queues[1]]})
    tx.tx_commit()
    for queue in queues:
        assert bodies(channel, queue) == [b"x", b"y" * 300_000]


@pytest.mark.rule("TX-3", "QD-8")
def test_commit_after_the_queue_is_gone(
    channel: Channel, tx: Channel, queue: str, shared_queue: str
) -> None:
    fill(channel, shared_queue, 1)
    got = tx.get(shared_queue)
    tx.publish(b"nowhere", routing_key=shared_queue)
    tx.publish(b"here", routing_key=queue)
    tx.nack(got.delivery_tag)
    tx.sync()
    channel.queue_delete(shared_queue)
    tx.tx_commit()
    assert bodies(channel, queue) == [b"here"]


@pytest.mark.rule("TX-1", "TX-3")
def test_what_is_published_may_be_consumed_on_the_same_channel(tx: Channel, queue: str) -> None:
    tx.consume(queue)
    tx.publish(b"1", routing_key=queue)
    tx.sync()
    assert tx.client.inbox == []
    tx.send("tx.commit")
    delivery = tx.wait_for("basic.deliver")
    tx.wait_for("tx.commit-ok")
    assert (delivery.body, delivery.delivery_tag) == (b"1", 1)
