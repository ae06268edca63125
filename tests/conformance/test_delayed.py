"""Exchanges of type x-delayed-message: what is held, for how long, and where it goes then."""

import time
from typing import Any

import pytest

from tests.conformance.test_exchange import bodies
from tests.support.channel import Channel
from tests.support.fixtures import StartTimed
from tests.support.timed import Timed

pytestmark = pytest.mark.differs_from_reference("its plug-ins are not enabled")

KIND = "x-delayed-message"
EARLY_SECONDS = 0.001


@pytest.fixture
def later(timed: Timed) -> Channel:
    """A channel of a broker whose clock stands still."""
    return timed.connect().channel()


def declare(channel: Channel, exchange: str = "x", kind: Any = "direct", **options: Any) -> str:
    """Declare an exchange that delays, with a queue bound by the key `k`."""
    arguments = {"x-delayed-type": kind, **options.pop("arguments", {})}
    channel.exchange_declare(exchange, KIND, arguments=arguments, **options)
    queue: str = channel.queue_declare(exclusive=True).queue
    channel.queue_bind(queue, exchange, "k")
    return queue


def send(channel: Channel, body: bytes, delay: Any, key: str = "k", **options: Any) -> None:
    headers = {"x-delay": delay, **options.pop("headers", {})}
    options.setdefault("exchange", "x")
    channel.publish(body, routing_key=key, headers=headers, **options)


# -- declaring -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (None, "Invalid argument, 'x-delayed-type' must be an existing exchange type"),
        (
            {"x-delayed-type": 5},
            "Invalid argument, 'x-delayed-type' must be an existing exchange type",
        ),
        (
            {"x-delayed-type": KIND},
            "Invalid argument, 'x-delayed-message' can't be used for 'x-delayed-type'",
        ),
        (
            {"x-delayed-type": "x-recent-history"},
            "Invalid argument, 'x-recent-history' can't be used for 'x-delayed-type'",
        ),
    ],
)
def test_a_type_that_cannot_be(
    channel: Channel, unique: Any, arguments: dict[str, Any] | None, text: str
) -> None:
    channel.send("exchange.declare", exchange=unique("x"), type=KIND, arguments=arguments or {})
    channel.expect_close(406, f"PRECONDITION_FAILED - {text}", method="exchange.declare")


def test_a_type_that_does_not_exist_ends_the_connection(channel: Channel, unique: Any) -> None:
    arguments = {"x-delayed-type": "x-nothing"}
    channel.send("exchange.declare", exchange=unique("x"), type=KIND, arguments=arguments)
    channel.client.expect_close(
        503, "COMMAND_INVALID - unknown exchange type 'x-nothing'", method="exchange.declare"
    )


def test_declaring_again_is_the_same_exchange(channel: Channel, unique: Any) -> None:
    name = unique("x")
    channel.exchange_declare(name, KIND, arguments={"x-delayed-type": "topic"})
    # The plug-in does not compare the type it routes by.
    channel.exchange_declare(name, KIND, arguments={"x-delayed-type": "direct"})
    channel.send("exchange.declare", exchange=name, type="topic")
    channel.expect_close(
        406,
        f"PRECONDITION_FAILED - inequivalent arg 'type' for exchange '{name}'"
        " in vhost '/': received 'topic' but current is 'x-delayed-message'",
    )


@pytest.mark.parametrize(
    ("kind", "binding", "keys", "reached"),
    [
        ("direct", {"routing_key": "a"}, ["a", "b", "a"], [b"a", b"a"]),
        ("fanout", {}, ["a", "b"], [b"a", b"b"]),
        ("topic", {"routing_key": "a.#"}, ["a", "a.b.c", "b.a"], [b"a", b"a.b.c"]),
        ("headers", {"arguments": {"x-match": "any", "y": 1}}, ["a", "b"], [b"a", b"b"]),
        ("headers", {"arguments": {"y": 2}}, ["a", "b"], []),
        ("x-consistent-hash", {"routing_key": "1"}, ["a", "b"], [b"a", b"b"]),
        ("x-random", {}, ["a", "b"], [b"a", b"b"]),
    ],
)
@pytest.mark.parametrize("delay", [0, 500])
def test_it_routes_by_the_other_type(
    later: Channel,
    timed: Timed,
    kind: str,
    binding: dict[str, Any],
    keys: list[str],
    reached: list[bytes],
    delay: int,
) -> None:
    later.exchange_declare("x", KIND, arguments={"x-delayed-type": kind})
    queue = later.queue_declare(exclusive=True).queue
    later.queue_bind(queue, "x", **binding)
    for key in keys:
        send(later, key.encode(), delay, key, headers={"y": 1})
    if delay:
        assert bodies(later, queue) == []
        timed.pass_time(1)
    assert bodies(later, queue) == reached


