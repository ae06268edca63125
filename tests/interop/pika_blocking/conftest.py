"""One connection, one channel and one queue per test; they end with it."""

from collections.abc import Iterator
from typing import Any

import pika
import pytest

from tests.interop.pika_blocking.driving import parameters
from tests.support.broker import Broker


@pytest.fixture
def connection(broker: Broker) -> Iterator[Any]:
    link = pika.BlockingConnection(parameters(broker))
    yield link
    if link.is_open:
        link.close()


@pytest.fixture
def channel(connection: Any) -> Any:
    return connection.channel()


@pytest.fixture
def queue(channel: Any, name: str) -> str:
    channel.queue_declare(name, exclusive=True)
    return name
