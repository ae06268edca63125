"""One header is found where it is, whatever lies around it."""

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.protocol.fields import TABLES
from warren.protocol.header import header_at, headers_at
from warren.protocol.properties import Properties
from warren.protocol.table import check_value
from warren.protocol.value import VOID, Field, Table, field


@given(
    TABLES,
    st.one_of(st.none(), st.text(max_size=8)),
    st.one_of(st.none(), st.text(max_size=8)),
    st.booleans(),
)
def test_every_header_is_found_by_its_name(
    headers: Table, kind: str | None, encoding: str | None, more: bool
) -> None:
    props = Properties(
        content_type=kind,
        content_encoding=encoding,
        headers=headers,
        message_id="m" if more else None,
        priority=3 if more else None,
    ).encode()
    where = headers_at(props)
    size = int.from_bytes(props[where : where + 4], "big")
    for name, item in headers.items():
        at = header_at(props, name.encode()) if name else -1
        if name:
            assert props[at] == item.kind or bytes((props[at],)) in b"lL"
            assert check_value(props, at, where + 4 + size, 1) <= where + 4 + size
    for name in ("no such header", "x"):
        assert (header_at(props, name.encode()) >= 0) == (name in headers)


def test_without_headers_there_is_none() -> None:
    assert headers_at(Properties(content_type="a").encode()) == -1
    assert header_at(Properties(content_type="a", user_id="x").encode(), b"x") == -1
    assert header_at(Properties(headers={}).encode(), b"x") == -1


def test_a_name_that_begins_or_ends_alike_is_another() -> None:
    headers = {"x-delayed": field(1), "x-dela": field(2), "X-delay": field(3)}
    props = Properties(content_encoding="e", headers=headers).encode()
    assert header_at(props, b"x-delay") == -1
    found = header_at(props, b"x-dela")
    assert props[found : found + 5] == b"I\0\0\0\2"
    headers["x-delay"] = Field(VOID, None)
    props = Properties(headers=headers).encode()
    assert props[header_at(props, b"x-delay") :] == b"V"


def test_of_two_headers_of_one_name_the_first_counts() -> None:
    entry = b"\1aI\0\0\0\1" + b"\1aI\0\0\0\2"
    props = b"\x20\x00" + len(entry).to_bytes(4, "big") + entry
    at = header_at(props, b"a")
    assert props[at + 1 : at + 5] == b"\0\0\0\1"
