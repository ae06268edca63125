"""Exchange type headers (HD-1 to HD-3): bindings indexed under their conditions.

A binding's arguments become a `Rule`: a list of conditions, each a header name with a value or,
for a void argument, with mere presence. An `any` rule lies in the bucket of each condition and
one hit decides. An `all` rule lies in the bucket of one condition, the one with the fewest rules
when it was added, so that a value shared by every binding does not make the one to scan; its
other conditions are looked at only when the message meets that one. `all` without conditions
always matches, `any` without conditions never does (HD-3).

Values are compared through `comparable`: numbers by value whatever their type, strings and byte
arrays by their octets, a boolean is no number, `1` and `"1"` differ (HD-2). Inside tables and
arrays the types of the entries count, and so does the order of a table.
"""

from typing import Final, final

from warren.core import AmqpError
from warren.core.reply import PRECONDITION_FAILED
from warren.protocol.value import (
    LONG_STRING,
    VOID,
    Decimal_,
    Field,
    Table,
    binary_text,
    kind_name,
    term_text,
)
from warren.routing.matcher import Matcher
from warren.routing.node import Binding, Reach, with_peer, without_peer

_MODES: Final[frozenset[bytes]] = frozenset({b"all", b"any", b"all-with-x", b"any-with-x"})
_MODES_TEXT: Final = "all, any, all-with-x, or any-with-x"

# Kept apart from every comparable value: tuples begin with a type, and no type has this name.
_PRESENT: Final[object] = ("present",)


def comparable(item: Field) -> object:
    """Return a hashable value, equal for values that a headers exchange takes as equal."""
    value = item.value
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, (bytes, int)):
        return value
    if isinstance(value, float):
        # Not a number equals nothing, itself included.
        return value if value == value else object()
    if value is None:
        return ("void",)
    if isinstance(value, Decimal_):
        return ("decimal", value)
    if isinstance(value, list):
        return ("array", tuple([(int(entry.kind), comparable(entry)) for entry in value]))
    assert isinstance(value, dict)
    return (
        "table",
        tuple([(name, int(entry.kind), comparable(entry)) for name, entry in value.items()]),
    )


@final
class Rule:
    """The conditions of one binding; `wanted[i]` is asked of the header `names[i]`."""

    def __init__(self, binding: Binding) -> None:
        mode = b"all"
        names: list[str] = []
        wanted: list[object] = []
        argument = binding.arguments.get("x-match")
        if argument is not None and isinstance(argument.value, bytes):
            mode = argument.value
        with_x = mode.endswith(b"-with-x")
        for name, item in binding.arguments.items():
            if name == "x-match" or (not with_x and name.startswith("x-")):
                continue
            names.append(name)
            wanted.append(_PRESENT if int(item.kind) == VOID else comparable(item))
        self.binding: Binding = binding
        self.is_any: bool = mode.startswith(b"any")
        self.names: list[str] = names
        self.wanted: list[object] = wanted
        # Of an `all` rule: which condition it is indexed under.
        self.indexed: int = 0

    def holds(self, headers: Table) -> bool:
        """Tell whether all conditions hold."""
        for index in range(len(self.names)):
            item = headers.get(self.names[index])
            if item is None:
                return False
            wanted = self.wanted[index]
            if wanted is not _PRESENT and comparable(item) != wanted:
                return False
        return True


# An ordered set: rules are hashed by identity.
Bucket = dict[Rule, None]


@final
class HeaderIndex:
    """The rules indexed under one header name."""

    def __init__(self) -> None:
        self.by_value: dict[object, Bucket] = {}
        self.by_presence: Bucket = {}

    def bucket(self, wanted: object) -> Bucket | None:
        return self.by_presence if wanted is _PRESENT else self.by_value.get(wanted)

    def add(self, wanted: object, rule: Rule) -> None:
        bucket = self.bucket(wanted)
        if bucket is None:
            bucket = {}
            self.by_value[wanted] = bucket
        bucket[rule] = None

    def remove(self, wanted: object, rule: Rule) -> None:
        bucket = self.bucket(wanted)
        assert bucket is not None
        del bucket[rule]
        if not bucket and wanted is not _PRESENT:
            del self.by_value[wanted]

    def is_empty(self) -> bool:
        return not self.by_presence and not self.by_value


@final
class Headers(Matcher):
    """The message's headers meet all, or any, of the binding's arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.uses_headers = True
        self.always: Binding | None = None
        self.by_name: dict[str, HeaderIndex] = {}

    def check(self, key: bytes, arguments: Table) -> None:
        mode = arguments.get("x-match")
        if mode is None or (int(mode.kind) == LONG_STRING and mode.value in _MODES):
            return
        value = mode.value
        printed = binary_text(value) if isinstance(value, bytes) else term_text(mode)
        if int(mode.kind) == LONG_STRING:
            detail = f"Invalid x-match field value {printed}; expected {_MODES_TEXT}"
        else:
            kind = kind_name(int(mode.kind))
            detail = f"Invalid x-match field type {kind} (value {printed}); expected longstr"
        raise AmqpError(PRECONDITION_FAILED, detail)

    def add(self, binding: Binding) -> None:
        rule = Rule(binding)
        binding.note = rule
        if rule.is_any:
            for index in range(len(rule.names)):
                self._index(rule, index)
        elif rule.names:
            rule.indexed = self._rarest(rule)
            self._index(rule, rule.indexed)
        else:
            self.always = with_peer(self.always, binding)

    def remove(self, binding: Binding) -> None:
        rule = binding.note
        assert isinstance(rule, Rule)
        binding.note = None
        if rule.is_any:
            for index in range(len(rule.names)):
                self._forget(rule, index)
        elif rule.names:
            self._forget(rule, rule.indexed)
        else:
            self.always = without_peer(self.always, binding)

    def _rarest(self, rule: Rule) -> int:
        """Return the condition with the smallest bucket; a value beats presence among equals."""
        best = 0
        best_cost = -1
        for index in range(len(rule.names)):
            wanted = rule.wanted[index]
            cost = 1 if wanted is _PRESENT else 0
            known = self.by_name.get(rule.names[index])
            if known is not None:
                bucket = known.bucket(wanted)
                if bucket is not None:
                    cost += 2 * len(bucket)
            if best_cost < 0 or cost < best_cost:
                best = index
                best_cost = cost
        return best

    def _index(self, rule: Rule, index: int) -> None:
        name = rule.names[index]
        known = self.by_name.get(name)
        if known is None:
            known = HeaderIndex()
            self.by_name[name] = known
        known.add(rule.wanted[index], rule)

    def _forget(self, rule: Rule, index: int) -> None:
        name = rule.names[index]
        known = self.by_name[name]
        known.remove(rule.wanted[index], rule)
        if known.is_empty():
            del self.by_name[name]

    def match(
        self, key: bytes, extra_keys: list[bytes] | None, headers: Table | None, reach: Reach
    ) -> None:
        reach.enter_chain(self.always)
        if headers is None:
            return
        for name, item in headers.items():
            known = self.by_name.get(name)
            if known is None:
                continue
            if known.by_presence:
                _enter_bucket(known.by_presence, headers, reach)
            if known.by_value:
                bucket = known.by_value.get(comparable(item))
                if bucket is not None:
                    _enter_bucket(bucket, headers, reach)


def _enter_bucket(bucket: Bucket, headers: Table, reach: Reach) -> None:
    for rule in bucket:
        if rule.is_any or rule.holds(headers):
            reach.enter(rule.binding.destination)