def test_a_bad_binding_is_refused_as_by_the_other_type(channel: Channel, unique: Any) -> None:
    name = unique("x")
    queue = declare(channel, name, "topic")
    channel.queue_unbind(queue, name, "k")
    channel.exchange_declare(name + "h", KIND, arguments={"x-delayed-type": "x-consistent-hash"})
    channel.send("queue.bind", queue=queue, exchange=name + "h", routing_key="heavy")
    channel.expect_close(
        406,
        'PRECONDITION_FAILED - The binding key must be an integer: <<"heavy">>',
        method="queue.bind",
    )


# -- time ------------------------------------------------------------------------------------------


def test_messages_come_at_their_time_in_its_order(later: Channel, timed: Timed) -> None:
    queue = declare(later)
    for delay in (500, 100, 300, 200, 100, 400):
        send(later, b"%d" % delay, delay)
    later.sync()
    timed.pass_time(0.05)
    assert bodies(later, queue) == []
    timed.pass_time(0.26)
    assert bodies(later, queue) == [b"100", b"100", b"200", b"300"]
    timed.pass_time(0.2)
    assert bodies(later, queue) == [b"400", b"500"]


def test_equal_times_keep_the_order_of_publishing(later: Channel, timed: Timed) -> None:
    queue = declare(later)
    for number in range(500):
        send(later, b"%d" % number, 60_000)
    later.sync()
    timed.pass_time(60.01)
    assert bodies(later, queue) == [b"%d" % number for number in range(500)]


@pytest.mark.parametrize("days", [1, 60])
def test_a_long_delay(later: Channel, timed: Timed, days: int) -> None:
    """Also beyond the 49 days from which on the plug-in does not delay at all."""
    queue = declare(later)
    send(later, b"late", days * 86_400_000)
    send(later, b"later", days * 86_400_000 + 1000)
    later.sync()
    timed.broker.clock.advance(days=days, milliseconds=-200, heartbeats=False)
    assert bodies(later, queue) == []
    timed.pass_time(0.3)
    assert bodies(later, queue) == [b"late"]
    timed.pass_time(1)
    assert bodies(later, queue) == [b"later"]


@pytest.mark.parametrize("delay", [0, -1, -5000, "0", "-7", 0.9, True, None, ["x"], {"a": 1}])
def test_what_is_no_delay(later: Channel, delay: Any) -> None:
    queue = declare(later)
    send(later, b"now", delay)
    got = later.get(queue, no_ack=True)
    assert got.body == b"now"
    # What was not held is handed on as it came.
    assert got.properties["headers"]["x-delay"] == delay


@pytest.mark.parametrize(("delay", "negated"), [(1500, -1500), ("1500", -1500), (1500.7, -1500)])
def test_the_delay_is_negative_afterwards(
    later: Channel, timed: Timed, delay: Any, negated: int
) -> None:
    queue = declare(later)
    send(later, b"m", delay, headers={"a": 1, "b": "x"}, message_id="id", content_type="t")
    later.sync()
    timed.pass_time(1.6)
    got = later.get(queue, no_ack=True)
    assert got.properties["headers"] == {"x-delay": negated, "a": 1, "b": "x"}
    assert (got.properties["message_id"], got.properties["content_type"]) == ("id", "t")
    assert (got.exchange, got.routing_key, got.redelivered) == ("x", "k", False)


@pytest.mark.parametrize("delay", ["soon", "", "1.5", float("nan"), float("inf")])
def test_a_delay_that_is_no_number_is_refused(channel: Channel, unique: Any, delay: Any) -> None:
    """The plug-in ends the connection with 541."""
    name = unique("x")
    declare(channel, name)
    send(channel, b"m", delay, exchange=name)
    channel.expect_close(
        406,
        "PRECONDITION_FAILED - invalid delay: x-delay and x-deliver-at must be numbers",
        method="basic.publish",
    )


@pytest.mark.parametrize("headers", [{"x-delay": 315_360_000_001}, {"x-deliver-at": 1 << 60}])
def test_more_than_ten_years_are_refused(
    channel: Channel, unique: Any, headers: dict[str, Any]
) -> None:
    name = unique("x")
    declare(channel, name)
    channel.publish(b"m", exchange=name, headers=headers)
    channel.expect_close(
        406,
        "PRECONDITION_FAILED - a message cannot be delayed for more than 315360000000 ms",
        method="basic.publish",
    )


