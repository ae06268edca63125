"""What a policy does to queues and exchanges that are there already, and what ends with it."""

from typing import Any

import pytest

from tests.conformance.test_policy import desk as desk
from tests.conformance.test_policy import desk_of
from tests.support.channel import Channel
from tests.support.expectation import starting
from tests.support.fixtures import StartTimed
from tests.support.grave import reason_of
from tests.support.policy import Desk, one


def exists(channel: Channel, queue: str) -> bool:
    """Whether a queue is there, without using it."""
    channel.publish(b"", routing_key=queue, mandatory=True, expiration="0")
    channel.send("channel.flow", active=True)
    if channel.client.next_event(channel=channel.number).name == "basic.return":
        channel.expect("channel.flow-ok")
        return False
    return True


@pytest.mark.rule("PO-8", "LE-2")
@pytest.mark.parametrize("key", ["max_length", "max_length_bytes"])
def test_a_length_limit_drops_from_the_head_now(desk: Desk, key: str) -> None:
    desk.queue("q")
    desk.fill("q", b"1", b"2", b"3", b"4")
    desk.set("p", "", **one(key, 2))
    assert desk.count("q") == 2
    desk.fill("q", b"5")
    assert desk.bodies("q") == [b"4", b"5"]
    desk.clear("p")
    desk.fill("q", b"1", b"2", b"3", b"4")
    assert desk.bodies("q") == [b"1", b"2", b"3", b"4"]


@pytest.mark.rule("PO-8", "LE-2")
def test_what_a_new_limit_drops_is_dead_lettered(desk: Desk) -> None:
    desk.queue("grave")
    desk.queue("q", x_dead_letter_exchange="", x_dead_letter_routing_key="grave")
    desk.fill("q", *[b"%d" % number for number in range(5000)])
    desk.set("p", "^q$", max_length=3)
    assert (desk.count("q"), desk.count("grave")) == (3, 4997)
    letter = desk.channel.get("grave")
    assert (letter.body, reason_of(letter)) == (b"0", "maxlen")


@pytest.mark.rule("PO-8", "LE-3")
def test_a_queue_that_refuses_from_now_on_drops_nothing(desk: Desk) -> None:
    desk.queue("q")
    desk.fill("q", b"1", b"2", b"3")
    desk.set("p", "", max_length=2, overflow="reject-publish")
    desk.channel.confirm_select()
    desk.channel.publish(b"4", routing_key="q")
    assert desk.channel.wait_confirms(1) == {1: "nack"}
    assert desk.count("q") == 3
    desk.set("p", "", max_length=2)
    assert desk.bodies("q") == [b"2", b"3"]


@pytest.mark.rule("PO-8", "TT-1")
def test_a_ttl_holds_for_new_messages(desk: Desk) -> None:
    desk.queue("q")
    desk.fill("q", b"before")
    desk.set("p", "", message_ttl=1000)
    desk.fill("q", b"under it")
    desk.set("p", "", message_ttl=60_000)
    desk.fill("q", b"later")
    desk.timed.pass_time(2)
    # Behind a head that lives, what has expired still counts (TT-3).
    assert desk.count("q") == 3
    assert desk.bodies("q") == [b"before", b"later"]


@pytest.mark.rule("PO-8", "TT-1")
def test_what_came_under_a_ttl_keeps_it_when_the_policy_goes(desk: Desk) -> None:
    desk.queue("q")
    desk.set("p", "", message_ttl=1000)
    desk.fill("q", b"mortal")
    desk.clear("p")
    desk.fill("q", b"immortal")
    desk.timed.pass_time(0.5)
    assert desk.count("q") == 2
    desk.timed.pass_time(100)
    assert desk.bodies("q") == [b"immortal"]


@pytest.mark.rule("PO-8", "QD-7")
def test_the_time_without_use_begins_with_the_policy(desk: Desk) -> None:
    desk.queue("q")
    desk.timed.pass_time(100)
    desk.set("p", "", expires=10_000)
    desk.timed.pass_time(9)
    assert exists(desk.channel, "q")
    # Another policy: the clock begins anew. The same under another name: it does not.
    desk.set("p", "", expires=10_001)
    desk.timed.pass_time(9)
    assert exists(desk.channel, "q")
    desk.set("p2", "", priority=5, expires=10_001)
    desk.timed.pass_time(2)
    assert not exists(desk.channel, "q")


