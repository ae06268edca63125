"""Channel exception 406 in publishing, acknowledging, transactions and deletes (table 3.2)."""

from typing import Any

import pytest

from tests.support.channel import Channel
from tests.support.codec import Typed
from tests.support.expectation import starting
from tests.support.fixtures import Connect, StartBroker

FAILED = "PRECONDITION_FAILED - "


def where(queue: str) -> str:
    return f"queue '{queue}' in vhost '/'"


@pytest.mark.rule("CH-14")
def test_delete_if_unused_of_a_queue_with_a_consumer(channel: Channel, queue: str) -> None:
    tag = channel.consume(queue)
    other = channel.client.channel()
    other.send("queue.delete", queue=queue, if_unused=True)
    other.expect_close(406, f"{FAILED}{where(queue)} in use", method="queue.delete")
    channel.cancel(tag)
    channel.queue_delete(queue, if_unused=True)


@pytest.mark.rule("CH-15")
def test_delete_if_empty_of_a_queue_with_messages(channel: Channel, queue: str) -> None:
    """Only ready messages count: one that is handed out does not keep the queue."""
    channel.publish(b"x", routing_key=queue)
    channel.send("queue.delete", queue=queue, if_empty=True)
    channel.expect_close(406, f"{FAILED}{where(queue)} not empty", method="queue.delete")
    again = channel.reopen()
    assert again.get(queue).body == b"x"
    assert again.queue_delete(queue, if_empty=True).message_count == 0


@pytest.mark.rule("CH-20", "XC-6")
def test_delete_if_unused_of_an_exchange_with_bindings(
    channel: Channel, queue: str, unique: Any
) -> None:
    """Only bindings from it count, not those to it."""
    name, other = unique("x"), unique("y")
    channel.exchange_declare(name, "fanout")
    channel.exchange_declare(other, "fanout")
    channel.queue_bind(queue, name)
    channel.send("exchange.delete", exchange=name, if_unused=True)
    channel.expect_close(
        406, f"{FAILED}exchange '{name}' in vhost '/' in use", method="exchange.delete"
    )
    again = channel.reopen()
    again.queue_unbind(queue, name)
    again.exchange_bind(name, other)
    again.exchange_delete(name, if_unused=True)


@pytest.mark.rule("CH-23", "AK-1")
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("basic.ack", {"delivery_tag": 7}),
        ("basic.ack", {"delivery_tag": 7, "multiple": True}),
        ("basic.ack", {"delivery_tag": 2**64 - 1}),
        ("basic.ack", {"delivery_tag": 0}),
        ("basic.nack", {"delivery_tag": 7}),
        ("basic.nack", {"delivery_tag": 7, "multiple": True, "requeue": True}),
        ("basic.nack", {"delivery_tag": 0}),
        ("basic.reject", {"delivery_tag": 7}),
        ("basic.reject", {"delivery_tag": 0, "requeue": True}),
    ],
    ids=str,
)
def test_a_tag_that_was_never_given(channel: Channel, name: str, arguments: Any) -> None:
    channel.send(name, **arguments)
    tag = arguments["delivery_tag"]
    channel.expect_close(406, f"{FAILED}unknown delivery tag {tag}", method=name)


@pytest.mark.rule("CH-23", "AK-1")
@pytest.mark.parametrize("name", ["basic.ack", "basic.nack", "basic.reject"])
def test_a_tag_answered_twice(channel: Channel, queue: str, name: str) -> None:
    for _ in range(3):
        channel.publish(b"x", routing_key=queue)
    tags = [channel.get(queue).delivery_tag for _ in range(3)]
    assert tags == [1, 2, 3]
    channel.ack(2)
    channel.send(name, delivery_tag=2)
    channel.expect_close(406, f"{FAILED}unknown delivery tag 2", method=name)


