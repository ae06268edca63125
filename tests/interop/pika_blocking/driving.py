"""How the tests open pika connections, serve them and drain queues."""

from collections.abc import Callable
from typing import Any

import pika

from tests.interop.target import until
from tests.support.broker import Broker


def parameters(broker: Broker, **changes: Any) -> Any:
    settings: dict[str, Any] = {"heartbeat": 60, "blocked_connection_timeout": 20, **changes}
    return pika.ConnectionParameters(broker.host, broker.port, **settings)


def pump(connection: Any, condition: Callable[[], object]) -> None:
    """Serve the connection until the condition holds."""

    def look() -> object:
        connection.process_data_events(time_limit=0.05)
        return condition()

    until(look)


def bodies(channel: Any, queue: str) -> list[bytes]:
    """Drain the queue by basic.get."""
    found: list[bytes] = []
    while True:
        method, _, body = channel.basic_get(queue, auto_ack=True)
        if method is None:
            return found
        found.append(body)
