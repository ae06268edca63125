"""Who asks over HTTP, and what they may: for everything that this process answers.

A name and a password are checked by the node, which counts and brakes failures by address; what it
said is remembered for CACHE_S at most, by a keyed hash, and forgotten when a user or a permission
changes. Tags and permissions decide per endpoint and virtual host (O-3.1 to O-3.3).
"""

import base64
import binascii
import hashlib
from collections.abc import Collection
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, final

from warren.core import Clock, Random
from warren.management.answer import REALM, HttpError, not_authorised, not_authorized
from warren.management.control import ControlClient, RefusedError

# Bounds how long a change could go unseen if the node could not tell of it.
CACHE_NS: Final = 10_000_000_000
CACHE_SIZE_MAX: Final = 1000

MANAGEMENT: Final = frozenset({"management", "policymaker", "monitoring", "administrator"})


class May(Enum):
    """The classes of rights that endpoints ask for (O-3.2)."""

    EVERYBODY = "no login"
    ANY = "any management user"
    VHOST = "a permission in the virtual host"
    VHOST_VISIBLE = "the same, or monitoring"
    MONITOR = "monitoring"
    POLICY = "policymaker, with a permission in the virtual host"
    GLOBAL_POLICY = "policymaker"
    ADMINISTRATOR = "administrator"


@dataclass(frozen=True, slots=True)
class Identity:
    """A user who has proven to be one."""

    user: str
    tags: frozenset[str] = frozenset()
    # Those the user has permissions in.
    vhosts: frozenset[str] = frozenset()
    tag_list: tuple[str, ...] = field(default=())

    @property
    def administrator(self) -> bool:
        return "administrator" in self.tags

    @property
    def monitor(self) -> bool:
        return self.administrator or "monitoring" in self.tags

    @property
    def policymaker(self) -> bool:
        return self.administrator or "policymaker" in self.tags

    def enters(self, vhost: str) -> bool:
        """Whether the objects of a virtual host are shown."""
        return self.administrator or vhost in self.vhosts

    def sees(self, vhost: str) -> bool:
        """Whether a virtual host itself is shown."""
        return self.monitor or vhost in self.vhosts


NOBODY: Final = Identity("")


def check(may: May, identity: Identity, vhost: str | None, vhosts: Collection[str]) -> None:
    """Refuse (401) who may not; a virtual host that is not there is nobody's secret."""
    if not identity.tags & MANAGEMENT:
        raise not_authorised("Not management user")
    somewhere = vhost is None or vhost not in vhosts or vhost in identity.vhosts
    match may:
        case May.VHOST if not (identity.administrator or somewhere):
            raise not_authorised("User not authorised to access virtual host")
        case May.VHOST_VISIBLE if not (identity.monitor or somewhere):
            raise not_authorised("User not authorised to access virtual host")
        case May.MONITOR if not identity.monitor:
            raise not_authorised("Not monitor user")
        case May.POLICY if not (identity.administrator or (identity.policymaker and somewhere)):
            raise not_authorised("User not authorised to access object")
        case May.GLOBAL_POLICY if not identity.policymaker:
            raise not_authorised("User not authorised to access object")
        case May.ADMINISTRATOR if not identity.administrator:
            raise not_authorised("Not administrator user")
        case _:
            return


def read_basic(header: str) -> tuple[str, str]:
    """Return the name and the password of an Authorization header; 401 if it has none."""
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic":
        raise HttpError(401, "", "", {"www-authenticate": REALM})
    try:
        octets = base64.b64decode(encoded.strip(), validate=True)
    except (binascii.Error, ValueError):
        raise not_authorized("Login failed") from None
    name, colon, password = octets.decode("utf-8", "replace").partition(":")
    if not colon or not 0 < len(name.encode()) <= 255:
        raise not_authorized("Login failed")
    return name, password


@final
class Access:
    """Logs users in, and remembers for a moment that it did."""

    def __init__(self, control: ControlClient, clock: Clock, random: Random) -> None:
        self._control = control
        self._clock = clock
        self._key = random.octets(32)
        self._known: dict[bytes, tuple[int, Identity]] = {}
        self._changes = 0

    def forget(self) -> None:
        """A user or a permission has changed."""
        self._changes += 1
        self._known.clear()

    async def login(self, header: str | None, peer: str) -> Identity:
        """Return who asks; `HttpError` 401 for nobody."""
        if not header:
            raise HttpError(401, "", "", {"www-authenticate": REALM})
        name, password = read_basic(header)
        return await self.check_password(name, password, peer)

    async def check_password(self, name: str, password: str, peer: str) -> Identity:
        written = f"{len(name)}:{name}{len(password)}:{password}{peer}".encode()
        key = hashlib.blake2b(written, key=self._key, digest_size=32).digest()
        found = self._known.get(key)
        now = self._clock.monotonic_ns()
        if found is not None and now < found[0]:
            return found[1]
        changes = self._changes
        args = {"user": name, "password": password, "peer": peer}
        try:
            told = await self._control.ask("login", args)
        except RefusedError as refusal:
            loopback = refusal.fix == "loopback_only"
            raise not_authorized(
                "User can only log in via localhost" if loopback else "Login failed"
            ) from None
        identity = Identity(
            user=name,
            tags=frozenset(told["tags"]),
            vhosts=frozenset(told["vhosts"]),
            tag_list=tuple(told["tags"]),
        )
        # What was true before a change that came meanwhile is not remembered.
        if changes == self._changes:
            self._remember(key, now, identity)
        return identity

    def _remember(self, key: bytes, now: int, identity: Identity) -> None:
        self._known.pop(key, None)
        if len(self._known) >= CACHE_SIZE_MAX:
            del self._known[next(iter(self._known))]
        self._known[key] = (now + CACHE_NS, identity)
