"""What can be listed of connections: the columns, in RabbitMQ's words.

A row is made of the session and of its link: addresses and TLS are the link's. Cells without a
value are None; packets are not counted.
"""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from warren.server.hub import Link
from warren.server.list_cell import Cell, typed_table
from warren.server.pid import Pid
from warren.server.socket_link import SocketLink
from warren.server.tls_link import TlsLink
from warren.session import RUNNING, Connection

if TYPE_CHECKING:
    from warren.core import Clock


@dataclass(frozen=True, slots=True)
class ConnectionItem:
    """One connection as the cells see it."""

    session: Connection
    link: Link
    pid: str

    def local(self) -> tuple[str, int]:
        """Return the address that the peer connected to."""
        try:
            name: object = None
            if isinstance(self.link, SocketLink):
                name = self.link.socket.getsockname()
            elif isinstance(self.link, TlsLink):
                name = _of(self.link, "sockname")
        except OSError:
            # It is closed already.
            return "", 0
        return (str(name[0]), int(name[1])) if isinstance(name, tuple) else ("", 0)

    def name(self) -> str:
        host, port = self.local()
        return f"{self.session.peer}:{self.session.peer_port} -> {host}:{port}"

    def tls(self) -> ssl.SSLObject | None:
        found = _of(self.link, "ssl_object") if isinstance(self.link, TlsLink) else None
        return found if isinstance(found, ssl.SSLObject) else None


def _of(link: TlsLink, name: str) -> object:
    return None if link.transport is None else link.transport.get_extra_info(name)


def _version(one: ConnectionItem) -> str | None:
    tls = one.tls()
    return None if tls is None else (tls.version() or "").replace("TLSv1", "tlsv1")


def _cipher(one: ConnectionItem) -> str | None:
    tls = one.tls()
    found = None if tls is None else tls.cipher()
    return None if found is None else found[0]


def _certificate(one: ConnectionItem) -> Mapping[str, object]:
    tls = one.tls()
    return {} if tls is None else (tls.getpeercert() or {})


def _name_of(part: str) -> Cell[ConnectionItem]:
    def cell(one: ConnectionItem) -> str | None:
        found = _certificate(one).get(part)
        if not isinstance(found, tuple):
            return None
        return ",".join(
            f"{_SHORT.get(key, key)}={value}" for group in found for key, value in group
        )

    return cell


_SHORT: Final = {
    "commonName": "CN",
    "countryName": "C",
    "localityName": "L",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "stateOrProvinceName": "ST",
}


def _validity(one: ConnectionItem) -> str | None:
    found = _certificate(one)
    if not found:
        return None
    return f"{found.get('notBefore', '')} - {found.get('notAfter', '')}"


def _nothing(one: ConnectionItem) -> None:
    return None


def connection_cells(clock: "Clock") -> dict[str, Cell[ConnectionItem]]:
    """Return the columns of connections."""

    def connected_at(one: ConnectionItem) -> int:
        age_ns = clock.monotonic_ns() - int(one.session.connected_ns)
        return (clock.wall_ns() - age_ns) // 1_000_000

    return {"connected_at": connected_at} | _CELLS


_CELLS: Final[dict[str, Cell[ConnectionItem]]] = {
    "pid": lambda one: one.pid,
    "name": lambda one: one.name(),
    "port": lambda one: one.local()[1],
    "host": lambda one: one.local()[0],
    "peer_port": lambda one: one.session.peer_port,
    "peer_host": lambda one: one.session.peer,
    "ssl": lambda one: one.session.tls,
    "ssl_protocol": _version,
    "ssl_key_exchange": _nothing,
    "ssl_cipher": _cipher,
    "ssl_hash": _nothing,
    "peer_cert_subject": _name_of("subject"),
    "peer_cert_issuer": _name_of("issuer"),
    "peer_cert_validity": _validity,
    "state": lambda one: one.session.state(),
    "channels": lambda one: len(one.session.channels),
    "protocol": lambda one: [0, 9, 1],
    "auth_mechanism": lambda one: one.session.mechanism or None,
    "user": lambda one: one.session.user,
    "vhost": lambda one: None if one.session.home is None else one.session.home.name,
    "timeout": lambda one: one.session.heartbeat_s,
    "frame_max": lambda one: one.session.frame_max if one.session.phase == RUNNING else 0,
    "channel_max": lambda one: one.session.channel_max,
    "client_properties": lambda one: typed_table(one.session.client_properties),
    "recv_oct": lambda one: int(one.session.octets_in),
    "recv_cnt": _nothing,
    "send_oct": lambda one: int(one.session.output.octets_out),
    "send_cnt": _nothing,
    "send_pend": lambda one: int(one.session.output.size()),
}


def connection_item(link: Link, node: str, creation: int) -> ConnectionItem | None:
    session = link.connection
    if session is None:
        return None
    return ConnectionItem(session, link, str(Pid(node, creation, session.identity)))
