"""Verbs that export and import definitions: all metadata as one JSON document (O-7.1 to O-7.4).

An export is made of the node's feed, as the management process makes it; an import is taken apart
here and made true by the node as a whole, or not at all.
"""

import json
import sys
from pathlib import Path
from typing import cast

import msgspec
from msgspec import Raw, Struct

from warren.cli.ctl.call import Call
from warren.cli.ctl.failure import DATA, failed
from warren.management.answer import HttpError
from warren.management.api.definition import document, parts
from warren.management.copy import Copy
from warren.management.feed import DECODER, Begun, Complete, Position
from warren.vhost.change import Change, VHostPut
from warren.vhost.definition import DefinitionError, read

# The feed goes on with counters; nobody waits for those.
INTERVAL_MS = 3_600_000


class _Line(Struct):
    rows: Raw = Raw(b"[]")


def export_definitions(call: Call) -> None:
    target = call.arguments[0]
    _json_only(call)
    if target != "-":
        call.banner(f'Exporting definitions in JSON to a file at "{target}" ...')
    text = msgspec.json.encode(document(_copy(call))).decode()
    if target == "-":
        sys.stdout.write(text)
        return
    try:
        Path(target).write_text(text)
    except OSError as failure:
        raise failed(f"{target}: {failure.strerror}") from None


def _copy(call: Call) -> Copy:
    """Read the feed until every object has been told."""
    assert call.link is not None
    copy = Copy()
    for line in call.link.told("feed", interval_ms=INTERVAL_MS):
        for told in DECODER.decode(msgspec.json.decode(line, type=_Line).rows):
            if isinstance(told, Complete):
                return copy
            if not isinstance(told, Begun | Position):
                copy.apply(told)
    return copy


def import_definitions(call: Call) -> None:
    source = call.arguments[0] if call.arguments else "-"
    _json_only(call)
    where = "standard input" if source == "-" else f'a file at "{source}"'
    call.banner(f"Importing definitions in JSON from {where} ...")
    try:
        text = sys.stdin.read() if source == "-" else Path(source).read_text()
        found = json.loads(text)
    except OSError as failure:
        raise failed(f"{source}: {failure.strerror}", DATA) from None
    except ValueError:
        raise failed("Failed to parse JSON", DATA) from None
    if not isinstance(found, dict):
        raise failed("definitions are a JSON object", DATA)
    try:
        changes = list(read(cast("dict[str, object]", found)))
        _check_vhosts(call, changes)
        requests = list(parts(changes))
    except (DefinitionError, HttpError) as refusal:
        raise failed(str(refusal), DATA) from None
    number = call.ask("import_begin")["id"]
    for part in requests:
        call.ask("import_part", id=number, changes=[json.loads(one) for one in part])
    call.ask("import_apply", id=number)
    call.done("" if call.quiet else "Successfully started definition import")


def _check_vhosts(call: Call, changes: list[Change]) -> None:
    """Every virtual host that is named is there, or comes with the document."""
    known = {row[0] for row in call.rows("list_vhosts", columns=("name",))}
    known |= {one.name for one in changes if isinstance(one, VHostPut)}
    for one in changes:
        vhost: object = getattr(one, "vhost", None)
        if isinstance(vhost, str) and vhost not in known:
            raise DefinitionError(f"Virtual host '{vhost}' does not exist")


def _json_only(call: Call) -> None:
    if call.options.get("format", "json").lower() != "json":
        raise failed("definitions are JSON here", DATA)
