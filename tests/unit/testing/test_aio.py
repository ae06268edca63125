"""The awaitable side: a test's own event loop is never blocked by what waits for it."""

import asyncio

import aio_pika
import pytest

from warren.testing import Broker, NotInTimeError


def test_a_session_of_a_real_client() -> None:
    async def session() -> None:
        async with Broker() as broker:
            connection = await aio_pika.connect(broker.url)
            async with connection:
                channel = await connection.channel()
                queue = await channel.declare_queue("q")
                got: asyncio.Queue[bytes] = asyncio.Queue()

                async def on_message(message: aio_pika.abc.AbstractIncomingMessage) -> None:
                    async with message.process():
                        got.put_nowait(message.body)

                await queue.consume(on_message)
                broker.publish("hello", "q")
                assert await got.get() == b"hello"
                await broker.aio.wait_for_queue("q", ready=0, unacked=0, consumers=1)

    asyncio.run(session())


def test_time_restarts_and_waits() -> None:
    async def session() -> None:
        async with Broker() as broker:
            broker.clock.stop()
            before = broker.clock.monotonic()
            await broker.aio.advance(60)
            assert broker.clock.monotonic() - before == pytest.approx(60, abs=1e-6)
            broker.declare_queue("q")
            waiting = asyncio.ensure_future(broker.aio.receive("q"))
            await asyncio.sleep(0.01)
            broker.publish("x", "q")
            assert (await waiting).body == b"x"
            await broker.aio.settle()
            await broker.aio.restart()
            assert broker.queue("q") is None
            with pytest.raises(NotInTimeError, match="never"):
                await broker.aio.wait_until(lambda: None, within=0.01, what="never")

    asyncio.run(session())
