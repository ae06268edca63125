"""Queues with rules: limits, expiry, priorities, counted deliveries, use, one active consumer."""

from dataclasses import dataclass

import pytest

from tests.unit.queues.rig import Rig, ack
from warren.protocol.properties import Properties, scan
from warren.queues import HELD, REFUSED, TAKEN, Message, Outlet, Queue, QueueKeeper, QueueRules
from warren.queues.ruled import returns_of
from warren.queues.rules import (
    DEATHS,
    REJECT_PUBLISH,
    REJECT_PUBLISH_DLX,
)

MS = 1_000_000


def message(body: bytes, *, expiration: str | None = None, priority: int | None = None) -> Message:
    props = Properties(expiration=expiration, priority=priority).encode()
    return Message(b"\x00\x01q", props, body, None, len(body), scan(props, 0, len(props)))


@dataclass
class Keeper(QueueKeeper):
    """What a vhost would be told."""

    def __init__(self) -> None:
        super().__init__()
        self.buried: list[tuple[bytes, str]] = []
        self.retired: list[str] = []

    def bury(self, queue: Queue, message: Message, reason: int) -> None:
        self.buried.append((message.body, DEATHS[reason]))

    def retire(self, queue: Queue) -> None:
        self.retired.append(queue.name)
        queue.close()


class Bench(Rig):
    """A rig whose queue has rules, a keeper, and a clock that is moved by hand."""

    def __init__(self, **rules: object) -> None:
        super().__init__()
        self.keeper = Keeper()
        self.turn.now_ns = 1_000 * MS
        self.queue = Queue(
            "q",
            "/",
            self.turn,
            durable=False,
            auto_delete=False,
            owner=0,
            arguments={},
            rules=QueueRules(dead_letter_exchange="dlx", **rules),  # type: ignore[arg-type]
            keeper=self.keeper,
        )

    def put(self, *bodies: bytes) -> list[int]:
        return [int(self.queue.publish(message(body), None, 0)) for body in bodies]

    def after(self, ms: int) -> None:
        """Let time pass, in the steps that a driver would take."""
        until = self.turn.now_ns + ms * MS
        while 0 < self.turn.timers.next_ns() <= until:
            self.turn.now_ns = max(self.turn.now_ns, self.turn.timers.next_ns())
            self.run()
        self.turn.now_ns = until
        self.run()

    def ready(self) -> list[bytes]:
        """Take all that is ready."""
        found: list[bytes] = []
        while (got := self.queue.get()) is not None:
            found.append(got.message.body)
        return found

    def bodies(self, outlet: Outlet) -> list[bytes]:
        return [body for _, body, _ in self.got(outlet)]


@pytest.mark.rule("TT-1", "TT-3")
def test_messages_expire_at_their_time_without_being_touched() -> None:
    bench = Bench(message_ttl_ms=100)
    bench.put(b"1")
    bench.after(40)
    bench.put(b"2")
    bench.after(59)
    assert (bench.queue.ready(), bench.keeper.buried) == (2, [])
    bench.after(1)
    assert bench.keeper.buried == [(b"1", "expired")]
    bench.after(40)
    assert bench.keeper.buried == [(b"1", "expired"), (b"2", "expired")]
    assert (bench.queue.ready(), bench.queue.ready_bytes, bench.queue.expired_count) == (0, 0, 2)
    assert bench.turn.timers.next_ns() == 0


@pytest.mark.rule("TT-1")
def test_the_shorter_of_both_lives_holds() -> None:
    bench = Bench(message_ttl_ms=100)
    bench.queue.publish(message(b"short", expiration="10"), None, 0)
    bench.queue.publish(message(b"long", expiration="1000"), None, 0)
    bench.after(10)
    assert bench.keeper.buried == [(b"short", "expired")]
    bench.after(90)
    assert bench.keeper.buried[1:] == [(b"long", "expired")]