@pytest.mark.rule("PO-8", "QD-7")
def test_a_queue_stays_when_the_policy_that_would_end_it_goes(desk: Desk) -> None:
    desk.queue("q")
    desk.queue("own", x_expires=30_000)
    desk.set("p", "", expires=10_000)
    desk.timed.pass_time(9)
    desk.clear("p")
    desk.timed.pass_time(25)
    assert (exists(desk.channel, "q"), exists(desk.channel, "own")) == (True, True)
    desk.timed.pass_time(6)
    assert (exists(desk.channel, "q"), exists(desk.channel, "own")) == (True, False)


@pytest.mark.rule("PO-8", "DL-7")
def test_deaths_from_now_on_go_to_the_policys_exchange(desk: Desk) -> None:
    desk.queue("q")
    desk.queue("grave")
    desk.fill("q", b"1", b"2", b"3")
    held = desk.channel.get("q")
    desk.set("p", "^q$", dead_letter_exchange="", dead_letter_routing_key="grave")
    desk.channel.reject(held.delivery_tag, requeue=False)
    desk.channel.reject(desk.channel.get("q").delivery_tag, requeue=False)
    desk.channel.sync()
    assert desk.bodies("grave") == [b"1", b"2"]
    desk.clear("p")
    desk.channel.reject(desk.channel.get("q").delivery_tag, requeue=False)
    desk.channel.sync()
    assert (desk.bodies("q"), desk.bodies("grave")) == ([], [])


@pytest.mark.rule("PO-8", "PO-6")
def test_a_delivery_limit_counts_from_now_on(desk: Desk) -> None:
    desk.channel.queue_declare("q", durable=True, arguments={"x-queue-type": "quorum"})
    desk.fill("q", b"1")
    desk.set("p", "", delivery_limit=1)
    for _ in range(2):
        message = desk.channel.get("q")
        desk.channel.reject(message.delivery_tag)
    assert desk.channel.get("q") is None


@pytest.mark.rule("PO-8", "EE-2")
def test_an_alternate_exchange_comes_changes_and_goes(desk: Desk) -> None:
    channel = desk.channel
    channel.exchange_declare("main", "direct")
    for name in ("first", "second"):
        channel.exchange_declare(name, "fanout")
        desk.queue(name)
        channel.queue_bind(name, name)

    def stray() -> tuple[list[bytes], list[bytes]]:
        channel.publish(b"stray", exchange="main", routing_key="nowhere")
        return desk.bodies("first"), desk.bodies("second")

    # The route is cached from the first publish on.
    assert stray() == ([], [])
    desk.set("p", "^main$", alternate_exchange="first")
    assert stray() == ([b"stray"], [])
    desk.set("p", "^main$", alternate_exchange="second")
    assert stray() == ([], [b"stray"])
    desk.set("p", "^main$", alternate_exchange="missing")
    assert stray() == ([], [])
    desk.clear("p")
    assert stray() == ([], [])


@pytest.mark.rule("PO-5", "EE-2")
def test_the_argument_of_an_exchange_wins_and_the_default_exchange_has_none(desk: Desk) -> None:
    channel = desk.channel
    channel.exchange_declare("main", "direct", arguments={"alternate-exchange": "amq.fanout"})
    desk.queue("own")
    desk.queue("theirs")
    channel.queue_bind("own", "amq.fanout")
    channel.queue_bind("theirs", "amq.topic", "#")
    desk.set("p", "", alternate_exchange="amq.topic")
    found = desk.explained(exchange="main")
    assert found["effective_policy_definition"] == {"alternate-exchange": "amq.topic"}
    row = found["settings"][0]
    assert (row["value"], row["origin"]) == ("amq.fanout", "argument")
    channel.publish(b"stray", exchange="main", routing_key="nowhere")
    channel.publish(b"lost", exchange="", routing_key="nowhere", mandatory=True)
    assert channel.expect("basic.return").body == b"lost"
    assert (desk.bodies("own"), desk.bodies("theirs")) == ([b"stray"], [])


@pytest.mark.rule("PO-5", "PO-4")
@pytest.mark.parametrize("key", ["message-ttl", "expires", "max-length", "max-length-bytes"])
@pytest.mark.parametrize(
    ("argument", "user", "operator", "decided"),
    [
        (5, 7, None, "argument"),
        (7, 5, None, "user"),
        (5, None, 7, "argument"),
        (7, None, 5, "op"),
        (7, 9, 5, "op"),
        (7, 5, 9, "user"),
        (5, 7, 9, "argument"),
    ],
)
def test_the_smallest_bound_holds(
    desk: Desk, key: str, argument: int, user: int | None, operator: int | None, decided: str
) -> None:
    name = key.replace("-", "_")
    desk.queue("q", **{f"x_{name}": argument})
    if user is not None:
        desk.set("user", "", **one(name, user))
    if operator is not None:
        desk.set("op", "", operator=True, **one(name, operator))
    assert desk.in_force("q") == {key: (5, decided)}


