"""kill -9 of a real broker under load, many times, by a client that remembers every confirm.

`python -m tools.kill [options]`. In each round publishers with confirms and consumers with
acknowledgements work on durable queues (plain, fan-out, lazy, priority, TTL with dead letters), the
broker's processes are killed at a random moment, started again on what they left (now and then
killed again while they start), and everything in every queue is looked at:

- every message that was confirmed and not acknowledged is there, once, with the body it had;
- in each queue the messages of one publisher (and priority) are in the order they were published;
- nothing acknowledged is back, except what the broker had got within --ack-window of the kill (the
  answer to a call behind the acknowledgement says that it had);
- nothing is there that was neither there before nor published since, no transient message, nothing
  that was missing after an earlier kill.

What is there stays there for the next rounds; every --empty-every rounds all is acknowledged.
RabbitMQ forwards dead letters without confirms between its queues and may lose or repeat them in a
crash: there they are counted apart, unless --strict-letters.
Exit code 0: all rounds held. 1: one did not (the first such ends the run, unless --go-on); what
the broker left then stays for a look, until the next run.
"""

import argparse
import json
import random
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tools.bench.broker import Broker, StartError, wait_until_up
from tools.proof.book import Book, Verdict
from tools.proof.look import Sight, look
from tools.proof.peer import BrokerGone
from tools.proof.subject import add_options, subject_of
from tools.proof.traffic import PATHS, PLACES, Traffic, declare, new_books
from warren.bench.link import BenchError

START_TIMEOUT_S: Final = 300.0
# A start is cut short within this.
EARLY_S: Final = 0.6


@dataclass(slots=True)
class Plan:
    """What a series of rounds does."""

    kills: int
    seconds: float = 1.0
    ack_window_s: float = 0.5
    during_start: float = 0.1
    empty_every: int = 5
    clean_every: int = 0
    go_on: bool = False
    strict_letters: bool = True
    seed: int = 1


@dataclass(slots=True)
class Series:
    """What all rounds came to."""

    rounds: int = 0
    cut_starts: int = 0
    confirmed: int = 0
    acked: int = 0
    looked_at: int = 0
    longest_start_s: float = 0.0
    verdict: Verdict = field(default_factory=Verdict)

    @property
    def held(self) -> bool:
        return not self.verdict.faults

    def to_json(self) -> dict[str, object]:
        return {
            "held": self.held,
            "rounds": self.rounds,
            "starts_cut_short": self.cut_starts,
            "confirmed": self.confirmed,
            "acknowledged": self.acked,
            "looked_at": self.looked_at,
            "longest_start_s": round(self.longest_start_s, 3),
            "back_in_window": self.verdict.in_window,
            "unconfirmed_and_there": self.verdict.unconfirmed,
            "dead_letters_excused": self.verdict.excused,
            "faults": self.verdict.faults,
            "words": self.verdict.words,
        }


def run(broker: Broker, plan: Plan) -> Series:
    """All rounds against a broker that runs."""
    chance = random.Random(plan.seed)
    series = Series()
    books = new_books()
    numbers = [0] * len(PATHS)
    declare(broker.place.port)
    for number in range(1, plan.kills + 1):
        verdict = run_round(broker, plan, series, chance, books, numbers)
        series.rounds = number
        series.verdict.merge(verdict)
        if verdict.faults and not plan.go_on:
            break
    series.confirmed = sum(book.confirmed for book in books.values())
    series.acked = sum(book.acked for book in books.values())
    return series


def run_round(
    broker: Broker,
    plan: Plan,
    series: Series,
    chance: random.Random,
    books: dict[str, Book],
    numbers: list[int],
) -> Verdict:
    before = [(book.confirmed, book.acked) for book in books.values()]
    traffic = Traffic(broker.place.port, books, numbers)
    seconds = plan.seconds * chance.uniform(0.2, 1.8)
    clean = plan.clean_every > 0 and (series.rounds + 1) % plan.clean_every == 0
    verdict = Verdict()
    try:
        traffic.run(seconds)
    except BrokerGone as error:
        verdict.add("ended by itself", str(error), [0])
    ended_s = time.monotonic()
    broker.end(kill=not clean)
    traffic.finish()
    start_s = start_again(broker, plan, series, chance)
    empty = (series.rounds + 1) % plan.empty_every == 0
    verdict.merge(look_at_all(broker.place.port, books, plan, ended_s, empty=empty))
    spoilt = sum(consumer.spoilt for consumer in traffic.consumers)
    verdict.add("spoilt", "deliveries", range(spoilt))
    series.longest_start_s = max(series.longest_start_s, start_s)
    series.looked_at += verdict.present
    now = [(book.confirmed, book.acked) for book in books.values()]
    confirmed = sum(after[0] - then[0] for after, then in zip(now, before, strict=True))
    acked = sum(after[1] - then[1] for after, then in zip(now, before, strict=True))
    how = "stopped" if clean else "killed"
    print(
        f"round {series.rounds + 1}: {how} after {seconds:.2f} s, up in {start_s:.2f} s, "
        f"confirmed {confirmed:,}, acknowledged {acked:,}, there {verdict.present:,}, "
        f"back in the window {verdict.in_window}, unconfirmed and there {verdict.unconfirmed}"
        f"{f', dead letters excused {verdict.excused}' if verdict.excused else ''}: "
        f"{'ok' if not verdict.faults else verdict.faults}",
        flush=True,
    )
    for words in verdict.words:
        print(f"    {words}", flush=True)
    return verdict


