"""Direct, fanout and default exchange: keys, CC and BCC, duplicates."""

from itertools import permutations

import pytest

from warren.routing import RoutingTable


def table_with(kind: str, bindings: list[tuple[str, bytes]]) -> RoutingTable:
    table = RoutingTable("/")
    table.declare_exchange("x", kind)
    for queue, key in bindings:
        if queue not in table.sinks:
            table.add_queue(queue, None)
        table.bind("x", queue, key, {}, to_queue=True)
    return table


def names(
    table: RoutingTable, exchange: str, key: bytes, extra_keys: list[bytes] | None = None
) -> list[str]:
    return [sink.name for sink in table.route(table.exchange(exchange), key, extra_keys, None)]


@pytest.mark.rule("PB-4", "XC-8")
def test_direct_matches_some_equal_key() -> None:
    table = table_with("direct", [("one", b"a"), ("two", b"b"), ("both", b"a"), ("both", b"b")])
    assert sorted(names(table, "x", b"a")) == ["both", "one"]
    assert sorted(names(table, "x", b"b")) == ["both", "two"]
    assert names(table, "x", b"") == []
    assert names(table, "x", b"a.b") == []
    assert sorted(names(table, "x", b"a", [b"b"])) == ["both", "one", "two"]
    assert sorted(names(table, "x", b"z", [b"b", b"b"])) == ["both", "two"]


@pytest.mark.rule("XC-8")
def test_keys_are_octets() -> None:
    table = table_with("direct", [("q", "ключ".encode())])
    assert names(table, "x", "ключ".encode()) == ["q"]


@pytest.mark.rule("XC-8")
@pytest.mark.parametrize("gone", ["first", "middle", "last"])
def test_a_binding_leaves_the_others_of_its_key_in_place(gone: str) -> None:
    for kind in ("direct", "fanout", "topic"):
        table = table_with(kind, [("first", b"k"), ("middle", b"k"), ("last", b"k")])
        assert table.unbind("x", gone, b"k", {}, to_queue=True)
        assert set(names(table, "x", b"k")) == {"first", "middle", "last"} - {gone}
        assert table.bind("x", gone, b"k", {}, to_queue=True)
        assert set(names(table, "x", b"k")) == {"first", "middle", "last"}


@pytest.mark.rule("XC-8")
@pytest.mark.parametrize("order", list(permutations("abcd")), ids="".join)
def test_bindings_of_one_key_go_in_any_order(order: tuple[str, ...]) -> None:
    for kind in ("direct", "fanout", "topic"):
        table = table_with(kind, [(name, b"k") for name in "abcd"])
        left = set("abcd")
        for gone in order:
            assert table.unbind("x", gone, b"k", {}, to_queue=True)
            left.remove(gone)
            assert set(names(table, "x", b"k")) == left


@pytest.mark.rule("XC-8")
def test_fanout_matches_always() -> None:
    table = table_with("fanout", [("one", b"a"), ("two", b""), ("two", b"z")])
    for key in (b"", b"a", b"anything"):
        assert sorted(names(table, "x", key)) == ["one", "two"]


@pytest.mark.rule("XC-2", "PB-4")
def test_default_exchange_routes_by_queue_name() -> None:
    table = RoutingTable("/")
    table.add_queue("a", None)
    table.add_queue("b.c", None)
    assert names(table, "", b"a") == ["a"]
    assert names(table, "", b"b.c", [b"a", b"a", b"nowhere"]) == ["b.c", "a"]
    assert names(table, "", b"nowhere") == []
    table.remove_queue(table.sinks["a"])
    assert names(table, "", b"a") == []


@pytest.mark.rule("XC-8")
def test_the_order_of_queues_is_the_same_every_time() -> None:
    bindings = [(f"q{number}", b"k") for number in range(50)]
    for kind in ("direct", "fanout", "topic"):
        table = table_with(kind, bindings)
        again = table_with(kind, bindings)
        assert names(table, "x", b"k") == names(table, "x", b"k") == names(again, "x", b"k")
