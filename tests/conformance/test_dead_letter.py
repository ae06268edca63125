"""Dead letters: what dies, where it goes, what it is there (5.5).

What is written on them is in `test_dead_letter_header.py`, going round in `test_dead_letter_cycle`.
"""

from typing import Any

import pytest

from tests.conformance.test_exchange import bodies
from tests.support.channel import Channel
from tests.support.codec import Typed
from tests.support.fixtures import Connect
from tests.support.grave import Grave, reason_of


@pytest.fixture
def mortal(channel: Channel, grave: Grave) -> str:
    """A queue whose dead go to the grave."""
    name: str = channel.queue_declare(exclusive=True, arguments=grave.arguments()).queue
    return name


def declare(channel: Channel, exchange: str | None, key: str | None = None, **more: Any) -> str:
    """Declare a queue with this dead-letter exchange and key."""
    options = {name.replace("_", "-"): value for name, value in more.items()}
    if exchange is not None:
        options["x-dead-letter-exchange"] = exchange
    if key is not None:
        options["x-dead-letter-routing-key"] = key
    name: str = channel.queue_declare(exclusive=True, arguments=options).queue
    return name


def die(channel: Channel, queue: str, body: bytes = b"dead", **properties: Any) -> None:
    """Publish to the queue by its name and reject what it has."""
    channel.publish(body, routing_key=queue, **properties)
    reject(channel, queue)


def reject(channel: Channel, queue: str) -> None:
    channel.sync()
    channel.reject(channel.get(queue).delivery_tag, requeue=False)


# What dies (DL-1).


@pytest.mark.rule("DL-1", "AK-2")
@pytest.mark.parametrize("how", ["reject", "nack", "nack multiple", "nack all"])
def test_what_is_rejected_dies(channel: Channel, mortal: str, grave: Grave, how: str) -> None:
    for number in range(3):
        channel.publish(b"%d" % number, routing_key=mortal)
    channel.sync()
    tags = [channel.get(mortal).delivery_tag for _ in range(3)]
    if how == "nack multiple":
        channel.nack(tags[2], multiple=True, requeue=False)
    elif how == "nack all":
        channel.nack(0, multiple=True, requeue=False)
    else:
        for tag in tags:
            if how == "reject":
                channel.reject(tag, requeue=False)
            else:
                channel.nack(tag, requeue=False)
    letters = [grave.take() for _ in range(3)]
    assert [letter.body for letter in letters] == [b"0", b"1", b"2"]
    assert {reason_of(letter) for letter in letters} == {"rejected"}
    assert channel.get(mortal) is None


@pytest.mark.rule("DL-1")
def test_what_a_consumer_rejects_dies(channel: Channel, mortal: str, grave: Grave) -> None:
    """While it goes on to get messages, and across more than one channel."""
    consumers = [channel.client.channel() for _ in range(2)]
    for each in consumers:
        each.qos(1)
        each.consume(mortal)
    for number in range(20):
        channel.publish(b"%d" % number, routing_key=mortal)
    for _ in range(10):
        for each in consumers:
            each.reject(each.recv_delivery().delivery_tag, requeue=False)
    assert sorted(map(int, grave.bodies(20))) == list(range(20))


@pytest.mark.rule("DL-1", "RC-2")
@pytest.mark.parametrize("how", ["nack", "recover", "close", "purge", "cancel", "no ack"])
def test_what_does_not_die(channel: Channel, mortal: str, grave: Grave, how: str) -> None:
    """Trap 19. The letter of a later message is the first one that comes."""
    channel.publish(b"alive", routing_key=mortal)
    channel.sync()
    beside = channel.client.channel()
    if how == "no ack":
        assert beside.get(mortal, no_ack=True).body == b"alive"
    elif how != "purge":
        tag = beside.consume(mortal)
        delivery = beside.recv_delivery().delivery_tag
        beside.cancel(tag)
        if how == "nack":
            beside.nack(delivery, requeue=True)
        elif how == "recover":
            beside.recover()
    beside.close()
    channel.queue_purge(mortal)
    die(channel, mortal, b"dead")
    assert grave.take().body == b"dead"


@pytest.mark.rule("DL-1", "QD-8", "QD-6")
@pytest.mark.parametrize("how", ["delete", "auto-delete", "exclusive"])
def test_what_a_deleted_queue_had_does_not_die(
    connect: Connect, channel: Channel, unique: Any, how: str
) -> None:
    dead = channel.queue_declare(unique("dead")).queue
    owner = connect()
    theirs = owner.channel()
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    name = theirs.queue_declare(
        unique("q"),
        auto_delete=how == "auto-delete",
        exclusive=how == "exclusive",
        arguments=arguments,
    ).queue
    for body in (b"unacked", b"ready"):
        theirs.publish(body, routing_key=name)
    theirs.sync()
    theirs.get(name)
    if how == "delete":
        theirs.queue_delete(name)
    elif how == "auto-delete":
        theirs.qos(1)
        theirs.cancel(theirs.consume(name))
    owner.close()
    channel.expect_nothing(within=0.2)
    assert channel.get(dead) is None


