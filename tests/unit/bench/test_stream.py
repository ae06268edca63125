"""The walker finds the same in every cut of the stream, and refuses what is not AMQP."""

import struct
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.bench.confirm import Ledger
from warren.bench.frame import BODY, HEADER, METHOD, frame, method, short_string
from warren.bench.histogram import Histogram
from warren.bench.message import filler
from warren.bench.side import FOREIGN_START
from warren.bench.stream import Stream, StreamError
from warren.bench.verify import MAGIC, Cursor, Track, Verdict

SIZES = [12, 60, 5000]


def build(*, ack_every: int = 0, stamped: bool = False, verify: bool = False) -> Stream:
    return Stream(
        channel=300,
        cursors=[Cursor(Track(0, 1)), Cursor(Track(0, 1))],
        sizes=SIZES,
        verdict=Verdict(),
        latency=Histogram(),
        ledger=Ledger(),
        ack_every=ack_every,
        stamped=stamped,
        filler=filler(max(SIZES)) if verify else b"",
    )


def delivery(
    number: int, *, producer: int = 0, size: int | None = None, redelivered: bool = False,
    frame_max: int = 4096, tag: str = "amq.ctag-x", stamp: int | None = None,
) -> bytes:  # fmt: skip
    octets = SIZES[number % len(SIZES)] if size is None else size
    body = bytearray(filler(octets))
    struct.pack_into(">HHQ", body, 0, MAGIC, producer, number)
    if stamp is not None:
        struct.pack_into(">Q", body, 12, stamp)
    arguments = short_string(tag) + struct.pack(">Q?", number + 1, redelivered) + b"\0\x06perf-0"
    header = struct.pack(">HHQH", 60, 0, octets, 0x1000) + b"\x02"
    parts = [
        frame(BODY, 300, bytes(body[at : at + frame_max - 8]))
        for at in range(0, octets, frame_max - 8)
    ]
    return method(300, (60, 60), arguments) + frame(HEADER, 300, header) + b"".join(parts)


TRAFFIC = (
    b"".join(delivery(number) for number in range(9))
    + frame(8, 0, b"")
    + delivery(0, producer=1, redelivered=True)
    + method(0, (10, 60), short_string("low on memory"))
    + b"".join(delivery(number) for number in range(9, 30))
)


def facts(stream: Stream) -> tuple[int, ...]:
    verdict = stream.verdict
    return (
        int(stream.consumed), int(stream.body_octets), int(verdict.bad), int(verdict.duplicated),
        int(verdict.reordered), int(verdict.redelivered), len(stream.events),
        int(stream.delivery_tag), len(stream.left), int(stream.skip), len(stream.out),
    )  # fmt: skip


@pytest.mark.parametrize("verify", [False, True])
def test_whole_and_octet_by_octet_agree(verify: bool) -> None:
    whole, single = build(ack_every=4, verify=verify), build(ack_every=4, verify=verify)
    whole.feed(TRAFFIC, 0)
    for octet in TRAFFIC:
        single.feed(bytes([octet]), 0)
    assert facts(whole) == facts(single)
    assert facts(whole)[:3] == (31, sum(SIZES) * 10 + SIZES[0], 0)


@given(st.lists(st.integers(1, len(TRAFFIC) - 1), max_size=12))
def test_any_cut_agrees(cuts: list[int]) -> None:
    whole, pieces = build(ack_every=4), build(ack_every=4)
    whole.feed(TRAFFIC, 0)
    edges = [0, *sorted(set(cuts)), len(TRAFFIC)]
    for begin, end in pairwise(edges):
        pieces.feed(TRAFFIC[begin:end], 0)
    assert facts(pieces) == facts(whole)


def test_a_message_counts_only_when_its_last_octet_is_here() -> None:
    stream, octets = build(ack_every=1), delivery(0)
    stream.feed(octets[:-1], 0)
    assert (stream.consumed, len(stream.out)) == (0, 0)
    stream.feed(octets[-1:], 0)
    assert (stream.consumed, len(stream.out)) == (1, 21)


def test_acks_name_channel_tag_and_multiple() -> None:
    stream = build(ack_every=3)
    stream.feed(b"".join(delivery(number) for number in range(7)), 0)
    expected = [method(300, (60, 80), struct.pack(">Q?", tag, True)) for tag in (3, 6)]
    assert stream.out.getvalue() == b"".join(expected)
    assert stream.unacked == 1
    stream.acknowledge()
    assert stream.out.getvalue()[42:] == method(300, (60, 80), struct.pack(">Q?", 7, False))


