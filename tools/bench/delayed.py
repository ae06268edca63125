"""How late a million delayed messages are, and what they cost: `python -m tools.bench.delayed`.

Messages of 128 octets with `x-deliver-at`, at random within a minute that begins when all of them
are held. One consumer takes them as they come and compares the time of day with the one in each
body. Beside that another connection's latency is measured on a queue of its own, as it is alone
first. Printed: memory for each held message, the time to hold them, lateness (p50, p99, longest,
and how many came early), and the latency of the other queue.
"""

import argparse
import random
import struct
import sys
import threading
import time
from pathlib import Path
from typing import Final

import pika

from tools.bench.broker import HOST, Broker, Place, start_warren
from tools.bench.fairness import COMMAND, MODEST, load, number
from warren.bench import frame
from warren.bench.link import Link
from warren.bench.option import Address, TlsOptions

SPAN_S: Final = 60.0
ALONE_S: Final = 8.0
AFTER_S: Final = 3.0
SIZE: Final = 128
EXCHANGE: Final = "later"
QUEUE: Final = "due"
BATCH: Final = 1000


def resident_bytes(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096


def link(broker: Broker) -> Link:
    address = Address(
        host=HOST, port=broker.place.port, user="guest", password="guest", vhost="/", tls=False
    )
    return Link(address, TlsOptions(ca_file=None, cert_file=None, key_file=None, insecure=False))


def declare(broker: Broker) -> None:
    connection = pika.BlockingConnection(pika.ConnectionParameters(HOST, broker.place.port))
    channel = connection.channel()
    channel.exchange_declare(EXCHANGE, "x-delayed-message", arguments={"x-delayed-type": "direct"})
    channel.queue_declare(QUEUE)
    channel.queue_bind(QUEUE, EXCHANGE, QUEUE)
    connection.close()


def fill(broker: Broker, messages: int, begin_ms: int, span_ms: int) -> float:
    """Publish all of them under confirms; return how long it took."""
    publisher = link(broker)
    publisher.call(frame.CONFIRM_SELECT, b"\0", frame.CONFIRM_SELECT_OK)
    arguments = b"\0\0" + frame.short_string(EXCHANGE) + frame.short_string(QUEUE) + b"\0"
    method = frame.method(1, frame.PUBLISH, arguments)
    headers = frame.table({"x-deliver-at": 1 << 40})
    header = frame.frame(frame.HEADER, 1, struct.pack(">HHQH", 60, 0, SIZE, 0x2000) + headers)
    body = frame.frame(frame.BODY, 1, bytes(SIZE))
    one = method + header + body
    batch = bytearray(one * BATCH)
    in_header = len(method) + len(header) - 9
    in_body = len(method) + len(header) + 7
    random.seed(1)
    start = time.monotonic()
    published = 0
    acks = threading.Thread(target=take_confirms, args=(publisher, messages))
    acks.start()
    while published < messages:
        count = min(BATCH, messages - published)
        for at in range(0, count * len(one), len(one)):
            due = begin_ms + random.randrange(span_ms)
            struct.pack_into(">q", batch, at + in_header, due)
            struct.pack_into(">q", batch, at + in_body, due)
        publisher.sock.sendall(memoryview(batch)[: count * len(one)])
        published += count
    acks.join()
    took = time.monotonic() - start
    publisher.close()
    return took


def take_confirms(publisher: Link, messages: int) -> None:
    confirmed = 0
    while confirmed < messages:
        kind, payload = publisher.next_frame()
        if kind == frame.METHOD and frame.method_number(payload) == (60, 80):
            (confirmed,) = struct.unpack_from(">q", payload, 4)


def consume(broker: Broker, messages: int) -> list[float]:
    """Take every message; return how late each was, in milliseconds."""
    consumer = link(broker)
    arguments = b"\0\0" + frame.short_string(QUEUE) + frame.short_string("c") + b"\x02" + b"\0" * 4
    consumer.call(frame.CONSUME, arguments, frame.CONSUME_OK)
    deliver = b"\x01c" + bytes(8) + b"\0"
    deliver += frame.short_string(EXCHANGE) + frame.short_string(QUEUE)
    headers = frame.table({"x-deliver-at": 1 << 40})
    # Every delivery is as long as every other one, so bodies are where they must be.
    size = len(frame.method(1, (60, 60), deliver)) + 8 + 14 + len(headers) + 8 + SIZE
    at_body = size - 1 - SIZE
    late: list[float] = []
    rest = consumer.release()
    consumer.sock.setblocking(True)
    while len(late) < messages:
        chunk = consumer.sock.recv(1 << 18)
        now = time.time_ns() / 1e6
        rest += chunk
        whole = len(rest) // size * size
        late.extend(
            now - struct.unpack_from(">q", rest, at)[0] for at in range(at_body, whole, size)
        )
        rest = rest[whole:]
    consumer.sock.close()
    return late


def told(name: str, result: dict[str, object]) -> None:
    print(
        f"another queue {name}: p50 {number(result, 'latency_us', 'p50'):.0f} µs, p99 "
        f"{number(result, 'latency_us', 'p99'):.0f} µs, longest "
        f"{number(result, 'latency_us', 'max') / 1000:.1f} ms"
    )


def measure(place: Place, messages: int, span_s: float, fill_s: float) -> None:
    broker = start_warren(place, tls=False, command=COMMAND, pure=False)
    try:
        told("alone", load(broker, MODEST, ALONE_S))
        declare(broker)
        before = resident_bytes(broker.pid)
        begin = time.time() + fill_s
        took = fill(broker, messages, int(begin * 1000), int(span_s * 1000))
        each = (resident_bytes(broker.pid) - before) / messages
        print(
            f"{messages:,} held in {took:.1f} s, {each:.0f} octets of memory each "
            f"(body {SIZE}); all held {begin - time.time():.1f} s before the first is due"
        )
        found: list[dict[str, object]] = []
        # From before the first until after the last.
        seconds = begin - time.time() + span_s + AFTER_S
        beside = threading.Thread(target=lambda: found.append(load(broker, MODEST, seconds)))
        beside.start()
        late = sorted(consume(broker, messages))
        beside.join()
        print(
            f"lateness: p50 {late[len(late) // 2]:.1f} ms, "
            f"p99 {late[len(late) * 99 // 100]:.1f} ms, "
            f"longest {late[-1]:.1f} ms, over 50 ms {sum(one > 50 for one in late)}, "
            f"early {sum(one < 0 for one in late)}"
        )
        told("beside them", found[0])
    finally:
        broker.stop()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.delayed")
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--span", type=float, default=SPAN_S, help="seconds in which all are due")
    parser.add_argument("--fill", type=float, default=8.0, help="seconds to publish them in")
    parser.add_argument("--port", type=int, default=20470)
    parser.add_argument("--out", type=Path, default=Path("out/bench"))
    args = parser.parse_args()
    measure(Place((args.out / "delayed").resolve(), args.port), args.messages, args.span, args.fill)
    return 0


if __name__ == "__main__":
    sys.exit(main())
