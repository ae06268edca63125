"""Reading the response of connection.start-ok."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.protocol.table import encode_table
from warren.protocol.value import table
from warren.security import AMQPLAIN, PLAIN, Credentials, Malformed, Mechanisms, Outcome, Proven


def amqplain(**fields: object) -> Outcome:
    return AMQPLAIN.read(encode_table(table(fields))[4:])


def test_plain_has_user_and_password() -> None:
    assert PLAIN.read(b"\0guest\0pass word") == Credentials("guest", b"pass word")
    assert PLAIN.read("\0ann\0é".encode()) == Credentials("ann", "é".encode())


def test_a_blank_user_or_password_is_well_formed() -> None:
    assert PLAIN.read(b"\0\0") == Credentials("", b"")
    assert amqplain(LOGIN="ann", PASSWORD="") == Credentials("ann", b"")


@pytest.mark.rule("AU-2")
@pytest.mark.parametrize(
    "response",
    [b"", b"guest", b"\0guest", b"guest\0guest", b"\0guest\0guest\0", b"\0\xff\0guest"],
)
def test_a_malformed_plain_response_is_refused(response: bytes) -> None:
    assert isinstance(PLAIN.read(response), Malformed)


@pytest.mark.rule("AU-2")
def test_an_authorisation_identity_is_refused() -> None:
    outcome = PLAIN.read(b"admin\0guest\0guest")
    assert isinstance(outcome, Malformed)
    assert "authorisation identity" in outcome.detail


def test_amqplain_has_login_and_password_in_any_order_with_anything_beside() -> None:
    assert amqplain(LOGIN="guest", PASSWORD="secret") == Credentials("guest", b"secret")
    assert amqplain(PASSWORD="s", x=1, LOGIN="g") == Credentials("g", b"s")


@pytest.mark.rule("AU-2")
def test_amqplain_without_its_fields_as_strings_is_refused() -> None:
    for outcome in (
        amqplain(),
        amqplain(LOGIN="guest"),
        amqplain(login="guest", password="secret"),
        amqplain(LOGIN="guest", PASSWORD=1),
        amqplain(LOGIN=None, PASSWORD="secret"),
    ):
        assert isinstance(outcome, Malformed)


@pytest.mark.rule("AU-2")
def test_amqplain_with_the_length_octets_is_refused() -> None:
    whole = encode_table(table({"LOGIN": "guest", "PASSWORD": "secret"}))
    assert isinstance(AMQPLAIN.read(whole), Malformed)


@given(response=st.binary(max_size=60))
def test_any_octets_give_an_outcome(response: bytes) -> None:
    for mechanism in (PLAIN, AMQPLAIN):
        assert isinstance(mechanism.read(response), Credentials | Malformed)


def test_a_password_is_not_shown() -> None:
    assert "secret" not in repr(PLAIN.read(b"\0guest\0secret"))


@pytest.mark.rule("AU-2")
def test_the_offer_and_what_is_found_in_it() -> None:
    offer = Mechanisms()
    assert offer.offered() == "AMQPLAIN PLAIN"
    assert offer.find("PLAIN") is PLAIN
    assert offer.find("plain") is None
    assert offer.find("EXTERNAL") is None
    assert Mechanisms(["PLAIN"]).find("AMQPLAIN") is None
    assert Mechanisms(["PLAIN", "AMQPLAIN"]).offered() == "PLAIN AMQPLAIN"


@pytest.mark.rule("AM-3")
def test_what_a_connection_brings_joins_the_offer_where_it_is_enabled() -> None:
    class Certificate:
        name = "EXTERNAL"

        def read(self, response: bytes) -> Outcome:
            return Proven("ann")

    own = Certificate()
    offer = Mechanisms(["EXTERNAL", "PLAIN"])
    assert (offer.offered(), offer.offered(own)) == ("PLAIN", "EXTERNAL PLAIN")
    assert (offer.find("EXTERNAL"), offer.find("EXTERNAL", own)) == (None, own)
    assert offer.find("PLAIN", own) is PLAIN
    assert Mechanisms(["PLAIN"]).find("EXTERNAL", own) is None
    assert own.read(b"ignored") == Proven("ann")