def start_again(broker: Broker, plan: Plan, series: Series, chance: random.Random) -> float:
    """Start; now and then kill that start as well."""
    while chance.random() < plan.during_start:
        broker.launch()
        time.sleep(chance.uniform(0.0, EARLY_S))
        broker.end(kill=True)
        series.cut_starts += 1
    began_s = broker.launch()
    wait_until_up(broker, began_s, START_TIMEOUT_S)
    return time.monotonic() - began_s


def look_at_all(
    port: int, books: dict[str, Book], plan: Plan, ended_s: float, *, empty: bool
) -> Verdict:
    verdict = Verdict()
    for place, queues in PLACES.items():
        book = books[place]
        try:
            sight = look(port, queues, book.must, empty=empty)
        except (BrokerGone, BenchError) as error:
            verdict.add("not to be read", f"{place}: {error}", [0])
            sight = Sight({queue: [] for queue in queues})
        for queue, found in sight.found.items():
            verdict.merge(book.disorder(queue, found))
        verdict.add("spoilt", place, range(sight.spoilt))
        found = sight.all()
        judged = book.judge(found, ended_s=ended_s, ack_window_s=plan.ack_window_s)
        if place == "letters" and not plan.strict_letters:
            judged.excuse(("lost", "doubled", "returned"))
        verdict.merge(judged)
        if empty:
            book.empty(found)
    if verdict.faults:
        declare(port)
    return verdict


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tools.kill", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    add_options(parser, 20480)
    parser.add_argument("--kills", type=int, default=50, help="rounds (default: 50)")
    parser.add_argument(
        "--seconds", type=float, default=1.0,
        help="mean time of the load before a kill (default: 1; each is 0.2 to 1.8 of it)",
    )  # fmt: skip
    parser.add_argument(
        "--ack-window", type=float, default=0.0, metavar="S",
        help="what was acknowledged so shortly before the kill may be back (default: 0.5; of "
        "RabbitMQ, which writes acknowledgements when it has time, 10)",
    )  # fmt: skip
    parser.add_argument(
        "--during-start", type=float, default=0.1, metavar="P",
        help="how often a start is killed as well (default: 0.1)",
    )  # fmt: skip
    parser.add_argument("--empty-every", type=int, default=5, metavar="N")
    parser.add_argument(
        "--clean-every", type=int, default=0, metavar="N",
        help="every Nth round stops in good order instead (default: never)",
    )  # fmt: skip
    parser.add_argument("--go-on", action="store_true", help="after a fault as well")
    parser.add_argument("--strict-letters", action="store_true", help="of RabbitMQ as well")
    parser.add_argument("--seed", type=int, default=1, help="of the moments of the kills")
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parser.parse_args()


def main() -> int:
    args = parse()
    window_s = args.ack_window or (0.5 if args.broker == "warren" else 10.0)
    plan = Plan(
        args.kills, args.seconds, window_s, args.during_start, args.empty_every,
        args.clean_every, args.go_on, args.strict_letters or args.broker == "warren", args.seed,
    )  # fmt: skip
    broker = subject_of(args, "kill").start()
    keep = True
    try:
        series = run(broker, plan)
        keep = not series.held
    except (StartError, BenchError, BrokerGone, OSError) as error:
        print(f"the broker is not to be worked with on what it was left: {error}")
        return 1
    finally:
        broker.stop(keep=keep)
        if keep:
            print(f"what the broker left is in {broker.place.folder}")
    if args.json:
        args.json.write_text(json.dumps(series.to_json(), indent=1) + "\n")
    print(
        f"{args.broker}: {series.rounds} rounds, {series.cut_starts} starts cut short, "
        f"{series.confirmed:,} confirmed, {series.acked:,} acknowledged, longest start "
        f"{series.longest_start_s:.2f} s: "
        f"{'everything promised was there' if series.held else series.verdict.faults}"
    )
    return 0 if series.held else 1


if __name__ == "__main__":
    sys.exit(main())
