"""The index of a queue against a set of live ids (IX-*)."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.queues.part import live_between
from warren.store.index import SEGMENT_ENTRIES, QueueIndex
from warren.store.journal import Journal
from warren.store.record import RecordSink, walk


class Settled(RecordSink):
    """What the journal says is settled: ids and octets."""

    def __init__(self) -> None:
        self.seqs: list[int] = []
        self.octets = 0

    def on_settled(self, queue: int, seq: int, count: int, size: int, position: int) -> None:
        self.seqs += range(seq, seq + count)
        self.octets += size


class Model:
    def __init__(self) -> None:
        self.index = QueueIndex(1, Journal(1, 1))
        self.live: dict[int, int] = {}
        self.next_seq = 0
        self.settled_octets = 0

    def enter(self, gap: int, size: int) -> None:
        seq = self.next_seq + gap
        self.next_seq = seq + 1
        self.index.enter(seq, self.index.journal.position(), 100, size)
        self.live[seq] = size

    def settle(self, seq: int) -> None:
        size = self.live.pop(seq, 0)
        self.settled_octets += size
        self.index.settle(seq, size)

    def purge(self, seq: int) -> None:
        gone = {each: size for each, size in self.live.items() if each >= seq}
        for each in gone:
            del self.live[each]
        self.settled_octets += sum(gone.values())
        self.index.settle_from(seq, sum(gone.values()))

    def check(self) -> None:
        index = self.index
        assert index.live == len(self.live)
        assert index.live_bytes == sum(self.live.values())
        if self.live:
            assert index.first_live() == min(self.live)
        for seq in range(0, self.next_seq, max(1, self.next_seq // 50)):
            assert index.is_live(seq) == (seq in self.live)


@pytest.mark.rule("IX-1", "IX-3", "IX-14", "IX-17")
@given(st.randoms(use_true_random=False))
def test_the_index_knows_what_lives(chance: random.Random) -> None:
    model = Model()
    gaps = chance.choice(((0,), (0, 0, 3), (0, 0, 0, 0, SEGMENT_ENTRIES // 2), (SEGMENT_ENTRIES,)))
    for _ in range(chance.randrange(80)):
        what = chance.random()
        if what < 0.6:
            model.enter(chance.choice(gaps), chance.randrange(9))
        elif what < 0.9 and model.live:
            model.settle(chance.choice(sorted(model.live)))
        elif what < 0.95:
            # Ids that never entered, or are settled already, do nothing (VQ-17).
            model.settle(chance.randrange(model.next_seq + 5))
        else:
            model.purge(chance.randrange(model.next_seq + 1))
        model.check()
    begin = chance.randrange(model.next_seq + 1)
    end = chance.randrange(begin, model.next_seq + 1)
    assert live_between(model.index, begin, end) == sum(begin <= seq < end for seq in model.live)
    # The journal says the same, for the next start.
    model.index.write_run()
    batch = model.index.journal.seal()
    data = b"".join(batch.parts)
    sink = Settled()
    walk(data, 0, len(data), sink)
    assert not set(sink.seqs) & set(model.live)
    assert sink.octets == model.settled_octets


@pytest.mark.rule("VQ-19", "IX-21")
def test_a_purge_of_millions_costs_segments() -> None:
    """A whole segment goes as one; what is before the first id of the purge stays."""
    model = Model()
    for _ in range(3 * SEGMENT_ENTRIES + 10):
        model.enter(0, 1)
    model.purge(5)
    model.check()
    assert sorted(model.live) == [0, 1, 2, 3, 4]
    index = model.index
    assert len(index.segments) == 2
    # A purge of nothing says nothing.
    before = index.journal.position()
    index.settle_from(5, 0)
    assert index.journal.position() == before


def test_the_first_live_id_may_be_in_any_segment() -> None:
    model = Model()
    model.enter(0, 1)
    model.enter(2 * SEGMENT_ENTRIES, 1)
    model.enter(7, 1)
    model.check()
    model.settle(0)
    model.check()
    model.settle(2 * SEGMENT_ENTRIES + 1)
    model.check()
    assert model.index.first_live() == 2 * SEGMENT_ENTRIES + 9
