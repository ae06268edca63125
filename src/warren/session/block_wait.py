"""Why the publishes of one connection wait, in the wait book: alarm, credit, limit, budget.

`settle` compares what holds the connection up now with what the book says and begins and ends the
difference. What goes on is not begun anew, however often its publishes go on in between: so a wait
says since when, and each reason is told as long as it is true.

`Connection.block_waits` has the waits that the book lists, by reason.
"""

from typing import TYPE_CHECKING

from warren.flow import READER_TO_CHANNEL, Kind, Reason, Subject, Wait
from warren.vhost.limit import MAX_PUBLISH_RATE

if TYPE_CHECKING:
    from warren.session.channel import Channel
    from warren.session.connection import Connection


def settle(connection: "Connection") -> None:
    waits = connection.block_waits
    publisher = connection.publisher
    if not publisher.parking or not publisher.alarmed():
        _end(connection, Reason.MEMORY_ALARM)
        _end(connection, Reason.DISK_ALARM)
    elif Reason.MEMORY_ALARM not in waits and Reason.DISK_ALARM not in waits:
        _begin_alarm(connection)
    if not publisher.parking or not connection.credit_out:
        _end(connection, Reason.CREDIT)
    elif Reason.CREDIT not in waits:
        _begin_credit(connection)
    _settle_rate(connection, publisher.parking)
    if connection.reading:
        _end(connection, Reason.PARKED_BUDGET)


def forget(connection: "Connection") -> None:
    """The connection ends and waits for nothing."""
    for reason in list(connection.block_waits):
        _end(connection, reason)


def channel_subject(connection: "Connection", channel: "Channel") -> Subject:
    return Subject(Kind.CHANNEL, f"{connection.subject.name} ({channel.number})")


def begin_budget(connection: "Connection") -> None:
    """More is parked than may be: the socket is not read."""
    detail = f"{connection.parked_bytes} octets parked"
    _begin(connection, Reason.PARKED_BUDGET, None, "parked_bytes_max", detail)


def _begin(
    connection: "Connection", reason: Reason, cause: Subject | None, setting: str, detail: str = ""
) -> None:
    now = int(connection.broker.turn.now_ns)
    wait = Wait(reason, connection.subject, cause, now, setting=setting, detail=detail)
    connection.block_waits[reason] = connection.broker.waits.begin(wait)


def _end(connection: "Connection", reason: Reason) -> None:
    handle = connection.block_waits.pop(reason, None)
    if handle is not None:
        connection.broker.waits.end(handle, int(connection.broker.turn.now_ns))


def _begin_alarm(connection: "Connection") -> None:
    alarms = connection.broker.alarms.in_force()
    if not alarms:
        return
    cause = Subject(Kind.NODE, alarms[0].node)
    if all(alarm.source.value == "disk" for alarm in alarms):
        _begin(connection, Reason.DISK_ALARM, cause, "disk_free_limit")
    else:
        _begin(connection, Reason.MEMORY_ALARM, cause, "vm_memory_high_watermark")


def _begin_credit(connection: "Connection") -> None:
    connection.last_flow_ns = connection.broker.turn.now_ns
    connection.load.credit_ns = connection.broker.turn.now_ns
    channel = next((c for c in connection.channels.values() if c.blocked_on), None)
    cause = channel_subject(connection, channel) if channel is not None else None
    _begin(connection, Reason.CREDIT, cause, READER_TO_CHANNEL.setting)


def _settle_rate(connection: "Connection", parking: bool) -> None:
    pace = connection.pace
    throttle = pace.waits_for if pace is not None and parking else None
    handle = connection.block_waits.get(Reason.PUBLISH_RATE)
    if throttle is None or (handle is not None and handle.wait.cause != throttle.subject):
        _end(connection, Reason.PUBLISH_RATE)
        handle = None
    if throttle is not None and handle is None:
        connection.last_flow_ns = connection.broker.turn.now_ns
        detail = throttle.text()
        _begin(connection, Reason.PUBLISH_RATE, throttle.subject, MAX_PUBLISH_RATE, detail)
