"""EXTERNAL: the user's name from a certificate."""

from pathlib import Path

import pytest

from tests.support.certificate import needs_openssl, self_signed
from warren.security import (
    Certificate,
    External,
    LoginFrom,
    LoginRule,
    NameKind,
    Proven,
    Unproven,
    distinguished_name,
    read_certificate,
)
from warren.security.certificate import Attribute
from warren.security.external import login_name

CN, ORG, OU, C = "2.5.4.3", "2.5.4.10", "2.5.4.11", "2.5.4.6"


def subject(*parts: list[tuple[str, str]]) -> Certificate:
    made = tuple(tuple(Attribute(*pair) for pair in part) for part in parts)
    return Certificate(made, 0, 0, ())


@pytest.mark.rule("AM-3")
def test_the_most_specific_part_of_a_name_comes_first() -> None:
    found = subject([(C, "DE")], [(ORG, "Example"), (OU, "Sales")], [(CN, "client")])
    assert distinguished_name(found) == "CN=client,O=Example+OU=Sales,C=DE"


@pytest.mark.rule("AM-3")
@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("plain", "plain"),
        (" edges ", "\\ edges\\ "),
        ("in side", "in side"),
        (" ", "\\ "),
        ("#1", "\\#1"),
        ("a#1", "a#1"),
        ('a"+,;<>\\b', 'a\\"\\+\\,\\;\\<\\>\\\\b'),
        ("zoë", "zo\\C3\\AB"),
        ("\0\n\x7f~", "\\00\\0A\\7F\\7E"),
        ("=@", "=@"),
    ],
)
def test_special_octets_are_escaped(value: str, written: str) -> None:
    assert distinguished_name(subject([(CN, value)])) == f"CN={written}"


@pytest.mark.rule("AM-3")
@needs_openssl
def test_names_of_attributes(tmp_path: Path) -> None:
    """As openssl makes them of its own names; one it has no name for is its number."""
    names = (
        "surname givenName initials generationQualifier commonName localityName "
        "stateOrProvinceName organizationName organizationalUnitName title countryName "
        "serialNumber pseudonym domainComponent emailAddress streetAddress userId postalCode"
    )
    pair = self_signed(tmp_path, "all", "".join(f"/{name}=DE" for name in names.split()))
    written = distinguished_name(read_certificate(pair.der()))
    found = [part.removesuffix("=DE") for part in reversed(written.split(","))]
    assert " ".join(found) == (
        "SN GIVENNAME INITIALS GENERATIONQUALIFIER CN L ST O OU TITLE C SERIALNUMBER PSEUDONYM DC "
        "EMAILADDRESS STREET UID 2.5.4.17"
    )


@pytest.mark.rule("AM-3")
@pytest.mark.parametrize(
    ("rule", "name"),
    [
        (LoginRule(), "CN=two,CN=one,O=Example"),
        (LoginRule(LoginFrom.COMMON_NAME), "one,two"),
        (LoginRule(LoginFrom.SUBJECT_ALTERNATIVE_NAME), "a.example"),
        (LoginRule(LoginFrom.SUBJECT_ALTERNATIVE_NAME, index=1), "b.example"),
        (LoginRule(LoginFrom.SUBJECT_ALTERNATIVE_NAME, index=2), ""),
        (LoginRule(LoginFrom.SUBJECT_ALTERNATIVE_NAME, NameKind.EMAIL), "me@example"),
        (LoginRule(LoginFrom.SUBJECT_ALTERNATIVE_NAME, NameKind.IP), "10.0.0.1"),
        (LoginRule(LoginFrom.SUBJECT_ALTERNATIVE_NAME, NameKind.URI), "urn:me"),
        (LoginRule(LoginFrom.SUBJECT_ALTERNATIVE_NAME, NameKind.OTHER), "me@there"),
    ],
)
@needs_openssl
def test_where_a_name_comes_from(rule: LoginRule, name: str, tmp_path: Path) -> None:
    names = "DNS:a.example,email:me@example,DNS:b.example,IP:10.0.0.1,URI:urn:me"
    names += ",otherName:1.2.3;UTF8:me@there"
    pair = self_signed(tmp_path, "client", "/O=Example/CN=one/CN=two", f"subjectAltName={names}")
    assert login_name(read_certificate(pair.der()), rule) == name
    outcome = External(pair.der(), rule).read(b"ignored")
    assert outcome == Proven(name) if name else isinstance(outcome, Unproven)


@pytest.mark.rule("AM-3")
def test_without_a_name_nothing_is_proven() -> None:
    outcome = External(b"nonsense", LoginRule()).read(b"")
    assert isinstance(outcome, Unproven)
    assert "cannot be read" in outcome.detail
    assert login_name(subject(), LoginRule()) == ""
    assert login_name(subject([(ORG, "x")]), LoginRule(LoginFrom.COMMON_NAME)) == ""
