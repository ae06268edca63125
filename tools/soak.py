"""The memory alarm under load for a long time: publishers at full speed, consumers that are slow.

`python -m tools.soak [options]`. Four publishers with confirms and four slow consumers with
acknowledgements work for --minutes against an absolute memory limit of --limit MB. The limit is
far below what the publishers could fill, so the alarm must come and go the whole time. Then the
consumers take what is left. Unless --paging-ratio says otherwise messages never leave memory, so
that the alarm is all that protects the node; with 0.5, the default of the broker, they go to the
disk before, and the alarm need not come; nor with --durable or --lazy, where few of them stay in
memory anyway. Demanded, and said at the end:

- nothing lost, doubled, reordered or spoilt (every message carries its number), all confirmed;
- the alarm came (without paging), and publishing went on after it each time: no block longer
  than --pause;
- consumers never stopped while messages waited: no gap longer than --pause;
- memory stayed within --ratio times the limit (the highest sample, and by how much).

Exit code 0 if all of it held, else 1. The run takes the minutes, and what the drain takes; the load
gives up after twice --pause without progress.
"""

import argparse
import itertools
import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from tools.bench.broker import HOST, Broker
from tools.bench.plot import Line, lines_svg
from tools.proof.subject import MEMORY_LIMIT, add_options, subject_of

PAGING_RATIO: Final = "vm_memory_high_watermark_paging_ratio"
INTERVAL_S: Final = 0.1
MEBI: Final = 1 << 20
MEGA: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Finding:
    """One demand: whether it held, and the figure."""

    held: bool
    words: str


def series_of(result: Mapping[str, object]) -> dict[str, list[float]]:
    found = cast("dict[str, list[float] | float]", result["series"])
    return {name: values for name, values in found.items() if isinstance(values, list)}


def longest_still(totals: list[float]) -> float:
    """The longest time, in seconds, in which a total did not grow."""
    longest = still = 0
    for before, now in itertools.pairwise(totals):
        still = 0 if now > before else still + 1
        longest = max(longest, still)
    return longest * INTERVAL_S


def number(result: Mapping[str, object], name: str) -> float:
    return float(cast("float", result[name]))


def wants_alarm(args: argparse.Namespace) -> bool:
    """Whether messages stay in memory, so that nothing but the alarm can help."""
    return args.paging_ratio > 1 and not args.durable and not args.lazy


def judge(result: Mapping[str, object], args: argparse.Namespace) -> list[Finding]:
    """What was demanded, from the result of the load."""
    series = series_of(result)
    published, consumed = series["published"], series["consumed"]
    limit_mib = args.limit * MEGA / MEBI
    highest_mib = max(series["rss_mib"], default=0.0)
    unconfirmed = int(number(result, "published") - number(result, "confirmed"))
    counts = {
        "lost": max(0, int(number(result, "lost")) - unconfirmed),
        **{
            name: int(number(result, name)) for name in ("duplicated", "reordered", "bad", "nacked")
        },
    }
    wrong = {name: count for name, count in counts.items() if count}
    blocks = int(number(result, "blocked_events"))
    # Consumers have something to take from the first second on until the queues are empty.
    still_s = longest_still(consumed)
    paused_s = longest_still(published)
    return [
        Finding(
            result["ok"] is True and not wrong and not unconfirmed,
            f"published {int(number(result, 'published')):,}, consumed "
            f"{int(number(result, 'consumed')):,}, unconfirmed {unconfirmed}, "
            f"wrong {wrong or 'nothing'}" + (", gave up" if result["timed_out"] else ""),
        ),
        Finding(
            blocks > 0 or not wants_alarm(args),
            f"blocked {blocks} times, the longest total of one publisher "
            f"{number(result, 'blocked_s'):.1f} s",
        ),
        Finding(paused_s <= args.pause, f"longest pause in publishing {paused_s:.1f} s"),
        Finding(still_s <= args.pause, f"longest pause in consuming {still_s:.1f} s"),
        Finding(
            highest_mib <= args.ratio * limit_mib,
            f"highest memory {highest_mib:.0f} MiB of {limit_mib:.0f}: "
            f"{highest_mib / limit_mib:.2f} x the limit",
        ),
    ]


