"""aio-pika, the object layer over aiormq, with its reconnecting connections."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aio_pika
import aiormq
import pytest
from aio_pika import ExchangeType, Message
from aio_pika.abc import (
    AbstractChannel,
    AbstractConnection,
    AbstractIncomingMessage,
    AbstractQueue,
    DeliveryMode,
)

from tests.interop.target import MIB, PATIENCE_SECONDS, pattern, until_async, url
from tests.support.broker import Broker

# aiormq leaves the socket of a connection that the server closed to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@asynccontextmanager
async def connected(broker: Broker, query: str = "") -> AsyncIterator[AbstractConnection]:
    async with await aio_pika.connect(url(broker, query=query), timeout=10) as connection:
        yield connection


@asynccontextmanager
async def opened(broker: Broker, **options: Any) -> AsyncIterator[AbstractChannel]:
    async with connected(broker) as connection, connection.channel(**options) as channel:
        yield channel


async def send(channel: AbstractChannel, queue: AbstractQueue, *bodies: bytes) -> None:
    for body in bodies:
        await channel.default_exchange.publish(Message(body), routing_key=queue.name)


async def bodies(queue: AbstractQueue) -> list[bytes]:
    found = []
    while (message := await queue.get(no_ack=True, fail=False)) is not None:
        found.append(message.body)
    return found


async def test_connection_and_channels_open_and_close(broker: Broker) -> None:
    async with connected(broker) as connection:
        first, second = await connection.channel(), await connection.channel()
        await first.close()
        assert first.is_closed
        assert not second.is_closed
        await first.reopen()
        await first.declare_queue(exclusive=True)
    assert connection.is_closed


@pytest.mark.rule("XC-3")
@pytest.mark.parametrize(
    "kind", [ExchangeType.DIRECT, ExchangeType.FANOUT, ExchangeType.TOPIC, ExchangeType.HEADERS]
)
async def test_exchange_is_declared_found_and_deleted(
    broker: Broker, name: str, kind: ExchangeType
) -> None:
    async with opened(broker) as channel:
        exchange = await channel.declare_exchange(name, kind, durable=True)
        assert (await channel.get_exchange(name)).name == name
        await exchange.delete()
        with pytest.raises(aio_pika.exceptions.ChannelNotFoundEntity):
            await channel.get_exchange(name)


async def test_iterator_consumes_and_acks(broker: Broker) -> None:
    seen = []
    async with opened(broker) as channel:
        queue = await channel.declare_queue(exclusive=True)
        await send(channel, queue, *(b"%d" % number for number in range(20)))
        async with queue.iterator(timeout=PATIENCE_SECONDS) as messages:
            async for message in messages:
                async with message.process():
                    seen.append(message.body)
                if len(seen) == 20:
                    break
        assert await bodies(queue) == []
    assert seen == [b"%d" % number for number in range(20)]


async def test_leaving_the_iterator_gives_back_what_was_not_processed(broker: Broker) -> None:
    async with opened(broker) as channel:
        queue = await channel.declare_queue(exclusive=True)
        await send(channel, queue, b"0", b"1", b"2")
        async with queue.iterator(timeout=PATIENCE_SECONDS) as messages:
            async for message in messages:
                await message.ack()
                break

        async def returned() -> bool:
            declared = await channel.declare_queue(queue.name, passive=True)
            return declared.declaration_result.message_count == 2

        await until_async(returned)
        assert await bodies(queue) == [b"1", b"2"]


async def test_failed_processing_requeues_or_rejects(broker: Broker) -> None:
    async with opened(broker) as channel:
        queue = await channel.declare_queue(exclusive=True)
        await send(channel, queue, b"tried")
        with pytest.raises(LookupError):
            async with (await queue.get()).process(requeue=True):
                raise LookupError
        again = await queue.get()
        assert again.redelivered
        with pytest.raises(LookupError):
            async with again.process(requeue=False):
                raise LookupError
        assert await bodies(queue) == []


@pytest.mark.rule("AK-1", "AK-3")
async def test_nack_multiple_keeps_the_order(broker: Broker) -> None:
    async with opened(broker) as channel:
        queue = await channel.declare_queue(exclusive=True)
        await send(channel, queue, b"0", b"1", b"2")
        taken = [await queue.get() for _ in range(3)]
        await taken[1].nack(multiple=True, requeue=True)
        assert await bodies(queue) == [b"0", b"1"]
        await taken[2].reject(requeue=True)
        assert await bodies(queue) == [b"2"]


async def test_properties_survive(broker: Broker) -> None:
    async with opened(broker) as channel:
        queue = await channel.declare_queue(exclusive=True)
        sent = Message(
            b"{}",
            headers={"text": "é", "number": 1 << 40, "list": [1, "two"], "nested": {"yes": True}},
            content_type="application/json",
            delivery_mode=DeliveryMode.PERSISTENT,
            priority=3,
            correlation_id="c-1",
            expiration=60,
            message_id="m-1",
            type="greeting",
            app_id="interop",
        )
        await channel.default_exchange.publish(sent, routing_key=queue.name)
        got = await queue.get(no_ack=True)
        for field in (
            "body",
            "headers",
            "content_type",
            "delivery_mode",
            "priority",
            "correlation_id",
            "expiration",
            "message_id",
            "type",
            "app_id",
        ):
            assert getattr(got, field) == getattr(sent, field), field


@pytest.mark.rule("PB-3")
async def test_mandatory_publish_to_nowhere_is_returned(broker: Broker, name: str) -> None:
    async with opened(broker, on_return_raises=True) as channel:
        with pytest.raises(aio_pika.exceptions.DeliveryError):
            await channel.default_exchange.publish(Message(b"back"), name, mandatory=True)
        await channel.default_exchange.publish(Message(b"gone"), name, mandatory=False)


@pytest.mark.rule("LE-3", "CO-3")
async def test_full_queue_that_rejects_publishes_nacks(broker: Broker) -> None:
    async with opened(broker) as channel:
        arguments: dict[str, Any] = {"x-max-length": 1, "x-overflow": "reject-publish"}
        queue = await channel.declare_queue(exclusive=True, arguments=arguments)
        await send(channel, queue, b"fits")
        with pytest.raises(aio_pika.exceptions.DeliveryError):
            await send(channel, queue, b"too many")
        assert await bodies(queue) == [b"fits"]


@pytest.mark.rule("TX-1", "TX-4")
async def test_transaction_commits_and_rolls_back(broker: Broker) -> None:
    async with connected(broker) as connection:
        channel = await connection.channel(publisher_confirms=False)
        looking = await connection.channel()
        queue = await channel.declare_queue(exclusive=True)
        looked = await looking.get_queue(queue.name)
        async with channel.transaction():
            await send(channel, queue, b"kept")
            assert await bodies(looked) == []
        assert await bodies(looked) == [b"kept"]
        transaction = channel.transaction()
        await transaction.select()
        await send(channel, queue, b"never")
        await transaction.rollback()
        assert await bodies(looked) == []


@pytest.mark.rule("QO-1")
async def test_prefetch_bounds_what_is_in_flight(broker: Broker) -> None:
    arrived: asyncio.Queue[AbstractIncomingMessage] = asyncio.Queue()
    async with opened(broker) as channel:
        queue = await channel.declare_queue(exclusive=True)
        await send(channel, queue, b"0", b"1", b"2", b"3")
        await channel.set_qos(prefetch_count=2)
        tag = await queue.consume(arrived.put)
        first = [await asyncio.wait_for(arrived.get(), PATIENCE_SECONDS) for _ in range(2)]
        declared = await channel.declare_queue(queue.name, passive=True)
        assert declared.declaration_result.message_count == 2
        assert arrived.empty()
        await first[0].ack()
        third = await asyncio.wait_for(arrived.get(), PATIENCE_SECONDS)
        assert [message.body for message in (*first, third)] == [b"0", b"1", b"2"]
        await queue.cancel(tag)
        assert await bodies(queue) == [b"3"]


@pytest.mark.rule("EE-1")
async def test_exchange_to_exchange_binding(broker: Broker, name: str) -> None:
    async with opened(broker) as channel:
        queue = await channel.declare_queue(exclusive=True)
        kind = ExchangeType.TOPIC
        source = await channel.declare_exchange(f"{name}.source", kind, auto_delete=True)
        target = await channel.declare_exchange(f"{name}.target", kind, auto_delete=True)
        await target.bind(source, routing_key="kept.#")
        await queue.bind(target, routing_key="#")
        for key in ("kept.one", "lost.one"):
            await source.publish(Message(key.encode()), routing_key=key)
        assert await bodies(queue) == [b"kept.one"]
        await target.unbind(source, routing_key="kept.#")
        with pytest.raises(aio_pika.exceptions.ChannelNotFoundEntity):
            await channel.get_exchange(source.name)


@pytest.mark.rule("DL-1", "DL-3")
async def test_expired_message_is_dead_lettered(broker: Broker) -> None:
    async with opened(broker) as channel:
        dead = await channel.declare_queue(exclusive=True)
        arguments: dict[str, Any] = {
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": dead.name,
        }
        queue = await channel.declare_queue(exclusive=True, arguments=arguments)
        await channel.default_exchange.publish(Message(b"late", expiration=0.05), queue.name)
        message = await until_async(lambda: dead.get(no_ack=True, fail=False))
        deaths = message.headers["x-death"]
        assert isinstance(deaths, list)
        death = deaths[0]
        assert isinstance(death, dict)
        assert (message.body, death["reason"], death["queue"]) == (b"late", "expired", queue.name)
        assert message.expiration is None


@pytest.mark.rule("WI-2")
@pytest.mark.slow
async def test_large_body_survives(broker: Broker) -> None:
    body = pattern(10 * MIB)
    async with opened(broker) as channel:
        queue = await channel.declare_queue(exclusive=True)
        await send(channel, queue, body)
        assert await bodies(queue) == [body]


@pytest.mark.rule("HT-1")
@pytest.mark.slow
async def test_idle_connection_lives_by_heartbeats(broker: Broker) -> None:
    async with connected(broker, "?heartbeat=1") as connection:
        channel = await connection.channel()
        await asyncio.sleep(3.5)
        await channel.declare_queue(exclusive=True)


@pytest.mark.rule("AU-3")
async def test_update_secret_is_accepted(broker: Broker) -> None:
    async with connected(broker) as connection:
        await connection.update_secret("guest", reason="renewed")
        channel = await connection.channel()
        await channel.declare_queue(exclusive=True)


async def test_robust_channel_comes_back_after_a_channel_error(broker: Broker, name: str) -> None:
    async with await aio_pika.connect_robust(url(broker), timeout=10) as connection:
        channel = await connection.channel()
        queue = await channel.declare_queue(exclusive=True)
        with pytest.raises(aio_pika.exceptions.ChannelNotFoundEntity):
            await channel.get_exchange(name)
        other = await connection.channel()
        await send(other, queue, b"through")
        found = await other.get_queue(queue.name)
        assert await bodies(found) == [b"through"]


@pytest.mark.rule("EX-2")
async def test_channel_errors_leave_the_connection_open(broker: Broker, name: str) -> None:
    async with connected(broker) as connection:
        channel = await connection.channel()
        with pytest.raises(aio_pika.exceptions.ChannelNotFoundEntity):
            await channel.get_queue(name)
        channel = await connection.channel()
        await channel.declare_queue(name, exclusive=True)
        with pytest.raises(aio_pika.exceptions.ChannelPreconditionFailed):
            await channel.declare_queue(name, exclusive=True, auto_delete=True)
        async with opened(broker) as other:
            with pytest.raises(aiormq.exceptions.ChannelLockedResource):
                await other.get_queue(name)
        assert not connection.is_closed


@pytest.mark.rule("AU-1")
async def test_wrong_password_is_refused(broker: Broker) -> None:
    with pytest.raises(aio_pika.exceptions.ProbableAuthenticationError):
        await aio_pika.connect(url(broker, password="wrong"))
