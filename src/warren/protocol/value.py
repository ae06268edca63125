"""Field values: what a table or an array may hold, and how values are compared and printed.

A `Field` keeps the type letter it was sent with, so a table that is read and written again keeps
its types (WI-5). Python values by kind: `S` and `x` bytes, `F` a `Table`, `A` a list of `Field`,
`t` bool, the integer kinds and `T` int, `f` and `d` float, `D` a `Decimal_`, `V` None.

Names and texts of types and values are RabbitMQ's, because clients see them in reply texts
(QD-1, reply texts of 406).
"""

from typing import Final, final

from mypy_extensions import i64

ARRAY: Final = 65  # A
UNSIGNED_BYTE: Final = 66  # B
DECIMAL: Final = 68  # D
TABLE: Final = 70  # F
SIGNED_INT: Final = 73  # I
LONG_AS_READ: Final = 76  # L, read as l and written as l
LONG_STRING: Final = 83  # S
TIMESTAMP: Final = 84  # T
VOID: Final = 86  # V
BYTE: Final = 98  # b
DOUBLE: Final = 100  # d
FLOAT: Final = 102  # f
UNSIGNED_INT: Final = 105  # i
LONG: Final = 108  # l
SHORT: Final = 115  # s
BOOL: Final = 116  # t
UNSIGNED_SHORT: Final = 117  # u
BINARY: Final = 120  # x

_KIND_NAMES: Final[dict[int, str]] = {
    ARRAY: "array",
    UNSIGNED_BYTE: "unsignedbyte",
    DECIMAL: "decimal",
    TABLE: "table",
    SIGNED_INT: "signedint",
    LONG_AS_READ: "long",
    LONG_STRING: "longstr",
    TIMESTAMP: "timestamp",
    VOID: "void",
    BYTE: "byte",
    DOUBLE: "double",
    FLOAT: "float",
    UNSIGNED_INT: "unsignedint",
    LONG: "long",
    SHORT: "short",
    BOOL: "bool",
    UNSIGNED_SHORT: "unsignedshort",
    BINARY: "binary",
}

# Kinds that compare as one class when arguments are compared (QD-1). `T` stays its own class.
_INTEGER_KINDS: Final[frozenset[int]] = frozenset(
    {UNSIGNED_BYTE, SIGNED_INT, LONG_AS_READ, BYTE, UNSIGNED_INT, LONG, SHORT, UNSIGNED_SHORT}
)
_INTEGER_CLASS: Final = LONG
_FLOAT_CLASS: Final = DOUBLE


@final
class Decimal_:
    """A decimal as AMQP has it: `value` (unsigned 32 bit) divided by ten to the power `scale`."""

    def __init__(self, scale: i64, value: i64) -> None:
        self.scale: i64 = scale
        self.value: i64 = value

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Decimal_) and self.scale == other.scale and self.value == other.value
        )

    def __hash__(self) -> int:
        return hash((int(self.scale), int(self.value)))

    def __repr__(self) -> str:
        return f"Decimal_({self.scale}, {self.value})"


@final
class Field:
    """One typed value: `kind` is the ASCII code of the type letter as it was sent."""

    def __init__(self, kind: i64, value: object) -> None:
        self.kind: i64 = kind
        self.value: object = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Field) and self.kind == other.kind and self.value == other.value

    def __hash__(self) -> int:
        kind = int(self.kind)
        if kind in (TABLE, ARRAY):
            return hash(kind)
        return hash((kind, self.value))

    def __repr__(self) -> str:
        return f"Field({chr(int(self.kind))!r}, {self.value!r})"


Table = dict[str, Field]


def kind_name(kind: int) -> str:
    """Return RabbitMQ's name of a type letter's code."""
    return _KIND_NAMES.get(kind, "unknown")


