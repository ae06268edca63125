"""Arguments that a queue cannot have: refused when it is declared (5.2)."""

from typing import Any

import pytest

from tests.support.channel import Channel
from tests.support.codec import Typed
from tests.support.expectation import starting

TTL_MAX = 315_360_000_000


def refuse(channel: Channel, name: str, arguments: dict[str, Any], reason: str) -> None:
    key = next(iter(arguments))
    channel.send("queue.declare", queue=name, exclusive=True, arguments=arguments)
    channel.expect_close(
        406,
        f"PRECONDITION_FAILED - invalid arg '{key}' for queue '{name}' in vhost '/': {reason}",
        method="queue.declare",
    )


@pytest.mark.rule("CH-10", "QA-1", "QA-2", "QA-3", "QA-7")
@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("x-message-ttl", -1, "{value_negative,-1}"),
        ("x-message-ttl", "60", '"expected integer, got longstr"'),
        ("x-message-ttl", Typed("d", 1.5), '"expected integer, got double"'),
        ("x-message-ttl", Typed("t", True), '"expected integer, got bool"'),
        ("x-message-ttl", Typed("V", None), '"expected integer, got void"'),
        ("x-message-ttl", TTL_MAX + 1, f"{{value_too_large,{TTL_MAX + 1}}}"),
        ("x-expires", 0, "{value_zero,0}"),
        ("x-expires", -1, "{value_negative,-1}"),
        ("x-expires", "60", '"expected integer, got longstr"'),
        ("x-expires", TTL_MAX + 1, f"{{value_too_large,{TTL_MAX + 1}}}"),
        ("x-max-length", -1, "{value_negative,-1}"),
        ("x-max-length", "1", '"expected integer, got longstr"'),
        ("x-max-length-bytes", -1, "{value_negative,-1}"),
        ("x-max-length-bytes", [1], '"expected integer, got array"'),
        ("x-max-priority", -1, "{value_negative,-1}"),
        ("x-max-priority", 256, "{max_value_exceeded,256}"),
        ("x-max-priority", "3", '"expected integer, got longstr"'),
    ],
    ids=str,
)
def test_numbers_out_of_range_or_no_numbers(
    channel: Channel, key: str, value: Any, reason: str
) -> None:
    refuse(channel, "refused", {key: value}, reason)


@pytest.mark.rule("CH-10", "QA-4", "QA-8", "QA-9", "QA-10")
@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("x-overflow", "nonsense", "invalid_overflow"),
        ("x-queue-mode", "nonsense", "\"unsupported queue mode 'nonsense'\""),
        ("x-queue-mode", 1, "{unacceptable_type,signedint}"),
        ("x-single-active-consumer", "true", "{unacceptable_type,longstr}"),
        ("x-single-active-consumer", 1, "{unacceptable_type,signedint}"),
    ],
    ids=str,
)
def test_values_nobody_knows(channel: Channel, key: str, value: Any, reason: str) -> None:
    refuse(channel, "refused", {key: value}, reason)


@pytest.mark.rule("QA-4")
def test_an_overflow_that_is_no_string(channel: Channel) -> None:
    channel.send("queue.declare", queue="refused", arguments={"x-overflow": 1})
    channel.expect_close(
        406,
        starting("PRECONDITION_FAILED - invalid arg 'x-overflow' for queue 'refused'"),
        method="queue.declare",
    )


@pytest.mark.rule("QA-10")
def test_an_unknown_queue_type(channel: Channel) -> None:
    channel.send("queue.declare", queue="refused", arguments={"x-queue-type": "nonsense"})
    channel.expect_close(
        406,
        "PRECONDITION_FAILED - invalid arg 'x-queue-type' for queue 'refused' in vhost '/': "
        "\"unsupported queue type 'nonsense'\"",
        method="queue.declare",
    )


@pytest.mark.rule("CH-12", "QA-5")
def test_a_dead_letter_exchange_that_is_no_string(channel: Channel) -> None:
    arguments = {"x-dead-letter-exchange": 1}
    channel.send("queue.declare", queue="refused", exclusive=True, arguments=arguments)
    channel.expect_close(
        406,
        "PRECONDITION_FAILED - invalid type 'signedint' for arg 'x-dead-letter-exchange' in "
        "queue 'refused' in vhost '/'",
        method="queue.declare",
    )


