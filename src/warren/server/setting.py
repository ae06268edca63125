"""What a setting's value may be: one reader per kind of value, with its range and its words.

A reader takes the raw value as a source gave it: text from `rabbitmq.conf`, the environment and the
command line (`typed=False`), or a typed value from TOML (`typed=True`). It returns the value in its
own type or raises `ValueError` with a reason that says what was expected and what came.

Sizes have the units of `warren.core.octets`, as on the command line.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final, TypeVar, cast

from warren.core.octets import OctetsError, read_octets

Reader = Callable[[object, bool], object]
# The new value of a setting with named parts, after one part was given:
# (current value, part name, raw value, typed).
PartReader = Callable[[object, str, object, bool], object]

NONE_WORDS: Final = frozenset({"", "none", "infinity", "undefined"})
_TRUE: Final = frozenset({"true", "on", "yes", "1"})
_FALSE: Final = frozenset({"false", "off", "no", "0"})
_INTEGER: Final = re.compile(r"[+-]?[0-9]+\Z")


@dataclass(frozen=True, slots=True)
class Kind:
    """How values of a setting are read, and how they are described to people."""

    expects: str
    read: Reader
    read_part: PartReader | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """What the table of settings knows about one setting beyond its name, type and default."""

    kind: Kind
    doc: str
    rabbit: tuple[str, ...]
    secret: bool


T = TypeVar("T")
FACTS: Final = "warren.setting"


def setting(default: T, kind: Kind, doc: str, *, rabbit: str = "", secret: bool = False) -> T:
    """Declare one setting: a dataclass field that knows its kind, meaning and RabbitMQ names."""
    facts = Facts(kind, doc, tuple(rabbit.split()), secret)
    made: object = field(default=default, repr=not secret, metadata={FACTS: facts})
    return cast("T", made)


def computed(factory: Callable[[], T], kind: Kind, doc: str) -> T:
    """Declare a setting whose default depends on the machine."""
    facts = Facts(kind, doc, (), secret=False)
    made: object = field(default_factory=factory, metadata={FACTS: facts})
    return cast("T", made)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def integer(low: int, high: int, *, none: bool = False) -> Kind:
    """A whole number in a range; with `none`, also the words for "no limit"."""
    span = f"a whole number from {low} to {high}" + (" or none" if none else "")

    def read(value: object, typed: bool) -> object:
        if none and isinstance(value, str) and value.strip().lower() in NONE_WORDS:
            return None
        if isinstance(value, str) and not typed and _INTEGER.match(value.strip()):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ValueError(f"expected {span}, got {_shown(value)}")
        return value

    return Kind(span, read)


def size(low: int, high: int, *, none: bool = False, zero: bool = False) -> Kind:
    """A number of bytes, with or without a unit; with `zero`, 0 is allowed below the range."""
    span = "0, or " if zero else ""
    span += f"a size from {low} to {high} bytes (units k, MiB, GB, ...)"
    span += " or none" if none else ""

    def read(value: object, typed: bool) -> object:
        octets = value
        if isinstance(value, str):
            if none and value.strip().lower() in NONE_WORDS:
                return None
            try:
                octets = read_octets(value.strip())
            except OctetsError:
                octets = None
        if isinstance(octets, bool) or not isinstance(octets, int):
            raise ValueError(f"expected {span}, got {_shown(value)}")
        if not low <= octets <= high and not (zero and octets == 0):
            raise ValueError(f"expected {span}, got {_shown(value)}")
        return octets

    return Kind(span, read)


def number(low: float, high: float, *, none: bool = False) -> Kind:
    """A number that may have a fraction; with `none`, also the words for "not given"."""
    span = f"a number from {low:g} to {high:g}" + (" or none" if none else "")

    def read(value: object, typed: bool) -> object:
        raw = value
        if none and isinstance(value, str) and value.strip().lower() in NONE_WORDS:
            return None
        if isinstance(value, str) and not typed:
            try:
                value = float(value)
            except ValueError:
                value = None
        # NaN fails the comparison and is refused with the rest.
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"expected {span}, got {_shown(raw)}")
        if not low <= value <= high:
            raise ValueError(f"expected {span}, got {_shown(raw)}")
        return float(value)

    return Kind(span, read)


def pair(low: int, high: int) -> Kind:
    """Two whole numbers in a range, credit and refill: `400, 200`."""
    one = integer(low, high)
    span = f"two whole numbers from {low} to {high} with a comma, the second not above the first"

    def read(value: object, typed: bool) -> object:
        parts = value.split(",") if isinstance(value, str) else value
        if not isinstance(parts, list | tuple) or len(parts) != 2:
            raise ValueError(f"expected {span}, got {_shown(value)}")
        words = isinstance(value, str)
        found = tuple(one.read(part, typed and not words) for part in parts)
        # A grant larger than the credit would never be earned.
        if cast("int", found[1]) > cast("int", found[0]):
            raise ValueError(f"expected {span}, got {_shown(value)}")
        return found

    return Kind(span, read)


def read_flag(value: object, typed: bool) -> bool:
    """Read true or false; text sources may also say on, off, yes, no, 1, 0."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and not typed:
        word = value.strip().lower()
        if word in _TRUE:
            return True
        if word in _FALSE:
            return False
    raise ValueError(f"expected true or false, got {_shown(value)}")