def field(value: object) -> Field:
    """Build a field from a plain Python value; a `Field` is returned as it is."""
    if isinstance(value, Field):
        return value
    if isinstance(value, str):
        return Field(LONG_STRING, value.encode())
    if isinstance(value, bytes):
        return Field(LONG_STRING, value)
    if isinstance(value, bool):
        return Field(BOOL, value)
    if isinstance(value, int):
        return Field(SIGNED_INT if -0x80000000 <= value <= 0x7FFFFFFF else LONG, value)
    if isinstance(value, float):
        return Field(DOUBLE, value)
    if value is None:
        return Field(VOID, None)
    if isinstance(value, dict):
        return Field(TABLE, table(value))
    if isinstance(value, (list, tuple)):
        return Field(ARRAY, [field(item) for item in value])
    if isinstance(value, Decimal_):
        return Field(DECIMAL, value)
    raise TypeError(f"no field type for {type(value).__name__}")


def is_integer(item: Field) -> bool:
    """Tell whether a field is of one of the integer types; a timestamp is not."""
    return int(item.kind) in _INTEGER_KINDS


def table(values: dict[str, object]) -> Table:
    """Build a table from plain Python values, in the order of the dict."""
    built: Table = {}
    for key, value in values.items():
        built[key] = field(value)
    return built


def sorted_table(values: Table) -> Table:
    """Return the table with its top-level keys in order, as rewritten headers come out (WI-5)."""
    ordered: Table = {}
    for key in sorted(values):
        ordered[key] = values[key]
    return ordered


def plain(item: Field) -> object:
    """Return the plain Python value: strings as text, tables as dicts, for people and JSON."""
    value = item.value
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, list):
        return [plain(entry) for entry in value]
    if isinstance(value, dict):
        return {key: plain(entry) for key, entry in value.items()}
    if isinstance(value, Decimal_):
        return float(value.value) / float(10 ** int(value.scale))
    return value


def _kind_class(kind: int) -> int:
    if kind in _INTEGER_KINDS:
        return _INTEGER_CLASS
    if kind == FLOAT:
        return _FLOAT_CLASS
    return kind


def same_value(a: Field | None, b: Field | None) -> bool:
    """Tell whether two arguments are equivalent: the same class of type and the same value.

    All integer kinds are one class, float and double are one; a timestamp equals only a
    timestamp, and a byte array (`x`) never equals a string (`S`), as in RabbitMQ (QD-1).
    Inside tables and arrays the same rule holds, whatever the order of a table's keys.
    """
    if a is None or b is None:
        return a is b
    if _kind_class(int(a.kind)) != _kind_class(int(b.kind)):
        return False
    left = a.value
    right = b.value
    if isinstance(left, dict) and isinstance(right, dict):
        if len(left) != len(right):
            return False
        return all(same_value(item, right.get(key)) for key, item in left.items())
    if isinstance(left, list) and isinstance(right, list):
        if len(left) != len(right):
            return False
        return all(same_value(left[at], right[at]) for at in range(len(left)))
    return left == right


def term_text(item: Field) -> str:
    """Return a value as RabbitMQ prints it between quotes in reply texts.

    A string is printed as it is; anything else as an Erlang term on one line.
    """
    if isinstance(item.value, bytes):
        return item.value.decode("utf-8", "backslashreplace")
    return _term(item.value)


def _term(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "undefined"
    if isinstance(value, bytes):
        return binary_text(value)
    if isinstance(value, Decimal_):
        return f"{{{value.scale},{value.value}}}"
    if isinstance(value, list):
        entries = [f"{{{kind_name(int(i.kind))},{_term(i.value)}}}" for i in value]
        return "[" + ",".join(entries) + "]"
    if isinstance(value, dict):
        entries = [
            f"{{{binary_text(key.encode())},{kind_name(int(i.kind))},{_term(i.value)}}}"
            for key, i in value.items()
        ]
        return "[" + ",".join(entries) + "]"
    return str(value)


def binary_text(value: bytes) -> str:
    """Return octets as an Erlang binary: `<<"text">>` when printable, else the numbers."""
    if value and all(32 <= octet < 127 for octet in value):
        text = value.decode("ascii").replace("\\", "\\\\").replace('"', '\\"')
        return f'<<"{text}">>'
    return octets_text(value)


def octets_text(value: bytes) -> str:
    """Return octets as an Erlang binary of numbers."""
    return "<<" + ",".join([str(octet) for octet in value]) + ">>"
