"""What is published: routing keys, properties, bodies, cut into the pieces `block` copies.

Invariant: every producer publishes message number n with key n modulo `routing_keys` and size
n modulo the length of the size cycle, so a consumer can foretell both.
"""

import struct

from warren.bench import frame
from warren.bench.block import BlockBuilder, Shape
from warren.bench.option import Options
from warren.bench.verify import HEAD_OCTETS, MAGIC, STAMPED_HEAD_OCTETS

EXCHANGE = "perf-x"
HEADER_NAME = "perf"  # what the headers exchange of a run matches on
PUBLISH_CHANNEL = 1
BLOCK_MESSAGES_MAX = 4096

# A fixed full set of basic properties: flags from content-type down to cluster-id, user-id left
# out because the broker compares it with the login.
FULL_PROPERTIES = (
    (15, frame.short_string("application/octet-stream")),
    (14, frame.short_string("identity")),
    (11, b"\x05"),
    (10, frame.short_string("correlation-0123456789abcdef")),
    (9, frame.short_string("amq.rabbitmq.reply-to.example")),
    (8, frame.short_string("3600000")),
    (7, frame.short_string("message-0123456789abcdef")),
    (6, struct.pack(">Q", 1_700_000_000)),
    (5, frame.short_string("warren.bench")),
    (3, frame.short_string("warren bench")),
)


def queue_name(options: Options, index: int) -> str:
    if options.every_queue and options.key_width:  # as the digits of a routing key
        return f"{options.prefix}{index:0{options.key_width}d}"
    return f"{options.prefix}{index}"


def entry_name(options: Options, index: int) -> str:
    """The queue that messages for queue `index` are published to."""
    name = queue_name(options, index)
    return f"{name}-in" if options.dead_letter else name


def exchange_name(options: Options) -> str:
    return "" if options.exchange == "default" else EXCHANGE


def key_parts(options: Options, producer: int) -> tuple[str, str]:
    """What stands before and after the digits of a routing key."""
    if options.exchange == "topic":
        return ("perf.", ".m") if options.key_width else (f"perf.p{producer}", "")
    if options.every_queue and options.key_width:
        return options.prefix, ""
    if options.key_width:
        return "perf.", ""
    if options.exchange in ("fanout", "headers"):
        return "", ""
    return entry_name(options, producer % options.queues), ""


def key_text(options: Options, producer: int, number: int) -> str:
    """The routing key of message `number`."""
    before, after = key_parts(options, producer)
    if not options.key_width:
        return before + after
    return f"{before}{number % options.routing_keys:0{options.key_width}d}{after}"


def properties(options: Options, producer: int = 0) -> bytes:
    """Flags and values of the content header."""
    flags = 0
    values: list[tuple[int, bytes]] = list(FULL_PROPERTIES) if options.full_properties else []
    headers: dict[str, frame.FieldValue] = {
        f"x-header-{index}": f"value {index}" if index % 2 else index
        for index in range(options.headers)
    }
    if options.exchange == "headers":
        headers[HEADER_NAME] = "1"
    if headers:
        values.append((13, frame.table(headers)))
    if options.persistent:
        values.append((12, b"\x02"))
    elif options.full_properties:
        values.append((12, b"\x01"))
    if options.priorities:
        values = [each for each in values if each[0] != 11]
        values.append((11, bytes((producer % options.priorities,))))
    if options.expiration >= 0:
        values = [each for each in values if each[0] != 8]
        values.append((8, frame.short_string(str(options.expiration))))
    for bit, _ in values:
        flags |= 1 << bit
    ordered = b"".join(value for _, value in sorted(values, key=lambda item: -item[0]))
    return struct.pack(">H", flags) + ordered


def filler(octets: int) -> bytes:
    """Body octets: 131 * index + 7, so that a shifted or foreign body shows."""
    period = bytes((index * 131 + 7) & 0xFF for index in range(256))
    return (period * (octets // 256 + 1))[:octets]


def build_shape(options: Options, producer: int, octets: int, frame_max: int) -> Shape:
    """One message size as frames, cut at key digits and sequence number."""
    before, after = (part.encode() for part in key_parts(options, producer))
    exchange = frame.short_string(exchange_name(options))
    key_octets = len(before) + options.key_width + len(after)
    flags = b"\x01" if options.mandatory else b"\x00"
    method_octets = 4 + 2 + len(exchange) + 1 + key_octets + 1
    lead = struct.pack(">BHI", frame.METHOD, PUBLISH_CHANNEL, method_octets)
    lead += struct.pack(">HHH", *frame.PUBLISH, 0) + exchange + bytes([key_octets]) + before
    header = struct.pack(">HHQ", 60, 0, octets) + properties(options, producer)
    content = after + flags + b"\xce" + frame.frame(frame.HEADER, PUBLISH_CHANNEL, header)

    body = filler(octets)
    head = STAMPED_HEAD_OCTETS if options.latency else HEAD_OCTETS
    payload_max = frame_max - frame.FRAME_OVERHEAD
    first = min(octets, payload_max)
    middle = content + struct.pack(">BHI", frame.BODY, PUBLISH_CHANNEL, first)
    middle += struct.pack(">HH", MAGIC, producer)
    tail = body[head:first] + b"\xce"
    for at in range(first, octets, payload_max):
        tail += frame.frame(frame.BODY, PUBLISH_CHANNEL, body[at : at + payload_max])
    return Shape(lead, middle, tail, body_octets=octets)


def build_blocks(options: Options, producer: int, frame_max: int) -> BlockBuilder:
    distinct = sorted(set(options.sizes))
    return BlockBuilder(
        [build_shape(options, producer, octets, frame_max) for octets in distinct],
        [distinct.index(octets) for octets in options.sizes],
        key_count=options.routing_keys,
        key_width=options.key_width,
        stamped=options.latency,
    )


def block_messages(options: Options, blocks: BlockBuilder) -> int:
    """How many messages a block of the wanted length holds."""
    octets = [shape.octets(options.key_width, options.latency) for shape in blocks.shapes]
    mean = sum(octets[index] for index in blocks.cycle) / len(blocks.cycle)
    return max(1, min(BLOCK_MESSAGES_MAX, int(options.block_octets / mean)))
