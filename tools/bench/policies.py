"""What a policy on 50,000 queues does to another queue: `python -m tools.bench.policies`.

The queues hold messages. Policies come one after the other: one that changes rules only, one whose
length limit drops half of all messages, one whose limit dead-letters the rest, none again, one
that lets all queues expire. Meanwhile another connection's latency is measured on a queue of its
own, as it is alone first. Printed: p50, p99 and the longest of each, and how long the change took.
"""

import argparse
import contextlib
import json
import sys
import threading
import time
from pathlib import Path
from typing import Final

import pika
from pika.adapters.blocking_connection import BlockingChannel

from tools.bench.broker import HOST, Broker, Place, start_warren
from tools.bench.fairness import COMMAND, load, number
from warren.cli.client import ask
from warren.cli.exit import CliError
from warren.server.place import SOCKET_NAME

MODEST: Final = "--latency --rate 1000 --size 128 --prefix modest --warmup 1"
# Until the load generator has started and its warm-up is over.
BEFORE_S: Final = 3.0
PREFIX: Final = "crowd-"
# Queues that one message reaches by its BCC header, which it then loses.
COPIES: Final = 1000
LETTERS: Final = {"dead-letter-exchange": "", "dead-letter-routing-key": "grave"}
CASES: Final[tuple[tuple[str, dict[str, object]], ...]] = (
    ("alone", {}),
    ("other rules", {"message-ttl": 3_600_000, "max-length": 1_000_000}),
    ("half dropped", {"max-length": 10}),
    ("the rest dead-lettered", {"max-length": 0, **LETTERS}),
    ("cleared", {}),
    ("all expire", {"expires": 1000}),
)


def control(broker: Broker, command: str, **arguments: object) -> dict[str, object]:
    path = broker.place.folder / "data" / SOCKET_NAME
    answer: dict[str, object] = json.loads(ask(path, command, arguments, timeout_s=30))
    return answer


def fill(channel: BlockingChannel, queues: int, messages: int) -> None:
    """Make the queues, and put so many messages into each."""
    channel.queue_declare("grave")
    names = [f"{PREFIX}{number}" for number in range(queues)]
    for name in names:
        channel.queue_declare(name)
    for first in range(0, queues, COPIES):
        one, *others = names[first : first + COPIES]
        properties = pika.BasicProperties(headers={"BCC": others})
        for _ in range(messages):
            channel.basic_publish("", one, b"x" * 128, properties)
    # All are in their queues when this is answered.
    channel.queue_declare(names[-1], passive=True)


def in_force(broker: Broker, queues: int) -> bool:
    """Whether the change has come to all queues, or there are none any more."""
    try:
        found = control(broker, "explain_policy", queue=f"{PREFIX}{queues - 1}")
    except CliError:
        return True
    return not found["pending"]


def change(broker: Broker, name: str, definition: dict[str, object], queues: int) -> float:
    """Set or clear the policy; return how long it took until it was in force everywhere."""
    if name == "alone":
        return 0.0
    start = time.monotonic()
    if definition:
        control(broker, "set_policy", name="crowd", pattern=f"^{PREFIX}", definition=definition)
    else:
        control(broker, "clear_policy", name="crowd")
    while not in_force(broker, queues):
        time.sleep(0.05)
    return time.monotonic() - start


def measure(place: Place, queues: int, messages: int) -> None:
    broker = start_warren(place, tls=False, command=COMMAND, pure=False)
    try:
        connection = pika.BlockingConnection(
            pika.ConnectionParameters(HOST, broker.place.port, heartbeat=0)
        )
        fill(connection.channel(), queues, messages)
        for name, definition in CASES:
            found: list[dict[str, object]] = []
            thread = threading.Thread(
                target=lambda found=found: found.append(load(broker, MODEST, 10.0))
            )
            thread.start()
            time.sleep(BEFORE_S)
            took = change(broker, name, definition, queues)
            thread.join()
            print(
                f"{queues:,} queues, {name}: {took:.2f} s; beside it p50 "
                f"{number(found[0], 'latency_us', 'p50'):.0f} µs, p99 "
                f"{number(found[0], 'latency_us', 'p99'):.0f} µs, longest "
                f"{number(found[0], 'latency_us', 'max') / 1000:.1f} ms",
                flush=True,
            )
        with contextlib.suppress(CliError):
            control(broker, "explain_policy", queue=f"{PREFIX}0")
            print("some queues have not expired yet")
        connection.close()
    finally:
        broker.stop()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.policies")
    parser.add_argument("--queues", type=int, default=50_000)
    parser.add_argument("--messages", type=int, default=20, help="in each queue")
    parser.add_argument("--port", type=int, default=20480)
    parser.add_argument("--out", type=Path, default=Path("out/bench"))
    args = parser.parse_args()
    measure(Place((args.out / "policies").resolve(), args.port), args.queues, args.messages)
    return 0


if __name__ == "__main__":
    sys.exit(main())
