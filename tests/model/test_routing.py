"""A plain list of bindings against the routing table, over any order of changes."""

from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from warren.protocol.value import Field, Table, table
from warren.routing import BindingScan, RoutingTable

EXCHANGES = st.sampled_from(["d", "f", "t", "h", "e"])
QUEUES = st.sampled_from(["q", "r", "s"])
KINDS = st.sampled_from(["direct", "fanout", "topic", "headers"])
KEYS = st.sampled_from(["", "a", "a.b", "a.*", "#.b", "q"])
SENT_KEYS = ["", "a", "a.b", "b", "q"]
ARGUMENTS: list[dict[str, object]] = [{}, {"n": 1}, {"x-match": "any", "n": 1, "m": 2}]
SENT_HEADERS: list[dict[str, object]] = [{}, {"n": 1, "m": 3}]


@dataclass
class ModelExchange:
    kind: str
    auto_delete: bool
    alternate: str | None = None


@dataclass(frozen=True)
class ModelBinding:
    source: str
    destination: str
    to_queue: bool
    key: str
    arguments: int


@dataclass
class Model:
    """What the rules say, in the plainest way."""

    queues: set[str] = field(default_factory=set)
    exchanges: dict[str, ModelExchange] = field(default_factory=dict)
    bindings: list[ModelBinding] = field(default_factory=list)

    def remove(self, gone: list[ModelBinding]) -> None:
        sources = {binding.source for binding in gone}
        self.bindings = [binding for binding in self.bindings if binding not in gone]
        for source in sources:
            left = any(binding.source == source for binding in self.bindings)
            if source in self.exchanges and self.exchanges[source].auto_delete and not left:
                self.delete_exchange(source)

    def delete_exchange(self, name: str) -> None:
        del self.exchanges[name]
        self.remove(
            [
                binding
                for binding in self.bindings
                if binding.source == name or (not binding.to_queue and binding.destination == name)
            ]
        )

    def delete_queue(self, name: str) -> None:
        self.queues.remove(name)
        self.remove([b for b in self.bindings if b.to_queue and b.destination == name])

    def route(self, start: str, keys: list[str], headers: dict[str, object]) -> set[str]:
        if not start:
            return {key for key in keys if key in self.queues}
        reached: set[str] = set()
        seen: set[str] = set()
        work = [start]
        while work:
            name = work.pop()
            if name in seen or name not in self.exchanges:
                continue
            seen.add(name)
            exchange = self.exchanges[name]
            hit = [
                binding
                for binding in self.bindings
                if binding.source == name and hits(exchange.kind, binding, keys, headers)
            ]
            reached |= {binding.destination for binding in hit if binding.to_queue}
            work += [binding.destination for binding in hit if not binding.to_queue]
            if not hit and exchange.alternate is not None:
                work.append(exchange.alternate)
        return reached

    def meets_headers(self, start: str) -> bool:
        seen: set[str] = set()
        work = [start]
        while work:
            name = work.pop()
            if name in seen or name not in self.exchanges:
                continue
            seen.add(name)
            work += [b.destination for b in self.bindings if b.source == name and not b.to_queue]
            alternate = self.exchanges[name].alternate
            work += [] if alternate is None else [alternate]
        return any(self.exchanges[name].kind == "headers" for name in seen)


def hits(kind: str, binding: ModelBinding, keys: list[str], headers: dict[str, object]) -> bool:
    if kind == "fanout":
        return True
    if kind == "direct":
        return binding.key in keys
    if kind == "topic":
        return any(topic_matches(binding.key, key) for key in keys)
    arguments = dict(ARGUMENTS[binding.arguments])
    mode = arguments.pop("x-match", "all")
    equal = [headers.get(name) == value for name, value in arguments.items()]
    return any(equal) if mode == "any" else all(equal)


def topic_matches(pattern: str, key: str) -> bool:
    words = key.split(".") if key else []
    if pattern == "a.*":
        return len(words) == 2 and words[0] == "a"
    if pattern == "#.b":
        return bool(words) and words[-1] == "b"
    return pattern == key


def arguments_of(number: int) -> Table:
    return table(ARGUMENTS[number])