def load(broker: Broker, args: argparse.Namespace) -> dict[str, object]:
    """Run the load generator; its result."""
    words = [sys.executable, "-m", "warren.cli.main", "bench"]
    words += ["--uri", f"amqp://guest:guest@{HOST}:{broker.place.port}/"]
    words += ["--producers", "4", "--consumers", "4", "--queues", "4", "--size", args.size]
    words += ["--confirm", "1000", "--ack-every", "50", "--prefetch", "500"]
    words += ["--consume-rate", f"{args.consume_rate:g}", "--seconds", f"{args.minutes * 60:g}"]
    words += [
        "--interval",
        f"{INTERVAL_S:g}",
        "--drain-timeout",
        f"{2 * args.pause:g}",
        "--quiet",
        "--json",
        "-",
    ]
    words += ["--pid", str(broker.pid)]
    if args.publish_rate:
        words += ["--rate", f"{args.publish_rate:g}"]
    if args.durable:
        words += ["--durable", "--persistent"]
    if args.lazy:
        words += ["--queue-arg", "x-queue-mode=lazy"]
    done = subprocess.run(
        words, capture_output=True, text=True, check=False, timeout=args.minutes * 60 + 1800
    )
    if not done.stdout:
        raise SystemExit(f"the load could not be made: {done.stderr.strip()}")
    return cast("dict[str, object]", json.loads(done.stdout))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tools.soak", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    add_options(parser, 20500)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument(
        "--limit", type=float, default=300.0, metavar="MB", help="absolute memory limit"
    )
    parser.add_argument("--size", default="1k", help="octets of a message")
    parser.add_argument(
        "--consume-rate", type=float, default=10_000.0, metavar="R",
        help="what all consumers take in a second (default: 10000)",
    )  # fmt: skip
    parser.add_argument(
        "--publish-rate", type=float, default=0.0, metavar="R",
        help="what all publishers publish in a second at most (default: what they can)",
    )  # fmt: skip
    parser.add_argument(
        "--paging-ratio", type=float, default=2.0, metavar="F",
        help="share of the limit from which messages leave memory; above 1: never (default: 2)",
    )  # fmt: skip
    parser.add_argument("--durable", action="store_true", help="durable queues, persistent")
    parser.add_argument("--lazy", action="store_true", help="lazy queues")
    parser.add_argument(
        "--ratio", type=float, default=1.1,
        help="how far above the limit memory may go until publishers have stopped (default: 1.1)",
    )  # fmt: skip
    parser.add_argument(
        "--pause", type=float, default=30.0, metavar="S", help="the longest pause of either side"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep the result of the load")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="an SVG of memory over time")
    return parser.parse_args()


def main() -> int:
    args = parse()
    limit = str(int(args.limit * MEGA))
    ratio = f"{args.paging_ratio:g}"
    broker = subject_of(args, "soak").start({MEMORY_LIMIT: limit, PAGING_RATIO: ratio})
    try:
        result = load(broker, args)
    finally:
        broker.stop()
    if args.json:
        args.json.write_text(json.dumps(result) + "\n")
    if args.plot:
        series = series_of(result)
        points = list(zip(series["memory_s"], series["rss_mib"], strict=True))
        title = f"Memory with a limit of {args.limit:g} MB (MiB, logarithmic, over seconds)"
        args.plot.write_text(lines_svg(title, [Line(args.broker, points)]))
    findings = judge(result, args)
    for finding in findings:
        print(f"{'ok  ' if finding.held else 'NOT '} {finding.words}")
    held = all(finding.held for finding in findings)
    print(f"{args.broker}: {args.minutes:g} minutes, {'held' if held else 'DID NOT HOLD'}")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
