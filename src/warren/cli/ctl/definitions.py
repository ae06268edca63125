"""Verbs that export and import definitions, by way of the node's commands of these names."""

import json
import sys
from pathlib import Path

from warren.cli.ctl.call import Call
from warren.cli.ctl.failure import DATA, failed


def export_definitions(call: Call) -> None:
    target = call.arguments[0]
    _json_only(call)
    if target != "-":
        call.banner(f'Exporting definitions in JSON to a file at "{target}" ...')
    text = json.dumps(call.ask("export_definitions"), separators=(",", ":"), ensure_ascii=False)
    if target == "-":
        sys.stdout.write(text)
        return
    try:
        Path(target).write_text(text)
    except OSError as failure:
        raise failed(f"{target}: {failure.strerror}") from None


def import_definitions(call: Call) -> None:
    source = call.arguments[0] if call.arguments else "-"
    _json_only(call)
    where = "stdin" if source == "-" else f'a file at "{source}"'
    call.banner(f"Importing definitions in JSON from {where} ...")
    try:
        found = json.loads(sys.stdin.read() if source == "-" else Path(source).read_text())
    except OSError as failure:
        raise failed(f"{source}: {failure.strerror}", DATA) from None
    except ValueError:
        raise failed("Failed to parse JSON", DATA) from None
    call.ask("import_definitions", definitions=found)
    call.done("Successfully imported definitions")


def _json_only(call: Call) -> None:
    if call.options.get("format", "json").lower() != "json":
        raise failed("definitions are JSON here", DATA)
