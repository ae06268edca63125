"""Fixtures and markers of the conformance tests."""

import pytest

from tests.support.fixtures import (
    _skip_where_the_reference_differs,
    broker,
    channel,
    client,
    connect,
    queue,
    raw,
    shared_queue,
    start_broker,
    unique,
)

__all__ = [
    "_skip_where_the_reference_differs",
    "broker",
    "channel",
    "client",
    "connect",
    "queue",
    "raw",
    "shared_queue",
    "start_broker",
    "unique",
]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "differs_from_reference(reason): the reference does otherwise, for the reason given; "
        "skipped when the broker under test is the reference",
    )
