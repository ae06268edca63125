"""Routes through several exchanges: bindings between exchanges, alternate exchanges, traits."""

import pytest

from warren.protocol.value import table
from warren.routing import RoutingTable


def network(*links: str) -> RoutingTable:
    """Fanout exchanges in upper case, queues in lower case; `A>B`, `A>q`; `A/B`: alternate."""
    routing = RoutingTable("v")
    for link in links:
        for name in link.replace("/", ">").split(">"):
            if name.isupper() and name not in routing.exchanges:
                routing.declare_exchange(name, "fanout")
            elif name.islower() and name not in routing.sinks:
                routing.add_queue(name, None)
    for link in links:
        if "/" in link:
            source, alternate = link.split("/")
            routing.set_policy_alternate(routing.exchange(source), alternate)
        else:
            source, destination = link.split(">")
            routing.bind(source, destination, b"", {}, to_queue=destination.islower())
    return routing


def names(routing: RoutingTable, exchange: str, key: bytes = b"k") -> list[str]:
    found = [sink.name for sink in routing.route(routing.exchange(exchange), key, None, None)]
    assert len(found) == len(set(found))
    return sorted(found)


@pytest.mark.rule("EE-1", "XC-8")
@pytest.mark.parametrize(
    "links",
    [
        ("A>B", "B>q"),
        ("A>B", "A>C", "B>D", "C>D", "D>q", "A>q"),
        ("A>A", "A>q"),
        ("A>B", "B>A", "B>q", "A>q"),
        ("A>B", "B>C", "C>A", "C>C", "C>q"),
    ],
    ids=" ".join,
)
def test_each_exchange_and_each_queue_once_whatever_the_graph(links: tuple[str, ...]) -> None:
    assert names(network(*links), "A") == ["q"]


@pytest.mark.rule("EE-1", "PB-4")
def test_every_exchange_on_the_way_uses_the_original_keys() -> None:
    routing = RoutingTable("v")
    routing.declare_exchange("first", "topic")
    routing.declare_exchange("second", "direct")
    routing.add_queue("q", None)
    routing.add_queue("cc", None)
    routing.bind("first", "second", b"a.#", {}, to_queue=False)
    routing.bind("second", "q", b"a.b", {}, to_queue=True)
    routing.bind("second", "cc", b"other", {}, to_queue=True)
    first = routing.exchange("first")
    assert names(routing, "first", b"a.b") == ["q"]
    assert names(routing, "first", b"a.c") == []
    found = routing.route(first, b"a.b", [b"other"], None)
    assert sorted(sink.name for sink in found) == ["cc", "q"]


@pytest.mark.rule("EE-1")
def test_every_exchange_on_the_way_uses_the_original_headers() -> None:
    routing = network("A>B")
    routing.declare_exchange("h", "headers")
    routing.add_queue("q", None)
    routing.bind("B", "h", b"", {}, to_queue=False)
    routing.bind("h", "q", b"", table({"n": 1}), to_queue=True)
    start = routing.exchange("A")
    assert [s.name for s in routing.route(start, b"", None, table({"n": 1}))] == ["q"]
    assert routing.route(start, b"", None, table({"n": 2})) == []


@pytest.mark.rule("EE-2")
def test_alternate_is_used_only_without_any_destination() -> None:
    routing = network("A/S", "S>s", "X>q")
    assert names(routing, "A") == ["s"]
    routing.bind("A", "q", b"", {}, to_queue=True)
    assert names(routing, "A") == ["q"]
    routing.unbind("A", "q", b"", {}, to_queue=True)
    assert names(routing, "A") == ["s"]


@pytest.mark.rule("EE-2")
def test_an_exchange_destination_counts_even_if_nothing_comes_out_of_it() -> None:
    assert names(network("A/S", "S>s", "A>B"), "A") == []
    # Also when it has been visited already: B is found from A, and again from C.
    assert names(network("A>B", "A>C", "C>B", "C/S", "S>s", "B>q"), "A") == ["q"]
    # Or is the exchange itself.
    assert names(network("A>A", "A/S", "S>s"), "A") == []


