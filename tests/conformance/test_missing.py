"""Channel exception 404: what is named does not exist (table 3.2)."""

from typing import Any

import pytest

from tests.support.channel import Channel
from tests.support.fixtures import Connect

NO_QUEUE = "NOT_FOUND - no queue 'missing' in vhost '/'"
NO_EXCHANGE = "NOT_FOUND - no exchange 'missing' in vhost '/'"
NO_LAST_QUEUE = "NOT_FOUND - no previously declared queue"


@pytest.mark.rule("CH-1", "QD-5")
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("queue.declare", {"passive": True}),
        ("queue.declare", {"passive": True, "nowait": True}),
        ("queue.bind", {"exchange": "amq.direct"}),
        ("queue.purge", {}),
        ("basic.get", {}),
        ("basic.consume", {}),
        ("basic.consume", {"nowait": True}),
    ],
    ids=str,
)
def test_a_missing_queue(channel: Channel, name: str, arguments: dict[str, Any]) -> None:
    channel.send(name, queue="missing", **arguments)
    channel.expect_close(404, NO_QUEUE, method=name)


@pytest.mark.rule("CH-1", "XC-3")
@pytest.mark.parametrize("nowait", [False, True])
def test_a_missing_exchange_declared_passively(channel: Channel, nowait: bool) -> None:
    channel.send("exchange.declare", exchange="missing", passive=True, nowait=nowait)
    channel.expect_close(404, NO_EXCHANGE, method="exchange.declare")


@pytest.mark.rule("CH-1", "XC-3")
def test_a_passive_declare_ignores_an_unknown_type(channel: Channel) -> None:
    channel.send("exchange.declare", exchange="missing", type="nonsense", passive=True)
    channel.expect_close(404, NO_EXCHANGE, method="exchange.declare")
    again = channel.reopen()
    again.exchange_declare("amq.direct", "nonsense", passive=True)


@pytest.mark.rule("CH-1")
def test_a_missing_exchange_in_queue_bind(channel: Channel, queue: str) -> None:
    channel.send("queue.bind", queue=queue, exchange="missing")
    channel.expect_close(404, NO_EXCHANGE, method="queue.bind")


@pytest.mark.rule("CH-1")
@pytest.mark.parametrize(
    ("destination", "source"), [("amq.fanout", "missing"), ("missing", "amq.fanout")]
)
def test_a_missing_end_in_exchange_bind(channel: Channel, destination: str, source: str) -> None:
    channel.send("exchange.bind", destination=destination, source=source)
    channel.expect_close(404, NO_EXCHANGE, method="exchange.bind")


@pytest.mark.rule("CH-3")
def test_both_ends_missing_in_queue_bind_names_the_exchange(channel: Channel) -> None:
    channel.send("queue.bind", queue="missing queue", exchange="missing")
    channel.expect_close(404, NO_EXCHANGE, method="queue.bind")


@pytest.mark.rule("CH-3")
def test_both_ends_missing_in_exchange_bind_names_the_source(channel: Channel) -> None:
    channel.send("exchange.bind", destination="missing destination", source="missing")
    channel.expect_close(404, NO_EXCHANGE, method="exchange.bind")


@pytest.mark.rule("CH-2")
@pytest.mark.parametrize("mandatory", [False, True])
@pytest.mark.parametrize("body", [b"", b"body"])
def test_publish_to_a_missing_exchange(channel: Channel, mandatory: bool, body: bytes) -> None:
    channel.publish(body, exchange="missing", routing_key="key", mandatory=mandatory)
    channel.expect_close(404, NO_EXCHANGE, method="basic.publish")


@pytest.mark.rule("CH-2")
def test_publish_to_an_exchange_deleted_meanwhile(
    connect: Connect, channel: Channel, unique: Any
) -> None:
    """What a publisher once resolved must not outlive the exchange."""
    name = unique("exchange")
    channel.exchange_declare(name, "fanout")
    queue = channel.queue_declare(exclusive=True).queue
    channel.queue_bind(queue, name)
    channel.publish(b"first", exchange=name)
    assert channel.get(queue, no_ack=True).body == b"first"
    connect().channel().exchange_delete(name)
    channel.publish(b"second", exchange=name)
    channel.expect_close(
        404, f"NOT_FOUND - no exchange '{name}' in vhost '/'", method="basic.publish"
    )


@pytest.mark.rule("CH-4", "QD-4")
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("queue.bind", {"exchange": "amq.direct"}),
        ("queue.unbind", {"exchange": "amq.direct"}),
        ("queue.purge", {}),
        ("queue.delete", {}),
        ("basic.get", {}),
        ("basic.consume", {}),
    ],
    ids=str,
)
def test_an_empty_queue_name_before_any_declare(
    channel: Channel, name: str, arguments: dict[str, Any]
) -> None:
    channel.send(name, queue="", **arguments)
    channel.expect_close(404, NO_LAST_QUEUE, method=name)


@pytest.mark.rule("CH-4", "QD-4")
def test_the_last_declared_queue_is_known_on_its_channel_only(channel: Channel) -> None:
    other = channel.client.channel()
    channel.queue_declare(exclusive=True)
    other.send("queue.purge")
    other.expect_close(404, NO_LAST_QUEUE, method="queue.purge")
    channel.queue_purge()


@pytest.mark.rule("CH-4", "QD-4")
def test_a_passive_declare_of_the_empty_name(channel: Channel) -> None:
    """It does not stand for the last declared queue here, and no name is made."""
    channel.queue_declare(exclusive=True)
    channel.send("queue.declare", queue="", passive=True)
    channel.expect_close(404, "NOT_FOUND - no queue '' in vhost '/'", method="queue.declare")


@pytest.mark.rule("CH-1", "CH-4")
def test_the_last_declared_queue_may_have_gone(channel: Channel, unique: Any) -> None:
    name = channel.queue_declare(unique("queue")).queue
    channel.queue_delete(name)
    channel.send("basic.get")
    channel.expect_close(404, f"NOT_FOUND - no queue '{name}' in vhost '/'", method="basic.get")
