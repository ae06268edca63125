"""SASL mechanisms: from the response of connection.start-ok to a name and a password.

Owns PLAIN and AMQPLAIN and the list that is offered. Who logs in by other means, such as the name
in a TLS certificate (EXTERNAL), brings a `Mechanism` of its own with the connection; one that
proves an identity itself returns it as `Proven`.

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
class Unproven:
    """The mechanism found no identity; `detail` is for the log."""

    detail: str


@dataclass(frozen=True)
class Malformed:
    """The response is not one of this mechanism; `detail` is for the log, without the response."""

    detail: str


Outcome = Credentials | Proven | Unproven | Malformed


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
# The name only: the mechanism itself comes with a connection (`external`).
EXTERNAL: Final = "EXTERNAL"

_BY_PASSWORD: Final[dict[str, Mechanism]] = {one.name: one for one in (AMQPLAIN, PLAIN)}
MECHANISM_NAMES: Final = (*_BY_PASSWORD, EXTERNAL)
DEFAULT_MECHANISMS: Final = tuple(_BY_PASSWORD)


@final
class Mechanisms:
    """The mechanisms that are enabled, in the order they are offered.

    `own` is what a connection brings with it; it counts if it is enabled as well.
    """

    def __init__(self, enabled: Sequence[str] = DEFAULT_MECHANISMS) -> None:
        assert set(enabled) <= set(MECHANISM_NAMES)
        self.enabled = tuple(dict.fromkeys(enabled))

    def offered(self, own: Mechanism | None = None) -> str:
        """The `mechanisms` argument of connection.start."""
        return " ".join(name for name in self.enabled if self.find(name, own) is not None)

    def find(self, name: str, own: Mechanism | None = None) -> Mechanism | None:
        """The mechanism the client chose; None when it is unknown, disabled, or not its own."""
        if name not in self.enabled:
            return None
        if own is not None and name == own.name:
            return own
        return _BY_PASSWORD.get(name)


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
