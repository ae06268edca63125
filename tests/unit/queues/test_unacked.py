"""Outstanding deliveries by tag: ring and dict, against a dict."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from warren.queues import Delivery, Message, QueueRef, Unacked
from warren.queues.unacked import RING_MIN, SPARSE_FACTOR, SPARSE_MIN

MESSAGE = Message(b"\x00\x00", b"\x00\x00", b"", None, 0, 0)
QUEUE = QueueRef("q")


def delivery(tag: int) -> Delivery:
    return Delivery(tag, tag, MESSAGE, QUEUE, None, tag)


class AgainstDict(RuleBasedStateMachine):
    """Tags rise, with holes of any size; taken in any order, put back by rollbacks."""

    def __init__(self) -> None:
        super().__init__()
        self.unacked = Unacked()
        self.model: dict[int, Delivery] = {}
        self.aside: list[Delivery] = []
        self.tag = 0

    @rule(hole=st.sampled_from((0, 0, 0, 0, 1, 7, RING_MIN, 300, SPARSE_MIN)))
    def add(self, hole: int) -> None:
        self.tag += 1 + hole
        self.model[self.tag] = delivery(self.tag)
        self.unacked.add(self.model[self.tag])

    @rule(count=st.integers(1, 40))
    def add_run(self, count: int) -> None:
        for _ in range(count):
            self.add(0)

    @rule(place=st.integers(0, 1000), most=st.integers(1, 2000))
    def look_at_a_part(self, place: int, most: int) -> None:
        tag = self.any_tag(place)
        end = self.tag + 1 if self.unacked.sparse is not None else tag + most
        wanted = [one for key, one in sorted(self.model.items()) if tag <= key < end]
        assert self.unacked.part(tag, most) == wanted

    def any_tag(self, place: int) -> int:
        """A tag that is outstanding, mostly."""
        tags = [*self.model, 0, self.tag + 1, -1]
        return tags[place % len(tags)]

    @rule(place=st.integers(0, 1000), keep=st.booleans())
    def take(self, place: int, keep: bool) -> None:
        tag = self.any_tag(place)
        found = self.unacked.take(tag)
        assert found is self.model.pop(tag, None)
        assert not self.unacked.holds(tag)
        if keep and found is not None:
            self.aside.append(found)

    @rule(place=st.integers(0, 1000), most=st.integers(0, 50))
    def look_at_the_older_ones(self, place: int, most: int) -> None:
        """Deliveries of this test are as old as their tags say."""
        tag = self.any_tag(place)
        wanted = [self.model[key] for key in sorted(self.model) if key < tag][:most]
        assert self.unacked.older(tag, most) == wanted

    @rule(place=st.integers(0, 1000), keep=st.booleans())
    def take_through(self, place: int, keep: bool) -> None:
        tag = self.any_tag(place)
        if tag not in self.model:
            return
        taken = self.unacked.take_through(tag)
        assert taken == [self.model.pop(key) for key in sorted(self.model) if key <= tag]
        if keep:
            self.aside += taken

    @rule()
    def take_all(self) -> None:
        assert self.unacked.take_all() == [self.model[tag] for tag in sorted(self.model)]
        self.model.clear()

    @rule()
    def restore(self) -> None:
        self.unacked.restore(self.aside)
        self.model.update({int(each.tag): each for each in self.aside})
        self.aside = []

    @rule()
    def idle(self) -> None:
        self.unacked.idle()

    @invariant()
    def same(self) -> None:
        assert self.unacked.count == len(self.model)
        oldest = self.unacked.oldest()
        assert oldest is (self.model[min(self.model)] if self.model else None)
        for tag in list(self.model)[:3]:
            assert self.unacked.holds(tag)

    @invariant()
    def memory_follows_what_is_outstanding(self) -> None:
        slots = len(self.unacked.slots)
        assert slots <= max(
            2 * SPARSE_MIN, 2 * SPARSE_FACTOR * max(1, len(self.model)) + slots // 2
        )
        assert self.unacked.sparse is None or slots == 0


TestAgainstDict = AgainstDict.TestCase
TestAgainstDict.settings = settings(max_examples=150, stateful_step_count=40)


@pytest.mark.rule("AK-1")
def test_a_tag_can_be_taken_once() -> None:
    unacked = Unacked()
    unacked.add(delivery(1))
    assert unacked.take(1) is not None
    assert unacked.take(1) is None
    assert unacked.oldest() is None


def test_one_old_delivery_does_not_keep_a_ring_for_all_that_followed() -> None:
    """The oldest stays unacked while a hundred thousand come and go: memory stays in proportion."""
    unacked = Unacked()
    unacked.add(delivery(1))
    for tag in range(2, 100_000):
        unacked.add(delivery(tag))
        assert unacked.take(tag) is not None
    assert unacked.sparse is not None
    assert len(unacked.sparse) == 1
    assert unacked.slots == []
    assert unacked.holds(1)
    assert unacked.take(1) is not None
    assert unacked.sparse is None


def test_a_window_that_moves_on_keeps_its_ring() -> None:
    unacked = Unacked()
    for tag in range(1, 50_000):
        unacked.add(delivery(tag))
        if tag > 100:
            assert unacked.take(tag - 100) is not None
    assert len(unacked.slots) == 128


@pytest.mark.rule("TX-4")
@given(st.lists(st.integers(1, 200), unique=True, min_size=1), st.integers(0, 200))
def test_what_is_restored_is_in_tag_order(taken: list[int], through: int) -> None:
    unacked = Unacked()
    for tag in range(1, 201):
        unacked.add(delivery(tag))
    aside = [found for tag in taken if (found := unacked.take(tag)) is not None]
    unacked.restore(aside)
    assert [int(each.tag) for each in unacked.take_all()] == list(range(1, 201))
    unacked.restore(aside)
    expected = [tag for tag in sorted(taken) if tag <= through]
    assert [int(each.tag) for each in unacked.take_through(through)] == expected
