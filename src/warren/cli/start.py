"""`warren start`: read the configuration from its four sources and run a node in the foreground."""

import os
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from functools import partial

from warren.cli.exit import CONFIG, FAILED, OK, USAGE, CliError
from warren.cli.render import paint, table
from warren.runtime.lock import LockHeldError
from warren.server.config import KEYS, Settings
from warren.server.config_entry import ConfigError, Entry, nearest
from warren.server.config_load import load


def start(words: Sequence[str]) -> int:
    """Run a node until it is stopped."""
    given, unknown = parser().parse_known_args(words)
    if unknown:
        raise CliError(_unknown(unknown[0]), USAGE)
    options: list[tuple[str, str]] = given.options or []
    entries = [_entry(option, value) for option, value in options]
    try:
        settings = load(file=given.config, env=os.environ, options=entries)
    except ConfigError as refusal:
        count = len(refusal.problems)
        head = f"configuration refused, {count} problem{'' if count == 1 else 's'}:"
        raise CliError(f"{head}\n{refusal}", CONFIG) from None
    if given.check:
        # A node that starts tells them in its log.
        for note in settings.notes:
            print(f"warren: {note}", file=sys.stderr)
        print(settings_text(settings))
        return OK
    return _run(settings)


def parser() -> ArgumentParser:
    """Return the options of `start`: one for every setting, in the order they were given."""
    made = ArgumentParser(
        prog="warren start",
        usage="warren start [--config FILE] [--check] [--set KEY=VALUE ...] [--SETTING VALUE ...]",
        description="Start a node in the foreground. Later wins: defaults, file, environment "
        "(WARREN_PORT=...), options.",
        allow_abbrev=False,
    )
    made.add_argument(
        "--config",
        metavar="FILE",
        help="configuration file: TOML (.toml) or RabbitMQ's (.conf, .config)",
    )
    made.add_argument(
        "--set",
        metavar="KEY=VALUE",
        dest="options",
        action="append",
        type=partial(_pair, "--set"),
        help="any setting, also under its RabbitMQ name; may be repeated",
    )
    made.add_argument("--check", action="store_true", help="check, print the settings, and end")
    for name, facts in KEYS.items():
        option = "--" + name.replace("_", "-")
        made.add_argument(
            option,
            metavar="VALUE",
            dest="options",
            action="append",
            type=partial(_pair, option),
            help=facts.doc.replace("%", "%%"),
        )
    return made


def _unknown(option: str) -> str:
    name = option.removeprefix("--").partition("=")[0]
    near = nearest(name, KEYS) if option.startswith("--") else ""
    hint = f"did you mean --{near.replace('_', '-')}?" if near else "see `warren start --help`"
    return f"there is no option {option}; {hint}"


def _pair(option: str, written: str) -> tuple[str, str]:
    return option, written


def settings_text(settings: Settings) -> str:
    """Return every setting with its value and origin."""
    rows = [(name, settings.shown(name), settings.origin(name)) for name in KEYS]
    return table(("setting", "value", "from"), rows, paint())


def _entry(option: str, written: str) -> Entry:
    if option != "--set":
        return Entry(option.removeprefix("--").replace("-", "_"), written, option)
    name, equals, value = written.partition("=")
    if not equals:
        raise CliError(f"--set {written}: expected KEY=VALUE", USAGE)
    return Entry(name.strip(), value.strip(), "--set")


def _run(settings: Settings) -> int:
    from warren.server.boot_definitions import BootDefinitionsError
    from warren.server.control_socket import SocketInUseError
    from warren.server.management import ManagementError
    from warren.server.metadata_file import MetadataError
    from warren.server.service import run
    from warren.server.tls import TlsError

    try:
        return run(settings)
    except (LockHeldError, ManagementError, SocketInUseError, TlsError) as refusal:
        raise CliError(f"not started: {refusal}", FAILED) from None
    except (BootDefinitionsError, MetadataError) as refusal:
        raise CliError(f"not started: {refusal}", CONFIG) from None
    except OSError as failure:
        place = f"{failure.filename}: " if failure.filename else ""
        print(f"warren: not started: {place}{failure.strerror or failure}", file=sys.stderr)
        return FAILED
