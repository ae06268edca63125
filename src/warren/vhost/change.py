"""Changes of metadata as values: what a node, a store or another node is told to make true.

Owns the vocabulary and nothing else: a change has no effect of its own (`effect.py` applies it, in
memory) and no place (`metadata.py` decides what is stored). Each one is

- *whole*: a put carries everything there is to say about its object, so the last one counts;
- *idempotent*: applied twice it does what it does once; deleting what is not there is nothing;
- *ordered*: a list of changes means what its changes mean one after the other. What an object
  stands on comes before it (vhost, exchange, queue, then binding), and deleting an object takes
  along what stands on it;
- *serialisable*: msgspec writes and reads it, in any of its formats, by its `change` tag.

Arguments are the octets of an AMQP field table, so that every type letter survives (WI-5); values
that people write as JSON (parameters, definitions of policies) are the octets of that JSON.
"""

import json
from typing import Final

import msgspec
from msgspec import Struct

from warren.protocol.table import decode_table, encode_table
from warren.protocol.value import Table
from warren.security import User
from warren.vhost.policy import ApplyTo, Policy
from warren.vhost.policy_effect import as_json


class Change(Struct, frozen=True, kw_only=True, tag_field="change", tag=True):
    """What all changes are; never made itself."""


class VHostPut(Change, frozen=True, kw_only=True):
    """A virtual host; its limits, policies and parameters are changes of their own."""

    name: str
    description: str = ""
    tags: tuple[str, ...] = ()
    default_queue_type: str = ""


class VHostDelete(Change, frozen=True, kw_only=True):
    name: str


class VHostLimitsPut(Change, frozen=True, kw_only=True):
    """All limits of a vhost by name (VH-2); an empty table takes them away."""

    vhost: str
    limits: dict[str, int]


class VHostTracing(Change, frozen=True, kw_only=True):
    """Whether messages of a vhost are traced (O-10.1); never stored."""

    vhost: str
    tracing: bool


class UserPut(Change, frozen=True, kw_only=True):
    """A user. An empty hash allows no login by password."""

    name: str
    password_hash: str
    algorithm: str
    tags: tuple[str, ...] = ()


class UserDelete(Change, frozen=True, kw_only=True):
    name: str


class UserLimitsPut(Change, frozen=True, kw_only=True):
    """All limits of a user by name (VH-2); an empty table takes them away."""

    user: str
    limits: dict[str, int]


class PermissionPut(Change, frozen=True, kw_only=True):
    user: str
    vhost: str
    configure: str
    write: str
    read: str


class PermissionDelete(Change, frozen=True, kw_only=True):
    user: str
    vhost: str


class TopicPermissionPut(Change, frozen=True, kw_only=True):
    user: str
    vhost: str
    exchange: str
    write: str
    read: str


class TopicPermissionDelete(Change, frozen=True, kw_only=True):
    user: str
    vhost: str
    exchange: str


class ExchangePut(Change, frozen=True, kw_only=True):
    """An exchange; one that keeps messages in the store has an `incarnation`, as queues have."""

    vhost: str
    name: str
    kind: str
    durable: bool = False
    auto_delete: bool = False
    internal: bool = False
    arguments: bytes = b""
    incarnation: int = 0


class ExchangeDelete(Change, frozen=True, kw_only=True):
    vhost: str
    name: str


class QueuePut(Change, frozen=True, kw_only=True):
    """A queue; `owner` is the connection it is exclusive to, 0 without one.

    `incarnation` tells its messages in the store from those of earlier queues of that name; it is
    given when the queue is made (`Metadata`).
    """

    vhost: str
    name: str
    durable: bool = False
    auto_delete: bool = False
    owner: int = 0
    arguments: bytes = b""
    incarnation: int = 0


class QueueDelete(Change, frozen=True, kw_only=True):
    vhost: str
    name: str


class CursorPut(Change, frozen=True, kw_only=True):
    """A position in the history of a queue (PL-5), of one incarnation of it.

    `epoch` is the fencing token of whoever may move it: a put with a smaller one is nothing. It was
    put at `at_ms`, epoch milliseconds.
    """

    vhost: str
    queue: str
    name: str
    seq: int
    epoch: int
    incarnation: int
    at_ms: int


