"""The random exchange: one binding each time, all as often, none that leads nowhere."""

from collections import Counter

from warren.routing import RoutingTable
from warren.routing.keeper import ExchangeKeeper


class Seeds(ExchangeKeeper):
    def __init__(self, *seeds: int) -> None:
        self.seeds = list(seeds)

    def seed(self) -> int:
        return self.seeds.pop(0)


def random_table(count: int = 4, keeper: ExchangeKeeper | None = None) -> RoutingTable:
    routing = RoutingTable("v", keeper)
    routing.declare_exchange("r", "x-random")
    for number in range(count):
        routing.add_queue(f"q{number}", None)
        routing.bind("r", f"q{number}", b"", {}, to_queue=True)
    return routing


def draws(routing: RoutingTable, count: int = 4000) -> Counter[str]:
    found: Counter[str] = Counter()
    for _ in range(count):
        sinks = routing.route(routing.exchange("r"), b"always the same", None, None)
        assert len(sinks) <= 1
        found.update(sink.name for sink in sinks)
    return found


def test_every_binding_has_its_share() -> None:
    routing = random_table()
    assert routing.is_volatile(routing.exchange("r"))
    found = draws(routing)
    assert all(880 < found[f"q{number}"] < 1120 for number in range(4))
    routing.bind("r", "q0", b"again", {}, to_queue=True)
    assert 1450 < draws(routing)["q0"] < 1750


def test_none_one_and_what_comes_and_goes() -> None:
    routing = random_table(0)
    assert draws(routing, 10) == {}
    for number in range(3):
        routing.add_queue(f"q{number}", None)
        routing.bind("r", f"q{number}", b"", {}, to_queue=True)
        assert set(draws(routing, 200)) == {f"q{one}" for one in range(number + 1)}
    for number, left in [(1, {"q0", "q2"}), (0, {"q2"}), (2, set())]:
        routing.unbind("r", f"q{number}", b"", {}, to_queue=True)
        assert set(draws(routing, 200)) == left


def test_dead_queues_are_passed_over() -> None:
    routing = random_table(50)
    for number in range(1, 50):
        routing.remove_queue(routing.sinks[f"q{number}"])
    assert draws(routing, 50) == {"q0": 50}
    assert routing.sweep().done
    assert draws(routing, 50) == {"q0": 50}
    assert [binding.destination.name for binding in routing.exchange("r").bindings] == ["q0"]


def test_the_keeper_gives_the_seed() -> None:
    def sequence(seed: int) -> list[str]:
        routing = random_table(10, Seeds(seed))
        exchange = routing.exchange("r")
        return [routing.route(exchange, b"", None, None)[0].name for _ in range(30)]

    assert sequence(1) == sequence(1)
    assert sequence(1) != sequence(2)
    assert len(set(sequence(0))) > 3
