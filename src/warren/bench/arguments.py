"""The command line of `warren bench`: names, defaults, help, and what does not go together."""

import argparse
from typing import NoReturn

from warren.bench.option import (
    Address,
    Mode,
    Options,
    TlsOptions,
    parse_argument,
    parse_octets,
    parse_sizes,
    parse_uri,
)
from warren.bench.verify import HEAD_OCTETS, STAMPED_HEAD_OCTETS

EPILOG = """\
examples:
  warren bench --seconds 10
      one producer, one consumer, one queue, 128 octets, no acknowledgements
  warren bench --confirm 1000 --ack-every 50 --prefetch 500 --persistent --durable --size 1k
      the safe way: confirms in a window of 1000, acknowledgements by 50
  warren bench --latency --rate 5000 --seconds 10
      end-to-end latency at a fixed rate
  warren bench --producers 10 --consumers 10 --queues 10 --size 12:50,128:30,1024:20
  warren bench --exchange topic --routing-keys 1000000 --binding 'perf.#'
  warren bench --publish-only --messages 1000000 --durable --persistent
  warren bench --drain --ack-every 50 --prefetch 500
      fill the queues, and empty them in a second run
  warren bench --queues 1000 --every-queue --producers 2 --consumers 2 --durable --persistent
      a thousand queues over four connections
  warren bench --idle 1000 --pid 1234
      memory per idle connection of the broker with that process id

A body begins with magic u16, producer u16, sequence u64, and with --latency the time u64 in ns:
no size below 12 (20 with --latency). What is lost, doubled or out of order is found from these.
In rate mode a message that left more than 1 ms late carries its planned time, so a broker that
holds the producer back cannot hide it.

exit status: 0 ok; 1 messages were lost, doubled, reordered, spoilt, refused or did not arrive in
time; 2 the run could not be made.
"""


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="warren bench",
        description="Load generator for AMQP 0-9-1 brokers, several times cheaper than the broker.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_connection_options(parser)
    add_work_options(parser)
    add_queue_options(parser)
    add_message_options(parser)
    add_mode_options(parser)
    add_output_options(parser)
    return parser


def add_connection_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("connection")
    group.add_argument(
        "--uri",
        default="amqp://guest:guest@127.0.0.1:5672/%2f",
        help="amqp[s]://user:password@host:port/vhost (default: %(default)s)".replace(
            "%2f", "%%2f"
        ),
    )
    group.add_argument("--tls-ca", metavar="FILE", help="certificates to trust")
    group.add_argument("--tls-cert", metavar="FILE", help="client certificate")
    group.add_argument("--tls-key", metavar="FILE", help="key of the client certificate")
    group.add_argument("--tls-insecure", action="store_true", help="trust any certificate")
    group.add_argument(
        "--frame-max",
        type=parse_octets,
        default=131072,
        metavar="N",
        help="frame_max of the consumers (default: 131072, at least 4096)",
    )
    group.add_argument(
        "--consumer-channel",
        default="1",
        metavar="N[+]",
        help="channel number of the consumers; 5+ gives each the next one: 5, 6, 7",
    )


def add_work_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("work")
    group.add_argument("--producers", type=int, default=1, metavar="N")
    group.add_argument("--consumers", type=int, default=1, metavar="N")
    group.add_argument(
        "--queues",
        type=int,
        default=1,
        metavar="N",
        help="producer i and consumer i use queue i modulo N",
    )
    group.add_argument(
        "--every-queue",
        action="store_true",
        help="every producer publishes to all queues in turn, by their names, and the consumers "
        "share the queues: many queues with few connections",
    )
    group.add_argument("--prefix", default="perf-", metavar="NAME", help="names of the queues")
    group.add_argument(
        "--seconds",
        type=float,
        default=0.0,
        metavar="S",
        help="how long to publish (default: 10 without --messages)",
    )
    group.add_argument(
        "--messages", type=int, default=0, metavar="N", help="publish N messages in all instead"
    )
    group.add_argument(
        "--rate",
        type=float,
        default=0.0,
        metavar="R",
        help="messages per second over all producers, on an absolute schedule",
    )
    group.add_argument(
        "--confirm",
        type=int,
        default=0,
        metavar="WINDOW",
        help="publisher confirms, at most WINDOW unconfirmed per producer",
    )
    acks = group.add_mutually_exclusive_group()
    acks.add_argument("--autoack", action="store_true", help="no acknowledgements (the default)")
    acks.add_argument(
        "--ack-every", type=int, default=0, metavar="N", help="acknowledge N deliveries at a time"
    )
    group.add_argument("--prefetch", type=int, default=0, metavar="N")
    group.add_argument(
        "--consume-rate",
        type=float,
        default=0.0,
        metavar="R",
        help="slow consumers: take R messages per second over all of them",
    )


