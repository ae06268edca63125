"""Commands about delayed messages: count, list by pages, cancel."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.server.asking import Asker, Refused, with_node
from warren.protocol.value import field
from warren.queues import Message, compose_tail
from warren.queues.delayed import Delayed
from warren.server.config import Settings
from warren.vhost.delayed_exchange import delayed_of

Run = Callable[[Callable[[Asker], Awaitable[None]]], None]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    settings = Settings(data_dir=tmp_path, node_name="warren@test")
    return lambda test: with_node(settings, test)


def delaying(asker: Asker, name: str = "x", *, durable: bool = False) -> Delayed:
    routing = asker.node.broker.vhosts["/"].routing
    arguments = {"x-delayed-type": field("topic")}
    exchange = routing.declare_exchange(
        name, "x-delayed-message", durable=durable, arguments=arguments
    )
    found = delayed_of(exchange)
    assert found is not None
    return found


def now_ms(asker: Asker) -> int:
    return int(asker.node.clock.wall_ns()) // 1_000_000


def hold(asker: Asker, delayed: Delayed, *delays: int, body: bytes = b"body") -> None:
    for number, delay in enumerate(delays):
        tail = compose_tail(b"x", b"key.%d" % number)
        message = Message(tail, b"\0\0", body, None, len(body), 0)
        delayed.hold(message, now_ms(asker) + delay)


async def refusal(asker: Asker, command: str, **args: Any) -> Refused:
    with pytest.raises(Refused) as caught:
        await asker.ask(command, **args)
    return caught.value


def test_exchanges_and_their_counts(run: Run) -> None:
    async def test(asker: Asker) -> None:
        delayed = delaying(asker, durable=True)
        delaying(asker, "y")
        hold(asker, delayed, 5000, 7000)
        columns = ["name", "vhost", "messages_delayed", "survives_restart", "routes_as", "durable"]
        assert await asker.ask("list_delayed_exchanges", columns=columns) == [
            ["x", "/", 2, False, "topic", True],
            ["y", "/", 0, False, "topic", False],
        ]
        listed = await asker.ask("list_exchanges", columns=["name", "messages_delayed"])
        assert [row for row in listed if row[1] is not None] == [["x", 2], ["y", 0]]
        rows = await asker.ask("list_delayed_exchanges", vhost="/", columns=["memory"])
        status = await asker.ask("status")
        assert (status["messages_delayed"], status["delayed_bytes"]) == (2, rows[0][0])
        assert 200 < rows[0][0] < 400
        assert rows[1] == [0]
        assert (await refusal(asker, "list_delayed_exchanges", vhost="z")).code == "not_found"

    run(test)


def test_a_list_by_time(run: Run) -> None:
    async def test(asker: Asker) -> None:
        delayed = delaying(asker)
        now = now_ms(asker)
        hold(asker, delayed, 90_000_000, 50, 4000, 300, 4000, 700_000)
        rows = await asker.ask("list_delayed", exchange="x")
        assert [row[:3] for row in rows] == [
            [f"{now + 50}-2", now + 50, 50],
            [f"{now + 300}-4", now + 300, 300],
            [f"{now + 4000}-3", now + 4000, 4000],
            [f"{now + 4000}-5", now + 4000, 4000],
            [f"{now + 700_000}-6", now + 700_000, 700_000],
            [f"{now + 90_000_000}-1", now + 90_000_000, 90_000_000],
        ]
        assert rows[2][3:] == ["x", "key.2", 4]
        part = await asker.ask(
            "list_delayed",
            exchange="x",
            due_from=now + 300,
            due_to=now + 700_000,
            columns=["left_ms", "routing_key"],
        )
        assert part == [[300, "key.3"], [4000, "key.2"], [4000, "key.4"]]

    run(test)


def test_pages_have_every_message_once(run: Run) -> None:
    async def test(asker: Asker) -> None:
        delayed = delaying(asker)
        hold(asker, delayed, *[n * 7919 % 400_000 for n in range(3000)])
        hold(asker, delayed, *[60_000] * 500)
        found: list[str] = []
        after = ""
        while page := await asker.ask(
            "list_delayed", exchange="x", after=after, limit=333, columns=["id"]
        ):
            found += [row[0] for row in page]
            after = found[-1]
        keys = [tuple(map(int, one.split("-"))) for one in found]
        assert keys == sorted(keys)
        assert len(set(keys)) == 3500

    run(test)


def test_cancelling(run: Run) -> None:
    async def test(asker: Asker) -> None:
        delayed = delaying(asker)
        hold(asker, delayed, *[1000 * n for n in range(10)], body=b"x" * 20_000)
        rows = await asker.ask("list_delayed", exchange="x", columns=["id", "bytes"])
        ids = [row[0] for row in rows]
        assert {row[1] for row in rows} == {20_000}
        # The first is due: it goes to be delivered.
        told = await asker.ask("cancel_delayed", exchange="x", ids=[ids[0], ids[3], ids[3], "1-1"])
        assert told == {"count": 1, "missed": [ids[0], ids[3], "1-1"]}
        left = await asker.ask("list_delayed", exchange="x", columns=["id"])
        assert [row[0] for row in left] == [*ids[:3], *ids[4:]]
        assert len(delayed.apart) == 9
        assert await asker.ask("cancel_all_delayed", exchange="x") == {"count": 9, "missed": []}
        assert await asker.ask("list_delayed", exchange="x") == []
        assert (delayed.held.count, delayed.held.octets, delayed.apart) == (0, 0, {})
        columns = ["cancelled", "released", "exchange_deleted"]
        assert await asker.ask("list_delayed_exchanges", columns=columns) == [[10, 0, 0]]
        assert asker.log.names().count("delayed.dropped") == 2

    run(test)


@pytest.mark.parametrize(
    "text", ["", "5", "a-b", "5-", "-5", "1-²", "9" * 40 + "-1", f"{1 << 63}-1"]
)
def test_what_is_no_id(run: Run, text: str) -> None:
    async def test(asker: Asker) -> None:
        delaying(asker)
        assert (await refusal(asker, "cancel_delayed", exchange="x", ids=[text])).code == (
            "bad_arguments"
        )
        if text:
            told = await refusal(asker, "list_delayed", exchange="x", after=text)
            assert told.code == "bad_arguments"

    run(test)


def test_what_is_refused(run: Run) -> None:
    async def test(asker: Asker) -> None:
        for name in ("nothing", "amq.direct"):
            for command in ("list_delayed", "cancel_all_delayed"):
                assert (await refusal(asker, command, exchange=name)).code == "not_found"
        delaying(asker)
        for wrong in ({"limit": 0}, {"limit": 1001}, {"due_from": -1}, {"columns": ["body"]}):
            told = await refusal(asker, "list_delayed", exchange="x", **wrong)
            assert told.code == "bad_arguments"
        assert (
            await refusal(asker, "cancel_delayed", exchange="x", ids=[])
        ).code == "bad_arguments"

    run(test)
