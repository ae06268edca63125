"""A full disk under a real broker: nothing confirmed that is not there after a restart.

`python -m tools.full_disk [options]`, as root: the broker's data lies on a tmpfs of --size MB.

1. Publish with confirms until publishers are blocked (the disk alarm: free space below --limit MB),
   or until nothing moves, or until twice the size of the disk was confirmed.
2. With --abrupt the space goes at once instead: something else fills the disk to the last octet
   while messages are being published, so that writes fail before anybody has looked.
3. Space returns: what else lay there is removed and half of the messages are consumed. Publishers
   must go on without being told to.
4. kill -9, start again, look at all messages: everything confirmed and not acknowledged is there,
   once, in order, and nothing acknowledged is back.

Without a filler of its own the first disk would be full of messages only, so a file of --ballast MB
lies there from the start and is what goes away in step 3. A broker that has no setting for the
limit is started without one. Exit code 0 if all of it held, else 1; 2 where it cannot be run.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tools.bench.broker import Broker, StartError
from tools.proof.book import Book
from tools.proof.look import look, ready_in
from tools.proof.message import body_of, ident_in
from tools.proof.peer import BrokerGone, Delivery, Peer, link_to, pump
from tools.proof.subject import DISK_LIMIT, Subject, add_options, subject_of
from tools.proof.traffic import Path as Way
from tools.proof.traffic import Publisher
from warren.bench import frame
from warren.bench.link import BenchError

QUEUE: Final = "proof-full"
MEGA: Final = 1_000_000
# A broker looks at its disk every ten seconds at the most.
STILL_S: Final = 15.0
ACK_WINDOW_S: Final = 1.0
TURN_S: Final = 0.01


@dataclass(slots=True)
class Report:
    """What happened, in the order it did, and what did not hold."""

    faults: list[str] = field(default_factory=list)

    def say(self, words: str) -> None:
        print(words, flush=True)

    def demand(self, held: bool, words: str) -> None:
        self.say(f"{'ok  ' if held else 'NOT '} {words}")
        if not held:
            self.faults.append(words)


def cannot_mount(folder: Path) -> str:
    """Why a small file system cannot be mounted here; empty if it can."""
    if os.geteuid() != 0:
        return "mounting a file system needs root"
    try:
        with small_disk(folder, 1.0):
            return ""
    except SystemExit as error:
        return str(error)


@contextmanager
def small_disk(folder: Path, size_mb: float) -> Iterator[Path]:
    """A tmpfs of that size, gone at the end; a `SystemExit` if it cannot be mounted."""
    folder.mkdir(parents=True, exist_ok=True)
    words = ["mount", "-t", "tmpfs", "-o", f"size={int(size_mb * MEGA)},mode=0700", "warren-proof"]
    done = subprocess.run([*words, str(folder)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"cannot mount a small file system: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=False)


def free_mb(folder: Path) -> float:
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize / MEGA


def fill_up(folder: Path, mb: float | None = None) -> Path:
    """Write a file of that size, or until nothing more fits."""
    path = folder / "ballast"
    left = int(mb * MEGA) if mb is not None else 1 << 62
    with suppress(OSError), path.open("ab", buffering=0) as file:
        while left > 0:
            left -= file.write(bytes(min(left, 1 << 16)))
    return path


def declare(port: int) -> None:
    link = link_to(port)
    name = b"\0\0" + frame.short_string(QUEUE) + b"\x02" + frame.table({})
    link.call(frame.QUEUE_DECLARE, name, frame.QUEUE_DECLARE_OK)
    link.close()


class Filler:
    """One publisher into one queue, and what it was told."""

    def __init__(self, port: int, book: Book, first: int) -> None:
        self.publisher = Publisher(port, 1, Way("", QUEUE, ("full",)), {"full": book})
        self.next = first
        self.octets = 0

    def turn(self) -> bool:
        """Publish and take answers once; whether anything was answered."""
        publisher = self.publisher
        before, first = publisher.confirmed, self.next
        if not publisher.peer.blocked:
            self.next = publisher.publish(self.next)
            self.octets += sum(len(body_of(1 << 40 | n)) for n in range(first, self.next))
        pump([publisher.peer], TURN_S)
        publisher.take()
        if publisher.peer.gone:
            raise BrokerGone("the broker closed the connection")
        return publisher.confirmed > before

    def run(self, *, octets: float, still_s: float = STILL_S) -> str:
        """Publish so much, or until it is blocked or still; why it ended."""
        moved_s = time.monotonic()
        begin = self.octets
        while self.octets - begin < octets:
            if self.turn():
                moved_s = time.monotonic()
            if self.publisher.peer.blocked:
                return "blocked"
            if time.monotonic() - moved_s > still_s:
                return "still"
        return "all"

    def wait_until_unblocked(self, timeout_s: float = 60.0) -> bool:
        end_s = time.monotonic() + timeout_s
        while self.publisher.peer.blocked and time.monotonic() < end_s:
            self.turn()
        return not self.publisher.peer.blocked


def consume_half(port: int, book: Book) -> int:
    """Take and acknowledge half of what is there."""
    peer = Peer(port, prefetch=200)
    wanted = ready_in(peer, QUEUE) // 2
    peer.consume(QUEUE)
    count = 0
    end_s = time.monotonic() + 30.0
    while count < wanted and time.monotonic() < end_s:
        pump([peer], 0.1)
        for event in peer.take():
            if isinstance(event, Delivery) and count < wanted:
                count += 1
                peer.ack(event.tag, multiple=False)
                book.acknowledge(ident_in(event.body) or 0, time.monotonic())
        if peer.gone:
            raise BrokerGone("the broker closed a consumer's connection")
    ready_in(peer, QUEUE)  # Its answer comes behind the acks.
    peer.close()
    return count


def prove(subject: Subject, args: argparse.Namespace) -> Report:
    """All steps; the broker is ended at the end."""
    report = Report()
    with small_disk(subject.place.folder.parent, args.size) as folder:
        limit = str(int(args.limit * MEGA))
        settings = {DISK_LIMIT: limit} if subject.knows(DISK_LIMIT, limit) else {}
        if not settings:
            report.say("     this broker has no setting for the least free space")
        ballast = fill_up(folder, args.ballast)
        broker = subject.start(settings)
        try:
            steps(broker, report, folder, ballast, args)
        except (BrokerGone, BenchError, StartError) as error:
            report.demand(False, f"the broker went on: {error}")
        finally:
            broker.stop()
    return report


def steps(
    broker: Broker, report: Report, folder: Path, ballast: Path, args: argparse.Namespace
) -> None:
    port = broker.place.port
    book = Book(QUEUE)
    declare(port)
    filler = Filler(port, book, 0)
    publisher = filler.publisher
    try:
        if args.abrupt:
            filler.run(octets=free_mb(folder) * MEGA / 4)
            fill_up(folder)
            report.say(f"     filled to {free_mb(folder):.1f} MB free at once")
        why = filler.run(octets=2 * args.size * MEGA)
        report.say(
            f"     published {filler.octets / MEGA:.0f} MB, confirmed {publisher.confirmed:,} "
            f"messages, refused {publisher.refused:,}, {free_mb(folder):.1f} MB free"
        )
        report.demand(why != "all", "no more was confirmed than the disk holds")
        report.demand(why == "blocked", "publishers were blocked by an alarm")
        ballast.unlink()
        count = consume_half(port, book)
        report.say(f"     {count:,} consumed, {free_mb(folder):.1f} MB free again")
        before = publisher.confirmed
        unblocked = filler.wait_until_unblocked()
        filler.run(octets=args.ballast * MEGA / 4)
        report.demand(
            unblocked and publisher.confirmed > before,
            f"publishing went on when space had returned ({publisher.confirmed - before:,})",
        )
    except BrokerGone as error:
        report.demand(False, f"the broker stayed up: {error}")
    ended_s = time.monotonic()
    broker.end(kill=True)
    publisher.peer.read_to_the_end()
    publisher.take()
    publisher.peer.close()
    ballast.unlink(missing_ok=True)
    broker.begin_again()
    sight = look(port, (QUEUE,), book.must, empty=False)
    found = sight.all()
    verdict = book.disorder(QUEUE, found)
    verdict.add("spoilt", QUEUE, range(sight.spoilt))
    verdict.merge(book.judge(found, ended_s=ended_s, ack_window_s=ACK_WINDOW_S))
    report.demand(
        not verdict.faults,
        f"after kill -9 all of {book.confirmed:,} confirmed and not of {book.acked:,} acknowledged "
        f"messages was there: {verdict.words or f'{verdict.present:,} found'}",
    )


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.full_disk", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    add_options(parser, 20520)
    parser.add_argument("--size", type=float, default=200.0, metavar="MB", help="of the disk")
    parser.add_argument("--limit", type=float, default=50.0, metavar="MB", help="least free space")
    parser.add_argument("--ballast", type=float, default=60.0, metavar="MB")
    parser.add_argument("--abrupt", action="store_true", help="something else fills it at once")
    return parser


def main() -> int:
    args = build_parser().parse_args()
    if reason := cannot_mount(args.out / "try"):
        print(reason)
        return 2
    name = "full-abrupt" if args.abrupt else "full"
    args.out = args.out / f"{name}-{args.broker}-disk"
    report = prove(subject_of(args, name), args)
    print(f"{args.broker}: {'held' if not report.faults else 'DID NOT HOLD'}")
    return 1 if report.faults else 0


if __name__ == "__main__":
    sys.exit(main())
