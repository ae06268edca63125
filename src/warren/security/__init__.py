"""Security: users, passwords, permissions and login mechanisms, as decisions without network.

Must never log or store a password, send anything, or know sessions and topology.
Start reading at `user.py`, then `permission.py`.
"""

from warren.security.password import Algorithm, hash_password, is_hash_text
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
    "LOOPBACK_USERS",
    "Algorithm",
    "NoSuchUser",
    "Refusal",
    "RefusalReason",
    "User",
    "UserExists",
    "UserStore",
    "hash_password",
    "is_hash_text",
    "is_loopback",
    "new_user",
]
