"""The fuzz targets: what must hold whatever octets come.

Each takes any bytes. A target passes if it returns; an exception, whichever, is a finding.
"""

import re
from collections.abc import Callable
from typing import Final

from tests.fuzz.program import SETTINGS, Source, transcript
from tests.support.machine import Machine, Peer, method, opening
from tests.support.wire import Message
from warren.protocol import DecodeError, decode_table, encode_table, skip_table
from warren.protocol.methods import decode
from warren.protocol.output import WRITERS_MAX
from warren.protocol.properties import decode as decode_properties
from warren.protocol.properties import headers_of, scan
from warren.session import CLOSED, DOOMED

# A piece larger than this is as good as the whole.
PIECE_MAX: Final = 300
TOO_LARGE: Final = re.compile(r"type \d+, .*: \{frame_too_large", re.DOTALL)

Story = list[object]


def pieces(data: bytes, seed: int) -> list[bytes]:
    """Cut octets into reads: whole, octet by octet, or at places that the seed decides."""
    if seed == 0:
        return [data]
    if seed == 1:
        return [data[at : at + 1] for at in range(len(data))]
    cut: list[bytes] = []
    at, state = 0, seed
    while at < len(data):
        state = (state * 1_103_515_245 + 12_345) & 0x7FFFFFFF
        size = 1 + (state >> 8) % (PIECE_MAX if state & 64 else 9)
        if state & 0x180 == 0:
            size += 4096
        cut.append(data[at : at + size])
        at += size
    return cut


def handshake(data: bytes) -> None:
    """Any octets before a connection is open."""
    machine = Machine(SETTINGS)
    source = Source(data)
    prefix = opening(frame_max=8192, channel_max=4)
    stranger = machine.peer()
    stranger.feed(prefix[: source.octet() * 2 % len(prefix)])
    stranger.feed(*pieces(data[source.at + 1 :], source.octet() % 16))
    check_bounds(machine, stranger, len(data))
    check_service(machine)
    check_end(machine, stranger)


def octets(data: bytes) -> None:
    """Any octets on an open connection with an open channel."""
    machine = Machine(SETTINGS)
    source = Source(data)
    client = machine.client()
    client.channel()
    client.feed(*pieces(data[1:], source.octet() % 16))
    check_bounds(machine, client, len(data))
    check_service(machine)
    check_end(machine, client)


def session(data: bytes) -> None:
    """A session of sensible and broken methods, under alarms and with a reader that stops."""
    machine = Machine(SETTINGS)
    source = Source(data)
    client = machine.client()
    way, disturbance = source.octet() % 16, source.octet()
    for place, piece in enumerate(pieces(transcript(source), way)):
        if disturbance and place % (disturbance + 1) == disturbance:
            machine.alarm(on=not machine.broker.alarms.any())
            client.reads = not client.reads
        client.feed(piece)
        check_bounds(machine, client, 8192 + len(piece))
    machine.alarm(on=False)
    client.read_on()
    machine.pass_time(1.0)
    check_service(machine)
    check_end(machine, client)


def splits(data: bytes) -> None:
    """The same session in different reads: the same answers, effects and end."""
    source = Source(data)
    way = 1 + source.octet() % 15
    sent = transcript(source, operations_max=40)
    if way == 1:
        sent = sent[:12_000]
    whole, cut = told(sent, 0), told(sent, way)
    assert whole == cut, f"whole: {whole}\ncut: {cut}"


def told(sent: bytes, way: int) -> Story:
    """What a client hears, and what is left of the broker's state, when `sent` comes so cut."""
    machine = Machine(SETTINGS)
    client = machine.client()
    connection = client.connection
    for piece in pieces(sent, way):
        connection.receive(piece)
    # One turn at the end: where deliveries stand among answers depends on turns, not on reads.
    machine.turn()
    return [*tell(client), connection.phase, client.alive(), *state(machine)]


def tell(client: Peer) -> Story:
    """The events in order, but for confirms: how they are bundled depends on the reads."""
    story: Story = []
    confirmed: list[object] = []
    lives: dict[int, int] = {}
    numbers: dict[int, int] = {}
    for event in client.inbox:
        channel = event.channel
        if event.name == "channel.open-ok":
            lives[channel] = lives.get(channel, 0) + 1
            numbers[channel] = 0
        if event.name in ("basic.ack", "basic.nack"):
            first = numbers[channel] + 1 if event.multiple else event.delivery_tag
            life = (channel, lives[channel], event.name)
            confirmed += [(*life, number) for number in range(first, event.delivery_tag + 1)]
            numbers[channel] = event.delivery_tag
        elif isinstance(event, Message):
            story.append((event.method, event.raw_properties, event.body))
        else:
            # How much of a frame that is never taken is shown depends on what had come of it.
            story.append(TOO_LARGE.sub("too large", str(event)))
    return [*story, sorted(confirmed, key=repr)]


