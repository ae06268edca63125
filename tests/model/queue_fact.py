"""What there is in the model of queues: arguments, messages, deaths, consumers, deliveries.

Frozen values, so that a step can be tried on a copy of the model that shares them.
"""

from dataclasses import dataclass
from typing import Any

# A channel: which client's, and its number.
Where = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Rules:
    """The arguments of a queue."""

    ttl_ms: int | None = None
    expires_ms: int | None = None
    max_length: int | None = None
    max_bytes: int | None = None
    overflow: str = "drop-head"
    dlx: str | None = None
    dlk: str | None = None
    priorities: int = 0
    single: bool = False
    auto_delete: bool = False
    quorum: bool = False
    limit: int | None = None
    durable: bool = False
    lazy: bool = False

    def arguments(self) -> dict[str, Any]:
        found = {
            "x-message-ttl": self.ttl_ms,
            "x-expires": self.expires_ms,
            "x-max-length": self.max_length,
            "x-max-length-bytes": self.max_bytes,
            "x-overflow": None if self.overflow == "drop-head" else self.overflow,
            "x-dead-letter-exchange": self.dlx,
            "x-dead-letter-routing-key": self.dlk,
            "x-max-priority": self.priorities or None,
            "x-single-active-consumer": self.single or None,
            "x-queue-type": "quorum" if self.quorum else None,
            "x-delivery-limit": self.limit,
            "x-queue-mode": "lazy" if self.lazy else None,
        }
        return {name: value for name, value in found.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Death:
    """One entry of x-death."""

    queue: str
    reason: str
    count: int
    time: int
    exchange: str
    keys: tuple[str, ...]
    expiration: str | None

    def table(self) -> dict[str, Any]:
        told = {
            "queue": self.queue,
            "reason": self.reason,
            "count": self.count,
            "time": self.time,
            "exchange": self.exchange,
            "routing-keys": list(self.keys),
        }
        return told | ({} if self.expiration is None else {"original-expiration": self.expiration})


@dataclass(frozen=True, slots=True)
class Letter:
    """A message as it was published, by a client or after its death."""

    number: int
    exchange: str
    key: str
    size: int
    priority: int | None = None
    expiration: str | None = None
    cc: tuple[str, ...] = ()
    bcc: tuple[str, ...] = ()
    deaths: tuple[Death, ...] = ()
    first: Death | None = None
    persistent: bool = False

    def keys(self) -> tuple[str, ...]:
        return (self.key, *self.cc, *self.bcc)

    def properties(self, headers: dict[str, Any]) -> dict[str, Any]:
        headers = dict(headers)
        if self.cc:
            headers["CC"] = list(self.cc)
        if self.deaths:
            headers["x-death"] = [death.table() for death in self.deaths]
        if self.first is not None:
            for part in ("reason", "queue", "exchange"):
                headers["x-first-death-" + part] = getattr(self.first, part)
        found: dict[str, Any] = {"message_id": str(self.number)}
        if headers:
            found["headers"] = headers
        if self.persistent:
            found["delivery_mode"] = 2
        if self.priority is not None:
            found["priority"] = self.priority
        if self.expiration is not None:
            found["expiration"] = self.expiration
        return found


@dataclass(frozen=True, slots=True)
class Entry:
    """A message in one queue: its place, its expiry, whether and how often it came back."""

    place: int
    letter: Letter
    expires: int | None = None
    again: bool = False
    returns: int = 0


@dataclass(frozen=True, slots=True)
class Consumer:
    serial: int
    where: Where
    tag: str
    queue: str
    no_ack: bool
    exclusive: bool
    priority: int
    limit: int


@dataclass(frozen=True, slots=True)
class Out:
    """A delivery that nobody has settled; consumer 0 is basic.get."""

    queue: str
    incarnation: int
    entry: Entry
    consumer: int


@dataclass(frozen=True, slots=True)
class Seen:
    """A message that a client was given."""

    where: Where
    consumer_tag: str
    delivery_tag: int
    redelivered: bool
    exchange: str
    key: str
    properties: dict[str, Any]
    size: int


def is_cycle(deaths: tuple[Death, ...], target: str) -> bool:
    """DL-6: it died in the target before, and was not rejected since."""
    for death in deaths:
        if death.reason == "rejected":
            return False
        if death.queue == target:
            return True
    return False


def successor(consumers: list[Consumer]) -> int:
    """SA-1: the highest priority, then who waits longest."""
    best = max((each.priority for each in consumers), default=0)
    return next((each.serial for each in consumers if each.priority == best), 0)