@pytest.mark.rule("TT-1")
def test_expiration_alone_needs_no_rules() -> None:
    bench = Bench()
    bench.queue.publish(message(b"a", expiration="10"), None, 0)
    bench.queue.publish(message(b"b"), None, 0)
    assert bench.queue.gate != 0
    bench.after(10)
    assert bench.keeper.buried == [(b"a", "expired")]
    assert bench.ready() == [b"b"]
    bench.run()
    bench.queue.pump(1)
    assert bench.queue.gate == 0


@pytest.mark.rule("TT-3")
def test_what_is_expired_behind_the_head_stays() -> None:
    bench = Bench()
    bench.queue.publish(message(b"head"), None, 0)
    bench.queue.publish(message(b"short", expiration="10"), None, 0)
    bench.after(50)
    assert (bench.queue.ready(), bench.keeper.buried) == (2, [])
    got = bench.queue.get()
    assert got is not None
    assert got.message.body == b"head"
    bench.after(0)
    assert bench.keeper.buried == [(b"short", "expired")]


@pytest.mark.rule("TT-3")
def test_an_earlier_expiry_behind_a_later_one_is_seen_when_it_is_the_head() -> None:
    bench = Bench()
    bench.queue.publish(message(b"late", expiration="1000"), None, 0)
    bench.queue.publish(message(b"soon", expiration="20"), None, 0)
    assert bench.queue.get() is not None
    bench.after(20)
    assert bench.keeper.buried == [(b"soon", "expired")]


@pytest.mark.rule("TT-4")
def test_a_life_of_nothing_is_enough_for_an_idle_consumer() -> None:
    bench = Bench(message_ttl_ms=0)
    bench.put(b"lost")
    assert bench.keeper.buried == [(b"lost", "expired")]
    consumer = bench.consumer("c", no_ack=False)
    bench.put(b"seen")
    assert bench.bodies(consumer.outlet) == [b"seen"]


@pytest.mark.rule("TT-5")
def test_what_is_out_does_not_expire_and_keeps_its_expiry() -> None:
    bench = Bench(message_ttl_ms=50)
    consumer = bench.consumer("c", no_ack=False)
    bench.put(b"1", b"2")
    bench.after(80)
    assert bench.keeper.buried == []
    bench.queue.remove_consumer(consumer)
    bench.queue.requeue(consumer.outlet.unacked.take_all())
    bench.run()
    assert bench.keeper.buried == [(b"1", "expired"), (b"2", "expired")]


def test_a_million_at_once_go_in_slices() -> None:
    bench = Bench(message_ttl_ms=10)
    bench.put(*[b"x"] * 5000)
    bench.turn.now_ns += 10 * MS
    turns = bench.run()
    assert turns >= 5
    assert len(bench.keeper.buried) == 5000


@pytest.mark.rule("LE-1", "LE-2")
def test_the_head_makes_room() -> None:
    bench = Bench(max_length=2)
    assert bench.put(b"1", b"2", b"3") == [TAKEN] * 3
    assert bench.keeper.buried == [(b"1", "maxlen")]
    assert bench.ready() == [b"2", b"3"]


@pytest.mark.rule("LE-2")
def test_the_new_message_may_be_the_victim() -> None:
    bench = Bench(max_bytes=5)
    bench.put(b"123", b"45", b"1234567")
    assert [body for body, _ in bench.keeper.buried] == [b"123", b"45", b"1234567"]
    assert (bench.queue.ready(), bench.queue.ready_bytes) == (0, 0)


@pytest.mark.rule("LE-1", "LE-2")
def test_what_is_out_does_not_count_and_comes_back_over_the_limit() -> None:
    bench = Bench(max_length=2)
    consumer = bench.consumer("c", no_ack=False, prefetch=2)
    bench.put(b"1", b"2", b"3", b"4")
    assert (bench.queue.ready(), bench.keeper.buried) == (2, [])
    bench.queue.remove_consumer(consumer)
    bench.queue.requeue(consumer.outlet.unacked.take_all())
    assert bench.keeper.buried == [(b"1", "maxlen"), (b"2", "maxlen")]
    assert bench.ready() == [b"3", b"4"]


