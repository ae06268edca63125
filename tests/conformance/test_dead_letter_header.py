"""What is written on dead letters: x-death and the headers of the first death (5.5)."""

import time
from typing import Any

import pytest

from tests.conformance.test_dead_letter import declare, die, reject
from tests.support.channel import Channel
from tests.support.codec import Typed
from tests.support.grave import Grave

FIRST = ["x-first-death-exchange", "x-first-death-queue", "x-first-death-reason"]
CLOCKS_APART_SECONDS = 5
TURNS = pytest.mark.differs_from_reference(
    "from the third death on it turns the order of the older ones"
)


def text(value: str) -> Typed:
    return Typed("S", value.encode())


def deaths_of(letter: Any) -> list[dict[str, Typed]]:
    """Return the entries of x-death with the kinds of their fields; demand its form."""
    header = letter.typed_headers["x-death"]
    assert header.kind == "A"
    assert {entry.kind for entry in header.value} == {"F"}
    return [entry.value for entry in header.value]


def entry(queue: str, reason: str, exchange: str, *keys: str, count: int = 1) -> dict[str, Typed]:
    """Return what an entry must be, but for its time."""
    return {
        "count": Typed("l", count),
        "reason": text(reason),
        "queue": text(queue),
        "exchange": text(exchange),
        "routing-keys": Typed("A", [text(key) for key in keys]),
    }


def without_times(deaths: list[dict[str, Typed]]) -> list[dict[str, Typed]]:
    """Take the times away; demand that each is one, and not far from now."""
    for death in deaths:
        when = death.pop("time")
        assert when.kind == "T"
        assert abs(when.value - time.time()) < CLOCKS_APART_SECONDS + 30
    return deaths


@pytest.mark.rule("DL-5")
def test_every_field_and_its_kind(channel: Channel, grave: Grave) -> None:
    name = declare(channel, "", grave.name)
    channel.queue_bind(name, "amq.topic", f"key.{name}")
    headers = {"CC": ["one", "two"], "BCC": ["hidden"]}
    began = time.time()
    channel.publish(b"x", exchange="amq.topic", routing_key=f"key.{name}", headers=headers)
    reject(channel, name)
    deaths = deaths_of(grave.take())
    when = deaths[0]["time"]
    assert when.kind == "T"
    assert int(began) <= when.value <= time.time()
    assert without_times(deaths) == [
        entry(name, "rejected", "amq.topic", f"key.{name}", "one", "two")
    ]


@pytest.mark.rule("DL-5", "DL-1", "LE-2", "TT-1")
def test_the_reasons(channel: Channel, grave: Grave) -> None:
    for reason, arguments in (
        ("rejected", {}),
        ("expired", {"x_message_ttl": 0}),
        ("maxlen", {"x_max_length": 0}),
    ):
        name = declare(channel, "", grave.name, **arguments)
        if reason == "rejected":
            die(channel, name)
        else:
            channel.publish(b"x", routing_key=name)
        letter = grave.take()
        assert without_times(deaths_of(letter)) == [entry(name, reason, "", name)]
        assert [letter.headers[header] for header in FIRST] == ["", name, reason]


@pytest.mark.rule("DL-5")
@pytest.mark.parametrize("expiration", ["20", "020"])
def test_the_original_expiration(channel: Channel, grave: Grave, expiration: str) -> None:
    """As it was written; a letter that had none has no such field."""
    second = declare(channel, "", grave.name, x_message_ttl=1)
    first = declare(channel, "", second)
    channel.publish(b"x", routing_key=first, expiration=expiration)
    newest, oldest = without_times(deaths_of(grave.take()))
    assert newest == entry(second, "expired", "", second)
    wanted = entry(first, "expired", "", first)
    assert oldest == wanted | {"original-expiration": text(expiration)}


@pytest.mark.rule("DL-4")
def test_the_first_death_is_told_apart(channel: Channel, grave: Grave) -> None:
    """Once and for all, in headers of their own."""
    second = declare(channel, "", grave.name, x_message_ttl=1)
    first = declare(channel, "amq.direct", second)
    channel.queue_bind(first, "amq.fanout")
    channel.queue_bind(second, "amq.direct", second)
    channel.publish(b"x", exchange="amq.fanout", routing_key="any")
    reject(channel, first)
    typed = grave.take().typed_headers
    assert [typed[name] for name in FIRST] == [text("amq.fanout"), text(first), text("rejected")]


