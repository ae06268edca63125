"""What an X.509 certificate says: subject, validity, alternative names, read from its DER octets.

Python's own decoder shows neither object identifiers nor certificates that it has not verified, so
the few fields that are asked for are read here. Nothing is decided about trust: a peer's
certificate comes from the TLS library, which has verified it, and the node's own from its file.

Invariant: every length is checked against the element around it; octets that are no certificate
raise `CertificateError` and nothing else. Only definite lengths and single-octet tags are read,
as DER has them. RFC 5280, X.690.
"""

import base64
import binascii
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from ipaddress import ip_address
from typing import Final, final

# No real certificate is larger than a few KiB.
OCTETS_MAX: Final = 1 << 17

_BOOLEAN: Final = 0x01
_INTEGER: Final = 0x02
_OCTETS: Final = 0x04
_OBJECT: Final = 0x06
_UTC_TIME: Final = 0x17
_GENERAL_TIME: Final = 0x18
_SEQUENCE: Final = 0x30
_SET: Final = 0x31
_CONTEXT: Final = 0xA0  # constructed, context-specific: [0], [1], ...
_ENCODINGS: Final = {
    0x0C: "utf-8",
    0x12: "ascii",
    0x13: "ascii",
    0x14: "latin-1",
    0x16: "ascii",
    0x1C: "utf-32-be",
    0x1E: "utf-16-be",
}
_ALTERNATIVE_NAMES: Final = "2.5.29.17"
_PEM: Final = re.compile(
    rb"-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----\s(.*?)-----END ", re.DOTALL
)


class CertificateError(Exception):
    """The octets are no certificate that can be read."""


class NameKind(StrEnum):
    """Kinds of alternative names that can stand for a user, by their names in settings."""

    DNS = "dns"
    IP = "ip"
    EMAIL = "email"
    URI = "uri"
    OTHER = "other_name"


_NAME_TAGS: Final = {
    _CONTEXT: NameKind.OTHER,
    0x81: NameKind.EMAIL,
    0x82: NameKind.DNS,
    0x86: NameKind.URI,
    0x87: NameKind.IP,
}


@dataclass(frozen=True)
class Attribute:
    """One attribute of a name: its object identifier in dotted form, and its value."""

    identifier: str
    value: str


@dataclass(frozen=True)
class Certificate:
    """The fields of one certificate. Times are seconds since 1970; a name's parts are sets."""

    subject: tuple[tuple[Attribute, ...], ...]
    not_before_s: int
    not_after_s: int
    alternative_names: tuple[tuple[NameKind, str], ...]


def first_of_pem(text: bytes) -> bytes:
    """Return the DER octets of the first certificate in a PEM file."""
    match = _PEM.search(text)
    if match is None:
        raise CertificateError("there is no certificate in PEM form in it")
    try:
        return base64.b64decode(b"".join(match[1].split()), validate=True)
    except (binascii.Error, ValueError):
        raise CertificateError("the certificate in it is no base64") from None


def read_certificate(der: bytes) -> Certificate:
    """Read one certificate."""
    if len(der) > OCTETS_MAX:
        raise CertificateError(f"a certificate of {len(der)} octets is too large")
    fields = _Reader(der).enter(_SEQUENCE).enter(_SEQUENCE)
    if fields.tag() == _CONTEXT:
        fields.skip()
    fields.take(_INTEGER)
    fields.take(_SEQUENCE)
    fields.take(_SEQUENCE)
    validity = fields.enter(_SEQUENCE)
    not_before, not_after = _time(validity), _time(validity)
    subject = _name(fields.enter(_SEQUENCE))
    names: tuple[tuple[NameKind, str], ...] = ()
    while not fields.done():
        if fields.tag() == _CONTEXT | 3:
            names = _alternative_names(fields.enter(_CONTEXT | 3).enter(_SEQUENCE))
        else:
            fields.skip()
    return Certificate(subject, not_before, not_after, names)


