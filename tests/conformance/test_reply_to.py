"""Direct reply-to: requests and replies without a queue (6.8)."""

import re

import pytest

from tests.support.channel import Channel
from tests.support.codec import Typed, encode_properties
from tests.support.expectation import starting
from tests.support.fixtures import Connect

PSEUDO = "amq.rabbitmq.reply-to"
ADDRESS = re.compile(r"amq\.rabbitmq\.reply-to\.\S{16,}")


@pytest.fixture
def server(connect: Connect) -> Channel:
    return connect().channel()


def request(channel: Channel, server: Channel, queue: str) -> str:
    """Send a request to the queue; return the address the server sees."""
    channel.publish(b"question", routing_key=queue, reply_to=PSEUDO)
    channel.sync()
    got = server.get(queue, no_ack=True)
    address: str = got.properties["reply_to"]
    assert ADDRESS.fullmatch(address)
    return address


@pytest.mark.rule("DR-1", "DR-2", "DR-3")
@pytest.mark.parametrize("tag", ["", "mine"])
def test_a_request_and_its_reply(
    channel: Channel, server: Channel, shared_queue: str, tag: str
) -> None:
    tag = channel.consume(PSEUDO, tag, no_ack=True)
    assert tag
    address = request(channel, server, shared_queue)
    raw = encode_properties({"correlation_id": "c", "headers": {"b": 1, "a": 2}, "type": "t"})
    server.publish(b"answer", routing_key=address, raw_properties=raw)
    reply = channel.recv_delivery(consumer_tag=tag, redelivered=False)
    assert (reply.body, reply.exchange, reply.routing_key) == (b"answer", "", address)
    assert reply.raw_properties == raw


@pytest.mark.rule("DR-2", "PB-5")
def test_only_the_address_of_a_request_is_rewritten(
    channel: Channel, server: Channel, shared_queue: str
) -> None:
    channel.consume(PSEUDO, no_ack=True)
    properties = {
        "content_type": "x",
        "headers": {"z": Typed("s", 1), "a": None},
        "delivery_mode": 2,
        "priority": 1,
        "correlation_id": "c",
        "reply_to": PSEUDO,
        "expiration": "60000",
        "message_id": "m",
        "timestamp": 1,
        "type": "t",
        "user_id": "guest",
        "app_id": "a",
        "cluster_id": "c",
    }
    channel.publish(b"x", routing_key=shared_queue, raw_properties=encode_properties(properties))
    channel.sync()
    got = server.get(shared_queue)
    address = got.properties["reply_to"]
    assert ADDRESS.fullmatch(address)
    assert got.raw_properties == encode_properties(properties | {"reply_to": address})


@pytest.mark.rule("DR-2")
@pytest.mark.parametrize("name", ["amq.rabbitmq.reply-to.", "amq.rabbitmq.reply-tO", "other", ""])
def test_other_addresses_are_left_alone(
    channel: Channel, server: Channel, shared_queue: str, name: str
) -> None:
    channel.publish(b"x", routing_key=shared_queue, reply_to=name)
    channel.sync()
    assert server.get(shared_queue).properties == {"reply_to": name}


@pytest.mark.rule("DR-2")
def test_a_request_on_another_channel_than_the_consumer(
    channel: Channel, shared_queue: str
) -> None:
    """Trap 29."""
    other = channel.client.channel()
    channel.consume(PSEUDO, no_ack=True)
    other.publish(b"x", routing_key=shared_queue, reply_to=PSEUDO)
    other.expect_close(
        406, "PRECONDITION_FAILED - fast reply consumer does not exist", method="basic.publish"
    )


@pytest.mark.rule("DR-3")
def test_one_address_serves_many_replies_from_anybody(
    connect: Connect, channel: Channel, server: Channel, shared_queue: str
) -> None:
    channel.consume(PSEUDO, no_ack=True)
    address = request(channel, server, shared_queue)
    assert request(channel, server, shared_queue) == address
    stranger = connect().channel()
    for number in range(5):
        for each in (server, stranger, channel):
            each.publish(b"%d" % number, routing_key=address)
            each.sync()
            assert channel.wait_for("basic.deliver").body == b"%d" % number


@pytest.mark.rule("DR-3", "DR-5")
def test_addresses_of_channels_are_apart(
    channel: Channel, server: Channel, shared_queue: str
) -> None:
    other = channel.client.channel()
    for each in (channel, other):
        each.consume(PSEUDO, "same tag", no_ack=True)
    addresses = [request(each, server, shared_queue) for each in (channel, other)]
    assert addresses[0] != addresses[1]
    for number in (1, 0):
        server.publish(b"%d" % number, routing_key=addresses[number])
    assert channel.recv_delivery(consumer_tag="same tag").body == b"0"
    assert other.recv_delivery(consumer_tag="same tag").body == b"1"