@pytest.mark.rule("DL-5")
@TURNS
def test_the_newest_death_comes_first(channel: Channel, grave: Grave) -> None:
    third = declare(channel, "", grave.name, x_message_ttl=1)
    second = declare(channel, "amq.direct", third, x_max_length=0)
    first = declare(channel, "", second)
    channel.queue_bind(third, "amq.direct", third)
    die(channel, first)
    assert without_times(deaths_of(grave.take())) == [
        entry(third, "expired", "amq.direct", third),
        entry(second, "maxlen", "", second),
        entry(first, "rejected", "", first),
    ]


@pytest.mark.rule("DL-5")
@TURNS
def test_the_newest_death_comes_first_of_many(channel: Channel, grave: Grave) -> None:
    names = [grave.name]
    for _ in range(6):
        names.append(declare(channel, "", names[-1], x_message_ttl=0))
    channel.publish(b"x", routing_key=names[-1])
    deaths = grave.take().headers["x-death"]
    assert [death["queue"] for death in deaths] == names[1:]


@pytest.mark.rule("DL-5")
def test_the_same_death_again_is_counted(channel: Channel, unique: Any) -> None:
    """Trap 16. A retry by TTL: work is rejected, rests, and comes back.

    Each queue has one entry, moved to the front; beside the count it stays as it was first.
    """
    work, rest = unique("work"), unique("rest")
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": rest}
    channel.queue_declare(work, exclusive=True, arguments=arguments)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": work}
    channel.queue_declare(rest, exclusive=True, arguments={**arguments, "x-message-ttl": 400})
    beside = channel.client.channel()
    beside.qos(1)
    beside.consume(work)
    channel.publish(b"x", routing_key=work, expiration="3600000")
    times = []
    for turn in range(4):
        delivery = beside.recv_delivery()
        deaths = deaths_of(delivery) if turn else []
        times.append([death.pop("time") for death in deaths])
        if turn:
            first = entry(work, "rejected", "", work, count=turn)
            assert deaths == [
                entry(rest, "expired", "", rest, count=turn),
                first | {"original-expiration": text("3600000")},
            ]
        beside.reject(delivery.delivery_tag, requeue=False)
    assert times[1] == times[2] == times[3]


@pytest.mark.rule("DL-5")
def test_fields_of_a_counted_entry_are_sorted(channel: Channel, queue: str) -> None:
    name = declare(channel, "", queue)
    message: dict[str, Any] = {}
    for count in (1, 2, 3):
        die(channel, name, headers=message)
        channel.sync()
        message = channel.get(queue, no_ack=True).headers
        (death,) = message["x-death"]
        assert death["count"] == count
        if count > 1:
            assert list(death) == sorted(death)


@pytest.mark.rule("DL-5")
def test_one_entry_for_each_reason(channel: Channel, grave: Grave) -> None:
    """The same queue, twice by one reason and once by another."""
    name = declare(channel, "", grave.name)
    headers: dict[str, Any] = {}
    for how in ("reject", "expire", "reject"):
        if how == "reject":
            die(channel, name, headers=headers)
        else:
            channel.publish(b"x", routing_key=name, expiration="0", headers=headers)
        headers = grave.take().headers
    found = [(death["reason"], death["count"]) for death in headers["x-death"]]
    assert found == [("rejected", 2), ("expired", 1)]
    assert headers["x-first-death-reason"] == "rejected"


@pytest.mark.rule("DL-5", "DL-4")
def test_deaths_that_a_client_sends_are_gone_on_with(channel: Channel, grave: Grave) -> None:
    """A message that is consumed and published again keeps its history and its count."""
    name = declare(channel, "", grave.name)
    past = {
        "count": Typed("l", 7),
        "reason": "rejected",
        "queue": name,
        "time": Typed("T", 1_000_000_000),
        "exchange": "of old",
        "routing-keys": ["of old"],
        "mine": 1,
    }
    other = {**past, "queue": "elsewhere", "count": Typed("l", 3)}
    die(channel, name, headers={"x-death": [other, past]})
    letter = grave.take()
    first, second = letter.headers["x-death"]
    assert (first["count"], first["queue"], first["exchange"]) == (8, name, "of old")
    assert (first["time"], first["mine"]) == (1_000_000_000, 1)
    assert (second["count"], second["queue"]) == (3, "elsewhere")
    assert not set(FIRST) & set(letter.headers)


