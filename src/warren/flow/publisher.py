"""Whether one connection's publishes are taken: alarms and credit against what it has sent.

A machine of five states and five events; the table below is the whole of it and the only place
that changes a state. The effects of a step are returned in the order they are to be done. Rules:
the tables of spec section 2.6, CF-10, AL-3, NT-2 to NT-5, HB-1 to HB-3.

The machine knows "some alarm is in force" and "some credit is exhausted"; which alarm, and how
much credit, is known by `alarm` and `credit`. A connection that never publishes during an alarm
stays in `BLOCKING`, works as usual and is told nothing. Negotiation and closing belong to the
session: it creates the machine when the connection is open.

Invariants: content is parked in exactly the states in which the heartbeat check of the client is
paused; connection.blocked and connection.unblocked alternate, beginning with the former.
"""

from enum import Enum
from typing import Final, final


class State(Enum):
    """Where a connection stands; listings say `blocked` for `BLOCKED_IN_FLOW`."""

    RUNNING = "running"
    BLOCKING = "blocking"
    BLOCKED = "blocked"
    FLOW = "flow"
    BLOCKED_IN_FLOW = "blocked in flow"


class Event(Enum):
    """What may happen to it."""

    ALARM_ON = "alarm on"
    ALARM_OFF = "alarm off"
    CONTENT_ARRIVED = "content arrived"
    CREDIT_EXHAUSTED = "credit exhausted"
    CREDIT_BACK = "credit back"


class Effect(Enum):
    """What the session must do, in the order given."""

    PARK_CONTENT = "park content"
    PAUSE_HEARTBEAT_CHECK = "pause heartbeat check"
    NOTIFY_BLOCKED = "notify blocked"
    NOTIFY_UNBLOCKED = "notify unblocked"
    RESTART_HEARTBEAT_CHECK = "restart heartbeat check"
    RESUME_CONTENT = "resume content"


Effects = tuple[Effect, ...]

_NOTHING: Final[Effects] = ()
_STOP: Final[Effects] = (Effect.PARK_CONTENT, Effect.PAUSE_HEARTBEAT_CHECK)
_GO: Final[Effects] = (Effect.RESTART_HEARTBEAT_CHECK, Effect.RESUME_CONTENT)
_TELL: Final[Effects] = (Effect.NOTIFY_BLOCKED,)
_TELL_END: Final[Effects] = (Effect.NOTIFY_UNBLOCKED,)

# ALARM_ON is the first alarm of any source and node, ALARM_OFF the end of the last one.
# CONTENT_ARRIVED is a content header or body frame, before it is processed; CREDIT_EXHAUSTED
# comes after a publish, so it counts as one.
TRANSITIONS: Final[dict[tuple[State, Event], tuple[State, Effects]]] = {
    (State.RUNNING, Event.ALARM_ON): (State.BLOCKING, _NOTHING),
    (State.RUNNING, Event.CONTENT_ARRIVED): (State.RUNNING, _NOTHING),
    (State.RUNNING, Event.CREDIT_EXHAUSTED): (State.FLOW, _STOP),
    (State.BLOCKING, Event.ALARM_OFF): (State.RUNNING, _NOTHING),
    (State.BLOCKING, Event.CONTENT_ARRIVED): (State.BLOCKED, _STOP + _TELL),
    (State.BLOCKING, Event.CREDIT_EXHAUSTED): (State.BLOCKED_IN_FLOW, _STOP + _TELL),
    (State.BLOCKED, Event.ALARM_OFF): (State.RUNNING, _TELL_END + _GO),
    (State.BLOCKED, Event.CONTENT_ARRIVED): (State.BLOCKED, _NOTHING),
    (State.BLOCKED, Event.CREDIT_EXHAUSTED): (State.BLOCKED_IN_FLOW, _NOTHING),
    (State.FLOW, Event.ALARM_ON): (State.BLOCKED_IN_FLOW, _TELL),
    (State.FLOW, Event.CONTENT_ARRIVED): (State.FLOW, _NOTHING),
    (State.FLOW, Event.CREDIT_BACK): (State.RUNNING, _GO),
    (State.BLOCKED_IN_FLOW, Event.ALARM_OFF): (State.FLOW, _TELL_END),
    (State.BLOCKED_IN_FLOW, Event.CONTENT_ARRIVED): (State.BLOCKED_IN_FLOW, _NOTHING),
    (State.BLOCKED_IN_FLOW, Event.CREDIT_BACK): (State.BLOCKED, _NOTHING),
}

_PARKING: Final = frozenset((State.BLOCKED, State.FLOW, State.BLOCKED_IN_FLOW))
_ALARMED: Final = frozenset((State.BLOCKING, State.BLOCKED, State.BLOCKED_IN_FLOW))
_IN_FLOW: Final = frozenset((State.FLOW, State.BLOCKED_IN_FLOW))
_SHOWN: Final[dict[State, str]] = {
    State.RUNNING: "running",
    State.BLOCKING: "blocking",
    State.BLOCKED: "blocked",
    State.FLOW: "flow",
    State.BLOCKED_IN_FLOW: "blocked",
}
_NOTIFICATIONS: Final = frozenset((Effect.NOTIFY_BLOCKED, Effect.NOTIFY_UNBLOCKED))


@final
class PublisherState:
    """The machine of one open connection.

    `watchful` and `parking` are what the path of every message looks at: content is reported with
    `on_content` only while `watchful`, and put aside while `parking`.
    """

    def __init__(self, *, notifiable: bool, alarm: bool) -> None:
        self.notifiable = notifiable
        self.state = State.BLOCKING if alarm else State.RUNNING
        self.watchful = alarm
        self.parking = False

    def on_alarm(self, in_force: bool) -> Effects:
        """Say whether any alarm is in force now; repeating it does nothing."""
        if in_force == (self.state in _ALARMED):
            return _NOTHING
        return self._step(Event.ALARM_ON if in_force else Event.ALARM_OFF)

    def on_content(self) -> Effects:
        """A content header or body frame is next; after this, `parking` says what to do with it."""
        return self._step(Event.CONTENT_ARRIVED)

    def on_credit(self, exhausted: bool) -> Effects:
        """Say whether any credit of the reader is exhausted now; repeating it does nothing."""
        if exhausted == (self.state in _IN_FLOW):
            return _NOTHING
        return self._step(Event.CREDIT_EXHAUSTED if exhausted else Event.CREDIT_BACK)

    def shown(self, flow_lingers: bool) -> str:
        """The state in listings; `flow_lingers` is the reader's `Flow.shown`."""
        if flow_lingers and self.state is State.RUNNING:
            return _SHOWN[State.FLOW]
        return _SHOWN[self.state]

    def alarmed(self) -> bool:
        """Whether an alarm is in force for this connection."""
        return self.state in _ALARMED

    def heartbeat_checked(self) -> bool:
        """Whether silence of the client may close the connection."""
        return not self.parking

    def _step(self, event: Event) -> Effects:
        self.state, effects = TRANSITIONS[self.state, event]
        self.parking = self.state in _PARKING
        self.watchful = self.state is not State.RUNNING
        if self.notifiable:
            return effects
        return tuple(effect for effect in effects if effect not in _NOTIFICATIONS)