@pytest.mark.rule("DL-1", "TX-1", "TX-4")
def test_a_rejection_in_a_transaction(channel: Channel, mortal: str, grave: Grave) -> None:
    """Nothing dies before the commit, and nothing by a rollback."""
    for body in (b"1", b"2"):
        channel.publish(body, routing_key=mortal)
    channel.sync()
    tx = channel.client.channel()
    tx.tx_select()
    first, second = tx.get(mortal).delivery_tag, tx.get(mortal).delivery_tag
    tx.reject(first, requeue=False)
    tx.tx_rollback()
    tx.reject(second, requeue=False)
    tx.sync()
    grave.expect_nothing(within=0.1)
    tx.tx_commit()
    assert grave.take().body == b"2"
    tx.ack(first)
    tx.tx_commit()
    grave.expect_nothing(within=0.1)


# Where it goes (DL-2, DL-7).


@pytest.mark.rule("DL-2")
def test_the_exchange_is_looked_up_at_death(channel: Channel, grave: Grave, unique: Any) -> None:
    """Before it exists, and after it is gone, messages vanish silently."""
    exchange = unique("x")
    name = declare(channel, exchange)
    die(channel, name, b"too early")
    channel.exchange_declare(exchange, "fanout")
    channel.queue_bind(grave.name, exchange)
    die(channel, name, b"in time")
    assert grave.take().body == b"in time"
    channel.exchange_delete(exchange)
    die(channel, name, b"too late")
    channel.exchange_declare(exchange, "direct")
    channel.queue_bind(grave.name, exchange, name)
    die(channel, name, b"again")
    assert grave.take().body == b"again"


@pytest.mark.rule("DL-2")
def test_without_an_exchange_what_dies_is_gone(channel: Channel, queue: str) -> None:
    die(channel, queue)
    name = channel.queue_declare(exclusive=True, arguments={"x-message-ttl": 0}).queue
    channel.publish(b"x", routing_key=name)
    channel.sync()
    assert bodies(channel, queue) == bodies(channel, name) == []


@pytest.mark.rule("DL-7", "DL-3")
def test_a_letter_that_is_routed_nowhere_is_dropped(channel: Channel, grave: Grave) -> None:
    """It is not mandatory, whatever its message was."""
    name = declare(channel, "amq.direct")
    channel.publish(b"lost", routing_key=name, mandatory=True)
    reject(channel, name)
    channel.sync()
    assert channel.client.inbox == []
    channel.queue_bind(grave.name, "amq.direct", name)
    die(channel, name, b"found")
    assert grave.take().body == b"found"


@pytest.mark.rule("DL-7")
def test_every_queue_that_matches_has_a_copy(channel: Channel, grave: Grave, unique: Any) -> None:
    exchange = unique("x")
    channel.exchange_declare(exchange, "topic")
    graves = [grave, Grave(channel), Grave(channel)]
    for pattern in ("dead.#", "*.letter"):
        for each in graves[:2]:
            channel.queue_bind(each.name, exchange, pattern)
    name = declare(channel, exchange, "dead.letter")
    die(channel, name, b"copied")
    assert [each.take().body for each in graves[:2]] == [b"copied"] * 2
    for each in graves:
        each.expect_nothing(within=0.05)


@pytest.mark.rule("DL-7", "EE-1", "EE-2", "XC-9")
def test_through_an_alternate_and_other_exchanges(
    channel: Channel, grave: Grave, unique: Any
) -> None:
    """And through an internal one, to which no client may publish."""
    first, alternate, last = unique("first"), unique("alternate"), unique("last")
    channel.exchange_declare(last, "direct", internal=True)
    channel.exchange_declare(alternate, "fanout", internal=True)
    arguments = {"alternate-exchange": alternate}
    channel.exchange_declare(first, "direct", internal=True, arguments=arguments)
    channel.exchange_bind(last, alternate)
    channel.queue_bind(grave.name, last, "key")
    name = declare(channel, first, "key")
    die(channel, name)
    letter = grave.take()
    assert (letter.exchange, letter.routing_key) == (first, "key")