@pytest.mark.rule("LE-3")
def test_refused_before_a_consumer_is_looked_for() -> None:
    bench = Bench(max_length=0, overflow=REJECT_PUBLISH)
    consumer = bench.consumer("c")
    assert bench.put(b"1") == [REFUSED]
    assert (bench.bodies(consumer.outlet), bench.keeper.buried) == ([], [])
    assert bench.queue.refused_count == 1


@pytest.mark.rule("LE-3")
def test_requeue_never_refuses() -> None:
    bench = Bench(max_length=1, overflow=REJECT_PUBLISH)
    bench.put(b"1")
    outlet = bench.outlet()
    consumer = bench.consumer("c", outlet, no_ack=False, prefetch=1)
    bench.run()
    assert bench.put(b"2", b"3") == [TAKEN, REFUSED]
    bench.queue.remove_consumer(consumer)
    bench.queue.requeue(outlet.unacked.take_all())
    assert bench.ready() == [b"1", b"2"]


@pytest.mark.rule("LE-4")
def test_a_refused_publish_is_a_dead_letter_too() -> None:
    bench = Bench(max_length=1, overflow=REJECT_PUBLISH_DLX)
    assert bench.put(b"1", b"2") == [TAKEN, REFUSED]
    assert bench.keeper.buried == [(b"2", "maxlen")]


@pytest.mark.rule("PO-8")
def test_a_new_limit_acts_at_once() -> None:
    bench = Bench()
    bench.put(*[b"%d" % number for number in range(3000)])
    bench.queue.set_rules(QueueRules(max_length=3))
    bench.run()
    assert bench.ready() == [b"2997", b"2998", b"2999"]
    bench.queue.set_rules(QueueRules())
    assert bench.queue.gate == 0


@pytest.mark.rule("PR-1")
def test_higher_priorities_first() -> None:
    bench = Bench(max_priority=3)
    for body, priority in [
        (b"none", None), (b"0", 0), (b"1", 1), (b"5", 5), (b"2", 2), (b"3", 3),
    ]:  # fmt: skip
        bench.queue.publish(message(body, priority=priority), None, 0)
    assert bench.queue.ready() == 6
    assert bench.ready() == [b"5", b"3", b"2", b"1", b"none", b"0"]
    assert (bench.queue.ready(), bench.queue.ready_bytes) == (0, 0)


@pytest.mark.rule("PR-1")
def test_requeued_messages_find_their_place_in_their_priority() -> None:
    bench = Bench(max_priority=9)
    for number in range(6):
        bench.queue.publish(message(b"%d" % number, priority=number % 2), None, 0)
    outlet = bench.outlet()
    consumer = bench.consumer("c", outlet, no_ack=False)
    bench.run()
    bench.queue.remove_consumer(consumer)
    bench.queue.requeue(list(reversed(outlet.unacked.take_all())))
    assert bench.ready() == [b"1", b"3", b"5", b"0", b"2", b"4"]


def test_a_purge_takes_all_priorities() -> None:
    bench = Bench(max_priority=9, message_ttl_ms=50)
    for number in range(6):
        bench.queue.publish(message(b"x", priority=number), None, 0)
    assert bench.queue.purge() == 6
    assert bench.ready() == []
    bench.after(100)
    assert bench.keeper.buried == []
    bench.queue.publish(message(b"y", priority=4), None, 0)
    assert bench.ready() == [b"y"]


def test_returned_too_often() -> None:
    bench = Bench(delivery_limit=2)
    outlet = bench.outlet()
    bench.put(b"poison")
    counts: list[int] = []
    for _ in range(3):
        consumer = bench.consumer("c", outlet, no_ack=False)
        bench.run()
        taken = outlet.unacked.take_all()
        counts.append(int(returns_of(taken[0].message)))
        bench.queue.remove_consumer(consumer)
        bench.queue.requeue(taken)
    assert counts == [0, 1, 2]
    assert bench.keeper.buried == [(b"poison", "delivery_limit")]
    assert (bench.queue.ready(), bench.queue.unacked_count) == (0, 0)


