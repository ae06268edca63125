"""The formatters: rows and values as `table`, `pretty_table`, `csv`, `json`, `json_stream`,
`erlang`, `string`, `inspect` (O-1.4). Lists are written as their rows come, except where a width or
a bracket needs all of them.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from warren.cli.ctl.term import atom, broken, cell, for_json, term

# Formatters that are read by programs: no banner comes before them.
BARE: Final = frozenset({"json", "csv", "json_stream"})
Rows = Iterable[Sequence[object]]
_BOLD: Final = "\x1b[1m{}\x1b[0m"


def lines(formatter: str, columns: Sequence[str], rows: Rows, *, headers: bool) -> Iterator[str]:
    """Give the lines of a list."""
    return FORMATTERS[formatter](columns, rows, headers)


def _table(columns: Sequence[str], rows: Rows, headers: bool) -> Iterator[str]:
    for row in rows:
        if headers:
            yield "\t".join(columns)
            headers = False
        yield "\t".join(map(cell, columns, row))


def _csv(columns: Sequence[str], rows: Rows, headers: bool) -> Iterator[str]:
    for row in rows:
        if headers:
            yield ",".join(map(_quoted, columns))
            headers = False
        yield ",".join(map(_quoted, map(cell, columns, row)))


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _object(columns: Sequence[str], row: Sequence[object]) -> str:
    named = zip(columns, map(for_json, columns, row), strict=True)
    return json.dumps(dict(named), separators=(",", ":"), ensure_ascii=False)


def _json(columns: Sequence[str], rows: Rows, headers: bool) -> Iterator[str]:
    yield "["
    comma = ""
    for row in rows:
        yield comma + _object(columns, row)
        comma = ","
    yield "]"


def _json_stream(columns: Sequence[str], rows: Rows, headers: bool) -> Iterator[str]:
    for row in rows:
        yield _object(columns, row)
        yield ""


def _erlang(columns: Sequence[str], rows: Rows, headers: bool) -> Iterator[str]:
    yield broken([broken(_pairs(columns, row), " ") for row in rows])


def _pairs(columns: Sequence[str], row: Sequence[object]) -> list[str]:
    named = zip(columns, row, strict=True)
    return [f"{{{atom(name)},{term(name, value)}}}" for name, value in named]


def _string(columns: Sequence[str], rows: Rows, headers: bool) -> Iterator[str]:
    for row in rows:
        yield "[" + ", ".join(_pairs(columns, row)) + "]"


def _inspect(columns: Sequence[str], rows: Rows, headers: bool) -> Iterator[str]:
    yield "["
    comma = ""
    for row in rows:
        yield comma + "[" + ", ".join(_pairs(columns, row)) + "]"
        comma = ","
    yield "]"


def _pretty(columns: Sequence[str], rows: Rows, headers: bool) -> Iterator[str]:
    table = [[_flat(cell(*pair)) for pair in zip(columns, row, strict=True)] for row in rows]
    if not table:
        return
    every = [list(columns), *table] if headers else table
    widths = [max(len(row[index]) for row in every) + 2 for index in range(len(columns))]
    yield _rule("lwk", widths)
    if headers:
        yield _line([_BOLD.format(name) for name in columns], columns, widths)
        yield _rule("tnu", widths)
    for number, row in enumerate(table):
        if number:
            yield _rule("tnu", widths)
        yield _line(row, row, widths)
    yield _rule("mvj", widths)


def _flat(text: str) -> str:
    """Tabs would break the box."""
    return text.expandtabs()


def _rule(corners: str, widths: Sequence[int]) -> str:
    inside = corners[1].join("q" * width for width in widths)
    return "\x1b(0" + corners[0] + inside + corners[2] + "\x1b(B"


def _line(shown: Sequence[str], plain: Sequence[str], widths: Sequence[int]) -> str:
    bar = "\x1b(0x\x1b(B"
    cells = (
        f" {text}{' ' * (width - len(bare) - 1)}"
        for text, bare, width in zip(shown, plain, widths, strict=True)
    )
    return bar + bar.join(cells) + bar


FORMATTERS: Final[dict[str, Callable[[Sequence[str], Rows, bool], Iterator[str]]]] = {
    "table": _table,
    "pretty_table": _pretty,
    "csv": _csv,
    "json": _json,
    "json_stream": _json_stream,
    "erlang": _erlang,
    "string": _string,
    "inspect": _inspect,
}
