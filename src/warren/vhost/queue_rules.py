"""What the arguments of a queue and the policies in force come to, as its rules (PO-4, PO-5)."""

from typing import Final

from warren.protocol.value import Table
from warren.queues.rules import (
    DEDUPLICATE_KEYS_MAX,
    DEDUPLICATE_WINDOW_MS,
    DROP_HEAD,
    REJECT_PUBLISH,
    REJECT_PUBLISH_DLX,
    QueueRules,
)
from warren.vhost.policy_duration import milliseconds
from warren.vhost.policy_effect import NOT_APPLIED, Applied, settings_of

_OVERFLOW: Final = {
    "drop-head": DROP_HEAD,
    "reject-publish": REJECT_PUBLISH,
    "reject-publish-dlx": REJECT_PUBLISH_DLX,
}
# 3.10's upper bound of times in arguments, ten years; a policy may ask for more and gets this.
MILLISECONDS_MAX: Final = 315_360_000_000
# Beyond it a limit is none that anything reaches.
COUNT_MAX: Final = 2**62


def type_of(arguments: Table) -> str:
    """Return the type a queue was declared with."""
    item = arguments.get("x-queue-type")
    if item is None or not isinstance(item.value, bytes):
        return "classic"
    return item.value.decode("utf-8", "replace") or "classic"


def rules_of(arguments: Table, applied: Applied = NOT_APPLIED) -> QueueRules:
    """Return the rules of a queue; queues without arguments share those of their policies."""
    if arguments:
        return _made(arguments, applied)
    if applied.plain_rules is None:
        applied.plain_rules = _made(arguments, applied)
    return applied.plain_rules


def _made(arguments: Table, applied: Applied) -> QueueRules:
    settings = settings_of(applied, arguments)

    def number(key: str, most: int, unset: int = -1) -> int:
        found = settings.get(key)
        return min(found.value, most) if found and isinstance(found.value, int) else unset

    def duration(key: str) -> int:
        found = settings.get(key)
        return -1 if found is None else min(milliseconds(found.value), MILLISECONDS_MAX)

    def text(key: str) -> str | None:
        found = settings.get(key)
        return found.value if found and isinstance(found.value, str) else None

    priority = arguments.get("x-max-priority")
    single = arguments.get("x-single-active-consumer")
    return QueueRules(
        message_ttl_ms=number("message-ttl", MILLISECONDS_MAX),
        expires_ms=number("expires", MILLISECONDS_MAX),
        max_length=number("max-length", COUNT_MAX),
        max_bytes=number("max-length-bytes", COUNT_MAX),
        overflow=_OVERFLOW.get(text("overflow") or "drop-head", DROP_HEAD),
        dead_letter_exchange=text("dead-letter-exchange"),
        dead_letter_key=text("dead-letter-routing-key"),
        max_priority=priority.value
        if priority is not None and isinstance(priority.value, int)
        else 0,
        single_active=single is not None and single.value is True,
        delivery_limit=number("delivery-limit", COUNT_MAX),
        counts_deliveries=type_of(arguments) == "quorum",
        consumer_timeout_ms=number("consumer-timeout", MILLISECONDS_MAX),
        lazy=text("queue-mode") == "lazy",
        history_ms=duration("history"),
        history_bytes=number("history-max-bytes", COUNT_MAX),
        cursor_age_ms=duration("cursor-max-age"),
        cursor_lag_bytes=number("cursor-max-lag-bytes", COUNT_MAX),
        deduplicate_by=text("deduplicate-by") or "",
        deduplicate_window_ms=number("deduplicate-window", MILLISECONDS_MAX, DEDUPLICATE_WINDOW_MS),
        deduplicate_keys_max=number("deduplicate-max-keys", COUNT_MAX, DEDUPLICATE_KEYS_MAX),
    )
