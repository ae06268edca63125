"""What the data folders of earlier formats hold: filling one, and looking whether all is there.

`python -m tests.upgrade.content FILE` makes such a folder with the version at hand, as an archive.
A new format gets an archive of its own; the old ones stay for ever.
"""

import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any, Final

from tests.support.broker import Broker, start_broker

LARGE: Final = b"large " * 2000
FOLDERS: Final = ("journal", "queues", "state", "msg_store_persistent")
# The longest there is: ten years.
DELAY_MS: Final = 315_360_000_000


def fill(broker: Broker) -> None:
    """Declare and publish everything that a data folder can hold."""
    channel = broker.connect().channel()
    channel.confirm_select()
    channel.queue_declare("plain", durable=True)
    channel.queue_declare("again", durable=True)
    channel.queue_declare("priority", durable=True, arguments={"x-max-priority": 5})
    channel.queue_declare("lazy", durable=True, arguments={"x-queue-mode": "lazy"})
    channel.queue_declare(
        "once",
        durable=True,
        arguments={"x-deduplicate-by": "message-id", "x-deduplicate-window": 604_800_000},
    )
    channel.exchange_declare("all", "fanout", durable=True)
    channel.exchange_declare(
        "later", "x-delayed-message", durable=True, arguments={"x-delayed-type": "direct"}
    )
    for queue in ("plain", "lazy"):
        channel.queue_bind(queue, "all", "")
    sent = 0

    def publish(body: bytes, key: str, exchange: str = "", **properties: Any) -> None:
        nonlocal sent
        sent += 1
        channel.publish(body, exchange=exchange, routing_key=key, delivery_mode=2, **properties)

    for number in range(100):
        publish(b"plain %d" % number, "plain", headers={"number": number})
        publish(b"again %d" % number, "again")
        publish(b"lazy %d" % number, "lazy")
        publish(b"priority %d" % number, "priority", priority=number % 6)
    publish(LARGE, "", exchange="all")
    publish(b"once", "once", message_id="one")
    publish(b"once", "once", message_id="one")
    publish(b"later", "plain", exchange="later", headers={"x-delay": DELAY_MS})
    channel.wait_confirms(sent)
    # Some are settled, some were handed out.
    for _ in range(50):
        assert channel.get("plain", no_ack=True) is not None
        assert channel.get("again") is not None
    channel.sync()


def check(broker: Broker) -> None:
    """Look at everything that `fill` left."""
    channel = broker.connect().channel()

    def bodies(queue: str) -> list[tuple[bytes, bool]]:
        found = []
        while (got := channel.get(queue, no_ack=True)) is not None:
            found.append((got.body, got.redelivered))
        return found

    got = channel.get("plain", no_ack=True)
    assert got is not None
    assert (got.body, got.headers, got.redelivered) == (b"plain 50", {"number": 50}, False)
    plain = [(b"plain %d" % number, False) for number in range(51, 100)]
    assert bodies("plain") == [*plain, (LARGE, False)]
    assert bodies("again") == [(b"again %d" % number, number < 50) for number in range(100)]
    assert bodies("lazy") == [(b"lazy %d" % number, False) for number in range(100)] + [
        (LARGE, False)
    ]
    expected = sorted(range(100), key=lambda number: (-min(number % 6, 5), number))
    assert bodies("priority") == [(b"priority %d" % number, False) for number in expected]
    assert bodies("once") == [(b"once", False)]
    # Due in ten years.
    rows = broker.rows("list_delayed", vhost="/", exchange="later")
    assert len(rows) == 1, rows


def main(archive: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        broker = start_broker(Path(folder))
        fill(broker)
        broker.stop()
        data = Path(folder) / "data"
        with tarfile.open(archive, "w:xz") as packed:
            packed.add(data / "metadata.db", "metadata.db")
            for name in FOLDERS:
                packed.add(data / name, name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
