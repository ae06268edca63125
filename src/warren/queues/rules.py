"""What a queue does beside first in, first out: limits, lifetimes, dead letters, priorities.

A `QueueRules` is the sum of a queue's arguments and of the policies in force, made elsewhere
(`vhost.queue_rules`) and never changed; a queue is given another one when a policy changes.
-1 and None mean that nothing is set.
"""

from typing import Final, final

from mypy_extensions import i64

# What happens to a publish that would pass a length limit (LE-2, LE-3, LE-4).
DROP_HEAD: Final[i64] = 0
REJECT_PUBLISH: Final[i64] = 1
REJECT_PUBLISH_DLX: Final[i64] = 2

# Why a message died (DL-1), in the order of `DEATHS`.
REJECTED: Final[i64] = 0
EXPIRED: Final[i64] = 1
MAXLEN: Final[i64] = 2
DELIVERY_LIMIT: Final[i64] = 3
DEATHS: Final[tuple[str, ...]] = ("rejected", "expired", "maxlen", "delivery_limit")

# How long a key is remembered unless it is said, and how many of them.
DEDUPLICATE_WINDOW_MS: Final = 60_000
DEDUPLICATE_KEYS_MAX: Final = 1_000_000


@final
class QueueRules:
    def __init__(
        self,
        *,
        message_ttl_ms: int = -1,
        expires_ms: int = -1,
        max_length: int = -1,
        max_bytes: int = -1,
        overflow: i64 = DROP_HEAD,
        dead_letter_exchange: str | None = None,
        dead_letter_key: str | None = None,
        max_priority: int = 0,
        single_active: bool = False,
        delivery_limit: int = -1,
        counts_deliveries: bool = False,
        consumer_timeout_ms: int = -1,
        lazy: bool = False,
        history_ms: int = -1,
        history_bytes: int = -1,
        cursor_age_ms: int = -1,
        cursor_lag_bytes: int = -1,
        deduplicate_by: str = "",
        deduplicate_window_ms: int = DEDUPLICATE_WINDOW_MS,
        deduplicate_keys_max: int = DEDUPLICATE_KEYS_MAX,
    ) -> None:
        self.message_ttl_ms: i64 = message_ttl_ms
        self.expires_ms: i64 = expires_ms
        self.max_length: i64 = max_length
        self.max_bytes: i64 = max_bytes
        self.overflow: i64 = overflow
        self.dead_letter_exchange = dead_letter_exchange
        self.dead_letter_key = dead_letter_key
        # 0 is none: a queue with one level of priority is a queue without priorities.
        self.max_priority: i64 = max_priority
        self.single_active = single_active
        self.delivery_limit: i64 = delivery_limit
        # Whether messages carry x-delivery-count: with a delivery limit, and in quorum queues.
        self.counts_deliveries = counts_deliveries or delivery_limit >= 0
        # Instead of the node's; looked at by channels, not by the queue.
        self.consumer_timeout_ms: i64 = consumer_timeout_ms
        self.lazy = lazy
        # How long, and how much of it, what is settled stays readable (`retention.py`), and what
        # a cursor may hold.
        self.history_ms: i64 = history_ms
        self.history_bytes: i64 = history_bytes
        self.cursor_age_ms: i64 = cursor_age_ms
        self.cursor_lag_bytes: i64 = cursor_lag_bytes
        # What tells duplicates: `message-id` or `header:NAME`; empty without.
        self.deduplicate_by = deduplicate_by
        self.deduplicate_window_ms: i64 = deduplicate_window_ms
        self.deduplicate_keys_max: i64 = deduplicate_keys_max

    def has_history(self) -> bool:
        """Whether settled messages stay readable for a while."""
        return self.history_ms >= 0 or self.history_bytes >= 0

    def look_at_publishes(self) -> bool:
        """Whether a publish or a hand-over must be looked at one by one."""
        return (
            self.message_ttl_ms >= 0
            or self.max_length >= 0
            or self.max_bytes >= 0
            or self.max_priority > 0
            or self.counts_deliveries
            or self.deduplicate_by != ""
        )


NO_RULES: Final = QueueRules()
