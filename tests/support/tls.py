"""Brokers that listen with TLS."""

from pathlib import Path

from tests.support.broker import Broker, Settings, free_port
from tests.support.certificate import Pair
from tests.support.fixtures import StartBroker


def listen(
    start_broker: StartBroker,
    pair: Pair,
    settings: Settings | None = None,
    *,
    authorities: Path | None = None,
) -> Broker:
    """Start a broker that shows this certificate; further settings as in rabbitmq.conf."""
    port = free_port()
    named: Settings = {
        "listeners.ssl.1": f"127.0.0.1:{port}",
        "ssl_options.certfile": str(pair.certificate),
        "ssl_options.keyfile": str(pair.key),
    }
    if authorities is not None:
        named["ssl_options.cacertfile"] = str(authorities)
    broker = start_broker(settings=named | (settings or {}))
    broker.tls_port = port
    broker.wait_until_accepts(port)
    return broker