def test_a_point_in_time(later: Channel, timed: Timed) -> None:
    queue = declare(later)
    now_ms = int(timed.broker.clock.now().timestamp() * 1000)
    for body, value in ((b"3", now_ms + 3000), (b"1", str(now_ms + 1000)), (b"past", now_ms - 5)):
        headers = {"x-deliver-at": value, "x-delay": 9_000_000}
        later.publish(body, exchange="x", routing_key="k", headers=headers)
    assert bodies(later, queue) == [b"past"]
    timed.pass_time(0.9)
    assert bodies(later, queue) == []
    timed.pass_time(0.2)
    got = later.get(queue, no_ack=True)
    assert got.body == b"1"
    assert got.properties["headers"] == {
        "x-deliver-at": str(now_ms + 1000),
        "x-delay": 9_000_000,
    }
    timed.pass_time(2)
    assert bodies(later, queue) == [b"3"]


def test_real_time(channel: Channel, unique: Any) -> None:
    """Never early, and not much later."""
    name = unique("x")
    channel.consume(declare(channel, name), no_ack=True)
    sent: dict[bytes, float] = {}
    for delay in (120, 40, 80, 1):
        body = b"%d" % delay
        sent[body] = time.monotonic() + delay / 1000
        send(channel, body, delay, exchange=name)
    order = []
    for _ in sent:
        body = channel.recv_delivery().body
        order.append(body)
        assert time.monotonic() >= sent[body] - EARLY_SECONDS
    assert order == [b"1", b"40", b"80", b"120"]


# -- where it goes ---------------------------------------------------------------------------------


def test_bindings_of_the_time_it_is_due_decide(later: Channel, timed: Timed) -> None:
    queue = declare(later)
    other = later.queue_declare(exclusive=True).queue
    send(later, b"m", 1000)
    later.queue_unbind(queue, "x", "k")
    later.queue_bind(other, "x", "k")
    timed.pass_time(1.1)
    assert bodies(later, queue) == []
    assert bodies(later, other) == [b"m"]


def test_it_is_confirmed_when_it_is_held_and_never_returned(later: Channel, timed: Timed) -> None:
    queue = declare(later)
    later.confirm_select()
    send(later, b"m", 60_000, mandatory=True)
    assert later.wait_confirms(1) == {1: "ack"}
    # Nobody is told that there is no queue when the time comes.
    send(later, b"nowhere", 60_000, "other", mandatory=True)
    assert later.wait_confirms(2, first=2) == {2: "ack"}
    timed.pass_time(61)
    assert bodies(later, queue) == [b"m"]
    # What is not delayed is returned as ever.
    send(later, b"now", 0, "other", mandatory=True)
    assert later.expect("basic.return").body == b"now"


def test_the_alternate_exchange_is_asked_when_it_is_due(later: Channel, timed: Timed) -> None:
    later.exchange_declare("spare", "fanout")
    spare = later.queue_declare(exclusive=True).queue
    later.queue_bind(spare, "spare")
    queue = declare(later, arguments={"alternate-exchange": "spare"})
    send(later, b"bound", 1000)
    send(later, b"not", 1000, "other")
    assert bodies(later, spare) == []
    timed.pass_time(1.1)
    assert bodies(later, queue) == [b"bound"]
    assert bodies(later, spare) == [b"not"]


def test_as_source_of_another_exchange(later: Channel, timed: Timed) -> None:
    declare(later)
    later.exchange_declare("y", "topic")
    behind = later.queue_declare(exclusive=True).queue
    later.queue_bind(behind, "y", "*")
    later.exchange_bind("y", "x", "k")
    send(later, b"m", 1000)
    assert bodies(later, behind) == []
    timed.pass_time(1.1)
    assert bodies(later, behind) == [b"m"]


def test_as_destination_of_another_exchange(later: Channel, timed: Timed) -> None:
    queue = declare(later)
    later.exchange_declare("front", "fanout")
    later.exchange_bind("x", "front")
    beside = later.queue_declare(exclusive=True).queue
    later.queue_bind(beside, "front")
    send(later, b"m", 1000, exchange="front")
    assert bodies(later, beside) == [b"m"]
    assert bodies(later, queue) == []
    timed.pass_time(1.1)
    assert bodies(later, queue) == [b"m"]
    assert bodies(later, beside) == []
    # Without a delay both have it at once.
    later.publish(b"n", exchange="front", routing_key="k")
    assert (bodies(later, queue), bodies(later, beside)) == ([b"n"], [b"n"])


def test_two_in_a_row_delay_once(later: Channel, timed: Timed) -> None:
    declare(later)
    second = declare(later, "second", "fanout")
    later.exchange_bind("second", "x", "k")
    send(later, b"m", 1000)
    timed.pass_time(1.1)
    assert bodies(later, second) == [b"m"]