def add_queue_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("queues and routes")
    group.add_argument("--durable", action="store_true", help="durable queues and exchange")
    group.add_argument("--queue-arg", action="append", default=[], metavar="KEY=VALUE")
    group.add_argument(
        "--exchange",
        default="default",
        choices=["default", "direct", "fanout", "topic", "headers"],
        help="fanout, topic and headers give every queue every message",
    )
    group.add_argument(
        "--routing-keys",
        type=int,
        default=1,
        metavar="N",
        help="N distinct keys in turn (direct: spread over the queues)",
    )
    group.add_argument(
        "--binding",
        action="append",
        default=[],
        metavar="PATTERN",
        help="bind every queue with this pattern (may repeat); what is lost cannot "
        "be known then, order and duplicates are still verified",
    )
    group.add_argument(
        "--bind-each-key",
        action="store_true",
        help="topic: one binding per routing key, spread over the queues",
    )


def add_message_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("messages")
    group.add_argument(
        "--size",
        default="128",
        metavar="OCTETS|MIX",
        help="128, 64k, or weighted: 12:50,128:30,1024:20",
    )
    group.add_argument("--persistent", action="store_true")
    group.add_argument("--mandatory", action="store_true", help="count what is returned")
    group.add_argument(
        "--headers", type=int, default=0, metavar="N", help="a header table with N entries"
    )
    group.add_argument("--properties", action="store_true", help="set every basic property")
    group.add_argument(
        "--priorities",
        type=int,
        default=0,
        metavar="N",
        help="producer i publishes with priority i modulo N (see --queue-arg x-max-priority=N)",
    )
    group.add_argument(
        "--expiration", type=int, default=-1, metavar="MS", help="time to live of every message"
    )
    group.add_argument(
        "--dead-letter",
        action="store_true",
        help="publish into queues where messages die at once (TTL 0), consume their dead letters",
    )
    group.add_argument("--verify-body", action="store_true", help="compare every octet")


def add_mode_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("modes")
    modes = group.add_mutually_exclusive_group()
    modes.add_argument("--publish-only", action="store_true", help="fill the queues and keep them")
    modes.add_argument("--drain", action="store_true", help="empty queues filled before")
    modes.add_argument(
        "--idle",
        type=int,
        default=0,
        metavar="N",
        help="hold N connections for --seconds, report memory (with --pid)",
    )
    modes.add_argument(
        "--connect-rate",
        type=float,
        default=None,
        metavar="R",
        help="open and close connections, R per second (0: as fast as it goes)",
    )
    group.add_argument("--latency", action="store_true", help="measure end-to-end latency")
    group.add_argument(
        "--warmup",
        type=float,
        default=1.0,
        metavar="S",
        help="left out of latency percentiles (default: 1)",
    )
    group.add_argument(
        "--drain-timeout",
        type=float,
        default=30.0,
        metavar="S",
        help="give up after S seconds without progress (default: 30)",
    )
    group.add_argument("--single", action="store_true", help="one load process instead of two")
    group.add_argument(
        "--coalesce",
        type=int,
        default=0,
        metavar="US",
        help="nap after a short read, so that bytes come in larger pieces",
    )
    group.add_argument(
        "--block",
        type=parse_octets,
        default=65536,
        metavar="N",
        help="octets per send (default: 64k)",
    )
    group.add_argument("--keep", action="store_true", help="do not delete the queues")


def add_output_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("output")
    group.add_argument(
        "--pid",
        type=int,
        action="append",
        default=[],
        metavar="P",
        help="process of the broker (may repeat, children included): CPU and RSS",
    )
    group.add_argument(
        "--interval",
        type=float,
        default=1.0,
        metavar="S",
        help="note progress and the broker's memory every S seconds in the series of the JSON "
        "(default: 1, at least 0.05)",
    )
    group.add_argument("--json", metavar="FILE", help="write the result; - is standard output")
    group.add_argument("--quiet", action="store_true", help="no live display, no summary")


def parse(argv: list[str]) -> Options:
    """Options of a command line; argparse exits with status 2 on a mistake."""
    parser = build_parser()
    args = parser.parse_args(argv)
    try:
        address = parse_uri(args.uri)
        sizes = parse_sizes(args.size)
        arguments = tuple(parse_argument(text) for text in args.queue_arg)
        channel = int(args.consumer_channel.rstrip("+"))
    except ValueError as error:
        refuse(parser, str(error))
    options = assemble(args, address, sizes, arguments, channel)
    reason = inconsistency(options)
    if reason:
        refuse(parser, reason)
    return options


def refuse(parser: argparse.ArgumentParser, reason: str) -> NoReturn:
    parser.error(reason)


def pick_mode(args: argparse.Namespace) -> Mode:
    if args.idle:
        return "idle"
    if args.connect_rate is not None:
        return "connect"
    if args.drain:
        return "drain"
    return "publish-only" if args.publish_only or args.consumers == 0 else "both"


