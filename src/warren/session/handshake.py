"""Negotiation: start, secure, tune, open, in this order and no other (spec section 2).

Owns who the peer is and what was agreed. A refused login is told only to clients that can
understand it and answered by silence otherwise (AU-1); the true reason goes to the log.
"""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.core import AmqpError, reply
from warren.flow import Handle, PublisherState
from warren.protocol.frame import FRAME_MIN_SIZE, FRAME_OVERHEAD, frame
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
from warren.protocol.value import Field, Table
from warren.security import Malformed, Proven, Refusal, User

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


@final
class Handshake:
    def __init__(self, connection: "Connection") -> None:
        self.connection = connection
        self.step: i64 = 0
        self.wait: Handle | None = None

    def state(self) -> str:
        if self.step < 2:
            return "starting"
        return "tuning" if self.step == 2 else "opening"

    def start(self) -> None:
        """The protocol header was right: introduce the server."""
        connection = self.connection
        method = ConnectionStart(
            version_major=0,
            version_minor=9,
            server_properties=connection.settings.server_properties,
            mechanisms=connection.broker.mechanisms.offered().encode(),
            locales=b"en_US",
        )
        self.step = 1
        connection.output.write(frame(1, 0, method.encode()))

    def on_method(self, method: Method) -> None:
        if self.step == 1 and isinstance(method, ConnectionStartOk):
            self._on_start_ok(method)
        elif self.step == 2 and isinstance(method, ConnectionTuneOk):
            self._on_tune_ok(method)
        elif self.step == 3 and isinstance(method, ConnectionOpen):
            self._on_open(method)
        elif isinstance(method, ConnectionClose):
            self.connection.close_by_client()
        elif isinstance(method, ConnectionCloseOk):
            self.connection.lost("close-ok during negotiation")
        else:
            raise AmqpError(
                reply.CHANNEL_ERROR, f"unexpected method in connection state {self.state()}"
            )

    # -- who it is -------------------------------------------------------------------------------

    def _on_start_ok(self, method: ConnectionStartOk) -> None:
        connection = self.connection
        broker = connection.broker
        connection.client_properties = method.client_properties
        connection.capabilities = _capabilities(method.client_properties)
        mechanism = broker.mechanisms.find(method.mechanism)
        if mechanism is None:
            self._refuse_silently(f"unknown authentication mechanism '{method.mechanism}'")
            return
        outcome = mechanism.read(method.response)
        if isinstance(outcome, Malformed):
            self._refuse_silently(outcome.detail)
            return
        verdict: User | Refusal
        if isinstance(outcome, Proven):
            user = broker.users.get(outcome.user_name)
            if user is None:
                self._refuse_silently("the proven identity is no user")
                return
            verdict = broker.users.admit(user, connection.peer)
        else:
            verdict = broker.users.authenticate(
                outcome.user_name, outcome.password, connection.peer
            )
        if isinstance(verdict, Refusal):
            self._refuse(verdict, method.mechanism)
            return
        connection.user = verdict.name
        settings = connection.settings
        tune = ConnectionTune(
            channel_max=settings.channel_max,
            frame_max=settings.frame_max,
            heartbeat=settings.heartbeat_s,
        )
        self.step = 2
        connection.output.write(frame(1, 0, tune.encode()))

    def _refuse(self, refusal: Refusal, mechanism: str) -> None:
        """AU-1: the reason is for the log; the client hears that it was refused, or nothing."""
        connection = self.connection
        connection.broker.log.event(
            "warning",
            "login.refused",
            {
                "connection": connection.subject.name,
                "user": refusal.user_name,
                "mechanism": mechanism,
                "reason": refusal.reason.value,
            },
        )
        if not connection.capable("authentication_failure_close"):
            connection.go_silent("login refused")
            return
        raise AmqpError(
            reply.ACCESS_REFUSED,
            f"Login was refused using authentication mechanism {mechanism}. "
            "For details see the broker logfile.",
        )

    def _refuse_silently(self, why: str) -> None:
        connection = self.connection
        connection.broker.log.event(
            "warning", "login.malformed", {"connection": connection.subject.name, "reason": why}
        )
        connection.go_silent(why)

    # -- what is agreed --------------------------------------------------------------------------

    def _on_tune_ok(self, method: ConnectionTuneOk) -> None:
        connection = self.connection
        settings = connection.settings
        _check_tuned("frame_max", method.frame_max, settings.frame_max, FRAME_MIN_SIZE)
        _check_tuned("channel_max", method.channel_max, settings.channel_max, 1)
        connection.frame_max = method.frame_max
        connection.channel_max = method.channel_max
        connection.heartbeat_s = method.heartbeat
        # WI-3: payloads up to frame_max itself are tolerated. Without a limit the largest
        # message bounds a frame.
        connection.payload_max = method.frame_max or settings.max_message_size
        connection.output.body_max = (
            method.frame_max - FRAME_OVERHEAD if method.frame_max else settings.max_message_size
        )
        connection.restart_heartbeat_check()
        self.step = 3

    def _on_open(self, method: ConnectionOpen) -> None:
        connection = self.connection
        broker = connection.broker
        name = method.virtual_host
        vhost = broker.vhosts.get(name)
        if vhost is None:
            raise AmqpError(reply.NOT_ALLOWED, f"vhost {name} not found")
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
