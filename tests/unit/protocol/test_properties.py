"""Content properties: scanning, decoding and rewriting."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.protocol.fields import TABLES
from warren.protocol import properties
from warren.protocol.properties import (
    NO_PROPERTIES,
    P_BAD_MODE,
    P_EXPIRATION,
    P_HEADERS,
    P_PERSISTENT,
    P_PRIORITY_MASK,
    P_PRIORITY_SHIFT,
    P_REPLY_TO_DIRECT,
    P_ROUTED_HEADERS,
    P_USER_ID,
    Properties,
    decode,
    headers_of,
    scan,
    with_headers,
    with_reply_to,
    without_expiration,
)
from warren.protocol.table import TABLE_DEPTH_MAX, encode_table
from warren.protocol.value import Table, field, table
from warren.protocol.wire import DecodeError

NAMES = (
    "content_type",
    "content_encoding",
    "headers",
    "delivery_mode",
    "priority",
    "correlation_id",
    "reply_to",
    "expiration",
    "message_id",
    "timestamp",
    "type",
    "user_id",
    "app_id",
    "cluster_id",
)

TEXTS = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
OCTETS = st.none() | st.integers(0, 255)
PROPERTIES = st.builds(
    Properties,
    content_type=TEXTS,
    content_encoding=TEXTS,
    headers=st.none() | TABLES,
    delivery_mode=OCTETS,
    priority=OCTETS,
    correlation_id=TEXTS,
    reply_to=TEXTS | st.just("amq.rabbitmq.reply-to"),
    expiration=TEXTS,
    message_id=TEXTS,
    timestamp=st.none() | st.integers(0, 2**64 - 1),
    type=TEXTS,
    user_id=TEXTS,
    app_id=TEXTS,
    cluster_id=TEXTS,
)

EVERYTHING = Properties(
    content_type="text/plain",
    content_encoding="gzip",
    headers=table({"a": 1, "b": [{"c": "d"}]}),
    delivery_mode=2,
    priority=9,
    correlation_id="cor",
    reply_to="amq.rabbitmq.reply-to",
    expiration="60000",
    message_id="mid",
    timestamp=1_700_000_000,
    type="typ",
    user_id="guest",
    app_id="app",
    cluster_id="clu",
)


def values(found: Properties) -> dict[str, object]:
    return {name: getattr(found, name) for name in NAMES}


def scanned(props: bytes) -> int:
    return scan(props, 0, len(props))


@pytest.mark.rule("WI-4")
def test_properties_lie_in_flag_order() -> None:
    props = EVERYTHING.encode()
    assert props == (
        b"\xff\xfc"
        b"\x0atext/plain"
        b"\x04gzip" + encode_table(table({"a": 1, "b": [{"c": "d"}]})) + b"\x02\x09"
        b"\x03cor"
        b"\x15amq.rabbitmq.reply-to"
        b"\x0560000"
        b"\x03mid" + (1_700_000_000).to_bytes(8, "big") + b"\x03typ\x05guest\x03app\x03clu"
    )


@pytest.mark.rule("WI-4")
@pytest.mark.parametrize(("index", "name"), list(enumerate(NAMES)))
def test_each_property_has_its_flag(index: int, name: str) -> None:
    one = Properties()
    setattr(one, name, getattr(EVERYTHING, name))
    props = one.encode()
    assert int.from_bytes(props[:2], "big") == 0x8000 >> index
    assert values(decode(props)) == values(one)


@pytest.mark.rule("WI-4")
@given(PROPERTIES)
def test_properties_round_trip(given_properties: Properties) -> None:
    props = given_properties.encode()
    assert values(decode(props)) == values(given_properties)
    assert decode(props).encode() == props


@given(PROPERTIES, st.binary(max_size=5), st.binary(max_size=5))
def test_scan_says_what_decode_finds(found: Properties, before: bytes, after: bytes) -> None:
    props = found.encode()
    bits = scan(before + props + after, len(before), len(before) + len(props))
    headers = found.headers
    mode = found.delivery_mode
    assert bool(bits & P_PERSISTENT) == (mode == 2)
    assert bool(bits & P_BAD_MODE) == (mode not in (None, 1, 2))
    assert bool(bits & P_HEADERS) == (headers is not None)
    assert bool(bits & P_ROUTED_HEADERS) == ("CC" in (headers or {}) or "BCC" in (headers or {}))
    assert bool(bits & P_EXPIRATION) == (found.expiration is not None)
    assert bool(bits & P_USER_ID) == (found.user_id is not None)
    assert bool(bits & P_REPLY_TO_DIRECT) == (found.reply_to == "amq.rabbitmq.reply-to")
    priority = bits >> P_PRIORITY_SHIFT & P_PRIORITY_MASK
    assert priority == (0 if found.priority is None else found.priority + 1)


def test_no_properties_are_two_octets() -> None:
    assert Properties().encode() == NO_PROPERTIES
    assert scanned(NO_PROPERTIES) == 0
    assert headers_of(NO_PROPERTIES) is None
    assert values(decode(NO_PROPERTIES)) == dict.fromkeys(NAMES)


@pytest.mark.parametrize(
    ("headers", "routed"),
    [
        ({"CC": ["a"]}, True),
        ({"x": 1, "BCC": ["a"]}, True),
        ({"cc": ["a"], "CCC": 1, "BC": 1, "BCCC": 1, "C": 1, "": 1, "B": 1}, False),
        ({"x": {"CC": ["a"]}}, False),
        ({"x": [{"BCC": ["a"]}]}, False),
        ({}, False),
    ],
)
def test_routed_headers_are_top_level_keys(headers: dict[str, object], routed: bool) -> None:
    bits = scanned(Properties(headers=table(headers)).encode())
    assert bits == P_HEADERS | (P_ROUTED_HEADERS if routed else 0)


@pytest.mark.parametrize(
    ("reply_to", "direct"),
    [
        ("amq.rabbitmq.reply-to", True),
        ("amq.rabbitmq.reply-to.", False),
        ("amq.rabbitmq.reply-tO", False),
        ("", False),
    ],
)
def test_direct_reply_to_is_the_exact_name(reply_to: str, direct: bool) -> None:
    bits = scanned(Properties(reply_to=reply_to).encode())
    assert bits == (P_REPLY_TO_DIRECT if direct else 0)


@pytest.mark.parametrize(
    ("mode", "bits"), [(0, P_BAD_MODE), (1, 0), (2, P_PERSISTENT), (3, P_BAD_MODE)]
)
def test_delivery_modes(mode: int, bits: int) -> None:
    assert scanned(Properties(delivery_mode=mode).encode()) == bits


@pytest.mark.parametrize("reader", [scanned, decode])
def test_props_cut_short_anywhere_or_too_long_are_errors(reader: object) -> None:
    assert callable(reader)
    for props in (EVERYTHING.encode(), Properties(headers={}, priority=1).encode()):
        reader(props)
        for size in range(len(props)):
            with pytest.raises(DecodeError):
                reader(props[:size])
        with pytest.raises(DecodeError):
            reader(props + b"\0")
    with pytest.raises(DecodeError):
        reader(NO_PROPERTIES + b"\0")


@pytest.mark.parametrize("reader", [scanned, decode, headers_of, without_expiration])
@pytest.mark.parametrize("flags", [b"\x00\x01", b"\x00\x02", b"\x10\x03"])
def test_flags_of_no_property_are_refused(reader: object, flags: bytes) -> None:
    assert callable(reader)
    with pytest.raises(DecodeError) as caught:
        reader(flags + b"\x02\x00\x00")
    assert caught.value.code == 502


@pytest.mark.rule("WI-6")
@pytest.mark.parametrize("name", [n for n in NAMES if isinstance(getattr(EVERYTHING, n), str)])
def test_malformed_utf8_is_found_in_every_short_string(name: str) -> None:
    one = Properties()
    setattr(one, name, "#")
    props = one.encode().replace(b"#", b"\xff")
    for reader in (scanned, decode):
        with pytest.raises(DecodeError, match="Malformed UTF-8"):
            reader(props)


@given(st.binary(max_size=120))
def test_any_octets_give_properties_or_a_decode_error(junk: bytes) -> None:
    assert outcome(scanned, junk) == outcome(decode, junk)


@given(PROPERTIES, st.data())
def test_damaged_props_give_properties_or_a_decode_error(
    found: Properties, data: st.DataObject
) -> None:
    raw = bytearray(found.encode())
    raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    assert outcome(scanned, bytes(raw)) == outcome(decode, bytes(raw))


def outcome(reader: object, props: bytes) -> bool:
    assert callable(reader)
    try:
        reader(props)
    except DecodeError:
        return False
    return True


def test_headers_nested_too_deep_are_refused() -> None:
    entry = field(None)
    for _ in range(TABLE_DEPTH_MAX):
        entry = field([entry])
    with pytest.raises(DecodeError, match="nested deeper"):
        scanned(Properties(headers={"k": entry}).encode())


@pytest.mark.rule("WI-5")
@given(PROPERTIES, st.none() | TABLES)
def test_rewriting_headers_changes_nothing_else(found: Properties, headers: Table | None) -> None:
    rewritten = with_headers(found.encode(), headers)
    found.headers = headers
    assert rewritten == found.encode()
    assert headers_of(rewritten) == headers


@pytest.mark.rule("WI-5")
@given(PROPERTIES)
def test_rewriting_reply_to_changes_nothing_else(found: Properties) -> None:
    rewritten = with_reply_to(found.encode(), "amq.rabbitmq.reply-to.token")
    found.reply_to = "amq.rabbitmq.reply-to.token"
    assert rewritten == found.encode()


@pytest.mark.rule("WI-5")
@given(PROPERTIES)
def test_removing_expiration_changes_nothing_else(found: Properties) -> None:
    stripped = without_expiration(found.encode())
    found.expiration = None
    assert stripped == found.encode()


@pytest.mark.rule("WI-5")
def test_octets_that_are_not_rewritten_pass_as_they_came() -> None:
    # A boolean of 7, equal keys and the letter L would come out differently if written anew.
    odd = b"\0\0\0\x14\1kt\x07\1kt\x00\1mL" + b"\0" * 8 + b"\0V"
    odd = (len(odd) - 4).to_bytes(4, "big") + odd[4:]
    props = b"\x21\x00" + odd + b"\x0510000"
    assert scanned(props) == P_HEADERS | P_EXPIRATION
    assert without_expiration(props) == b"\x20\x00" + odd
    assert with_reply_to(props, "r") == b"\x23\x00" + odd + b"\1r" + b"\x0510000"


def test_all_names_are_exported() -> None:
    assert all(hasattr(properties, name) for name in properties.__all__)
