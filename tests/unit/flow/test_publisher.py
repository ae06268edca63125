"""Running, blocking, blocked, flow: what each event does to a connection."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.flow import Alarm, Alarms, Effect, Event, PublisherState, Source, State
from warren.flow.publisher import TRANSITIONS

STOP = (Effect.PARK_CONTENT, Effect.PAUSE_HEARTBEAT_CHECK)
GO = (Effect.RESTART_HEARTBEAT_CHECK, Effect.RESUME_CONTENT)


def publisher(*, alarm: bool = False, notifiable: bool = True) -> PublisherState:
    return PublisherState(notifiable=notifiable, alarm=alarm)


def test_a_running_connection_asks_for_no_attention() -> None:
    machine = publisher()
    assert (machine.shown(False), machine.watchful, machine.parking) == ("running", False, False)
    assert machine.on_content() == ()
    assert machine.state is State.RUNNING


@pytest.mark.rule("AL-3", "NT-4", "HB-3")
def test_a_connection_that_does_not_publish_is_left_alone() -> None:
    machine = publisher()
    assert machine.on_alarm(True) == ()
    assert machine.shown(False) == "blocking"
    assert machine.watchful
    assert not machine.parking
    assert machine.heartbeat_checked()
    assert machine.on_alarm(False) == ()
    assert machine.shown(False) == "running"


@pytest.mark.rule("AL-3", "CF-10", "NT-2", "HB-1", "HB-2")
def test_the_first_content_frame_blocks_before_it_is_processed() -> None:
    machine = publisher()
    machine.on_alarm(True)
    assert machine.on_content() == (*STOP, Effect.NOTIFY_BLOCKED)
    assert machine.shown(False) == "blocked"
    assert machine.parking
    assert not machine.heartbeat_checked()
    assert machine.on_content() == ()
    assert machine.on_alarm(False) == (Effect.NOTIFY_UNBLOCKED, *GO)
    assert machine.shown(False) == "running"
    assert machine.heartbeat_checked()


@pytest.mark.rule("NT-2")
def test_a_second_period_is_notified_again() -> None:
    machine = publisher()
    for _ in range(2):
        machine.on_alarm(True)
        assert Effect.NOTIFY_BLOCKED in machine.on_content()
        assert Effect.NOTIFY_UNBLOCKED in machine.on_alarm(False)


@pytest.mark.rule("NT-1")
def test_a_client_without_the_capability_is_blocked_without_a_word() -> None:
    machine = publisher(notifiable=False)
    machine.on_alarm(True)
    assert machine.on_content() == STOP
    assert machine.on_alarm(False) == GO
    machine.on_credit(True)
    assert machine.on_alarm(True) == ()


@pytest.mark.rule("NT-2", "CF-10", "HB-1")
def test_credit_stops_a_connection_without_a_notification() -> None:
    machine = publisher()
    assert machine.on_credit(True) == STOP
    assert machine.shown(False) == "flow"
    assert not machine.heartbeat_checked()
    assert machine.on_credit(True) == ()
    assert machine.on_credit(False) == GO
    assert machine.on_credit(False) == ()
    assert machine.shown(False) == "running"


@pytest.mark.rule("NT-2", "NT-3")
def test_an_alarm_during_flow_shows_blocked_and_is_notified() -> None:
    machine = publisher()
    machine.on_credit(True)
    assert machine.on_alarm(True) == (Effect.NOTIFY_BLOCKED,)
    assert machine.shown(True) == "blocked"
    assert machine.on_credit(False) == ()
    assert machine.parking
    assert machine.on_alarm(False) == (Effect.NOTIFY_UNBLOCKED, *GO)


@pytest.mark.rule("NT-3", "CF-10")
def test_the_end_of_the_alarm_does_not_end_flow() -> None:
    machine = publisher()
    machine.on_credit(True)
    machine.on_alarm(True)
    assert machine.on_alarm(False) == (Effect.NOTIFY_UNBLOCKED,)
    assert machine.shown(False) == "flow"
    assert machine.parking
    assert machine.on_credit(False) == GO


@pytest.mark.rule("NT-3")
@pytest.mark.parametrize("first_cleared", list(Source))
def test_two_alarms_give_one_blocked_and_one_unblocked(first_cleared: Source) -> None:
    alarms, machine = Alarms(), publisher()
    told: list[Effect] = []
    memory, disk = (Alarm(source, "one") for source in Source)
    alarms.set(memory)
    machine.on_alarm(alarms.any())
    told += machine.on_content()
    assert alarms.blocked_reason_text() == "low on memory"
    alarms.set(disk)
    told += machine.on_alarm(alarms.any())
    last = disk if first_cleared is Source.MEMORY else memory
    alarms.clear(Alarm(first_cleared, "one"))
    told += machine.on_alarm(alarms.any())
    assert told.count(Effect.NOTIFY_UNBLOCKED) == 0
    alarms.clear(last)
    told += machine.on_alarm(alarms.any())
    assert told.count(Effect.NOTIFY_BLOCKED) == 1
    assert told.count(Effect.NOTIFY_UNBLOCKED) == 1


@pytest.mark.rule("NT-5")
def test_a_connection_opened_during_an_alarm_is_notified_at_its_first_publish() -> None:
    machine = publisher(alarm=True)
    assert machine.shown(False) == "blocking"
    assert machine.on_alarm(True) == ()
    assert Effect.NOTIFY_BLOCKED in machine.on_content()


@pytest.mark.rule("CF-12")
def test_flow_lingers_in_listings_unless_an_alarm_applies() -> None:
    machine = publisher()
    assert machine.shown(True) == "flow"
    machine.on_alarm(True)
    assert machine.shown(True) == "blocking"


@given(
    alarm=st.booleans(),
    steps=st.lists(st.tuples(st.sampled_from("acp"), st.booleans()), max_size=40),
)
@pytest.mark.rule("NT-2", "NT-3", "HB-1")
def test_any_course_of_events_keeps_parking_heartbeat_and_notices_paired(
    alarm: bool, steps: list[tuple[str, bool]]
) -> None:
    machine = publisher(alarm=alarm)
    effects: list[Effect] = []
    credit_out = False
    for what, value in steps:
        was_parking = machine.parking
        if what == "a":
            alarm = value
            now = machine.on_alarm(value)
        elif what == "c":
            credit_out = value
            now = machine.on_credit(value)
        else:
            now = machine.on_content()
            assert machine.parking or not (alarm or credit_out)
        effects += now
        assert (Effect.PARK_CONTENT in now) == (machine.parking and not was_parking)
        assert (Effect.RESUME_CONTENT in now) == (was_parking and not machine.parking)
        assert machine.heartbeat_checked() == (not machine.parking)
        assert alarm or credit_out or not machine.parking
    for begin, end in (
        (Effect.PARK_CONTENT, Effect.RESUME_CONTENT),
        (Effect.PAUSE_HEARTBEAT_CHECK, Effect.RESTART_HEARTBEAT_CHECK),
        (Effect.NOTIFY_BLOCKED, Effect.NOTIFY_UNBLOCKED),
    ):
        pair = [effect for effect in effects if effect in (begin, end)]
        assert pair[::2] == [begin] * len(pair[::2])
        assert pair[1::2] == [end] * len(pair[1::2])


def test_every_state_takes_every_event_that_can_reach_it() -> None:
    impossible = {
        (State.RUNNING, Event.ALARM_OFF),
        (State.RUNNING, Event.CREDIT_BACK),
        (State.BLOCKING, Event.ALARM_ON),
        (State.BLOCKING, Event.CREDIT_BACK),
        (State.BLOCKED, Event.ALARM_ON),
        (State.BLOCKED, Event.CREDIT_BACK),
        (State.FLOW, Event.ALARM_OFF),
        (State.FLOW, Event.CREDIT_EXHAUSTED),
        (State.BLOCKED_IN_FLOW, Event.ALARM_ON),
        (State.BLOCKED_IN_FLOW, Event.CREDIT_EXHAUSTED),
    }
    pairs = {(state, event) for state in State for event in Event}
    assert pairs - set(TRANSITIONS) == impossible