@pytest.mark.rule("DL-7", "HD-1")
def test_a_headers_exchange_sees_the_headers_of_the_message(
    channel: Channel, grave: Grave, unique: Any
) -> None:
    exchange = unique("x")
    channel.exchange_declare(exchange, "headers")
    channel.queue_bind(grave.name, exchange, arguments={"kind": "wanted"})
    name = declare(channel, exchange)
    for kind in ("unwanted", "wanted"):
        die(channel, name, kind.encode(), headers={"kind": kind})
    assert grave.take().body == b"wanted"


@pytest.mark.rule("DL-7", "HD-1", "DL-4")
def test_a_headers_exchange_sees_the_headers_of_the_first_death(
    channel: Channel, grave: Grave, unique: Any
) -> None:
    """They are written before the letter is routed."""
    exchange = unique("x")
    channel.exchange_declare(exchange, "headers")
    arguments = {"x-match": "any-with-x", "x-first-death-reason": "expired"}
    channel.queue_bind(grave.name, exchange, arguments=arguments)
    name = declare(channel, exchange)
    die(channel, name, b"rejected")
    channel.publish(b"expired", routing_key=name, expiration="0")
    assert grave.take().body == b"expired"


@pytest.mark.rule("DL-7", "LE-3", "CO-2")
def test_a_letter_that_is_refused_is_lost(channel: Channel, queue: str) -> None:
    """Whoever published the message hears nothing of it."""
    full = declare(channel, None, x_max_length=1, x_overflow="reject-publish")
    name = declare(channel, "", full, x_message_ttl=0)
    channel.confirm_select()
    for number in (1, 2, 3):
        channel.publish(b"%d" % number, routing_key=name)
        channel.expect("basic.ack", delivery_tag=number)
    assert bodies(channel, full) == [b"1"]


@pytest.mark.rule("DL-7", "LE-2", "LE-4")
@pytest.mark.parametrize("overflow", ["drop-head", "reject-publish-dlx"])
def test_a_letter_may_die_again(channel: Channel, grave: Grave, overflow: str) -> None:
    """Through a row of queues that hold one message each."""
    names = [grave.name]
    for _ in range(20):
        arguments = {"x_max_length": 1, "x_overflow": overflow}
        names.append(declare(channel, "", names[-1], **arguments))
    for number in range(30):
        channel.publish(b"%d" % number, routing_key=names[-1])
    letters = [grave.take() for _ in range(10)]
    assert len(letters[0].headers["x-death"]) == 20
    if overflow == "drop-head":
        assert [letter.body for letter in letters] == [b"%d" % number for number in range(10)]
    else:
        assert [letter.body for letter in letters] == [b"%d" % number for number in range(20, 30)]
    left = [bodies(channel, name) for name in names[1:]]
    assert all(len(found) == 1 for found in left)


# What it is there (DL-3).


@pytest.mark.rule("DL-3")
def test_the_key_and_the_exchange(channel: Channel, grave: Grave, unique: Any) -> None:
    exchange = unique("x")
    channel.exchange_declare(exchange, "fanout")
    channel.queue_bind(grave.name, exchange)
    kept, replaced, emptied = (declare(channel, exchange, key) for key in (None, "other", ""))
    for name in (kept, replaced, emptied):
        channel.queue_bind(name, "amq.topic", f"to.{name}")
        channel.publish(b"x", exchange="amq.topic", routing_key=f"to.{name}")
        reject(channel, name)
    letters = [grave.take() for _ in range(3)]
    assert {letter.exchange for letter in letters} == {exchange}
    assert [letter.routing_key for letter in letters] == [f"to.{kept}", "other", ""]
    assert not any(letter.redelivered for letter in letters)


@pytest.mark.rule("DL-3", "CS-7")
def test_a_redelivered_message_is_a_new_letter(channel: Channel, queue: str) -> None:
    name = declare(channel, "", queue)
    channel.publish(b"x", routing_key=name)
    channel.sync()
    channel.reject(channel.get(name).delivery_tag, requeue=True)
    reject(channel, name)
    got = channel.get(queue)
    assert (got.body, got.redelivered) == (b"x", False)


@pytest.mark.rule("DL-3", "PB-5")
def test_properties_stay(channel: Channel, grave: Grave, mortal: str) -> None:
    """All but the expiration, by which the letter would die again."""
    properties = {
        "content_type": "text/plain",
        "content_encoding": "utf-8",
        "delivery_mode": 2,
        "priority": 7,
        "correlation_id": "c",
        "reply_to": "r",
        "message_id": "m",
        "timestamp": 2**40,
        "type": "t",
        "user_id": "guest",
        "app_id": "a",
        "cluster_id": "k",
    }
    headers = {"z": Typed("s", -2), "a": Typed("D", (2, 314)), "m": {"inner": [1, None, True]}}
    die(channel, mortal, b"x", expiration="3600000", headers=headers, **properties)
    letter = grave.take()
    found = letter.properties
    assert sorted(found["headers"]) == list(found["headers"]), "rewritten headers are sorted"
    assert {name: found[name] for name in properties} == properties
    assert set(found) == {*properties, "headers"}
    typed = letter.typed_headers
    assert (typed["z"], typed["a"]) == (headers["z"], headers["a"])
    assert found["headers"]["m"] == headers["m"]


