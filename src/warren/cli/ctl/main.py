"""The command `warrenctl`: takes a command line, runs its verb, returns the exit code.

Errors go to stderr: `Error:` with what the node said, or the usage of the verb when the words are
wrong. Importing this module imports none of the verbs.
"""

import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper

from warren.cli.ctl.failure import CRASHED, OK, TIMEOUT, CtlError, Misuse
from warren.cli.ctl.verbs import VERBS, Verb
from warren.cli.ctl.words import Words, check, read


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    given = list(sys.argv[1:] if argv is None else argv)
    if isinstance(sys.stdout, TextIOWrapper):
        # What the terminal's encoding does not have is escaped, like on stderr.
        sys.stdout.reconfigure(errors="backslashreplace")
    words = read(given, {name: verb.usage for name, verb in VERBS.items()})
    try:
        code = run(words, given)
        sys.stdout.flush()
    except CtlError as failure:
        return say(failure.text, failure.code)
    except Misuse as failure:
        told = f"{failure.text}\nArguments given:\n\t{' '.join(given)}\n\n{usage(words.verb)}"
        return say(told, failure.code)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader has seen enough (`| head`); nothing may be flushed at the end.
        sys.stdout = None
        return OK
    return code


def run(words: Words, given: Sequence[str]) -> int:
    """Run the verb that the words name."""
    verb = VERBS.get(words.verb)
    if verb is None or not verb.run or "help" in words.options:
        from warren.cli.ctl.helping import helping

        return helping(words)
    check(words, verb.usage)
    if words.options.get("formatter", "table") not in _FORMATTERS:
        return say(f"there is no formatter {words.options['formatter']}", CRASHED)
    if "dry-run" in words.options:
        print(f"would run: {' '.join(given)}")
        return OK
    from warren.cli.ctl.link import LateError

    try:
        return call(words, verb)
    except LateError:
        asked = words.options.get("timeout", "60")
        value = f"{float(asked) * 1000:g}" if asked != "infinity" else asked
        node = words.options.get("node", "the node")
        text = f"Error: operation {words.verb} on {node} timed out. Timeout value used: {value}"
        return say(text, TIMEOUT)


def call(words: Words, verb: Verb) -> int:
    """Import what the verb needs and run it."""
    from importlib import import_module

    from warren.cli.ctl.call import Call, told, unreachable
    from warren.cli.ctl.link import RefusedError, UnreachableError

    module, _, function = verb.run.partition(":")
    made = Call(words)
    try:
        if module != "missing" and function not in _ALONE:
            made.connect(app=verb.app)
        code = getattr(import_module(_MODULES[module]), function)(made)
    except RefusedError as refusal:
        raise told(refusal, words.verb) from None
    except UnreachableError as failure:
        path = "" if made.link is None else made.link.path
        raise CtlError(unreachable(made.name, path, str(failure))) from None
    finally:
        if made.link is not None:
            sys.stdout.flush()
            made.link.close()
    return OK if code is None else int(code)


_MODULES = {
    "access": "warren.cli.ctl.access",
    "checks": "warren.cli.ctl.checks",
    "definitions": "warren.cli.ctl.definitions",
    "evals": "warren.cli.ctl.evals",
    "lists": "warren.cli.ctl.lists",
    "missing": "warren.cli.ctl.missing",
    "nodes": "warren.cli.ctl.nodes",
    "parameters": "warren.cli.ctl.parameters",
    "policies": "warren.cli.ctl.policies",
    "queues": "warren.cli.ctl.queues",
    "runtime": "warren.cli.ctl.runtime",
    "status": "warren.cli.ctl.status",
    "users": "warren.cli.ctl.users",
    "vhosts": "warren.cli.ctl.vhosts",
}
# Verbs that find their node themselves: it may not be there yet.
_ALONE = frozenset({"await_startup", "wait", "stop", "shutdown"})
_FORMATTERS = frozenset(
    {
        "table",
        "pretty_table",
        "csv",
        "json",
        "json_stream",
        "erlang",
        "string",
        "inspect",
        "report",
        "string_per_line",
        "plugins",
    }
)


def program() -> str:
    """Return the name the command was called by: a link may call it rabbitmqctl."""
    name = os.path.basename(sys.argv[0])
    return name if name.startswith(("warren", "rabbitmq")) else "warrenctl"


def usage(verb: str) -> str:
    found = VERBS.get(verb)
    line = f"{program()} [--node <node>] [--longnames] [--quiet] "
    rest = "<command> [<command options>]" if found is None else f"{verb} {found.usage}"
    return f"\x1b[1mUsage\x1b[0m\n\n{(line + rest).rstrip()}"


def say(text: str, code: int) -> int:
    sys.stdout.flush()
    print(text, file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
