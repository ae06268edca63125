"""Three loads whose bottleneck is known, and what the broker says about it.

`python -m tools.flow_load [load ...]`. The states of connections, channels and queues under load
tell where the bottleneck is:

| load   | what                                                   | connection | channels | queues |
|--------|--------------------------------------------------------|------------|----------|--------|
| cpu    | many small transient messages, a topic exchange with   | flow       | -        | -      |
|        | many bindings: routing                                 |            |          |        |
| queues | many small persistent messages: the queues             | flow       | some     | -      |
| disk   | many large persistent messages: the message store      | flow       | some     | some   |

Each load runs on a fresh broker for --seconds. Printed: how often each state was seen, the verdict
that follows from them, and of Warren the longest answer of `warren why` meanwhile.

--slow-disk MIB holds the broker's writes to so many MiB a second (root and a writable cgroup; see
tools/proof/slow_disk.py), so that any publisher is faster than the disk. Then memory must not
grow: its highest value in the last half of the run is compared with that of the first, and more
than --growth MiB is a failure (exit code 1). Verdicts are shown, not judged.
"""

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Final, cast

from tools.bench.broker import HOST, Broker
from tools.proof.slow_disk import slow_disk
from tools.proof.subject import MEMORY_LIMIT, Subject, add_options, subject_of
from warren.bench.procfs import ProcessTree

MEGA: Final = 1_000_000
DURABLE: Final = "--durable --persistent --publish-only "
LOADS: Final[dict[str, str]] = {
    "cpu": "--size 12 --exchange topic --routing-keys 20000 --bind-each-key --queues 4 "
    "--consumers 4 --producers 2",
    "queues": DURABLE + "--size 12 --producers 2",
    "disk": DURABLE + "--size 64k --block 512k --producers 2",
}
EXPECTED: Final = {"cpu": "channels", "queues": "queues", "disk": "message store"}
NONE: Final = "none: nothing is in flow"
INTERVAL_S: Final = 0.2
# Between two looks: they cost processor time as well.
LOOK_S: Final = 0.3
KINDS: Final = ("connections", "channels", "queues")
RABBITMQCTL: Final = "/usr/lib/rabbitmq/bin/rabbitmqctl"
# Its tool lists channels without their state.
RABBITMQ_CHANNELS: Final = "[catch rabbit_channel:info(P, [state]) || P <- rabbit_channel:list()]."
# What a load may take beyond its seconds: bindings before, the rest of its messages after.
SPARE_S: Final = 240.0


@dataclass(slots=True)
class Seen:
    """What one load showed."""

    states: dict[str, Counter[str]] = field(
        default_factory=lambda: {kind: Counter() for kind in KINDS}
    )
    samples: int = 0
    # What each look says by itself.
    verdicts: Counter[str] = field(default_factory=Counter)
    why: str = ""
    result: dict[str, object] = field(default_factory=dict)


def control(subject: Subject, broker: Broker, words: list[str]) -> str | None:
    """What the broker's own tool prints; None when it refuses."""
    if subject.kind == "rabbitmq":
        command, extra = [RABBITMQCTL], broker.environment
    else:
        command = [sys.executable, "-m", "warren.cli.ctl.main"]
        extra = {"WARREN_CONTROL_SOCKET": str(subject.control_socket())}
    done = subprocess.run(
        [*command, *words], capture_output=True, text=True, check=False, timeout=60,
        env=os.environ | extra,
    )  # fmt: skip
    return done.stdout if done.returncode == 0 else None


def sample(subject: Subject, broker: Broker, seen: Seen) -> None:
    """Count the states of everything once."""
    seen.samples += 1
    before = {kind: seen.states[kind].copy() for kind in KINDS}
    look(subject, broker, seen)
    seen.verdicts[verdict({kind: seen.states[kind] - before[kind] for kind in KINDS})] += 1


def look(subject: Subject, broker: Broker, seen: Seen) -> None:
    for kind in KINDS:
        if kind == "channels" and subject.kind == "rabbitmq":
            told = control(subject, broker, ["eval", RABBITMQ_CHANNELS]) or ""
            seen.states[kind].update(re.findall(r"{state,(\w+)}", told))
            continue
        printed = control(subject, broker, ["list_" + kind, "state", "--formatter", "json", "-q"])
        if printed is None:
            seen.states[kind]["not shown"] += 1
            continue
        for row in cast("list[dict[str, str]]", json.loads(printed)):
            seen.states[kind][row["state"]] += 1


def most_frequent(seen: Seen) -> str:
    """What most looks say at which something was in flow: a disk may be busy for a moment."""
    told = [one for one, _ in seen.verdicts.most_common() if one != NONE]
    return told[0] if told else NONE


def verdict(states: Mapping[str, Counter[str]]) -> str:
    """Where the bottleneck is, by what is in flow."""
    flowing = {kind: states[kind]["flow"] > 0 for kind in KINDS}
    if states["connections"]["blocked"]:
        return "an alarm"
    if not any(flowing.values()):
        return NONE
    if flowing["queues"]:
        return "message store"
    if states["channels"]["not shown"]:
        return "channels or queues: the states of channels are not shown"
    return "queues" if flowing["channels"] else "channels"


