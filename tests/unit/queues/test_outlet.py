"""The channel-wide limit: when consumers that were passed over take part again."""

import pytest

from tests.unit.queues.rig import Rig
from warren.queues.outlet import ROOM_AFTER_NS, Outlet


@pytest.fixture
def rig() -> Rig:
    return Rig()


def full(rig: Rig, limit: int) -> Outlet:
    """A channel whose consumer has as many messages as the limit allows, and one more waiting."""
    outlet = rig.outlet()
    outlet.limit = limit
    rig.consumer("c", outlet, no_ack=False)
    rig.publish(*(bytes((number,)) for number in range(limit + 1)))
    rig.run()
    assert len(rig.got(outlet)) == limit
    return outlet


@pytest.mark.rule("QO-2")
def test_room_is_filled_behind_the_answer(rig: Rig) -> None:
    """A client that waits for basic.qos-ok has read it before the message comes."""
    outlet = full(rig, 1)
    outlet.limit = 2
    outlet.wake_soon()
    rig.run()
    assert rig.got(outlet) == []
    rig.turn.now_ns += ROOM_AFTER_NS - 1
    rig.run()
    assert rig.got(outlet) == []
    rig.turn.now_ns += 1
    rig.run()
    assert rig.got(outlet) == [("c", b"\x01", False)]


def test_asking_again_does_not_put_it_off(rig: Rig) -> None:
    outlet = full(rig, 1)
    outlet.limit = 2
    for _ in range(4):
        outlet.wake_soon()
        rig.turn.now_ns += ROOM_AFTER_NS // 4
    rig.run()
    assert len(rig.got(outlet)) == 1


def test_nobody_waits(rig: Rig) -> None:
    outlet = rig.outlet()
    outlet.wake_soon()
    assert not rig.turn.timers.heap


def test_nothing_keeps_the_channel_when_the_room_is_filled(rig: Rig) -> None:
    """The cycle collector does not run: a timer and its channel must let go of each other."""
    outlet = full(rig, 1)
    outlet.limit = 2
    outlet.wake_soon()
    assert len(rig.turn.timers.heap) == 1
    rig.turn.now_ns += ROOM_AFTER_NS
    rig.run()
    assert outlet.room is None
    assert not rig.turn.timers.heap