@pytest.mark.rule("CH-23", "AK-1")
def test_multiple_needs_a_tag_that_is_outstanding(channel: Channel, queue: str) -> None:
    for _ in range(2):
        channel.publish(b"x", routing_key=queue)
        channel.get(queue)
    channel.ack(2)
    channel.ack(2, multiple=True)
    channel.expect_close(406, f"{FAILED}unknown delivery tag 2", method="basic.ack")


@pytest.mark.rule("CH-23", "AK-1")
def test_a_tag_of_another_channel(channel: Channel, queue: str) -> None:
    channel.publish(b"x", routing_key=queue)
    other = channel.client.channel()
    tag = other.get(queue).delivery_tag
    channel.ack(tag)
    channel.expect_close(406, f"{FAILED}unknown delivery tag {tag}", method="basic.ack")
    other.ack(tag)
    other.sync()


@pytest.mark.rule("CH-23")
def test_a_tag_that_needs_no_ack(channel: Channel, queue: str) -> None:
    channel.publish(b"x", routing_key=queue)
    tag = channel.get(queue, no_ack=True).delivery_tag
    channel.ack(tag)
    channel.expect_close(406, f"{FAILED}unknown delivery tag {tag}", method="basic.ack")


@pytest.mark.rule("CH-24", "PB-2")
def test_a_user_id_that_is_not_the_user(channel: Channel, queue: str) -> None:
    channel.publish(b"x", routing_key=queue, user_id="somebody")
    channel.expect_close(
        406,
        f"{FAILED}user_id property set to 'somebody' but authenticated user was 'guest'",
        method="basic.publish",
    )


@pytest.mark.rule("CH-25", "TT-2")
@pytest.mark.parametrize(
    ("expiration", "reason"),
    [
        ("soon", "no_integer"),
        ("", "no_integer"),
        (" 1", "no_integer"),
        ("-1", "{value_negative,-1}"),
        ("10s", '{leftover_string,"s"}'),
        ("1.5", '{leftover_string,".5"}'),
        ("315360000001", "{value_too_large,315360000001}"),
    ],
)
def test_a_bad_expiration(channel: Channel, queue: str, expiration: str, reason: str) -> None:
    channel.publish(b"x", routing_key=queue, expiration=expiration)
    text = f"{FAILED}invalid expiration '{expiration}': {reason}"
    channel.expect_close(406, text, method="basic.publish")


@pytest.mark.rule("CH-26", "PB-5")
@pytest.mark.parametrize("mode", [0, 3, 255])
def test_a_bad_delivery_mode(channel: Channel, queue: str, mode: int) -> None:
    channel.publish(b"x", routing_key=queue, delivery_mode=mode)
    text = f"{FAILED}invalid message: {{delivery_mode_unknown,{mode}}}"
    channel.expect_close(406, text, method="basic.publish")


@pytest.mark.rule("CH-27", "PB-4")
@pytest.mark.parametrize("key", ["CC", "BCC"])
@pytest.mark.parametrize(
    ("value", "kind"), [("key", "longstr"), (Typed("I", 1), "signedint"), ({}, "table")]
)
def test_further_routing_keys_that_are_no_array(
    channel: Channel, queue: str, key: str, value: Any, kind: str
) -> None:
    channel.publish(b"x", routing_key=queue, headers={key: value})
    text = f'{FAILED}invalid message: {{unacceptable_type_in_header,"{key}",{kind}}}'
    close = channel.expect_close(406, starting(f"{FAILED}invalid message: "))
    assert "".join(close.reply_text.split()) == "".join(text.split())


@pytest.mark.slow
@pytest.mark.rule("CH-29", "PB-1")
def test_a_body_above_the_limit(start_broker: StartBroker) -> None:
    """Found out when the whole body is there; the limit itself is allowed."""
    client = start_broker(settings={"max_message_size": 1000}).connect()
    channel = client.channel()
    queue = channel.queue_declare(exclusive=True).queue
    channel.publish(b"x" * 1000, routing_key=queue, part_size=100)
    assert len(channel.get(queue).body) == 1000
    channel.publish(b"x" * 1001, routing_key=queue, part_size=100)
    channel.expect_close(
        406,
        f"{FAILED}message size 1001 is larger than configured max size 1000",
        method="basic.publish",
    )
    client.close()


