"""Security: users, passwords, permissions and login mechanisms, as decisions without network.

Must never log or store a password, send anything, or know sessions and topology.
Start reading at `user.py`, then `permission.py`.
"""

from warren.security.mechanism import (
    AMQPLAIN,
    PLAIN,
    Credentials,
    Malformed,
    Mechanism,
    Mechanisms,
    Outcome,
    Proven,
)
from warren.security.password import Algorithm, hash_password, is_hash_text
from warren.security.pattern import Pattern, PatternError, costly
from warren.security.permission import (
    DEFAULT_EXCHANGE_NAME,
    Access,
    Permission,
    Permissions,
    TopicPermission,
)
from warren.security.user import (
    LOOPBACK_USERS,
    NoSuchUser,
    Refusal,
    RefusalReason,
    User,
    UserExists,
    UserStore,
    is_loopback,
    new_user,
)

__all__ = [
    "AMQPLAIN",
    "DEFAULT_EXCHANGE_NAME",
    "LOOPBACK_USERS",
    "PLAIN",
    "Access",
    "Algorithm",
    "Credentials",
    "Malformed",
    "Mechanism",
    "Mechanisms",
    "NoSuchUser",
    "Outcome",
    "Pattern",
    "PatternError",
    "Permission",
    "Permissions",
    "Proven",
    "Refusal",
    "RefusalReason",
    "TopicPermission",
    "User",
    "UserExists",
    "UserStore",
    "costly",
    "hash_password",
    "is_hash_text",
    "is_loopback",
    "new_user",
]
