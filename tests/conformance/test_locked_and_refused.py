"""Channel exceptions 405 and 403: it exists, but not for you (table 3.2)."""

from typing import Any

import pytest

from tests.support.channel import Channel
from tests.support.fixtures import Connect

SYSTEM_EXCHANGES = [
    "amq.direct",
    "amq.fanout",
    "amq.topic",
    "amq.headers",
    "amq.match",
    "amq.rabbitmq.trace",
]
ON_DEFAULT = "ACCESS_REFUSED - operation not permitted on the default exchange"


def locked(queue: str) -> str:
    text = (
        f"RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{queue}' in vhost '/'. "
        "It could be originally declared on another connection or the exclusive property value "
        "does not match that of the original declaration."
    )
    return text if len(text) <= 255 else text[:252] + "..."


@pytest.mark.rule("CH-9", "QD-2")
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("queue.declare", {}),
        ("queue.declare", {"exclusive": True}),
        ("queue.declare", {"passive": True}),
        ("queue.declare", {"durable": True, "auto_delete": True}),
        ("queue.bind", {"exchange": "amq.direct"}),
        ("queue.unbind", {"exchange": "amq.direct"}),
        ("queue.purge", {}),
        ("queue.delete", {}),
        ("basic.get", {}),
        ("basic.consume", {}),
    ],
    ids=str,
)
def test_an_exclusive_queue_of_another_connection(
    connect: Connect, channel: Channel, unique: Any, name: str, arguments: dict[str, Any]
) -> None:
    queue = channel.queue_declare(unique("private"), exclusive=True).queue
    channel.queue_bind(queue, "amq.direct")
    other = connect().channel()
    other.send(name, queue=queue, **arguments)
    other.expect_close(405, locked(queue), method=name)


@pytest.mark.rule("CH-9", "QD-2")
def test_everyone_may_publish_to_an_exclusive_queue(
    connect: Connect, channel: Channel, queue: str
) -> None:
    other = connect().channel()
    other.publish(b"hello", routing_key=queue)
    other.sync()
    assert channel.get(queue).body == b"hello"


@pytest.mark.rule("CH-9", "QD-1")
@pytest.mark.parametrize("was", [False, True])
def test_the_exclusive_flag_differs(channel: Channel, unique: Any, was: bool) -> None:
    """On the owner's own connection too, and before any other property is compared."""
    name = unique("queue")
    channel.queue_declare(name, exclusive=was)
    channel.send("queue.declare", queue=name, exclusive=not was, auto_delete=True)
    channel.expect_close(405, locked(name), method="queue.declare")


@pytest.mark.rule("QD-2")
def test_an_exclusive_queue_is_never_durable(channel: Channel, unique: Any) -> None:
    """The flag is ignored, so a declare without it is the same."""
    name = unique("queue")
    channel.queue_declare(name, exclusive=True, durable=True)
    channel.queue_declare(name, exclusive=True, durable=False)
    channel.queue_declare(name, exclusive=True, durable=True)


@pytest.mark.rule("CH-16")
@pytest.mark.parametrize("name", ["amq.mine", "amq."])
def test_a_new_name_with_the_reserved_prefix(channel: Channel, name: str) -> None:
    channel.send("queue.declare", queue=name, exclusive=True)
    channel.expect_close(
        403,
        f"ACCESS_REFUSED - queue name '{name}' contains reserved prefix 'amq.*'",
        method="queue.declare",
    )
    again = channel.reopen()
    again.send("exchange.declare", exchange=name)
    again.expect_close(
        403,
        f"ACCESS_REFUSED - exchange name '{name}' contains reserved prefix 'amq.*'",
        method="exchange.declare",
    )


@pytest.mark.rule("CH-16", "XC-3")
def test_the_prefix_is_no_matter_for_what_exists(channel: Channel) -> None:
    """An exchange of the broker may be declared again, and its name must be meant exactly."""
    channel.exchange_declare("amq.direct", "direct", durable=True)
    channel.exchange_declare("amq.topic", passive=True)
    for name in ("amq", "amqx", "AMQ.x"):
        channel.queue_declare(name, exclusive=True)


