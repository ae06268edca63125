"""`warren delayed`: what exchanges hold for later, and what is not to be delivered after all."""

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, cast

from warren.cli.asked import asked
from warren.cli.ctl.link import Link
from warren.cli.exit import FAILED, OK, CliError
from warren.cli.question import asking_parser

_EXCHANGES: Final = ("vhost", "name", "messages_delayed", "memory", "survives_restart")
_MESSAGES: Final = ("id", "due", "left_ms", "routing_key", "bytes")
# A far and full span of time takes the node a while to look through.
_TIMEOUT_S: Final = 60


def delayed(words: Sequence[str]) -> int:
    """List the exchanges that delay messages, or the messages of one; or cancel some."""
    given = _parser().parse_args(words)
    if given.exchange is None and (given.cancel or given.cancel_all):
        raise CliError("name the exchange whose messages are to be cancelled", 2)
    with asked(given) as link:
        return _told(link, given)


def _parser() -> ArgumentParser:
    parser = asking_parser("delayed", "Messages that wait for their time.", timeout_s=_TIMEOUT_S)
    parser.add_argument("exchange", nargs="?", help="its messages, by the time they are due")
    parser.add_argument("--vhost", "-p", default=None, help="virtual host (default: all, or /)")
    parser.add_argument("--limit", type=int, default=100, metavar="N", help="at most 1000")
    parser.add_argument("--after", default="", metavar="ID", help="those behind this one")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--cancel", nargs="+", metavar="ID", help="drop these messages")
    what.add_argument("--cancel-all", action="store_true", help="drop all of the exchange's")
    return parser


def _told(link: Link, given: Namespace) -> int:
    if given.exchange is None:
        rows = list(link.rows("list_delayed_exchanges", vhost=given.vhost, columns=_EXCHANGES))
        return _listed(given, _EXCHANGES, rows)
    place = {"vhost": given.vhost or "/", "exchange": given.exchange}
    if not given.cancel and not given.cancel_all:
        page = {"limit": given.limit, "after": given.after, "columns": _MESSAGES}
        return _listed(given, _MESSAGES, list(link.rows("list_delayed", **place, **page)))
    if given.cancel_all:
        reply = link.ask("cancel_all_delayed", **place)
    else:
        reply = link.ask("cancel_delayed", **place, ids=given.cancel)
    missed = cast("list[str]", reply["missed"])
    if given.json:
        print(json.dumps(reply))
    else:
        print(f"cancelled {reply['count']}")
        for one in missed:
            print(f"{one} is not there, or about to be delivered")
    return FAILED if missed else OK


def _listed(given: Namespace, heads: Sequence[str], rows: list[list[object]]) -> int:
    if given.json:
        print(json.dumps([dict(zip(heads, row, strict=True)) for row in rows], ensure_ascii=False))
        return OK
    from warren.cli.render import paint, table

    shown = [[_cell(head, cell) for head, cell in zip(heads, row, strict=True)] for row in rows]
    print(table(heads, shown, paint()))
    return OK


def _cell(head: str, value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if head == "due" and isinstance(value, int):
        at = datetime.fromtimestamp(value / 1000, UTC)
        return at.isoformat(sep=" ", timespec="milliseconds").removesuffix("+00:00")
    return f"{value:,}" if isinstance(value, int) else str(value)
