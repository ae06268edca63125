"""What wrong logins from one address do to another client: `python -m tools.bench.logins`.

One connection publishes and consumes 1,000 messages a second and measures their latency, first
alone, then beside a process that logs in with a wrong password 1,000 times a second: told of the
refusal, or left in silence with its sockets open until the broker closes them; and then as often as
it can. Rounds take turns, each on a fresh broker. Printed: p50 and p99 of each, the ratio of p99 to
that alone, how many attempts there were, and the processor time of the broker.
"""

import argparse
import multiprocessing
import os
import resource
import socket
import struct
import sys
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.synchronize import Event
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from multiprocessing.queues import Queue

    Results = Queue[float]

from tools.bench.broker import HOST, Place, start_warren
from tools.bench.fairness import COMMAND, FLOOD_NICE, MODEST, load, number

FROM: Final = "127.0.0.2"
# Attempts a second; none is as many as there can be.
CASES: Final[dict[str, tuple[int | None, bool]]] = {
    "alone": (0, True),
    "1,000 told/s": (1000, True),
    "1,000 in silence/s": (1000, False),
    "as many as it can": (None, True),
}
PERIOD_S: Final = 0.01


@dataclass(slots=True)
class Seen:
    """The figures of one case, a value per round."""

    p50: list[float] = field(default_factory=list)
    p99: list[float] = field(default_factory=list)
    tries: list[float] = field(default_factory=list)
    share: list[float] = field(default_factory=list)


def table(fields: Mapping[str, object]) -> bytes:
    """Encode the few kinds of fields that a login needs."""
    inside = b""
    for name, value in fields.items():
        inside += bytes((len(name),)) + name.encode()
        if isinstance(value, Mapping):
            inside += b"F" + table(value)
        else:
            inside += b"t" + bytes((bool(value),))
    return struct.pack(">I", len(inside)) + inside


def attempt(told: bool) -> bytes:
    """The protocol header and a start-ok with a wrong password, sent in one go."""
    capabilities = {"authentication_failure_close": told}
    response = b"\0guest\0wrong"
    arguments = table({"capabilities": capabilities}) + b"\x05PLAIN"
    arguments += struct.pack(">I", len(response)) + response + b"\x05en_US"
    payload = struct.pack(">HH", 10, 11) + arguments
    return b"AMQP\0\0\x09\x01" + b"\x01\0\0" + struct.pack(">I", len(payload)) + payload + b"\xce"


def flood(port: int, rate: int | None, told: bool, stop: Event, results: "Results") -> None:
    """Log in wrongly until told to stop; put the number of attempts into `results`."""
    octets = attempt(told)
    waiting: deque[tuple[float, socket.socket]] = deque()
    tries = 0
    began = time.monotonic()
    while not stop.is_set():
        now = time.monotonic()
        due = 20 if rate is None else int((now - began) * rate) - tries
        for _ in range(due):
            tries += 1
            peer = socket.socket()
            peer.bind((FROM, 0))
            with suppress(OSError):
                peer.connect((HOST, port))
                peer.sendall(octets)
            # Those in silence are left open for as long as the broker lets them.
            waiting.append((now + (0.02 if told else 5.0), peer))
        while waiting and (waiting[0][0] <= now or len(waiting) > 8000):
            waiting.popleft()[1].close()
        if rate is not None:
            time.sleep(PERIOD_S)
    results.put(tries / (time.monotonic() - began))


def processor_s(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / 100


def run_round(place: Place, case: tuple[int | None, bool], seconds: float, seen: Seen) -> None:
    broker = start_warren(place, tls=False, command=COMMAND, pure=False)
    stop = multiprocessing.Event()
    results: Results = multiprocessing.Queue()
    rate, told = case
    flooding = None
    try:
        if rate != 0:
            flooding = multiprocessing.Process(
                target=_flood_politely, args=(place.port, rate, told, stop, results), daemon=True
            )
            flooding.start()
            time.sleep(1.0)
        pid = broker.process.pid
        before, began = processor_s(pid), time.monotonic()
        modest = load(broker, MODEST, seconds)
        seen.share.append((processor_s(pid) - before) / (time.monotonic() - began))
        seen.p50.append(number(modest, "latency_us", "p50"))
        seen.p99.append(number(modest, "latency_us", "p99"))
    finally:
        stop.set()
        if flooding is not None:
            seen.tries.append(results.get(timeout=10))
            flooding.join()
        broker.stop()


def _flood_politely(
    port: int, rate: int | None, told: bool, stop: Event, results: "Results"
) -> None:
    """On its own machine the flood would not take the processor from the modest client."""
    os.nice(FLOOD_NICE)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 20_000), hard))
    flood(port, rate, told, stop, results)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.logins")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--port", type=int, default=20460)
    parser.add_argument("--out", type=Path, default=Path("out/bench"))
    args = parser.parse_args()
    place = Place((args.out / "logins").resolve(), args.port)
    cases = {name: Seen() for name in CASES}
    for _ in range(args.rounds):
        for name, case in CASES.items():
            run_round(place, case, args.seconds, cases[name])
    alone = median(cases["alone"].p99)
    for name, seen in cases.items():
        line = f"{name:<20} p50 {median(seen.p50):6.0f} µs  p99 {median(seen.p99):6.0f} µs"
        line += f"  {median(seen.p99) / alone:4.1f} x alone  broker {median(seen.share):4.0%}"
        tries = f"  {median(seen.tries):,.0f} attempts/s" if seen.tries else ""
        print(line + tries)
    return 0


if __name__ == "__main__":
    sys.exit(main())
