"""What pika receives: consume, get, acknowledge, refuse, cancel."""

from typing import Any

import pika
import pika.exceptions
import pytest

from tests.interop.pika_blocking.driving import bodies, pump
from tests.interop.target import until


@pytest.mark.rule("CS-6", "PB-6")
def test_consume_ack_leaves_nothing(connection: Any, channel: Any, queue: str) -> None:
    seen: list[tuple[int, bytes]] = []

    def on_message(where: Any, method: Any, _properties: Any, body: bytes) -> None:
        seen.append((method.delivery_tag, body))
        where.basic_ack(method.delivery_tag)

    for number in range(20):
        channel.basic_publish("", queue, b"%d" % number)
    channel.basic_consume(queue, on_message)
    pump(connection, lambda: len(seen) == 20)
    assert seen == [(number + 1, b"%d" % number) for number in range(20)]
    channel.close()
    assert connection.channel().queue_declare(queue, passive=True).method.message_count == 0


@pytest.mark.rule("RC-2", "AK-3")
def test_unacknowledged_messages_return_in_order_when_the_channel_closes(
    connection: Any, channel: Any, queue: str
) -> None:
    for number in range(5):
        channel.basic_publish("", queue, b"%d" % number)
    for _ in range(3):
        channel.basic_get(queue)
    channel.close()
    second = connection.channel()
    redelivered = []
    for number in range(5):
        method, _, body = second.basic_get(queue, auto_ack=True)
        assert body == b"%d" % number
        redelivered.append(method.redelivered)
    assert redelivered == [True, True, True, False, False]


@pytest.mark.rule("AK-2")
@pytest.mark.parametrize("how", ["nack", "reject"])
@pytest.mark.parametrize("requeue", [True, False])
def test_refused_message_goes_back_or_away(
    channel: Any, queue: str, how: str, requeue: bool
) -> None:
    channel.basic_publish("", queue, b"once")
    method, _, _ = channel.basic_get(queue)
    refuse = channel.basic_nack if how == "nack" else channel.basic_reject
    refuse(method.delivery_tag, requeue=requeue)
    again, _, body = channel.basic_get(queue, auto_ack=True)
    if requeue:
        assert (body, again.redelivered) == (b"once", True)
    else:
        assert again is None


@pytest.mark.rule("AK-1", "AK-3")
def test_nack_multiple_covers_all_up_to_the_tag(channel: Any, queue: str) -> None:
    for number in range(4):
        channel.basic_publish("", queue, b"%d" % number)
    tags = [channel.basic_get(queue)[0].delivery_tag for _ in range(4)]
    channel.basic_nack(tags[2], multiple=True, requeue=True)
    assert bodies(channel, queue) == [b"0", b"1", b"2"]


@pytest.mark.rule("DL-1", "DL-4", "DL-5")
def test_rejected_message_is_dead_lettered(channel: Any, name: str) -> None:
    dead = channel.queue_declare("", exclusive=True).method.queue
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    channel.queue_declare(name, exclusive=True, arguments=arguments)
    channel.basic_publish("", name, b"refused")
    method, _, _ = channel.basic_get(name)
    channel.basic_reject(method.delivery_tag, requeue=False)
    until(lambda: channel.queue_declare(dead, passive=True).method.message_count)
    method, properties, body = channel.basic_get(dead, auto_ack=True)
    assert body == b"refused"
    assert properties.headers["x-death"][0]["queue"] == name
    assert properties.headers["x-death"][0]["reason"] == "rejected"
    assert properties.headers["x-first-death-reason"] == "rejected"


@pytest.mark.rule("RC-1")
def test_recover_requeues(connection: Any, channel: Any, queue: str) -> None:
    channel.basic_publish("", queue, b"again")
    channel.basic_get(queue)
    channel.basic_recover(requeue=True)
    method, _, body = channel.basic_get(queue, auto_ack=True)
    assert (body, method.redelivered) == (b"again", True)


@pytest.mark.rule("GT-1")
def test_get_counts_what_remains_and_says_empty(channel: Any, queue: str) -> None:
    assert channel.basic_get(queue) == (None, None, None)
    for number in range(3):
        channel.basic_publish("", queue, b"%d" % number)
    counts = [channel.basic_get(queue, auto_ack=True)[0].message_count for _ in range(3)]
    assert counts == [2, 1, 0]


@pytest.mark.rule("QO-1")
def test_prefetch_bounds_what_is_in_flight(connection: Any, channel: Any, queue: str) -> None:
    tags: list[int] = []
    for number in range(10):
        channel.basic_publish("", queue, b"%d" % number)
    channel.basic_qos(prefetch_count=3)
    channel.basic_consume(queue, lambda _c, method, _p, _b: tags.append(method.delivery_tag))
    pump(connection, lambda: len(tags) == 3)
    connection.process_data_events(time_limit=0.3)
    assert tags == [1, 2, 3]
    channel.basic_ack(2, multiple=True)
    pump(connection, lambda: len(tags) == 5)
    connection.process_data_events(time_limit=0.3)
    assert tags == [1, 2, 3, 4, 5]


@pytest.mark.rule("CS-5")
def test_server_cancels_consumer_of_a_deleted_queue(
    connection: Any, channel: Any, queue: str
) -> None:
    cancelled: list[str] = []
    channel.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
    tag = channel.basic_consume(queue, lambda *_: None)
    connection.channel().queue_delete(queue)
    pump(connection, lambda: cancelled)
    assert cancelled == [tag]
    assert channel.is_open


def test_client_cancels_and_the_queue_keeps_the_rest(
    connection: Any, channel: Any, queue: str
) -> None:
    tag = channel.basic_consume(queue, lambda *_: None)
    channel.basic_cancel(tag)
    channel.basic_publish("", queue, b"kept")
    connection.process_data_events(time_limit=0.1)
    assert bodies(channel, queue) == [b"kept"]


def test_consumer_generator_ends_on_inactivity(channel: Any, queue: str) -> None:
    for number in range(3):
        channel.basic_publish("", queue, b"%d" % number)
    seen = []
    for method, _, body in channel.consume(queue, inactivity_timeout=0.5):
        if method is None:
            break
        seen.append(body)
        channel.basic_ack(method.delivery_tag)
    channel.cancel()
    assert seen == [b"0", b"1", b"2"]


@pytest.mark.rule("CS-2")
def test_exclusive_consumer_keeps_others_out(connection: Any, channel: Any, queue: str) -> None:
    channel.basic_consume(queue, lambda *_: None, exclusive=True)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refused:
        connection.channel().basic_consume(queue, lambda *_: None)
    assert refused.value.reply_code == 403
