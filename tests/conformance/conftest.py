"""Fixtures of the conformance tests."""

from tests.support.fixtures import (
    _fails_where_a_feature_is_missing,
    _skip_where_the_reference_differs,
    broker,
    channel,
    client,
    connect,
    grave,
    queue,
    raw,
    shared_queue,
    start_broker,
    start_timed,
    timed,
    unique,
)

__all__ = [
    "_fails_where_a_feature_is_missing",
    "_skip_where_the_reference_differs",
    "broker",
    "channel",
    "client",
    "connect",
    "grave",
    "queue",
    "raw",
    "shared_queue",
    "start_broker",
    "start_timed",
    "timed",
    "unique",
]
