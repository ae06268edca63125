"""What needs no node: help, the version, completion, and words that are no verb."""

import sys

from warren.cli.ctl.failure import OK, USAGE
from warren.cli.ctl.main import program, usage
from warren.cli.ctl.verbs import VERBS
from warren.cli.ctl.words import Words

COMPATIBLE_VERSION = "3.10.8"
_OPTIONS = """\
  -n, --node NODE      the node's name, or the path of its data folder or control socket
  -p, --vhost VHOST    virtual host (default /)
  -q, --quiet          no line that says what is being done
  -s, --silent         neither that nor the names of columns
  -t, --timeout S      seconds to wait for the node
  --formatter NAME     table, pretty_table, csv, json, json_stream, erlang
  --no-table-headers   no names of columns
  --socket PATH, --data-dir DIR, --config FILE    other ways to name a node
  -l, --longnames, --erlang-cookie, --script-name are taken and mean nothing"""


def helping(words: Words) -> int:
    """Run a verb that needs no node."""
    verb = words.verb
    if verb == "version":
        # What scripts compare is the release of RabbitMQ; `warren version` has our own.
        print(COMPATIBLE_VERSION)
        return OK
    if verb == "autocomplete":
        start = words.arguments[0] if words.arguments else ""
        print("\n".join(name for name in VERBS if name.startswith(start)))
        return OK
    asked = words.arguments[0] if verb == "help" and words.arguments else verb
    if verb == "help" and "list-commands" in words.options:
        print("\n".join(VERBS))
        return OK
    if asked in VERBS and asked != "help":
        print(help_of(asked))
        return OK
    if not asked or asked == "help":
        stream = sys.stdout if asked or "help" in words.options else sys.stderr
        print(summary(), file=stream)
        return OK if stream is sys.stdout else USAGE
    return _unknown(asked, helped=verb == "help")


def _unknown(verb: str, *, helped: bool) -> int:
    from difflib import get_close_matches

    near = get_close_matches(verb, VERBS, n=1)
    print(f"\nCommand '{verb}' not found.", file=sys.stderr)
    if near:
        print(f"Did you mean '{near[0]}'?", file=sys.stderr)
    elif not helped:
        print("\n" + summary(), file=sys.stderr)
    return USAGE


def help_of(verb: str) -> str:
    """Return the help of one verb."""
    found = VERBS[verb]
    state = "\n\nNot available: it says why." if found.run.startswith("missing:") else ""
    options = f"\x1b[1mGeneral Options\x1b[0m\n\n{_OPTIONS}"
    return f"\n{usage(verb)}\n\n{found.doc}.{state}\n\n{options}\n"


def summary() -> str:
    """Return the help of the command."""
    parts = [usage(""), "Available commands:"]
    groups: dict[str, list[str]] = {}
    for name, verb in VERBS.items():
        groups.setdefault(verb.group, []).append(f"   {name:<30}{verb.doc}")
    parts += [f"\x1b[1m{group}\x1b[0m:\n\n" + "\n".join(lines) for group, lines in groups.items()]
    parts.append(f"Use '{program()} help <command>' to learn more about a specific command")
    return "\n" + "\n\n".join(parts)
