"""What is still there when the broker has been stopped and started again (XC-7, QD-6, QD-9)."""

import itertools
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.conformance.test_queue_life import exists
from tests.support.broker import Broker
from tests.support.channel import Channel
from tests.support.fixtures import StartBroker

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.wire import Client


def exchange_exists(channel: Channel, name: str) -> bool:
    probe = channel.client.channel()
    probe.send("exchange.declare", exchange=name, passive=True)
    event = channel.client.next_event(channel=probe.number)
    if event.name == "channel.close":
        assert event.reply_code == 404
        probe.send("channel.close-ok")
        return False
    assert event.name == "exchange.declare-ok"
    probe.close()
    return True


def routed(channel: Channel, exchange: str, key: str, **options: Any) -> bool:
    """Whether a publish reaches a queue."""
    channel.publish(b"probe", exchange=exchange, routing_key=key, mandatory=True, **options)
    channel.send("basic.qos")
    event = channel.client.next_event(channel=channel.number)
    if event.name == "basic.qos-ok":
        return True
    assert event.name == "basic.return"
    channel.expect("basic.qos-ok")
    return False


@pytest.mark.slow
@pytest.mark.rule("QD-9", "XC-7", "QD-6")
@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_what_is_durable_survives(start_broker: StartBroker, kill: bool) -> None:
    broker = start_broker()
    channel = broker.connect().channel()
    for kind, durable in (("durable", True), ("transient", False)):
        channel.exchange_declare(f"{kind}-x", "topic", durable=durable)
        channel.queue_declare(f"{kind}-q", durable=durable)
    channel.exchange_declare("second-x", "direct", durable=True)
    channel.queue_declare("lasting-auto-q", durable=True, auto_delete=True)
    owned = channel.queue_declare(exclusive=True, durable=True).queue
    for exchange in ("durable-x", "transient-x", "amq.topic"):
        for queue in ("durable-q", "transient-q", owned):
            channel.queue_bind(queue, exchange, f"key.{queue}")
    channel.exchange_bind("second-x", "durable-x", "through")
    channel.queue_bind("durable-q", "second-x", "through")
    channel.queue_bind("durable-q", "amq.headers", "", arguments={"x-match": "any", "a": 1})
    broker.restart(kill=kill)
    channel = broker.connect().channel()
    assert [exists(channel, f"{kind}-q") for kind in ("durable", "transient")] == [True, False]
    assert [exchange_exists(channel, f"{kind}-x") for kind in ("durable", "transient")] == [
        True,
        False,
    ]
    assert exists(channel, "lasting-auto-q")
    assert not exists(channel, owned)
    for exchange in ("durable-x", "amq.topic"):
        assert routed(channel, exchange, "key.durable-q")
        assert not routed(channel, exchange, "key.transient-q")
        assert not routed(channel, exchange, f"key.{owned}")
    assert routed(channel, "durable-x", "through")
    assert routed(channel, "amq.headers", "", headers={"a": 1})
    assert not routed(channel, "amq.headers", "", headers={"a": 2})
    # QD-6: having had a consumer is forgotten; the next one takes the queue along.
    channel.cancel(channel.consume("lasting-auto-q"))
    assert not exists(channel, "lasting-auto-q")


@pytest.mark.slow
@pytest.mark.rule("QD-1", "XC-3", "XC-8")
def test_what_survives_is_what_it_was(start_broker: StartBroker) -> None:
    broker = start_broker()
    channel = broker.connect().channel()
    arguments = {"x-max-length": 5, "x-overflow": "reject-publish", "own": {"a": [1, "b", True]}}
    declare = {"durable": True, "arguments": arguments}
    exchange = {
        "durable": True,
        "internal": True,
        "arguments": {"alternate-exchange": "amq.fanout"},
    }
    channel.queue_declare("q", **declare)
    channel.exchange_declare("x", "headers", **exchange)
    broker.restart(kill=True)
    channel = broker.connect().channel()
    # Declared again as they were they agree, and otherwise they do not.
    channel.queue_declare("q", **declare)
    channel.exchange_declare("x", "headers", **exchange)
    channel.send("queue.declare", queue="q", durable=True, arguments={"x-max-length": 6})
    channel.expect_close(
        406,
        "PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue 'q' in vhost '/': "
        "received '6' but current is '5'",
    )
    channel = channel.reopen()
    channel.send("exchange.declare", exchange="x", type="topic", **exchange)
    channel.expect_close(
        406,
        "PRECONDITION_FAILED - inequivalent arg 'type' for exchange 'x' in vhost '/': "
        "received 'topic' but current is 'headers'",
    )


