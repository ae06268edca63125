"""Headers exchanges: conditions, comparison of values, and refusals of x-match."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.core import AmqpError
from warren.protocol.value import (
    ARRAY,
    BINARY,
    BYTE,
    DECIMAL,
    DOUBLE,
    FLOAT,
    LONG,
    LONG_STRING,
    SHORT,
    SIGNED_INT,
    TIMESTAMP,
    UNSIGNED_BYTE,
    UNSIGNED_INT,
    VOID,
    Decimal_,
    Field,
    Table,
    field,
    table,
)
from warren.routing import RoutingTable


def headers_table() -> RoutingTable:
    routing = RoutingTable("/")
    routing.declare_exchange("h", "headers")
    return routing


def bind(routing: RoutingTable, queue: str, arguments: dict[str, object]) -> None:
    if queue not in routing.sinks:
        routing.add_queue(queue, None)
    routing.bind("h", queue, b"", table(arguments), to_queue=True)


def matched(routing: RoutingTable, headers: dict[str, object] | None) -> set[str]:
    sent = None if headers is None else table(headers)
    names = [sink.name for sink in routing.route(routing.exchange("h"), b"", None, sent)]
    assert len(names) == len(set(names))
    return set(names)


@pytest.mark.rule("HD-1", "HD-2")
def test_all_is_the_default_and_wants_every_argument() -> None:
    routing = headers_table()
    bind(routing, "default", {"a": 1, "b": "x"})
    bind(routing, "all", {"x-match": "all", "a": 1, "b": "x"})
    both = {"default", "all"}
    assert matched(routing, {"a": 1, "b": "x"}) == both
    assert matched(routing, {"a": 1, "b": "x", "c": 3}) == both
    assert matched(routing, {"a": 1}) == set()
    assert matched(routing, {"a": 1, "b": "y"}) == set()
    assert matched(routing, {}) == set()
    assert matched(routing, None) == set()


@pytest.mark.rule("HD-1", "HD-2")
def test_any_wants_one_argument() -> None:
    routing = headers_table()
    bind(routing, "any", {"x-match": "any", "a": 1, "b": "x"})
    assert matched(routing, {"a": 1}) == {"any"}
    assert matched(routing, {"a": 2, "b": "x"}) == {"any"}
    assert matched(routing, {"a": 1, "b": "x"}) == {"any"}
    assert matched(routing, {"a": 2, "b": "y"}) == set()
    assert matched(routing, None) == set()


@pytest.mark.rule("HD-1")
@pytest.mark.parametrize("mode", ["all", "any"])
def test_arguments_that_begin_with_x_are_compared_only_by_the_with_x_modes(mode: str) -> None:
    routing = headers_table()
    bind(routing, "plain", {"x-match": mode, "x-id": "1", "a": 1})
    bind(routing, "with-x", {"x-match": f"{mode}-with-x", "x-id": "1"})
    assert matched(routing, {"a": 1}) == {"plain"}
    assert matched(routing, {"a": 1, "x-id": "1"}) == {"plain", "with-x"}
    assert matched(routing, {"x-id": "1"}) == {"with-x"}
    assert matched(routing, {"x-id": "2"}) == set()
    # x-match itself is never a condition.
    assert matched(routing, {"x-match": f"{mode}-with-x"}) == set()


ONES = [
    Field(kind, 1)
    for kind in (SIGNED_INT, LONG, SHORT, BYTE, UNSIGNED_BYTE, UNSIGNED_INT, TIMESTAMP)
]
ONES += [Field(DOUBLE, 1.0), Field(FLOAT, 1.0)]


@pytest.mark.rule("HD-2")
@pytest.mark.parametrize("sent", ONES, ids=repr)
@pytest.mark.parametrize("bound", ONES, ids=repr)
def test_numbers_compare_by_value_whatever_their_type(bound: Field, sent: Field) -> None:
    routing = headers_table()
    bind(routing, "q", {"n": bound})
    assert matched(routing, {"n": sent}) == {"q"}
    assert matched(routing, {"n": 2}) == set()


DIFFERENT: list[Field] = [
    field(1),
    field("1"),
    field(True),
    field(False),
    field(0),
    field("true"),
    field(""),
    Field(DECIMAL, Decimal_(0, 1)),
    Field(DECIMAL, Decimal_(1, 10)),
    field([1]),
    field([True]),
    field({"a": 1}),
    field({"a": 1, "b": 2}),
    field([]),
    field({}),
    field(None),
]


@pytest.mark.rule("HD-2")
def test_values_that_differ_do_not_match() -> None:
    for bound in DIFFERENT[:-1]:
        routing = headers_table()
        bind(routing, "q", {"v": bound})
        for sent in DIFFERENT:
            expected = {"q"} if sent is bound else set()
            assert matched(routing, {"v": sent}) == expected, (bound, sent)


@pytest.mark.rule("HD-2")
def test_strings_and_byte_arrays_compare_by_octets() -> None:
    routing = headers_table()
    bind(routing, "q", {"v": Field(BINARY, b"x")})
    assert matched(routing, {"v": Field(LONG_STRING, b"x")}) == {"q"}


@pytest.mark.rule("HD-2")
def test_not_a_number_equals_nothing() -> None:
    routing = headers_table()
    nan = Field(DOUBLE, float("nan"))
    bind(routing, "q", {"v": nan})
    bind(routing, "any", {"x-match": "any", "v": nan})
    assert matched(routing, {"v": nan}) == set()
    assert routing.unbind("h", "q", b"", {"v": nan}, to_queue=True)


@pytest.mark.rule("HD-2")
@pytest.mark.parametrize("mode", ["all", "any"])
def test_void_means_present(mode: str) -> None:
    routing = headers_table()
    bind(routing, "q", {"x-match": mode, "v": None})
    for value in DIFFERENT:
        assert matched(routing, {"v": value}) == {"q"}
    assert matched(routing, {"w": 1}) == set()


@pytest.mark.rule("HD-3")
def test_nothing_to_compare() -> None:
    routing = headers_table()
    bind(routing, "none", {})
    bind(routing, "all", {"x-match": "all"})
    bind(routing, "all-x", {"x-match": "all", "x-only": 1})
    bind(routing, "all-with-x", {"x-match": "all-with-x"})
    bind(routing, "any", {"x-match": "any"})
    bind(routing, "any-x", {"x-match": "any", "x-only": 1})
    bind(routing, "any-with-x", {"x-match": "any-with-x"})
    always = {"none", "all", "all-x", "all-with-x"}
    sent: list[dict[str, object] | None] = [None, {}, {"x-only": 1}, {"a": "b"}]
    for headers in sent:
        assert matched(routing, headers) == always


@pytest.mark.rule("HD-1")
@pytest.mark.parametrize(
    ("value", "detail"),
    [
        (
            field("some"),
            'Invalid x-match field value <<"some">>; expected all, any, all-with-x, or any-with-x',
        ),
        (field(7), "Invalid x-match field type signedint (value 7); expected longstr"),
        (field(True), "Invalid x-match field type bool (value true); expected longstr"),
        (
            Field(BINARY, b"all"),
            'Invalid x-match field type binary (value <<"all">>); expected longstr',
        ),
    ],
)
def test_bad_x_match_is_refused_and_binds_nothing(value: Field, detail: str) -> None:
    routing = headers_table()
    routing.add_queue("q", None)
    version = routing.version
    with pytest.raises(AmqpError) as caught:
        bind(routing, "q", {"x-match": value})
    assert (caught.value.code, caught.value.detail) == (406, detail)
    assert routing.version == version
    assert matched(routing, {}) == set()


@pytest.mark.rule("HD-1")
def test_other_exchange_types_do_not_look_at_x_match() -> None:
    routing = RoutingTable("/")
    routing.declare_exchange("d", "direct")
    routing.add_queue("q", None)
    assert routing.bind("d", "q", b"", table({"x-match": 7}), to_queue=True)


@pytest.mark.rule("HD-2", "XC-8")
def test_removed_bindings_match_no_more() -> None:
    from warren.routing.headers import Headers

    routing = headers_table()
    bound: list[dict[str, object]] = [
        {"a": 1, "b": 2},
        {"x-match": "any", "a": 1, "b": 2},
        {"a": 1, "b": None},
        {},
        {"x-match": "any"},
        {"x-match": "any", "b": None},
    ]
    for arguments in bound:
        bind(routing, "q", arguments)
    for arguments in bound:
        assert matched(routing, {"a": 1, "b": 2}) <= {"q"}
        assert routing.unbind("h", "q", b"", table(arguments), to_queue=True)
    assert matched(routing, {"a": 1, "b": 2}) == set()
    matcher = routing.exchange("h").matcher
    assert isinstance(matcher, Headers)
    assert not matcher.by_name
    assert matcher.always is None


@pytest.mark.slow
@pytest.mark.rule("HD-2")
def test_bindings_that_share_a_value_are_not_scanned() -> None:
    routing = headers_table()
    for number in range(20_000):
        bind(routing, f"q{number}", {"kind": "report", "id": number})
    headers = table({"kind": "report", "id": 77})
    exchange = routing.exchange("h")
    started = time.process_time()
    for _ in range(100):
        assert [sink.name for sink in routing.route(exchange, b"", None, headers)] == ["q77"]
    # A scan would cost 2,000,000 comparisons.
    assert time.process_time() - started < 0.2


VALUE = st.sampled_from([field(1), field(1.0), field("1"), field(True), field(None), field([1])])
ARGUMENTS = st.dictionaries(st.sampled_from(["a", "b", "x-c"]), VALUE, max_size=3)
MODE = st.sampled_from([None, "all", "any", "all-with-x", "any-with-x"])


def same(bound: Field, sent: Field) -> bool:
    if bound.kind == VOID:
        return True
    if isinstance(bound.value, bool) or isinstance(sent.value, bool):
        return bound.value is sent.value
    if bound.kind == ARRAY or sent.kind == ARRAY:
        return bound.kind == sent.kind
    return bound.value == sent.value


def holds(mode: str | None, arguments: Table, headers: Table) -> bool:
    compared = {
        name: item
        for name, item in arguments.items()
        if (mode is not None and mode.endswith("-with-x")) or not name.startswith("x-")
    }
    hits = [name in headers and same(item, headers[name]) for name, item in compared.items()]
    return any(hits) if mode is not None and mode.startswith("any") else all(hits)


@pytest.mark.rule("HD-1", "HD-2", "HD-3")
@given(rules=st.lists(st.tuples(MODE, ARGUMENTS), max_size=8), sent=st.lists(ARGUMENTS, max_size=5))
def test_agrees_with_the_plain_rule(
    rules: list[tuple[str | None, Table]], sent: list[Table]
) -> None:
    routing = headers_table()
    for number, (mode, arguments) in enumerate(rules):
        routing.add_queue(str(number), None)
        with_mode = arguments if mode is None else {"x-match": field(mode), **arguments}
        routing.bind("h", str(number), b"", with_mode, to_queue=True)
    for headers in sent:
        expected = {
            str(number)
            for number, (mode, arguments) in enumerate(rules)
            if holds(mode, arguments, headers)
        }
        found = [sink.name for sink in routing.route(routing.exchange("h"), b"", None, headers)]
        assert sorted(found) == sorted(expected)
