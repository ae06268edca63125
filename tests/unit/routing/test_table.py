"""The routing table: declare, bind, delete, auto-delete, the sweep, and the version."""

import gc
import weakref
from collections.abc import Callable

import pytest

from warren.core import AmqpError
from warren.protocol.value import Table, table
from warren.routing import RoutingTable, Sink, predeclare


def ready(kind: str = "direct") -> RoutingTable:
    """An exchange `x` and a queue `q`."""
    routing = RoutingTable("v")
    routing.declare_exchange("x", kind)
    routing.add_queue("q", "the queue")
    return routing


def names(routing: RoutingTable, exchange: str, key: bytes = b"k") -> list[str]:
    return [sink.name for sink in routing.route(routing.exchange(exchange), key, None, None)]


def sweep_all(routing: RoutingTable, limit: int = 1000) -> list[str]:
    """Sweep to the end; the names of the auto-deleted exchanges."""
    deleted: list[str] = []
    for _ in range(100_000):
        swept = routing.sweep(limit)
        assert len(swept.bindings) <= limit
        deleted += [exchange.name for exchange in swept.exchanges]
        if swept.done:
            return deleted
    raise AssertionError("the sweep does not end")


@pytest.mark.rule("XC-1")
def test_predeclared_exchanges() -> None:
    routing = RoutingTable("v")
    predeclare(routing)
    found = {
        exchange.name: (exchange.kind, exchange.durable, exchange.auto_delete, exchange.internal)
        for exchange in routing.exchanges.values()
    }
    assert found == {
        "": ("direct", True, False, False),
        "amq.direct": ("direct", True, False, False),
        "amq.fanout": ("fanout", True, False, False),
        "amq.topic": ("topic", True, False, False),
        "amq.headers": ("headers", True, False, False),
        "amq.match": ("headers", True, False, False),
        "amq.rabbitmq.trace": ("topic", True, False, True),
    }
    before = routing.version
    predeclare(routing)
    assert routing.version == before


@pytest.mark.rule("XC-3")
def test_redeclare_returns_the_same_exchange() -> None:
    routing = RoutingTable("v")
    arguments = table({"alternate-exchange": "ae", "free": 1})
    first = routing.declare_exchange("x", "topic", durable=True, arguments=arguments)
    other = table({"alternate-exchange": "ae", "other": 2})
    again = routing.declare_exchange("x", "topic", durable=True, arguments=other)
    assert again is first
    assert routing.exchange("x") is first
    assert routing.exchange_by_key(b"x") is first
    assert first.alternate == "ae"


@pytest.mark.rule("XC-3")
def test_failed_redeclare_changes_nothing() -> None:
    routing = ready()
    version = routing.version
    with pytest.raises(AmqpError) as caught:
        routing.declare_exchange("x", "fanout")
    assert caught.value.code == 406
    assert (routing.exchange("x").kind, routing.version) == ("direct", version)


@pytest.mark.rule("XC-2")
def test_default_exchange_cannot_be_changed() -> None:
    routing = ready()
    attempts: list[Callable[[], object]] = [
        lambda: routing.declare_exchange("", "direct"),
        lambda: routing.delete_exchange(""),
        lambda: routing.bind("", "q", b"k", {}, to_queue=True),
        lambda: routing.unbind("", "q", b"q", {}, to_queue=True),
        lambda: routing.bind("x", "", b"k", {}, to_queue=False),
        lambda: routing.bind("missing", "", b"k", {}, to_queue=False),
        lambda: routing.unbind("x", "", b"k", {}, to_queue=False),
    ]
    for attempt in attempts:
        with pytest.raises(AmqpError) as caught:
            attempt()
        assert caught.value.code == 403
        assert caught.value.detail == "operation not permitted on the default exchange"
    assert names(routing, "", b"q") == ["q"]


