"""The verbs that ask a running node: they send one command and print the answer.

`--json` prints the reply as it came, for scripts; otherwise `render` makes it readable.
"""

import json
import os
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from warren.cli.client import ask, socket_path
from warren.cli.exit import CONFIG, FAILED, OK, TIMEOUT, UNAVAILABLE, CliError
from warren.cli.reply import Reply

if TYPE_CHECKING:
    from warren.server.view import (
        CertificateRow,
        ConnectionPage,
        Diag,
        Health,
        QueuePage,
        Status,
        WhyReply,
    )

_POLL_S: Final = 0.02


def status(words: Sequence[str]) -> int:
    """Print the node on one page."""
    given = asking_parser("status", "The node on one page.").parse_args(words)
    raw = _ask(given, "status", {})
    if given.json:
        return _print_json(raw)
    from warren.cli.render import paint, status_text

    print(status_text(cast("Status", _read(raw)), paint()))
    return OK


def why(words: Sequence[str]) -> int:
    """Print the chain of waits of one object, or all waits."""
    parser = asking_parser(
        "why", "Explain why an object waits: the chain of causes down to the root."
    )
    parser.add_argument(
        "object", nargs="*", help="KIND:NAME (queue:orders, connection:..., channel:...) or a name"
    )
    parser.add_argument("--vhost", "-p", default="/", help="virtual host of a queue (default /)")
    given = parser.parse_args(words)
    # `why queue orders` reads as well as `why queue:orders`.
    named: list[str] = given.object
    kind = len(named) == 2 and named[0].isalpha()
    subject = ":".join(named) if kind else " ".join(named)
    raw = _ask(given, "why", {"subject": subject, "vhost": given.vhost})
    if given.json:
        return _print_json(raw)
    from warren.cli.render import paint
    from warren.cli.tree import why_text

    print(why_text(cast("WhyReply", _read(raw)), paint()))
    return OK


def health(words: Sequence[str]) -> int:
    """Check the node: exit code 0 when all is well, 1 with the reasons when not."""
    given = asking_parser(
        "health", "Check the node; the exit code is 1 if it is not well."
    ).parse_args(words)
    raw = _ask(given, "health", {})
    ok = bool(json.loads(raw)["ok"])
    if given.json:
        _print_json(raw)
    else:
        from warren.cli.render import health_text, paint

        print(health_text(cast("Health", _read(raw)), paint()))
    return OK if ok else FAILED


def diag(words: Sequence[str]) -> int:
    """Print what a bug report needs."""
    given = asking_parser(
        "diag", "Build, modules, paths, and every setting with its origin."
    ).parse_args(words)
    raw = _ask(given, "diag", {})
    if given.json:
        return _print_json(raw)
    from warren.cli.render import diag_text, paint

    print(diag_text(cast("Diag", _read(raw)), paint()))
    return OK


def reload_tls(words: Sequence[str]) -> int:
    """Have the node load its certificate, key and authorities anew."""
    given = asking_parser("reload-tls", "Load certificate, key and authorities anew.").parse_args(
        words
    )
    raw = _ask(given, "reload_tls", {})
    if given.json:
        return _print_json(raw)
    from warren.cli.render import certificate_text, paint

    print(certificate_text(cast("CertificateRow", _read(raw)), paint()))
    return OK


def list_queues(words: Sequence[str]) -> int:
    """Print a page of queues."""
    parser = _page_parser("list-queues", "Queues in order of virtual host and name.")
    parser.add_argument("--vhost", "-p", default=None, help="only this virtual host")
    given = parser.parse_args(words)
    args = {"offset": given.offset, "limit": given.limit, "vhost": given.vhost}
    raw = _ask(given, "queue_page", args)
    if given.json:
        return _print_json(raw)
    from warren.cli.render import paint, queues_text

    print(queues_text(cast("QueuePage", _read(raw)), paint(), offset=given.offset))
    return OK


def list_connections(words: Sequence[str]) -> int:
    """Print a page of connections."""
    given = _page_parser("list-connections", "Client connections by name.").parse_args(words)
    raw = _ask(given, "connection_page", {"offset": given.offset, "limit": given.limit})
    if given.json:
        return _print_json(raw)
    from warren.cli.render import connections_text, paint

    print(connections_text(cast("ConnectionPage", _read(raw)), paint(), offset=given.offset))
    return OK


def stop(words: Sequence[str]) -> int:
    """Stop the node and wait until it is gone."""
    parser = asking_parser(
        "stop", "Stop the node in good order and wait until it is gone.", timeout_s=60
    )
    parser.add_argument("--reason", default="asked by the operator", help="for the node's log")
    parser.add_argument("--no-wait", action="store_true", help="return at once")
    given = parser.parse_args(words)
    path = socket_path(given, os.environ)
    deadline = time.monotonic() + given.timeout
    raw = ask(path, "stop", {"reason": given.reason}, timeout_s=given.timeout)
    pid = int(json.loads(raw)["pid"])
    while not given.no_wait and (lives(pid) or _answers(path)):
        if time.monotonic() > deadline:
            message = f"process {pid} still runs after {given.timeout:g} s; see the node's log"
            raise CliError(message, TIMEOUT)
        time.sleep(_POLL_S)
    if given.json:
        return _print_json(raw)
    print(f"node {'is stopping' if given.no_wait else 'stopped'} (pid {pid})")
    return OK


def lives(pid: int) -> bool:
    """Whether a process still runs; one that only waits to be collected does not."""
    if pid == os.getpid():
        return False
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in {"Z", "X"}


def _answers(path: Path) -> bool:
    try:
        ask(path, "commands", {}, timeout_s=1.0)
    except CliError as refusal:
        return refusal.code not in {UNAVAILABLE, TIMEOUT}
    return True


def asking_parser(verb: str, line: str, *, timeout_s: float = 10) -> ArgumentParser:
    """Return the parser of a verb that asks a node."""
    parser = ArgumentParser(prog=f"warren {verb}", description=line, allow_abbrev=False)
    parser.add_argument("--json", action="store_true", help="print the reply as JSON")
    parser.add_argument("--data-dir", metavar="DIR", help="the node's data folder")
    parser.add_argument("--socket", metavar="PATH", help="the node's control socket")
    parser.add_argument("--config", metavar="FILE", help="the node's configuration file")
    parser.add_argument(
        "--timeout", "-t", type=float, default=timeout_s, metavar="S", help="seconds to wait"
    )
    return parser


def _page_parser(verb: str, line: str) -> ArgumentParser:
    parser = asking_parser(verb, line)
    parser.add_argument("--offset", type=int, default=0, metavar="N", help="rows to skip")
    parser.add_argument("--limit", type=int, default=100, metavar="N", help="rows, at most 1000")
    return parser


def node_socket(given: Namespace) -> Path:
    """Return the control socket of the node that the options name."""
    try:
        return socket_path(given, os.environ)
    except Exception as failure:
        # The type is not imported before it is needed: see the package's docstring.
        if type(failure).__name__ == "ConfigError":
            raise CliError(f"configuration refused:\n{failure}", CONFIG) from None
        raise


def _ask(given: Namespace, command: str, args: Mapping[str, object]) -> bytes:
    return ask(node_socket(given), command, args, timeout_s=given.timeout)


def _read(raw: bytes) -> object:
    return json.loads(raw, object_hook=Reply)


def _print_json(raw: bytes) -> int:
    indent = 2 if sys.stdout.isatty() else None
    print(json.dumps(json.loads(raw), indent=indent, ensure_ascii=False))
    return OK
