"""Definitions: metadata as the JSON that RabbitMQ exports and imports (O-7.1 to O-7.4).

`read` takes a document apart into changes, in the order in which they stand on each other; what a
document may not hold is a `DefinitionError` that names the place. It knows nothing of any broker:
whether a virtual host is there, or an exchange type, is found out when the changes are made.

Invariant: what is exported is imported as the same changes.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Final, TypeVar, cast

import msgspec
from msgspec import Meta, Struct

from warren.protocol.value import table
from warren.security import Algorithm, is_hash_text
from warren.vhost.change import (
    BindingPut,
    Change,
    ExchangePut,
    GlobalParameterPut,
    ParameterPut,
    PermissionPut,
    PolicyPut,
    QueuePut,
    TopicPermissionPut,
    UserLimitsPut,
    UserPut,
    VHostLimitsPut,
    VHostPut,
    encoded,
)
from warren.vhost.limit import LIMITS_COMPONENT

OPERATOR: Final = "operator_policy"
# Before this release hashes without an algorithm were MD5.
MD5_BEFORE: Final = (3, 6)
RESERVED: Final = "amq."

Name = Annotated[str, Meta(min_length=1, max_length=255)]
Text = Annotated[str, Meta(max_length=255)]
Document = Mapping[str, object]


class DefinitionError(Exception):
    """A document that cannot be imported, and where."""


class _User(Struct, kw_only=True, frozen=True):
    name: Name
    password_hash: str = ""
    hashing_algorithm: Algorithm | None = None
    tags: list[str] | str = ""
    limits: dict[str, int] = {}


class _VHost(Struct, kw_only=True, frozen=True):
    name: Name
    description: str = ""
    tags: list[str] = []
    default_queue_type: str | None = None


class _Permission(Struct, kw_only=True, frozen=True):
    user: Name
    vhost: Name
    configure: str
    write: str
    read: str


class _TopicPermission(Struct, kw_only=True, frozen=True):
    user: Name
    vhost: Name
    exchange: Text
    write: str
    read: str


class _Parameter(Struct, kw_only=True, frozen=True):
    vhost: Name
    component: Name
    name: Name
    value: object


class _GlobalParameter(Struct, kw_only=True, frozen=True):
    name: Name
    value: object


class _Policy(Struct, kw_only=True, frozen=True, rename={"apply_to": "apply-to"}):
    vhost: Name
    name: Name
    pattern: str
    definition: dict[str, object]
    apply_to: str = "all"
    priority: int = 0


class _Exchange(Struct, kw_only=True, frozen=True):
    vhost: Name
    name: Text
    type: Name
    durable: bool = False
    auto_delete: bool = False
    internal: bool = False
    arguments: dict[str, object] = {}


class _Queue(Struct, kw_only=True, frozen=True):
    vhost: Name
    name: Name
    durable: bool = False
    auto_delete: bool = False
    arguments: dict[str, object] = {}


class _Binding(Struct, kw_only=True, frozen=True):
    vhost: Name
    source: Text
    destination: Name
    destination_type: str = "queue"
    routing_key: Text = ""
    arguments: dict[str, object] = {}


# -- reading ---------------------------------------------------------------------------------------


def read(document: Document, vhost: str | None = None) -> Iterator[Change]:
    """Yield the changes of a document; with `vhost`, only what belongs into one, and there."""
    reader = _Reader(document, vhost)
    if vhost is None:
        yield from _whole(reader, document)
    for parameter in reader.items("parameters", _Parameter):
        yield _parameter(parameter)
    for policy in reader.items("policies", _Policy):
        yield _policy(policy, operator=False)
    for exchange in reader.items("exchanges", _Exchange):
        if exchange.name and not exchange.name.startswith(RESERVED):
            yield _exchange(exchange)
    for queue in reader.items("queues", _Queue):
        yield QueuePut(
            vhost=queue.vhost,
            name=queue.name,
            durable=queue.durable,
            auto_delete=queue.auto_delete,
            arguments=_arguments(queue.arguments, f"queue '{queue.name}'"),
        )
    for binding in reader.items("bindings", _Binding):
        if binding.source:
            yield _binding(binding)


def _whole(reader: "_Reader", document: Document) -> Iterator[Change]:
    """What does not belong into one virtual host."""
    for user in reader.items("users", _User):
        yield from _user(user, document)
    for one in reader.items("vhosts", _VHost):
        yield VHostPut(
            name=one.name,
            description=one.description,
            tags=tuple(one.tags),
            default_queue_type=_queue_type(one.default_queue_type),
        )
    for permission in reader.items("permissions", _Permission):
        yield msgspec.convert(permission, PermissionPut, from_attributes=True)
    for topic in reader.items("topic_permissions", _TopicPermission):
        yield msgspec.convert(topic, TopicPermissionPut, from_attributes=True)
    for cluster in reader.items("global_parameters", _GlobalParameter):
        yield GlobalParameterPut(name=cluster.name, value=msgspec.json.encode(cluster.value))


T = TypeVar("T")


class _Reader:
    def __init__(self, document: Document, vhost: str | None) -> None:
        self.document = document
        self.vhost = vhost

    def items(self, section: str, kind: type[T]) -> Iterator[T]:
        """Yield the objects of one section of the document."""
        found = self.document.get(section, ())
        if not isinstance(found, list | tuple):
            raise DefinitionError(f"{section}: expected a list")
        for number, item in enumerate(cast("list[object]", found)):
            given = item
            if self.vhost is not None and isinstance(item, dict):
                given = {**cast("dict[str, object]", item), "vhost": self.vhost}
            try:
                yield msgspec.convert(given, kind)
            except msgspec.ValidationError as refusal:
                raise DefinitionError(f"{section}[{number}]: {refusal}") from None


def _user(one: _User, document: Document) -> Iterator[Change]:
    if not is_hash_text(one.password_hash):
        raise DefinitionError(f"user '{one.name}': password_hash is not base64")
    tags = one.tags.split(",") if isinstance(one.tags, str) else one.tags
    yield UserPut(
        name=one.name,
        password_hash=one.password_hash,
        algorithm=(one.hashing_algorithm or _algorithm(document)).value,
        tags=tuple(tag.strip() for tag in tags if tag.strip()),
    )
    if one.limits:
        yield UserLimitsPut(user=one.name, limits=one.limits)


def _algorithm(document: Document) -> Algorithm:
    written = str(document.get("rabbit_version", document.get("rabbitmq_version", "")))
    numbers = written.split(".")[:2]
    if all(number.isdecimal() for number in numbers) and written:
        release = tuple(int(number) for number in numbers)
        return Algorithm.MD5 if release < MD5_BEFORE else Algorithm.SHA256
    return Algorithm.SHA256


def _queue_type(written: str | None) -> str:
    return "" if written in (None, "undefined") else str(written)


def _parameter(one: _Parameter) -> Change:
    if one.component == OPERATOR:
        if not isinstance(one.value, dict):
            raise DefinitionError(f"operator policy '{one.name}': expected an object")
        given = {**cast("dict[str, object]", one.value), "vhost": one.vhost, "name": one.name}
        try:
            return _policy(msgspec.convert(given, _Policy), operator=True)
        except msgspec.ValidationError as refusal:
            raise DefinitionError(f"operator policy '{one.name}': {refusal}") from None
    if one.component == LIMITS_COMPONENT:
        try:
            limits = msgspec.convert(one.value, dict[str, int])
        except msgspec.ValidationError as refusal:
            raise DefinitionError(f"limits of vhost '{one.vhost}': {refusal}") from None
        return VHostLimitsPut(vhost=one.vhost, limits=limits)
    value = msgspec.json.encode(one.value)
    return ParameterPut(vhost=one.vhost, component=one.component, name=one.name, value=value)


def _policy(one: _Policy, *, operator: bool) -> PolicyPut:
    return PolicyPut(
        vhost=one.vhost,
        name=one.name,
        pattern=one.pattern,
        definition=msgspec.json.encode(one.definition),
        priority=one.priority,
        apply_to=one.apply_to,
        operator=operator,
    )


def _exchange(one: _Exchange) -> ExchangePut:
    return ExchangePut(
        vhost=one.vhost,
        name=one.name,
        kind=one.type,
        durable=one.durable,
        auto_delete=one.auto_delete,
        internal=one.internal,
        arguments=_arguments(one.arguments, f"exchange '{one.name}'"),
    )


def _binding(one: _Binding) -> BindingPut:
    what = f"binding of '{one.destination}' to '{one.source}'"
    if one.destination_type not in ("queue", "exchange"):
        raise DefinitionError(f"{what}: destination_type is queue or exchange")
    return BindingPut(
        vhost=one.vhost,
        source=one.source,
        destination=one.destination,
        to_queue=one.destination_type == "queue",
        key=one.routing_key,
        arguments=_arguments(one.arguments, what),
    )


def _arguments(given: dict[str, object], what: str) -> bytes:
    if not given:
        return b""
    try:
        return encoded(table(given))
    except (ValueError, OverflowError, TypeError, RecursionError) as failure:
        raise DefinitionError(f"{what}: arguments: {failure}") from None