def assemble(
    args: argparse.Namespace,
    address: Address,
    sizes: tuple[int, ...],
    arguments: tuple[tuple[str, bool | int | str], ...],
    channel: int,
) -> Options:
    mode = pick_mode(args)
    endless = not args.messages and args.seconds <= 0 and mode != "drain"
    keys: int = args.routing_keys
    if args.exchange == "direct" and keys > 1:
        keys = -(-keys // args.queues) * args.queues  # so that key modulo queues never shifts
    if args.every_queue:
        keys = args.queues  # their names are the keys
    if args.bind_each_key:
        keys = -(-max(keys, args.queues) // args.queues) * args.queues
    return Options(
        address=address,
        tls=TlsOptions(args.tls_ca, args.tls_cert, args.tls_key, args.tls_insecure),
        mode=mode,
        producers=args.producers,
        consumers=0 if mode == "publish-only" else args.consumers,
        queues=args.queues,
        prefix=args.prefix,
        sizes=sizes,
        confirm=args.confirm,
        ack_every=args.ack_every,
        prefetch=args.prefetch,
        persistent=args.persistent,
        durable=args.durable,
        queue_arguments=arguments,
        rate=args.rate,
        seconds=10.0 if endless else args.seconds,
        messages=args.messages,
        exchange=args.exchange,
        routing_keys=keys,
        bindings=tuple(args.binding),
        bind_each_key=args.bind_each_key,
        every_queue=args.every_queue,
        headers=args.headers,
        full_properties=args.properties,
        priorities=args.priorities,
        expiration=args.expiration,
        dead_letter=args.dead_letter,
        frame_max=args.frame_max,
        consumer_channel=channel,
        spread_channels=args.consumer_channel.endswith("+"),
        consume_rate=args.consume_rate,
        interval=args.interval,
        latency=args.latency,
        warmup=args.warmup,
        drain_timeout=args.drain_timeout,
        mandatory=args.mandatory,
        verify_body=args.verify_body,
        keep=args.keep,
        single=args.single,
        coalesce_us=args.coalesce,
        block_octets=args.block,
        connections=args.idle,
        connect_rate=args.connect_rate or 0.0,
        pids=tuple(args.pid),
        json=args.json,
        quiet=args.quiet,
    )


def inconsistency(options: Options) -> str | None:
    """Why these options do not go together, or None."""
    head = STAMPED_HEAD_OCTETS if options.latency else HEAD_OCTETS
    last_channel = options.consumer_channel + (
        options.consumers - 1 if options.spread_channels else 0
    )
    rules: list[tuple[bool, str]] = [
        (min(options.sizes) < head, f"a body needs {head} octets for what is verified"),
        (max(options.sizes) > 128 * 1024 * 1024, "a body may have 128 MiB at most"),
        (not 1 <= options.producers <= 65535, "--producers is 1 to 65535"),
        (not 0 <= options.consumers <= 65535, "--consumers is 0 to 65535"),
        (not 1 <= options.queues <= 100_000, "--queues is 1 to 100000"),
        (options.frame_max < 4096, "--frame-max is 4096 at least"),
        (
            not (options.consumer_channel >= 1 and last_channel <= 2047),
            "consumer channels are 1 to 2047",
        ),
        (not 0 <= options.prefetch <= 65535, "--prefetch is 0 to 65535"),
        (
            bool(options.prefetch) and options.ack_every > options.prefetch,
            "--ack-every above --prefetch would wait for ever",
        ),
        (
            options.routing_keys > 1_000_000_000 or options.routing_keys < 1,
            "--routing-keys is 1 to 1000000000",
        ),
        (
            options.routing_keys > 1 and options.exchange == "default" and not options.every_queue,
            "--routing-keys needs an --exchange",
        ),
        (
            options.every_queue and (options.exchange != "default" or options.dead_letter),
            "--every-queue goes by the default exchange, without --dead-letter",
        ),
        (options.interval < 0.05, "--interval is 0.05 at least"),
        (
            options.bind_each_key and options.exchange != "topic",
            "--bind-each-key is for --exchange topic",
        ),
        (
            options.bind_each_key and bool(options.bindings),
            "--bind-each-key and --binding exclude each other",
        ),
        (
            bool(options.bindings) and options.exchange not in ("topic", "direct"),
            "--binding is for --exchange topic or direct",
        ),
        (not 0 <= options.priorities <= 256, "--priorities is 0 to 256"),
        (options.expiration < -1, "--expiration is not negative"),
        (
            options.dead_letter and options.exchange != "default",
            "--dead-letter goes by the default exchange",
        ),
        (options.mode == "drain" and options.latency, "--drain does not measure latency"),
        (options.mode == "drain" and options.consumers < 1, "--drain needs a consumer"),
        (
            min(options.confirm, options.ack_every, options.headers, options.messages) < 0,
            "counts are not negative",
        ),
        (
            min(options.rate, options.connect_rate, options.consume_rate) < 0,
            "rates are not negative",
        ),
    ]
    return next((text for broken, text in rules if broken), None)
