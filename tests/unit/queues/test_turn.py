"""What is done at the end of a loop turn, in slices of bounded size."""

from tests.unit.queues.rig import Rig, message
from warren.queues.backlog import BLOCK_SIZE, FREED_RETURNED
from warren.queues.turn import (
    FREED_BLOCKS,
    PUMP_MESSAGES,
    TURN_MESSAGES,
    TURN_QUEUES,
    Chore,
)


def test_a_long_queue_is_handed_out_in_slices() -> None:
    rig = Rig()
    body = b"x"
    rig.publish(*[body] * (3 * PUMP_MESSAGES))
    consumer = rig.consumer("c")
    assert rig.got(consumer.outlet) == []
    for _ in range(3):
        assert rig.turn.queues == [rig.queue]
        rig.turn.run()
        assert len(rig.got(consumer.outlet)) == PUMP_MESSAGES
    assert not rig.turn.run()


def test_a_long_queue_does_not_keep_others_waiting() -> None:
    rig = Rig()
    rig.publish(*[b"x"] * (3 * PUMP_MESSAGES))
    other = rig.another("other")
    other.publish(message(b"mine"), None, 0)
    rig.consumer("long")
    mine = rig.consumer("short", queue=other)
    rig.turn.run()
    assert rig.got(mine.outlet) == [("short", b"mine", False)]


def test_a_queue_is_scheduled_once() -> None:
    rig = Rig()
    rig.publish(b"1", b"2")
    rig.consumer("a")
    rig.consumer("b")
    rig.queue.schedule()
    assert rig.turn.queues == [rig.queue]
    rig.run()
    rig.queue.schedule()
    assert rig.turn.queues == []


def test_a_purge_frees_a_bounded_number_of_blocks_in_a_turn() -> None:
    rig = Rig()
    rig.publish(*[b"x"] * (3 * FREED_BLOCKS * BLOCK_SIZE))
    assert rig.queue.purge() == 3 * FREED_BLOCKS * BLOCK_SIZE
    assert rig.queue.ready() == 0
    turns = rig.run()
    assert turns == 3 + 1 or turns == 3
    assert rig.turn.garbage == []


def test_a_purge_of_many_that_came_back_frees_them_in_slices() -> None:
    rig = Rig()
    many = 2 * FREED_RETURNED + 1
    consumer = rig.consumer("c", no_ack=False)
    rig.publish(*[b"x"] * many)
    rig.queue.remove_consumer(consumer)
    rig.queue.requeue(consumer.outlet.unacked.take_all())
    (heap,) = [rig.queue.returned.heap]
    assert rig.queue.purge() == many
    assert (rig.queue.ready(), len(rig.queue.returned.heap)) == (0, 0)
    left = []
    while rig.turn.chores:
        rig.turn.run()
        left.append(len(heap))
    assert left == [FREED_RETURNED + 1, 1, 0]


class Steps(Chore):
    def __init__(self, count: int) -> None:
        self.left = count

    def step(self) -> bool:
        self.left -= 1
        return self.left == 0


def test_chores_go_one_step_a_turn_in_order() -> None:
    rig = Rig()
    first, second = Steps(2), Steps(1)
    rig.turn.chores += [first, second]
    assert rig.turn.run()
    assert (first.left, second.left) == (1, 1)
    assert rig.turn.run()
    assert (first.left, second.left) == (0, 1)
    assert not rig.turn.run()
    assert (second.left, rig.turn.chores) == (0, [])


class Failing(Chore):
    def step(self) -> bool:
        raise ValueError("a mistake")


def test_a_chore_that_fails_ends_and_the_others_go_on() -> None:
    rig = Rig()
    rig.turn.chores += [Failing(), Steps(1)]
    rig.run()
    assert rig.turn.chores == []
    assert [str(failure.error) for failure in rig.turn.failures] == ["a mistake"]


def test_many_queues_share_what_a_turn_may_hand_out() -> None:
    rig = Rig()
    queues = [rig.another(f"q{number}") for number in range(2 * TURN_QUEUES)]
    share = TURN_MESSAGES // TURN_QUEUES
    for queue in queues:
        for _ in range(share + 1):
            queue.publish(message(b"x"), None, 0)
        rig.consumer(queue.name, queue=queue)
    rig.turn.run()
    left = [int(queue.ready()) for queue in queues]
    assert left == [1] * TURN_QUEUES + [share + 1] * TURN_QUEUES
    # Those that have not had their turn come first, then the rest of the others.
    rig.turn.run()
    assert [int(queue.ready()) for queue in queues] == [1] * len(queues)
    rig.run()
    assert {int(queue.ready()) for queue in queues} == {0}


class Ticking:
    """A clock on which every look takes two milliseconds."""

    def __init__(self) -> None:
        self.now_ns = 0

    def monotonic_ns(self) -> int:
        self.now_ns += 2_000_000
        return self.now_ns

    def wall_ns(self) -> int:
        return self.now_ns


def test_a_turn_ends_when_its_time_is_over_and_the_next_goes_on_where_it_was() -> None:
    rig = Rig()
    rig.turn.clock = Ticking()
    queues = [rig.another(f"q{number}") for number in range(5)]
    for queue in queues:
        queue.publish(message(b"x"), None, 0)
        rig.consumer(queue.name, queue=queue)
    assert rig.turn.run()
    assert [int(queue.ready()) for queue in queues] == [0, 0, 0, 1, 1]
    queues[0].publish(message(b"y"), None, 0)
    assert rig.turn.queues == queues[3:]
    assert not rig.turn.run()
    assert {int(queue.ready()) for queue in queues} == {0}
