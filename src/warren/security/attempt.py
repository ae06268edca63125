"""Login attempts: counted by protocol, and braked by address.

A client with a wrong password that tries again and again costs a connection, a handshake and log
lines each time. Each address may fail a number of times a second, with a burst of two seconds'
worth; beyond that its new connections are to be dropped before anything is read from them, until
the allowance is back. What is open stays open, and other addresses do not notice.

An address is one of IPv4, or a network of 64 bits of IPv6, which is what one customer has.

Invariants: without failures `held` costs one comparison; the table has at most ADDRESSES_MAX
entries, and forgets the address that failed longest ago first; time is handed in.
"""

from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Final, final

# Half a megabyte; more addresses than this at a time are no single client any more.
ADDRESSES_MAX: Final = 4096
# How many seconds' worth of failures an address may have saved up.
BURST_S: Final = 2
_SECOND_NS: Final = 1_000_000_000


@dataclass(slots=True)
class Counts:
    """What metrics tell of one protocol."""

    attempts: int = 0
    succeeded: int = 0
    failed: int = 0


@dataclass(frozen=True)
class Braked:
    """An address whose connections are dropped, or were until now."""

    address: str
    dropped: int


@dataclass(slots=True)
class _Address:
    """What an address has spent of its allowance, and what was dropped since it was used up."""

    spent: float
    at_ns: int
    braked: bool = False
    dropped: int = field(default=0)


@final
class Attempts:
    """The login attempts of one node; `failures_per_s` None brakes nobody."""

    def __init__(
        self, failures_per_s: int | None = None, addresses_max: int = ADDRESSES_MAX
    ) -> None:
        self.failures_per_s = failures_per_s
        self.by_protocol: dict[str, Counts] = {}
        self.dropped = 0
        self._addresses_max = addresses_max
        self._addresses: dict[str, _Address] = {}

    def succeeded(self, protocol: str) -> None:
        counts = self._counts(protocol)
        counts.attempts += 1
        counts.succeeded += 1

    def failed(self, protocol: str, peer: str, now_ns: int) -> Braked | None:
        """Count a failed login; return the address if it is braked from here on."""
        counts = self._counts(protocol)
        counts.attempts += 1
        counts.failed += 1
        return self.charge(peer, now_ns)

    def charge(self, peer: str, now_ns: int) -> Braked | None:
        """Take one from the allowance of an address: it has cost as much as a failed login."""
        rate = self.failures_per_s
        if rate is None:
            return None
        name = address_of(peer)
        found = self._addresses.pop(name, None)
        if found is None:
            if len(self._addresses) >= self._addresses_max:
                del self._addresses[next(iter(self._addresses))]
            found = _Address(0.0, now_ns)
        self._addresses[name] = found
        self._refill(found, now_ns)
        found.spent += 1
        if found.braked or found.spent < rate * BURST_S:
            return None
        found.braked = True
        return Braked(name, 0)

    def held(self, peer: str, now_ns: int) -> bool:
        """Whether a connection of this address is to be dropped unread."""
        if not self._addresses or self.failures_per_s is None:
            return False
        found = self._addresses.get(address_of(peer))
        if found is None or not found.braked:
            return False
        self._refill(found, now_ns)
        if found.spent + 1 <= self.failures_per_s * BURST_S:
            return False
        found.dropped += 1
        self.dropped += 1
        return True

    def sweep(self, now_ns: int) -> list[Braked]:
        """Forget addresses that have not failed lately; return those that were braked."""
        ended: list[Braked] = []
        for name, found in list(self._addresses.items()):
            self._refill(found, now_ns)
            if found.spent <= 0:
                del self._addresses[name]
                if found.braked:
                    ended.append(Braked(name, found.dropped))
        return ended

    def braked(self) -> list[Braked]:
        """The addresses that are braked now, the one that failed last at the end."""
        return [
            Braked(name, found.dropped) for name, found in self._addresses.items() if found.braked
        ]

    def _refill(self, found: _Address, now_ns: int) -> None:
        assert self.failures_per_s is not None
        back = (now_ns - found.at_ns) * self.failures_per_s / _SECOND_NS
        found.spent = max(0.0, found.spent - back)
        found.at_ns = now_ns

    def _counts(self, protocol: str) -> Counts:
        return self.by_protocol.setdefault(protocol, Counts())


def address_of(peer: str) -> str:
    """Return what an allowance belongs to: the IPv4 address, or the IPv6 network."""
    if ":" not in peer:
        return peer
    try:
        address = ip_address(peer.partition("%")[0])
    except ValueError:
        return peer
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ip_network((address, 64), strict=False))
