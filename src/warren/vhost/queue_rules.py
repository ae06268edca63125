"""What the arguments of a queue and the policies in force come to (PO-4, PO-5).

`policy` and `operator_policy` are the definitions of the one policy of each kind that applies, as
JSON gives them and already checked. Where both set a key the smaller number holds; between them
and an argument the smaller one too, for what bounds; for the rest the argument wins, except for
the queue mode, which the policy decides.
"""

from collections.abc import Mapping
from typing import Final

from warren.protocol.value import Table
from warren.queues.rules import (
    DROP_HEAD,
    REJECT_PUBLISH,
    REJECT_PUBLISH_DLX,
    QueueRules,
)

Definition = Mapping[str, object]

NOTHING: Final[Definition] = {}
_OVERFLOW: Final = {
    "drop-head": DROP_HEAD,
    "reject-publish": REJECT_PUBLISH,
    "reject-publish-dlx": REJECT_PUBLISH_DLX,
}


def type_of(arguments: Table) -> str:
    """Return the type a queue was declared with."""
    return _argument_text(arguments, "x-queue-type") or "classic"


def rules_of(
    arguments: Table,
    policy: Definition | None = None,
    operator_policy: Definition | None = None,
) -> QueueRules:
    """Return the rules a queue with these arguments has under these policies."""
    user = policy or NOTHING
    operator = operator_policy or NOTHING

    def least(key: str) -> int:
        found = [
            value
            for value in (_number(user, key), _number(operator, key), _argument(arguments, key))
            if value is not None
        ]
        return min(found) if found else -1

    def text(key: str) -> str | None:
        given = _argument_text(arguments, "x-" + key)
        if given is not None:
            return given
        value = operator.get(key, user.get(key))
        return value if isinstance(value, str) else None

    mode = operator.get("queue-mode", user.get("queue-mode"))
    if not isinstance(mode, str):
        mode = _argument_text(arguments, "x-queue-mode") or "default"
    single = arguments.get("x-single-active-consumer")
    return QueueRules(
        message_ttl_ms=least("message-ttl"),
        expires_ms=least("expires"),
        max_length=least("max-length"),
        max_bytes=least("max-length-bytes"),
        overflow=_OVERFLOW.get(text("overflow") or "drop-head", DROP_HEAD),
        dead_letter_exchange=text("dead-letter-exchange"),
        dead_letter_key=text("dead-letter-routing-key"),
        max_priority=_argument(arguments, "max-priority") or 0,
        single_active=single is not None and single.value is True,
        delivery_limit=least("delivery-limit"),
        counts_deliveries=type_of(arguments) == "quorum",
        lazy=mode == "lazy",
    )


def _argument(arguments: Table, key: str) -> int | None:
    item = arguments.get("x-" + key)
    if item is None or isinstance(item.value, bool) or not isinstance(item.value, int):
        return None
    return item.value


def _argument_text(arguments: Table, name: str) -> str | None:
    item = arguments.get(name)
    if item is None or not isinstance(item.value, bytes):
        return None
    return item.value.decode("utf-8", "replace")


def _number(definition: Definition, key: str) -> int | None:
    value = definition.get(key)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value
