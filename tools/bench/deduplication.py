"""What it costs to tell duplicates: `python -m tools.bench.deduplication`.

One publisher with confirms; the queue drops all but its newest message (`x-max-length` 1), so what
is left in memory and on the disk are keys. Distinct message-ids, then the same ones again. Printed
for a queue in memory and for a durable one with persistent messages: messages a second without and
with the rule, and of duplicates; octets of memory and of disk for each key; how long a start takes
after a kill.
"""

import argparse
import struct
import sys
import threading
import time
from pathlib import Path
from typing import Final

import pika

from tools.bench.broker import HOST, Broker, Place, start_warren
from tools.bench.delayed import link, resident_bytes, take_confirms
from tools.bench.fairness import COMMAND
from warren.bench import frame

SIZE: Final = 128
BATCH: Final = 1000
KEY_SIZE: Final = 8
# A day: nothing is forgotten meanwhile.
WINDOW_MS: Final = 86_400_000
KEYS_MAX: Final = 100_000_000


def declare(broker: Broker, queue: str, *, durable: bool, telling: bool) -> None:
    connection = pika.BlockingConnection(pika.ConnectionParameters(HOST, broker.place.port))
    arguments: dict[str, object] = {"x-max-length": 1}
    if telling:
        arguments |= {
            "x-deduplicate-by": "message-id",
            "x-deduplicate-window": WINDOW_MS,
            "x-deduplicate-max-keys": KEYS_MAX,
        }
    connection.channel().queue_declare(queue, durable=durable, arguments=arguments)
    connection.close()


def publish(broker: Broker, queue: str, messages: int, *, durable: bool) -> float:
    """Publish under confirms, with the numbers as message-ids; return how many a second."""
    publisher = link(broker)
    publisher.call(frame.CONFIRM_SELECT, b"\0", frame.CONFIRM_SELECT_OK)
    arguments = b"\0\0" + frame.short_string("") + frame.short_string(queue) + b"\0"
    method = frame.method(1, frame.PUBLISH, arguments)
    mode = 2 if durable else 1
    properties = struct.pack(">HHQHB", 60, 0, SIZE, 0x1080, mode)
    properties += frame.short_string("0" * KEY_SIZE)
    header = frame.frame(frame.HEADER, 1, properties)
    one = method + header + frame.frame(frame.BODY, 1, bytes(SIZE))
    batch = bytearray(one * BATCH)
    at_key = len(method) + len(header) - 1 - KEY_SIZE
    acks = threading.Thread(target=take_confirms, args=(publisher, messages))
    start = time.monotonic()
    acks.start()
    for first in range(0, messages, BATCH):
        for number in range(BATCH):
            at = number * len(one) + at_key
            batch[at : at + KEY_SIZE] = b"%08d" % (first + number)
        publisher.sock.sendall(batch)
    acks.join()
    took = time.monotonic() - start
    publisher.close()
    return messages / took


def disk_bytes(broker: Broker) -> int:
    return sum(one.stat().st_size for one in Path(broker.place.folder).rglob("*") if one.is_file())


def measure(place: Place, messages: int, *, durable: bool) -> None:
    broker = start_warren(place, tls=False, command=COMMAND, pure=False)
    try:
        print("durable, persistent" if durable else "in memory")
        declare(broker, "plain", durable=durable, telling=False)
        declare(broker, "telling", durable=durable, telling=True)
        print(f"  without the rule: {publish(broker, 'plain', messages, durable=durable):,.0f}/s")
        memory = resident_bytes(broker.pid)
        print(f"  distinct keys: {publish(broker, 'telling', messages, durable=durable):,.0f}/s")
        each = (resident_bytes(broker.pid) - memory) / messages
        print(f"  memory for each key: {each:.0f} octets")
        print(f"  duplicates: {publish(broker, 'telling', messages, durable=durable):,.0f}/s")
        if durable:
            broker.end(kill=True)
            print(f"  on the disk: {disk_bytes(broker) / 1e6:,.0f} MB in all")
            began = broker.begin_again()
            print(f"  ready again after {time.monotonic() - began:.2f} s")
            print(f"  memory then: {resident_bytes(broker.pid) / messages:.0f} octets a key")
    finally:
        broker.stop()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--port", type=int, default=27210)
    parser.add_argument("--folder", type=Path, default=Path("/tmp/warren-bench"))
    given = parser.parse_args()
    for number, durable in enumerate((False, True)):
        place = Place(folder=given.folder / str(number), port=given.port + number)
        measure(place, given.messages // BATCH * BATCH, durable=durable)
    return 0


if __name__ == "__main__":
    sys.exit(main())
