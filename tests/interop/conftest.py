"""The broker that the clients talk to, a name of its own for each test, and coroutine tests."""

import asyncio
import inspect
import uuid

import pytest

from tests.support.fixtures import _fails_where_a_feature_is_missing, broker, start_broker

__all__ = ["_fails_where_a_feature_is_missing", "broker", "start_broker"]

COROUTINE_SECONDS_MAX = 50.0  # Below pytest's own limit, so that the failure shows where it waits.


@pytest.fixture
def name() -> str:
    """A name that no other test uses."""
    return f"interop-{uuid.uuid4().hex}"


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine function on an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    wanted = inspect.signature(pyfuncitem.obj).parameters
    arguments = {key: pyfuncitem.funcargs[key] for key in wanted}

    async def bounded() -> None:
        async with asyncio.timeout(COROUTINE_SECONDS_MAX):
            await pyfuncitem.obj(**arguments)

    asyncio.run(bounded())
    return True