@pytest.mark.slow
@pytest.mark.rule("QD-9", "QD-8", "XC-6")
def test_what_was_deleted_stays_deleted(start_broker: StartBroker) -> None:
    broker = start_broker()
    channel = broker.connect().channel()
    for name in ("a", "b"):
        channel.queue_declare(f"{name}-q", durable=True)
        channel.exchange_declare(f"{name}-x", "direct", durable=True)
        channel.queue_bind(f"{name}-q", f"{name}-x", "k")
        channel.queue_bind("a-q", f"{name}-x", "other")
    channel.queue_delete("a-q")
    channel.exchange_delete("b-x")
    broker.restart(kill=True)
    channel = broker.connect().channel()
    assert [exists(channel, f"{name}-q") for name in "ab"] == [False, True]
    assert [exchange_exists(channel, f"{name}-x") for name in "ab"] == [True, False]
    # Made again, they have none of their old bindings.
    channel.queue_declare("a-q", durable=True)
    channel.exchange_declare("b-x", "direct", durable=True)
    assert not any(routed(channel, x, key) for x in ("a-x", "b-x") for key in ("k", "other"))


@pytest.mark.slow
@pytest.mark.rule("QD-9", "XC-7")
@pytest.mark.differs_from_reference("it syncs nothing before it answers a declare")
def test_what_was_answered_survives_a_kill_in_the_middle(start_broker: StartBroker) -> None:
    """Clients declare, bind and delete as fast as they can; the broker is killed meanwhile."""
    broker = start_broker()
    for round_ in range(3):
        clients = [Storm(broker, f"{round_}-{number}") for number in range(4)]
        for _ in range(20 + 30 * round_):
            for each in clients:
                each.step()
        broker.restart(kill=True)
        channel = broker.connect().channel()
        for each in clients:
            for name in each.made:
                assert exists(channel, name), f"{name} was answered and is gone"
                assert routed(channel, "amq.direct", name), f"the binding of {name} is gone"
            for name in each.deleted:
                assert not exists(channel, name), f"{name} was deleted and is back"
        channel.client.close()


class Storm:
    """A client that has always ten requests under way, and notes which were answered."""

    def __init__(self, broker: Broker, name: str) -> None:
        self.client: Client = broker.connect()
        self.channel = self.client.channel()
        self.names = (f"{name}-{number}" for number in itertools.count())
        self.pending: list[tuple[str, Callable[[], None]]] = []
        self.made: list[str] = []
        self.deleted: list[str] = []

    def step(self) -> None:
        while len(self.pending) < 10:
            self._ask(next(self.names))
        expected, note = self.pending.pop(0)
        event = self.client.next_event(channel=self.channel.number)
        assert event.name == expected
        note()

    def _ask(self, name: str) -> None:
        channel = self.channel
        channel.send("queue.declare", queue=name, durable=True)
        self.pending.append(("queue.declare-ok", lambda: None))
        channel.send("queue.bind", queue=name, exchange="amq.direct", routing_key=name)
        self.pending.append(("queue.bind-ok", lambda: self.made.append(name)))
        gone = f"{name}-gone"
        channel.send("queue.declare", queue=gone, durable=True)
        self.pending.append(("queue.declare-ok", lambda: None))
        channel.send("queue.delete", queue=gone)
        self.pending.append(("queue.delete-ok", lambda: self.deleted.append(gone)))


@pytest.mark.slow
@pytest.mark.differs_from_reference("its files are others")
def test_a_damaged_file_stops_the_start_and_can_be_repaired(start_broker: StartBroker) -> None:
    broker = start_broker()
    channel = broker.connect().channel()
    for number in range(50):
        channel.queue_declare(f"queue-{number}", durable=True)
    broker.stop()
    assert broker.log is not None
    folder = broker.log.parent / "data"
    path = folder / "metadata.db"
    octets = path.read_bytes()
    path.write_bytes(octets.replace(b"queue-25", b"queue+25", 1))
    failed = subprocess.run(
        broker.command, env=broker.environment, capture_output=True, text=True, check=False
    )
    assert failed.returncode == 78
    assert f"{path}: damaged: queue '/' 'queue+25' does not match its checksum" in failed.stderr
    assert "warren doctor" in failed.stderr
    doctor = [sys.executable, "-m", "warren.cli.main", "doctor", "--data-dir", str(folder)]
    assert subprocess.run(doctor, capture_output=True, check=False).returncode == 1
    subprocess.run([*doctor, "--repair"], capture_output=True, check=True)
    broker.launch()
    channel = broker.connect().channel()
    assert exists(channel, "queue-24")
    assert not exists(channel, "queue-25")


@pytest.mark.slow
@pytest.mark.rule("QD-9")
def test_persistent_messages_survive_a_restart(start_broker: StartBroker) -> None:
    broker = start_broker()
    channel = broker.connect().channel()
    channel.queue_declare("durable-q", durable=True)
    channel.publish(b"kept", routing_key="durable-q", delivery_mode=2)
    channel.publish(b"not kept", routing_key="durable-q")
    channel.sync()
    broker.restart()
    channel = broker.connect().channel()
    assert channel.get("durable-q", no_ack=True).body == b"kept"
    assert channel.get("durable-q") is None
