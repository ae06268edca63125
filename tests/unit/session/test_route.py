"""The cache of routes: bounds, bypass, and the comparison it rests on."""

from hypothesis import given
from hypothesis import strategies as st

from tests.support.machine import Machine, publish
from warren.session.route import ENTRIES_MAX, OCTETS_MAX, PASS_COUNT, Route, RouteCache, same_octets


def route(key: bytes) -> Route:
    return Route(key, key[-10:], [], mandatory=False, again=False, special=False)


def test_it_holds_a_bounded_number_of_entries_and_octets() -> None:
    for size in (8, 200, 2000):
        cache = RouteCache()
        for number in range(3 * ENTRIES_MAX):
            key = b"%0*d" % (size, number)
            cache.hits += 2
            cache.put(route(key))
            assert len(cache.routes) <= ENTRIES_MAX
            assert cache.octets <= OCTETS_MAX
            assert cache.octets == sum(
                len(each.key) + len(each.tail) for each in cache.routes.values()
            )
        assert cache.passing == 0


def test_a_load_that_does_not_come_back_to_its_keys_is_not_cached_for_a_while() -> None:
    cache = RouteCache()
    for number in range(ENTRIES_MAX + 1):
        cache.put(route(b"%08d" % number))
    assert cache.passing == PASS_COUNT
    assert cache.routes == {}


def test_many_keys_on_a_connection_are_routed_right_whatever_is_cached() -> None:
    machine = Machine()
    client = machine.client()
    client.channel()
    for name, key in (("a", "*.a"), ("b", "#.b")):
        client.queue(name)
        client.call(1, "queue.bind", queue=name, exchange="amq.topic", routing_key=key)
    keys = [f"{number}.{'ab'[number % 2]}" for number in range(2 * ENTRIES_MAX)]
    for _ in range(2):
        client.feed(b"".join(publish(1, b"", key, exchange="amq.topic") for key in keys))
    routes = client.connection.routes
    assert len(routes.routes) <= ENTRIES_MAX
    assert {name: queue.ready() for name, queue in machine.vhost.queues.items()} == {
        "a": 2 * ENTRIES_MAX,
        "b": 2 * ENTRIES_MAX,
    }


@given(st.binary(max_size=40), st.binary(max_size=40), st.integers(0, 8))
def test_same_octets_is_equality_of_the_slice(data: bytes, key: bytes, pos: int) -> None:
    whole = bytes(pos) + data + b"\x07" * 8
    for wanted in (key, data, data[:-1], data[:-1] + b"?"):
        size = len(data)
        assert same_octets(whole, pos, size, wanted) == (whole[pos : pos + size] == wanted)
