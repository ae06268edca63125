"""Arguments of queue.declare: which are known, what they may be, when two declares agree.

Follows spec 5.1 (QD-1) and 5.2. Arguments that are not known here are kept, shown and ignored.
"""

from typing import Final

from warren.core import AmqpError
from warren.core.reply import PRECONDITION_FAILED, RESOURCE_LOCKED
from warren.protocol.value import (
    BOOL,
    LONG_STRING,
    Field,
    Table,
    kind_name,
    same_value,
    term_text,
)
from warren.routing import queue_label
from warren.vhost.policy_key import DEDUPLICATE_WINDOW_MS_MAX, is_deduplicate_by
from warren.vhost.queue_rules import MILLISECONDS_MAX, type_of

PRIORITY_MAX: Final = 255
ROUTING_KEY_MAX: Final = 255

OVERFLOWS: Final = (b"drop-head", b"reject-publish", b"reject-publish-dlx")
MODES: Final = (b"default", b"lazy")
CLASSIC: Final = "classic"
QUORUM: Final = "quorum"
QUEUE_TYPES: Final = (CLASSIC.encode(), QUORUM.encode())

_STREAM_ONLY: Final = frozenset(
    {"x-initial-cluster-size", "x-max-age", "x-stream-max-segment-size-bytes"}
)
_QUORUM_ONLY: Final = frozenset(
    {"x-max-in-memory-bytes", "x-max-in-memory-length", "x-quorum-initial-group-size"}
)
# Arguments that only other queue types of the reference know (3.10 refuses them here). The
# delivery limit is the exception: every queue has it.
FOREIGN: Final = {
    CLASSIC: _STREAM_ONLY | _QUORUM_ONLY,
    QUORUM: _STREAM_ONLY | {"x-max-priority", "x-queue-mode", "x-queue-master-locator"},
}

# Every argument that is compared when a queue is declared again, in the order of comparison.
COMPARED: Final = (
    "x-expires",
    "x-message-ttl",
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-max-length",
    "x-max-length-bytes",
    "x-max-priority",
    "x-overflow",
    "x-queue-mode",
    "x-single-active-consumer",
    "x-queue-type",
    "x-queue-master-locator",
    "x-delivery-limit",
    "x-deduplicate-by",
    "x-deduplicate-window",
    "x-deduplicate-max-keys",
)

# The least and the most of arguments that are numbers.
_BOUNDS: Final[dict[str, tuple[int, int | None]]] = {
    "x-message-ttl": (0, MILLISECONDS_MAX),
    "x-expires": (1, MILLISECONDS_MAX),
    "x-max-length": (0, None),
    "x-max-length-bytes": (0, None),
    "x-delivery-limit": (0, None),
    "x-deduplicate-window": (1, DEDUPLICATE_WINDOW_MS_MAX),
    "x-deduplicate-max-keys": (1, None),
}


def validate(arguments: Table, name: str, vhost: str) -> None:
    """Refuse arguments whose value makes no sense (406)."""
    queue_type = type_of(arguments)
    foreign = FOREIGN.get(queue_type, FOREIGN[CLASSIC])
    for key, item in arguments.items():
        if key in foreign:
            raise AmqpError(
                PRECONDITION_FAILED,
                f"invalid arg '{key}' for {queue_label(name, vhost)} of queue type {queue_type}",
            )
        reason = _reason(key, item, arguments)
        if reason == "type":
            raise AmqpError(
                PRECONDITION_FAILED,
                f"invalid type '{kind_name(int(item.kind))}' for arg '{key}' in "
                f"{queue_label(name, vhost)}",
            )
        if reason:
            raise AmqpError(
                PRECONDITION_FAILED,
                f"invalid arg '{key}' for {queue_label(name, vhost)}: {reason}",
            )


def validate_quorum(
    name: str, vhost: str, *, durable: bool, exclusive: bool, auto_delete: bool, generated: bool
) -> None:
    """Refuse what a quorum queue cannot be (spec 6.9), in the reference's words."""
    if generated:
        detail = "Cannot declare a server-named queue for type rabbit_quorum_queue"
        raise AmqpError(PRECONDITION_FAILED, detail)
    for wrong, word in (
        (auto_delete, "auto-delete"),
        (exclusive, "exclusive-owner"),
        (not durable, "non-durable"),
    ):
        if wrong:
            raise AmqpError(
                PRECONDITION_FAILED, f"invalid property '{word}' for {queue_label(name, vhost)}"
            )


