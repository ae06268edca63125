"""What looks like a mistake and is none (table 3.3)."""

from typing import Any

import pytest

from tests.support.channel import Channel


@pytest.mark.rule("NE-1")
@pytest.mark.parametrize("tag", ["unheard of", ""])
def test_cancel_of_an_unknown_consumer(channel: Channel, tag: str) -> None:
    channel.send("basic.cancel", consumer_tag=tag)
    channel.expect("basic.cancel-ok", consumer_tag=tag)


@pytest.mark.rule("NE-2")
@pytest.mark.parametrize("options", [{}, {"if_unused": True}, {"if_empty": True}], ids=str)
def test_delete_of_a_missing_queue(channel: Channel, options: dict[str, bool]) -> None:
    assert channel.queue_delete("missing", **options).message_count == 0


@pytest.mark.rule("NE-3")
@pytest.mark.parametrize("options", [{}, {"if_unused": True}], ids=str)
def test_delete_of_a_missing_exchange(channel: Channel, options: dict[str, bool]) -> None:
    channel.exchange_delete("missing", **options)


@pytest.mark.rule("NE-4")
def test_unbind_of_what_is_not_bound(channel: Channel, queue: str) -> None:
    channel.queue_unbind(queue, "amq.direct", "key")
    channel.queue_unbind("missing", "amq.direct", "key")
    channel.queue_unbind(queue, "missing", "key")
    channel.queue_unbind("missing", "missing", "key")
    channel.exchange_unbind("amq.direct", "amq.fanout")
    channel.exchange_unbind("missing", "amq.fanout")
    channel.exchange_unbind("amq.direct", "missing")


@pytest.mark.rule("NE-4", "XC-8")
def test_unbind_with_other_arguments_leaves_the_binding(channel: Channel, queue: str) -> None:
    channel.queue_bind(queue, "amq.direct", "the key", arguments={"a": 1})
    channel.queue_unbind(queue, "amq.direct", "the key")
    channel.queue_unbind(queue, "amq.direct", "the key", arguments={"a": 2})
    channel.publish(b"still bound", exchange="amq.direct", routing_key="the key")
    assert channel.get(queue).body == b"still bound"


@pytest.mark.rule("NE-5", "AK-1")
@pytest.mark.parametrize("name", ["basic.ack", "basic.nack"])
def test_all_of_nothing_is_acknowledged_in_silence(channel: Channel, name: str) -> None:
    channel.send(name, delivery_tag=0, multiple=True)
    channel.sync()
    assert channel.client.inbox == []


@pytest.mark.rule("NE-6")
def test_a_mode_may_be_selected_again(channel: Channel) -> None:
    other = channel.client.channel()
    for _ in range(2):
        channel.confirm_select()
        other.tx_select()


@pytest.mark.rule("NE-7", "XC-8")
def test_a_binding_may_be_made_again(channel: Channel, queue: str, unique: Any) -> None:
    name = unique("x")
    channel.exchange_declare(name, "fanout")
    for _ in range(2):
        channel.queue_bind(queue, name, "key", arguments={"a": 1})
        channel.exchange_bind(name, "amq.fanout", "key")
    channel.publish(b"once", exchange=name)
    assert channel.get(queue).body == b"once"
    assert channel.get(queue) is None


@pytest.mark.rule("NE-8")
def test_unknown_arguments_are_taken(channel: Channel, queue: str, unique: Any) -> None:
    arguments = {"x-unheard-of": "1", "mine": [1, {"deep": None}]}
    channel.queue_declare(unique("q"), exclusive=True, arguments=arguments)
    channel.exchange_declare(unique("x"), arguments=arguments)
    channel.queue_bind(queue, "amq.direct", "key", arguments=arguments)
    channel.consume(queue, arguments=arguments)


@pytest.mark.rule("NE-9", "MT-3")
def test_access_is_always_granted_with_ticket_1(channel: Channel) -> None:
    channel.send("access.request", realm="/data", read=True, write=True)
    channel.expect("access.request-ok", ticket=1)


@pytest.mark.rule("NE-9")
@pytest.mark.parametrize("ticket", [0, 1, 65535])
def test_tickets_are_ignored(channel: Channel, queue: str, ticket: int) -> None:
    channel.send("basic.get", queue=queue, ticket=ticket)
    channel.expect("basic.get-empty")


@pytest.mark.rule("NE-10")
def test_flow_that_is_on_already(channel: Channel) -> None:
    assert channel.flow(True).active is True


@pytest.mark.rule("NE-11")
def test_purge_of_an_empty_queue(channel: Channel, queue: str) -> None:
    assert channel.queue_purge(queue).message_count == 0
