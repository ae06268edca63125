"""Declaring again with other properties: 406 names what differs (rules QD-1, XC-3; 5.1)."""

from typing import Any

import pytest

from tests.support.channel import Channel
from tests.support.codec import Typed


def queue_text(name: str, argument: str, received: str, current: str) -> str:
    text = (
        f"PRECONDITION_FAILED - inequivalent arg '{argument}' for queue '{name}' in vhost '/': "
        f"received {received} but current is {current}"
    )
    return text if len(text) <= 255 else text[:252] + "..."


def exchange_text(name: str, argument: str, received: str, current: str) -> str:
    return queue_text(name, argument, received, current).replace("queue", "exchange", 1)


@pytest.mark.rule("CH-7", "QD-1")
@pytest.mark.parametrize("argument", ["durable", "auto_delete"])
@pytest.mark.parametrize("current", [False, True])
def test_a_queue_with_another_flag(
    channel: Channel, unique: Any, argument: str, current: bool
) -> None:
    name = unique("q")
    channel.queue_declare(name, **{argument: current})
    channel.send("queue.declare", queue=name, **{argument: not current})
    received, was = (f"'{str(value).lower()}'" for value in (not current, current))
    channel.expect_close(406, queue_text(name, argument, received, was), method="queue.declare")


@pytest.mark.rule("CH-7", "QD-1")
def test_durable_is_compared_before_auto_delete_and_arguments(
    channel: Channel, unique: Any
) -> None:
    name = unique("q")
    channel.queue_declare(name)
    others = {"auto_delete": True, "arguments": {"x-max-length": 1}}
    channel.send("queue.declare", queue=name, durable=True, **others)
    channel.expect_close(406, queue_text(name, "durable", "'true'", "'false'"))
    again = channel.reopen()
    again.send("queue.declare", queue=name, **others)
    again.expect_close(406, queue_text(name, "auto_delete", "'true'", "'false'"))


@pytest.mark.rule("CH-7", "QD-1")
@pytest.mark.parametrize(
    ("key", "one", "other", "kind"),
    [
        ("x-message-ttl", 60000, 60001, "signedint"),
        ("x-expires", 60000, 60001, "signedint"),
        ("x-max-length", 10, 11, "signedint"),
        ("x-max-length-bytes", 10, 11, "signedint"),
        ("x-max-priority", 3, 4, "signedint"),
        ("x-overflow", "drop-head", "reject-publish", "longstr"),
        ("x-queue-mode", "default", "lazy", "longstr"),
        ("x-dead-letter-exchange", "one", "other", "longstr"),
        ("x-single-active-consumer", True, False, "bool"),
    ],
)
def test_an_argument_with_another_value_or_none(
    channel: Channel, unique: Any, key: str, one: Any, other: Any, kind: str
) -> None:
    name = unique("q")
    shown = {True: "true", False: "false"}.get(one, one) if kind == "bool" else one
    shown_other = {True: "true", False: "false"}.get(other, other) if kind == "bool" else other
    channel.queue_declare(name, arguments={key: one})
    channel.send("queue.declare", queue=name, arguments={key: other})
    channel.expect_close(406, queue_text(name, key, f"'{shown_other}'", f"'{shown}'"))
    again = channel.reopen()
    again.send("queue.declare", queue=name)
    current = f"the value '{shown}' of type '{kind}'"
    again.expect_close(406, queue_text(name, key, "none", current))
    again = again.reopen()
    again.queue_declare(name, arguments={key: one})
    again.queue_delete(name)
    again.queue_declare(name)
    again.send("queue.declare", queue=name, arguments={key: one})
    again.expect_close(406, queue_text(name, key, current, "none"))


@pytest.mark.rule("CH-7", "QD-1")
def test_the_routing_key_for_dead_letters_is_compared(channel: Channel, unique: Any) -> None:
    name = unique("q")
    arguments = {"x-dead-letter-exchange": "x", "x-dead-letter-routing-key": "one"}
    channel.queue_declare(name, arguments=arguments)
    channel.send(
        "queue.declare", queue=name, arguments=arguments | {"x-dead-letter-routing-key": "other"}
    )
    channel.expect_close(406, queue_text(name, "x-dead-letter-routing-key", "'other'", "'one'"))


@pytest.mark.rule("QD-1")
@pytest.mark.parametrize("kind", list("bBsuIil"))
def test_integers_of_all_kinds_are_equal(channel: Channel, unique: Any, kind: str) -> None:
    name = unique("q")
    arguments = {"x-max-length": Typed("I", 100)}
    channel.queue_declare(name, exclusive=True, arguments=arguments)
    arguments = {"x-max-length": Typed(kind, 100)}
    channel.queue_declare(name, exclusive=True, arguments=arguments)


@pytest.mark.rule("QD-1", "NE-8")
def test_unknown_arguments_are_not_compared(channel: Channel, unique: Any) -> None:
    name = unique("q")
    channel.queue_declare(name, exclusive=True, arguments={"x-mine": 1, "y": "a"})
    channel.queue_declare(name, exclusive=True, arguments={"x-mine": "other"})
    channel.queue_declare(name, exclusive=True)


@pytest.mark.rule("QD-1")
def test_the_classic_type_equals_none(channel: Channel, unique: Any) -> None:
    classic, plain = unique("classic"), unique("plain")
    channel.queue_declare(classic, exclusive=True, arguments={"x-queue-type": "classic"})
    channel.queue_declare(classic, exclusive=True)
    channel.queue_declare(plain, exclusive=True)
    channel.queue_declare(plain, exclusive=True, arguments={"x-queue-type": "classic"})


@pytest.mark.rule("CH-7", "XC-3")
@pytest.mark.parametrize("argument", ["durable", "auto_delete", "internal"])
@pytest.mark.parametrize("current", [False, True])
def test_an_exchange_with_another_flag(
    channel: Channel, unique: Any, argument: str, current: bool
) -> None:
    name = unique("x")
    channel.call("exchange.declare", exchange=name, **{argument: current})
    channel.send("exchange.declare", exchange=name, **{argument: not current})
    received, was = (f"'{str(value).lower()}'" for value in (not current, current))
    channel.expect_close(
        406, exchange_text(name, argument, received, was), method="exchange.declare"
    )


@pytest.mark.rule("CH-7", "XC-3")
def test_an_exchange_of_another_type(channel: Channel, unique: Any) -> None:
    name = unique("x")
    channel.exchange_declare(name, "fanout")
    channel.send("exchange.declare", exchange=name, type="topic", durable=True)
    channel.expect_close(406, exchange_text(name, "type", "'topic'", "'fanout'"))


@pytest.mark.rule("CH-7", "XC-3")
def test_another_alternate_exchange(channel: Channel, unique: Any) -> None:
    name, key = unique("x"), "alternate-exchange"
    channel.exchange_declare(name, arguments={key: "one"})
    channel.send("exchange.declare", exchange=name, arguments={key: "other"})
    channel.expect_close(406, exchange_text(name, key, "'other'", "'one'"))
    again = channel.reopen()
    again.send("exchange.declare", exchange=name)
    again.expect_close(406, exchange_text(name, key, "none", "the value 'one' of type 'longstr'"))
    again.reopen().exchange_declare(name, arguments={key: "one", "x-mine": 1})