@pytest.mark.rule("CH-16", "QD-3")
def test_a_queue_named_by_the_broker_is_declared_again_only_passively(channel: Channel) -> None:
    """Unlike for exchanges, the prefix of a queue counts even if the queue exists."""
    queue = channel.queue_declare(exclusive=True).queue
    assert queue.startswith("amq.gen-")
    assert channel.queue_declare(queue, passive=True).queue == queue
    channel.send("queue.declare", queue=queue, exclusive=True)
    channel.expect_close(
        403,
        f"ACCESS_REFUSED - queue name '{queue}' contains reserved prefix 'amq.*'",
        method="queue.declare",
    )


@pytest.mark.rule("CH-16")
def test_a_missing_name_with_the_prefix_declared_passively(channel: Channel) -> None:
    channel.send("queue.declare", queue="amq.missing", passive=True)
    channel.expect_close(404, "NOT_FOUND - no queue 'amq.missing' in vhost '/'")


@pytest.mark.rule("CH-17")
@pytest.mark.parametrize("exchange", SYSTEM_EXCHANGES)
@pytest.mark.parametrize("if_unused", [False, True])
def test_exchanges_of_the_broker_are_not_deleted(
    channel: Channel, exchange: str, if_unused: bool
) -> None:
    channel.send("exchange.delete", exchange=exchange, if_unused=if_unused)
    channel.expect_close(
        403,
        f"ACCESS_REFUSED - deletion of system exchange '{exchange}' in vhost '/' not allowed",
        method="exchange.delete",
    )


@pytest.mark.rule("CH-18", "XC-2")
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("exchange.declare", {"exchange": ""}),
        ("exchange.declare", {"exchange": "", "passive": True}),
        ("exchange.delete", {"exchange": ""}),
        ("exchange.bind", {"destination": "", "source": "amq.direct"}),
        ("exchange.bind", {"destination": "amq.direct", "source": ""}),
        ("exchange.unbind", {"destination": "", "source": "amq.direct"}),
        ("exchange.unbind", {"destination": "amq.direct", "source": ""}),
    ],
    ids=str,
)
def test_nothing_changes_the_default_exchange(
    channel: Channel, name: str, arguments: dict[str, Any]
) -> None:
    channel.send(name, **arguments)
    channel.expect_close(403, ON_DEFAULT, method=name)


@pytest.mark.rule("CH-18", "XC-2")
@pytest.mark.parametrize("name", ["queue.bind", "queue.unbind"])
def test_no_queue_is_bound_to_the_default_exchange(channel: Channel, queue: str, name: str) -> None:
    channel.send(name, queue=queue, exchange="", routing_key="other")
    channel.expect_close(403, ON_DEFAULT, method=name)


@pytest.mark.rule("CH-19", "XC-9")
def test_publish_to_an_internal_exchange(channel: Channel, unique: Any) -> None:
    name = unique("internal")
    channel.exchange_declare(name, "fanout", internal=True)
    for exchange in (name, "amq.rabbitmq.trace"):
        channel.publish(b"", exchange=exchange, mandatory=True)
        channel.expect_close(
            403,
            f"ACCESS_REFUSED - cannot publish to internal exchange '{exchange}' in vhost '/'",
            method="basic.publish",
        )
        channel = channel.reopen()


@pytest.mark.rule("CH-22", "CS-2")
@pytest.mark.parametrize(("first", "second"), [(True, False), (True, True), (False, True)])
def test_an_exclusive_consumer_is_alone(
    channel: Channel, queue: str, first: bool, second: bool
) -> None:
    tag = channel.consume(queue, exclusive=first)
    other = channel.client.channel()
    other.send("basic.consume", queue=queue, exclusive=second)
    other.expect_close(
        403,
        f"ACCESS_REFUSED - queue '{queue}' in vhost '/' in exclusive use",
        method="basic.consume",
    )
    channel.cancel(tag)
    channel.consume(queue, exclusive=second)


@pytest.mark.rule("CH-22")
def test_no_exclusive_consumer_on_a_single_active_consumer_queue(channel: Channel) -> None:
    arguments = {"x-single-active-consumer": True}
    queue = channel.queue_declare(exclusive=True, arguments=arguments).queue
    channel.send("basic.consume", queue=queue, exclusive=True)
    channel.expect_close(
        403,
        f"ACCESS_REFUSED - queue '{queue}' in vhost '/' in exclusive use",
        method="basic.consume",
    )