@pytest.mark.rule("EE-2")
def test_alternates_chain_loop_and_lead_on_from_any_exchange_on_the_way() -> None:
    assert names(network("A/B", "B/C", "C>q"), "A") == ["q"]
    assert names(network("A/B", "B/A", "C>q"), "A") == []
    assert names(network("A/A", "C>q"), "A") == []
    assert names(network("A>B", "B/S", "S>s"), "A") == ["s"]
    assert names(network("A/B", "B>C", "C>q"), "A") == ["q"]


@pytest.mark.rule("EE-2")
def test_a_missing_alternate_drops_and_a_later_one_is_used() -> None:
    routing = network("A/B")
    routing.set_policy_alternate(routing.exchange("A"), "later")
    assert names(routing, "A") == []
    routing.declare_exchange("later", "fanout")
    routing.add_queue("q", None)
    routing.bind("later", "q", b"", {}, to_queue=True)
    assert names(routing, "A") == ["q"]
    routing.delete_exchange("later")
    assert names(routing, "A") == []


@pytest.mark.rule("EE-2", "XC-2")
def test_the_default_exchange_as_alternate_routes_by_queue_name() -> None:
    routing = RoutingTable("v")
    routing.declare_exchange("A", "direct", arguments=table({"alternate-exchange": ""}))
    routing.add_queue("q", None)
    assert names(routing, "A", b"q") == ["q"]
    assert names(routing, "A", b"other") == []


@pytest.mark.rule("EE-2", "PO-5")
def test_the_argument_wins_over_the_policy() -> None:
    routing = network("P>p", "Q>q")
    made = routing.declare_exchange("A", "direct", arguments=table({"alternate-exchange": "Q"}))
    routing.set_policy_alternate(made, "P")
    assert names(routing, "A") == ["q"]
    plain = routing.declare_exchange("B", "direct")
    routing.set_policy_alternate(plain, "P")
    assert names(routing, "B") == ["p"]
    routing.set_policy_alternate(plain, None)
    assert names(routing, "B") == []


@pytest.mark.rule("XC-9")
def test_internal_exchanges_can_be_bound_both_ways_and_be_alternates() -> None:
    routing = network("A>q")
    routing.declare_exchange("I", "fanout", internal=True)
    routing.bind("A", "I", b"", {}, to_queue=False)
    routing.add_queue("r", None)
    routing.bind("I", "r", b"", {}, to_queue=True)
    assert names(routing, "A") == ["q", "r"]
    routing.declare_exchange("B", "direct", arguments=table({"alternate-exchange": "I"}))
    assert names(routing, "B") == ["r"]


@pytest.mark.rule("EE-1")
def test_a_long_chain_of_exchanges_is_walked_without_recursion() -> None:
    routing = RoutingTable("v")
    for number in range(5000):
        routing.declare_exchange(f"x{number}", "fanout")
    for number in range(4999):
        routing.bind(f"x{number}", f"x{number + 1}", b"", {}, to_queue=False)
    routing.add_queue("q", None)
    routing.bind("x4999", "q", b"", {}, to_queue=True)
    assert names(routing, "x0") == ["q"]


@pytest.mark.rule("EE-1", "EE-2")
def test_needs_headers_looks_through_bindings_and_alternates() -> None:
    routing = network("A>B", "B/C", "D>q")
    routing.declare_exchange("h", "headers")
    needs = routing.needs_headers

    def all_of(text: str) -> list[bool]:
        return [needs(routing.exchange(name)) for name in text]

    assert needs(routing.exchange("h"))
    assert all_of("ABCD") == [False, False, False, False]
    routing.bind("C", "h", b"", {}, to_queue=False)
    assert all_of("ABCD") == [True, True, True, False]
    routing.bind("D", "A", b"", {}, to_queue=False)
    assert all_of("ABCD") == [True, True, True, True]
    routing.set_policy_alternate(routing.exchange("B"), None)
    assert all_of("ABCD") == [False, False, True, False]
    routing.set_policy_alternate(routing.exchange("B"), "C")
    routing.unbind("C", "h", b"", {}, to_queue=False)
    assert all_of("ABCD") == [False, False, False, False]
    routing.bind("C", "h", b"", {}, to_queue=False)
    routing.delete_exchange("h")
    assert all_of("ABCD") == [False, False, False, False]
    assert not routing.is_volatile(routing.exchange("A"))
