"""`warren peek`: look at messages of a queue without consuming them."""

import json
from argparse import Namespace
from collections.abc import Sequence

from warren.cli.exit import OK
from warren.cli.slice import PAGE, Node, linked, misuse, slice_parser


def peek(words: Sequence[str]) -> int:
    """Print some messages, from a sequence id on."""
    parser = slice_parser("peek", "Look at messages of a queue without consuming them.")
    parser.add_argument("--count", "-n", type=int, default=10, metavar="N", help="default 10")
    parser.add_argument(
        "--body", type=int, default=200, metavar="OCTETS", help="of each body, default 200"
    )
    given = parser.parse_args(words)
    if given.count < 1 or not 0 <= given.body <= 1 << 20:
        raise misuse("--count is at least 1, --body at most 1048576")
    with linked(given) as node:
        return _peek(node, given)


def _peek(node: Node, given: Namespace) -> int:
    from warren.cli.message_line import as_object, text
    from warren.cli.render import clean

    info = node.info()
    node.hold(info)
    begin = info.first if given.first is None else given.first
    left: int = given.count
    if not given.json:
        name = f"queue '{clean(given.queue)}' in vhost '{clean(given.vhost)}'"
        print(
            f"{name}: ids {info.first} to {info.next_seq - 1}, {info.ready:,} ready, "
            f"{info.unacked:,} unacknowledged, incarnation {info.incarnation}"
            if info.ready or info.unacked or given.history
            else f"{name} is empty, incarnation {info.incarnation}"
        )
    shown: list[object] = []
    done = False
    while left > 0 and not done:
        items, gaps, begin, done = node.page(
            begin, info.stable, limit=min(left, PAGE), body_max=given.body
        )
        left -= len(items)
        if given.json:
            shown += [as_object(item, info.incarnation, state=True) for item in items]
            continue
        parts = [(item.seq, text(item, given.body)) for item in items]
        parts += [(gap.first, _gap_text(gap.first, gap.end, gap.reason)) for gap in gaps]
        for _, part in sorted(parts):
            print(part)
    if given.json:
        print(json.dumps(shown, ensure_ascii=False))
    elif not done:
        print(f"more with --from {begin}")
    return OK


def _gap_text(first: int, end: int, reason: str) -> str:
    ids = f"{first}" if end - first == 1 else f"{first} to {end - 1}"
    return f"{ids}  {reason.replace('_', ' ')}"
