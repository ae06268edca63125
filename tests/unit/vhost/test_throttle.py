"""Who waits for tokens, in which order, and what a change of the limit does."""

from warren.flow import Kind, Subject
from warren.queues import Turn
from warren.vhost.throttle import CONNECTIONS_MAX, PUBLISHES_MAX, Throttle, Waiter, throttled

SECOND = 1_000_000_000
USER = Subject(Kind.USER, "ann")


class Publisher(Waiter):
    """Publishes what it has when it may, and gets in line for the rest."""

    def __init__(self, throttle: Throttle, name: str, count: int, done: list[str]) -> None:
        super().__init__()
        self.throttle = throttle
        self.name = name
        self.count = count
        self.done = done

    def resume(self) -> None:
        while self.count:
            if not self.throttle.take(self.throttle.turn.now_ns):
                self.throttle.wait(self)
                return
            self.count -= 1
            self.done.append(self.name)


class Rig:
    """A throttle, its turn and its publishers."""

    def __init__(self, rate: int, burst: int) -> None:
        self.turn = Turn()
        self.turn.now_ns = SECOND
        self.throttle = Throttle(USER, rate, burst, self.turn)
        self.done: list[str] = []

    def publish(self, name: str, count: int) -> Publisher:
        publisher = Publisher(self.throttle, name, count, self.done)
        publisher.resume()
        return publisher

    def pass_time(self, ms: int) -> str:
        """Let time pass, a millisecond after the other; return who published meanwhile."""
        for _ in range(ms):
            self.turn.now_ns += 1_000_000
            self.turn.run()
        assert self.turn.failures == []
        done = "".join(self.done)
        self.done.clear()
        return done


def test_those_in_line_are_served_by_turns() -> None:
    rig = Rig(10, 1)
    for name in "abc":
        rig.publish(name, 3)
    assert rig.pass_time(500) == "a" + "abcab"
    assert rig.pass_time(2000) == "cbc"
    assert rig.throttle.line == {}
    assert rig.turn.timers.heap == []


def test_a_newcomer_does_not_overtake() -> None:
    rig = Rig(10, 1)
    rig.publish("a", 2)
    rig.turn.now_ns += SECOND
    # There are tokens, and somebody is in line.
    rig.publish("b", 1)
    assert rig.done == ["a"]
    assert rig.pass_time(200) == "aab"


def test_whoever_leaves_is_not_served() -> None:
    rig = Rig(10, 1)
    rig.publish("x", 1)
    first, second = rig.publish("a", 1), rig.publish("b", 1)
    rig.throttle.leave(first)
    assert rig.pass_time(150) == "xb"
    rig.throttle.leave(second)
    assert rig.turn.timers.heap == []


def test_a_fast_line_is_served_a_hundred_times_a_second() -> None:
    rig = Rig(100_000, 2000)
    rig.publish("a", 2000)
    rig.publish("b", 100_000)
    served = [len(rig.pass_time(1)) for _ in range(100)]
    assert sum(served) - 2000 == 10_000
    assert sum(1 for count in served if count) <= 11


def test_a_turn_lets_go_so_many() -> None:
    rig = Rig(1, 1)
    rig.publish("a", PUBLISHES_MAX)
    rig.publish("b", PUBLISHES_MAX)
    rig.throttle.lift()
    assert rig.pass_time(1) == "a" * PUBLISHES_MAX + "b"
    assert rig.pass_time(1) == "b" * (PUBLISHES_MAX - 1)
    many = Rig(1, 1)
    many.publish("a", 1)
    for _ in range(CONNECTIONS_MAX + 5):
        many.publish("b", 1)
    many.throttle.lift()
    assert many.pass_time(1) == "a" + "b" * CONNECTIONS_MAX
    assert many.pass_time(1) == "b" * 5
    assert many.turn.timers.heap == []


def test_a_limit_of_nothing_holds_until_it_is_changed() -> None:
    rig = Rig(0, 0)
    rig.publish("a", 2)
    assert rig.pass_time(1000) == ""
    assert rig.turn.timers.heap == []
    rig.throttle.change(10, 1)
    assert rig.pass_time(200) == "aa"


def test_what_limits_ask_for() -> None:
    turn = Turn()

    def numbers(limits: dict[str, int]) -> tuple[int, int] | None:
        found = throttled(None, limits, USER, turn)
        return None if found is None else (int(found.bucket.rate), int(found.bucket.burst))

    assert numbers({}) is None
    assert numbers({"max-publish-rate": -1, "max-publish-burst": 5}) is None
    assert numbers({"max-publish-rate": 10}) == (10, 10)
    assert numbers({"max-publish-rate": 10, "max-publish-burst": 100}) == (10, 100)
    assert numbers({"max-publish-rate": 10, "max-publish-burst": 0}) == (10, 1)
    assert numbers({"max-publish-rate": 1000, "max-publish-burst": 1}) == (1000, 20)
    assert numbers({"max-publish-rate": 0, "max-publish-burst": 9}) == (0, 0)
    current = throttled(None, {"max-publish-rate": 10}, USER, turn)
    assert current is not None
    assert throttled(current, {"max-publish-rate": 20}, USER, turn) is current
    assert current.text() == "20 messages/s, at most 20 at once, for user 'ann'"
    assert throttled(current, {}, USER, turn) is None
    assert current.lifted