@pytest.mark.rule("DR-5", "CS-6")
def test_replies_do_not_advance_the_delivery_tag(
    channel: Channel, server: Channel, shared_queue: str, queue: str
) -> None:
    """Trap 29."""
    channel.consume(PSEUDO, no_ack=True)
    address = request(channel, server, shared_queue)
    for _ in range(3):
        server.publish(b"r", routing_key=address)
        channel.recv_delivery(delivery_tag=1)
    channel.publish(b"x", routing_key=queue)
    assert channel.get(queue).delivery_tag == 1
    for _ in range(2):
        server.publish(b"r", routing_key=address)
        channel.recv_delivery(delivery_tag=2, redelivered=False)
    channel.publish(b"x", routing_key=queue)
    assert channel.get(queue).delivery_tag == 2
    channel.ack(3)
    channel.expect_close(406, starting("PRECONDITION_FAILED - unknown delivery tag 3"))


@pytest.mark.rule("DR-3")
@pytest.mark.parametrize("end", ["cancel", "channel", "exception", "connection"])
def test_nothing_is_stored_for_a_requester_that_is_gone(
    connect: Connect, server: Channel, channel: Channel, shared_queue: str, end: str
) -> None:
    requester = connect().channel()
    requester.consume(PSEUDO, "tag", no_ack=True)
    address = request(requester, server, shared_queue)
    if end == "cancel":
        requester.cancel("tag")
    elif end == "channel":
        requester.close()
    elif end == "exception":
        requester.ack(9)
        requester.expect_close(406, starting("PRECONDITION_FAILED"))
    else:
        requester.client.close()
    server.confirm_select()
    server.publish(b"late", routing_key=address)
    assert server.wait_confirms(1) == {1: "ack"}
    server.send("queue.declare", queue=address, passive=True)
    server.expect_close(404, f"NOT_FOUND - no queue '{address}' in vhost '/'")
    if end != "connection":
        if end != "cancel":
            requester = requester.reopen()
        requester.consume(PSEUDO, "tag", no_ack=True)
        assert request(requester, channel, shared_queue) != address
        requester.sync()
        assert requester.client.inbox == []


@pytest.mark.rule("DR-3")
def test_a_new_consumer_after_cancel_takes_no_old_replies(
    channel: Channel, server: Channel, shared_queue: str
) -> None:
    channel.consume(PSEUDO, "tag", no_ack=True)
    old = request(channel, server, shared_queue)
    channel.cancel("tag")
    channel.publish(b"x", routing_key=shared_queue, reply_to="other")
    channel.consume(PSEUDO, "tag", no_ack=True)
    server.queue_purge(shared_queue)
    new = request(channel, server, shared_queue)
    server.publish(b"old", routing_key=old)
    server.publish(b"new", routing_key=new)
    assert channel.recv_delivery().body == b"new"


@pytest.mark.rule("DR-3")
def test_forged_addresses_do_nothing(channel: Channel, server: Channel, shared_queue: str) -> None:
    channel.consume(PSEUDO, no_ack=True)
    address = request(channel, server, shared_queue)
    for forged in (address[:-1], address + "x", address[:30], address.upper(), PSEUDO):
        server.publish(b"x", routing_key=forged)
    server.sync()
    server.publish(b"true", routing_key=address)
    assert channel.recv_delivery().body == b"true"


@pytest.mark.rule("DR-3")
def test_only_the_default_exchange_leads_to_an_address(
    channel: Channel, server: Channel, shared_queue: str
) -> None:
    channel.consume(PSEUDO, no_ack=True)
    address = request(channel, server, shared_queue)
    server.publish(b"x", exchange="amq.direct", routing_key=address, mandatory=True)
    server.expect("basic.return", exchange="amq.direct")
    channel.sync()
    assert channel.client.inbox == []


@pytest.mark.rule("DR-4")
def test_a_mandatory_reply_is_returned_and_delivered(
    channel: Channel, server: Channel, shared_queue: str
) -> None:
    channel.consume(PSEUDO, no_ack=True)
    address = request(channel, server, shared_queue)
    server.confirm_select()
    server.publish(b"x", routing_key=address, mandatory=True)
    back = server.expect("basic.return", reply_code=312, routing_key=address)
    assert back.body == b"x"
    server.expect("basic.ack", delivery_tag=1)
    assert channel.recv_delivery().body == b"x"


