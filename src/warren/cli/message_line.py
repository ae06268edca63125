"""A message as one line of JSON, and as text that a terminal can be trusted with.

In JSON a header is written as what it is in JSON, if reading it back gives the same value; the
width of a number is not told. What JSON has no word for is an object with one key: `$base64` for
octets that are no UTF-8, `$timestamp` for a point in time in seconds, `$decimal` for a decimal as
text, `$double` for numbers that are none. A body that is UTF-8 is text; any other has
`body_encoding` base64.
"""

import base64
import json
import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from warren.protocol.properties import decode
from warren.protocol.value import BINARY, TIMESTAMP, Decimal_, Field, Table
from warren.protocol.wire import DecodeError

if TYPE_CHECKING:
    from warren.cli.slice import Item

NAMES: Final = (
    "content_type",
    "content_encoding",
    "headers",
    "delivery_mode",
    "priority",
    "correlation_id",
    "reply_to",
    "expiration",
    "message_id",
    "timestamp",
    "type",
    "user_id",
    "app_id",
    "cluster_id",
)
HEX_LINE: Final = 16


def as_object(item: "Item", incarnation: int, *, state: bool = False) -> dict[str, object]:
    """What is told of a message, in the order of the line."""
    told: dict[str, object] = {"seq": item.seq, "incarnation": incarnation, "ts": item.ts}
    if state:
        told |= {"state": item.state, "redelivered": item.redelivered}
    told |= {"exchange": item.exchange, "routing_key": item.routing_key}
    told["properties"] = properties(item.props)
    told["size"] = item.size
    try:
        told["body"] = item.body.decode()
    except UnicodeDecodeError:
        told["body_encoding"] = "base64"
        told["body"] = base64.b64encode(item.body).decode()
    return told


def line(item: "Item", incarnation: int) -> str:
    return json.dumps(as_object(item, incarnation), ensure_ascii=False, separators=(",", ":"))


def properties(props: bytes) -> dict[str, object]:
    """The properties by name; `$base64` has them all if they cannot be read."""
    try:
        found = decode(props)
    except DecodeError:
        return {"$base64": base64.b64encode(props).decode()}
    told: dict[str, object] = {}
    for name in NAMES:
        value = getattr(found, name)
        if value is not None:
            told[name] = _table(value) if name == "headers" else value
    return told


def _table(values: Table) -> dict[str, object]:
    return {key: _value(item) for key, item in values.items()}


def _value(item: Field) -> object:
    value = item.value
    if isinstance(value, bytes):
        if item.kind != BINARY:
            try:
                return value.decode()
            except UnicodeDecodeError:
                pass
        return {"$base64": base64.b64encode(value).decode()}
    if isinstance(value, list):
        return [_value(entry) for entry in value]
    if isinstance(value, dict):
        return _table(value)
    if isinstance(value, Decimal_):
        return {"$decimal": _decimal(value)}
    if item.kind == TIMESTAMP:
        return {"$timestamp": value}
    if isinstance(value, float) and not math.isfinite(value):
        return {"$double": str(value)}
    return value


def _decimal(value: Decimal_) -> str:
    scale = int(value.scale)
    digits = str(int(value.value)).rjust(scale + 1, "0")
    return f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits


# -- for people ------------------------------------------------------------------------------------


def text(item: "Item", most: int) -> str:
    """A message on some lines: what it is, its properties, the beginning of its body."""
    from warren.cli.render import clean, size

    again = ", redelivered" if item.redelivered and item.state == "ready" else ""
    head = f"{item.seq}  {item.state}{again}  {_when(item.ts)}  {size(item.size)}"
    lines = [f"{head}  exchange '{clean(item.exchange)}', key '{clean(item.routing_key)}'"]
    for name, value in properties(item.props).items():
        shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=True)
        lines.append(f"    {name}: {clean(shown)}")
    lines += [f"    | {one}" for one in body_lines(item.body[:most], cut=item.size > most)]
    return "\n".join(lines)


def _when(ts: int | None) -> str:
    if ts is None:
        return "in memory"
    at = datetime.fromtimestamp(ts / 1_000_000, UTC)
    return at.isoformat(sep=" ", timespec="milliseconds").removesuffix("+00:00")


def body_lines(body: bytes, *, cut: bool) -> list[str]:
    """Text if it is text that a terminal shows, else octets in hexadecimal."""
    shown = _as_text(body, cut=cut)
    if shown is None:
        lines = [
            f"{part.hex(' '):<{HEX_LINE * 3}} {_visible(part)}"
            for part in (body[at : at + HEX_LINE] for at in range(0, len(body), HEX_LINE))
        ]
    else:
        lines = shown.split("\n")
    return [*lines, "..."] if cut else lines


def _as_text(body: bytes, *, cut: bool) -> str | None:
    # A character that was cut in the middle is left out.
    for end in range(len(body), max(len(body) - 4, -1) if cut else len(body) - 1, -1):
        try:
            shown = body[:end].decode()
        except UnicodeDecodeError:
            continue
        shown = shown.replace("\r\n", "\n").replace("\t", "    ")
        return shown if all(one.isprintable() for one in shown.split("\n")) else None
    return None


def _visible(part: bytes) -> str:
    return "".join(chr(octet) if 32 <= octet < 127 else "." for octet in part)
