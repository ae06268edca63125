"""What a million messages that expire at once do to another queue: `python -m tools.bench.expiry`.

A first message that lives for some seconds, then a million that live for 100 ms: when the first
one expires, all do. Meanwhile another connection's latency is measured on a queue of its own, as
it is alone first. Printed: p50, p99 and the longest of each, how long the million took to go, and
the same with a dead-letter exchange that leads to a queue.
"""

import argparse
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Final

import pika

from tools.bench.broker import HOST, Broker, Place, start_warren
from tools.bench.fairness import COMMAND, load, number

HEAD_MS: Final = 8000
MODEST: Final = "--latency --rate 1000 --size 128 --prefix modest --warmup 1"
QUEUE: Final = "perf-0"


def fill(broker: Broker, messages: int, arguments: dict[str, str]) -> None:
    """Publish the crowd behind the head that is there already."""
    words = f"--size 128 --publish-only --keep --expiration 100 --messages {messages}"
    for key, value in arguments.items():
        words += f" --queue-arg {key}={value}"
    uri = f"amqp://guest:guest@{HOST}:{broker.place.port}/"
    subprocess.run(
        [*COMMAND, "bench", "--uri", uri, *words.split(), "--quiet"],
        check=True,
        stdout=subprocess.DEVNULL,
    )


def measure(place: Place, messages: int, *, letters: bool) -> None:
    broker = start_warren(place, tls=False, command=COMMAND, pure=False)
    try:
        parameters = pika.ConnectionParameters(HOST, broker.place.port)
        connection = pika.BlockingConnection(parameters)
        channel = connection.channel()
        arguments: dict[str, str] = {}
        if letters:
            channel.queue_declare("grave")
            arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "grave"}
        channel.queue_declare(QUEUE, arguments=arguments)
        start = time.monotonic()
        channel.basic_publish(
            "", QUEUE, b"head of them", pika.BasicProperties(expiration=str(HEAD_MS))
        )
        fill(broker, messages, arguments)
        waiting = channel.queue_declare(QUEUE, passive=True).method.message_count
        found: list[dict[str, object]] = []
        thread = threading.Thread(target=lambda: found.append(load(broker, MODEST, 10.0)))
        thread.start()
        time.sleep(max(0.0, start + HEAD_MS / 1000 - time.monotonic()))
        first = last = time.monotonic()
        while channel.queue_declare(QUEUE, passive=True).method.message_count:
            last = time.monotonic()
            connection.sleep(0.005)
        thread.join()
        name = "dead-lettered" if letters else "dropped"
        print(
            f"{waiting:,} {name} in {last - first:.2f} s; beside them p50 "
            f"{number(found[0], 'latency_us', 'p50'):.0f} µs, p99 "
            f"{number(found[0], 'latency_us', 'p99'):.0f} µs, longest "
            f"{number(found[0], 'latency_us', 'max') / 1000:.1f} ms"
        )
        connection.close()
    finally:
        broker.stop()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.expiry")
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--port", type=int, default=20460)
    parser.add_argument("--out", type=Path, default=Path("out/bench"))
    args = parser.parse_args()
    place = Place((args.out / "expiry").resolve(), args.port)
    for _ in range(args.rounds):
        measure(place, args.messages, letters=False)
        measure(place, args.messages, letters=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
