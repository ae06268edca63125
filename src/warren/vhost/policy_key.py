"""What may stand in a policy: every key, what it may be, whom it concerns, how it is merged.

The table is data; checking (`policy_check`), matching (`policy_book`) and merging
(`policy_effect`) read it. Keys and texts are those of RabbitMQ 3.10 (PO-6, PO-7, PO-10). A key
without effect is taken, kept and shown all the same, so that definitions move between brokers.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from warren.vhost.policy_duration import is_duration

# Queue types, as `x-queue-type` names them.
CLASSIC: Final = "classic"
QUORUM: Final = "quorum"
STREAM: Final = "stream"

_EVERY: Final = frozenset({CLASSIC, QUORUM, STREAM})
_NO_STREAM: Final = frozenset({CLASSIC, QUORUM})
_CLASSIC: Final = frozenset({CLASSIC})
_QUORUM: Final = frozenset({QUORUM})
_STREAM: Final = frozenset({STREAM})

# Seven days, and the name of a header as it is written.
DEDUPLICATE_WINDOW_MS_MAX: Final = 604_800_000
HEADER_NAME_MAX: Final = 255

# Why a key has no effect yet.
_NO_CLUSTER: Final = "there is no cluster yet"
_NO_STREAMS: Final = "there are no streams yet"
_ONE_VERSION: Final = "there is one version of queues"
_IN_MEMORY: Final = "what is kept in memory is not bounded per queue"
_LOCAL: Final = "dead letters are handed over within the node, always at most once"


class Merge(Enum):
    """Which value holds when a policy and an argument of a queue or exchange both set it (PO-5)."""

    SMALLER = "the smaller value holds"
    ARGUMENT = "the argument wins"
    POLICY = "the policy wins"


class Group(Enum):
    """Keys that are checked together; the order of groups is the order of checks."""

    LOCATION = 1
    PLAIN = 2
    MIRRORING = 3


@dataclass(frozen=True, slots=True)
class Key:
    """One setting; `complaint` follows a value that is wrong.

    A policy with this key does not apply to queues of other types than `types` at all (PO-3).
    Policy and operator policy merge by the smaller value when `merge` says so, else the operator's
    holds (PO-4). `idle` says why the key has no effect here; it is empty when it has one.
    """

    name: str
    check: Callable[[object], bool]
    complaint: str
    merge: Merge = Merge.POLICY
    types: frozenset[str] = _EVERY
    group: Group = Group.PLAIN
    # Whether operator policies may set it (PO-7).
    operator: bool = False
    # The argument of queue.declare or exchange.declare that sets the same; empty if none does.
    argument: str = ""
    idle: str = ""


def is_count(value: object) -> bool:
    """Whether JSON gave an integer that is not negative; true and 1.0 are none."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def is_positive(value: object) -> bool:
    return is_count(value) and value != 0


def is_text(value: object) -> bool:
    return isinstance(value, str)


_AGE: Final = re.compile(r"[0-9]+[YMDhms]")


def is_deduplicate_by(value: object) -> bool:
    """Whether this names what tells duplicates: `message-id`, or `header:` and its name."""
    if not isinstance(value, str):
        return False
    kind, colon, name = value.partition(":")
    return value == "message-id" or (
        kind == "header" and colon == ":" and 0 < len(name.encode()) <= HEADER_NAME_MAX
    )


def is_deduplicate_window(value: object) -> bool:
    return (
        isinstance(value, int)
        and not isinstance(value, bool)
        and 0 < value <= DEDUPLICATE_WINDOW_MS_MAX
    )


def _is_age(value: object) -> bool:
    return isinstance(value, str) and _AGE.fullmatch(value) is not None


def _is_version(value: object) -> bool:
    return not isinstance(value, bool) and isinstance(value, int) and value in (1, 2)


def _one_of(*words: str) -> Callable[[object], bool]:
    return lambda value: isinstance(value, str) and value in words


def _bound(
    name: str,
    complaint: str,
    *,
    check: Callable[[object], bool] = is_count,
    types: frozenset[str] = _NO_STREAM,
    idle: str = "",
) -> Key:
    """A number that bounds; operators may set it."""
    argument = f"x-{name}"
    complaint = f"is not a valid {complaint}"
    return Key(
        name, check, complaint, Merge.SMALLER, types, operator=True, argument=argument, idle=idle
    )


def _choice(
    name: str,
    check: Callable[[object], bool],
    complaint: str,
    merge: Merge = Merge.ARGUMENT,
    types: frozenset[str] = _NO_STREAM,
    *,
    argument: str | None = None,
    idle: str = "",
) -> Key:
    """A name or a word; an argument wins unless it is said otherwise."""
    argument = f"x-{name}" if argument is None else argument
    return Key(
        name, check, f"is not a valid {complaint}", merge, types, argument=argument, idle=idle
    )


