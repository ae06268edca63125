"""The history of queues and the cursors that hold it, on a running node."""

import json
import time
from typing import Any

import pytest

from tests.conformance.test_ranges import fill, pages
from tests.conformance.test_slices import run
from tests.support.broker import Broker
from tests.support.fixtures import StartBroker
from warren.cli.exit import CliError

pytestmark = [
    pytest.mark.differs_from_reference("it has no history"),
    pytest.mark.slow,
]

SWEEP_MS = 50


def put_policy(broker: Broker, **definition: Any) -> None:
    broker.control(
        "set_policy",
        vhost="/",
        name="kept",
        pattern=".*",
        definition=json.dumps(definition),
        apply_to="queues",
    )


def clear_policy(broker: Broker) -> None:
    broker.control("clear_policy", vhost="/", name="kept")


def history(broker: Broker, queue: str, **options: Any) -> list[tuple[int, str]]:
    return [
        (record["seq"], record["state"])
        for page in pages(broker, queue, history=True, **options)
        for record in page["records"]
    ]


def wait_for(broker: Broker, queue: str, kept_from: int | None) -> None:
    """Floors rise at an interval: wait until this one has."""
    deadline = time.monotonic() + 20
    while (found := broker.control("range_info", queue=queue)["kept_from"]) != kept_from:
        assert time.monotonic() < deadline, f"the floor is at {found} and not at {kept_from}"
        time.sleep(0.02)


def consume(broker: Broker, queue: str, count: int) -> None:
    """Take and acknowledge so many."""
    channel = broker.connect().channel()
    for _ in range(count):
        channel.get(queue)
    channel.ack(count, multiple=True)
    # What is sent behind the ack is answered when it has been seen.
    channel.queue_declare(queue, passive=True)
    channel.client.close()


@pytest.mark.rule("PL-1")
@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
@pytest.mark.parametrize("size", [10, 6000], ids=["embedded", "large"])
def test_what_is_acknowledged_stays_readable_over_a_restart(
    start_broker: StartBroker, kill: bool, size: int
) -> None:
    broker = start_broker({"history_sweep_interval_ms": SWEEP_MS})
    put_policy(broker, history="1h")
    channel = broker.connect().channel()
    channel.queue_declare("q", durable=True)
    fill(channel.client.channel(), "q", *range(20), size=size, delivery_mode=2)
    consume(broker, "q", 15)
    want = [(seq, "settled") for seq in range(15)] + [(seq, "ready") for seq in range(15, 20)]
    assert history(broker, "q") == want
    # Confirmed behind the acknowledgements: so these are stored, too.
    fill(broker.connect().channel(), "q", 20, size=size, delivery_mode=2)
    want.append((20, "ready"))
    broker.restart(kill=kill)
    assert history(broker, "q") == want
    assert [row[1] for row in broker.rows("list_queues", columns=["name", "messages"])] == [6]
    consume(broker, "q", 6)
    assert [state for _, state in history(broker, "q")] == ["settled"] * 21
    assert pages(broker, "q")[0]["records"] == []


@pytest.mark.rule("PL-1")
def test_without_acknowledgement_it_is_stored_as_well(start_broker: StartBroker) -> None:
    broker = start_broker()
    put_policy(broker, history="1h")
    channel = broker.connect().channel()
    channel.queue_declare("q", durable=True)
    channel.queue_declare("ranked", durable=True, arguments={"x-max-priority": 3})
    for queue in ("q", "ranked"):
        channel.consume(queue, no_ack=True)
        fill(broker.connect().channel(), queue, 1, 2, 3, delivery_mode=2, priority=2)
        for _ in range(3):
            channel.recv_delivery()
        assert [state for _, state in history(broker, queue)] == ["settled"] * 3


def test_a_purge_and_limits_leave_the_history(start_broker: StartBroker) -> None:
    broker = start_broker()
    put_policy(broker, history="1h")
    channel = broker.connect().channel()
    channel.queue_declare("q", durable=True, arguments={"x-max-length": 2})
    fill(channel.client.channel(), "q", *range(5), size=5000, delivery_mode=2)
    assert [state for _, state in history(broker, "q")] == ["settled"] * 3 + ["ready"] * 2
    channel.queue_purge("q")
    assert [state for _, state in history(broker, "q")] == ["settled"] * 5