class Routing(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.table = RoutingTable("v")
        self.model = Model()
        # Routes as a route cache would keep them: (exchange, keys, headers) -> version, queues.
        self.cached: dict[tuple[str, str, int], tuple[int, set[str]]] = {}

    def swept(self, limit: int) -> None:
        for _ in range(1000):
            swept = self.table.sweep(limit)
            assert len(swept.bindings) <= limit
            if swept.done:
                return
        raise AssertionError("the sweep does not end")

    @rule(name=EXCHANGES, kind=KINDS, auto_delete=st.booleans())
    def declare(self, name: str, kind: str, auto_delete: bool) -> None:
        if name not in self.model.exchanges:
            self.table.declare_exchange(name, kind, auto_delete=auto_delete)
            self.model.exchanges[name] = ModelExchange(kind, auto_delete)

    @rule(name=EXCHANGES, limit=st.integers(1, 4))
    def delete_exchange(self, name: str, limit: int) -> None:
        existed = name in self.model.exchanges
        assert self.table.delete_exchange(name) == existed
        if existed:
            self.model.delete_exchange(name)
        self.swept(limit)

    @rule(name=QUEUES)
    def add_queue(self, name: str) -> None:
        if name not in self.model.queues:
            self.table.add_queue(name, name)
            self.model.queues.add(name)

    @precondition(lambda self: self.model.queues)
    @rule(data=st.data(), limit=st.integers(1, 4))
    def remove_queue(self, data: st.DataObject, limit: int) -> None:
        name = data.draw(st.sampled_from(sorted(self.model.queues)))
        self.table.remove_queue(self.table.sinks[name])
        self.model.delete_queue(name)
        self.swept(limit)

    def draw_binding(self, data: st.DataObject) -> ModelBinding:
        to_queue = data.draw(st.booleans())
        ends = sorted(self.model.queues if to_queue else self.model.exchanges)
        return ModelBinding(
            source=data.draw(st.sampled_from(sorted(self.model.exchanges))),
            destination=data.draw(st.sampled_from(ends)) if ends else "none",
            to_queue=to_queue and bool(ends),
            key=data.draw(KEYS),
            arguments=data.draw(st.integers(0, len(ARGUMENTS) - 1)),
        )

    @precondition(lambda self: self.model.exchanges)
    @rule(data=st.data())
    def bind(self, data: st.DataObject) -> None:
        made = self.draw_binding(data)
        if made.destination == "none":
            return
        new = self.table.bind(
            made.source,
            made.destination,
            made.key.encode(),
            arguments_of(made.arguments),
            to_queue=made.to_queue,
        )
        assert new == (made not in self.model.bindings)
        if new:
            self.model.bindings.append(made)

    @precondition(lambda self: self.model.exchanges)
    @rule(data=st.data(), existing=st.booleans())
    def unbind(self, data: st.DataObject, existing: bool) -> None:
        if existing and self.model.bindings:
            gone = data.draw(st.sampled_from(self.model.bindings))
        else:
            gone = self.draw_binding(data)
        found = self.table.unbind(
            gone.source,
            gone.destination,
            gone.key.encode(),
            arguments_of(gone.arguments),
            to_queue=gone.to_queue,
        )
        assert found == (gone in self.model.bindings)
        if found:
            self.model.remove([gone])
        self.swept(2)

    @precondition(lambda self: self.model.exchanges)
    @rule(data=st.data(), alternate=st.sampled_from([None, "d", "f", "t", "h", "e"]))
    def set_alternate(self, data: st.DataObject, alternate: str | None) -> None:
        name = data.draw(st.sampled_from(sorted(self.model.exchanges)))
        self.table.set_policy_alternate(self.table.exchange(name), alternate)
        self.model.exchanges[name].alternate = alternate

    def route(self, name: str, keys: list[str], headers: int) -> set[str]:
        found = self.table.route(
            self.table.exchange(name),
            keys[0].encode(),
            [key.encode() for key in keys[1:]] or None,
            table(SENT_HEADERS[headers]),
        )
        targets = [str(sink.target) for sink in found]
        assert len(targets) == len(set(targets))
        return set(targets)

    @rule(cc=st.sampled_from(SENT_KEYS), headers=st.integers(0, 1))
    def publish_with_cc(self, cc: str, headers: int) -> None:
        for name in ["", *self.model.exchanges]:
            expected = self.model.route(name, ["a", cc], SENT_HEADERS[headers])
            assert self.route(name, ["a", cc], headers) == expected

    @invariant()
    def routes_agree_and_cached_ones_are_valid(self) -> None:
        version = int(self.table.version)
        for name in ["", *self.model.exchanges]:
            for key in SENT_KEYS:
                for headers in range(len(SENT_HEADERS)):
                    found = self.route(name, [key], headers)
                    assert found == self.model.route(name, [key], SENT_HEADERS[headers])
                    cached = self.cached.get((name, key, headers))
                    if cached is not None and cached[0] == version:
                        assert cached[1] == found
                    self.cached[name, key, headers] = (version, found)

    @invariant()
    def exchanges_and_bindings_agree(self) -> None:
        assert set(self.table.exchanges) == {"", *self.model.exchanges}
        listed = [
            (row.source, row.destination, row.to_queue, row.key, frozen(row.arguments))
            for row in BindingScan(self.table).step(10_000)
        ]
        expected = [
            (b.source, b.destination, b.to_queue, b.key, frozen(arguments_of(b.arguments)))
            for b in self.model.bindings
        ]
        expected += [("", name, True, name, frozenset()) for name in self.model.queues]
        assert len(listed) == len(expected)
        assert set(listed) == set(expected)

    @invariant()
    def headers_are_needed_where_a_headers_exchange_is_reachable(self) -> None:
        for name in self.model.exchanges:
            needed = self.table.needs_headers(self.table.exchange(name))
            assert needed == self.model.meets_headers(name)


def frozen(arguments: Table) -> frozenset[tuple[str, Field]]:
    return frozenset(arguments.items())


@pytest.mark.slow
@pytest.mark.rule("XC-2", "XC-5", "XC-6", "XC-8", "EE-1", "EE-2", "PB-4")
class TestRouting(Routing.TestCase):  # type: ignore[misc, valid-type]
    settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
