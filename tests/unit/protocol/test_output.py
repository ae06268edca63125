"""What waits to be written: framing read back, parts in order, partial sends, pooled writers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.machine import Decoder
from tests.support.wire import Message
from warren.protocol.output import SHARED_BODY_MIN, WRITERS_MAX, Outbox, Output, deliver_method

TAIL = b"\x02ex\x03key"
BODIES = st.one_of(
    st.binary(max_size=40),
    st.sampled_from(
        (4087, 4088, 4089, 8176, 8177, SHARED_BODY_MIN, SHARED_BODY_MIN + 1, 50_000)
    ).map(lambda size: b"\x5a" * size),
)


def taken(output: Output) -> bytes:
    data = b"".join(output.take())
    output.sent(len(data))
    return data


@pytest.mark.rule("WI-1", "WI-2")
@given(
    st.lists(st.tuples(st.lists(BODIES, min_size=1, max_size=3), st.booleans()), max_size=4),
    st.integers(1, 65_535),
    st.integers(1, (1 << 63) - 1),
    st.sampled_from((4088, 65_528, 200_000)),
    st.sampled_from((b"\x00\x00", b"\x90\x00\x03a/b\x02")),
)
def test_deliveries_read_back(
    contents: list[tuple[list[bytes], bool]], channel: int, tag: int, body_max: int, props: bytes
) -> None:
    output = Output(Outbox(), 1000)
    output.body_max = body_max
    method = deliver_method("consumer")
    for chunks, again in contents:
        if len(chunks) == 1:
            output.deliver(method, tag, again, channel, TAIL, props, chunks[0])
        else:
            output.deliver_chunks(method, tag, again, channel, TAIL, props, chunks)
    size = output.size()
    data = taken(output)
    assert len(data) == size == output.octets_out
    events = Decoder().feed(data)
    assert len(events) == len(contents)
    for event, (chunks, again) in zip(events, contents, strict=True):
        assert isinstance(event, Message)
        assert event.body == b"".join(chunks)
        assert event.raw_properties == props
        assert all(0 < length <= body_max for length in event.body_frames)
        assert len(event.body_frames) <= sum(-(-len(chunk) // body_max) for chunk in chunks)
        assert (event.channel, event.delivery_tag, event.redelivered) == (channel, tag, again)
        found = (event.consumer_tag, event.exchange, event.routing_key)
        assert found == ("consumer", "ex", "key")


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("write"), st.binary(min_size=1, max_size=30)),
            st.tuples(st.just("share"), st.binary(min_size=1, max_size=30)),
            st.tuples(st.just("send"), st.integers(0, 50)),
        )
    )
)
def test_octets_leave_once_and_in_order(steps: list[tuple[str, bytes | int]]) -> None:
    output, wanted, left = Output(Outbox(), 1000), b"", b""
    for what, value in steps:
        if isinstance(value, bytes):
            wanted += value
            (output.write if what == "write" else output.share)(value)
        else:
            pending = b"".join(output.take())
            left += pending[:value]
            output.sent(min(value, len(pending)))
        assert output.size() == len(wanted) - len(left)
    assert left + taken(output) == wanted
    assert output.parts == []


def test_an_output_is_dirty_once_a_turn_and_idle_without_a_writer() -> None:
    outbox = Outbox()
    outputs = [Output(outbox, 1000) for _ in range(WRITERS_MAX + 5)]
    for _ in range(2):
        for output in outputs:
            output.write(b"a")
            output.write(b"b")
        assert outbox.take_dirty() == outputs
        assert all(taken(output) == b"ab" for output in outputs)
        assert all(output.writer is None for output in outputs)
        assert len(outbox.writers) == WRITERS_MAX


def test_what_is_discarded_is_never_sent() -> None:
    outbox = Outbox()
    output = Output(outbox, 1000)
    output.write(b"a" * 100)
    output.take()
    output.write(b"b")
    output.discard()
    assert (output.size(), output.take(), output.writer) == (0, [], None)
    output.write(b"c")
    assert taken(output) == b"c"
