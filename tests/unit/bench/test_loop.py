"""The two loops over a real socket: window, schedule, flow control, end, and a clean transfer."""

import socket
import struct
import time
from collections.abc import Iterator

import pytest

from tools.bench.cost import delivery
from warren.bench.block import BlockBuilder
from warren.bench.confirm import Ledger
from warren.bench.consumer import Consumer, Consumers
from warren.bench.frame import frame, method, short_string
from warren.bench.histogram import Histogram
from warren.bench.link import BenchError
from warren.bench.producer import Producer, Producers
from warren.bench.side import publisher_stream
from warren.bench.stream import Stream
from warren.bench.verify import Cursor, Track, Verdict

Pair = tuple[socket.socket, socket.socket]
SIZE = 100
STRIDE = delivery(SIZE).octets(0, False)


@pytest.fixture
def pair() -> Iterator[Pair]:
    left, right = socket.socketpair()
    left.setblocking(False)
    right.setblocking(False)
    with left, right:
        yield left, right


def producing(
    sock: socket.socket, *, limit: int = 0, window: int = 0, interval_ns: float = 0.0,
    block: int = 10, seconds: float = 0.0, timeout_s: float = 5.0,
) -> Producers:  # fmt: skip
    ledger = Ledger()
    producer = Producer(
        sock,
        blocks=BlockBuilder([delivery(SIZE)], [0], key_count=1, key_width=0, stamped=False),
        block_messages=block,
        stream=publisher_stream(ledger),
        ledger=ledger,
        limit=limit,
        window=window,
        interval_ns=interval_ns,
        stamped=False,
        lateness=Histogram(),
    )
    return Producers(
        [producer], seconds=seconds, rated=interval_ns > 0, coalesce_us=0, timeout_s=timeout_s
    )


def consuming(sock: socket.socket, *, timeout_s: float = 5.0) -> tuple[Consumers, Track]:
    track, verdict = Track(0, 1), Verdict()
    stream = Stream(
        channel=1, cursors=[Cursor(track)], sizes=[SIZE], verdict=verdict, latency=Histogram(),
        ledger=Ledger(), ack_every=0, stamped=False, filler=b"",
    )  # fmt: skip
    loop = Consumers(
        [Consumer(sock, stream)], tracks=[[track]], verdict=verdict, latency=Histogram(),
        coalesce_us=0, timeout_s=timeout_s, warmup_s=0.0,
    )  # fmt: skip
    return loop, track


def read_all(sock: socket.socket) -> bytes:
    received = b""
    while True:
        try:
            received += sock.recv(1 << 20)
        except BlockingIOError:
            return received


def test_everything_published_arrives_in_order(pair: Pair) -> None:
    producers, (consumers, track) = producing(pair[0], limit=25_003, block=400), consuming(pair[1])
    begin_ns = time.monotonic_ns()
    producers.begin(begin_ns)
    consumers.begin(begin_ns)
    while not consumers.done:
        publishing = not producers.done
        if publishing:
            producers.turn(0.0)
            if producers.done:
                consumers.expect(sum(producers.result().published))
        consumers.turn(0.0)
    result = consumers.result(0, 0)
    assert (result.consumed, track.unique(), result.timed_out) == (25_003, 25_003, False)
    assert (result.duplicated, result.reordered, result.bad) == (0, 0, 0)


def test_a_missing_message_ends_the_run_as_timed_out(pair: Pair) -> None:
    blocks = BlockBuilder([delivery(SIZE)], [0], key_count=1, key_width=0, stamped=False)
    pair[0].send(blocks.build(0, 5, 0) + blocks.build(6, 4, 0))
    consumers, track = consuming(pair[1], timeout_s=0.05)
    consumers.begin(time.monotonic_ns())
    consumers.expect(10)
    while not consumers.done:
        consumers.turn(0.01)
    assert consumers.result(10 - track.unique(), 0).timed_out
    assert (track.unique(), track.reach()) == (9, 10)