def _kept(name: str, check: Callable[[object], bool], complaint: str) -> Key:
    """A key about the history."""
    complaint = f"is not a valid {complaint}"
    return Key(name, check, complaint, Merge.POLICY, _NO_STREAM)


def _mirroring(name: str) -> Key:
    """A key that is checked together with its kind, by `policy_check`."""
    return Key(name, lambda _: True, "", Merge.POLICY, _CLASSIC, Group.MIRRORING, idle=_NO_CLUSTER)


def _table(rows: Iterable[Key]) -> dict[str, Key]:
    return {row.name: row for row in sorted(rows, key=lambda row: (row.group.value, row.name))}


_LOCATORS: Final = _one_of("client-local", "min-masters", "random")
_LEADERS: Final = _one_of("balanced", "client-local", "least-leaders", "random")
_OVERFLOWS: Final = _one_of("drop-head", "reject-publish", "reject-publish-dlx")
_STRATEGIES: Final = _one_of("at-least-once", "at-most-once")

# By group, then by name: the order in which they are checked.
KEYS: Final = _table(
    (
        _bound("expires", "queue expiry", check=is_positive),
        _bound("message-ttl", "message TTL"),
        _bound("max-length", "maximum length"),
        _bound("max-length-bytes", "maximum length in bytes", types=_EVERY),
        # In RabbitMQ quorum queues alone have this limit; here every queue has (see the guide).
        _bound("delivery-limit", "delivery limit"),
        # Not of 3.10 but of later releases; there is no argument for it.
        Key(
            "consumer-timeout",
            is_count,
            "is not a valid consumer timeout",
            Merge.SMALLER,
            _NO_STREAM,
        ),
        _bound("max-in-memory-bytes", "maximum memory in bytes", idle=_IN_MEMORY),
        _bound("max-in-memory-length", "maximum memory in bytes", idle=_IN_MEMORY),
        # Warren's own.
        _choice("deduplicate-by", is_deduplicate_by, "key of messages to tell duplicates by"),
        _choice("deduplicate-window", is_deduplicate_window, "deduplication window"),
        _bound("deduplicate-max-keys", "number of keys to tell duplicates by", check=is_positive),
        # Not of RabbitMQ: what is settled stays readable, and what cursors may hold.
        _kept("history", is_duration, "history time"),
        _kept("history-max-bytes", is_count, "history size"),
        _kept("cursor-max-age", is_duration, "cursor age"),
        _kept("cursor-max-lag-bytes", is_count, "cursor lag"),
        _choice("dead-letter-exchange", is_text, "dead letter exchange name"),
        _choice("dead-letter-routing-key", is_text, "dead letter routing key"),
        _choice("overflow", _OVERFLOWS, "overflow value"),
        _choice(
            "queue-mode", _one_of("default", "lazy"), "queue-mode value", Merge.POLICY, _CLASSIC
        ),
        _choice(
            "alternate-exchange",
            is_text,
            "alternate exchange name",
            types=_EVERY,
            argument="alternate-exchange",
        ),
        _choice(
            "dead-letter-strategy", _STRATEGIES, "dead letter strategy", types=_QUORUM, idle=_LOCAL
        ),
        _choice(
            "queue-version", _is_version, "queue-version value", types=_EVERY, idle=_ONE_VERSION
        ),
        _choice("max-age", _is_age, "max age", types=_STREAM, idle=_NO_STREAMS),
        _choice(
            "stream-max-segment-size-bytes",
            is_count,
            "segment size",
            types=_STREAM,
            idle=_NO_STREAMS,
        ),
        _choice("initial-cluster-size", is_count, "cluster size", types=_STREAM, idle=_NO_CLUSTER),
        _choice(
            "queue-leader-locator",
            _LEADERS,
            "queue leader locator value",
            types=frozenset({QUORUM, STREAM}),
            idle=_NO_CLUSTER,
        ),
        Key(
            "queue-master-locator",
            _LOCATORS,
            "invalid queue-master-locator value",
            Merge.ARGUMENT,
            _CLASSIC,
            Group.LOCATION,
            argument="x-queue-master-locator",
            idle=_NO_CLUSTER,
        ),
        _mirroring("ha-mode"),
        _mirroring("ha-params"),
        _mirroring("ha-sync-mode"),
        _mirroring("ha-sync-batch-size"),
        _mirroring("ha-promote-on-shutdown"),
        _mirroring("ha-promote-on-failure"),
    )
)


def refused_types(names: Iterable[str]) -> frozenset[str]:
    """Return the queue types that a policy with these keys does not apply to (PO-3)."""
    keys = [KEYS[name] for name in names if name in KEYS]
    return frozenset(one for one in _EVERY if any(one not in key.types for key in keys))
