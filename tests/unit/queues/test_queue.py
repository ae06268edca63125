"""One queue against a list: order, redelivery, counts; and how it is suspended and ends."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.unit.queues.rig import Rig, ack, message
from warren.protocol.output import Outbox, Output
from warren.queues import HELD, PENDING, TAKEN, ConfirmLedger, Delivery


class AgainstList(RuleBasedStateMachine):
    """Messages are numbered as published; the model holds (number, handed out before)."""

    def __init__(self) -> None:
        super().__init__()
        self.rig = Rig()
        self.outlet = self.rig.outlet()
        self.ready: list[tuple[int, bool]] = []
        self.out: dict[int, Delivery] = {}
        self.published = 0

    @rule(count=st.integers(1, 5))
    def publish(self, count: int) -> None:
        for _ in range(count):
            self.rig.publish(str(self.published).encode())
            self.ready.append((self.published, False))
            self.published += 1
        self.hand_out()

    def hand_out(self) -> None:
        """End the turn; what consumers were sent is the head of the list, in order."""
        self.rig.run()
        for _, body, again in self.rig.got(self.outlet):
            number, before = self.ready.pop(0)
            assert (int(body), again) == (number, before)
            self.note(number)
        able = [each for each in self.rig.queue.consumers.every if each.able()]
        assert not able or not self.ready

    def note(self, number: int) -> None:
        for delivery in self.outlet.unacked._outstanding():
            if int(delivery.message.body) == number:
                self.out[number] = delivery

    @rule()
    def get(self) -> None:
        got = self.rig.queue.get()
        if got is None:
            assert not self.ready
            return
        number, before = self.ready.pop(0)
        assert (int(got.message.body), got.again, got.left) == (number, before, len(self.ready))
        tag = self.outlet.next_tag
        self.outlet.next_tag += 1
        delivery = Delivery(tag, got.seq, got.message, self.rig.queue, None, 0)
        self.rig.queue.lend(delivery)
        self.outlet.unacked.add(delivery)
        self.out[number] = delivery

    @rule(prefetch=st.integers(1, 4))
    def consume(self, prefetch: int) -> None:
        if len(self.rig.queue.consumers.every) < 3:
            self.rig.consumer("c", self.outlet, no_ack=False, prefetch=prefetch)
            self.hand_out()

    @rule(place=st.integers(0, 5))
    def cancel(self, place: int) -> None:
        every = self.rig.queue.consumers.every
        if every:
            consumer = every[place % len(every)]
            self.rig.queue.remove_consumer(consumer)
            self.outlet.consumers.remove(consumer)

    def take(self, places: list[int]) -> list[Delivery]:
        numbers = sorted(self.out)
        chosen = sorted({numbers[place % len(numbers)] for place in places}) if numbers else []
        taken = [self.out.pop(number) for number in chosen]
        for delivery in taken:
            assert self.outlet.unacked.take(delivery.tag) is delivery
        return taken

    @rule(places=st.lists(st.integers(0, 50), min_size=1, max_size=4), drop=st.booleans())
    def settle(self, places: list[int], drop: bool) -> None:
        for delivery in self.take(places):
            if drop:
                self.rig.queue.discard(delivery)
                self.outlet.release([delivery])
            else:
                ack(self.outlet, delivery)
        self.hand_out()

    @rule(places=st.lists(st.integers(0, 50), min_size=1, max_size=6))
    def requeue(self, places: list[int]) -> None:
        taken = self.take(places)
        self.rig.queue.requeue(taken)
        self.outlet.release(taken)
        self.ready += [(int(each.message.body), True) for each in taken]
        self.ready.sort()
        self.hand_out()

    @rule()
    def purge(self) -> None:
        assert self.rig.queue.purge() == len(self.ready)
        self.ready.clear()

    @invariant()
    def counts(self) -> None:
        queue = self.rig.queue
        assert queue.ready() == len(self.ready)
        assert queue.unacked_count == len(self.out)
        assert queue.ready_bytes == sum(len(str(number)) for number, _ in self.ready)


TestAgainstList = AgainstList.TestCase
TestAgainstList.settings = settings(max_examples=150, stateful_step_count=40)


@pytest.mark.rule("PB-6", "CF-3")
def test_a_suspended_queue_keeps_publishes_in_front_in_order() -> None:
    rig = Rig()
    outlet = rig.outlet()
    rig.consumer("c", outlet)
    ledger = ConfirmLedger(1, Output(Outbox(), 1000))
    rig.queue.suspend()
    assert rig.queue.publish(message(b"1"), None, 0) == HELD
    ledger.owe(1, 1)
    assert rig.queue.publish(message(b"2"), ledger, 1) == PENDING
    rig.run()
    assert rig.got(outlet) == []
    assert ledger.open == {1: 1}
    rig.queue.resume()
    assert rig.queue.publish(message(b"3"), None, 0) == TAKEN
    assert [body for _, body, _ in rig.got(outlet)] == [b"1", b"2", b"3"]
    assert ledger.open == {}
    assert ledger.late_acks == [1]


@pytest.mark.rule("QD-8", "CO-3")
def test_a_queue_that_ends_answers_for_what_it_held_and_takes_the_rest_silently() -> None:
    rig = Rig()
    consumer = rig.consumer("c", no_ack=False)
    rig.publish(b"1")
    delivery = consumer.outlet.unacked.take(1)
    assert delivery is not None
    rig.queue.suspend()
    ledger = ConfirmLedger(1, Output(Outbox(), 1000))
    ledger.owe(1, 1)
    rig.queue.publish(message(b"2"), ledger, 1)
    assert rig.queue.close() == [consumer]
    assert ledger.late_acks == [1]
    assert rig.queue.publish(message(b"3"), None, 0) == TAKEN
    rig.queue.requeue([delivery])
    rig.run()
    assert (rig.queue.ready(), rig.queue.ready_bytes) == (0, 0)
    assert rig.turn.queues == []


@pytest.mark.rule("QD-6")
def test_an_auto_delete_queue_asks_to_go_with_its_last_consumer() -> None:
    rig = Rig()
    queue = rig.another("gone", auto_delete=True)
    first = rig.consumer("a", queue=queue)
    second = rig.consumer("b", queue=queue)
    assert not queue.remove_consumer(first)
    assert queue.remove_consumer(second)
    assert not queue.remove_consumer(second)


@pytest.mark.rule("PB-6")
def test_a_message_never_passes_one_that_waits() -> None:
    rig = Rig()
    rig.publish(b"1")
    consumer = rig.consumer("c")
    rig.publish(b"2")
    assert rig.got(consumer.outlet) == []
    rig.run()
    assert [body for _, body, _ in rig.got(consumer.outlet)] == [b"1", b"2"]
    assert rig.queue.pressure() == 0
