"""Exchange types x-consistent-hash and x-modulus-hash: one destination, by a hash of the message.

Consistent hash: a binding key is a weight, and a message belongs to one of the destinations by its
routing key, by the header that the exchange's argument `hash-header` names, or by the property of
`hash-property`; what is not there counts as one and the same value. Several bindings of one
destination add up. Which destination is the tree's business (`hash_tree.py`).

Modulus hash: the hash of the routing keys, modulo the number of bindings, counts down a list of
all bindings. Nearly every key moves when a binding comes or goes, as in the plug-in. The list is
in the order of the destinations' names, so that it does not depend on the order of binding.

A dead destination that is chosen is taken out of the index at once, before the sweep comes to its
bindings, and the choice is made again; so each is met once.
"""

from typing import Final, final

from mypy_extensions import i64

from warren.core import AmqpError
from warren.core.reply import PRECONDITION_FAILED
from warren.protocol.properties import (
    CORRELATION_ID,
    MESSAGE_ID,
    TIMESTAMP_PROPERTY,
    property_octets,
)
from warren.protocol.table import encode_table
from warren.protocol.value import LONG_STRING, Table, binary_text, kind_name
from warren.routing.digest import key_hash, keys_hash
from warren.routing.hash_tree import HashTree
from warren.routing.matcher import Matcher
from warren.routing.node import Binding, Reach

# Sums of weights stay exact as floating-point numbers with millions of bindings of this weight.
WEIGHT_MAX: Final = 1_000_000_000

_BY_HEADER: Final = "hash-header"
_BY_PROPERTY: Final = "hash-property"
_PROPERTIES: Final[dict[str, int]] = {
    "correlation_id": CORRELATION_ID,
    "message_id": MESSAGE_ID,
    "timestamp": TIMESTAMP_PROPERTY,
}


def weight_of(key: bytes) -> int:
    """Return the weight that a binding key is, or refuse it."""
    digits = key[1:] if key[:1] in (b"+", b"-") else key
    if not digits.isdigit():
        raise _refused(f"The binding key must be an integer: {binary_text(key)}")
    if len(digits) > 255 or not digits.strip(b"0") or key[:1] == b"-":
        raise _refused("The binding key must be greater than 0")
    weight = int(digits)
    if weight > WEIGHT_MAX:
        raise _refused(f"The binding key must not be greater than {WEIGHT_MAX}")
    return weight


def _refused(detail: str) -> AmqpError:
    return AmqpError(PRECONDITION_FAILED, detail)


def _text_argument(arguments: Table, name: str) -> str | None:
    item = arguments.get(name)
    if item is None:
        return None
    if int(item.kind) != LONG_STRING or not isinstance(item.value, bytes):
        raise _refused(f"{name} must be a string, not {kind_name(int(item.kind))}")
    return item.value.decode("utf-8", "backslashreplace")


@final
class ConsistentHash(Matcher):
    def __init__(self, arguments: Table) -> None:
        super().__init__()
        header = _text_argument(arguments, _BY_HEADER)
        named = _text_argument(arguments, _BY_PROPERTY)
        if header is not None and named is not None:
            raise _refused(f"{_BY_HEADER} and {_BY_PROPERTY} are mutually exclusive")
        if named is not None and named not in _PROPERTIES:
            raise _refused(f"Unsupported property: {named}")
        self.header: str | None = header
        # The flag of the property, 0 without one.
        self.property: i64 = 0 if named is None else _PROPERTIES[named]
        self.uses_headers = header is not None
        self.volatile = named is not None
        self.tree: HashTree = HashTree()

    def check(self, key: bytes, arguments: Table) -> None:
        weight_of(key)

    def add(self, binding: Binding) -> None:
        self.tree.add(binding.destination, weight_of(binding.key))

    def remove(self, binding: Binding) -> None:
        self.tree.take(binding.destination, weight_of(binding.key))

    def match(
        self, key: bytes, extra_keys: list[bytes] | None, headers: Table | None, reach: Reach
    ) -> None:
        number = key_hash(self._hashed(key, headers, reach.props))
        while True:
            destination = self.tree.find(number)
            if destination is None:
                return
            if destination.alive:
                reach.enter(destination)
                return
            self.tree.drop(destination)

    def _hashed(self, key: bytes, headers: Table | None, props: bytes) -> bytes:
        """Return the octets that decide."""
        if self.property:
            return property_octets(props, self.property)
        if self.header is None:
            return key
        item = None if headers is None else headers.get(self.header)
        if item is None:
            return b""
        value = item.value
        # The type counts: the number 1 and the string "1" need not go the same way.
        return value if isinstance(value, bytes) else encode_table({"": item})


@final
class ModulusHash(Matcher):
    def __init__(self) -> None:
        super().__init__()
        # Sorted; `bindings[i]` has the name `names[i]`.
        self.names: list[bytes] = []
        self.bindings: list[Binding] = []

    def add(self, binding: Binding) -> None:
        name = _sort_name(binding)
        index = self._place(name)
        self.names.insert(index, name)
        self.bindings.insert(index, binding)

    def remove(self, binding: Binding) -> None:
        index = self._place(_sort_name(binding))
        # Equal names are the rare end of a queue and the beginning of its namesake.
        while index < len(self.bindings) and self.names[index] == _sort_name(binding):
            if self.bindings[index] is binding:
                self._drop(index)
                return
            index += 1

    def _place(self, name: bytes) -> int:
        low = 0
        high = len(self.names)
        while low < high:
            middle = (low + high) // 2
            if self.names[middle] < name:
                low = middle + 1
            else:
                high = middle
        return low

    def _drop(self, index: int) -> None:
        del self.names[index]
        del self.bindings[index]

    def match(
        self, key: bytes, extra_keys: list[bytes] | None, headers: Table | None, reach: Reach
    ) -> None:
        number = keys_hash(key, extra_keys)
        while self.bindings:
            index = int(number % len(self.bindings))
            destination = self.bindings[index].destination
            if destination.alive:
                reach.enter(destination)
                return
            self._drop(index)


def _sort_name(binding: Binding) -> bytes:
    kind = b"q" if binding.destination.is_queue else b"e"
    return b"\0".join((kind, binding.destination.key, binding.key, binding.code))
