"""Who gets the next message: priorities, turns, prefetch; against a naive choice."""

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.queues.rig import Rig, ack
from warren.queues import Consumer


@dataclass
class Plain:
    """What the model knows of one consumer."""

    consumer: Consumer
    priority: int
    limit: int
    held: int = 0

    def able(self) -> bool:
        return self.limit == 0 or self.held < self.limit


class Circle:
    """All consumers in the order of their turns; naive, but for who rejoins where."""

    def __init__(self) -> None:
        self.order: list[Plain] = []

    def next(self) -> Plain | None:
        able = [each for each in self.order if each.able()]
        if not able:
            return None
        best = max(each.priority for each in able)
        return next(each for each in able if each.priority == best)

    def served(self, plain: Plain) -> None:
        """Its turn is over: it goes behind the others, and out of the circle when it is full."""
        plain.held += 1
        self.order.remove(plain)
        self.order.append(plain)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("join"), st.integers(-1, 1), st.integers(0, 3)),
        st.tuples(st.just("leave"), st.integers(0, 20), st.just(0)),
        st.tuples(st.just("publish"), st.integers(1, 5), st.just(0)),
        st.tuples(st.just("ack"), st.integers(0, 20), st.just(0)),
    ),
    max_size=50,
)


@pytest.mark.rule("CS-3", "QO-1")
@settings(max_examples=300)
@given(STEPS)
def test_the_highest_priority_that_is_able_gets_it_and_equals_share(
    steps: list[tuple[str, int, int]],
) -> None:
    """Never a lower priority while a higher one is able; in one priority no one twice in a row
    while another is able all the time; nobody above the limit; all that can go has gone."""
    rig, circle, count = Rig(), Circle(), 0
    waiting = 0
    for what, first, second in steps:
        if what == "join":
            count += 1
            consumer = rig.consumer(
                f"c{count}", no_ack=second == 0, priority=first, prefetch=second
            )
            circle.order.append(Plain(consumer, first, second))
        elif what == "leave" and circle.order:
            plain = circle.order.pop(first % len(circle.order))
            rig.queue.remove_consumer(plain.consumer)
        elif what == "publish":
            rig.publish(*[b"x"] * first)
            waiting += first
        elif what == "ack":
            holders = [each for each in circle.order if each.held and each.limit]
            if holders:
                plain = holders[first % len(holders)]
                outlet = plain.consumer.outlet
                oldest = outlet.unacked.oldest()
                assert oldest is not None
                ack(outlet, outlet.unacked.take(oldest.tag))
                plain.held -= 1
        rig.run()
        waiting = check(rig, circle, waiting)


def check(rig: Rig, circle: Circle, waiting: int) -> int:
    """Compare what was handed out in one step with what the rules allow; return what waits."""
    got = {id(each): len(rig.got(each.consumer.outlet)) for each in circle.order}
    total = sum(got.values())
    by_priority = sorted({each.priority for each in circle.order}, reverse=True)
    for each in circle.order:
        each.held += got[id(each)] if each.limit else 0
        assert each.limit == 0 or each.held <= each.limit
    able = [each for each in circle.order if each.able()]
    left = waiting - total
    assert left == rig.queue.ready()
    assert left == 0 or not able
    for priority in by_priority:
        lower = sum(got[id(each)] for each in circle.order if each.priority < priority)
        peers = [each for each in circle.order if each.priority == priority]
        if lower:
            assert not [each for each in peers if each.able()], "a lower priority went first"
        shares = [got[id(each)] for each in peers if each.able()]
        if shares:
            assert max(shares) - min(shares) <= 1, "equals that are able share evenly"
    return left


@pytest.mark.rule("CS-3")
def test_equals_take_turns() -> None:
    rig = Rig()
    outlet = rig.outlet()
    for tag in "abc":
        rig.consumer(tag, outlet)
    rig.publish(b"1", b"2", b"3", b"4")
    assert [tag for tag, _, _ in rig.got(outlet)] == ["a", "b", "c", "a"]
    rig.publish(b"5")
    assert [tag for tag, _, _ in rig.got(outlet)] == ["b"]


@pytest.mark.rule("CS-3", "QO-1")
def test_a_better_consumer_that_becomes_able_again_gets_the_next_message() -> None:
    rig = Rig()
    better = rig.consumer("better", priority=5, no_ack=False, prefetch=1)
    worse = rig.consumer("worse")
    rig.publish(b"1", b"2")
    assert rig.got(better.outlet) == [("better", b"1", False)]
    assert rig.got(worse.outlet) == [("worse", b"2", False)]
    ack(better.outlet, better.outlet.unacked.take(1))
    rig.publish(b"3")
    assert rig.got(better.outlet) == [("better", b"3", False)]


@pytest.mark.rule("QO-2", "QO-4")
def test_the_limit_of_the_channel_holds_for_all_its_consumers() -> None:
    rig = Rig()
    outlet = rig.outlet()
    outlet.limit = 2
    rig.consumer("a", outlet, no_ack=False)
    rig.consumer("b", outlet, no_ack=False)
    rig.publish(b"1", b"2", b"3")
    assert [body for _, body, _ in rig.got(outlet)] == [b"1", b"2"]
    assert outlet.waiting == 2
    ack(outlet, outlet.unacked.take(2))
    rig.run()
    assert [body for _, body, _ in rig.got(outlet)] == [b"3"]


def test_a_peer_that_does_not_read_is_passed_over_until_it_has() -> None:
    rig = Rig()
    slow, quick = rig.outlet(bound=100), rig.outlet()
    rig.consumer("slow", slow)
    rig.consumer("quick", quick)
    rig.publish(*[b"x" * 90] * 10)
    assert len(rig.got(quick)) == 9
    assert slow.output.stalled
    assert len(rig.got(slow)) == 1
    slow.output.stalled = False
    slow.wake()
    rig.publish(b"y", b"z")
    assert len(rig.got(slow)) == 1


def test_what_a_consumer_that_left_was_passed_over_for_is_forgotten() -> None:
    rig = Rig()
    outlet = rig.outlet()
    full = rig.consumer("full", outlet, no_ack=False, prefetch=1)
    rig.publish(b"1", b"2")
    assert outlet.waiting == 1
    rig.queue.remove_consumer(full)
    assert outlet.waiting == 0
    assert not rig.queue.remove_consumer(full)
    ack(outlet, outlet.unacked.take(1))
    rig.run()
    assert rig.queue.ready() == 1
    assert rig.queue.consumers.groups == []
