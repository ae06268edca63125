"""`warren replay`: publish a slice of a queue again, at a rate, and go on where it stopped."""

import json
import sys
import time
from argparse import Namespace
from collections.abc import Sequence
from typing import Final, cast, final

from warren.cli.exit import FAILED, OK, CliError
from warren.cli.slice import Info, Node, add_end, linked, misuse, rest_of, slice_parser

PART: Final = 500
# A rate is kept by parts of a tenth of a second.
PARTS_PER_S: Final = 10


def replay(words: Sequence[str]) -> int:
    """Publish messages of a queue again; they stay where they are."""
    parser = slice_parser(
        "replay",
        "Publish messages of a queue again, with the header x-warren-replayed as a mark; without "
        "a target into the same queue. They stay where they are.",
    )
    add_end(parser)
    parser.add_argument("--into", metavar="QUEUE", help="publish into this queue")
    parser.add_argument("--exchange", metavar="NAME", help="publish to this exchange")
    parser.add_argument("--routing-key", metavar="KEY", help="instead of each message's own")
    parser.add_argument("--rate", type=float, default=0, metavar="N", help="messages a second")
    given = parser.parse_args(words)
    if given.into is not None and (given.exchange is not None or given.routing_key is not None):
        raise misuse("replay into a queue, or to an exchange with a routing key, not both")
    if given.routing_key is not None and given.exchange is None:
        raise misuse("a routing key goes with --exchange")
    if given.rate < 0:
        raise misuse("--rate is a number of messages a second")
    with linked(given) as node:
        return _replay(node, given)


@final
class Progress:
    """Everything before `seq` is published and confirmed."""

    def __init__(self, seq: int, end: int) -> None:
        self.seq = seq
        self.end = end
        self.published = 0
        self.unroutable = 0
        self.refused = False


def _replay(node: Node, given: Namespace) -> int:
    info = node.info()
    node.hold(info)
    begin = info.first if given.first is None else given.first
    # What is published into the queue itself meanwhile is not replayed again.
    end = info.stable if given.end is None else min(given.end, info.stable)
    progress = Progress(begin, max(begin, end))
    try:
        _publish(node, given, progress)
    finally:
        # However it ends: what is printed is where to go on.
        _tell(given, info, progress)
    if progress.refused:
        raise CliError(f"a full queue refused message {progress.seq}", FAILED)
    return OK


def _publish(node: Node, given: Namespace, progress: Progress) -> None:
    target: dict[str, object] = {"into": given.into or given.queue}
    if given.exchange is not None:
        target = {"exchange": given.exchange, "routing_key": given.routing_key}
    most = min(PART, max(1, int(given.rate / PARTS_PER_S))) if given.rate else PART
    started = time.monotonic()
    while progress.seq < progress.end and not progress.refused:
        told = node.ask(
            "replay_range",
            from_seq=progress.seq,
            to_seq=progress.end,
            limit=most,
            **node.keys,
            **target,
        )
        progress.seq = cast("int", told["next_seq"])
        progress.published += cast("int", told["published"])
        progress.unroutable += cast("int", told["unroutable"])
        progress.refused = bool(told["refused"])
        if given.rate and not told["end"]:
            due = started + progress.published / given.rate
            time.sleep(max(0.0, due - time.monotonic()))


def _tell(given: Namespace, info: Info, progress: Progress) -> None:
    if given.json:
        names = ("published", "unroutable", "refused")
        facts = {name: getattr(progress, name) for name in names}
        facts |= {"next_seq": progress.seq, "end": progress.seq >= progress.end}
        print(json.dumps({**facts, "incarnation": info.incarnation}))
        return
    print(f"published {progress.published:,} messages again, all confirmed")
    if progress.unroutable:
        print(f"{progress.unroutable:,} of them reached no queue")
    if progress.seq < progress.end:
        print(f"go on with: {_rest(given, progress, info)}", file=sys.stderr)


def _rest(given: Namespace, progress: Progress, info: Info) -> str:
    options = {
        "--vhost": None if given.vhost == "/" else given.vhost,
        "--from": progress.seq,
        "--to": progress.end,
        "--incarnation": info.incarnation,
        "--into": given.into,
        "--exchange": given.exchange,
        "--routing-key": given.routing_key,
        "--rate": given.rate or None,
    }
    return rest_of("replay", given.queue, options)
