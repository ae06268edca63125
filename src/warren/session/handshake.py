"""Negotiation: start, secure, tune, open, in this order and no other (spec section 2).

Owns who the peer is and what was agreed. A refused login is told only to clients that can
understand it and answered by silence otherwise (AU-1); the true reason goes to the log.
"""

from typing import TYPE_CHECKING, Final

from warren.core import AmqpError, reply
from warren.flow import PublisherState
from warren.protocol.frame import FRAME_MIN_SIZE, FRAME_OVERHEAD, PROTOCOL_HEADER, frame
from warren.protocol.methods import (
    CONNECTION_OPEN_OK,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    Method,
)
from warren.protocol.value import Field, Table, field
from warren.security import Malformed, Proven, Refusal, RefusalReason, Unproven, User
from warren.session import ending, watch
from warren.session.phase import CLOSED, HANDSHAKE
from warren.vhost.broker import CLUSTER_NAME
from warren.vhost.limit import check_connections

if TYPE_CHECKING:
    from warren.session.connection import Connection


SERVER_CAPABILITIES: Final = (
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
    "direct_reply_to",
)


# What metrics call this protocol.
PROTOCOL: Final = "amqp091"

# What is waited for; `Connection.handshake_step` counts through these.
WAIT_START_OK: Final = 1
WAIT_TUNE_OK: Final = 2
WAIT_OPEN: Final = 3


def state_text(step: int) -> str:
    """The state in listings while a connection is not open yet."""
    if step == WAIT_TUNE_OK:
        return "tuning"
    return "opening" if step == WAIT_OPEN else "starting"


def protocol_header(connection: "Connection", data: bytes) -> bytes:
    if connection.rest:
        data = connection.rest + data
        connection.rest = b""
    if len(data) < 8:
        # Whatever cannot become a protocol header any more is answered at once.
        if data[:4] == b"AMQP"[: len(data)]:
            connection.rest = data
            return b""
    elif data[:4] == b"AMQP" and data[4:8] in (
        b"\x00\x00\x09\x01",
        b"\x01\x01\x00\x09",
        b"\x01\x01\x08\x00",
        b"\x01\x01\x09\x01",
    ):
        connection.phase = HANDSHAKE
        start(connection)
        return data[8:]
    elif len(data) < 8:
        return b""
    connection.broker.attempts.charge(connection.peer, int(connection.broker.turn.now_ns))
    connection.output.write(PROTOCOL_HEADER)
    connection.close_text = "bad protocol header"
    connection.phase = CLOSED
    return b""


def start(connection: "Connection") -> None:
    """The protocol header was right: introduce the server."""
    properties = connection.settings.server_properties
    cluster = connection.broker.cluster_name()
    if cluster:
        properties = {**properties, CLUSTER_NAME: field(cluster)}
    method = ConnectionStart(
        version_major=0,
        version_minor=9,
        server_properties=properties,
        mechanisms=connection.broker.mechanisms.offered(connection.own_mechanism).encode(),
        locales=b"en_US",
    )
    connection.handshake_step = WAIT_START_OK
    connection.output.write(frame(1, 0, method.encode()))


def on_method(connection: "Connection", method: Method) -> None:
    step = connection.handshake_step
    if step == WAIT_START_OK and isinstance(method, ConnectionStartOk):
        _on_start_ok(connection, method)
    elif step == WAIT_TUNE_OK and isinstance(method, ConnectionTuneOk):
        _on_tune_ok(connection, method)
    elif step == WAIT_OPEN and isinstance(method, ConnectionOpen):
        _on_open(connection, method)
    elif isinstance(method, ConnectionClose):
        ending.close_by_client(connection)
    elif isinstance(method, ConnectionCloseOk):
        connection.lost("close-ok during negotiation")
    else:
        raise AmqpError(
            reply.CHANNEL_ERROR, f"unexpected method in connection state {connection.state()}"
        )


# -- who it is -------------------------------------------------------------------------------


def _on_start_ok(connection: "Connection", method: ConnectionStartOk) -> None:
    broker = connection.broker
    connection.client_properties = method.client_properties
    connection.capabilities = _capabilities(method.client_properties)
    mechanism = broker.mechanisms.find(method.mechanism, connection.own_mechanism)
    if mechanism is None:
        _refuse_silently(connection, "unknown_mechanism", f"unknown mechanism '{method.mechanism}'")
        return
    outcome = mechanism.read(method.response)
    verdict: User | Refusal
    if isinstance(outcome, Malformed):
        _refuse_silently(connection, "malformed_response", outcome.detail)
        return
    if isinstance(outcome, Unproven):
        verdict = Refusal(RefusalReason.NO_IDENTITY, "", connection.peer, outcome.detail)
    elif isinstance(outcome, Proven):
        verdict = broker.users.identify(outcome.user_name, connection.peer)
    else:
        verdict = broker.users.authenticate(outcome.user_name, outcome.password, connection.peer)
    if isinstance(verdict, Refusal):
        _refuse(connection, verdict, method.mechanism)
        return
    broker.attempts.succeeded(PROTOCOL)
    connection.user = verdict.name
    connection.mechanism = method.mechanism
    settings = connection.settings
    tune = ConnectionTune(
        channel_max=settings.channel_max,
        frame_max=settings.frame_max,
        heartbeat=settings.heartbeat_s,
    )
    connection.handshake_step = WAIT_TUNE_OK
    connection.output.write(frame(1, 0, tune.encode()))