@pytest.mark.parametrize(
    "damaged",
    [
        delivery(0, size=60),  # not the size of this number
        delivery(0, producer=2),  # no such producer
        delivery(0).replace(struct.pack(">H", MAGIC), b"\0\0"),
        method(300, (60, 60), b"\0" + bytes(9) + b"\0\0")
        + frame(HEADER, 300, struct.pack(">HHQH", 60, 0, 0, 0)),  # an empty body
    ],
)  # fmt: skip
def test_a_foreign_body_is_bad(damaged: bytes) -> None:
    stream = build()
    stream.feed(damaged, 0)
    assert stream.verdict.bad == 1


@pytest.mark.parametrize("at", [12, 500, 4999])
def test_one_changed_octet_shows_when_bodies_are_compared(at: int) -> None:
    octets = bytearray(delivery(0) + delivery(1) + delivery(2))
    head = len(octets) - len(delivery(2))
    body = octets.index(struct.pack(">HHQ", MAGIC, 0, 2), head)
    where = body + at + (8 if at >= 4088 else 0)
    octets[where] ^= 1
    stream, careless = build(verify=True), build()
    stream.feed(bytes(octets), 0)
    careless.feed(bytes(octets), 0)
    assert (stream.verdict.bad, careless.verdict.bad) == (1, 0)
    assert stream.consumed == 3


def test_latency_is_taken_from_the_stamp_after_the_warm_up() -> None:
    stream = build(stamped=True)
    stream.warm_until_ns = 1000
    stream.feed(delivery(1, stamp=900) + delivery(2, stamp=1000), 1700)
    assert (stream.latency.total, stream.latency.largest) == (1, 700)


def test_confirms_and_returns_of_a_publisher() -> None:
    stream = build()
    stream.ledger.sent = 6
    returned = b"\x01\x38" + short_string("NO_ROUTE") + short_string("") + short_string("k")
    stream.feed(
        method(1, (60, 50), returned)
        + frame(HEADER, 1, struct.pack(">HHQH", 60, 0, 3, 0)) + frame(BODY, 1, b"abc")
        + method(1, (60, 80), struct.pack(">Q?", 4, True))
        + method(1, (60, 120), struct.pack(">Q?", 6, False)),
        0,
    )  # fmt: skip
    assert (stream.returned, stream.consumed, stream.verdict.bad) == (1, 0, 0)
    assert (stream.ledger.settled, stream.ledger.nacked) == (5, 1)


@pytest.mark.parametrize(
    "octets",
    [
        frame(METHOD, 1, bytes(12))[:-1] + b"\0",
        frame(9, 1, b""),
        delivery(0)[:-1] + b"\0" + delivery(1),
        struct.pack(">BHI", 1, 1, 0xFFFFFFFF) + b"x",
    ],
)
def test_what_is_not_amqp_is_refused(octets: bytes) -> None:
    with pytest.raises(StreamError):
        build().feed(octets, 0)


def test_a_consumer_of_several_queues_tells_them_by_the_number() -> None:
    """Two queues of three are consumed, from two producers; the third queue is foreign."""
    tracks = [[Track(queue, 3) for _ in range(2)] for queue in range(2)]
    foreign = Cursor(Track(FOREIGN_START, 1))
    stream = Stream(
        channel=300,
        cursors=[Cursor(track) for both in tracks for track in both] + [foreign, foreign],
        queues=3,
        sizes=SIZES,
        verdict=Verdict(),
        latency=Histogram(),
        ledger=Ledger(),
        ack_every=0,
        stamped=False,
        filler=b"",
    )
    for number, producer in ((0, 0), (1, 0), (1, 1), (3, 0), (0, 1), (4, 1)):
        stream.feed(delivery(number, producer=producer), 0)
    assert [[track.unique() for track in both] for both in tracks] == [[2, 1], [1, 2]]
    assert stream.verdict.bad == stream.verdict.duplicated == stream.verdict.reordered == 0
    stream.feed(delivery(5), 0)
    assert stream.verdict.bad == 1
    stream.feed(delivery(1) + delivery(7) + delivery(4), 0)
    assert (stream.verdict.duplicated, stream.verdict.reordered) == (1, 1)
    stream.feed(delivery(9, producer=2), 0)
    assert stream.verdict.bad == 2