@pytest.mark.rule("DL-5")
def test_a_death_without_a_count_begins_at_one(channel: Channel, grave: Grave) -> None:
    name = declare(channel, "", grave.name)
    die(channel, name, headers={"x-death": [{"queue": name, "reason": "rejected"}]})
    (death,) = deaths_of(grave.take())
    assert death == {"count": Typed("l", 1), "queue": text(name), "reason": text("rejected")}


@pytest.mark.rule("DL-5")
def test_an_empty_history_from_a_client(channel: Channel, grave: Grave) -> None:
    name = declare(channel, "", grave.name)
    die(channel, name, headers={"x-death": []})
    letter = grave.take()
    assert without_times(deaths_of(letter)) == [entry(name, "rejected", "", name)]
    assert not set(FIRST) & set(letter.headers)


@pytest.mark.rule("DL-5", "DL-4")
@pytest.mark.parametrize(
    "value",
    ["text", 5, True, {"queue": "q", "reason": "rejected"}, None, Typed("x", b"octets")],
    ids=str,
)
def test_a_history_of_the_wrong_kind_is_replaced(
    channel: Channel, grave: Grave, value: Any
) -> None:
    """By one entry; the first death was another one, so its headers are not written."""
    name = declare(channel, "", grave.name)
    die(channel, name, headers={"x-death": value, "other": 1})
    letter = grave.take()
    assert without_times(deaths_of(letter)) == [entry(name, "rejected", "", name)]
    assert not set(FIRST) & set(letter.headers)
    assert letter.headers["other"] == 1


@pytest.mark.rule("DL-5", "DL-6")
@pytest.mark.differs_from_reference("its queue process ends by what is no table in the array")
@pytest.mark.parametrize("junk", [1, "text", None, [], {"queue": 5, "reason": []}, {}], ids=str)
def test_junk_in_a_history_does_no_harm(channel: Channel, grave: Grave, junk: Any) -> None:
    name = declare(channel, "", grave.name)
    for how in ("reject", "expire"):
        headers = {"x-death": [junk, {"queue": grave.name}, junk]}
        if how == "reject":
            die(channel, name, headers=headers)
        else:
            channel.publish(b"x", routing_key=name, expiration="0", headers=headers)
        assert grave.take().headers["x-death"][0]["queue"] == name


@pytest.mark.rule("DL-4")
def test_headers_of_a_first_death_that_a_client_sends(channel: Channel, grave: Grave) -> None:
    """Without a history they are a claim, and the death at hand is the first."""
    name = declare(channel, "", grave.name)
    die(channel, name, headers=dict.fromkeys(FIRST, "claimed"))
    letter = grave.take()
    assert [letter.headers[header] for header in FIRST] == ["", name, "rejected"]


@pytest.mark.rule("DL-5")
def test_keys_that_are_replaced_are_told_at_the_next_death(channel: Channel, grave: Grave) -> None:
    """With the key, CC goes from the headers, so later entries do not show it."""
    second = declare(channel, "", grave.name, x_message_ttl=1)
    first = declare(channel, "", second)
    channel.queue_bind(first, "amq.fanout")
    channel.publish(b"x", exchange="amq.fanout", routing_key="key", headers={"CC": ["copy"]})
    reject(channel, first)
    newest, oldest = without_times(deaths_of(grave.take()))
    assert newest == entry(second, "expired", "", second)
    assert oldest == entry(first, "rejected", "amq.fanout", "key", "copy")


@pytest.mark.rule("DL-5", "DL-3")
def test_keys_that_stay_are_told_at_each_death(channel: Channel, grave: Grave) -> None:
    second = declare(channel, "amq.direct", grave.name, x_message_ttl=1)
    first = declare(channel, "amq.topic")
    channel.queue_bind(grave.name, "amq.direct", grave.name)
    channel.queue_bind(second, "amq.topic", f"key.{second}")
    channel.queue_bind(first, "amq.fanout")
    key, headers = f"key.{second}", {"CC": ["copy"], "BCC": ["hidden"]}
    channel.publish(b"x", exchange="amq.fanout", routing_key=key, headers=headers)
    reject(channel, first)
    newest, oldest = without_times(deaths_of(grave.take()))
    assert newest == entry(second, "expired", "amq.topic", key, "copy")
    assert oldest == entry(first, "rejected", "amq.fanout", key, "copy")
