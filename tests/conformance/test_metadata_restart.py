"""Everything durable that is no message, made at once: it is the same after any kind of stop.

And files that are damaged in every way: the start is refused in words, and there is a way out.
"""

import subprocess
import sys
from collections.abc import Callable
from typing import Any, Final

import pytest

from tests.conformance.test_queue_life import exists
from tests.support.broker import Broker
from tests.support.fixtures import StartBroker

pytestmark = [
    pytest.mark.slow,
    pytest.mark.differs_from_reference("its commands and its files are others"),
]
QUEUE_COLUMNS: Final = ["name", "durable", "auto_delete", "arguments", "policy"]
EXCHANGE_COLUMNS: Final = ["name", "type", "durable", "auto_delete", "internal", "arguments"]
LISTS: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("list_vhosts", {"columns": ["name", "description", "tags"]}),
    ("list_vhost_limits", {}),
    ("list_users", {}),
    ("list_user_limits", {"user": "ann"}),
    ("list_global_parameters", {}),
    *(
        (name, {"vhost": vhost})
        for vhost in ("/", "other")
        for name in (
            "list_permissions",
            "list_topic_permissions",
            "list_parameters",
            "list_policies",
            "list_operator_policies",
            "list_bindings",
        )
    ),
    *(("list_queues", {"vhost": vhost, "columns": QUEUE_COLUMNS}) for vhost in ("/", "other")),
    *(
        ("list_exchanges", {"vhost": vhost, "columns": EXCHANGE_COLUMNS})
        for vhost in ("/", "other")
    ),
)


def told(broker: Broker) -> dict[str, Any]:
    """Return everything that is listed, in an order of its own."""
    return {
        f"{name} {arguments}": sorted(broker.rows(name, **arguments), key=repr)
        for name, arguments in LISTS
    }


def make_everything(broker: Broker) -> None:
    control = broker.control
    control("add_vhost", vhost="other", description="the other one", tags=["x", "y"])
    control("add_vhost", vhost="gone")
    control("delete_vhost", vhost="gone")
    control("set_vhost_limits", vhost="other", definition={"max-queues": 7})
    control("add_user", user="ann", password="secret", tags=["monitoring"])
    control("set_user_limits", user="ann", definition={"max-channels": 9})
    control("set_permissions", user="ann", vhost="other", configure="^a", write="", read=".*")
    control("set_permissions", user="guest", vhost="other", configure=".*", write=".*", read=".*")
    for vhost in ("/", "other"):
        topic = {"exchange": "t", "write": ".*", "read": "^a|k"}
        control("set_topic_permissions", user="guest", vhost=vhost, **topic)
    control("set_global_parameter", name="g", value='{"a": [1]}')
    for vhost in ("/", "other"):
        control(
            "set_policy", vhost=vhost, name="p", pattern="^q", definition={"max-length": 5},
            priority=3, apply_to="queues",
        )  # fmt: skip
        control(
            "set_operator_policy", vhost=vhost, name="o", pattern="", definition={"expires": 1000}
        )
        control("clear_operator_policy", vhost=vhost, name="o")
        control(
            "set_operator_policy", vhost=vhost, name="p", pattern="x", definition={"expires": 9}
        )
        client = broker.connect(vhost=vhost)
        channel = client.channel()
        channel.queue_declare("q", durable=True, arguments={"x-max-priority": 4, "own": [1, "b"]})
        channel.queue_declare("quorum", durable=True, arguments={"x-queue-type": "quorum"})
        channel.queue_declare("lost", durable=False)
        channel.exchange_declare("t", "topic", durable=True, arguments={"alternate-exchange": "x"})
        channel.exchange_declare("inner", "headers", durable=True, internal=True)
        channel.exchange_declare("lost", "direct")
        channel.queue_bind("q", "t", "a.#")
        channel.queue_bind("q", "inner", "", arguments={"n": 1, "x-match": "any"})
        channel.exchange_bind("inner", "t", "k")
        channel.queue_bind("q", "lost", "k")
        channel.queue_delete("lost")
        channel.exchange_delete("lost")
        client.close()


@pytest.mark.rule("QD-9", "XC-7", "VH-1", "VH-2", "VH-3", "VH-4", "PO-1")
def test_everything_is_as_it_was(start_broker: StartBroker) -> None:
    broker = start_broker()
    make_everything(broker)
    before = told(broker)
    for name, arguments in LISTS:
        assert before[f"{name} {arguments}"] or name == "list_parameters"
    for kill in (False, True, False):
        broker.restart(kill=kill)
        assert told(broker) == before
        login = broker.control("authenticate_user", user="ann", password="secret")
        assert login == {"user": "ann", "tags": ["monitoring"]}


def cut(octets: bytes) -> bytes:
    return octets[: len(octets) // 2 // 4096 * 4096 + 1000]


def flip(octets: bytes) -> bytes:
    """Bits here and there behind the first page."""
    flipped = bytearray(octets)
    for at in range(4096 + 40, len(octets), 1777):
        flipped[at] ^= 0x10
    return bytes(flipped)


def renumber(octets: bytes) -> bytes:
    """The version of the format stands at 60 (SQLite's user_version)."""
    return octets[:60] + (99).to_bytes(4, "big") + octets[64:]


@pytest.mark.parametrize(
    ("damage", "words", "way_out"),
    [
        (cut, "damaged", "warren doctor"),
        (flip, "damaged", "warren doctor"),
        (renumber, "was written by a newer Warren: format 99", "start it with that version"),
        (lambda _: b"", "is empty", "put a copy back"),
        (lambda octets: b"\xa5" * len(octets), "damaged", "warren doctor"),
    ],
    ids=["truncated", "flipped", "version", "empty", "garbage"],
)
def test_a_damaged_file_is_told_and_there_is_a_way_out(
    start_broker: StartBroker, damage: Callable[[bytes], bytes], words: str, way_out: str
) -> None:
    broker = start_broker()
    channel = broker.connect().channel()
    for number in range(200):
        channel.queue_declare(f"queue-{number:03}", durable=True)
    broker.stop()
    assert broker.log is not None
    folder = broker.log.parent / "data"
    path = folder / "metadata.db"
    sound = path.read_bytes()
    path.write_bytes(damage(sound))
    failed = subprocess.run(
        broker.command, env=broker.environment, capture_output=True, text=True, check=False
    )
    assert failed.returncode == 78
    assert f"{path}: {words}" in failed.stderr
    assert way_out in failed.stderr
    assert "Traceback" not in failed.stderr
    doctor = [sys.executable, "-m", "warren.cli.main", "doctor", "--data-dir", str(folder)]
    repaired = subprocess.run([*doctor, "--repair"], capture_output=True, text=True, check=False)
    assert "Traceback" not in repaired.stderr
    if repaired.returncode != 0:
        # Nothing can be kept of it: what is told to do is to take a copy.
        assert path.read_bytes() == damage(sound)
        path.write_bytes(sound)
    broker.launch()
    channel = broker.connect().channel()
    assert exists(channel, "queue-000") or repaired.returncode == 0
    channel.queue_declare("new", durable=True)
