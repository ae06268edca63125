"""Permissions per user and vhost, and topic permissions per exchange.

Owns the expressions, compiled once when set, and the decisions. Each permission is three regular
expressions, *configure*, *write* and *read*, searched in the name, not anchored; the empty one
matches nothing; the default exchange is asked about as `amq.default` (VH-3). Topic permissions
restrict publishing to and binding from one topic exchange by key; without one every key is
allowed; `{username}` and `{vhost}` stand for those names, taken literally (VH-4).

A queue and an exchange of one name have the same answer. Which operation asks for what is the
session's knowledge, and so is caching of answers: it is valid while `version` stands still.

Invariant: every change raises `version`.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, final

from warren.security.pattern import Pattern, escape

DEFAULT_EXCHANGE_NAME: Final = "amq.default"


class Access(StrEnum):
    """What is asked for."""

    CONFIGURE = "configure"
    WRITE = "write"
    READ = "read"


@dataclass(frozen=True)
class Permission:
    """What a user may do in a vhost, as the expressions were written."""

    user: str
    vhost: str
    configure: str
    write: str
    read: str


@dataclass(frozen=True)
class TopicPermission:
    """Which keys a user may write to and read from one topic exchange."""

    user: str
    vhost: str
    exchange: str
    write: str
    read: str


@final
class _Compiled:
    """The three patterns of a permission; a topic permission has no use for the first."""

    def __init__(self, configure: str, write: str, read: str) -> None:
        self.patterns = {
            Access.CONFIGURE: Pattern(configure),
            Access.WRITE: Pattern(write),
            Access.READ: Pattern(read),
        }


_Place = tuple[str, str]


@final
class Permissions:
    """All permissions of a node. A bad expression raises `PatternError` and changes nothing."""

    def __init__(self) -> None:
        self.version = 0
        self._plain: dict[_Place, tuple[Permission, _Compiled]] = {}
        self._topic: dict[_Place, dict[str, tuple[TopicPermission, _Compiled]]] = {}

    def put(self, permission: Permission) -> None:
        compiled = _Compiled(permission.configure, permission.write, permission.read)
        self._plain[permission.user, permission.vhost] = (permission, compiled)
        self.version += 1

    def put_topic(self, permission: TopicPermission) -> None:
        compiled = _Compiled(
            "", _expand(permission.write, permission), _expand(permission.read, permission)
        )
        place = permission.user, permission.vhost
        self._topic.setdefault(place, {})[permission.exchange] = (permission, compiled)
        self.version += 1

    def get(self, user: str, vhost: str) -> Permission | None:
        entry = self._plain.get((user, vhost))
        return None if entry is None else entry[0]

    def get_topic(self, user: str, vhost: str, exchange: str) -> TopicPermission | None:
        entry = self._topic.get((user, vhost), {}).get(exchange)
        return None if entry is None else entry[0]

    def clear(self, user: str, vhost: str) -> bool:
        """Take the permission away; False when there was none. Topic permissions stay."""
        if self._plain.pop((user, vhost), None) is None:
            return False
        self.version += 1
        return True

    def clear_topic(self, user: str, vhost: str, exchange: str | None = None) -> bool:
        """Take topic permissions away, of one exchange or all; False when there was none."""
        of_place = self._topic.get((user, vhost), {})
        exchanges = list(of_place) if exchange is None else [exchange]
        cleared = [name for name in exchanges if of_place.pop(name, None) is not None]
        if not cleared:
            return False
        if not of_place:
            del self._topic[user, vhost]
        self.version += 1
        return True

    def forget_user(self, user: str) -> None:
        self._forget({place for place in (*self._plain, *self._topic) if place[0] == user})

    def forget_vhost(self, vhost: str) -> None:
        self._forget({place for place in (*self._plain, *self._topic) if place[1] == vhost})

    def may_enter(self, user: str, vhost: str) -> bool:
        """Whether the user has any permission in the vhost; asked at connection.open."""
        return (user, vhost) in self._plain

    def allowed(self, user: str, vhost: str, access: Access, name: str) -> bool:
        """Whether the user may configure, write or read the queue or exchange of that name."""
        entry = self._plain.get((user, vhost))
        if entry is None:
            return False
        return entry[1].patterns[access].found_in((name or DEFAULT_EXCHANGE_NAME).encode())

    def topic_allowed(
        self, user: str, vhost: str, exchange: str, access: Access, key: bytes
    ) -> bool:
        """Whether the user may publish (write) or bind (read) with the key; topic type only."""
        entry = self._topic.get((user, vhost), {}).get(exchange)
        return entry is None or entry[1].patterns[access].found_in(key)

    def restricts_topics(self, user: str, vhost: str, exchange: str) -> bool:
        """Whether `topic_allowed` needs asking at all; a route may remember the answer."""
        return exchange in self._topic.get((user, vhost), {})

    def all(self) -> list[Permission]:
        """Every permission, by vhost and user."""
        found = [permission for permission, _ in self._plain.values()]
        return sorted(found, key=lambda each: (each.vhost, each.user))

    def all_topic(self) -> list[TopicPermission]:
        """Every topic permission, by vhost, user and exchange."""
        found = [entry[0] for of_place in self._topic.values() for entry in of_place.values()]
        return sorted(found, key=lambda each: (each.vhost, each.user, each.exchange))

    def _forget(self, places: set[_Place]) -> None:
        for place in places:
            self._plain.pop(place, None)
            self._topic.pop(place, None)
        if places:
            self.version += 1


def _expand(pattern: str, permission: TopicPermission) -> str:
    expanded = pattern.replace("{username}", escape(permission.user))
    return expanded.replace("{vhost}", escape(permission.vhost))
