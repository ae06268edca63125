"""aiormq, the asynchronous client that stays closest to the protocol's methods."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiormq
import pytest
from aiormq.abc import AbstractChannel, AbstractConnection, DeliveredMessage
from pamqp.exceptions import AMQPInternalError

from tests.interop.target import EXCHANGE_TYPES, MIB, PATIENCE_SECONDS, pattern, until_async, url
from tests.support.broker import Broker

# aiormq leaves the socket of a connection that the server closed to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@asynccontextmanager
async def connected(broker: Broker, query: str = "") -> AsyncIterator[AbstractConnection]:
    connection = await aiormq.connect(url(broker, query=query))
    try:
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def opened(broker: Broker, *, confirms: bool = True) -> AsyncIterator[AbstractChannel]:
    async with connected(broker) as connection:
        yield await connection.channel(publisher_confirms=confirms)


async def temporary(channel: AbstractChannel, name: str = "") -> str:
    """Declare a queue that ends with the connection."""
    declared = await channel.queue_declare(name, exclusive=True)
    assert declared.queue
    return declared.queue


async def bodies(channel: AbstractChannel, queue: str) -> list[bytes]:
    """Drain the queue by basic.get."""
    found = []
    while isinstance(
        (message := await channel.basic_get(queue, no_ack=True)).delivery, aiormq.spec.Basic.GetOk
    ):
        found.append(message.body)
    return found


async def get(channel: AbstractChannel, queue: str) -> tuple[int, bool, bytes]:
    message = await channel.basic_get(queue)
    assert message.delivery_tag is not None
    assert message.redelivered is not None
    return message.delivery_tag, message.redelivered, message.body


async def test_connection_and_channels_open_and_close(broker: Broker) -> None:
    async with connected(broker) as connection:
        first = await connection.channel()
        second = await connection.channel()
        assert (first.number, second.number) == (1, 2)
        await first.close()
        assert first.is_closed
        assert not second.is_closed
        assert (await connection.channel(1)).number == 1
    assert connection.is_closed
    assert second.is_closed


async def test_server_announces_its_capabilities(broker: Broker) -> None:
    async with connected(broker) as connection:
        capabilities = connection.server_capabilities
    for capability in (
        "publisher_confirms",
        "exchange_exchange_bindings",
        "basic.nack",
        "consumer_cancel_notify",
        "connection.blocked",
        "consumer_priorities",
        "authentication_failure_close",
        "per_consumer_qos",
        "direct_reply_to",
    ):
        assert capabilities[capability] is True


@pytest.mark.rule("XC-3")
@pytest.mark.parametrize("kind", EXCHANGE_TYPES)
async def test_exchange_is_declared_found_and_deleted(broker: Broker, name: str, kind: str) -> None:
    async with opened(broker) as channel:
        await channel.exchange_declare(name, exchange_type=kind)
        await channel.exchange_declare(name, exchange_type=kind)
        await channel.exchange_declare(name, passive=True)
        await channel.exchange_delete(name)
        with pytest.raises(aiormq.exceptions.ChannelNotFoundEntity):
            await channel.exchange_declare(name, passive=True)


async def test_publish_consume_ack(broker: Broker) -> None:
    seen: list[bytes] = []
    finished = asyncio.Event()

    async def on_message(message: DeliveredMessage) -> None:
        assert message.delivery_tag is not None
        await message.channel.basic_ack(message.delivery_tag)
        seen.append(message.body)
        if len(seen) == 100:
            finished.set()

    async with opened(broker) as channel:
        queue = await temporary(channel)
        await channel.basic_consume(queue, on_message)
        for number in range(100):
            confirmed = await channel.basic_publish(b"%d" % number, routing_key=queue)
            assert isinstance(confirmed, aiormq.spec.Basic.Ack)
        await asyncio.wait_for(finished.wait(), PATIENCE_SECONDS)
        await channel.close()
    assert seen == [b"%d" % number for number in range(100)]


async def test_concurrent_publishes_are_all_confirmed(broker: Broker) -> None:
    async with opened(broker) as channel:
        queue = await temporary(channel)
        confirmed = await asyncio.gather(
            *(channel.basic_publish(b"%d" % number, routing_key=queue) for number in range(200))
        )
        assert all(isinstance(each, aiormq.spec.Basic.Ack) for each in confirmed)
        assert await bodies(channel, queue) == [b"%d" % number for number in range(200)]


async def test_nack_and_reject_requeue_or_drop(broker: Broker) -> None:
    async with opened(broker) as channel:
        queue = await temporary(channel)
        await channel.basic_publish(b"one", routing_key=queue)
        tag, redelivered, _ = await get(channel, queue)
        assert not redelivered
        await channel.basic_nack(tag, requeue=True)
        tag, redelivered, body = await get(channel, queue)
        assert (redelivered, body) == (True, b"one")
        await channel.basic_reject(tag, requeue=True)
        tag, redelivered, body = await get(channel, queue)
        assert (redelivered, body) == (True, b"one")
        await channel.basic_nack(tag, requeue=False)
        assert await bodies(channel, queue) == []


@pytest.mark.rule("AK-1", "AK-3")
async def test_nack_multiple_keeps_the_order(broker: Broker) -> None:
    async with opened(broker) as channel:
        queue = await temporary(channel)
        for number in range(5):
            await channel.basic_publish(b"%d" % number, routing_key=queue)
        tags = [(await get(channel, queue))[0] for _ in range(4)]
        await channel.basic_nack(tags[2], multiple=True, requeue=True)
        assert await bodies(channel, queue) == [b"0", b"1", b"2", b"4"]


@pytest.mark.rule("PB-3")
async def test_mandatory_publish_to_nowhere_comes_back(broker: Broker, name: str) -> None:
    async with opened(broker) as channel:
        with pytest.raises(aiormq.exceptions.PublishError) as failed:
            await channel.basic_publish(b"back", routing_key=name, mandatory=True)
        returned = failed.value.message
        assert returned is not None
        assert isinstance(returned.delivery, aiormq.spec.Basic.Return)
        assert returned.delivery.reply_code == 312
        assert returned.delivery.reply_text == "NO_ROUTE"
        assert returned.body == b"back"
        dropped = await channel.basic_publish(b"gone", routing_key=name)
        assert isinstance(dropped, aiormq.spec.Basic.Ack)


@pytest.mark.rule("TX-1", "TX-4")
async def test_transaction_commits_and_rolls_back(broker: Broker) -> None:
    async with opened(broker, confirms=False) as channel:
        queue = await temporary(channel)
        await channel.tx_select()
        await channel.basic_publish(b"never", routing_key=queue)
        await channel.tx_rollback()
        await channel.basic_publish(b"kept", routing_key=queue)
        assert (await channel.queue_declare(queue, passive=True)).message_count == 0
        await channel.tx_commit()
        assert await bodies(channel, queue) == [b"kept"]


@pytest.mark.rule("GT-1")
async def test_get_says_empty_and_counts(broker: Broker) -> None:
    async with opened(broker) as channel:
        queue = await temporary(channel)
        empty = await channel.basic_get(queue)
        assert isinstance(empty.delivery, aiormq.spec.Basic.GetEmpty)
        for _ in range(3):
            await channel.basic_publish(b"x", routing_key=queue)
        counts = [(await channel.basic_get(queue)).message_count for _ in range(3)]
        assert counts == [2, 1, 0]
        assert (await channel.queue_purge(queue)).message_count == 0


@pytest.mark.rule("QO-1")
async def test_prefetch_bounds_what_is_in_flight(broker: Broker) -> None:
    arrived: asyncio.Queue[int] = asyncio.Queue()

    async def on_message(message: DeliveredMessage) -> None:
        arrived.put_nowait(message.delivery_tag or 0)

    async with opened(broker) as channel:
        queue = await temporary(channel)
        for _ in range(6):
            await channel.basic_publish(b"x", routing_key=queue)
        await channel.basic_qos(prefetch_count=2)
        await channel.basic_consume(queue, on_message)
        assert [await asyncio.wait_for(arrived.get(), PATIENCE_SECONDS) for _ in range(2)] == [1, 2]
        assert (await channel.queue_declare(queue, passive=True)).message_count == 4
        assert arrived.empty()
        await channel.basic_ack(2, multiple=True)
        assert [await asyncio.wait_for(arrived.get(), PATIENCE_SECONDS) for _ in range(2)] == [3, 4]


@pytest.mark.rule("CS-5")
async def test_server_cancels_consumer_of_a_deleted_queue(broker: Broker, name: str) -> None:
    async def ignore(message: DeliveredMessage) -> None:
        raise AssertionError(message)

    async with connected(broker) as connection:
        consuming, deleting = await connection.channel(), await connection.channel()
        assert isinstance(consuming, aiormq.Channel)
        queue = await temporary(consuming, name)
        await consuming.basic_consume(queue, ignore, consumer_tag="watched")
        assert "watched" in consuming.consumers
        await deleting.queue_delete(queue)

        async def gone() -> bool:
            return "watched" not in consuming.consumers

        await until_async(gone)
        assert not consuming.is_closed


@pytest.mark.rule("EE-1")
async def test_exchange_to_exchange_binding(broker: Broker, name: str) -> None:
    async with opened(broker) as channel:
        queue = await temporary(channel)
        source, target = f"{name}.source", f"{name}.target"
        for exchange in (source, target):
            await channel.exchange_declare(exchange, exchange_type="topic", auto_delete=True)
        await channel.exchange_bind(destination=target, source=source, routing_key="kept.#")
        await channel.queue_bind(queue, target, routing_key="#.one")
        for key in ("kept.one", "kept.two", "lost.one"):
            await channel.basic_publish(key.encode(), exchange=source, routing_key=key)
        assert await bodies(channel, queue) == [b"kept.one"]
        await channel.exchange_unbind(destination=target, source=source, routing_key="kept.#")
        with pytest.raises(aiormq.exceptions.ChannelNotFoundEntity):
            await channel.exchange_declare(source, passive=True)


@pytest.mark.rule("WI-2")
@pytest.mark.slow
async def test_large_body_survives(broker: Broker) -> None:
    body = pattern(10 * MIB)
    async with opened(broker) as channel:
        queue = await temporary(channel)
        await channel.basic_publish(body, routing_key=queue)
        assert await bodies(channel, queue) == [body]


@pytest.mark.rule("HT-1")
@pytest.mark.slow
async def test_idle_connection_lives_by_heartbeats(broker: Broker) -> None:
    async with connected(broker, query="?heartbeat=1") as connection:
        assert connection.connection_tune.heartbeat == 1
        channel = await connection.channel()
        await asyncio.sleep(3.5)
        await temporary(channel)


@pytest.mark.rule("AU-3")
async def test_update_secret_is_accepted(broker: Broker) -> None:
    async with connected(broker) as connection:
        answer = await connection.update_secret("guest", reason="renewed", timeout=5)
        assert isinstance(answer, aiormq.spec.Connection.UpdateSecretOk)
        channel = await connection.channel()
        await temporary(channel)


@pytest.mark.rule("EX-2")
async def test_channel_errors_leave_the_connection_open(broker: Broker, name: str) -> None:
    async with connected(broker) as connection:
        channel = await connection.channel()
        with pytest.raises(aiormq.exceptions.ChannelNotFoundEntity, match="no queue"):
            await channel.queue_declare(name, passive=True)
        channel = await connection.channel()
        await temporary(channel, name)
        with pytest.raises(aiormq.exceptions.ChannelPreconditionFailed, match="auto_delete"):
            await channel.queue_declare(name, exclusive=True, auto_delete=True)
        channel = await connection.channel()
        with pytest.raises(aiormq.exceptions.ChannelAccessRefused):
            await channel.queue_declare("amq." + name)
        async with opened(broker) as other:
            with pytest.raises(aiormq.exceptions.ChannelLockedResource):
                await other.queue_declare(name, passive=True)
        assert not connection.is_closed


@pytest.mark.rule("PB-1")
async def test_publish_to_a_missing_exchange_fails_its_confirm(broker: Broker, name: str) -> None:
    async with opened(broker) as channel:
        with pytest.raises(aiormq.exceptions.ChannelNotFoundEntity, match="no exchange"):
            await channel.basic_publish(b"lost", exchange=name, routing_key="key")


@pytest.mark.rule("PB-7")
async def test_immediate_publish_closes_the_connection(broker: Broker, name: str) -> None:
    async with connected(broker) as connection:
        channel = await connection.channel()
        with pytest.raises(aiormq.exceptions.ConnectionNotImplemented):
            await channel.basic_publish(b"x", routing_key=name, immediate=True)
        assert connection.is_closed


@pytest.mark.rule("AU-1", "VH-1")
async def test_wrong_password_and_virtual_host_are_refused(broker: Broker, name: str) -> None:
    with pytest.raises(aiormq.exceptions.ProbableAuthenticationError):
        await aiormq.connect(url(broker, password="wrong"))
    with pytest.raises(AMQPInternalError) as refused:
        await aiormq.connect(url(broker, virtual_host=name))
    close = refused.value.args[1]
    assert isinstance(close, aiormq.spec.Connection.Close)
    assert close.reply_code == 530
