"""An answer that promises durability leaves with its commit; when that fails, 506 comes instead."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.machine import Decoder, method, opening, publish
from tests.unit.server.asking import Asker, Refused
from warren.server.config import Settings
from warren.server.socket_link import SocketLink
from warren.vhost.change import Change


class Manual:
    """A backend that commits when the test says so."""

    def __init__(self) -> None:
        self.failure = ""
        self.ticket = 0
        self.changes: list[Change] = []

    def put(self, changes: Sequence[Change]) -> int:
        self.ticket += 1
        self.changes += changes
        return self.ticket


class Rig:
    def __init__(self, asker: Asker) -> None:
        self.node = asker.node
        self.asker = asker
        self.backend = Manual()
        self.node.broker.metadata.backend = self.backend
        self.clients: list[Client] = []

    def client(self) -> "Client":
        self.clients.append(Client(self))
        return self.clients[-1]

    async def commit(self, ticket: int) -> None:
        self.backend.failure = ""
        self.node.commits.on_committed(ticket)
        await settle()

    async def fail(self, reason: str = "disk full") -> None:
        self.backend.failure = reason
        self.node.commits.on_failed(reason, passing=True)
        await settle()


class Client:
    """A client at the other end of a pair of sockets."""

    def __init__(self, rig: Rig) -> None:
        self.socket, end = socket.socketpair()
        self.socket.setblocking(False)
        end.setblocking(False)
        self.link = SocketLink(rig.node.hub, end)
        connection = rig.node.listeners.admit(self.link, "127.0.0.1", 1, tls=False)
        assert connection is not None
        self.connection = connection
        self.link.start(connection, connection.identity)
        self.decoder = Decoder()
        self.ended = False

    async def send(self, *frames: bytes) -> list[str]:
        self.socket.sendall(b"".join(frames))
        return await self.read()

    async def push(self, *frames: bytes) -> None:
        """Send more than the pair of sockets holds, while the broker takes it."""
        await asyncio.get_running_loop().sock_sendall(self.socket, b"".join(frames))
        await settle()

    async def read(self) -> list[str]:
        """Return the names of what has come, or its reply code for what was refused."""
        await settle()
        found: list[Any] = []
        while True:
            try:
                data = self.socket.recv(1 << 20)
            except BlockingIOError:
                break
            if not data:
                self.ended = True
                break
            found += self.decoder.feed(data)
        return [
            f"{each.reply_code} {each.reply_text}" if hasattr(each, "reply_code") else each.name
            for each in found
        ]

    async def open(self) -> "Client":
        await self.send(opening(), method(1, "channel.open"))
        return self


async def settle() -> None:
    """Let the loop turn until everything that can happen has happened."""
    for _ in range(30):
        await asyncio.sleep(0)
    await asyncio.sleep(0.001)


def with_rig(test: Callable[[Rig], Awaitable[None]]) -> None:
    async def run() -> None:
        asker = Asker(Settings(data_dir=Path("/nonexistent"), node_name="warren@test"))
        await asker.node.prepare()
        rig = Rig(asker)
        try:
            await test(rig)
        finally:
            for link in list(asker.node.hub.links.values()):
                link.abort()
            for client in rig.clients:
                client.socket.close()

    asyncio.run(run())


def declare(name: str, **options: Any) -> bytes:
    return method(1, "queue.declare", queue=name, **{"durable": True, **options})


def test_an_answer_leaves_with_its_commit() -> None:
    async def test(rig: Rig) -> None:
        client, other = await rig.client().open(), await rig.client().open()
        assert await client.send(declare("q")) == []
        # It is there for everybody, and a passive declare by another client waits for nobody.
        assert "q" in rig.node.broker.vhosts["/"].queues
        assert await other.send(declare("brief", durable=False)) == ["queue.declare-ok"]
        # Everything behind the answer keeps its place.
        assert await client.send(declare("brief-too", durable=False)) == []
        await rig.commit(1)
        assert await client.read() == ["queue.declare-ok", "queue.declare-ok"]
        assert rig.node.hub.held == []

    with_rig(test)


def test_each_answer_waits_for_its_own_commit() -> None:
    async def test(rig: Rig) -> None:
        first, second = await rig.client().open(), await rig.client().open()
        assert await first.send(declare("a")) == []
        assert await second.send(declare("b")) == []
        await rig.commit(1)
        assert await first.read() == ["queue.declare-ok"]
        assert await second.read() == []
        await rig.commit(2)
        assert await second.read() == ["queue.declare-ok"]

    with_rig(test)


def test_declares_of_one_client_share_commits() -> None:
    async def test(rig: Rig) -> None:
        client = await rig.client().open()
        assert await client.send(*[declare(f"q{number}") for number in range(100)]) == []
        await rig.commit(100)
        assert await client.read() == ["queue.declare-ok"] * 100
        silent = [declare(f"n{number}", nowait=True) for number in range(100)]
        assert await client.send(*silent, declare("last")) == []
        await rig.commit(201)
        assert await client.read() == ["queue.declare-ok"]

    with_rig(test)


def test_an_output_that_was_stuck_does_not_leave_early() -> None:
    async def test(rig: Rig) -> None:
        client = await rig.client().open()
        await client.send(
            declare("q", durable=False),
            method(1, "basic.consume", queue="q", no_ack=True),
            method(1, "queue.bind", queue="q", exchange="amq.fanout"),
        )
        body = b"x" * 100_000
        # More than the pair of sockets holds, while nobody reads.
        await client.push(*[publish(1, body, "", exchange="amq.fanout") for _ in range(10)])
        assert client.link.writing
        await client.push(declare("kept"))
        rig.node.hub.begin()
        first = await client.read()
        for _ in range(20):
            first += await client.read()
        assert "queue.declare-ok" not in first
        await rig.commit(1)
        rest = first
        for _ in range(50):
            rest += await client.read()
        assert rest.count("basic.deliver") == 10
        assert rest.count("queue.declare-ok") == 1

    with_rig(test)


def test_a_failed_commit_is_506_and_never_a_false_yes() -> None:
    async def test(rig: Rig) -> None:
        client, other = await rig.client().open(), await rig.client().open()
        assert await client.send(declare("q"), method(1, "basic.qos", prefetch_count=1)) == []
        await rig.fail()
        refusal = "506 RESOURCE_ERROR - metadata cannot be stored: disk full"
        assert await client.read() == [refusal]
        # Clients that asked for nothing durable notice nothing.
        assert await other.send(declare("brief", durable=False)) == ["queue.declare-ok"]
        assert await other.send(declare("new")) == [refusal]
        third = await rig.client().open()
        # In doubt: it is in memory, and was never stored.
        assert await third.send(declare("q")) == [refusal]
        await rig.commit(1)
        fourth = await rig.client().open()
        assert await fourth.send(declare("q")) == ["queue.declare-ok"]
        assert "new" not in rig.node.broker.vhosts["/"].queues
        assert rig.asker.log.names().count("metadata.failed") == 1
        assert rig.asker.log.names().count("metadata.recovered") == 1

    with_rig(test)


def test_what_was_stored_can_be_used_while_nothing_can_be_stored() -> None:
    async def test(rig: Rig) -> None:
        client = await rig.client().open()
        bind = method(1, "queue.bind", queue="q", exchange="amq.direct", routing_key="k")
        assert await client.send(declare("q"), bind) == []
        await rig.commit(2)
        assert await client.read() == ["queue.declare-ok", "queue.bind-ok"]
        await rig.fail()
        assert await client.send(declare("q"), bind) == ["queue.declare-ok", "queue.bind-ok"]
        assert await client.send(declare("q", passive=True)) == ["queue.declare-ok"]

    with_rig(test)


def test_half_a_frame_is_not_followed_by_a_refusal() -> None:
    async def test(rig: Rig) -> None:
        client = await rig.client().open()
        await client.send(
            declare("q", durable=False), method(1, "basic.consume", queue="q", no_ack=True)
        )
        await client.push(publish(1, b"x" * 10_000_000, "q"))
        assert client.link.writing
        assert client.connection.output.torn
        await client.push(declare("kept"))
        await rig.fail()
        assert not client.link.open

    with_rig(test)


def test_a_client_that_is_gone_is_not_waited_for() -> None:
    async def test(rig: Rig) -> None:
        client = await rig.client().open()
        assert await client.send(declare("q")) == []
        client.socket.close()
        await settle()
        await rig.commit(1)
        assert rig.node.hub.held == []
        again = await rig.client().open()
        assert await again.send(declare("r")) == []
        again.socket.close()
        await settle()
        await rig.fail()
        assert rig.node.hub.held == []

    with_rig(test)


def test_a_close_in_the_queue_behind_an_answer_waits_with_it() -> None:
    async def test(rig: Rig) -> None:
        client = await rig.client().open()
        close = method(0, "connection.close", reply_code=200, reply_text="bye")
        assert await client.send(declare("q"), close) == []
        await rig.commit(1)
        assert await client.read() == ["queue.declare-ok", "connection.close-ok"]
        other = await rig.client().open()
        assert await other.send(declare("r"), close) == []
        await rig.fail()
        assert await other.read() == []
        assert other.ended

    with_rig(test)


def test_a_command_waits_for_its_commit_and_hears_of_failure() -> None:
    async def test(rig: Rig) -> None:
        adding = asyncio.ensure_future(rig.asker.ask("add_vhost", vhost="v"))
        await settle()
        assert not adding.done()
        await rig.commit(1)
        assert await adding == {}
        adding = asyncio.ensure_future(rig.asker.ask("add_vhost", vhost="w"))
        await settle()
        await rig.fail()
        with pytest.raises(Refused, match="done in memory, but it could not be stored: disk full"):
            await adding

    with_rig(test)