@pytest.mark.rule("CH-30", "HD-1")
@pytest.mark.parametrize(
    ("value", "text"),
    [
        (
            "some",
            'Invalid x-match field value <<"some">>; expected all, any, all-with-x, or any-with-x',
        ),
        ("", "Invalid x-match field value <<>>; expected all, any, all-with-x, or any-with-x"),
        (1, "Invalid x-match field type signedint (value 1); expected longstr"),
        (True, "Invalid x-match field type bool (value true); expected longstr"),
    ],
)
def test_a_bad_match_of_a_headers_binding(
    channel: Channel, queue: str, value: Any, text: str
) -> None:
    channel.send("queue.bind", queue=queue, exchange="amq.headers", arguments={"x-match": value})
    close = channel.expect_close(406, starting(f"{FAILED}Invalid x-match field"))
    assert close.reply_text == FAILED + text


@pytest.mark.rule("CH-31")
@pytest.mark.parametrize("name", ["tx.commit", "tx.rollback"])
def test_the_end_of_a_transaction_without_a_beginning(channel: Channel, name: str) -> None:
    channel.send(name)
    channel.expect_close(406, f"{FAILED}channel is not transactional", method=name)


@pytest.mark.rule("CH-32", "CO-5")
def test_confirms_and_transactions_exclude_each_other(channel: Channel) -> None:
    channel.tx_select()
    channel.send("confirm.select")
    channel.expect_close(
        406, f"{FAILED}cannot switch from tx to confirm mode", method="confirm.select"
    )
    again = channel.reopen()
    again.confirm_select()
    again.send("tx.select")
    again.expect_close(406, f"{FAILED}cannot switch from confirm to tx mode", method="tx.select")


@pytest.mark.rule("CH-34", "DR-1")
def test_a_reply_consumer_with_acks_or_twice(channel: Channel) -> None:
    channel.send("basic.consume", queue="amq.rabbitmq.reply-to", no_ack=False)
    channel.expect_close(406, f"{FAILED}reply consumer cannot acknowledge", method="basic.consume")
    again = channel.reopen()
    again.consume("amq.rabbitmq.reply-to", no_ack=True)
    again.send("basic.consume", queue="amq.rabbitmq.reply-to", no_ack=True)
    again.expect_close(406, f"{FAILED}reply consumer already set", method="basic.consume")


@pytest.mark.rule("CH-35", "DR-2")
def test_a_request_without_a_reply_consumer(channel: Channel, queue: str) -> None:
    channel.publish(b"x", routing_key=queue, reply_to="amq.rabbitmq.reply-to")
    channel.expect_close(406, f"{FAILED}fast reply consumer does not exist", method="basic.publish")


@pytest.mark.slow
@pytest.mark.rule("CH-8", "CT-1")
def test_a_delivery_that_is_not_acknowledged_in_time(start_broker: StartBroker) -> None:
    settings = {"consumer_timeout": 1000, "channel_tick_interval": 1000}
    client = start_broker(settings=settings).connect()
    channel = client.channel()
    queue = channel.queue_declare(exclusive=True).queue
    channel.publish(b"x", routing_key=queue)
    channel.consume(queue)
    channel.recv_delivery()
    channel.expect_close(
        406,
        starting(
            f"{FAILED}delivery acknowledgement on channel 1 timed out. Timeout value used: 1000 ms."
        ),
        method=(0, 0),
    )
    assert client.channel().get(queue).redelivered
    client.close()


@pytest.mark.rule("CH-23", "EX-2")
def test_other_connections_and_channels_are_not_concerned(
    connect: Connect, channel: Channel
) -> None:
    neighbour, stranger = channel.client.channel(), connect().channel()
    channel.ack(1)
    channel.expect_close(406, f"{FAILED}unknown delivery tag 1")
    neighbour.sync()
    stranger.sync()