def _refuse(connection: "Connection", refusal: Refusal, mechanism: str) -> None:
    """AU-1: the reason is for the log; the client hears that it was refused, or nothing."""
    _count_failure(connection)
    connection.broker.log.event(
        "warning",
        "login.refused",
        {
            "connection": connection.subject.name,
            "user": refusal.user_name,
            "mechanism": mechanism,
            "reason": refusal.reason.value,
            "detail": refusal.text(),
        },
    )
    if not connection.capable("authentication_failure_close"):
        ending.go_silent(connection, "login refused")
        return
    raise AmqpError(
        reply.ACCESS_REFUSED,
        f"Login was refused using authentication mechanism {mechanism}. "
        "For details see the broker logfile.",
    )


def _refuse_silently(connection: "Connection", reason: str, detail: str) -> None:
    """AU-2. The reason is one of few words, whatever the peer sent: the log counts by it."""
    _count_failure(connection)
    connection.broker.log.event(
        "warning",
        "login.malformed",
        {"connection": connection.subject.name, "reason": reason, "detail": detail},
    )
    ending.go_silent(connection, reason)


def _count_failure(connection: "Connection") -> None:
    connection.refused = True
    broker = connection.broker
    braked = broker.attempts.failed(PROTOCOL, connection.peer, int(broker.turn.now_ns))
    if braked is not None:
        broker.log.event(
            "warning",
            "login.brake_on",
            {"address": braked.address, "failures_per_s": broker.attempts.failures_per_s},
        )


# -- what is agreed --------------------------------------------------------------------------


def _on_tune_ok(connection: "Connection", method: ConnectionTuneOk) -> None:
    settings = connection.settings
    _check_tuned("frame_max", method.frame_max, settings.frame_max, FRAME_MIN_SIZE)
    _check_tuned("channel_max", method.channel_max, settings.channel_max, 1)
    connection.frame_max = method.frame_max
    connection.channel_max = method.channel_max
    connection.heartbeat_s = method.heartbeat
    # WI-3: payloads up to frame_max itself are tolerated. Without a limit the largest
    # message bounds a frame.
    connection.payload_max = method.frame_max or settings.max_message_size
    connection.quick_body_max = min(connection.payload_max, settings.max_message_size)
    connection.output.body_max = (
        method.frame_max - FRAME_OVERHEAD if method.frame_max else settings.max_message_size
    )
    watch.restart_check(connection)
    connection.handshake_step = WAIT_OPEN


def _on_open(connection: "Connection", method: ConnectionOpen) -> None:
    broker = connection.broker
    name = method.virtual_host
    vhost = broker.vhosts.get(name)
    if vhost is None:
        raise AmqpError(reply.NOT_ALLOWED, f"vhost {name} not found")
    check_connections(broker, vhost, connection.user)
    if not broker.permissions.may_enter(connection.user, name):
        raise AmqpError(
            reply.NOT_ALLOWED, f"access to vhost '{name}' refused for user '{connection.user}'"
        )
    connection.enter(
        vhost,
        PublisherState(
            notifiable=connection.capable("connection.blocked"), alarm=broker.alarms.any()
        ),
    )
    connection.output.write(frame(1, 0, CONNECTION_OPEN_OK))


def _check_tuned(what: str, value: int, limit: int, least: int) -> None:
    """Refuse values outside what the server offered (spec 2.3)."""
    if value == 0:
        if limit != 0:
            raise AmqpError(
                reply.NOT_ALLOWED,
                f"negotiated {what} = 0 is higher than the maximum allowed value ({limit})",
            )
        return
    if value < least:
        raise AmqpError(
            reply.NOT_ALLOWED,
            f"negotiated {what} = {value} is lower than the minimum allowed value ({least})",
        )
    if limit != 0 and value > limit:
        raise AmqpError(
            reply.NOT_ALLOWED,
            f"negotiated {what} = {value} is higher than the maximum allowed value ({limit})",
        )


def _capabilities(client_properties: Table) -> frozenset[str]:
    item = client_properties.get("capabilities")
    if item is None or not isinstance(item.value, dict):
        return frozenset()
    found = set()
    for name, flag in item.value.items():
        if isinstance(flag, Field) and flag.value is True:
            found.add(name)
    return frozenset(found)