@pytest.mark.rule("DL-3", "TT-2")
def test_a_letter_does_not_expire_again(channel: Channel, grave: Grave, queue: str) -> None:
    """Trap 18. Only the time of the queue it comes to counts."""
    second = declare(channel, "", grave.name, x_message_ttl=300)
    first = declare(channel, "", second)
    third = declare(channel, "", queue)
    for name in (first, third):
        channel.publish(b"x", routing_key=name, expiration="1")
    deaths = grave.take().headers["x-death"]
    assert [death["queue"] for death in deaths] == [second, first]
    got = channel.get(queue)
    assert got.body == b"x"
    assert "expiration" not in got.properties


@pytest.mark.rule("DL-3", "PB-4")
def test_all_keys_of_the_message_are_used_again(channel: Channel, grave: Grave) -> None:
    """CC and BCC too; CC stays in the headers, and is delivered."""
    others = [Grave(channel), Grave(channel)]
    name = declare(channel, "amq.direct")
    keys = ["first " + name, "second " + name, "third " + name]
    for each, key in zip([grave, *others], keys, strict=True):
        channel.queue_bind(each.name, "amq.direct", key)
    channel.queue_bind(name, "amq.fanout")
    headers = {"CC": [keys[1]], "BCC": [keys[2]]}
    channel.publish(b"x", exchange="amq.fanout", routing_key=keys[0], headers=headers)
    reject(channel, name)
    for each in (grave, *others):
        letter = each.take()
        assert (letter.exchange, letter.routing_key) == ("amq.direct", keys[0])
        assert letter.headers["CC"] == [keys[1]]
        assert "BCC" not in letter.headers


@pytest.mark.rule("DL-3", "PB-4")
def test_a_key_of_the_queue_replaces_all_keys(channel: Channel, grave: Grave) -> None:
    others = [Grave(channel), Grave(channel)]
    name = declare(channel, "", grave.name)
    headers = {"CC": [others[0].name], "BCC": [others[1].name], "kept": 1}
    channel.publish(b"x", routing_key=name, headers=headers)
    for each in others:
        assert each.take().body == b"x"
    reject(channel, name)
    letter = grave.take()
    assert "CC" not in letter.headers
    assert letter.headers["kept"] == 1
    for each in others:
        each.expect_nothing(within=0.05)


@pytest.mark.rule("DL-3", "PB-4")
def test_hidden_keys_hold_through_several_deaths(channel: Channel, grave: Grave) -> None:
    """Until a queue with a key of its own replaces them."""
    hidden = Grave(channel)
    exchange_key = "key " + grave.name
    for each in (grave, hidden):
        channel.queue_bind(each.name, "amq.direct", f"{exchange_key} {each.name}")
    second = declare(channel, "amq.direct")
    first = declare(channel, "amq.topic")
    channel.queue_bind(second, "amq.topic", f"{exchange_key} {grave.name}")
    channel.queue_bind(first, "amq.fanout")
    headers = {"BCC": [f"{exchange_key} {hidden.name}"]}
    key = f"{exchange_key} {grave.name}"
    channel.publish(b"x", exchange="amq.fanout", routing_key=key, headers=headers)
    reject(channel, first)
    reject(channel, second)
    assert grave.take().headers["x-death"][0]["queue"] == second
    assert hidden.take().headers["x-death"][0]["queue"] == second


@pytest.mark.rule("DL-3", "WI-2")
@pytest.mark.parametrize("size", [0, 300_000, 3_000_000])
def test_bodies_of_any_size(channel: Channel, grave: Grave, mortal: str, size: int) -> None:
    body = bytes(range(256)) * (size // 256)
    die(channel, mortal, body)
    assert grave.take().body == body


@pytest.mark.rule("DL-3", "PR-1")
def test_the_priority_counts_where_the_letter_comes_to(channel: Channel) -> None:
    dead = declare(channel, None, x_max_priority=5)
    name = declare(channel, "", dead)
    for priority in (1, 5, 3):
        die(channel, name, b"%d" % priority, priority=priority)
    channel.sync()
    assert bodies(channel, dead) == [b"5", b"3", b"1"]
