"""Dead letters of messages that somebody made to do harm."""

import struct
from typing import Any

import pytest

from tests.conformance.test_dead_letter import declare, die
from tests.support.channel import Channel
from tests.support.codec import Typed, long_string
from tests.support.grave import Grave

HEADERS_ONLY = struct.pack(">H", 1 << 13)


def raw_headers(body: bytes) -> bytes:
    """Return properties that are a header table with these octets."""
    return HEADERS_ONLY + long_string(body)


def field(key: bytes, kind: bytes, value: bytes) -> bytes:
    return bytes([len(key)]) + key + kind + value


def nested(depth: int) -> bytes:
    body = b""
    for _ in range(depth):
        body = field(b"k", b"F", long_string(body))
    return body


def survives(channel: Channel, grave: Grave, name: str) -> None:
    """Demand that ordinary messages of the same and of other queues still become letters."""
    for queue in (name, declare(channel, "", grave.name)):
        die(channel, queue, b"ordinary")
        assert grave.take().body == b"ordinary"


@pytest.mark.rule("DL-5")
@pytest.mark.parametrize("count", [2**63 - 1, -(2**63), 0, -1])
def test_counts_out_of_any_range(channel: Channel, grave: Grave, count: int) -> None:
    name = declare(channel, "", grave.name)
    death = {"queue": name, "reason": "rejected", "count": Typed("l", count)}
    die(channel, name, headers={"x-death": [death]})
    assert grave.take().headers["x-death"][0]["queue"] == name
    survives(channel, grave, name)


@pytest.mark.rule("DL-5")
@pytest.mark.differs_from_reference("its queue process ends by a count that is no number")
@pytest.mark.parametrize("count", ["many", 1.5, True, None, [], Typed("D", (1, 5))], ids=str)
def test_counts_that_are_no_integers(channel: Channel, grave: Grave, count: Any) -> None:
    name = declare(channel, "", grave.name)
    death = {"queue": name, "reason": "rejected", "count": count}
    die(channel, name, headers={"x-death": [death]})
    found = grave.take().typed_headers["x-death"].value[0].value
    assert found["count"].kind == "l"
    survives(channel, grave, name)


@pytest.mark.rule("DL-5", "WI-5")
@pytest.mark.parametrize(
    "table",
    [
        field(b"k", b"S", long_string(b"\xff\xfe\x80")),
        field(b"", b"V", b""),
        field(b"k", b"I", b"\0\0\0\1") * 3,
        field(b"x-death", b"A", long_string(b"")) * 2,
        nested(50),
    ],
    ids=["octets as text", "empty key", "key again", "history again", "deep"],
)
def test_tables_of_any_octets(channel: Channel, grave: Grave, table: bytes) -> None:
    """What is taken when it is published must not stop the queue when it dies."""
    name = declare(channel, "", grave.name)
    die(channel, name, raw_properties=raw_headers(table))
    assert grave.channel.client.next_event(channel=grave.channel.number).body == b"dead"
    survives(channel, grave, name)


@pytest.mark.rule("DL-5", "DL-6")
def test_a_long_history(channel: Channel, grave: Grave) -> None:
    """Of thousands of queues that never were."""
    name = declare(channel, "", grave.name)
    deaths = [{"queue": f"q{number}", "reason": "expired"} for number in range(2000)]
    channel.publish(b"x", routing_key=name, expiration="0", headers={"x-death": deaths})
    assert len(grave.take(within=30).headers["x-death"]) == 2001
    survives(channel, grave, name)


@pytest.mark.rule("DL-3", "QA-6")
@pytest.mark.differs_from_reference("it takes a key that no method can carry")
def test_a_key_that_is_too_long(channel: Channel, unique: Any) -> None:
    name = unique("q")
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "k" * 256}
    channel.send("queue.declare", queue=name, arguments=arguments)
    close = channel.client.next_event(channel=channel.number)
    assert (close.name, close.reply_code) == ("channel.close", 406)
    assert close.reply_text.startswith(
        f"PRECONDITION_FAILED - invalid arg 'x-dead-letter-routing-key' for queue '{name}'"
    )


@pytest.mark.rule("DL-2", "QA-5")
def test_an_exchange_with_a_name_that_cannot_be(channel: Channel, grave: Grave) -> None:
    """It cannot exist, so what dies is gone."""
    for exchange in ("x" * 300, Typed("S", b"\xff\xfe")):
        arguments: dict[str, Any] = {"x-dead-letter-exchange": exchange}
        name = channel.queue_declare(exclusive=True, arguments=arguments).queue
        die(channel, name)
    survives(channel, grave, declare(channel, "", grave.name))