def test_a_policy_on_and_off_on_a_running_queue(start_broker: StartBroker) -> None:
    broker = start_broker({"history_sweep_interval_ms": SWEEP_MS})
    channel = broker.connect().channel()
    channel.queue_declare("q", durable=True)
    fill(channel.client.channel(), "q", *range(10), size=5000, delivery_mode=2)
    consume(broker, "q", 4)
    assert history(broker, "q")[0] == (4, "ready")
    put_policy(broker, history="1h")
    wait_for(broker, "q", 4)
    consume(broker, "q", 4)
    assert history(broker, "q")[:5] == [(seq, "settled") for seq in range(4, 8)] + [(8, "ready")]
    clear_policy(broker)
    wait_for(broker, "q", None)
    assert history(broker, "q") == [(8, "ready"), (9, "ready")]
    consume(broker, "q", 2)
    assert history(broker, "q") == []
    put_policy(broker, history="1h")
    wait_for(broker, "q", 10)


@pytest.mark.parametrize("limit", [{"history": 200}, {"history-max-bytes": 1000}], ids=str)
def test_the_floor_rises_by_time_and_by_size(
    start_broker: StartBroker, limit: dict[str, int]
) -> None:
    broker = start_broker({"history_sweep_interval_ms": SWEEP_MS})
    put_policy(broker, **limit)
    channel = broker.connect().channel()
    channel.queue_declare("q", durable=True)
    fill(channel.client.channel(), "q", *range(40), size=5000, delivery_mode=2)
    consume(broker, "q", 30)
    wait_for(broker, "q", 40 if "history" in limit else 30)
    # What lives is never let go.
    assert history(broker, "q")[-10:] == [(seq, "ready") for seq in range(30, 40)]


@pytest.mark.rule("PL-5")
@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_a_cursor_holds_history_over_a_restart(start_broker: StartBroker, kill: bool) -> None:
    broker = start_broker({"history_sweep_interval_ms": SWEEP_MS})
    channel = broker.connect().channel()
    channel.queue_declare("q", durable=True)
    fill(channel.client.channel(), "q", *range(20), size=5000, delivery_mode=2)
    place = broker.control("cursor_put", queue="q", name="spark")
    assert (place["seq"], place["epoch"], place["kept_from"]) == (0, 1, 0)
    consume(broker, "q", 20)
    fill(broker.connect().channel(), "q", 20, delivery_mode=2)
    moved = broker.control("cursor_put", queue="q", name="spark", seq=5, epoch=1)
    assert moved["seq"] == 5
    broker.restart(kill=kill)
    columns = ["name", "seq", "epoch", "state", "incarnation"]
    row = ["spark", 5, 1, "holds", place["incarnation"]]
    assert broker.rows("cursor_list", columns=columns) == [row]
    wait_for(broker, "q", 5)
    assert history(broker, "q") == [(seq, "settled") for seq in range(5, 20)] + [(20, "ready")]
    with pytest.raises(CliError, match="kept from 5 on"):
        broker.control("cursor_put", queue="q", name="late", seq=4)
    broker.control("cursor_delete", queue="q", name="spark", epoch=1)
    wait_for(broker, "q", None)
    assert history(broker, "q") == [(20, "ready")]


@pytest.mark.rule("PL-5")
def test_an_older_token_is_fenced(start_broker: StartBroker) -> None:
    broker = start_broker()
    channel = broker.connect().channel()
    channel.queue_declare("q", durable=True)
    fill(channel.client.channel(), "q", *range(5), delivery_mode=2)
    first = broker.control("cursor_put", queue="q", name="c")["epoch"]
    second = broker.control("cursor_put", queue="q", name="c")["epoch"]
    assert second > first
    for command, words in (("cursor_put", {"seq": 3}), ("cursor_delete", {})):
        with pytest.raises(CliError, match="is older"):
            broker.control(command, queue="q", name="c", epoch=first, **words)
    assert broker.control("cursor_put", queue="q", name="c", epoch=second, seq=3)["seq"] == 3