def why(subject: Subject) -> str:
    """What `warren why` prints."""
    words = [*subject.command, "why", "--socket", str(subject.control_socket())]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    return (done.stdout or done.stderr).strip()


def pids_of(broker: Broker) -> list[int]:
    tree = ProcessTree((broker.pid,))
    return list(tree.ticks)


def run(subject: Subject, name: str, args: argparse.Namespace) -> Seen:
    """One load on a fresh broker."""
    seen = Seen()
    broker = subject.start({MEMORY_LIMIT: str(int(args.memory_limit * MEGA))})
    words = [sys.executable, "-m", "warren.cli.main", "bench", *shlex.split(LOADS[name])]
    words += ["--uri", f"amqp://guest:guest@{HOST}:{broker.place.port}/", "--pid", str(broker.pid)]
    words += ["--seconds", f"{args.seconds:g}", "--interval", f"{INTERVAL_S:g}", "--quiet"]
    words += ["--drain-timeout", "10", "--json", "-"]
    folder = broker.place.folder
    slow = slow_disk(folder, args.slow_disk, pids_of(broker)) if args.slow_disk else nullcontext()
    try:
        with slow as is_slow:
            if is_slow is False:
                raise SystemExit("a slow disk needs root and a writable cgroup: see --help")
            load = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
            try:
                watch(subject, broker, load, seen, args.seconds + SPARE_S)
                output, _ = load.communicate(timeout=SPARE_S)
            finally:
                load.kill()
            seen.result = cast("dict[str, object]", json.loads(output or "{}"))
    finally:
        broker.stop()
    return seen


def watch(
    subject: Subject, broker: Broker, load: "subprocess.Popen[str]", seen: Seen, seconds: float
) -> None:
    """Look at states as long as there is load; keep the longest answer to why."""
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s and load.poll() is None:
        sample(subject, broker, seen)
        if subject.kind == "warren":
            seen.why = max(seen.why, why(subject), key=len)
        time.sleep(LOOK_S)


def memory_of(seen: Seen) -> list[float]:
    series = seen.result.get("series")
    if not isinstance(series, Mapping):
        return []
    published = cast("list[int]", series["published"])
    # As long as anything was published: what the end of the load frees is another thing.
    return cast("list[float]", series["rss_mib"])[: len(published)]


def tell(name: str, seen: Seen, kind: str, *, slow: bool) -> None:
    expected = EXPECTED["disk" if slow and name != "cpu" else name]
    print(f"{name}: {LOADS[name]}")
    for what, states in seen.states.items():
        shown = ", ".join(f"{state} {count}" for state, count in states.most_common())
        print(f"  {what:<12} {shown or 'none'}  ({seen.samples} looks)")
    for one, count in seen.verdicts.most_common():
        print(f"  {count:>3} looks    {one}")
    rate = cast("float", seen.result.get("publish_rate", 0.0))
    held = cast("float", seen.result.get("blocked_s", 0.0))
    print(f"  published    {rate:,.0f}/s, blocked for {held:.1f} s")
    print(f"  bottleneck   {most_frequent(seen)} (expected: {expected})")
    if kind == "warren":
        indented = seen.why.replace("\n", "\n    ")
        print(f"  warren why\n    {indented}")


def is_flat(name: str, seen: Seen, args: argparse.Namespace) -> bool:
    """Whether memory stayed where it was in the first half."""
    memory = memory_of(seen)
    half = len(memory) // 2
    if not half:
        return False
    first, last = max(memory[:half]), max(memory[half:])
    flat = last <= first + float(args.growth)
    print(
        f"  memory       highest {first:.0f} MiB in the first half, {last:.0f} MiB in the last: "
        f"{'flat' if flat else 'IT GROWS'}"
    )
    return flat


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tools.flow_load", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    add_options(parser, 20560)
    parser.add_argument("loads", nargs="*", metavar="load", help=f"of {', '.join(LOADS)}")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument(
        "--memory-limit", type=float, default=4000.0, metavar="MB",
        help="absolute; far enough that no alarm hides the flow (default: 4000)",
    )  # fmt: skip
    parser.add_argument("--slow-disk", type=float, default=0.0, metavar="MIB")
    parser.add_argument("--growth", type=float, default=64.0, metavar="MIB")
    args = parser.parse_args()
    unknown = [name for name in args.loads if name not in LOADS]
    if unknown:
        parser.error(f"unknown load {unknown[0]!r}; known: {', '.join(LOADS)}")
    return args


def main() -> int:
    args = parse()
    subject = subject_of(args, "flow")
    grown = []
    for name in args.loads or list(LOADS):
        seen = run(subject, name, args)
        tell(name, seen, subject.kind, slow=bool(args.slow_disk))
        if args.slow_disk and name != "cpu" and not is_flat(name, seen, args):
            grown.append(name)
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main())