@pytest.mark.rule("XC-8")
def test_a_binding_exists_once() -> None:
    routing = ready()
    assert routing.bind("x", "q", b"k", {}, to_queue=True)
    version = routing.version
    assert not routing.bind("x", "q", b"k", {}, to_queue=True)
    assert routing.version == version
    assert names(routing, "x") == ["q"]
    assert routing.unbind("x", "q", b"k", {}, to_queue=True)
    assert names(routing, "x") == []
    assert not routing.unbind("x", "q", b"k", {}, to_queue=True)


@pytest.mark.rule("XC-8")
def test_identity_is_source_destination_key_and_arguments_as_a_set() -> None:
    routing = ready()
    routing.declare_exchange("y", "direct")
    routing.declare_exchange("q", "direct")
    ab = table({"a": 1, "b": "x"})
    ba = table({"b": "x", "a": 1})
    assert routing.bind("x", "q", b"k", {}, to_queue=True)
    assert routing.bind("x", "q", b"other", {}, to_queue=True)
    assert routing.bind("y", "q", b"k", {}, to_queue=True)
    assert routing.bind("x", "q", b"k", {}, to_queue=False)
    assert routing.bind("x", "q", b"k", ab, to_queue=True)
    assert not routing.bind("x", "q", b"k", ba, to_queue=True)
    assert routing.bind("x", "q", b"k", table({"a": 1}), to_queue=True)
    assert routing.unbind("x", "q", b"k", ba, to_queue=True)
    assert not routing.unbind("x", "q", b"k", ab, to_queue=True)
    # The message still arrives, once: three bindings of this key are left.
    assert names(routing, "x") == ["q"]


def bind_error(routing: RoutingTable, source: str, destination: str, to_queue: bool) -> str:
    with pytest.raises(AmqpError) as caught:
        routing.bind(source, destination, b"k", {}, to_queue=to_queue)
    return caught.value.text()


@pytest.mark.rule("XC-8")
def test_bind_names_what_is_missing() -> None:
    routing = ready()
    assert bind_error(routing, "no", "q", True) == "NOT_FOUND - no exchange 'no' in vhost 'v'"
    assert bind_error(routing, "x", "no", True) == "NOT_FOUND - no queue 'no' in vhost 'v'"
    assert bind_error(routing, "x", "no", False) == "NOT_FOUND - no exchange 'no' in vhost 'v'"
    # Both missing: the source.
    assert bind_error(routing, "a", "b", True) == "NOT_FOUND - no exchange 'a' in vhost 'v'"
    assert bind_error(routing, "a", "b", False) == "NOT_FOUND - no exchange 'a' in vhost 'v'"


def test_unbind_of_what_is_missing_is_no_error() -> None:
    routing = ready()
    for source, destination in (("x", "q"), ("no", "q"), ("x", "no"), ("no", "no")):
        for to_queue in (True, False):
            assert not routing.unbind(source, destination, b"k", {}, to_queue=to_queue)


@pytest.mark.rule("XC-5")
def test_auto_delete_waits_for_a_first_binding_and_ends_with_the_last() -> None:
    routing = ready()
    routing.declare_exchange("auto", "direct", auto_delete=True)
    assert not routing.unbind("auto", "q", b"k", {}, to_queue=True)
    assert sweep_all(routing) == []
    routing.bind("auto", "q", b"1", {}, to_queue=True)
    routing.bind("auto", "q", b"2", {}, to_queue=True)
    routing.unbind("auto", "q", b"1", {}, to_queue=True)
    assert sweep_all(routing) == []
    routing.unbind("auto", "q", b"2", {}, to_queue=True)
    assert "auto" not in routing.exchanges
    assert sweep_all(routing) == ["auto"]
    assert sweep_all(routing) == []


@pytest.mark.rule("XC-5")
def test_auto_delete_looks_only_at_bindings_from_it() -> None:
    """Bindings to it neither keep it nor, by going, delete it."""
    routing = ready()
    routing.declare_exchange("auto", "direct", auto_delete=True)
    routing.bind("x", "auto", b"k", {}, to_queue=False)
    routing.unbind("x", "auto", b"k", {}, to_queue=False)
    assert sweep_all(routing) == []
    routing.bind("x", "auto", b"k", {}, to_queue=False)
    routing.bind("auto", "q", b"k", {}, to_queue=True)
    routing.unbind("auto", "q", b"k", {}, to_queue=True)
    assert sweep_all(routing) == ["auto"]
    assert not routing.exchange("x").bindings