class CursorDelete(Change, frozen=True, kw_only=True):
    vhost: str
    queue: str
    name: str


class BindingPut(Change, frozen=True, kw_only=True):
    """A binding, which is all of its fields (XC-8)."""

    vhost: str
    source: str
    destination: str
    to_queue: bool = True
    key: str = ""
    arguments: bytes = b""


class BindingDelete(Change, frozen=True, kw_only=True):
    vhost: str
    source: str
    destination: str
    to_queue: bool = True
    key: str = ""
    arguments: bytes = b""


class PolicyPut(Change, frozen=True, kw_only=True):
    """A policy, or an operator policy; `definition` is a JSON object."""

    vhost: str
    name: str
    pattern: str
    definition: bytes
    priority: int = 0
    apply_to: str = "all"
    operator: bool = False


class PolicyDelete(Change, frozen=True, kw_only=True):
    vhost: str
    name: str
    operator: bool = False


class ParameterPut(Change, frozen=True, kw_only=True):
    """A parameter of a vhost; `value` is JSON."""

    vhost: str
    component: str
    name: str
    value: bytes


class ParameterDelete(Change, frozen=True, kw_only=True):
    vhost: str
    component: str
    name: str


class GlobalParameterPut(Change, frozen=True, kw_only=True):
    """A parameter of the whole cluster, such as `cluster_name`; `value` is JSON."""

    name: str
    value: bytes


class GlobalParameterDelete(Change, frozen=True, kw_only=True):
    name: str


AnyChange = (
    VHostPut
    | VHostDelete
    | VHostLimitsPut
    | VHostTracing
    | UserPut
    | UserDelete
    | UserLimitsPut
    | PermissionPut
    | PermissionDelete
    | TopicPermissionPut
    | TopicPermissionDelete
    | ExchangePut
    | ExchangeDelete
    | QueuePut
    | QueueDelete
    | CursorPut
    | CursorDelete
    | BindingPut
    | BindingDelete
    | PolicyPut
    | PolicyDelete
    | ParameterPut
    | ParameterDelete
    | GlobalParameterPut
    | GlobalParameterDelete
)

_MANY: Final = msgspec.msgpack.Decoder(tuple[AnyChange, ...])


def encode_changes(changes: tuple[Change, ...]) -> bytes:
    """Return changes as octets, for another process or a later one."""
    return msgspec.msgpack.encode(changes)


def decode_changes(data: bytes) -> tuple[Change, ...]:
    return _MANY.decode(data)


def user_put(user: User) -> UserPut:
    """Return the change that makes or overwrites a user."""
    return UserPut(
        name=user.name,
        password_hash=user.password_hash,
        algorithm=user.algorithm.value,
        tags=user.tags,
    )


def policy_put(policy: Policy) -> PolicyPut:
    """Return the change that makes or overwrites a policy."""
    return PolicyPut(
        vhost=policy.vhost,
        name=policy.name,
        pattern=policy.pattern,
        definition=as_json(policy.definition),
        priority=policy.priority,
        apply_to=policy.apply_to.value,
        operator=policy.operator,
    )


def policy_of(change: PolicyPut) -> Policy:
    """Return the policy of a change; ValueError when it was not written by `policy_put`."""
    definition: object = json.loads(change.definition)
    if not isinstance(definition, dict):
        raise ValueError(f"the definition of policy '{change.name}' is no table")
    return Policy(
        vhost=change.vhost,
        name=change.name,
        pattern=change.pattern,
        definition=definition,
        priority=change.priority,
        apply_to=ApplyTo(change.apply_to),
        operator=change.operator,
    )


def encoded(arguments: Table) -> bytes:
    """Return arguments as a change carries them: nothing at all when there are none."""
    return encode_table(arguments) if arguments else b""


def decoded(arguments: bytes) -> Table:
    return decode_table(arguments, 0, len(arguments)) if arguments else {}