def _reason(key: str, item: Field, arguments: Table) -> str:
    """Say what is wrong with one argument; empty if nothing is."""
    bounds = _BOUNDS.get(key)
    if bounds is not None:
        return _number(item, *bounds)
    if key == "x-max-priority":
        reason = _number(item, 0, None)
        value = item.value
        if not reason and isinstance(value, int) and value > PRIORITY_MAX:
            return f"{{max_value_exceeded,{value}}}"
        return reason
    if key == "x-single-active-consumer":
        return "" if item.kind == BOOL else _unacceptable(item)
    if key == "x-dead-letter-exchange":
        return "" if item.kind == LONG_STRING else "type"
    if key == "x-dead-letter-routing-key":
        if item.kind != LONG_STRING:
            return "type"
        if "x-dead-letter-exchange" not in arguments:
            return "routing_key_but_no_dlx_defined"
        value = item.value
        if isinstance(value, bytes) and len(value) > ROUTING_KEY_MAX:
            return f"{{max_length_exceeded,{len(value)}}}"
        return ""
    return _choice(key, item)


def _choice(key: str, item: Field) -> str:
    value = item.value
    if key == "x-overflow":
        if item.kind != LONG_STRING:
            return _unacceptable(item)
        return "" if value in OVERFLOWS else "invalid_overflow"
    if key == "x-queue-mode":
        if item.kind != LONG_STRING:
            return _unacceptable(item)
        return "" if value in MODES else f"\"unsupported queue mode '{term_text(item)}'\""
    if key == "x-deduplicate-by":
        if item.kind != LONG_STRING or not isinstance(value, bytes):
            return _unacceptable(item)
        known = is_deduplicate_by(value.decode(errors="replace"))
        return "" if known else "should be 'message-id' or 'header:NAME'"
    if key == "x-queue-type":
        if item.kind != LONG_STRING:
            return _unacceptable(item)
        return "" if value in QUEUE_TYPES else f"\"unsupported queue type '{term_text(item)}'\""
    return ""


def _number(item: Field, least: int, most: int | None) -> str:
    value = item.value
    if not isinstance(value, int) or isinstance(value, bool):
        return f'"expected integer, got {kind_name(int(item.kind))}"'
    if value < 0:
        return f"{{value_negative,{value}}}"
    if value < least:
        return f"{{value_zero,{value}}}"
    if most is not None and value > most:
        return f"{{value_too_large,{value}}}"
    return ""


def _unacceptable(item: Field) -> str:
    return f"{{unacceptable_type,{kind_name(int(item.kind))}}}"


def check_equivalent(
    name: str,
    vhost: str,
    *,
    durable: tuple[bool, bool],
    auto_delete: tuple[bool, bool],
    arguments: tuple[Table, Table],
) -> None:
    """Refuse a declare that differs from the queue there is; each pair is (received, current)."""
    label = queue_label(name, vhost)
    for argument, pair in (("durable", durable), ("auto_delete", auto_delete)):
        if pair[0] != pair[1]:
            raise _inequivalent(argument, label, f"'{_word(pair[0])}'", f"'{_word(pair[1])}'")
    received_table, current_table = arguments
    for key in COMPARED:
        received, current = _compared(received_table, key), _compared(current_table, key)
        if same_value(received, current):
            continue
        if received is None or current is None:
            raise _inequivalent(key, label, _typed(received), _typed(current))
        raise _inequivalent(key, label, f"'{term_text(received)}'", f"'{term_text(current)}'")


def _compared(arguments: Table, key: str) -> Field | None:
    item = arguments.get(key)
    if key == "x-queue-type" and item is not None and item.value == b"classic":
        return None
    return item


def _inequivalent(argument: str, label: str, received: str, current: str) -> AmqpError:
    return AmqpError(
        PRECONDITION_FAILED,
        f"inequivalent arg '{argument}' for {label}: received {received} but current is {current}",
    )


def _typed(item: Field | None) -> str:
    if item is None:
        return "none"
    return f"the value '{term_text(item)}' of type '{kind_name(int(item.kind))}'"


def _word(flag: bool) -> str:
    return "true" if flag else "false"


def locked(name: str, vhost: str) -> AmqpError:
    """405: the queue belongs to another connection, or the exclusive flag differs (QD-1, QD-2)."""
    return AmqpError(
        RESOURCE_LOCKED,
        f"cannot obtain exclusive access to locked {queue_label(name, vhost)}. It could be "
        "originally declared on another connection or the exclusive property value does not "
        "match that of the original declaration.",
    )