@pytest.mark.rule("XC-5")
def test_auto_delete_when_the_destination_goes_and_in_a_chain() -> None:
    routing = ready()
    for name in ("a", "b", "c"):
        routing.declare_exchange(name, "fanout", auto_delete=True)
    routing.bind("a", "b", b"", {}, to_queue=False)
    routing.bind("b", "c", b"", {}, to_queue=False)
    routing.bind("c", "q", b"", {}, to_queue=True)
    routing.remove_queue(routing.sinks["q"])
    assert sweep_all(routing, limit=1) == ["c", "b", "a"]
    assert set(routing.exchanges) == {"", "x"}


@pytest.mark.rule("XC-6")
def test_deleting_an_exchange_removes_bindings_from_and_to_it() -> None:
    routing = ready("fanout")
    routing.declare_exchange("y", "fanout")
    routing.add_queue("other", None)
    routing.bind("x", "y", b"", {}, to_queue=False)
    routing.bind("y", "q", b"", {}, to_queue=True)
    routing.bind("x", "other", b"", {}, to_queue=True)
    assert sorted(names(routing, "x")) == ["other", "q"]
    assert routing.delete_exchange("y")
    assert names(routing, "x") == ["other"]
    assert sweep_all(routing) == []
    assert len(routing.exchange("x").bindings) == 1
    assert routing.sinks["q"].into is None
    assert not routing.delete_exchange("y")
    # A new exchange of this name starts without bindings.
    routing.declare_exchange("y", "fanout")
    assert names(routing, "y") == []
    assert names(routing, "x") == ["other"]


@pytest.mark.rule("XC-6")
def test_if_unused_looks_only_at_bindings_from_it() -> None:
    routing = ready("fanout")
    routing.declare_exchange("y", "fanout")
    routing.bind("x", "y", b"", {}, to_queue=False)
    with pytest.raises(AmqpError) as caught:
        routing.delete_exchange("x", if_unused=True)
    assert caught.value.text() == "PRECONDITION_FAILED - exchange 'x' in vhost 'v' in use"
    assert routing.delete_exchange("y", if_unused=True)
    # Its binding to y is not swept yet, but y is gone.
    assert routing.delete_exchange("x", if_unused=True)
    assert sweep_all(routing) == []


@pytest.mark.rule("XC-8")
def test_a_new_queue_of_the_same_name_has_none_of_the_bindings() -> None:
    routing = ready()
    routing.bind("x", "q", b"k", {}, to_queue=True)
    old = routing.sinks["q"]
    routing.remove_queue(old)
    new = routing.add_queue("q", "the next queue")
    assert names(routing, "x") == []
    assert routing.route(routing.exchange(""), b"q", None, None) == [new]
    assert routing.bind("x", "q", b"k", {}, to_queue=True)
    sweep_all(routing)
    assert [sink.target for sink in routing.route(routing.exchange("x"), b"k", None, None)] == [
        "the next queue"
    ]
    routing.remove_queue(old)
    assert names(routing, "x") == ["q"]


def bulk(routing: RoutingTable, sink: Sink, count: int) -> None:
    for number in range(count):
        exchange = ("direct", "topic", "headers", "fanout")[number % 4]
        arguments: Table = table({"n": number}) if exchange == "headers" else {}
        key = f"a.{number}" if exchange != "topic" else f"a.*.{number}"
        routing.bind(exchange, sink.name, key.encode(), arguments, to_queue=True)


