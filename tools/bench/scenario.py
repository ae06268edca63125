"""The scenarios of the benchmark, as data: what `warren bench` is told for each.

A scenario is one or more steps against one broker; each step gives a row of its own. Durations are
left to the runner (`--seconds`), except where a step counts messages.
"""

from dataclasses import dataclass
from typing import Literal

# What a row compares: deliveries, publishes, latency, memory of connections, or connections.
Measure = Literal["consumed", "published", "latency", "idle", "connect", "restart"]
# What is done: a run of the load generator, or the broker ends and begins again.
Deed = Literal["load", "stop", "kill"]


@dataclass(frozen=True, slots=True)
class Step:
    """One run of the load generator, or one restart of the broker."""

    row: str  # the name of the row
    title: str
    options: str  # of `warren bench`, as on a command line
    measure: Measure = "consumed"
    messages: int = 0  # publish so many instead of for a time
    messages_rabbitmq: int = 0  # the same for RabbitMQ, where that would take too long
    deed: Deed = "load"  # for a restart `options` is the queue that the first message comes from


@dataclass(frozen=True, slots=True)
class Scenario:
    """Steps that run one after the other against one fresh broker."""

    name: str
    steps: tuple[Step, ...]
    tls: bool = False
    durable: bool = False  # meaningful beside the disk's floor
    quick: bool = True  # part of --quick
    only_named: bool = False  # left out unless it is asked for by name
    rounds_max: int = 100


def one(
    name: str,
    title: str,
    options: str,
    measure: Measure = "consumed",
    *,
    tls: bool = False,
    durable: bool = False,
    quick: bool = True,
) -> Scenario:
    return Scenario(
        name, (Step(name, title, options, measure),), tls=tls, durable=durable, quick=quick
    )


# Short reads make the load generator nap, so that it does not take the processor from the broker.
FLOOD = "--coalesce 500 "
SAFE = "--coalesce 200 --confirm 1000 --ack-every 50 --prefetch 500 "
DRAIN = "--drain --ack-every 50 --prefetch 500 --coalesce 100 --interval 0.1 "
DURABLE = "--persistent --durable "
FILL_ONLY = DURABLE + "--publish-only --interval 0.1 "
LAZY = "--queue-arg x-queue-mode=lazy "
FILL = 2_000_000
HEADLINE = 10_000_000
START = 1_000_000
MANY_QUEUES = 50_000
MANY = f"--queues {MANY_QUEUES} --every-queue --size 128 "


def fill_and_drain(name: str, words: str, options: str, messages: int) -> Scenario:
    """Publish without consumers, then drain; ten million are for Warren only."""
    headline = messages == HEADLINE
    fewer = FILL if headline else 0
    unless = f" (RabbitMQ: {FILL:,})" if headline else ""
    return Scenario(
        name,
        (
            Step(
                "fill" + name.removeprefix("fill-drain"),
                f"persistent 1 KiB, publish only, {messages:,} messages{unless}{words}",
                "--size 1k " + FILL_ONLY + options,
                "published",
                messages,
                fewer,
            ),
            Step(
                "drain" + name.removeprefix("fill-drain"),
                f"draining these, acks by 50{words}",
                "--size 1k " + DRAIN,
            ),
        ),
        durable=True,
        quick=False,
        only_named=headline,
        rounds_max=1 if headline else 100,
    )


def restarted(name: str, title: str, queue: str) -> tuple[Step, Step]:
    """A clean stop and a start, then a kill and a start."""
    return (
        Step(f"{name}-stop", f"{title}, after a clean stop", queue, "restart", deed="stop"),
        Step(f"{name}-kill", f"{title}, after kill -9", queue, "restart", deed="kill"),
    )