@pytest.mark.rule("PO-5")
def test_names_and_words_of_the_argument_win(desk: Desk) -> None:
    given: dict[str, Any] = {
        "x_dead_letter_exchange": "",
        "x_dead_letter_routing_key": "own",
        "x_overflow": "drop-head",
    }
    for name in ("own", "theirs"):
        desk.queue(name)
    desk.queue("q", **given)
    desk.set(
        "p",
        "^q$",
        max_length=1,
        overflow="reject-publish",
        dead_letter_exchange="amq.direct",
        dead_letter_routing_key="theirs",
    )
    desk.fill("q", b"1", b"2")
    assert (desk.bodies("own"), desk.bodies("theirs"), desk.bodies("q")) == ([b"1"], [], [b"2"])


@pytest.mark.rule("PO-5")
def test_the_queue_mode_of_the_policy_wins(desk: Desk) -> None:
    desk.queue("q", x_queue_mode="default")
    desk.set("p", "", queue_mode="lazy")
    assert desk.in_force("q") == {"queue-mode": ("lazy", "p")}
    desk.clear("p")
    assert desk.in_force("q") == {"queue-mode": ("default", "argument")}


@pytest.mark.rule("PO-8")
def test_consumers_go_on_while_policies_come_and_go(desk: Desk) -> None:
    desk.queue("q")
    desk.channel.consume("q", no_ack=True)
    for number in range(20):
        desk.set("p", "", priority=number, **one("max_length" if number % 2 else "expires", 9000))
        desk.channel.publish(b"%d" % number, routing_key="q")
        assert desk.channel.recv_delivery().body == b"%d" % number
    desk.clear("p")


@pytest.mark.rule("PO-8")
def test_a_change_in_the_middle_of_a_round_supersedes_it(desk: Desk) -> None:
    """Three thousand queues are some slices: nothing waits between these changes."""
    names = [f"q{number}" for number in range(3000)]
    for name in names:
        desk.channel.send("queue.declare", queue=name, nowait=True)
    desk.channel.sync()
    for length in (1, 2, 3):
        definition = {"max-length": length}
        desk.broker.command("set_policy", name="p", pattern="", definition=definition)
    late = desk.queue("late")
    desk.broker.settle()
    found = desk.listed()
    assert found == {name: ("p", None, {"max-length": 3}) for name in (*names, late)}
    for name in (names[0], names[-1], late):
        assert desk.effective(name) == {"max-length": 3}


@pytest.mark.rule("CT-1")
def test_a_queue_s_own_consumer_timeout_is_shorter_or_longer(start_timed: StartTimed) -> None:
    desk = desk_of(start_timed, consumer_timeout=60_000, channel_tick_interval=1000)
    desk.set("short", "^short", consumer_timeout=5000)
    for name in ("plain", "short", "long"):
        desk.queue(name)
        desk.fill(name, b"1", b"2")
    desk.set("long", "^long", consumer_timeout=600_000)
    patient, plain, short = (desk.channel.client.channel() for _ in range(3))
    assert patient.get("long").body == b"1"
    desk.timed.pass_time(1)
    assert plain.get("plain").body == b"1"
    # What may wait for long does not hide what may not.
    assert patient.get("short").body == b"1"
    assert short.get("short").body == b"2"
    desk.timed.pass_time(4)
    short.sync()
    desk.timed.pass_time(3)
    told = starting(
        f"PRECONDITION_FAILED - delivery acknowledgement on channel {patient.number} timed out. "
        "Timeout value used: 5000 ms."
    )
    patient.expect_close(406, told, method=(0, 0))
    desk.timed.pass_time(40)
    plain.sync()
    # Back to the node's timeout.
    desk.clear("short")
    late = patient.reopen()
    assert [late.get("short").body, late.get("long").body] == [b"1", b"1"]
    desk.timed.pass_time(20)
    plain.expect_close(406, starting("PRECONDITION_FAILED"), method=(0, 0))
    desk.timed.pass_time(45)
    late.expect_close(406, starting("PRECONDITION_FAILED"), method=(0, 0))
