"""What a flood on other connections does to a modest one: `python -m tools.bench.fairness`.

One connection publishes 1,000 messages a second and measures their latency, first alone, then
beside a producer and a consumer at full speed, without and with confirms. Rounds take turns, each
on a fresh broker. Printed: p50 and p99 of each, and the ratio of the medians of p99; then whether
the consumers of the flood kept up with its publishers, and how far the queue grew.
"""

import argparse
import json
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final, cast

from tools.bench.broker import HOST, Broker, Place, start_warren
from warren.cli.client import ask
from warren.cli.exit import CliError
from warren.server.place import SOCKET_NAME

COMMAND: Final = [sys.executable, "-m", "warren.cli.main"]
MODEST: Final = "--latency --rate 1000 --size 128 --prefix modest --warmup 1"
FLOODS: Final = {
    "alone": "",
    "beside a flood": "--size 128 --coalesce 500 --prefix flood",
    "beside a flood with confirms": "--size 128 --coalesce 200 --confirm 1000 --ack-every 50 "
    "--prefetch 500 --prefix flood",
}


# The load shares the machine with what it measures. Elsewhere the clients of the flood would not
# take the processor from the modest client, so here they leave it to that and to the broker.
FLOOD_NICE: Final = 15


@dataclass(slots=True)
class Seen:
    """The latencies of one case, a value per round."""

    p50: list[float] = field(default_factory=list)
    p99: list[float] = field(default_factory=list)
    published: list[float] = field(default_factory=list)
    # Deliveries while publishing, as a share of publishes.
    kept: list[float] = field(default_factory=list)
    longest_queue: int = 0


def load(broker: Broker, options: str, seconds: float, *, nice: int = 0) -> dict[str, object]:
    words = ["bench", "--uri", f"amqp://guest:guest@{HOST}:{broker.place.port}/"]
    words += [*options.split(), "--seconds", f"{seconds:g}", "--quiet", "--json", "-"]
    polite = ["nice", "-n", str(nice)] if nice else []
    done = subprocess.run([*polite, *COMMAND, *words], capture_output=True, text=True, check=True)
    return cast("dict[str, object]", json.loads(done.stdout))


def number(result: dict[str, object], *path: str) -> float:
    found: object = result
    for name in path:
        found = cast("dict[str, object]", found)[name]
    return float(cast("float", found))


def watch_queue(broker: Broker, seen: Seen, stop: threading.Event) -> None:
    """Ask ten times a second how many messages wait."""
    path = broker.place.folder / "data" / SOCKET_NAME
    while not stop.wait(0.1):
        with suppress(CliError):
            status = json.loads(ask(path, "status", {}, timeout_s=5))
            seen.longest_queue = max(seen.longest_queue, int(number(status, "messages_ready")))


def run_round(place: Place, flood: str, seconds: float, seen: Seen) -> None:
    broker = start_warren(place, tls=False, command=COMMAND, pure=False)
    stop = threading.Event()
    flooded: list[dict[str, object]] = []
    threads: list[threading.Thread] = []
    try:
        if flood:
            threads = [
                threading.Thread(
                    target=lambda: flooded.append(
                        load(broker, flood, seconds + 3, nice=FLOOD_NICE)
                    ),
                    daemon=True,
                ),
                threading.Thread(target=watch_queue, args=(broker, seen, stop), daemon=True),
            ]
            for thread in threads:
                thread.start()
            time.sleep(1.0)
        modest = load(broker, MODEST, seconds)
        seen.p50.append(number(modest, "latency_us", "p50"))
        seen.p99.append(number(modest, "latency_us", "p99"))
        if threads:
            threads[0].join()
        stop.set()
        for result in flooded:
            rate = number(result, "publish_rate")
            seen.published.append(rate)
            seen.kept.append(number(result, "consume_rate_while_publishing") / rate)
    finally:
        stop.set()
        broker.stop()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.fairness")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--port", type=int, default=20440)
    parser.add_argument("--out", type=Path, default=Path("out/bench"))
    args = parser.parse_args()
    place = Place((args.out / "fairness").resolve(), args.port)
    cases = {name: Seen() for name in FLOODS}
    for _ in range(args.rounds):
        for name, flood in FLOODS.items():
            run_round(place, flood, args.seconds, cases[name])
    alone = median(cases["alone"].p99)
    for name, seen in cases.items():
        line = f"{name:<30} p50 {median(seen.p50):6.0f} µs  p99 {median(seen.p99):6.0f} µs"
        print(f"{line}  {median(seen.p99) / alone:4.1f} x alone")
        if seen.kept:
            print(
                f"{'':<30} published {median(seen.published):,.0f}/s, consumed meanwhile "
                f"{100 * min(seen.kept):.1f} % at least, longest queue {seen.longest_queue:,}"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
