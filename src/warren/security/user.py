"""Users and the decision whether one may log in by name and password.

Owns the users in memory and the loopback rule. A user is an immutable value: whoever stores or
replicates definitions makes the value once (`new_user`, with the salt in it) and puts it in every
store. Tags unlock the management interface; AMQP access asks permissions only. Rule AU-1: why a
login was refused goes to the log, never to the client.

Invariants: a user without a hash cannot log in by password; an unknown user costs the same
hashing as a known one.
"""

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, final

from warren.core.seam import Random
from warren.security.password import Algorithm, hash_password, matches

LOOPBACK_USERS: Final[frozenset[str]] = frozenset({"guest"})

# Hashed against when the user is unknown; no password gives an all-zero digest.
_NOBODY_HASH: Final = "A" * 48


@dataclass(frozen=True)
class User:
    """A name, the stored hash (empty: no login by password) and the tags."""

    name: str
    password_hash: str
    algorithm: Algorithm = Algorithm.SHA256
    tags: tuple[str, ...] = ()


class RefusalReason(StrEnum):
    """Why a login was refused; for the log and the metrics of this node only."""

    UNKNOWN_USER = "unknown_user"
    WRONG_PASSWORD = "wrong_password"
    BLANK_PASSWORD = "blank_password"
    NO_PASSWORD_SET = "no_password_set"
    LOOPBACK_ONLY = "loopback_only"
    NO_IDENTITY = "no_identity"


_REFUSAL_WORDS: Final[dict[RefusalReason, str]] = {
    RefusalReason.UNKNOWN_USER: "there is no such user",
    RefusalReason.WRONG_PASSWORD: "wrong password",
    RefusalReason.BLANK_PASSWORD: "a blank password is never accepted",
    RefusalReason.NO_PASSWORD_SET: "the user has no password",
    RefusalReason.LOOPBACK_ONLY: "the user may log in from this machine only (loopback_users)",
    RefusalReason.NO_IDENTITY: "the certificate names no user",
}


@dataclass(frozen=True)
class Refusal:
    """The facts of a failed login. There is no password in it."""

    reason: RefusalReason
    user_name: str
    peer: str
    detail: str = ""

    def text(self) -> str:
        why = self.detail or _REFUSAL_WORDS[self.reason]
        return f"user '{self.user_name}' from {self.peer}: {why}"


class UserExists(Exception):
    """A user of that name is there already."""


class NoSuchUser(Exception):
    """There is no user of that name."""


def new_user(name: str, password: bytes, random: Random, tags: Iterable[str] = ()) -> User:
    """Make a user; a blank password makes one that cannot log in by password."""
    hashed = hash_password(password, random) if password else ""
    return User(name, hashed, Algorithm.SHA256, tuple(tags))


def is_loopback(peer: str) -> bool:
    """Whether an address as a socket names it is this machine: 127.0.0.0/8, ::1, mapped IPv4."""
    try:
        address = ipaddress.ip_address(peer.partition("%")[0])
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped.is_loopback
    return address.is_loopback


@final
class UserStore:
    """The users of a node, by name."""

    def __init__(self, loopback_users: frozenset[str] = LOOPBACK_USERS) -> None:
        self.loopback_users = loopback_users
        self._users: dict[str, User] = {}

    def add(self, name: str, password: bytes, random: Random, tags: Iterable[str] = ()) -> User:
        if name in self._users:
            raise UserExists(name)
        return self.put(new_user(name, password, random, tags))

    def put(self, user: User) -> User:
        """Store a ready value: imported, replicated, or read at start."""
        self._users[user.name] = user
        return user

    def get(self, name: str) -> User | None:
        return self._users.get(name)

    def names(self) -> list[str]:
        return sorted(self._users)

    def delete(self, name: str) -> User:
        if name not in self._users:
            raise NoSuchUser(name)
        return self._users.pop(name)

    def change_password(self, name: str, password: bytes, random: Random) -> User:
        """Set a new password; a blank one takes login by password away."""
        hashed = hash_password(password, random) if password else ""
        return self.put(
            replace(self._existing(name), password_hash=hashed, algorithm=Algorithm.SHA256)
        )

    def set_tags(self, name: str, tags: Iterable[str]) -> User:
        return self.put(replace(self._existing(name), tags=tuple(tags)))

    def authenticate(self, name: str, password: bytes, peer: str) -> User | Refusal:
        """Decide a login; `peer` is the client's address without the port."""
        user = self._users.get(name)
        if not password:
            return Refusal(RefusalReason.BLANK_PASSWORD, name, peer)
        if user is None:
            matches(password, _NOBODY_HASH, Algorithm.SHA256)
            return Refusal(RefusalReason.UNKNOWN_USER, name, peer)
        if not user.password_hash:
            return Refusal(RefusalReason.NO_PASSWORD_SET, name, peer)
        if not matches(password, user.password_hash, user.algorithm):
            return Refusal(RefusalReason.WRONG_PASSWORD, name, peer)
        return self.admit(user, peer)

    def identify(self, name: str, peer: str) -> User | Refusal:
        """Decide a login whose identity is proven, by whatever mechanism."""
        user = self._users.get(name)
        if user is None:
            return Refusal(RefusalReason.UNKNOWN_USER, name, peer)
        return self.admit(user, peer)

    def admit(self, user: User, peer: str) -> User | Refusal:
        """Apply the loopback rule to a user who is known to be the one."""
        if user.name in self.loopback_users and not is_loopback(peer):
            return Refusal(RefusalReason.LOOPBACK_ONLY, user.name, peer)
        return user

    def _existing(self, name: str) -> User:
        user = self._users.get(name)
        if user is None:
            raise NoSuchUser(name)
        return user