@pytest.mark.rule("PL-1", "PL-5")
def test_cursors_go_with_their_queue(start_broker: StartBroker) -> None:
    broker = start_broker({"history_sweep_interval_ms": SWEEP_MS})
    channel = broker.connect().channel()
    channel.queue_declare("q", durable=True)
    fill(channel.client.channel(), "q", *range(5), delivery_mode=2, size=5000)
    place = broker.control("cursor_put", queue="q", name="c")
    consume(broker, "q", 5)
    channel.queue_delete("q")
    assert broker.rows("cursor_list") == []
    channel.queue_declare("q", durable=True)
    with pytest.raises(CliError, match="is not"):
        broker.control("cursor_put", queue="q", name="c", incarnation=place["incarnation"])
    broker.restart(kill=True)
    assert broker.rows("cursor_list") == []
    assert broker.control("range_info", queue="q")["kept_from"] is None


@pytest.mark.rule("PL-5")
@pytest.mark.parametrize(
    ("limit", "reason"), [({"cursor-max-age": 200}, "age"), ({"cursor-max-lag-bytes": 50}, "lag")]
)
def test_a_forgotten_cursor_is_lost(
    start_broker: StartBroker, limit: dict[str, int], reason: str
) -> None:
    broker = start_broker({"history_sweep_interval_ms": SWEEP_MS})
    channel = broker.connect().channel()
    channel.queue_declare("q", durable=True)
    put_policy(broker, **limit)
    broker.control("cursor_put", queue="q", name="c")
    fill(channel.client.channel(), "q", *range(20), size=100, delivery_mode=2)
    consume(broker, "q", 20)
    wait_for(broker, "q", 20)
    assert broker.rows("cursor_list", columns=["name", "state", "reason"]) == [
        ["c", "lost", reason]
    ]
    assert "cursor.lost" in broker.log_text()
    with pytest.raises(CliError, match="kept from 20 on"):
        broker.control("cursor_put", queue="q", name="c", seq=3)
    assert broker.control("cursor_put", queue="q", name="c", seq=20)["seq"] == 20
    columns = ["name", "seq"]
    assert broker.rows("cursor_list", columns=columns) == [["c", 20]]


def test_the_tools_see_the_history(start_broker: StartBroker) -> None:
    broker = start_broker()
    put_policy(broker, history="1h")
    channel = broker.connect().channel()
    channel.queue_declare("q", durable=True)
    channel.queue_declare("again", durable=True)
    fill(channel.client.channel(), "q", *range(10), delivery_mode=2)
    consume(broker, "q", 10)
    assert "settled" in run(broker, "peek", "q", "--history").stdout
    assert "is empty" in run(broker, "peek", "q").stdout
    lines = run(broker, "export", "q", "--history").stdout.splitlines()
    assert [json.loads(line)["body"] for line in lines] == [str(number) for number in range(10)]
    told = run(broker, "replay", "q", "--into", "again", "--from", "3", "--to", "6", "--history")
    assert "published 3 messages" in told.stdout
    again = [json.loads(line) for line in run(broker, "export", "again").stdout.splitlines()]
    marks = [one["properties"]["headers"]["x-warren-replayed"]["seq"] for one in again]
    assert marks == [3, 4, 5]


@pytest.mark.rule("PL-5")
def test_cursors_on_the_command_line(start_broker: StartBroker) -> None:
    broker = start_broker()
    channel = broker.connect().channel()
    channel.queue_declare("q", durable=True)
    fill(channel.client.channel(), "q", *range(3), delivery_mode=2)
    assert "stands at 0, epoch 1" in run(broker, "cursor", "set", "q", "c").stdout
    words = ["cursor", "set", "q", "c", "--seq", "2", "--epoch", "1"]
    assert "stands at 2" in run(broker, *words).stdout
    assert "epoch 2" in run(broker, "cursor", "set", "q", "c").stdout
    assert "is older" in run(broker, *words, code=1).stderr
    rows = json.loads(run(broker, "cursor", "list", "--json").stdout)
    assert [(row["name"], row["seq"], row["lag"], row["state"]) for row in rows] == [
        ("c", 2, 1, "holds")
    ]
    assert "holds" in run(broker, "cursor", "list").stdout
    run(broker, "cursor", "delete", "q", "c")
    assert json.loads(run(broker, "cursor", "list", "--json").stdout) == []