@pytest.mark.rule("CH-12")
def test_an_alternate_exchange_that_is_no_string(channel: Channel, unique: Any) -> None:
    name = unique("x")
    channel.send("exchange.declare", exchange=name, arguments={"alternate-exchange": True})
    channel.expect_close(
        406,
        "PRECONDITION_FAILED - invalid type 'bool' for arg 'alternate-exchange' in "
        f"exchange '{name}' in vhost '/'",
        method="exchange.declare",
    )


@pytest.mark.rule("CH-10", "QA-6")
def test_a_key_for_dead_letters_without_their_exchange(channel: Channel) -> None:
    refuse(
        channel,
        "refused",
        {"x-dead-letter-routing-key": "key"},
        "routing_key_but_no_dlx_defined",
    )


@pytest.mark.rule("CH-11")
@pytest.mark.parametrize(
    "key", ["x-max-age", "x-max-in-memory-length", "x-quorum-initial-group-size"]
)
def test_an_argument_of_another_queue_type(channel: Channel, key: str) -> None:
    channel.send("queue.declare", queue="refused", exclusive=True, arguments={key: 5})
    channel.expect_close(
        406,
        starting(f"PRECONDITION_FAILED - invalid arg '{key}' for queue 'refused' in vhost '/' of "),
        method="queue.declare",
    )


@pytest.mark.rule("QA-1", "QA-2", "QA-3", "QA-4", "QA-5", "QA-7", "QA-8", "QA-9", "QA-10", "QA-11")
@pytest.mark.parametrize(
    "arguments",
    [
        {"x-message-ttl": 0},
        {"x-message-ttl": TTL_MAX},
        {"x-expires": 1000},
        {"x-expires": TTL_MAX},
        {"x-max-length": 0},
        {"x-max-length-bytes": 2**40},
        {"x-overflow": "drop-head"},
        {"x-overflow": "reject-publish"},
        {"x-overflow": "reject-publish-dlx"},
        {"x-dead-letter-exchange": "nobody declared it"},
        {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "key"},
        {"x-max-priority": 0},
        {"x-max-priority": 255},
        {"x-queue-mode": "default"},
        {"x-queue-mode": "lazy"},
        {"x-single-active-consumer": True},
        {"x-single-active-consumer": False},
        {"x-queue-type": "classic"},
        {"x-queue-master-locator": "client-local"},
    ],
    ids=str,
)
def test_values_that_are_taken(channel: Channel, unique: Any, arguments: dict[str, Any]) -> None:
    channel.queue_declare(unique("taken"), exclusive=True, arguments=arguments)


@pytest.mark.rule("CH-10", "QA-1")
def test_a_refused_queue_does_not_exist(channel: Channel) -> None:
    refuse(channel, "refused", {"x-expires": 0}, "{value_zero,0}")
    again = channel.reopen()
    again.send("queue.declare", queue="refused", passive=True)
    again.expect_close(404, "NOT_FOUND - no queue 'refused' in vhost '/'")


@pytest.mark.rule("CH-28", "CS-4")
@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("x-priority", "high", "invalid arg 'x-priority' for queue '{}' in vhost '/': "),
        ("x-priority", True, "invalid arg 'x-priority' for queue '{}' in vhost '/': "),
        (
            "x-cancel-on-ha-failover",
            1,
            "invalid arg 'x-cancel-on-ha-failover' for queue '{}' in vhost '/': ",
        ),
    ],
    ids=str,
)
def test_bad_arguments_of_a_consumer(
    channel: Channel, queue: str, key: str, value: Any, text: str
) -> None:
    channel.send("basic.consume", queue=queue, arguments={key: value})
    channel.expect_close(
        406, starting("PRECONDITION_FAILED - " + text.format(queue)), method="basic.consume"
    )


@pytest.mark.rule("CS-4")
@pytest.mark.parametrize(
    "arguments",
    [{"x-priority": -5}, {"x-priority": 2**40}, {"x-cancel-on-ha-failover": True}, {"mine": 1}],
    ids=str,
)
def test_arguments_of_a_consumer_that_are_taken(
    channel: Channel, queue: str, arguments: dict[str, Any]
) -> None:
    channel.consume(queue, arguments=arguments)
