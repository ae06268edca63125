"""A history keeps the last messages, so many and so large, in order."""

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.queues.rig import message
from warren.protocol.properties import Properties, scan
from warren.protocol.value import Field, field
from warren.queues import TAKEN, Message
from warren.queues.history import _SLACK, HISTORY_OCTETS_MAX, History


def with_header(value: Field) -> Message:
    props = Properties(headers={"x-recent-history-no-store": value, "a": field(1)}).encode()
    return Message(b"\0\0", props, b"body", None, 4, scan(props, 0, len(props)))


@given(st.integers(1, 30), st.integers(0, 5000))
def test_the_last_ones_are_kept(length: int, count: int) -> None:
    kept = History("h", length)
    sent = [message(b"%d" % number) for number in range(count)]
    for one in sent:
        assert kept.publish(one, None, 0) == TAKEN
        assert len(kept.items) < length + 2 * _SLACK + 2
    assert kept.messages() == sent[max(0, count - length) :]


def test_octets_are_bounded() -> None:
    kept = History("h", 10**12)
    half = HISTORY_OCTETS_MAX // 2 - 1000
    large = [Message(b"\0\0", b"\0\0", b"", None, half, 0) for _ in range(5)]
    for one in large:
        kept.publish(one, None, 0)
    assert kept.messages() == large[-2:]
    kept.publish(Message(b"\0\0", b"\0\0", b"", None, HISTORY_OCTETS_MAX, 0), None, 0)
    assert kept.messages() == []
    assert kept.octets == 0
    kept.publish(large[0], None, 0)
    assert kept.messages() == large[:1]


def test_what_asks_for_it_passes_by() -> None:
    kept = History("h", 5)
    kept.publish(with_header(field(True)), None, 0)
    assert kept.messages() == []
    for value in (field(False), field("true"), field(1), field(None)):
        kept.publish(with_header(value), None, 0)
    assert len(kept.messages()) == 4


def test_closing_forgets() -> None:
    kept = History("h", 5)
    for _ in range(8):
        kept.publish(message(b"x"), None, 0)
    kept.close()
    assert kept.messages() == []
    assert kept.octets == 0
    assert not kept.routed