@final
class _Reader:
    """Walks the elements between two positions."""

    def __init__(self, data: bytes, start: int = 0, end: int = -1) -> None:
        self.data = data
        self.at = start
        self.end = len(data) if end < 0 else end

    def done(self) -> bool:
        return self.at >= self.end

    def tag(self) -> int:
        """The tag of the next element; 0 behind the last one."""
        return 0 if self.done() else self.data[self.at]

    def enter(self, tag: int) -> "_Reader":
        """Step over the next element and return a reader of what is in it."""
        start, end = self._bounds(tag)
        return _Reader(self.data, start, end)

    def take(self, tag: int) -> bytes:
        """Step over the next element and return its octets."""
        start, end = self._bounds(tag)
        return self.data[start:end]

    def skip(self) -> None:
        self._bounds(self.tag())

    def _bounds(self, tag: int) -> tuple[int, int]:
        found = self.tag()
        if found != tag or tag == 0:
            raise CertificateError(f"expected the element {tag:#04x}, found {found:#04x}")
        start = self.at + 2
        if start > self.end:
            raise CertificateError("an element without its length")
        size = self.data[self.at + 1]
        if size >= 0x80:
            count = size & 0x7F
            if not 1 <= count <= 4 or start + count > self.end:
                raise CertificateError("a length that is not definite, or cut off")
            size = int.from_bytes(self.data[start : start + count], "big")
            start += count
        if start + size > self.end:
            raise CertificateError("an element is longer than what it is in")
        self.at = start + size
        return start, self.at


def _name(reader: _Reader) -> tuple[tuple[Attribute, ...], ...]:
    parts = []
    while not reader.done():
        members = reader.enter(_SET)
        part = []
        while not members.done():
            pair = members.enter(_SEQUENCE)
            identifier = _identifier(pair.take(_OBJECT))
            part.append(Attribute(identifier, _text(pair)))
        parts.append(tuple(part))
    return tuple(parts)


def _text(reader: _Reader) -> str:
    """Read a string of any kind; what is none comes as `#` and its octets (RFC 4514, 2.4)."""
    tag, start = reader.tag(), reader.at
    octets = reader.take(tag)
    encoding = _ENCODINGS.get(tag)
    if encoding is None:
        return "#" + reader.data[start : reader.at].hex()
    try:
        return octets.decode(encoding)
    except UnicodeDecodeError:
        raise CertificateError(f"a string that is not {encoding}") from None


def _identifier(octets: bytes) -> str:
    if not octets or octets[-1] & 0x80 or len(octets) > 64:
        raise CertificateError("a malformed object identifier")
    numbers: list[int] = []
    number = 0
    for octet in octets:
        number = (number << 7) | (octet & 0x7F)
        if not octet & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(str(one) for one in (first, numbers[0] - 40 * first, *numbers[1:]))


def _time(reader: _Reader) -> int:
    general = reader.tag() == _GENERAL_TIME
    octets = reader.take(_GENERAL_TIME if general else _UTC_TIME)
    if not re.fullmatch(rb"[0-9]{14}Z" if general else rb"[0-9]{12}Z", octets):
        raise CertificateError("a time that is not in UTC to the second")
    digits = octets[:-1].decode()
    if not general:
        # RFC 5280: two digits of the year are of 1950 to 2049.
        digits = ("19" if digits >= "50" else "20") + digits
    month, day, hour, minute, second = (int(digits[at : at + 2]) for at in range(4, 14, 2))
    try:
        moment = datetime(int(digits[:4]), month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        raise CertificateError("a time that does not exist") from None
    return int(moment.timestamp())


def _alternative_names(extensions: _Reader) -> tuple[tuple[NameKind, str], ...]:
    while not extensions.done():
        extension = extensions.enter(_SEQUENCE)
        identifier = _identifier(extension.take(_OBJECT))
        if extension.tag() == _BOOLEAN:
            extension.skip()
        value = extension.take(_OCTETS)
        if identifier == _ALTERNATIVE_NAMES:
            return _general_names(_Reader(value).enter(_SEQUENCE))
    return ()


def _general_names(reader: _Reader) -> tuple[tuple[NameKind, str], ...]:
    found: list[tuple[NameKind, str]] = []
    while not reader.done():
        kind = _NAME_TAGS.get(reader.tag())
        if kind is None:
            reader.skip()
        elif kind is NameKind.OTHER:
            other = reader.enter(_CONTEXT)
            other.take(_OBJECT)
            found.append((kind, _text(other.enter(_CONTEXT))))
        else:
            found.append((kind, _plain(kind, reader.take(reader.tag()))))
    return tuple(found)


def _plain(kind: NameKind, octets: bytes) -> str:
    """What is not as it should be is kept as it is: leaving it out would move the others."""
    if kind is not NameKind.IP:
        return octets.decode("latin-1")
    return str(ip_address(octets)) if len(octets) in (4, 16) else octets.hex()
