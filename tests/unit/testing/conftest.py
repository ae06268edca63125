"""Clients of a test's broker, that go with the test."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.wire import Client
from warren.testing import Broker

Connect = Callable[..., Client]


@pytest.fixture
def connect(warren_broker: Broker) -> Iterator[Connect]:
    """Make clients with an open connection; the options are those of `Client.open`."""
    clients: list[Client] = []

    def make(**options: Any) -> Client:
        clients.append(Client(warren_broker.host, warren_broker.port).open(**options))
        return clients[-1]

    yield make
    for each in clients:
        each.drop()
