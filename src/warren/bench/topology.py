"""Exchange, queues and bindings of a run, and what each queue should get by them.

Invariant: `shares` and the bindings made here say the same: what a queue is expected to hold is
derived from the options, never from what the broker delivered.
"""

import struct
from collections.abc import Sequence

from warren.bench import frame
from warren.bench.link import Link
from warren.bench.message import (
    EXCHANGE,
    HEADER_NAME,
    entry_name,
    exchange_name,
    key_text,
    queue_name,
)
from warren.bench.option import Options
from warren.bench.verify import Track

# Bindings are sent in pieces with one answer each: a broker is not flooded with a million frames.
BIND_PIECE = 1000
# So many queues are declared before their answers are read: neither side waits for the other, and
# no more answers than a socket holds are under way.
DECLARE_PIECE = 100

NOWAIT_BIND = b"\x01"


def declare(link: Link, options: Options) -> None:
    """Make everything anew (after deleting what an earlier run left)."""
    if not options.keep:
        for index in range(options.queues):
            for queue in {queue_name(options, index), entry_name(options, index)}:
                delete_queue(link, queue)
    name = exchange_name(options)
    if name:
        if not options.keep:
            delete_exchange(link)
        link.call(
            frame.EXCHANGE_DECLARE,
            b"\0\0"
            + frame.short_string(name)
            + frame.short_string(options.exchange)
            + (b"\x02" if options.durable else b"\0")
            + frame.table({}),
            frame.EXCHANGE_DECLARE_OK,
        )
    for first in range(0, options.queues, DECLARE_PIECE):
        piece = range(first, min(first + DECLARE_PIECE, options.queues))
        declare_queues(link, options, piece)
    if name:
        bind(link, options)


def declare_queues(link: Link, options: Options, piece: range) -> None:
    """Declare some queues, and what leads to them."""
    pending: list[bytes] = []
    for index in piece:
        queue = queue_name(options, index)
        pending.append(declaration(link, options, queue, dict(options.queue_arguments)))
        if options.dead_letter:
            dying: dict[str, frame.FieldValue] = {
                "x-message-ttl": 0,
                "x-dead-letter-exchange": "",
                "x-dead-letter-routing-key": queue,
            }
            pending.append(declaration(link, options, entry_name(options, index), dying))
    link.sock.sendall(b"".join(pending))
    for _ in pending:
        link.expect(frame.QUEUE_DECLARE_OK)


def declaration(
    link: Link, options: Options, name: str, arguments: dict[str, frame.FieldValue]
) -> bytes:
    durable = b"\x02" if options.durable else b"\0"
    return frame.method(
        link.channel,
        frame.QUEUE_DECLARE,
        b"\0\0" + frame.short_string(name) + durable + frame.table(arguments),
    )


def delete_queue(link: Link, name: str) -> None:
    link.call(
        frame.QUEUE_DELETE,
        b"\0\0" + frame.short_string(name) + b"\0",
        frame.QUEUE_DELETE_OK,
    )


def bind(link: Link, options: Options) -> None:
    if options.bind_each_key or (options.exchange == "direct" and options.key_width):
        bind_each_key(link, options)
        return
    arguments: dict[str, frame.FieldValue] = {}
    if options.exchange == "headers":
        arguments = {"x-match": "all", HEADER_NAME: "1"}
    for index in range(options.queues):
        for pattern in patterns(options, index):
            link.call(
                frame.QUEUE_BIND,
                bind_arguments(options, index, pattern, b"\0", arguments),
                frame.QUEUE_BIND_OK,
            )


def patterns(options: Options, queue: int) -> Sequence[str]:
    """What a queue is bound with."""
    if options.bindings:
        return options.bindings
    if options.exchange == "topic":
        return ["perf.#"]
    return [queue_name(options, queue) if options.exchange == "direct" else ""]


def bind_each_key(link: Link, options: Options) -> None:
    """Key k goes to queue k modulo queues; topic patterns end in a wildcard word."""
    pending: list[bytes] = []
    last = options.routing_keys - 1
    for number in range(options.routing_keys):
        key = key_text(options, 0, number)
        if options.exchange == "topic":
            key = key.removesuffix("m") + "*"
        waits = number == last or number % BIND_PIECE == BIND_PIECE - 1
        flag = b"\0" if waits else NOWAIT_BIND
        pending.append(
            frame.method(
                link.channel,
                frame.QUEUE_BIND,
                bind_arguments(options, number % options.queues, key, flag, {}),
            )
        )
        if waits:
            link.sock.sendall(b"".join(pending))
            link.expect(frame.QUEUE_BIND_OK)
            pending.clear()


def bind_arguments(
    options: Options,
    queue: int,
    key: str,
    flag: bytes,
    arguments: dict[str, frame.FieldValue],
) -> bytes:
    return (
        b"\0\0"
        + frame.short_string(queue_name(options, queue))
        + frame.short_string(EXCHANGE)
        + frame.short_string(key)
        + flag
        + frame.table(arguments)
    )


def count_messages(link: Link, options: Options, queue: int) -> int:
    """Ready messages of a queue, by a passive declare."""
    payload = link.call(
        frame.QUEUE_DECLARE,
        b"\0\0" + frame.short_string(queue_name(options, queue)) + b"\x01" + frame.table({}),
        frame.QUEUE_DECLARE_OK,
    )
    (count,) = struct.unpack_from(">I", payload, 5 + payload[4])
    return int(count)


def delete(link: Link, options: Options) -> None:
    for index in range(options.queues):
        for queue in {queue_name(options, index), entry_name(options, index)}:
            delete_queue(link, queue)
    if exchange_name(options):
        delete_exchange(link)


def delete_exchange(link: Link) -> None:
    link.call(
        frame.EXCHANGE_DELETE,
        b"\0\0" + frame.short_string(EXCHANGE) + b"\0",
        frame.EXCHANGE_DELETE_OK,
    )


def routes_to_every_queue(options: Options) -> bool:
    return options.exchange in ("fanout", "topic", "headers") and not options.bind_each_key


def routes_by_key(options: Options) -> bool:
    if options.every_queue:
        return options.queues > 1
    return options.bind_each_key or (options.exchange == "direct" and options.key_width > 0)


def build_track(options: Options, queue: int) -> Track:
    """What the sequence of any producer looks like in a queue."""
    return Track(queue, options.queues) if routes_by_key(options) else Track(0, 1)


def share(options: Options, queue: int, producer: int, published: int) -> int:
    """How many of a producer's messages a queue should have got."""
    if routes_by_key(options):
        return max(0, (published - queue + options.queues - 1) // options.queues)
    if routes_to_every_queue(options) or producer % options.queues == queue:
        return published
    return 0


def is_loss_known(options: Options) -> bool:
    """Own patterns may leave messages out: then nobody can say what is missing."""
    return not options.bindings


def consumed_queues(options: Options) -> range:
    """Queues that have a consumer."""
    if options.every_queue:
        return range(options.queues if options.consumers else 0)
    return range(min(options.queues, options.consumers))