FLAG: Final = Kind("true or false", read_flag)


def text(
    *, empty: bool = False, octets_max: int = 255, check: re.Pattern[str] | None = None
) -> Kind:
    """A line of text; bounded, because most of it ends in an AMQP short string."""
    span = f"text of at most {octets_max} octets"

    def read(value: object, typed: bool) -> object:
        if not isinstance(value, str):
            raise ValueError(f"expected {span}, got {_shown(value)}")
        if not value and not empty:
            raise ValueError("must not be empty")
        if len(value.encode("utf-8", "replace")) > octets_max:
            raise ValueError(f"expected {span}, got {len(value)} characters")
        if not value.isprintable():
            raise ValueError("must not contain control characters")
        if check is not None and not check.fullmatch(value):
            raise ValueError(f"expected {check.pattern}, got {_shown(value)}")
        return value

    return Kind(span, read)


def choice(*words: str, synonyms: Mapping[str, str] = MappingProxyType({})) -> Kind:
    """One word of a few; a synonym is read as the word it stands for."""
    span = "one of " + ", ".join(words)

    def read(value: object, typed: bool) -> object:
        word = value.strip().lower() if isinstance(value, str) else ""
        word = synonyms.get(word, word)
        if word not in words:
            raise ValueError(f"expected {span}, got {_shown(value)}")
        return word

    return Kind(span, read)


def path(*, none: bool = False) -> Kind:
    """A file or folder; `~` is the home folder."""
    span = "a path" + (" or none" if none else "")

    def read(value: object, typed: bool) -> object:
        if none and (value is False or (isinstance(value, str) and value.lower() in _NO_PATH)):
            return None
        if isinstance(value, Path):
            return value
        if not isinstance(value, str) or not value or "\0" in value:
            raise ValueError(f"expected {span}, got {_shown(value)}")
        return Path(value).expanduser()

    return Kind(span, read)


_NO_PATH: Final = frozenset({"", "none", "false"})


def _words(value: object) -> Iterable[object]:
    if isinstance(value, list | tuple):
        return value
    if isinstance(value, str):
        return () if value.strip().lower() in NONE_WORDS else value.split(",")
    raise ValueError(f"expected a list of names, got {_shown(value)}")


def names(check: Callable[[str], object] | None = None) -> Kind:
    """A set of names in order; `none` is the empty one. `setting.NAME = false` takes one out."""

    def one(word: object) -> str:
        if not isinstance(word, str) or not word.strip() or not word.strip().isprintable():
            raise ValueError(f"expected a name, got {_shown(word)}")
        if check is not None:
            check(word.strip())
        return word.strip()

    def read(value: object, typed: bool) -> object:
        return tuple(dict.fromkeys(one(word) for word in _words(value)))

    def read_part(current: object, part: str, value: object, typed: bool) -> object:
        kept = [name for name in cast("tuple[str, ...]", current) if name != part]
        return (*kept, one(part)) if read_flag(value, typed) else tuple(kept)

    return Kind("names, separated by commas, or none", read, read_part)


def table() -> Kind:
    """Names with text values: a TOML table, `name=value` separated by commas, or parts."""
    line = text(empty=True, octets_max=4096)

    def read(value: object, typed: bool) -> object:
        if isinstance(value, str):
            if value.strip().lower() in NONE_WORDS:
                return {}
            pairs = [word.partition("=") for word in value.split(",")]
            if not all(name.strip() and equals for name, equals, _ in pairs):
                raise ValueError(f"expected name=value, ..., got {_shown(value)}")
            value = {name.strip(): given.strip() for name, _, given in pairs}
        if not isinstance(value, dict):
            raise ValueError(f"expected a table of names and texts, got {_shown(value)}")
        return {str(name): line.read(given, typed) for name, given in value.items()}

    def read_part(current: object, part: str, value: object, typed: bool) -> object:
        return {**cast("Mapping[str, str]", current), part: line.read(value, typed)}

    return Kind("name=value, separated by commas", read, read_part)


def read_address(given: str, *, bind: str) -> tuple[str, int]:
    """Read `port`, `host:port`, `::1:port` or `[::1]:port`; `bind` stands in for a missing host."""
    host, colon, tail = given.strip().rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if (colon and not host) or not _INTEGER.match(tail) or not 0 <= int(tail) <= 65535:
        raise ValueError(f"expected a port or address:port, got {_shown(given)}")
    return host or bind, int(tail)