@pytest.mark.slow
@pytest.mark.rule("XC-8", "EE-2")
def test_a_queue_with_100_000_bindings_goes_at_once_and_is_swept_in_slices() -> None:
    routing = RoutingTable("v")
    for kind in ("direct", "topic", "headers", "fanout"):
        routing.declare_exchange(kind, kind, arguments=table({"alternate-exchange": "ae"}))
    routing.declare_exchange("ae", "fanout")
    big = routing.add_queue("big", None)
    routing.add_queue("small", None)
    routing.add_queue("spare", None)
    routing.bind("ae", "spare", b"", {}, to_queue=True)
    bulk(routing, big, 100_000)
    routing.bind("direct", "small", b"a.4", {}, to_queue=True)
    assert sorted(names(routing, "direct", b"a.4")) == ["big", "small"]
    routing.remove_queue(big)
    slices = 0
    while True:
        assert names(routing, "direct", b"a.4") == ["small"]
        for exchange, key in (("direct", b"a.8"), ("topic", b"a.x.5"), ("fanout", b"")):
            assert names(routing, exchange, key) == ["spare"]
        sent = table({"n": 6})
        found = routing.route(routing.exchange("headers"), b"", None, sent)
        assert [sink.name for sink in found] == ["spare"]
        swept = routing.sweep(1000)
        slices += 1
        assert len(swept.bindings) <= 1000
        if slices == 50:
            # A small removal does not wait for the rest of the large one.
            routing.declare_exchange("auto", "direct", auto_delete=True)
            tiny = routing.add_queue("tiny", None)
            routing.bind("auto", "tiny", b"", {}, to_queue=True)
            routing.remove_queue(tiny)
            later = routing.sweep(10)
            assert "auto" not in routing.exchanges
            assert not later.done
        if swept.done:
            break
    assert 100 <= slices <= 101
    assert [len(x.bindings) for x in routing.exchanges.values()] == [0, 1, 0, 0, 0, 1]


@pytest.mark.rule("XC-7", "XC-3")
def test_an_exchange_whose_type_is_gone_is_kept_and_refuses_to_route() -> None:
    routing = RoutingTable("v")
    routing.add_queue("q", None)
    for kind in ("x-gone", "topic"):
        made = routing.restore_exchange(kind, kind, auto_delete=False, internal=False, arguments={})
        assert (made.kind, made.durable) == (kind, True)
        assert routing.bind(kind, "q", b"k", {}, to_queue=True)
    with pytest.raises(AmqpError) as caught:
        names(routing, "x-gone")
    assert caught.value.code == 406
    assert names(routing, "topic") == ["q"]
    assert routing.delete_exchange("x-gone")
    assert sweep_all(routing) == []


CHANGES: list[Callable[[RoutingTable], object]] = [
    lambda routing: routing.declare_exchange("new", "fanout"),
    lambda routing: routing.add_queue("fresh", None),
    lambda routing: routing.bind("new", "fresh", b"", {}, to_queue=True),
    lambda routing: routing.bind("new", "x", b"", {}, to_queue=False),
    lambda routing: routing.set_policy_alternate(routing.exchange("new"), "x"),
    lambda routing: routing.unbind("new", "x", b"", {}, to_queue=False),
    lambda routing: routing.remove_queue(routing.sinks["fresh"]),
    lambda routing: routing.delete_exchange("new"),
]


@pytest.mark.rule("XC-8")
def test_every_change_of_routes_raises_the_version_and_nothing_else_does() -> None:
    routing = ready()
    version = routing.version
    for change in CHANGES:
        change(routing)
        assert routing.version > version
        version = routing.version
    sweep_all(routing)
    routing.unbind("x", "q", b"none", {}, to_queue=True)
    routing.set_policy_alternate(routing.exchange("x"), None)
    routing.declare_exchange("x", "direct")
    names(routing, "x")
    assert routing.version == version


def test_a_removed_queue_is_not_kept_in_memory() -> None:
    class Queue:
        pass

    queue = Queue()
    watch = weakref.ref(queue)
    routing = ready("fanout")
    sink = routing.add_queue("watched", queue)
    routing.bind("x", "watched", b"", {}, to_queue=True)
    assert sorted(names(routing, "x")) == ["watched"]
    routing.remove_queue(sink)
    sweep_all(routing)
    del sink, queue
    gc.collect()
    assert watch() is None
