"""Alternate exchanges: where a message goes that its exchange has no use for (EE-2)."""

from typing import Any

import pytest

from tests.conformance.test_exchange import bodies
from tests.support.channel import Channel


def declare(channel: Channel, name: str, kind: str, alternate: str) -> None:
    channel.exchange_declare(name, kind, arguments={"alternate-exchange": alternate})


@pytest.mark.rule("EE-2")
def test_only_what_has_no_destination_goes_to_the_alternate(channel: Channel, unique: Any) -> None:
    first, second = unique("x"), unique("x")
    wanted, rest = (channel.queue_declare(exclusive=True).queue for _ in range(2))
    channel.exchange_declare(second, "fanout")
    declare(channel, first, "direct", second)
    channel.queue_bind(wanted, first, "wanted")
    channel.queue_bind(rest, second)
    channel.publish(b"1", exchange=first, routing_key="wanted", mandatory=True)
    channel.publish(b"2", exchange=first, routing_key="other", mandatory=True)
    channel.sync()
    delivery = channel.get(rest)
    assert (delivery.body, delivery.exchange, delivery.routing_key) == (b"2", first, "other")
    assert bodies(channel, wanted) == [b"1"]
    assert bodies(channel, rest) == []


@pytest.mark.rule("EE-2", "PB-3")
def test_a_chain_of_alternates_and_its_end(channel: Channel, queue: str, unique: Any) -> None:
    first, second, third = unique("x"), unique("x"), unique("x")
    channel.exchange_declare(third, "direct")
    declare(channel, second, "topic", third)
    declare(channel, first, "headers", second)
    channel.queue_bind(queue, third, "the end")
    channel.publish(b"found", exchange=first, routing_key="the end", mandatory=True)
    channel.publish(b"lost", exchange=first, routing_key="beyond", mandatory=True)
    lost = channel.expect("basic.return", reply_code=312, exchange=first, routing_key="beyond")
    assert lost.body == b"lost"
    assert bodies(channel, queue) == [b"found"]


@pytest.mark.rule("EE-2")
def test_a_ring_of_alternates_is_harmless(channel: Channel, unique: Any) -> None:
    first, second = unique("x"), unique("x")
    declare(channel, first, "direct", second)
    declare(channel, second, "direct", first)
    channel.publish(b"x", exchange=first, routing_key="k", mandatory=True)
    channel.expect("basic.return", exchange=first)
    selfish = unique("x")
    declare(channel, selfish, "direct", selfish)
    channel.publish(b"x", exchange=selfish, routing_key="k", mandatory=True)
    channel.expect("basic.return", exchange=selfish)


@pytest.mark.rule("EE-2")
def test_a_missing_alternate_drops_until_it_is_there(
    channel: Channel, queue: str, unique: Any
) -> None:
    first, missing = unique("x"), unique("x")
    declare(channel, first, "direct", missing)
    channel.publish(b"1", exchange=first, mandatory=True)
    channel.expect("basic.return", exchange=first)
    channel.publish(b"2", exchange=first)
    channel.exchange_declare(missing, "fanout")
    channel.queue_bind(queue, missing)
    channel.publish(b"3", exchange=first, mandatory=True)
    channel.exchange_delete(missing)
    channel.publish(b"4", exchange=first, mandatory=True)
    channel.expect("basic.return", exchange=first)
    assert bodies(channel, queue) == [b"3"]


@pytest.mark.rule("EE-2")
def test_the_alternate_is_not_used_if_a_bound_exchange_leads_nowhere(
    channel: Channel, queue: str, unique: Any
) -> None:
    """Trap 22: a destination is a destination, even if nothing comes out of it."""
    first, dead_end, other = unique("x"), unique("x"), unique("x")
    channel.exchange_declare(other, "fanout")
    channel.exchange_declare(dead_end, "fanout")
    declare(channel, first, "fanout", other)
    channel.exchange_bind(dead_end, first)
    channel.queue_bind(queue, other)
    channel.publish(b"x", exchange=first, mandatory=True)
    channel.expect("basic.return", exchange=first)
    channel.exchange_unbind(dead_end, first)
    channel.publish(b"y", exchange=first, mandatory=True)
    channel.sync()
    assert bodies(channel, queue) == [b"y"]


@pytest.mark.rule("EE-2", "EE-1")
def test_the_alternate_of_an_exchange_on_the_way(channel: Channel, queue: str, unique: Any) -> None:
    source, middle, other = unique("x"), unique("x"), unique("x")
    channel.exchange_declare(source, "fanout")
    channel.exchange_declare(other, "fanout")
    declare(channel, middle, "direct", other)
    channel.exchange_bind(middle, source)
    channel.queue_bind(queue, other)
    channel.publish(b"x", exchange=source, routing_key="nobody's", mandatory=True)
    channel.sync()
    assert bodies(channel, queue) == [b"x"]


@pytest.mark.rule("EE-2", "CO-2")
def test_what_the_alternate_took_is_confirmed(channel: Channel, queue: str, unique: Any) -> None:
    first, second = unique("x"), unique("x")
    channel.exchange_declare(second, "fanout")
    declare(channel, first, "direct", second)
    channel.queue_bind(queue, second)
    channel.confirm_select()
    channel.publish(b"x", exchange=first, mandatory=True)
    assert channel.wait_confirms(1) == {1: "ack"}
    assert bodies(channel, queue) == [b"x"]