SCENARIOS: tuple[Scenario, ...] = (
    one("transient-12", "transient, 12 B", FLOOD + "--size 12"),
    one("transient-128", "transient, 128 B", FLOOD + "--size 128"),
    one("transient-1k", "transient, 1 KiB", FLOOD + "--size 1k"),
    one("transient-64k", "transient, 64 KiB", FLOOD + "--size 64k --block 512k"),
    one("confirms", "128 B, confirms in a window of 1000, acks by 50", SAFE + "--size 128"),
    one(
        "fanout",
        "128 B to 10 queues, one producer",
        FLOOD + "--size 128 --exchange fanout --queues 10 --consumers 10",
    ),
    one(
        "fanout-channels",
        "128 B to 10 queues, consumers on different channels",
        FLOOD + "--size 128 --exchange fanout --queues 10 --consumers 10 --consumer-channel 5+",
    ),
    one(
        "ten",
        "128 B, 10 producers, 10 consumers, 10 queues",
        FLOOD + "--size 128 --producers 10 --consumers 10 --queues 10",
    ),
    one(
        "fifty-in-flight",
        "128 B, 50 producers and consumers, window 1",
        "--size 128 --producers 50 --consumers 50 --queues 50 --confirm 1 --ack-every 1 "
        "--prefetch 1",
    ),
    one(
        "mixed-topic",
        "12 B to 1 KiB mixed, 100 routing keys, topic exchange",
        FLOOD + "--size 12:40,128:30,512:20,1024:10 --exchange topic --routing-keys 100",
    ),
    one(
        "uniform-248",
        "248 B, the mean of the mixed sizes, one key, default exchange",
        FLOOD + "--size 248",
        quick=False,
    ),
    one("other-channel", "128 B, consumer on channel 7", FLOOD + "--size 128 --consumer-channel 7"),
    one("frame-max", "128 B, consumer frame_max 4096", FLOOD + "--size 128 --frame-max 4096"),
    one(
        "frame-max-64k",
        "64 KiB, consumer frame_max 4096",
        FLOOD + "--size 64k --block 512k --frame-max 4096",
        quick=False,
    ),
    one(
        "million-keys",
        "128 B, a million distinct routing keys",
        FLOOD + "--size 128 --exchange topic --routing-keys 1000000",
    ),
    one(
        "million-bindings",
        "128 B, topic exchange with a million bindings",
        FLOOD + "--size 128 --exchange topic --routing-keys 1000000 --bind-each-key",
        quick=False,
    ),
    one("headers", "128 B, 5 headers", FLOOD + "--size 128 --headers 5"),
    one(
        "properties",
        "128 B, 5 headers, all properties with an expiration",
        FLOOD + "--size 128 --headers 5 --properties",
    ),
    one(
        "headers-exchange",
        "128 B, headers exchange, 5 headers",
        FLOOD + "--size 128 --exchange headers --headers 5",
    ),
    one(
        "priority",
        "128 B, 10 producers of 10 priorities, one queue",
        FLOOD + "--size 128 --producers 10 --priorities 10 --queue-arg x-max-priority=10",
    ),
    one(
        "ttl",
        "128 B, queue TTL and expiration",
        FLOOD + "--size 128 --expiration 3600000 --queue-arg x-message-ttl=1800000",
    ),
    one("dead-letter", "128 B, every message dead-lettered", FLOOD + "--size 128 --dead-letter"),
    # TLS comes in records of 16 KiB at most, so every read would be a short one.
    one("tls", "128 B over TLS", "--size 128 --tls-insecure", tls=True),
    one(
        "tls-confirms",
        "128 B over TLS, confirms in a window of 1000, acks by 50",
        "--confirm 1000 --ack-every 50 --prefetch 500 --size 128 --tls-insecure",
        tls=True,
    ),
    one(
        "latency",
        "latency at 5,000/s, 128 B",
        "--latency --rate 5000 --size 128",
        "latency",
    ),
    one(
        "latency-persistent",
        "latency at 5,000/s, 128 B, persistent, confirmed",
        "--latency --rate 5000 --size 128 --persistent --durable --confirm 1000 --ack-every 50 "
        "--prefetch 500",
        "latency",
        durable=True,
        quick=False,
    ),
    one(
        "persistent",
        "persistent 1 KiB, durable queue, confirms 1000, acks by 50",
        SAFE + "--size 1k --persistent --durable",
        durable=True,
        quick=False,
    ),
    one(
        "persistent-queues",
        "persistent 1 KiB, 1,000 durable queues, confirms 1000, acks by 50",
        SAFE + DURABLE + "--size 1k --queues 1000 --every-queue --producers 2 --consumers 2",
        durable=True,
        quick=False,
    ),
    one(
        "persistent-12",
        "persistent 12 B, durable queue, confirms 1000, acks by 50",
        SAFE + DURABLE + "--size 12",
        durable=True,
        quick=False,
    ),
    one(
        "persistent-64k",
        "persistent 64 KiB, durable queue, confirms 1000, acks by 50",
        SAFE + DURABLE + "--size 64k --block 512k",
        durable=True,
        quick=False,
    ),
    fill_and_drain("fill-drain", "", "", FILL),
    fill_and_drain("fill-drain-lazy", ", lazy queue", LAZY, FILL),
    fill_and_drain("fill-drain-10m", "", "", HEADLINE),
    fill_and_drain("fill-drain-10m-lazy", ", lazy queue", LAZY, HEADLINE),
    Scenario(
        "start",
        (
            Step(
                "start-fill",
                f"persistent 1 KiB, confirms in a window of 1000, {START:,} messages",
                "--size 1k --confirm 1000 " + FILL_ONLY,
                "published",
                START,
            ),
            *restarted("start", f"start with {START:,} persistent 1 KiB messages", "perf-0"),
            Step("start-drain", "draining what survived both", "--size 1k " + DRAIN),
        ),
        durable=True,
        quick=False,
    ),
    Scenario(
        "many-queues",
        (
            Step(
                "many-fill",
                f"persistent 128 B, confirmed, 10 for each of {MANY_QUEUES:,} durable queues",
                "--confirm 1000 --keep " + MANY + FILL_ONLY,
                "published",
                10 * MANY_QUEUES,
            ),
            *restarted("many", f"start with {MANY_QUEUES:,} durable queues", "perf-000000"),
            Step("many-drain", f"draining {MANY_QUEUES:,} queues", MANY + DRAIN),
        ),
        durable=True,
        quick=False,
        rounds_max=1,
    ),
    one("idle", "1,000 idle connections", "--idle 1000", "idle"),
    one("connect", "connections opened and closed", "--connect-rate 0", "connect"),
)


def pick(names: list[str], *, quick: bool) -> list[Scenario]:
    """The scenarios of these names; without names all, or the quick ones."""
    known = {scenario.name: scenario for scenario in SCENARIOS}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SystemExit(f"unknown scenario {unknown[0]!r}; known: {', '.join(known)}")
    if names:
        return [known[name] for name in names]
    return [
        scenario
        for scenario in SCENARIOS
        if (scenario.quick or not quick) and not scenario.only_named
    ]
