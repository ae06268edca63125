"""What is still there when the broker has been stopped and started again (XC-7, QD-6, QD-9)."""

import pytest

from tests.conformance.test_queue_life import exists
from tests.support.fixtures import StartBroker


@pytest.mark.not_yet("a store, so nothing survives")
@pytest.mark.slow
@pytest.mark.rule("QD-9", "XC-7", "QD-6")
def test_what_survives_a_restart(start_broker: StartBroker) -> None:
    broker = start_broker()
    client = broker.connect()
    channel = client.channel()
    for kind, durable in (("durable", True), ("transient", False)):
        channel.exchange_declare(f"{kind}-x", "fanout", durable=durable)
        channel.queue_declare(f"{kind}-q", durable=durable)
    channel.queue_declare("lasting-auto-q", durable=True, auto_delete=True)
    channel.cancel(channel.consume("durable-q"))
    for exchange in ("durable-x", "transient-x"):
        for queue in ("durable-q", "transient-q"):
            channel.queue_bind(queue, exchange)
    channel.publish(b"kept", routing_key="durable-q", delivery_mode=2)
    channel.publish(b"not kept", routing_key="durable-q")
    channel.sync()
    client.close()
    broker.restart()
    channel = broker.connect().channel()
    assert not exists(channel, "transient-q")
    assert exists(channel, "lasting-auto-q")
    assert channel.get("durable-q", no_ack=True).body == b"kept"
    assert channel.get("durable-q") is None
    channel.publish(b"through", exchange="durable-x")
    assert channel.get("durable-q", no_ack=True).body == b"through"
    channel.publish(b"lost", exchange="transient-x")
    channel.expect_close(404, "NOT_FOUND - no exchange 'transient-x' in vhost '/'")
