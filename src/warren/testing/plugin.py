"""The pytest plugin: a broker as a fixture, its log beside a failure.

It is loaded into every run of pytest where Warren is installed, so it imports nothing of the broker
until a fixture is used.
"""

from typing import TYPE_CHECKING, Final, cast

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from warren.testing.broker import Broker
    from warren.testing.clock import Clock

MARKER: Final = "warren"
FIXTURES: Final = ("warren_broker", "warren_broker_session")
# A session's broker has seen more than the test that failed.
LOG_LINES_SHOWN: Final = 200


def pytest_configure(config: pytest.Config) -> None:
    line = f"{MARKER}(**settings): settings of the broker that the fixture warren_broker starts"
    config.addinivalue_line("markers", line)


@pytest.fixture
def warren_broker(request: pytest.FixtureRequest) -> "Iterator[Broker]":
    """A broker of its own for each test, with the settings of `@pytest.mark.warren(...)`."""
    from warren.testing.broker import Broker

    settings: dict[str, str | int | float | bool | None] = {}
    # The closest marker counts most.
    for marker in reversed(list(request.node.iter_markers(MARKER))):
        settings |= marker.kwargs
    broker = Broker(**settings).start()
    yield broker
    broker.close()


@pytest.fixture(scope="session")
def warren_broker_session() -> "Iterator[Broker]":
    """One broker for the session: `vhost()` gives each test a clean place in it."""
    from warren.testing.broker import Broker

    broker = Broker().start()
    yield broker
    broker.close()


@pytest.fixture
def warren_clock(warren_broker: "Broker") -> "Clock":
    """The clock of `warren_broker`, stopped: time passes when the test says so."""
    warren_broker.clock.stop()
    return warren_broker.clock


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> "Generator[None, pytest.TestReport, pytest.TestReport]":
    """Put the log of the test's brokers beside its failure."""
    report = yield
    if report.failed and isinstance(item, pytest.Function):
        for name in FIXTURES:
            broker = cast("Broker | None", item.funcargs.get(name))
            if broker is not None:
                lines = [str(event) for event in broker.log()[-LOG_LINES_SHOWN:]]
                report.sections.append((f"log of {name}", "\n".join(lines)))
    return report