def test_the_window_holds_until_confirms_come(pair: Pair) -> None:
    producers = producing(pair[0], limit=7, window=3)
    producers.begin(time.monotonic_ns())
    sent: list[int] = []
    for tag in (3, 6, 7):
        producers.turn(0.01)
        producers.turn(0.0)
        sent.append(len(read_all(pair[1])) // STRIDE)
        assert not producers.done
        pair[1].send(method(1, (60, 80), struct.pack(">Q?", tag, True)))
    while not producers.done:
        producers.turn(0.01)
    assert sent == [3, 3, 1]
    assert producers.result().confirmed == 7


def test_no_confirm_for_the_timeout_ends_the_run(pair: Pair) -> None:
    producers = producing(pair[0], limit=2, window=1, timeout_s=0.05)
    producers.begin(time.monotonic_ns())
    while not producers.done:
        producers.turn(0.01)
    assert producers.result().timed_out


@pytest.mark.parametrize(
    ("hold", "release", "answer"),
    [
        (method(0, (10, 60), short_string("memory")), method(0, (10, 61)), b""),
        (method(1, (20, 20), b"\0"), method(1, (20, 20), b"\1"), method(1, (20, 21), b"\0")),
    ],
)
def test_a_held_producer_waits_and_its_wait_is_counted(
    pair: Pair, hold: bytes, release: bytes, answer: bytes
) -> None:
    producers = producing(pair[0], limit=5)
    pair[1].send(hold)
    producers.ready.clear()
    producers.begin(time.monotonic_ns())
    producers.turn(0.01)
    assert producers.tick().held
    assert read_all(pair[1]) == b""
    pair[1].send(release)
    while not producers.done:
        producers.turn(0.01)
    result = producers.result()
    received = read_all(pair[1])
    assert received.startswith(answer)
    assert received.count(frame(3, 1, b"")[:3]) >= 5
    assert result.blocked_ns > 0
    assert (result.blocked_events + result.flow_events, result.published) in (
        (1, [5]),
        (2, [5]),
    )


def test_the_schedule_is_absolute_and_lateness_is_counted(pair: Pair) -> None:
    producers = producing(pair[0], limit=20, interval_ns=1e6)
    begin_ns = time.monotonic_ns() - 10_000_000  # ten messages are due already
    producers.begin(begin_ns)
    producers.turn(0.0)
    assert len(read_all(pair[1])) // STRIDE >= 10
    while not producers.done:
        producers.turn(producers.wait_s())
    result = producers.result()
    assert result.published_ns - begin_ns >= 19_000_000
    assert sum(result.lateness.counts) == 20
    assert result.lateness.largest >= 10_000_000


def test_time_ends_a_run_without_a_limit(pair: Pair) -> None:
    producers = producing(pair[0], seconds=0.02)
    producers.begin(time.monotonic_ns())
    received = 0
    while not producers.done:
        producers.turn(0.0)
        received += len(read_all(pair[1]))
    received += len(read_all(pair[1]))
    assert producers.result().published == [received // STRIDE]
    assert received % STRIDE == 0


@pytest.mark.parametrize("number", [(10, 50), (20, 40)])
def test_a_close_from_the_broker_is_a_failure_with_its_text(
    pair: Pair, number: tuple[int, int]
) -> None:
    pair[1].send(method(1, number, struct.pack(">H", 404) + short_string("NOT_FOUND") + bytes(4)))
    producers = producing(pair[0], limit=1)
    with pytest.raises(BenchError, match="404 NOT_FOUND"):
        producers.turn(0.1)
    pair[0].send(method(1, (60, 30), short_string("tag") + b"\0"))
    with pytest.raises(BenchError, match="cancelled"):
        consuming(pair[1])[0].turn(0.1)


def test_a_closed_socket_is_a_failure(pair: Pair) -> None:
    consumers, _ = consuming(pair[1])
    pair[0].close()
    with pytest.raises(BenchError, match="closed"):
        consumers.turn(0.1)
