"""Lists over HTTP: filtered, sorted, cut into pages, and reduced to columns (O-4.3, O-4.4).

Objects are made of what the copy has only when they are shown, or when the order asks for one of
their fields; so a page of 50,000 queues by name costs what it shows.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar, cast

from warren.management.answer import HttpError, Reply, bad_request, said
from warren.management.request import Request
from warren.security.pattern import Pattern, PatternError

T = TypeVar("T")
Shown = dict[str, object]
PAGE_SIZE: Final = 100
PAGE_SIZE_MAX: Final = 500
# Objects made before others have their turn.
SLICE: Final = 500
# What names are sorted by already.
BY_NAME: Final = frozenset({"", "name", "vhost"})


async def listed(
    request: Request,
    found: Sequence[T],
    name_of: Callable[[T], tuple[str, str]],
    show: Callable[[T], Shown],
    *,
    paged: bool = True,
) -> Reply:
    """Answer with a list; `name_of` gives virtual host and name."""
    query = request.query
    wanted = [column for column in query.get("columns", "").split(",") if column]
    reverse = query.get("sort_reverse") == "true"
    sort = query.get("sort", "")
    if not paged or "page" not in query:
        kept = list(found)
        shown = await _sorted(kept, name_of, show, sort, reverse=reverse)
        return said([projected(one, wanted) for one in shown])
    page, size = _page(query)
    kept = _filtered(found, name_of, query)
    if sort in BY_NAME:
        kept.sort(key=lambda one: _by_name(name_of(one), sort), reverse=reverse)
        of_page = [show(one) for one in _cut(kept, page, size)]
    else:
        of_page = _cut(await _sorted(kept, name_of, show, sort, reverse=reverse), page, size)
    return said(
        {
            "filtered_count": len(kept),
            "item_count": len(of_page),
            "items": [projected(one, wanted) for one in of_page],
            "page": page,
            "page_count": max(1, -(-len(kept) // size)),
            "page_size": size,
            "total_count": len(found),
        }
    )


def _by_name(place: tuple[str, str], sort: str) -> tuple[str, str]:
    return (place[1], place[0]) if sort == "name" else place


async def _sorted(
    kept: list[T],
    name_of: Callable[[T], tuple[str, str]],
    show: Callable[[T], Shown],
    sort: str,
    *,
    reverse: bool,
) -> list[Shown]:
    kept.sort(key=lambda one: _by_name(name_of(one), sort), reverse=reverse and sort in BY_NAME)
    shown: list[Shown] = []
    for count, one in enumerate(kept, 1):
        shown.append(show(one))
        if count % SLICE == 0:
            await asyncio.sleep(0)
    if sort not in BY_NAME:
        path = sort.split(".")
        shown.sort(key=lambda one: _rank(at(one, path)), reverse=reverse)
    return shown


def _rank(value: object) -> tuple[int, float, str]:
    """Put values of all types in one order; what is not there comes first."""
    if value is None:
        return 0, 0.0, ""
    if isinstance(value, int | float):
        return 1, float(value), ""
    return 2, 0.0, str(value)


def at(shown: Mapping[str, object], path: Sequence[str]) -> object:
    """The value at a path of names; None without one."""
    found: object = shown
    for name in path:
        if not isinstance(found, dict):
            return None
        found = cast("Shown", found).get(name)
    return found


def projected(shown: Shown, columns: Sequence[str]) -> Shown:
    """Reduce an object to columns, which may be paths; without columns it stays whole."""
    if not columns:
        return shown
    kept: Shown = {}
    for column in columns:
        path = column.split(".")
        value = at(shown, path)
        if value is None and path[-1] not in shown:
            continue
        place = kept
        for name in path[:-1]:
            place = cast("Shown", place.setdefault(name, {}))
        place[path[-1]] = value
    return kept


def _page(query: Mapping[str, str]) -> tuple[int, int]:
    try:
        page = int(query["page"])
        size = int(query["page_size"]) if "page_size" in query else None
    except ValueError:
        raise bad_request("Pagination parameters are invalid") from None
    told = "undefined" if size is None else size
    if page < 1 or (size is not None and not 1 <= size <= PAGE_SIZE_MAX):
        reason = f"Invalid pagination parameters: page number {page}, page size {told}"
        raise HttpError(400, "invalid_pagination_parameters", reason)
    return page, size or PAGE_SIZE


def _cut(kept: Sequence[T], page: int, size: int) -> list[T]:
    first = (page - 1) * size
    if first >= len(kept) and page > 1:
        reason = f"Page out of range, page: {page} page size: {size}, len: {len(kept)}"
        raise HttpError(400, "page_out_of_range", reason)
    return list(kept[first : first + size])


def _filtered(
    found: Sequence[T], name_of: Callable[[T], tuple[str, str]], query: Mapping[str, str]
) -> list[T]:
    name = query.get("name", "")
    if not name:
        return list(found)
    if query.get("use_regex") == "true":
        try:
            pattern = Pattern(f"(?i){name}")
        except PatternError:
            raise bad_request("Pagination parameters are invalid") from None
        return [one for one in found if pattern.found_in(name_of(one)[1].encode())]
    lowered = name.lower()
    return [one for one in found if lowered in name_of(one)[1].lower()]
