"""EXTERNAL: the user's name from the certificate that the peer has proven to own.

Owns how a name is made of a certificate (the setting `tls_cert_login_from`) and the mechanism of
one connection. The distinguished name is written as RFC 4514 says, most specific part first, in
the spelling of RabbitMQ, so that users can be taken over: its names of attributes, its order
within a part, and every octet outside of printable ASCII escaped (`~` too).

Invariant: an `External` exists only for a connection whose peer's certificate was verified; the
response of the client is not looked at.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, final

from warren.security.certificate import (
    Certificate,
    CertificateError,
    NameKind,
    read_certificate,
)
from warren.security.mechanism import EXTERNAL, Outcome, Proven, Unproven

_COMMON_NAME: Final = "2.5.4.3"
_ATTRIBUTE_NAMES: Final = {
    "2.5.4.4": "SN",
    "2.5.4.42": "GIVENNAME",
    "2.5.4.43": "INITIALS",
    "2.5.4.44": "GENERATIONQUALIFIER",
    _COMMON_NAME: "CN",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "2.5.4.12": "TITLE",
    "2.5.4.6": "C",
    "2.5.4.5": "SERIALNUMBER",
    "2.5.4.65": "PSEUDONYM",
    "0.9.2342.19200300.100.1.25": "DC",
    "1.2.840.113549.1.9.1": "EMAILADDRESS",
    "2.5.4.9": "STREET",
    "0.9.2342.19200300.100.1.1": "UID",
}
_SPECIAL: Final = frozenset(b'"+,;<>\\')


class LoginFrom(StrEnum):
    """Which part of a certificate is the user's name."""

    DISTINGUISHED_NAME = "distinguished_name"
    COMMON_NAME = "common_name"
    SUBJECT_ALTERNATIVE_NAME = "subject_alternative_name"


@dataclass(frozen=True)
class LoginRule:
    """How a user's name is made of a certificate; kind and index are for alternative names."""

    source: LoginFrom = LoginFrom.DISTINGUISHED_NAME
    kind: NameKind = NameKind.DNS
    index: int = 0

    def __str__(self) -> str:
        if self.source is not LoginFrom.SUBJECT_ALTERNATIVE_NAME:
            return self.source.value
        return f"{self.source.value} of type {self.kind.value} at index {self.index}"


@final
class External:
    """The mechanism of one connection with a verified certificate."""

    name: Final = EXTERNAL

    def __init__(self, der: bytes, rule: LoginRule) -> None:
        self.outcome: Outcome
        try:
            found = login_name(read_certificate(der), rule)
        except CertificateError as error:
            self.outcome = Unproven(f"the certificate cannot be read: {error}")
        else:
            self.outcome = Proven(found) if found else Unproven(f"the certificate has no {rule}")

    def read(self, response: bytes) -> Outcome:
        return self.outcome


def login_name(certificate: Certificate, rule: LoginRule) -> str:
    """Return the user's name; empty when the certificate has none of that kind."""
    if rule.source is LoginFrom.DISTINGUISHED_NAME:
        return distinguished_name(certificate)
    if rule.source is LoginFrom.COMMON_NAME:
        attributes = [one for part in certificate.subject for one in part]
        return ",".join(one.value for one in attributes if one.identifier == _COMMON_NAME)
    names = [name for kind, name in certificate.alternative_names if kind is rule.kind]
    return names[rule.index] if rule.index < len(names) else ""


def distinguished_name(certificate: Certificate) -> str:
    """Return the subject, as in `CN=client,OU=Sales,O=Example`."""
    return ",".join(
        "+".join(
            f"{_ATTRIBUTE_NAMES.get(one.identifier, one.identifier)}={_escaped(one.value)}"
            for one in part
        )
        for part in reversed(certificate.subject)
    )


def _escaped(value: str) -> str:
    octets = value.encode()
    last = len(octets) - 1
    written = []
    for place, octet in enumerate(octets):
        at_edge = octet == 0x20 and place in (0, last)
        if at_edge or octet in _SPECIAL or (octet == 0x23 and place == 0):
            written.append("\\" + chr(octet))
        elif octet < 0x20 or octet > 0x7D:
            written.append(f"\\{octet:02X}")
        else:
            written.append(chr(octet))
    return "".join(written)
