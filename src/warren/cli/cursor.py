"""`warren cursor`: durable positions that hold the history of a queue."""

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import Final

from warren.cli.asked import asked
from warren.cli.ctl.link import Link
from warren.cli.exit import OK, CliError
from warren.cli.question import asking_parser

_COLUMNS: Final = (
    "vhost", "queue", "name", "seq", "epoch", "lag", "lag_bytes", "age_ms", "state", "reason",
)  # fmt: skip
_TIMEOUT_S: Final = 30


def cursor(words: Sequence[str]) -> int:
    """List cursors, make or move one, delete one."""
    given = _parser().parse_args(words)
    if given.what != "list" and (given.queue is None or given.name is None):
        raise CliError("name the queue and the cursor", 2)
    with asked(given) as link:
        return _told(link, given)


def _parser() -> ArgumentParser:
    parser = asking_parser("cursor", "Positions that hold history.", timeout_s=_TIMEOUT_S)
    parser.add_argument("what", choices=("list", "set", "delete"), help="what to do")
    parser.add_argument("queue", nargs="?", help="name of the queue")
    parser.add_argument("name", nargs="?", help="name of the cursor")
    parser.add_argument("--vhost", "-p", default=None, help="virtual host (default: all, or /)")
    parser.add_argument("--seq", type=int, default=None, help="the id it is to stand at")
    parser.add_argument(
        "--at", choices=("earliest", "next"), default="earliest", help="where a new one begins"
    )
    parser.add_argument(
        "--epoch", type=int, default=None, help="the token it was given; without, take it over"
    )
    parser.add_argument(
        "--incarnation", type=int, default=None, help="refuse if the queue is another one"
    )
    return parser


def _told(link: Link, given: Namespace) -> int:
    if given.what == "list":
        place = {"vhost": given.vhost, "queue": given.queue, "columns": _COLUMNS}
        return _listed(given, list(link.rows("cursor_list", **place)))
    words: dict[str, object] = {
        "vhost": given.vhost or "/",
        "queue": given.queue,
        "name": given.name,
        "epoch": given.epoch,
        "incarnation": given.incarnation,
    }
    if given.what == "delete":
        reply = link.ask("cursor_delete", **words)
        print(json.dumps(reply) if given.json else "deleted")
        return OK
    reply = link.ask("cursor_put", **words, seq=given.seq, at=given.at)
    if given.json:
        print(json.dumps(reply))
    else:
        print(f"cursor {given.name} stands at {reply['seq']}, epoch {reply['epoch']}")
    return OK


def _listed(given: Namespace, rows: list[list[object]]) -> int:
    if given.json:
        print(json.dumps([dict(zip(_COLUMNS, row, strict=True)) for row in rows]))
        return OK
    from warren.cli.render import paint, table

    shown = [["" if cell is None else str(cell) for cell in row] for row in rows]
    print(table(_COLUMNS, shown, paint()))
    return OK
