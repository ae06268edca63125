"""Frames and contents cut into frames."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.protocol.frame import (
    FRAME_BODY,
    FRAME_HEADER,
    FRAME_HEARTBEAT,
    FRAME_METHOD,
    FRAME_OVERHEAD,
    HEARTBEAT_FRAME,
    PROTOCOL_HEADER,
    FrameSplitter,
    RawFrame,
    content_frames,
    frame,
    header_payload,
    snippet_text,
)
from warren.protocol.wire import DecodeError

KINDS = (FRAME_METHOD, FRAME_HEADER, FRAME_BODY, FRAME_HEARTBEAT)
Cut = tuple[int, int, bytes]

FRAMES = st.lists(
    st.tuples(st.sampled_from(KINDS), st.integers(0, 65535), st.binary(max_size=50)), max_size=8
)


def cuts(frames: list[RawFrame]) -> list[Cut]:
    return [(f.kind, f.channel, f.payload) for f in frames]


def joined(frames: list[Cut]) -> bytes:
    return b"".join(frame(kind, channel, payload) for kind, channel, payload in frames)


@pytest.mark.rule("WI-1")
def test_the_layout_of_a_frame() -> None:
    assert frame(1, 0x0203, b"abc") == b"\x01\x02\x03\x00\x00\x00\x03abc\xce"
    assert frame(8, 0, b"") == HEARTBEAT_FRAME
    assert len(HEARTBEAT_FRAME) == FRAME_OVERHEAD
    assert PROTOCOL_HEADER == b"AMQP\x00\x00\x09\x01"


@pytest.mark.rule("WI-1")
@given(FRAMES)
def test_frames_are_cut_whole(frames: list[Cut]) -> None:
    splitter = FrameSplitter()
    assert cuts(splitter.feed(joined(frames))) == frames
    assert splitter.held_size() == 0


@pytest.mark.rule("WI-1")
@given(FRAMES)
def test_frames_are_cut_octet_by_octet(frames: list[Cut]) -> None:
    splitter = FrameSplitter()
    found = []
    for octet in joined(frames):
        found += cuts(splitter.feed(bytes([octet])))
    assert found == frames


@given(FRAMES, st.lists(st.integers(1, 30), min_size=1), st.binary(max_size=6))
def test_frames_are_cut_from_any_chunks(
    frames: list[Cut], sizes: list[int], trailing: bytes
) -> None:
    splitter = FrameSplitter()
    stream = joined(frames) + trailing
    found: list[Cut] = []
    at = turn = 0
    while at < len(stream):
        size = sizes[turn % len(sizes)]
        found += cuts(splitter.feed(stream[at : at + size]))
        at += size
        turn += 1
    assert found == frames
    assert splitter.held_size() == len(trailing)


@pytest.mark.rule("WI-1")
def test_a_wrong_end_octet_is_a_frame_error() -> None:
    with pytest.raises(DecodeError) as caught:
        FrameSplitter().feed(b"\x01\x00\x00\x00\x00\x00\x02\x00\x01\x07")
    assert caught.value.code == 501
    assert caught.value.detail == ("type 1, all octets = <<0,1>>: {invalid_frame_end_marker,7}")


@pytest.mark.rule("WI-3")
def test_a_payload_up_to_the_limit_is_taken() -> None:
    splitter = FrameSplitter(payload_max=10)
    assert cuts(splitter.feed(frame(3, 1, b"x" * 10))) == [(3, 1, b"x" * 10)]
    with pytest.raises(DecodeError) as caught:
        splitter.feed(frame(3, 1, b"x" * 11)[:7])
    assert caught.value.code == 501
    assert caught.value.detail == "type 3, all octets = <<>>: {frame_too_large,11,10}"


@pytest.mark.rule("WI-3")
def test_an_announced_size_is_refused_before_its_octets_come() -> None:
    splitter = FrameSplitter()
    with pytest.raises(DecodeError, match=r"frame_too_large,4294967295,131072"):
        splitter.feed(b"\x01\x00\x00\xff\xff\xff\xff")


@given(st.binary(max_size=200))
def test_any_octets_give_frames_or_a_decode_error(junk: bytes) -> None:
    splitter = FrameSplitter(payload_max=64)
    try:
        splitter.feed(junk)
    except DecodeError:
        return
    assert splitter.held_size() < 64 + FRAME_OVERHEAD


@pytest.mark.rule("WI-1")
def test_an_unknown_frame_type_is_an_error() -> None:
    with pytest.raises(DecodeError) as caught:
        FrameSplitter().feed(frame(4, 0, b"0123456789abcdefghi"))
    assert caught.value.detail == (
        'type 4, first 16 octets = <<"0123456789abcdef">>: unknown_frame'
    )


def test_a_snippet_says_whether_it_is_all() -> None:
    assert snippet_text(2, b"a" * 16) == 'type 2, all octets = <<"aaaaaaaaaaaaaaaa">>'
    assert snippet_text(2, b"\0" * 17).startswith("type 2, first 16 octets = <<0,0,")


@pytest.mark.rule("WI-2")
@pytest.mark.parametrize(
    ("size", "frame_max", "bodies"),
    [
        (0, 4096, []),
        (1, 4096, [1]),
        (4088, 4096, [4088]),
        (4089, 4096, [4088, 1]),
        (9000, 4096, [4088, 4088, 824]),
        (200_000, 0, [200_000]),
        (0, 0, []),
    ],
)
def test_a_body_is_split_at_frame_max(size: int, frame_max: int, bodies: list[int]) -> None:
    props = b"\x10\x00\x02"
    body = bytes(i % 251 for i in range(size))
    raw = content_frames(7, b"method", props, body, frame_max)
    frames = cuts(FrameSplitter(payload_max=1 << 20).feed(raw))
    assert frames[0] == (FRAME_METHOD, 7, b"method")
    header = b"\x00\x3c\x00\x00" + size.to_bytes(8, "big") + props
    assert frames[1] == (FRAME_HEADER, 7, header)
    assert header_payload(size, props) == header
    assert [(kind, channel, len(part)) for kind, channel, part in frames[2:]] == [
        (FRAME_BODY, 7, expected) for expected in bodies
    ]
    assert b"".join(part for _, _, part in frames[2:]) == body
