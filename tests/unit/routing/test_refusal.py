"""Refusals: codes and texts, and when nothing is refused."""

import pytest

from warren.core import AmqpError
from warren.protocol.value import Table, table
from warren.routing import (
    RoutingTable,
    alternate_of,
    check_deletable,
    check_kind,
    check_not_reserved,
    check_publishable,
    clean_name,
    no_exchange,
    no_queue,
    predeclare,
)


def refused(error: pytest.ExceptionInfo[AmqpError]) -> tuple[int, str]:
    return error.value.code, error.value.text()


@pytest.mark.rule("XC-3")
@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"kind": "fanout"}, "'type' for X: received 'fanout' but current is 'direct'"),
        ({"durable": False}, "'durable' for X: received 'false' but current is 'true'"),
        ({"auto_delete": True}, "'auto_delete' for X: received 'true' but current is 'false'"),
        ({"internal": True}, "'internal' for X: received 'true' but current is 'false'"),
        (
            {"arguments": table({"alternate-exchange": "b"})},
            "'alternate-exchange' for X: received 'b' but current is 'a'",
        ),
        (
            {"arguments": {}},
            "'alternate-exchange' for X: received none but current is "
            "the value 'a' of type 'longstr'",
        ),
        # The first difference is named, in the order of XC-3.
        (
            {"kind": "topic", "durable": False},
            "'type' for X: received 'topic' but current is 'direct'",
        ),
    ],
)
def test_inequivalent_redeclare(change: dict[str, object], text: str) -> None:
    routing = RoutingTable("V")
    arguments = table({"alternate-exchange": "a"})
    routing.declare_exchange("N", "direct", durable=True, arguments=arguments)
    asked: dict[str, object] = {"kind": "direct", "durable": True, "arguments": arguments, **change}
    kind = str(asked.pop("kind"))
    with pytest.raises(AmqpError) as caught:
        routing.declare_exchange("N", kind, **asked)  # type: ignore[arg-type]
    expected = f"inequivalent arg {text}".replace("X", "exchange 'N' in vhost 'V'")
    assert refused(caught) == (406, f"PRECONDITION_FAILED - {expected}")


@pytest.mark.rule("XC-3")
def test_alternate_that_was_not_there() -> None:
    routing = RoutingTable("V")
    routing.declare_exchange("N", "direct")
    with pytest.raises(AmqpError) as caught:
        routing.declare_exchange("N", "direct", arguments=table({"alternate-exchange": "a"}))
    assert caught.value.detail == (
        "inequivalent arg 'alternate-exchange' for exchange 'N' in vhost 'V': "
        "received the value 'a' of type 'longstr' but current is none"
    )


@pytest.mark.rule("XC-3")
def test_reserved_prefix_is_refused_for_new_names_only() -> None:
    routing = RoutingTable("V")
    predeclare(routing)
    routing.declare_exchange("amq.direct", "direct", durable=True)
    check_not_reserved("amqp")
    check_not_reserved("amq")
    with pytest.raises(AmqpError) as caught:
        check_not_reserved("amq.mine")
    text = "ACCESS_REFUSED - exchange name 'amq.mine' contains reserved prefix 'amq.*'"
    assert refused(caught) == (403, text)
    with pytest.raises(AmqpError) as caught:
        check_not_reserved("amq.mine", what="queue")
    assert caught.value.detail == "queue name 'amq.mine' contains reserved prefix 'amq.*'"


@pytest.mark.rule("XC-1")
def test_predeclared_exchanges_cannot_be_deleted() -> None:
    check_deletable("mine", "V")
    with pytest.raises(AmqpError) as caught:
        check_deletable("amq.topic", "V")
    text = "ACCESS_REFUSED - deletion of system exchange 'amq.topic' in vhost 'V' not allowed"
    assert refused(caught) == (403, text)


@pytest.mark.rule("XC-9")
def test_internal_exchange_takes_no_publishes() -> None:
    routing = RoutingTable("V")
    predeclare(routing)
    check_publishable(routing.exchange("amq.topic"), "V")
    with pytest.raises(AmqpError) as caught:
        check_publishable(routing.exchange("amq.rabbitmq.trace"), "V")
    text = "ACCESS_REFUSED - cannot publish to internal exchange 'amq.rabbitmq.trace' in vhost 'V'"
    assert refused(caught) == (403, text)


@pytest.mark.rule("EX-1", "XC-3")
def test_missing_objects() -> None:
    with pytest.raises(AmqpError) as caught:
        RoutingTable("V").exchange("N")
    assert refused(caught) == (404, "NOT_FOUND - no exchange 'N' in vhost 'V'")
    assert no_exchange("N", "V").text() == "NOT_FOUND - no exchange 'N' in vhost 'V'"
    assert no_queue("N", "V").text() == "NOT_FOUND - no queue 'N' in vhost 'V'"


@pytest.mark.rule("XC-3")
def test_unknown_exchange_type_closes_the_connection() -> None:
    check_kind("headers")
    for attempt in (check_kind, lambda kind: RoutingTable("V").declare_exchange("", kind)):
        with pytest.raises(AmqpError) as caught:
            attempt("nonsense")
        assert refused(caught) == (503, "COMMAND_INVALID - unknown exchange type 'nonsense'")
        assert not caught.value.closes_channel_only()


@pytest.mark.rule("EE-2")
def test_alternate_exchange_must_be_a_string() -> None:
    assert alternate_of({}, "N", "V") is None
    assert alternate_of(table({"alternate-exchange": "ae"}), "N", "V") == "ae"
    wrong: list[tuple[Table, str]] = [
        (table({"alternate-exchange": 1}), "signedint"),
        (table({"alternate-exchange": True}), "bool"),
        (table({"alternate-exchange": None}), "void"),
    ]
    for arguments, kind in wrong:
        with pytest.raises(AmqpError) as caught:
            RoutingTable("V").declare_exchange("N", "direct", arguments=arguments)
        detail = f"invalid type '{kind}' for arg 'alternate-exchange' in exchange 'N' in vhost 'V'"
        assert (caught.value.code, caught.value.detail) == (406, detail)


@pytest.mark.rule("XC-4")
def test_line_ends_are_left_out_of_names() -> None:
    assert clean_name("a\r\nb\nc\r") == "abc"
    assert clean_name("a b\tc") == "a b\tc"
