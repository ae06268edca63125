"""What a run does, as one frozen value; the values that need parsing: URI and size mix.

Owns no defaults of the command line (`arguments` has them). Invariant: an `Options` that
`arguments.parse` returned is consistent: the loops do not check again.
"""

from dataclasses import dataclass
from math import gcd
from typing import Literal
from urllib.parse import unquote, urlsplit

Mode = Literal["both", "publish-only", "drain", "idle", "connect"]
ExchangeKind = Literal["default", "direct", "fanout", "topic", "headers"]

PORT_PLAIN = 5672
PORT_TLS = 5671
# The message number modulo the cycle's length gives the size, so a cycle may be no longer than
# what stays in the processor's cache beside the blocks.
CYCLE_MAX = 1000


@dataclass(frozen=True, slots=True)
class Address:
    """Where the broker is and as whom to log in."""

    host: str
    port: int
    user: str
    password: str
    vhost: str
    tls: bool


@dataclass(frozen=True, slots=True)
class TlsOptions:
    ca_file: str | None
    cert_file: str | None
    key_file: str | None
    insecure: bool


@dataclass(frozen=True, slots=True)
class Options:
    """One run. Counts are totals; `rate` is messages per second over all producers."""

    address: Address
    tls: TlsOptions
    mode: Mode
    producers: int
    consumers: int
    queues: int
    prefix: str
    sizes: tuple[int, ...]  # the cycle: message number modulo its length -> body octets
    confirm: int
    ack_every: int  # 0: the broker does not wait for acks
    prefetch: int
    persistent: bool
    durable: bool
    queue_arguments: tuple[tuple[str, bool | int | str], ...]
    rate: float
    seconds: float
    messages: int
    exchange: ExchangeKind
    routing_keys: int
    bindings: tuple[str, ...]
    bind_each_key: bool
    every_queue: bool  # message n goes to queue n modulo `queues`; consumers share the queues
    headers: int
    full_properties: bool
    priorities: int  # producer i gives its messages priority i modulo this; 0: none
    expiration: int  # milliseconds; -1: none
    dead_letter: bool  # consume what died in another queue
    frame_max: int  # consumer side
    consumer_channel: int
    consume_rate: float  # deliveries per second over all consumers; 0: as fast as it goes
    spread_channels: bool
    interval: float  # seconds between two notes of progress and memory
    latency: bool
    warmup: float
    drain_timeout: float
    mandatory: bool
    verify_body: bool
    keep: bool
    single: bool
    coalesce_us: int
    block_octets: int
    connections: int  # idle mode
    connect_rate: float  # connect mode; 0: as fast as it goes
    pids: tuple[int, ...]
    json: str | None
    quiet: bool

    @property
    def key_width(self) -> int:
        """Digits of a variable routing key; 0 when all messages have one key."""
        if self.routing_keys <= 1:
            return 0
        return 3 * max(1, (len(str(self.routing_keys - 1)) + 2) // 3)


def parse_uri(text: str) -> Address:
    """``amqp[s]://user:password@host:port/vhost``; an empty or missing vhost is ``/``."""
    parts = urlsplit(text)
    if parts.scheme not in ("amqp", "amqps"):
        raise ValueError(f"the URI must begin with amqp:// or amqps://, not {text!r}")
    tls = parts.scheme == "amqps"
    return Address(
        host=parts.hostname or "127.0.0.1",
        port=parts.port or (PORT_TLS if tls else PORT_PLAIN),
        user=unquote(parts.username) if parts.username else "guest",
        password=unquote(parts.password) if parts.password is not None else "guest",
        vhost=unquote(parts.path[1:]) or "/",
        tls=tls,
    )


def parse_octets(text: str) -> int:
    """A number of octets; ``k`` and ``m`` stand for KiB and MiB."""
    scale = {"k": 1024, "m": 1024 * 1024}.get(text[-1:].lower(), 1)
    return int(text[:-1] if scale > 1 else text) * scale


def parse_sizes(text: str) -> tuple[int, ...]:
    """``128`` or a weighted mix ``12:50,128:30,1024:20`` as an evenly spread cycle."""
    weights: dict[int, int] = {}
    for part in text.split(","):
        size, _, weight = part.partition(":")
        weights[parse_octets(size)] = int(weight) if weight else 1
    if min(weights.values()) < 1:
        raise ValueError("the weights of a size mix must be positive")
    divisor = gcd(*weights.values())
    shares = {size: weight // divisor for size, weight in weights.items()}
    if sum(shares.values()) > CYCLE_MAX:
        raise ValueError(f"the weights of a size mix must add up to {CYCLE_MAX} at most")
    return spread_evenly(shares)


def spread_evenly(shares: dict[int, int]) -> tuple[int, ...]:
    """Smooth weighted round robin: each turn the size that is furthest behind its share."""
    total = sum(shares.values())
    credit = dict.fromkeys(shares, 0)
    cycle: list[int] = []
    for _ in range(total):
        for size, share in shares.items():
            credit[size] += share
        chosen = max(credit, key=lambda size: credit[size])
        credit[chosen] -= total
        cycle.append(chosen)
    return tuple(cycle)


def parse_argument(text: str) -> tuple[str, bool | int | str]:
    """``key=value`` of a queue argument: true/false, a number, or a string."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise ValueError(f"a queue argument is key=value, not {text!r}")
    if value in ("true", "false"):
        return key, value == "true"
    try:
        return key, int(value)
    except ValueError:
        return key, value