def test_a_dead_letter_is_delayed(later: Channel, timed: Timed) -> None:
    """A message that is rejected comes back after its delay: once."""
    later.exchange_declare("x", KIND, arguments={"x-delayed-type": "direct"})
    arguments = {"x-dead-letter-exchange": "x", "x-dead-letter-routing-key": "again"}
    queue = later.queue_declare(exclusive=True, arguments=arguments).queue
    later.queue_bind(queue, "x", "again")
    later.publish(b"m", routing_key=queue, headers={"x-delay": 5000})
    later.reject(later.get(queue).delivery_tag, requeue=False)
    later.sync()
    timed.pass_time(4)
    assert bodies(later, queue) == []
    timed.pass_time(1.1)
    again = later.get(queue)
    assert again.properties["headers"]["x-delay"] == -5000
    assert again.properties["headers"]["x-death"][0]["reason"] == "rejected"
    # A dead letter is not lost for a delay that a publisher would be refused.
    later.publish(b"n", routing_key=queue, headers={"x-delay": "soon"})
    later.reject(later.get(queue).delivery_tag, requeue=False)
    assert later.get(queue, no_ack=True).body == b"n"


def test_copies_go_with_it(later: Channel, timed: Timed) -> None:
    queue = declare(later)
    cc, bcc = (later.queue_declare(exclusive=True).queue for _ in range(2))
    later.queue_bind(cc, "x", "cc")
    later.queue_bind(bcc, "x", "bcc")
    send(later, b"m", 1000, headers={"CC": ["cc"], "BCC": ["bcc"]})
    later.sync()
    timed.pass_time(1.1)
    for each in (queue, cc, bcc):
        got = later.get(each, no_ack=True)
        assert got.body == b"m"
        assert "BCC" not in got.properties["headers"]


@pytest.mark.parametrize("size", [0, 1, 16_384, 16_385, 131_072, 1_500_000])
def test_bodies_of_any_size(later: Channel, timed: Timed, size: int) -> None:
    queue = declare(later)
    body = bytes(n % 251 for n in range(size % 251)) + bytes(size - size % 251)
    send(later, body, 1000)
    later.sync()
    timed.pass_time(1.1)
    assert bodies(later, queue) == [body]


def test_expiration_counts_from_the_queue(later: Channel, timed: Timed) -> None:
    queue = declare(later)
    send(later, b"m", 5000, expiration="1000")
    later.sync()
    timed.pass_time(5.5)
    assert later.queue_declare(queue, passive=True).message_count == 1
    timed.pass_time(1)
    assert later.queue_declare(queue, passive=True).message_count == 0


def test_in_a_transaction_the_delay_counts_from_the_commit(later: Channel, timed: Timed) -> None:
    queue = declare(later)
    later.tx_select()
    send(later, b"gone", 1000)
    later.tx_rollback()
    send(later, b"m", 1000)
    later.sync()
    timed.pass_time(5)
    later.tx_commit()
    timed.pass_time(0.9)
    assert bodies(later, queue) == []
    timed.pass_time(0.2)
    assert bodies(later, queue) == [b"m"]


def test_a_full_queue_refuses_when_it_is_due(later: Channel, timed: Timed) -> None:
    later.exchange_declare("x", KIND, arguments={"x-delayed-type": "direct"})
    arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
    queue = later.queue_declare(exclusive=True, arguments=arguments).queue
    later.queue_bind(queue, "x", "k")
    later.confirm_select()
    for body in (b"1", b"2"):
        send(later, body, 1000)
    assert later.wait_confirms(2) == {1: "ack", 2: "ack"}
    timed.pass_time(1.1)
    assert bodies(later, queue) == [b"1"]


def test_an_exchange_takes_its_messages_with_it(later: Channel, timed: Timed) -> None:
    queue = declare(later)
    for number in range(3000):
        send(later, b"%d" % number, 1000)
    later.exchange_delete("x")
    later.exchange_declare("x", KIND, arguments={"x-delayed-type": "direct"})
    later.queue_bind(queue, "x", "k")
    send(later, b"new", 1000)
    later.sync()
    timed.pass_time(1.1)
    assert bodies(later, queue) == [b"new"]


def test_the_publisher_may_be_gone(later: Channel, timed: Timed) -> None:
    other = timed.connect().channel()
    queue = declare(later)
    send(other, b"m", 1000)
    other.sync()
    other.client.drop()
    timed.pass_time(1.1)
    assert bodies(later, queue) == [b"m"]


def test_crowds_that_are_due_at_once(start_timed: StartTimed) -> None:
    timed = start_timed()
    later = timed.connect().channel()
    queue = declare(later)
    count = 5000
    for number in range(count):
        send(later, b"%d" % number, 3_600_000 if number % 2 else 3_600_000 + number % 1000)
    later.sync()
    timed.pass_time(3599)
    assert later.queue_declare(queue, passive=True).message_count == 0
    timed.pass_time(2)
    assert later.queue_declare(queue, passive=True).message_count == count
