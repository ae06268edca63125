"""How a message is written as a line of JSON, and shown on a terminal."""

import json

import pytest

from warren.cli.message_line import as_object, body_lines, line, text
from warren.cli.slice import Item
from warren.protocol.properties import Properties
from warren.protocol.value import BINARY, DOUBLE, TIMESTAMP, Decimal_, Field, table


def item(body: bytes = b"", props: bytes = b"\x00\x00", key: str = "k") -> Item:
    return Item(5, "ready", False, 1_700_000_000_123_456, "x", key, props, len(body), body)


def test_a_line_has_all_there_is() -> None:
    headers = table({"text": "ü", "deep": {"list": [1, None, {"a": True}]}, "octets": b"\xff"})
    headers["binary"] = Field(BINARY, b"text")
    headers["at"] = Field(TIMESTAMP, 1_700_000_000)
    headers["price"] = Field(ord("D"), Decimal_(2, 5))
    headers["whole"] = Field(ord("D"), Decimal_(0, 5))
    headers["not"] = Field(DOUBLE, float("nan"))
    props = Properties(headers=headers, delivery_mode=2, message_id="m").encode()
    told = json.loads(line(item(b"body", props), 7))
    assert list(told)[:3] == ["seq", "incarnation", "ts"]
    assert told == {
        "seq": 5,
        "incarnation": 7,
        "ts": 1_700_000_000_123_456,
        "exchange": "x",
        "routing_key": "k",
        "properties": {
            "headers": {
                "text": "ü",
                "deep": {"list": [1, None, {"a": True}]},
                "octets": {"$base64": "/w=="},
                "binary": {"$base64": "dGV4dA=="},
                "at": {"$timestamp": 1_700_000_000},
                "price": {"$decimal": "0.05"},
                "whole": {"$decimal": "5"},
                "not": {"$double": "nan"},
            },
            "delivery_mode": 2,
            "message_id": "m",
        },
        "size": 4,
        "body": "body",
    }


def test_a_line_is_one_line_whatever_the_body() -> None:
    for body in (b"a\nb\r\x00", "\u2028".encode(), b"\xff\xfe", b""):
        assert "\n" not in line(item(body), 1)
    told = as_object(item(b"\xff"), 1, state=True)
    assert (told["body"], told["body_encoding"], told["state"]) == ("/w==", "base64", "ready")
    assert as_object(item(props=b"\xff\xff"), 1)["properties"] == {"$base64": "//8="}


@pytest.mark.parametrize(
    ("body", "cut", "lines"),
    [
        (b"a\tb\r\nc", False, ["a    b", "c"]),
        (b"", False, [""]),
        ("grü".encode()[:3], True, ["gr", "..."]),
        ("grü".encode()[:3], False, [f"{'67 72 c3':<48} gr."]),
        (b"\x1b[2J", False, [f"{'1b 5b 32 4a':<48} .[2J"]),
        (bytes(17), True, [f"{' '.join(['00'] * 16):<48} {'.' * 16}", f"{'00':<48} .", "..."]),
    ],
)
def test_a_body_for_people(body: bytes, cut: bool, lines: list[str]) -> None:
    assert body_lines(body, cut=cut) == lines


def test_nothing_that_a_client_wrote_reaches_the_terminal() -> None:
    props = Properties(content_type="\x1b[1m", headers=table({"\x1b": "\x1b\n"})).encode()
    shown = text(item(b"\x1b[1m\x07", props, key="\x1b]0;x\x07"), 100)
    assert all(part.isprintable() for part in shown.split("\n"))
