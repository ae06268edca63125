"""The recent-history exchange in the routing table: its witness, its keeper, its argument."""

import pytest

from warren.core import AmqpError
from warren.protocol.value import (
    BYTE,
    DOUBLE,
    LONG,
    LONG_STRING,
    SHORT,
    SIGNED_INT,
    TIMESTAMP,
    UNSIGNED_INT,
    Field,
)
from warren.routing import Binding, Exchange, ExchangeKeeper, RoutingTable
from warren.routing.recent import LENGTH_ARGUMENT, history_length


class Recorder(ExchangeKeeper):
    def __init__(self) -> None:
        self.events: list[str] = []

    def target_for(self, exchange: Exchange) -> object | None:
        self.events.append(f"made {exchange.name}")
        return f"kept by {exchange.name}"

    def bound(self, exchange: Exchange, binding: Binding) -> None:
        self.events.append(f"{exchange.name} to {binding.destination.name}")

    def gone(self, exchange: Exchange) -> None:
        self.events.append(f"gone {exchange.name}")


def recent() -> tuple[RoutingTable, Recorder]:
    keeper = Recorder()
    routing = RoutingTable("v", keeper)
    routing.declare_exchange("h", "x-recent-history")
    for name in ("q", "r"):
        routing.add_queue(name, name)
    return routing, keeper


def targets(routing: RoutingTable, exchange: str = "h") -> list[object]:
    return [s.target for s in routing.route(routing.exchange(exchange), b"any", None, None)]


def test_every_binding_and_the_exchange_itself_get_the_message() -> None:
    routing, _ = recent()
    routing.bind("h", "q", b"1", {}, to_queue=True)
    routing.bind("h", "r", b"2", {}, to_queue=True)
    assert set(targets(routing)) == {"q", "r", "kept by h"}
    assert not routing.is_volatile(routing.exchange("h"))
    routing.unbind("h", "q", b"1", {}, to_queue=True)
    assert targets(routing) == ["r", "kept by h"]


@pytest.mark.rule("EE-2")
def test_the_witness_is_no_destination() -> None:
    routing, _ = recent()
    routing.set_policy_alternate(routing.exchange("h"), "a")
    routing.declare_exchange("a", "fanout")
    routing.bind("a", "q", b"", {}, to_queue=True)
    assert set(targets(routing)) == {"q", "kept by h"}
    routing.bind("h", "r", b"", {}, to_queue=True)
    assert set(targets(routing)) == {"r", "kept by h"}


@pytest.mark.rule("EE-1", "XC-8")
def test_it_is_reached_through_other_exchanges_once() -> None:
    routing, _ = recent()
    for name in ("a", "b"):
        routing.declare_exchange(name, "fanout")
        routing.bind(name, "h", b"", {}, to_queue=False)
    routing.bind("a", "b", b"", {}, to_queue=False)
    routing.bind("h", "a", b"", {}, to_queue=False)
    assert targets(routing, "a") == ["kept by h"]


def test_the_keeper_hears_of_exchanges_and_of_new_bindings() -> None:
    routing, keeper = recent()
    routing.declare_exchange("h", "x-recent-history")
    routing.declare_exchange("plain", "fanout")
    routing.bind("h", "q", b"", {}, to_queue=True)
    routing.bind("h", "q", b"", {}, to_queue=True)
    routing.bind("h", "q", b"other", {}, to_queue=True)
    routing.bind("h", "plain", b"", {}, to_queue=False)
    routing.bind("plain", "q", b"", {}, to_queue=True)
    routing.unbind("h", "q", b"", {}, to_queue=True)
    routing.delete_exchange("plain")
    routing.delete_exchange("h")
    assert keeper.events == ["made h", "h to q", "h to q", "h to plain", "gone h"]


@pytest.mark.rule("XC-5")
def test_one_that_goes_with_its_last_binding_is_told_too() -> None:
    routing, keeper = recent()
    routing.declare_exchange("auto", "x-recent-history", auto_delete=True)
    routing.bind("auto", "q", b"", {}, to_queue=True)
    routing.remove_queue(routing.sinks["q"])
    routing.sweep()
    assert keeper.events[-1] == "gone auto"


@pytest.mark.rule("XC-7")
def test_a_restored_one_has_a_history_too() -> None:
    routing = RoutingTable("v", Recorder())
    routing.restore_exchange(
        "h", "x-recent-history", auto_delete=False, internal=False, arguments={}
    )
    assert targets(routing) == ["kept by h"]


@pytest.mark.parametrize("kind", [BYTE, SHORT, SIGNED_INT, LONG, UNSIGNED_INT])
def test_a_length(kind: int) -> None:
    assert history_length({LENGTH_ARGUMENT: Field(kind, 5)}) == 5


def test_the_length_without_an_argument() -> None:
    assert history_length({}) == 20


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Field(SIGNED_INT, 0), "0"),
        (Field(LONG, -3), "-3"),
        (Field(LONG_STRING, b"5"), "5"),
        (Field(DOUBLE, 5.0), "5.0"),
        (Field(TIMESTAMP, 5), "5"),
    ],
)
def test_lengths_that_are_refused(value: Field, text: str) -> None:
    routing, _ = recent()
    with pytest.raises(AmqpError) as refusal:
        routing.declare_exchange("n", "x-recent-history", arguments={LENGTH_ARGUMENT: value})
    assert refusal.value.code == 406
    expected = f"Invalid argument {text}, '{LENGTH_ARGUMENT}' must be a positive integer"
    assert refusal.value.detail == expected
    assert "n" not in routing.exchanges
