"""Timers against a dict: what fires, when, and in which order."""

from hypothesis import given
from hypothesis import strategies as st

from warren.queues import Timer, Timers


class Noted(Timer):
    def __init__(self, name: int, fired: list[tuple[int, int]]) -> None:
        super().__init__()
        self.name = name
        self.fired = fired

    def fire(self, now_ns: int) -> None:
        self.fired.append((self.name, now_ns))


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("arm"), st.integers(0, 9), st.integers(1, 100)),
        st.tuples(st.just("cancel"), st.integers(0, 9), st.just(0)),
        st.tuples(st.just("run"), st.integers(0, 3), st.integers(0, 30)),
    ),
    max_size=60,
)


@given(STEPS)
def test_timers_are_a_sorted_dict(steps: list[tuple[str, int, int]]) -> None:
    fired: list[tuple[int, int]] = []
    each = [Noted(name, fired) for name in range(10)]
    timers = Timers()
    model: dict[int, int] = {}
    now = 0
    for what, which, number in steps:
        if what == "arm":
            timers.arm(each[which], now + number)
            model[which] = now + number
        elif what == "cancel":
            timers.cancel(each[which])
            model.pop(which, None)
        else:
            now += number
            fired.clear()
            more = timers.run(now, which)
            due = sorted(at for at in model.values() if at <= now)
            assert len(fired) == min(which, len(due))
            assert more == (len(due) > which)
            assert sorted(model[name] for name, _ in fired) == due[:which]
            for name, at in fired:
                assert at == now
                del model[name]
        assert timers.next_ns() == min(model.values(), default=0)
        assert len(timers.heap) == len(model)


def test_a_timer_may_arm_itself_again() -> None:
    timers = Timers()

    class Again(Timer):
        count = 0

        def fire(self, now_ns: int) -> None:
            self.count += 1
            timers.arm(self, now_ns + 10)

    timer = Again()
    timers.arm(timer, 5)
    assert not timers.run(7, 100)
    assert (timer.count, timers.next_ns()) == (1, 17)
