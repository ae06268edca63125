"""Security: users, passwords, permissions and login mechanisms, as decisions without network.

Must never log or store a password, send anything, or know sessions and topology.
Start reading at `user.py`, then `permission.py`.
"""

from warren.security.attempt import Attempts, Braked, Counts, address_of
from warren.security.certificate import (
    Certificate,
    CertificateError,
    NameKind,
    first_of_pem,
    read_certificate,
)
from warren.security.external import External, LoginFrom, LoginRule, distinguished_name
from warren.security.mechanism import (
    AMQPLAIN,
    DEFAULT_MECHANISMS,
    EXTERNAL,
    MECHANISM_NAMES,
    PLAIN,
    Credentials,
    Malformed,
    Mechanism,
    Mechanisms,
    Outcome,
    Proven,
    Unproven,
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
    "DEFAULT_MECHANISMS",
    "EXTERNAL",
    "LOOPBACK_USERS",
    "MECHANISM_NAMES",
    "PLAIN",
    "Access",
    "Algorithm",
    "Attempts",
    "Braked",
    "Certificate",
    "CertificateError",
    "Counts",
    "Credentials",
    "External",
    "LoginFrom",
    "LoginRule",
    "Malformed",
    "Mechanism",
    "Mechanisms",
    "NameKind",
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
    "Unproven",
    "User",
    "UserExists",
    "UserStore",
    "address_of",
    "costly",
    "distinguished_name",
    "first_of_pem",
    "hash_password",
    "is_hash_text",
    "is_loopback",
    "new_user",
    "read_certificate",
]
