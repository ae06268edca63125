"""Run the benchmark: every scenario against every broker, in turn, several rounds.

`python -m tools.bench.run [options] [scenario ...]` starts each broker afresh for each run, lets
`warren bench` measure it, and keeps every result as one line of JSON under `out/bench`. When all is
done, `docs/benchmarks.md` and its plots are written from these lines (`--report` does only that).

Rounds go broker by broker inside a scenario, so that all sides meet the same hour of the machine.
Some scenarios run only when they are named, some in one round only. What is already measured is
not repeated unless `--fresh` is given. `--quick` keeps its results and
its page apart, under `out/bench/quick`.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Protocol

from tools.bench import excerpt, report
from tools.bench.broker import (
    HOST,
    Broker,
    Place,
    StartError,
    rabbitmq_is_installed,
    start_rabbitmq,
    start_warren,
)
from tools.bench.disk import floor_mib_per_s
from tools.bench.record import Record, load
from tools.bench.restart import restart
from tools.bench.scenario import SCENARIOS, Scenario, Step, pick


class Starter(Protocol):
    """Starts one kind of broker."""

    def __call__(self, place: Place, *, tls: bool) -> Broker: ...


# A broker may finish what it does after its start.
SETTLE_S = 1.0
STEP_TIMEOUT_S = 1800.0
OUT = Path("out/bench")
DOCS = Path("docs")
README = Path("README.md")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make bench", description=__doc__.partition("\n")[0] if __doc__ else None
    )
    parser.add_argument("scenarios", nargs="*", metavar="scenario", help="names; default: all")
    parser.add_argument(
        "--quick", action="store_true", help="one short round of the main scenarios"
    )
    parser.add_argument("--list", action="store_true", help="only print the scenarios")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8.0, help="how long each run publishes")
    parser.add_argument("--messages", type=int, default=0, help="for scenarios that count messages")
    parser.add_argument(
        "--brokers",
        default="warren,rabbitmq",
        help="of warren, before (see --before), pure (uncompiled), rabbitmq (default: %(default)s)",
    )
    parser.add_argument(
        "--warren", default=f"{sys.executable} -m warren.cli.main", metavar="COMMAND"
    )
    parser.add_argument(
        "--before", default="", metavar="COMMAND", help="the `warren` of another build to compare"
    )
    parser.add_argument("--port", type=int, default=20420, help="first of four ports for a broker")
    parser.add_argument("--fresh", action="store_true", help="forget earlier results")
    parser.add_argument("--report", action="store_true", help="only write the report")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--docs", type=Path, default=DOCS)
    args = parser.parse_args()
    if args.quick:
        args.rounds, args.seconds = 1, min(args.seconds, 3.0)
        args.out = args.docs = args.out / "quick"
    return args


def starters(args: argparse.Namespace) -> dict[str, Starter]:
    """How to start each broker that is asked for and here."""
    command = shlex.split(args.warren)
    known: dict[str, Starter] = {
        "warren": partial(start_warren, command=command, pure=False),
        "before": partial(start_warren, command=shlex.split(args.before), pure=False),
        "pure": partial(start_warren, command=command, pure=True),
        "rabbitmq": start_rabbitmq,
    }
    chosen: dict[str, Starter] = {}
    for name in args.brokers.split(","):
        if name not in known:
            raise SystemExit(f"unknown broker {name!r}; known: {', '.join(known)}")
        if name == "rabbitmq" and not rabbitmq_is_installed():
            print("rabbitmq-server is not installed: measuring without it")
            continue
        chosen[name] = known[name]
    return chosen


def main() -> int:
    args = parse()
    if args.list:
        print_scenarios()
        return 0
    args.out.mkdir(parents=True, exist_ok=True)
    results = args.out / "results.jsonl"
    if not args.report:
        if args.fresh and results.exists():
            results.unlink()
        measure(args, results)
    records = load(results)
    report.write(records, args.docs)
    print(f"written: {args.docs / 'benchmarks.md'}")
    if args.docs == DOCS and excerpt.write_into(README, records):
        print(f"written: {README}")
    return 0


def print_scenarios() -> None:
    for scenario in SCENARIOS:
        when = "only by name" if scenario.only_named else "quick" if scenario.quick else ""
        print(f"{scenario.name:<22} {when:<13} {scenario.steps[0].title}")


def measure(args: argparse.Namespace, results: Path) -> None:
    done = {
        (record.scenario, record.broker, record.round)
        for record in load(results)
        if not record.error
    }
    scenarios = pick(args.scenarios, quick=args.quick)
    for scenario in scenarios:
        for number in range(1, min(args.rounds, scenario.rounds_max) + 1):
            floor = floor_mib_per_s(args.out) if scenario.durable else 0.0
            for name, starter in starters(args).items():
                if (scenario.name, name, number) in done:
                    continue
                print(f"{scenario.name:<20} {name:<10} round {number}", flush=True)
                records = run(args, scenario, name, starter, number, floor)
                with results.open("a") as lines:
                    for record in records:
                        lines.write(record.to_line() + "\n")
                        print(f"    {record.summary()}", flush=True)


def run(
    args: argparse.Namespace,
    scenario: Scenario,
    name: str,
    starter: Starter,
    number: int,
    floor: float,
) -> list[Record]:
    """One broker, started, measured by every step, stopped."""
    place = Place((args.out / "broker").resolve(), args.port)
    make = partial(
        Record, scenario=scenario.name, broker=name, round=number, disk_mib_per_s=floor,
        at=time.strftime("%Y-%m-%dT%H:%M:%S"),
    )  # fmt: skip
    try:
        broker = starter(place, tls=scenario.tls)
    except StartError as error:
        return [make(row=step.row, measure=step.measure, error=str(error))
                for step in scenario.steps]  # fmt: skip
    records: list[Record] = []
    filled = 0
    try:
        time.sleep(SETTLE_S)
        for step in scenario.steps:
            if step.deed == "load":
                words = bench_words(args, scenario, step, broker)
                result, failure = bench(words)
                filled = compare(step, result, filled)
            else:
                words = [step.deed, "start", step.options]
                result, failure = restart(broker, kill=step.deed == "kill", queue=step.options)
            records.append(make(
                row=step.row, measure=step.measure, start_s=broker.start_s, result=result,
                error=failure, command=shlex.join(words),
            ))  # fmt: skip
            if broker.process.poll() is not None:
                break  # The row has the reason; the next ones would only say that nobody is there.
    finally:
        broker.stop()
    return records


def compare(step: Step, result: dict[str, object] | None, filled: int) -> int:
    """Note in the result of a drain what is missing of what was filled in; how much that is now."""
    if result is None:
        return filled
    if "--drain" in step.options:
        missing = filled - int(str(result["consumed"]))
        result["missing"] = missing
        result["ok"] = result["ok"] is True and missing == 0
        return 0
    return int(str(result["published"])) if step.measure == "published" else filled


def bench_words(
    args: argparse.Namespace, scenario: Scenario, step: Step, broker: Broker
) -> list[str]:
    """The command line after `warren bench`, without what differs from machine to machine."""
    port = broker.place.tls_port if scenario.tls else broker.place.port
    scheme = "amqps" if scenario.tls else "amqp"
    words = ["--uri", f"{scheme}://guest:guest@{HOST}:{port}/", *shlex.split(step.options)]
    if step.messages:
        wanted = step.messages_rabbitmq if broker.kind == "rabbitmq" else 0
        words += ["--messages", str(args.messages or wanted or step.messages)]
    elif "--drain" not in words:
        words += ["--seconds", f"{args.seconds:g}"]
    return [*words, "--pid", str(broker.pid)]


def bench(words: list[str]) -> tuple[dict[str, object] | None, str]:
    """Run the load generator; its result, or why there is none."""
    command = [sys.executable, "-m", "warren.cli.main", "bench", *words, "--quiet", "--json", "-"]
    environment = {name: value for name, value in os.environ.items() if name != "WARREN_PURE"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=STEP_TIMEOUT_S, env=environment,
            check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return None, "the load generator did not end in time"
    with suppress(json.JSONDecodeError):
        result: object = json.loads(done.stdout or "null")
        if isinstance(result, dict):
            return result, ""
    return None, done.stderr.strip()[-2000:] or f"exit status {done.returncode}"


if __name__ == "__main__":
    sys.exit(main())