@pytest.mark.rule("QD-7")
def test_an_unused_queue_retires() -> None:
    bench = Bench(expires_ms=100)
    bench.after(60)
    bench.queue.get()
    bench.after(60)
    assert bench.keeper.retired == []
    consumer = bench.consumer("c")
    bench.after(1000)
    assert bench.keeper.retired == []
    bench.queue.remove_consumer(consumer)
    bench.after(99)
    assert bench.keeper.retired == []
    bench.after(1)
    assert bench.keeper.retired == ["q"]
    assert bench.turn.timers.next_ns() == 0


@pytest.mark.rule("SA-1")
def test_one_active_consumer_and_its_successor() -> None:
    bench = Bench(single_active=True)
    first = bench.consumer("first", no_ack=False, prefetch=1)
    second = bench.consumer("second", no_ack=False)
    third = bench.consumer("third", no_ack=False, priority=5)
    bench.put(b"1", b"2")
    bench.run()
    assert bench.bodies(first.outlet) == [b"1"]
    assert bench.bodies(second.outlet) == bench.bodies(third.outlet) == []
    ack(first.outlet, first.outlet.unacked.take(1))
    bench.run()
    assert bench.bodies(first.outlet) == [b"2"]
    bench.queue.remove_consumer(first)
    bench.put(b"3")
    bench.run()
    assert (bench.bodies(third.outlet), bench.bodies(second.outlet)) == ([b"3"], [])
    bench.queue.remove_consumer(third)
    bench.put(b"4")
    bench.run()
    assert bench.bodies(second.outlet) == [b"4"]


@pytest.mark.rule("LE-2", "TT-3")
def test_a_head_that_a_limit_uncovers_expires() -> None:
    bench = Bench(max_length=1)
    bench.put(b"for ever")
    bench.queue.publish(message(b"short", expiration="100"), None, 0)
    bench.after(100)
    assert bench.keeper.buried == [(b"for ever", "maxlen"), (b"short", "expired")]


@pytest.mark.rule("PQ-3")
def test_what_went_straight_through_comes_back_before_what_waited() -> None:
    bench = Bench(max_priority=3)
    outlet = bench.outlet()
    consumer = bench.consumer("c", outlet, no_ack=False, prefetch=6)
    for body in (b"1", b"2", b"3", b"4", b"5", b"6", b"7"):
        bench.queue.publish(message(body, priority=3), None, 0)
    for tag in range(1, 6):
        ack(outlet, outlet.unacked.take(tag))
    bench.run()
    bench.queue.remove_consumer(consumer)
    bench.queue.requeue(outlet.unacked.take_all())
    assert bench.ready() == [b"6", b"7"]


def test_a_failing_queue_stops_and_the_others_go_on() -> None:
    bench = Bench(message_ttl_ms=10)
    other = bench.another("other")
    consumer = bench.consumer("c", queue=other)

    class Failing(QueueKeeper):
        def bury(self, queue: Queue, message: Message, reason: int) -> None:
            raise RuntimeError("a mistake")

    bench.queue.keeper = Failing()
    bench.put(b"1")
    bench.turn.now_ns += 10 * MS
    other.suspend()
    other.publish(message(b"2"), None, 0)
    bench.queue.schedule()
    other.resume()
    bench.run()
    assert bench.bodies(consumer.outlet) == [b"2"]
    assert [failure.queue for failure in bench.turn.failures] == [bench.queue]
    assert bench.queue.publish(message(b"3"), None, 0) == HELD


def test_a_closed_queue_leaves_nothing_behind() -> None:
    bench = Bench(message_ttl_ms=10, expires_ms=10, max_priority=2)
    bench.put(b"1")
    bench.queue.close()
    assert bench.turn.timers.next_ns() == 0
    bench.after(100)
    assert (bench.keeper.buried, bench.keeper.retired) == ([], [])
