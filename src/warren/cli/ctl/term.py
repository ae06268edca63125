"""Values as text: cells of a table, and Erlang terms, the way RabbitMQ's tools write them.

A reply's values are JSON; what they are in RabbitMQ follows from the column: `TABLES` hold AMQP
tables as `[key, type, value]`, `ATOMS` hold words that are atoms there.
"""

import json
from collections.abc import Sequence
from typing import Final, cast

TABLES: Final = frozenset({"arguments", "client_properties"})
# JSON that is shown as text, in JSON too (T-19).
TEXTS: Final = frozenset({"definition", "effective_policy_definition", "value", "limits"})
ATOMS: Final = frozenset(
    {
        "state",
        "type",
        "source_kind",
        "destination_kind",
        "activity_status",
        "tags",
        "apply-to",
        "stability",
        "tracing",
        "default_queue_type",
        "cluster_state",
    }
)
TUPLES: Final = frozenset({"protocol"})
_SHORT: Final = 80


def cell(column: str, value: object) -> str:
    """Return a value as a cell of a table."""
    if value is None:
        return ""
    if column in TEXTS and not isinstance(value, str):
        return compact(value)
    if column in TABLES:
        return _table(cast("list[list[object]]", value))
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return "[" + ", ".join(f"{{{key}, {cell('', one)}}}" for key, one in value.items()) + "]"
    if isinstance(value, list):
        inside = [cell("", one) for one in value]
        if column in TUPLES:
            return "{" + ",".join(inside) + "}"
        return "[" + ", ".join(inside) + "]"
    return str(value)


def compact(value: object) -> str:
    """Return JSON without spaces."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _table(rows: Sequence[Sequence[object]]) -> str:
    return "[" + ",".join(f'{{"{row[0]}",{_plain(row[1], row[2])}}}' for row in rows) + "]"


def _plain(kind: object, value: object) -> str:
    if kind == "table":
        return _table(cast("list[list[object]]", value))
    if kind == "array":
        entries = cast("list[list[object]]", value)
        return "[" + ",".join(_plain(one[0], one[1]) for one in entries) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{value}"' if isinstance(value, str) and kind != "void" else cell("", value)


def for_json(column: str, value: object) -> object:
    """Return a value as it stands in JSON."""
    if value is None:
        return ""
    if column in TEXTS and not isinstance(value, str):
        return compact(value)
    return value


def term(column: str, value: object) -> str:
    """Return a value as an Erlang term."""
    if value is None:
        return "''"
    if column in TEXTS and not isinstance(value, str):
        return binary(compact(value))
    if column in TABLES:
        return _term_table(cast("list[list[object]]", value))
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return atom(value) if column in ATOMS else binary(value)
    if isinstance(value, dict):
        return (
            "["
            + ",".join(f"{{{atom(key)},{term(column, one)}}}" for key, one in value.items())
            + "]"
        )
    if isinstance(value, list):
        inside = ",".join(term(column, one) for one in value)
        return f"{{{inside}}}" if column in TUPLES else f"[{inside}]"
    return str(value)


def _term_table(rows: Sequence[Sequence[object]]) -> str:
    inside = (f"{{{binary(str(row[0]))},{row[1]},{_term_of(row[1], row[2])}}}" for row in rows)
    return "[" + ",".join(inside) + "]"


def _term_of(kind: object, value: object) -> str:
    if kind == "table":
        return _term_table(cast("list[list[object]]", value))
    if kind == "array":
        entries = cast("list[list[object]]", value)
        return "[" + ",".join(f"{{{one[0]},{_term_of(one[0], one[1])}}}" for one in entries) + "]"
    return "undefined" if kind == "void" else term("", value)


def atom(text: str) -> str:
    """Return an atom, quoted if it must be."""
    plain = text[:1].islower() and text.replace("_", "a").replace("@", "a").isalnum()
    if plain and text.isascii():
        return text
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def binary(text: str) -> str:
    """Return text as a binary."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    for char, written in (("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r")):
        escaped = escaped.replace(char, written)
    kind = "" if text.isascii() else "/utf8"
    return f'<<"{escaped}"{kind}>>'


def broken(items: Sequence[str], lead: str = "") -> str:
    """Return a list of terms, on one line if it is short."""
    line = "[" + ",".join(items) + "]"
    if len(lead) + len(line) <= _SHORT:
        return line
    return "[" + (",\n" + lead + " ").join(items) + "]"
