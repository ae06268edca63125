"""The `warren` command: start a node, stop it, ask it.

`main` returns the exit code (`exit.py`). Verbs are looked up by name and import what they need when
they run; importing this module imports nothing else of Warren.
"""

import sys
from collections.abc import Sequence
from typing import Final

# Verb -> (module, function, line of help). Each function takes the rest of the line and returns
# the exit code. The load generator stands beside this package and is known by its name only.
VERBS: Final = {
    "start": ("warren.cli.start", "start", "start a node in the foreground"),
    "stop": ("warren.cli.question", "stop", "stop the node in good order"),
    "status": ("warren.cli.question", "status", "the node on one page"),
    "why": ("warren.cli.question", "why", "explain why something waits, or all that wait"),
    "health": (
        "warren.cli.question",
        "health",
        "check the node; exit code 1 if something is wrong",
    ),
    "diag": ("warren.cli.question", "diag", "build, settings and where they come from"),
    "reload-tls": ("warren.cli.question", "reload_tls", "load the certificate anew"),
    "doctor": ("warren.cli.doctor", "doctor", "check the metadata of a node, and repair it"),
    "list-queues": ("warren.cli.question", "list_queues", "queues, a page at a time"),
    "list-connections": ("warren.cli.question", "list_connections", "client connections"),
    "delayed": ("warren.cli.delayed", "delayed", "delayed messages: list them, cancel them"),
    "peek": ("warren.cli.peek", "peek", "look at messages of a queue without consuming them"),
    "export": ("warren.cli.export", "export", "messages of a queue as JSON lines"),
    "replay": ("warren.cli.replay", "replay", "publish a slice of a queue again"),
    "cursor": ("warren.cli.cursor", "cursor", "positions that hold the history of a queue"),
    "version": ("warren.cli.main", "version", "print the version"),
    "bench": ("warren.bench.main", "main", "measure a broker"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    verb = words[0] if words else ""
    if verb in {"", "-h", "--help", "help"}:
        print(usage(), file=sys.stdout if verb else sys.stderr)
        return 0 if verb else 2
    if verb in {"-V", "--version"}:
        verb = "version"
    if verb not in VERBS:
        print(f"warren: {_unknown(verb)}", file=sys.stderr)
        return 2
    return _run(verb, words[1:])


def usage() -> str:
    """Return the help of the whole command."""
    verbs = "\n".join(f"  {verb:<17} {line}" for verb, (_, _, line) in VERBS.items())
    return (
        f"usage: warren VERB [options]\n\n{verbs}\n\n"
        "`warren VERB --help` has the options of a verb.\n"
        "exit codes: 0 done, 1 failed or unhealthy, 2 wrong usage, 69 no node runs there,\n"
        "            75 no answer in time, 77 not permitted, 78 configuration refused"
    )


def version(words: Sequence[str]) -> int:
    """Print the version of this installation."""
    from warren import __version__

    print(f"warren {__version__}")
    return 0


def _run(verb: str, words: Sequence[str]) -> int:
    from importlib import import_module

    from warren.cli.exit import INTERRUPTED, CliError

    module, function, _ = VERBS[verb]
    try:
        code = getattr(import_module(module), function)(words)
        sys.stdout.flush()
    except CliError as refusal:
        print(f"warren: {refusal}", file=sys.stderr)
        return refusal.code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has seen enough (`warren status | head`); nothing may be flushed at the end.
        sys.stdout = None
        return 0
    except SystemExit as end:
        # argparse ends this way after --help and after a wrong option.
        return end.code if isinstance(end.code, int) else 2
    return int(code or 0)


def _unknown(verb: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(verb.replace("_", "-"), list(VERBS), n=1)
    hint = f"did you mean {near[0]}?" if near else "`warren --help` lists the verbs"
    return f"there is no verb {verb!r}; {hint}"


if __name__ == "__main__":
    sys.exit(main())
