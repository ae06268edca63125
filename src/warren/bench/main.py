"""`warren bench`: the command."""

import resource
import sys
from contextlib import suppress
from pathlib import Path

from warren.bench import connecting, report
from warren.bench.arguments import parse
from warren.bench.link import BenchError
from warren.bench.live import terminal_display
from warren.bench.option import Options
from warren.bench.run import run_load

STATUS_OK = 0
STATUS_FAULTS = 1
STATUS_FAILED = 2


def main(argv: list[str]) -> int:
    """Run the load that `argv` asks for; the exit status."""
    try:
        options = parse(argv)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else STATUS_FAILED
    try:
        result, text = perform(options)
    except BenchError as error:
        sys.stderr.write(f"warren bench: {error}\n")
        return STATUS_FAILED
    except KeyboardInterrupt:
        return STATUS_FAILED
    line = report.to_json(result) + "\n"
    if options.json == "-":
        sys.stdout.write(line)
    elif options.json:
        Path(options.json).write_text(line)
    if not options.quiet:
        target = sys.stderr if options.json == "-" else sys.stdout
        target.write(text + "\n")
    return STATUS_OK if result["ok"] else STATUS_FAULTS


def raise_file_limit() -> None:
    """As many connections as the system lets this user have."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def perform(options: Options) -> tuple[report.Report, str]:
    """The result as JSON values and as text."""
    raise_file_limit()
    if options.mode == "idle":
        result = connecting.run_idle(options)
        return result, connecting.to_text(result)
    if options.mode == "connect":
        result = connecting.run_connect(options)
        return result, connecting.to_text(result)
    display = terminal_display(quiet=options.quiet, interval_s=options.interval)
    outcome = run_load(options, display)
    result = report.build(options, outcome)
    return result, report.to_text(result)
