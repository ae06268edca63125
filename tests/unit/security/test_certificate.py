"""Reading certificates: fields, kinds of strings, hostile octets."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.certificate import needs_openssl, self_signed
from warren.security import Certificate, CertificateError, NameKind, first_of_pem, read_certificate
from warren.security.certificate import OCTETS_MAX, Attribute

CN = "2.5.4.3"
ORGANISATION = "2.5.4.10"


def element(tag: int, *contents: bytes) -> bytes:
    inside = b"".join(contents)
    size = len(inside)
    if size < 0x80:
        return bytes((tag, size)) + inside
    octets = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(octets))) + octets + inside


def attribute(identifier: bytes, tag: int, value: bytes) -> bytes:
    return element(0x30, element(0x06, identifier), element(tag, value))


def certificate(
    *parts: bytes,
    times: tuple[bytes, bytes] = (
        element(0x17, b"200102030405Z"),
        element(0x18, b"20510102030405Z"),
    ),
    names: bytes = b"",
    version: bool = True,
) -> bytes:
    """The DER of a certificate with the given parts of its subject."""
    extension = element(0x30, element(0x06, b"\x55\x1d\x11"), element(0x04, element(0x30, names)))
    other = element(0x30, element(0x06, b"\x55\x1d\x13"), b"\x01\x01\xff", element(0x04, b"\x30\0"))
    fields = [
        element(0xA0, element(0x02, b"\x02")) if version else b"",
        element(0x02, b"\x01"),
        element(0x30),
        element(0x30, element(0x31, attribute(b"\x55\x04\x03", 0x0C, b"issuer"))),
        element(0x30, *times),
        element(0x30, *parts),
        element(0x30, b""),
        element(0xA3, element(0x30, other, extension)) if names else b"",
    ]
    return element(0x30, element(0x30, *fields), element(0x30), element(0x03, b"\0"))


WHOLE = certificate(
    element(0x31, attribute(b"\x55\x04\x0a", 0x13, b"Example")),
    element(
        0x31,
        attribute(b"\x55\x04\x03", 0x0C, "zoë".encode()),
        attribute(b"\x2b\x06\x01\x04\x01\x82\x37\x14", 0x16, b"ia5"),
    ),
    names=element(0x82, b"a.example") + element(0x87, bytes((127, 0, 0, 1))),
)


def test_the_fields_of_a_certificate() -> None:
    assert read_certificate(WHOLE) == Certificate(
        subject=(
            (Attribute(ORGANISATION, "Example"),),
            (Attribute(CN, "zoë"), Attribute("1.3.6.1.4.1.311.20", "ia5")),
        ),
        not_before_s=int(datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC).timestamp()),
        not_after_s=int(datetime(2051, 1, 2, 3, 4, 5, tzinfo=UTC).timestamp()),
        alternative_names=((NameKind.DNS, "a.example"), (NameKind.IP, "127.0.0.1")),
    )


def test_a_certificate_of_version_1_has_neither_version_nor_extensions() -> None:
    found = read_certificate(certificate(version=False))
    assert (found.subject, found.alternative_names) == ((), ())


@pytest.mark.parametrize(
    ("tag", "octets", "text"),
    [
        (0x0C, "é".encode(), "é"),
        (0x13, b"plain", "plain"),
        (0x14, b"\xe9", "é"),
        (0x16, b"a@b", "a@b"),
        (0x1C, "é".encode("utf-32-be"), "é"),
        (0x1E, "é".encode("utf-16-be"), "é"),
        (0x04, b"\x01\xff", "#040201ff"),
    ],
)
def test_strings_of_every_kind(tag: int, octets: bytes, text: str) -> None:
    found = read_certificate(certificate(element(0x31, attribute(b"\x55\x04\x03", tag, octets))))
    assert found.subject == ((Attribute(CN, text),),)


def test_alternative_names_keep_their_order_and_their_oddities() -> None:
    other = element(0xA0, element(0x06, b"\x2a\x03"), element(0xA0, element(0x0C, b"me@here")))
    names = (
        element(0x81, b"a@b"),
        element(0xA4, element(0x30)),
        element(0x86, b"urn:x"),
        other,
        element(0x82, b"\xe9"),
        element(0x87, bytes(16)),
        element(0x87, b"\x01\x02\x03"),
    )
    assert read_certificate(certificate(names=b"".join(names))).alternative_names == (
        (NameKind.EMAIL, "a@b"),
        (NameKind.URI, "urn:x"),
        (NameKind.OTHER, "me@here"),
        (NameKind.DNS, "é"),
        (NameKind.IP, "::"),
        (NameKind.IP, "010203"),
    )


def test_two_digits_of_a_year_are_of_1950_to_2049() -> None:
    times = element(0x17, b"500101000000Z"), element(0x17, b"491231235959Z")
    found = read_certificate(certificate(times=times))
    assert datetime.fromtimestamp(found.not_before_s, UTC).year == 1950
    assert datetime.fromtimestamp(found.not_after_s, UTC).year == 2049


@pytest.mark.parametrize(
    "der",
    [
        b"",
        b"\x30",
        b"\x30\x80\0\0",
        b"\x30\x85\0\0\0\0\0",
        b"\x30\x82\x01",
        element(0x31),
        element(0x30, element(0x30)),
        certificate(element(0x31, attribute(b"", 0x0C, b"x"))),
        certificate(element(0x31, attribute(b"\x55\x84", 0x0C, b"x"))),
        certificate(element(0x31, attribute(b"\x55" * 65, 0x0C, b"x"))),
        certificate(element(0x31, attribute(b"\x55\x04\x03", 0x0C, b"\xff"))),
        certificate(element(0x31, attribute(b"\x55\x04\x03", 0x1E, b"x"))),
        certificate(times=(element(0x17, b"200102030405Z"), element(0x17, b"209902030405Z"))),
        certificate(times=(element(0x17, b"200102030405"), element(0x17, b"200102030405Z"))),
        certificate(times=(element(0x17, b"200102030405Z"), element(0x18, b"200102030405Z"))),
        bytes(OCTETS_MAX + 1),
    ],
)
def test_what_is_no_certificate_is_refused(der: bytes) -> None:
    with pytest.raises(CertificateError):
        read_certificate(der)


def test_every_cut_is_refused_where_it_cuts_what_is_read() -> None:
    """What stands behind the extensions is not looked at, and may be missing."""
    for size in range(len(WHOLE)):
        with pytest.raises(CertificateError):
            read_certificate(WHOLE[:size])


@given(st.data())
def test_spoilt_octets_are_read_or_refused(data: st.DataObject) -> None:
    spoilt = bytearray(WHOLE)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(spoilt) - 1))
        spoilt[place] = data.draw(st.integers(0, 255))
    try:
        read_certificate(bytes(spoilt))
    except CertificateError:
        return


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "no certificate in PEM form"),
        (b"-----BEGIN PRIVATE KEY-----\nAA==\n-----END PRIVATE KEY-----\n", "no certificate"),
        (b"-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n", "no base64"),
    ],
)
def test_a_file_without_a_certificate_is_refused(text: bytes, words: str) -> None:
    with pytest.raises(CertificateError, match=words):
        first_of_pem(text)


@needs_openssl
def test_the_first_certificate_of_a_file_counts(tmp_path: Path) -> None:
    one = self_signed(tmp_path, "one", "/CN=one").certificate.read_bytes()
    two = self_signed(tmp_path, "two", "/CN=two").certificate.read_bytes()
    found = read_certificate(
        first_of_pem(b"bag attributes\r\n" + one.replace(b"\n", b"\r\n") + two)
    )
    assert found.subject == ((Attribute(CN, "one"),),)
    assert found.not_after_s - found.not_before_s == 2 * 86_400