def state(machine: Machine) -> Story:
    """Queues with their messages, exchanges, and what is outstanding."""
    return [
        sorted(machine.vhost.routing.exchanges),
        *(
            (name, queue.ready(), queue.ready_bytes, queue.unacked_count, len(queue.held))
            for name, queue in sorted(machine.vhost.queues.items())
        ),
    ]


def check_bounds(machine: Machine, client: Peer, sent: int) -> None:
    """What is held for one peer stays within the settings."""
    connection = client.connection
    settings = machine.settings
    assert len(connection.rest) <= settings.frame_max + 8
    # What is parked may exceed the budget by what one read brought.
    assert 0 <= connection.parked_bytes <= settings.parked_bytes_max + 65 * sent + 8192
    assert len(connection.channels) <= settings.channel_max
    assert len(machine.outbox.writers) <= WRITERS_MAX
    held = sum(len(chunk) for channel in connection.channels.values() for chunk in channel.chunks)
    # An announced body is collected before its size is judged, but never more than has come.
    assert held <= sent + settings.frame_max + 1_000_000
    if connection.phase in (DOOMED, CLOSED):
        assert connection.channels == {}


def check_service(machine: Machine) -> None:
    """A well-behaved client on the same broker is served."""
    client = machine.client()
    client.channel()
    queue = client.queue(exclusive=True)
    client.call(1, "confirm.select")
    client.publish(1, b"well", queue)
    if machine.broker.alarms.any():
        assert client.take(0).name == "connection.blocked"
    else:
        assert client.take(1).name == "basic.ack"
        assert client.call(1, "basic.get", queue=queue).body == b"well"
    client.close()


def check_end(machine: Machine, client: Peer) -> None:
    """A connection that ends leaves nothing behind."""
    client.drop()
    machine.turn()
    connection = client.connection
    assert connection.channels == {}
    assert connection.rest == b""
    assert connection.parked_bytes == 0
    assert connection.output.size() == 0
    assert machine.vhost.connections == 0
    for name, queue in machine.vhost.queues.items():
        assert queue.owner == 0, f"{name} outlives its connection"
        assert queue.unacked_count == 0, f"{name}: {queue.unacked_count} unacked of nobody"
        assert queue.consumers.every == []
        assert queue.ready_bytes == sum_of_bodies(machine, name)
    assert machine.broker.reply_addresses == {}


def sum_of_bodies(machine: Machine, name: str) -> int:
    """Empty a queue, and add up what was in it."""
    queue = machine.vhost.queues[name]
    count = int(queue.ready_bytes)
    total = 0
    # At this time nothing has expired, also not what waits behind a head that lives.
    machine.broker.turn.now_ns = 0
    while True:
        got = queue.get()
        if got is None:
            break
        total += int(got.message.size)
    assert queue.ready_bytes == 0
    return count if total == count else total


def methods(data: bytes) -> None:
    """A method that decodes encodes to something that decodes to the same."""
    try:
        found = decode(data, 0, len(data))
    except DecodeError:
        return
    again = found.encode()
    assert decode(again, 0, len(again)).encode() == again


def tables(data: bytes) -> None:
    """A table that decodes encodes to something of the same meaning; skipping agrees."""
    try:
        table = decode_table(data, 0, len(data))
    except DecodeError:
        return
    assert skip_table(data, 0, len(data)) <= len(data)
    again = encode_table(table)
    assert encode_table(decode_table(again, 0, len(again))) == again


def properties(data: bytes) -> None:
    """What `scan` lets through decodes, and the other way round."""
    try:
        scan(data, 0, len(data))
        sound = True
    except DecodeError:
        sound = False
    try:
        decode_properties(data)
        headers_of(data)
    except DecodeError:
        assert not sound
    else:
        assert sound


TARGETS: Final[dict[str, Callable[[bytes], None]]] = {
    "handshake": handshake,
    "octets": octets,
    "session": session,
    "splits": splits,
    "methods": methods,
    "tables": tables,
    "properties": properties,
}


def seeds(name: str) -> list[bytes]:
    """Inputs to begin with: what a correct client sends, in the form the target wants."""
    start = opening(frame_max=8192, channel_max=4)
    sent = transcript(Source(bytes(range(256))))
    if name == "handshake":
        return [bytes((0, way)) + start for way in range(3)] + [b"\x50\x00", b"\x00\x00HTTP/1.1"]
    if name == "octets":
        return [bytes((way,)) + sent[:2000] for way in range(3)]
    if name == "methods":
        names = ("queue.declare", "basic.publish", "connection.start-ok", "basic.consume")
        return [method(1, each)[7:-1] for each in names]
    if name == "tables":
        return [b"\x00\x00\x00\x09\x01aI\x00\x00\x00\x01\x01bV", b"\x00\x00\x00\x00"]
    if name == "properties":
        return [b"\x00\x00", b"\x20\x00\x00\x00\x00\x07\x01aI\x00\x00\x00\x01", b"\x80\x00\x01a"]
    return [bytes((way, way * 7)) + bytes(range(way, way + 120)) for way in range(4)]