@pytest.mark.rule("DR-3", "WI-2")
@pytest.mark.parametrize("size", [0, 4088, 4089, 300_000])
def test_large_replies_fit_the_requester(
    connect: Connect, server: Channel, shared_queue: str, size: int
) -> None:
    narrow = connect(frame_max=4096).channel()
    narrow.consume(PSEUDO, no_ack=True)
    address = request(narrow, server, shared_queue)
    body = bytes(range(250)) * (size // 250 + 1)
    server.publish(body[:size], routing_key=address)
    assert narrow.recv_delivery().body == body[:size]


@pytest.mark.rule("DR-3", "TX-3")
def test_a_reply_in_a_transaction(channel: Channel, server: Channel, shared_queue: str) -> None:
    channel.consume(PSEUDO, no_ack=True)
    address = request(channel, server, shared_queue)
    server.tx_select()
    server.publish(b"x", routing_key=address)
    server.tx_commit()
    assert channel.recv_delivery().body == b"x"
    server.tx_rollback()
    server.sync()
    channel.sync()
    assert channel.client.inbox == []


@pytest.mark.rule("DR-2", "TX-3")
def test_a_request_in_a_transaction(channel: Channel, server: Channel, shared_queue: str) -> None:
    channel.tx_select()
    channel.consume(PSEUDO, no_ack=True)
    channel.publish(b"x", routing_key=shared_queue, reply_to=PSEUDO)
    channel.tx_commit()
    address = server.get(shared_queue).properties["reply_to"]
    server.publish(b"y", routing_key=address)
    assert channel.recv_delivery().body == b"y"


@pytest.mark.rule("DR-1", "QO-2", "QO-4")
def test_replies_are_not_limited_by_prefetch(
    channel: Channel, server: Channel, shared_queue: str, queue: str
) -> None:
    channel.qos(1)
    channel.qos(1, shared=True)
    channel.consume(queue)
    channel.publish(b"x", routing_key=queue)
    channel.recv_delivery()
    channel.consume(PSEUDO, no_ack=True)
    address = request(channel, server, shared_queue)
    for _ in range(5):
        server.publish(b"r", routing_key=address)
    for _ in range(5):
        channel.recv_delivery(routing_key=address)


@pytest.mark.rule("DR-6")
def test_declare_of_such_names_is_passive(
    connect: Connect, channel: Channel, server: Channel, shared_queue: str
) -> None:
    channel.consume(PSEUDO, no_ack=True)
    address = request(channel, server, shared_queue)
    for name in (PSEUDO, address):
        for options in ({}, {"passive": True}, {"exclusive": True, "auto_delete": True}):
            reply = server.queue_declare(name, **options)
            assert (reply.queue, reply.message_count, reply.consumer_count) == (name, 0, 1)
    channel.close()
    assert server.queue_declare(PSEUDO).consumer_count == 1
    server.send("queue.declare", queue=address)
    server.expect_close(404, f"NOT_FOUND - no queue '{address}' in vhost '/'")


@pytest.mark.differs_from_reference("it ends with 541, an accident")
@pytest.mark.rule("DR-6", "DR-3")
@pytest.mark.parametrize("token", ["nonsense", "g1h2AA.==", "...", "ö"])
def test_declare_of_a_malformed_address(channel: Channel, token: str) -> None:
    name = f"{PSEUDO}.{token}"
    channel.send("queue.declare", queue=name, passive=True)
    channel.expect_close(404, f"NOT_FOUND - no queue '{name}' in vhost '/'")


@pytest.mark.rule("DR-3")
def test_a_publish_to_a_malformed_address_is_dropped(channel: Channel, queue: str) -> None:
    channel.publish(b"x", routing_key=f"{PSEUDO}.nonsense")
    channel.publish(b"y", routing_key=queue)
    assert channel.get(queue).body == b"y"


@pytest.mark.rule("DR-1")
def test_the_reply_consumer_may_be_cancelled_and_started_again(channel: Channel) -> None:
    for _ in range(3):
        channel.consume(PSEUDO, "tag", no_ack=True)
        channel.cancel("tag")
    channel.consume(PSEUDO, "other", no_ack=True, nowait=True)
    channel.send("basic.consume", queue=PSEUDO, no_ack=True)
    channel.expect_close(406, "PRECONDITION_FAILED - reply consumer already set")


@pytest.mark.rule("DR-1")
def test_there_is_no_real_queue_of_that_name(channel: Channel) -> None:
    channel.send("basic.get", queue=PSEUDO)
    channel.expect_close(404, f"NOT_FOUND - no queue '{PSEUDO}' in vhost '/'")
    again = channel.reopen()
    again.publish(b"x", routing_key=PSEUDO, mandatory=True)
    again.expect("basic.return", routing_key=PSEUDO)
