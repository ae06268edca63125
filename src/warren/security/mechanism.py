"""SASL mechanisms: from the response of connection.start-ok to a name and a password.

Owns PLAIN and AMQPLAIN and the list that is offered. Who logs in by other means, such as the name
in a TLS certificate (EXTERNAL), provides a `Mechanism` of its own for the connection and puts it
in the list; a mechanism that proves an identity itself returns it as `Proven`.

A response that cannot be read is `Malformed`; the client gets no answer to it (AU-2).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol, final

from warren.protocol.table import decode_table
from warren.protocol.value import BINARY, LONG_STRING, Field, Table
from warren.protocol.wire import DecodeError


@dataclass(frozen=True)
class Credentials:
    """What the client says it is and the password that should prove it."""

    user_name: str
    password: bytes

    def __repr__(self) -> str:
        return f"Credentials(user_name={self.user_name!r})"


@dataclass(frozen=True)
class Proven:
    """An identity that needs no password."""

    user_name: str


@dataclass(frozen=True)
class Malformed:
    """The response is not one of this mechanism; `detail` is for the log, without the response."""

    detail: str


Outcome = Credentials | Proven | Malformed


class Mechanism(Protocol):
    """One way to log in, in one step."""

    @property
    def name(self) -> str: ...

    def read(self, response: bytes) -> Outcome: ...


@final
class Plain:
    """NUL, user, NUL, password. An authorisation identity in front is refused."""

    name: Final = "PLAIN"

    def read(self, response: bytes) -> Outcome:
        parts = response.split(b"\0")
        if len(parts) != 3:
            return Malformed("PLAIN expects NUL, user, NUL, password")
        if parts[0]:
            return Malformed("PLAIN with an authorisation identity is not supported")
        return _credentials(parts[1], parts[2])


@final
class AmqPlain:
    """A field table without its length octets, with LOGIN and PASSWORD."""

    name: Final = "AMQPLAIN"

    def read(self, response: bytes) -> Outcome:
        data = len(response).to_bytes(4, "big") + response
        try:
            table = decode_table(data, 0, len(data))
        except DecodeError as error:
            return Malformed(f"AMQPLAIN expects a field table: {error.detail}")
        login, password = _string(table, "LOGIN"), _string(table, "PASSWORD")
        if login is None or password is None:
            return Malformed("AMQPLAIN expects the fields LOGIN and PASSWORD as strings")
        return _credentials(login, password)


PLAIN: Final = Plain()
AMQPLAIN: Final = AmqPlain()

MECHANISMS: Final[tuple[Mechanism, ...]] = (AMQPLAIN, PLAIN)


@final
class Mechanisms:
    """The mechanisms a connection may use, in the order they are offered."""

    def __init__(self, enabled: Sequence[Mechanism] = MECHANISMS) -> None:
        self._enabled = {mechanism.name: mechanism for mechanism in enabled}

    def offered(self) -> str:
        """The `mechanisms` argument of connection.start."""
        return " ".join(self._enabled)

    def find(self, name: str) -> Mechanism | None:
        """The mechanism the client chose; None when it is unknown or disabled."""
        return self._enabled.get(name)


def _string(table: Table, key: str) -> bytes | None:
    field: Field | None = table.get(key)
    if field is None or field.kind not in (LONG_STRING, BINARY):
        return None
    return field.value if isinstance(field.value, bytes) else None


def _credentials(user_name: bytes, password: bytes) -> Outcome:
    try:
        return Credentials(user_name.decode(), password)
    except UnicodeDecodeError:
        return Malformed("the user name is not UTF-8")
