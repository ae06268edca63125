"""What the load generator itself costs: its two loops joined by a socket, no broker between.

The producing loop sends deliveries as a broker would frame them; the consuming loop verifies them.
Printed: CPU microseconds per message of each side, system calls included.
"""

import argparse
import os
import socket
import struct
import sys
import time

from warren.bench import block, stream
from warren.bench.arguments import parse
from warren.bench.block import BlockBuilder, Shape
from warren.bench.confirm import Ledger
from warren.bench.consumer import Consumer, Consumers
from warren.bench.frame import BODY, HEADER, frame, method, short_string
from warren.bench.histogram import Histogram
from warren.bench.message import block_messages, filler
from warren.bench.producer import Producer, Producers
from warren.bench.side import publisher_stream
from warren.bench.stream import Stream
from warren.bench.verify import HEAD_OCTETS, MAGIC, Cursor, Track, Verdict


def delivery(octets: int) -> Shape:
    """A delivery as a broker frames it."""
    lead = method(1, (60, 60), short_string("ctag-1") + struct.pack(">QB", 1, 0)
                  + short_string("") + short_string("perf-0"))  # fmt: skip
    lead += frame(HEADER, 1, struct.pack(">HHQH", 60, 0, octets, 0))
    middle = struct.pack(">BHI", BODY, 1, octets) + struct.pack(">HH", MAGIC, 0)
    return Shape(lead, middle, filler(octets)[HEAD_OCTETS:] + b"\xce", body_octets=octets)


def connected_pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        other, _ = server.accept()
    client.setblocking(False)
    other.setblocking(False)
    return client, other


def produce(sock: socket.socket, octets: int, messages: int) -> float:
    options = parse(["--size", str(octets)])
    blocks = BlockBuilder([delivery(octets)], [0], key_count=1, key_width=0, stamped=False)
    ledger = Ledger()
    producer = Producer(
        sock, blocks=blocks, block_messages=block_messages(options, blocks),
        stream=publisher_stream(ledger), ledger=ledger, limit=messages, window=0,
        interval_ns=0.0, stamped=False, lateness=Histogram(),
    )  # fmt: skip
    loop = Producers([producer], seconds=0.0, rated=False, coalesce_us=0, timeout_s=30.0)
    loop.begin(time.monotonic_ns())
    while not loop.done:
        loop.turn(loop.wait_s())
    return loop.result().cpu_s


def consume(sock: socket.socket, octets: int, messages: int) -> tuple[float, int]:
    track, verdict = Track(0, 1), Verdict()
    reader = Stream(
        channel=1, cursors=[Cursor(track)], sizes=[octets], verdict=verdict,
        latency=Histogram(), ledger=Ledger(), ack_every=0, stamped=False, filler=b"",
    )  # fmt: skip
    loop = Consumers(
        [Consumer(sock, reader)], tracks=[[track]], verdict=verdict, latency=Histogram(),
        coalesce_us=0, timeout_s=30.0, warmup_s=0.0,
    )  # fmt: skip
    loop.begin(time.monotonic_ns())
    loop.expect(messages)
    while not loop.done:
        loop.turn(loop.wait_s())
    result = loop.result(messages - track.unique(), 0)
    return result.cpu_s, result.lost + result.duplicated + result.reordered + result.bad


def measure(octets: int, messages: int) -> tuple[float, float]:
    """CPU microseconds per message: producing, consuming."""
    producing, consuming = connected_pair()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        consuming.close()
        os.write(writer, struct.pack("d", produce(producing, octets, messages)))
        os._exit(0)
    producing.close()
    consume_s, faults = consume(consuming, octets, messages)
    (produce_s,) = struct.unpack("d", os.read(reader, 8))
    os.waitpid(child, 0)
    if faults:
        raise SystemExit(f"{faults} faults without a broker: the load generator is wrong")
    return produce_s * 1e6 / messages, consume_s * 1e6 / messages


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--sizes", type=int, nargs="+", default=[12, 128, 1024])
    parser.add_argument("--messages", type=int, default=2_000_000)
    args = parser.parse_args()
    for module in (block, stream):
        print(f"{module.__name__}: {module.__file__}")
    for octets in args.sizes:
        produced, consumed = measure(octets, args.messages)
        print(f"{octets:>6} B  producing {produced:.3f} µs  consuming {consumed:.3f} µs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
