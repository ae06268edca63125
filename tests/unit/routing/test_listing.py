"""Listing bindings, the implicit ones included, while the table changes."""

import pytest

from warren.protocol.value import table
from warren.routing import (
    BindingRow,
    BindingScan,
    RoutingTable,
    bindings_between,
    bindings_from,
    bindings_to_exchange,
    bindings_to_queue,
)


def sample() -> RoutingTable:
    routing = RoutingTable("v")
    routing.declare_exchange("x", "topic")
    routing.declare_exchange("y", "fanout")
    routing.add_queue("q", None)
    routing.add_queue("r", None)
    routing.bind("x", "q", b"a.*", {}, to_queue=True)
    routing.bind("x", "q", b"b", table({"n": 1}), to_queue=True)
    routing.bind("x", "y", b"#", {}, to_queue=False)
    routing.bind("y", "r", b"", {}, to_queue=True)
    return routing


def short(rows: list[BindingRow]) -> list[tuple[str, str, str]]:
    return [(row.source, row.destination, row.key) for row in rows]


@pytest.mark.rule("XC-2", "XC-8")
def test_lists_by_source_destination_and_pair() -> None:
    routing = sample()
    assert short(bindings_from(routing, "x")) == [
        ("x", "q", "a.*"),
        ("x", "q", "b"),
        ("x", "y", "#"),
    ]
    assert short(bindings_from(routing, "")) == [("", "q", "q"), ("", "r", "r")]
    assert short(bindings_to_queue(routing, "q")) == [
        ("", "q", "q"),
        ("x", "q", "a.*"),
        ("x", "q", "b"),
    ]
    assert short(bindings_to_exchange(routing, "y")) == [("x", "y", "#")]
    pair = bindings_between(routing, "x", "q", to_queue=True)
    assert [row.arguments for row in pair] == [{}, table({"n": 1})]
    assert [row.to_queue for row in bindings_from(routing, "x")] == [True, True, False]
    assert bindings_from(routing, "no") == []
    assert bindings_to_queue(routing, "no") == []
    assert bindings_to_exchange(routing, "no") == []


def scan(routing: RoutingTable, limit: int) -> list[BindingRow]:
    rows: list[BindingRow] = []
    scan = BindingScan(routing)
    while more := scan.step(limit):
        assert len(more) <= limit
        rows += more
    return rows


@pytest.mark.rule("XC-2")
@pytest.mark.parametrize("limit", [1, 2, 1000])
def test_a_scan_sees_everything_once(limit: int) -> None:
    assert sorted(short(scan(sample(), limit))) == sorted(
        [
            ("", "q", "q"),
            ("", "r", "r"),
            ("x", "q", "a.*"),
            ("x", "q", "b"),
            ("x", "y", "#"),
            ("y", "r", ""),
        ]
    )


@pytest.mark.rule("XC-6")
def test_what_is_deleted_is_not_listed_even_before_the_sweep() -> None:
    routing = sample()
    routing.remove_queue(routing.sinks["q"])
    routing.delete_exchange("y")
    assert bindings_from(routing, "x") == []
    assert short(bindings_to_queue(routing, "r")) == [("", "r", "r")]
    assert short(scan(routing, 10)) == [("", "r", "r")]


@pytest.mark.rule("XC-8")
def test_a_scan_survives_changes() -> None:
    routing = RoutingTable("v")
    routing.declare_exchange("x", "direct")
    for number in range(20):
        routing.add_queue(f"q{number}", None)
        for key in range(20):
            routing.bind("x", f"q{number}", str(key).encode(), {}, to_queue=True)
    rows: list[BindingRow] = []
    running = BindingScan(routing)
    for number in range(20):
        rows += running.step(7)
        routing.unbind("x", f"q{number}", b"7", {}, to_queue=True)
        routing.bind("x", f"q{number}", b"new", {}, to_queue=True)
        if number % 5 == 0:
            routing.remove_queue(routing.sinks[f"q{number}"])
            routing.sweep(13)
    while more := running.step(7):
        rows += more
    assert len(rows) == len(set(short(rows)))
    kept = {
        ("x", f"q{number}", str(key))
        for number in range(20)
        for key in range(20)
        if key != 7 and number % 5 != 0
    }
    assert kept <= set(short(rows))


@pytest.mark.rule("XC-2", "XC-6")
def test_a_scan_passes_over_what_goes_before_its_turn() -> None:
    routing = sample()
    running = BindingScan(routing)
    assert short(running.step(1)) == [("", "q", "q")]
    routing.remove_queue(routing.sinks["r"])
    routing.sweep()
    assert sorted(short(running.step(100))) == [
        ("x", "q", "a.*"),
        ("x", "q", "b"),
        ("x", "y", "#"),
    ]
    assert running.step(100) == []
