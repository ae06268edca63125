"""A broker with a management process for each module."""

from collections.abc import Iterator

import pytest

from tests.support import broker as launching
from tests.support.fixtures import start_broker
from tests.support.http import SETTINGS, Managed, managed

__all__ = ["managed_broker", "start_broker"]


@pytest.fixture(scope="module")
def managed_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Managed]:
    """A blank broker with its management process; the tests of a module share it."""
    pytest.importorskip("uvicorn", reason="the management process needs uvicorn")
    started = launching.start_broker(tmp_path_factory.mktemp("managed"), SETTINGS)
    yield managed(started)
    started.stop()
