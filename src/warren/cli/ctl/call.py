"""One call of a verb: its arguments and options, the node it asks, and what it prints.

A verb is a function of a `Call`. It says what it does (`banner`), asks the node (`ask`, `rows`),
and prints the outcome (`done`, `table`); what the node refuses becomes RabbitMQ's text and code.
"""

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, final

from warren.cli.ctl.failure import DATA, NO_USER, SOFTWARE, UNAVAILABLE, CtlError, Misuse, failed
from warren.cli.ctl.link import Link, RefusedError, UnreachableError, place
from warren.cli.ctl.words import Words

# Seconds that a verb may take when nobody says (O-1.1).
TIMEOUT_S: Final = 60.0
# Verbs that take as long as what they do takes.
UNHURRIED: Final = frozenset(
    {
        "close_all_connections",
        "close_all_user_connections",
        "export_definitions",
        "import_definitions",
        "start_app",
        "stop_app",
    }
)
PREFIX_USER: Final = 'User "'
PREFIX_VHOST: Final = "Virtual host '"
# Verbs that have no exit code of their own for a vhost, or a user, that there is not.
PLAIN_FAILURE: Final = frozenset(
    {
        "set_permissions",
        "clear_permissions",
        "set_topic_permissions",
        "clear_topic_permissions",
    }
)
PLAIN_FAILURE_OF_USER: Final = frozenset(
    {
        "clear_password",
        "list_user_permissions",
        "list_user_topic_permissions",
        "set_user_limits",
        "clear_user_limits",
        "list_user_limits",
    }
)


@final
class Call:
    def __init__(self, words: Words) -> None:
        self.words = words
        self.arguments = words.arguments
        self.options = words.options
        self.vhost = words.options.get("vhost", "/")
        self.formatter = words.options.get("formatter", "table")
        self.silent = "silent" in words.options
        self.quiet = self.silent or "quiet" in words.options or self.formatter in _BARE
        self.link: Link | None = None
        self.name = ""
        self.node: dict[str, object] = {}

    # -- asking ------------------------------------------------------------------------------------

    def timeout_s(self) -> float | None:
        given = self.options.get("timeout")
        if given is None:
            return None if self.words.verb in UNHURRIED else TIMEOUT_S
        return None if given == "infinity" else float(given)

    def connect(self, *, app: bool) -> None:
        """Find the node; with `app`, one whose application runs."""
        asked = full_name(self.options.get("node", ""))
        path = place(self.options, os.environ)
        self.name = asked or path
        self.link = Link(path, self.timeout_s())
        try:
            self.node = self.link.ask("ping")
        except UnreachableError as failure:
            raise CtlError(unreachable(asked, path, str(failure))) from None
        except RefusedError as refusal:
            raise told(refusal, self.words.verb) from None
        name = str(self.node["node"])
        if asked and asked != name:
            raise CtlError(unreachable(asked, path, f"{path} is the socket of {name}"))
        self.name = name
        if app and not self.node["running"]:
            text = (
                "this command requires the 'rabbit' app to be running on the target node. "
                "Start it with 'warrenctl start_app'."
            )
            raise Misuse(text, head="Error: ")

    def ask(self, command: str, **args: object) -> dict[str, object]:
        """Have the node do something; its refusal ends the verb."""
        assert self.link is not None
        try:
            return self.link.ask(command, **args)
        except RefusedError as refusal:
            raise told(refusal, self.words.verb) from None
        except UnreachableError as failure:
            raise CtlError(unreachable(self.name, self.link.path, str(failure))) from None

    def rows(self, command: str, **args: object) -> Iterator[list[object]]:
        """Give the rows of one of the node's lists."""
        assert self.link is not None
        try:
            yield from self.link.rows(command, **args)
        except RefusedError as refusal:
            raise told(refusal, self.words.verb) from None
        except UnreachableError as failure:
            raise CtlError(unreachable(self.name, self.link.path, str(failure))) from None

    # -- telling -----------------------------------------------------------------------------------

    def banner(self, text: str) -> None:
        """Say what is being done, to people."""
        if not self.quiet:
            print(text)

    def done(self, text: str = "") -> None:
        """Say that it is done; with a formatter for programs, as an object."""
        if self.formatter in {"json", "json_stream"}:
            outcome = {"node": self.name, "result": "ok"}
            if text:
                outcome["value"] = text
            self.value(outcome)
        elif text:
            print(text)

    def value(self, found: object) -> None:
        """Print one value as JSON."""
        import json

        print(json.dumps(found, separators=(",", ":"), ensure_ascii=False))

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Print a list, row by row as it comes."""
        from warren.cli.ctl.shape import lines

        headers = not self.silent and "no-table-headers" not in self.options
        for line in lines(self.formatter, columns, rows, headers=headers):
            sys.stdout.write(line + "\n")

    def flag(self, name: str) -> bool:
        return name in self.options


_BARE: Final = frozenset({"json", "csv", "json_stream"})


def full_name(name: str) -> str:
    """Return a node's name with its host; empty for none, and for a path."""
    if not name or "/" in name or "@" in name:
        return "" if "/" in name else name
    import socket

    return f"{name}@{socket.gethostname().partition('.')[0]}"


def told(refusal: RefusedError, verb: str) -> CtlError | Misuse:
    """Return what the node's refusal is in RabbitMQ's texts and exit codes."""
    text = refusal.message
    if refusal.code == "not_found" and text.startswith(PREFIX_VHOST):
        return failed(text.replace("'", "")) if verb in PLAIN_FAILURE else CtlError(text, DATA)
    if refusal.code == "not_found" and text.startswith(PREFIX_USER):
        if verb in PLAIN_FAILURE:
            return failed(text.replace('"', ""), NO_USER)
        return failed(text, UNAVAILABLE if verb in PLAIN_FAILURE_OF_USER else NO_USER)
    if refusal.code == "bad_arguments" and text.startswith("Info key(s)"):
        return Misuse(text)
    if refusal.code in {"exists", "internal"}:
        return failed(text, SOFTWARE)
    if refusal.code == "unknown_command":
        return failed(f"this node cannot do that: {text}")
    fix = refusal.fix and f"\n{refusal.fix}"
    return failed(text + fix, UNAVAILABLE)


def unreachable(name: str, path: str, why: str) -> str:
    """Return the text for a node that cannot be asked."""
    named = f"node '{name}'" if name else "the node"
    return (
        f"Error: unable to perform an operation on {named}. Please see what was tried below.\n\n"
        f"attempted to contact: {path}\n"
        f"  * {why}\n"
        "  * suggestion: start the node, or name its data folder with --data-dir, "
        "WARREN_DATA_DIR or --node /its/folder"
    )
