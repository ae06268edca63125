"""Fixtures for tests against a running broker; a conftest takes what it needs by import."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support import broker as launching
from tests.support.broker import Broker, Settings
from tests.support.channel import Channel
from tests.support.grave import Grave
from tests.support.timed import Timed, TimedReference
from tests.support.wire import Client

Connect = Callable[..., Client]
StartBroker = Callable[..., Broker]
StartTimed = Callable[..., Timed]


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """The broker under test, with default settings, shared by the whole session."""
    found = launching.external_broker()
    started = found or launching.start_broker(tmp_path_factory.mktemp("broker"))
    yield started
    started.stop()


@pytest.fixture
def start_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartBroker]:
    """Start further brokers: `start_broker(settings={"heartbeat": 1}, environment={...})`."""
    started: list[Broker] = []
    needs_reference = launching.external_broker_named() and not launching.reference_named()

    def start(
        settings: Settings | None = None, environment: dict[str, str] | None = None
    ) -> Broker:
        if needs_reference:
            pytest.skip("an external broker cannot be started with other settings")
        directory = tmp_path_factory.mktemp("broker")
        started.append(launching.start_broker(directory, settings, environment))
        return started[-1]

    yield start
    for each in started:
        each.stop()


@pytest.fixture
def start_timed(request: pytest.FixtureRequest) -> Iterator[StartTimed]:
    """Start brokers that time is passed for: `start_timed(consumer_timeout=1500)`."""
    started: list[Timed] = []

    def start(**settings: str | int) -> Timed:
        if launching.reference_named() or launching.external_broker_named():
            start_broker: StartBroker = request.getfixturevalue("start_broker")
            shared = request.getfixturevalue("broker")
            started.append(TimedReference(start_broker(settings) if settings else shared))
        else:
            started.append(Timed(settings))
        return started[-1]

    yield start
    for each in started:
        each.stop()


@pytest.fixture
def timed(start_timed: StartTimed) -> Timed:
    """A broker with default settings that time is passed for."""
    return start_timed()


@pytest.fixture(autouse=True)
def _skip_where_the_reference_differs(request: pytest.FixtureRequest) -> None:
    marker = request.node.get_closest_marker("differs_from_reference")
    if marker is not None and request.getfixturevalue("broker").is_reference:
        pytest.skip(f"the reference differs: {marker.args[0]}")


@pytest.fixture(autouse=True)
def _fails_where_a_feature_is_missing(request: pytest.FixtureRequest) -> None:
    """What the broker does not do yet must fail on it, and pass on the reference."""
    marker = request.node.get_closest_marker("not_yet")
    if marker is not None and not request.getfixturevalue("broker").is_reference:
        reason = f"not implemented: {marker.args[0]}"
        request.applymarker(pytest.mark.xfail(strict=True, reason=reason))


@pytest.fixture
def raw(broker: Broker) -> Iterator[Connect]:
    """Make clients that are connected by TCP and have sent nothing; dropped at the end."""
    clients: list[Client] = []

    def make(**options: Any) -> Client:
        clients.append(broker.raw(**options))
        return clients[-1]

    yield make
    for each in clients:
        each.drop()


@pytest.fixture
def connect(raw: Connect) -> Connect:
    """Make clients with an open connection; the options are those of `Client.open`."""

    def make(*, dribble: bool = False, **options: Any) -> Client:
        return raw(dribble=dribble).open(**options)

    return make


@pytest.fixture
def client(connect: Connect) -> Client:
    return connect()


@pytest.fixture
def channel(client: Client) -> Channel:
    return client.channel()


_numbers = itertools.count(1)


@pytest.fixture
def unique(request: pytest.FixtureRequest, broker: Broker) -> Iterator[Callable[[str], str]]:
    """Make names no other test uses: `unique("q")`. Queues and exchanges of them are deleted."""
    names: list[str] = []

    def make(stem: str = "name") -> str:
        names.append(f"{stem}-{request.node.originalname}-{next(_numbers)}")
        return names[-1]

    yield make
    if names and launching.accepts(broker.host, broker.port):
        with broker.connect() as tidy:
            channel = tidy.channel()
            for name in names:
                channel.send("queue.delete", queue=name)
                if channel.client.next_event(channel=channel.number).name == "channel.close":
                    channel.send("channel.close-ok")
                    channel = channel.reopen()
                channel.exchange_delete(name)
            tidy.close()


@pytest.fixture
def queue(channel: Channel) -> str:
    """An empty queue, exclusive to the connection of `client`."""
    name: str = channel.queue_declare(exclusive=True).queue
    return name


@pytest.fixture
def shared_queue(channel: Channel, unique: Callable[[str], str]) -> str:
    """An empty queue that every connection may use; deleted at the end of the test."""
    name: str = channel.queue_declare(unique("shared")).queue
    return name


@pytest.fixture
def grave(channel: Channel) -> Grave:
    """A queue for dead letters whose consumer waits for them."""
    return Grave(channel)
