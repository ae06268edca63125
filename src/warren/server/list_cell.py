"""What the lists have in common: the cells of a row, made only for the columns asked for.

A cell is a function from the object to its value in one column. Values are JSON's; an AMQP table
is a list of `[key, type, value]`, so that a client can print it the way RabbitMQ's tools do.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

from warren.core.seam import Clock
from warren.protocol.value import Decimal_, Field, Table, kind_name
from warren.server.control import Code, ControlError

T = TypeVar("T")
Cell = Callable[[T], object]

# A slice of a list: short enough that messages do not notice, long enough that a list of 50,000
# takes a hundred of them.
SLICE_NS: Final = 1_000_000
# Under a clock that stands still a slice ends all the same.
STEPS_MAX: Final = 1000


def cells(table: Mapping[str, Cell[T]], columns: Sequence[str]) -> list[Cell[T]]:
    """Return the cells of these columns; refuse names that there are not."""
    unknown = sorted({name for name in columns if name not in table})
    if unknown:
        message = f"Info key(s) {','.join(unknown)} are not supported"
        raise ControlError(Code.BAD_ARGUMENTS, message, f"columns are {', '.join(table)}")
    return [table[name] for name in dict.fromkeys(columns)]


def row(made: Sequence[Cell[T]], one: T) -> list[object]:
    return [cell(one) for cell in made]


def sliced(
    steps: Iterable[T | None], clock: Clock, *, slice_ns: int = SLICE_NS
) -> Iterator[list[T]]:
    """Gather rows into slices of a turn; a step without a row counts towards the slice."""
    gathered: list[T] = []
    count = 0
    until = clock.monotonic_ns() + slice_ns
    for one in steps:
        count += 1
        if one is not None:
            gathered.append(one)
        if count >= STEPS_MAX or clock.monotonic_ns() >= until:
            yield gathered
            gathered = []
            count = 0
            until = clock.monotonic_ns() + slice_ns
    if gathered:
        yield gathered


def typed_table(values: Table) -> list[object]:
    """Return a table with the types of its values, in RabbitMQ's words."""
    return [[key, kind_name(int(item.kind)), _typed(item)] for key, item in values.items()]


def _typed(item: Field) -> object:
    value = item.value
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, list):
        return [[kind_name(int(entry.kind)), _typed(entry)] for entry in value]
    if isinstance(value, dict):
        return typed_table(value)
    if isinstance(value, Decimal_):
        return [int(value.scale), int(value.value)]
    if value is None:
        return "undefined"
    return value
