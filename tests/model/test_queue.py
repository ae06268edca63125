"""Queues with rules, step by step against `queue_model`: the sum of spec sections 5 and 6.

Two clients with two channels each (the second with confirms) do what they like with three queues;
a third client reads the grave, where dead letters may go, and publishes in transactions. After each
step everything that anybody was sent is compared, and so are the counts of every queue; at the end
all queues are read empty. Time is the model's: each step is a nanosecond later than the one before,
so that nothing is due at the same time by accident.
"""

import itertools
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tests.model.queue_choice import (
    CHANNELS,
    CONFIRMS,
    GRAVE,
    MISSING,
    NAMES,
    TARGETS,
    TX,
    VERBS,
    WITNESS,
    every,
    rules_of_queues,
)
from tests.model.queue_fact import Letter, Rules, Seen, Where
from tests.model.queue_model import MS, Model, Reply
from tests.model.queue_state import Channel as ModelChannel
from tests.model.queue_state import Mismatch, Queue
from tests.model.queue_wire import fields_of, octets_of, seen_of
from tests.support.machine import Machine, Peer, method
from warren.queues.outlet import ROOM_AFTER_NS

SEQUENCES: Final = int(os.environ.get("WARREN_TEST_EXAMPLES", "150"))
STEPS: Final = 60
# What is tried to explain one step.
TRIES: Final = 5000

# What an action gives back: the same for the model.
Apply = Callable[[Model], None]
Answers = dict[Where, dict[int, bool]]


class Queues(RuleBasedStateMachine):
    # How much later each step is than the one before.
    tick_ns = 1
    rules_of_grave = Rules()

    def __init__(self) -> None:
        super().__init__()
        self.machine = self.make_machine()
        self.model = Model(self.machine.clock.now_ns, self.target_order)
        self.peers: list[Peer] = []
        # The last delivery tag of each channel.
        self.tags: dict[Where, int] = {}
        self.number = 0
        self.failed = False
        for place in range(3):
            self.peers.append(self.machine.client())
            self.open_all(place)
        self.do(self.declare, WITNESS, GRAVE, self.rules_of_grave)
        self.do(self.consume, WITNESS, GRAVE, "w", True, False, 0)

    def make_machine(self) -> Machine:
        return Machine()

    def is_persistent(self, number: int) -> bool:
        return False

    def away(self) -> set[tuple[str, int]]:
        """The messages that are on the disk only, by queue and place."""
        return set()

    def may_leave(self, away: bool) -> list[frozenset[str]]:
        """Sets of queues whose messages may leave memory in the middle of a step."""
        return []

    def open_all(self, place: int) -> None:
        for where in (*CHANNELS, WITNESS, TX):
            if where[0] == place:
                self.open(where)

    def open(self, where: Where) -> None:
        peer, number = self.peers[where[0]], where[1]
        peer.channel(number)
        confirms = where in CHANNELS and number == CONFIRMS
        if confirms:
            assert peer.call(number, "confirm.select").name == "confirm.select-ok"
        if where == TX:
            assert peer.call(number, "tx.select").name == "tx.select-ok"
        self.model.channels[where] = ModelChannel(confirms)
        self.tags[where] = 0

    def target_order(self, exchange: str, keys: tuple[str, ...]) -> list[str]:
        routing = self.machine.vhost.routing
        octets = [key.encode() for key in keys]
        found = routing.route(routing.exchanges[exchange], octets[0], octets[1:], {})
        return [sink.name for sink in found]

    # -- one step --------------------------------------------------------------------------------

    def do(
        self, action: Callable[..., Apply | tuple[Apply, ...]], *arguments: Any, after_ns: int = -1
    ) -> None:
        """Do it, see what everybody is sent, and find the order of queues that explains it."""
        self.failed = True
        clock = self.machine.clock
        clock.now_ns += after_ns if after_ns >= 0 else self.tick_ns
        self.machine.broker.turn.now_ns = clock.now_ns
        away = self.away()
        applies = action(*arguments)
        if not isinstance(applies, tuple):
            applies = (applies,)
        seen, told, answers = self.collect()
        failures: list[Mismatch] = []
        # Most often what was seen first was done first.
        likely = list(dict.fromkeys(self.queue_of(each) for each in seen))
        orders = [likely, *map(list, itertools.permutations(self.model.queues))]
        for apply, turns in itertools.product(applies, orders):
            model = self.model.step(seen, turns)
            model.now = clock.now_ns
            model.away = set(away)
            try:
                apply(model)
                model.settle()
                compare(model, told, answers)
                self.counts_agree(model)
                break
            except Mismatch as mismatch:
                failures.append(mismatch)
        else:
            found = self.explain(applies, seen, away, told, answers)
            if found is None:
                raise failures[0]
            model = found
        self.model = model
        self.failed = False
        for where, name, _ in told:
            if name == "channel.close":
                self.peers[where[0]].send(where[1], "channel.close-ok")
            if name.startswith("channel.close"):
                self.open(where)

    def explain(
        self,
        applies: tuple[Apply, ...],
        seen: list[Seen],
        away: set[tuple[str, int]],
        told: list[Reply],
        answers: Answers,
    ) -> Model | None:
        """When queues wait for the disk, what several of them do comes in any order."""

        def check(model: Model) -> None:
            compare(model, told, answers)
            self.counts_agree(model)

        for slow, apply in itertools.product(self.may_leave(bool(away)), applies):
            model = self.model.step(seen, [])
            model.now = self.machine.clock.now_ns
            model.away = set(away)
            model.slow = slow
            with suppress(Mismatch):
                apply(model)
                found = model.explain(check, [TRIES])
                if found is not None:
                    return found
        return None

    def queue_of(self, seen: Seen) -> str:
        consumer = self.model.channels[seen.where].consumers.get(seen.consumer_tag)
        return consumer.queue if consumer is not None else ""

    def collect(self) -> tuple[list[Seen], list[Reply], Answers]:
        """Sort everything that came by deliveries, confirms and the rest."""
        seen: list[Seen] = []
        told: list[Reply] = []
        answers: Answers = {}
        for place, peer in enumerate(self.peers):
            for event in peer.take_all():
                where = (place, event.channel)
                if event.name in ("basic.deliver", "basic.get-ok"):
                    self.tags[where] += 1
                    assert event.delivery_tag == self.tags[where], event
                if event.name == "basic.deliver":
                    seen.append(seen_of(where, event))
                elif event.name in ("basic.ack", "basic.nack"):
                    self.answer(where, event, answers.setdefault(where, {}))
                else:
                    told.append((where, event.name, fields_of(event)))
        return seen, told, answers

    def answer(self, where: Where, event: Any, answers: dict[int, bool]) -> None:
        """CO-3, CO-4: one answer for each publish; multiple covers all that are still open."""
        first = self.model.channels[where].published + 1
        still_open = [each for each in range(first, event.delivery_tag + 1) if each not in answers]
        assert event.delivery_tag in still_open, f"{event} answers what has its answer"
        for number in still_open if event.multiple else (event.delivery_tag,):
            answers[number] = event.name == "basic.ack"

    def counts_agree(self, model: Model) -> None:
        queues = self.machine.vhost.queues
        if set(queues) != set(model.queues):
            raise Mismatch(f"the queues are {set(queues)} instead of {set(model.queues)}")
        outs = [out for each in model.channels.values() for out in each.out.values()]
        for name, queue in model.queues.items():
            unacked = sum(out.incarnation == queue.incarnation for out in outs)
            real = queues[name]
            found = (real.ready(), real.unacked_count, real.ready_bytes, len(real.consumers.every))
            expected = (len(queue.ready), unacked, queue.bytes(), len(queue.consumers))
            if found != expected:
                what = "ready, unacked, octets, consumers"
                raise Mismatch(f"{name}: {what} are {found} instead of {expected}")

    def feed(self, where: Where, *octets: bytes) -> None:
        self.peers[where[0]].feed(*octets)

    # -- what can be done, at the broker and at the model ----------------------------------------

    def declare(self, where: Where, name: str, rules: Rules) -> Apply:
        if name in self.model.queues:
            rules = self.model.queues[name].rules
        arguments, durable = rules.arguments(), rules.quorum or rules.durable
        options = {"durable": durable, "auto_delete": rules.auto_delete, "arguments": arguments}
        self.feed(where, method(where[1], "queue.declare", queue=name, **options))
        return lambda model: model.declare(where, name, rules)

    def bind(self, where: Where, name: str, exchange: str, key: str, gone: bool) -> Apply:
        verb = "queue.unbind" if gone else "queue.bind"
        ends = {"queue": name, "exchange": exchange, "routing_key": key}
        self.feed(where, method(where[1], verb, **ends))

        def apply(model: Model) -> None:
            (model.bindings.discard if gone else model.bindings.add)((exchange, name, key))
            model.tell(where, verb + "-ok")

        return apply

    def publish(
        self, where: Where, letters: list[Letter], mandatory: bool, split: bool, before: bytes = b""
    ) -> Apply:
        """Publish in one read, or in two of which the first ends within a header."""
        octets = b"".join(octets_of(where[1], letter, mandatory) for letter in letters)
        if where == TX:
            octets += method(where[1], "tx.commit")
        octets = before + octets
        self.feed(where, *((octets[:60], octets[60:]) if split else (octets,)))

        def apply(model: Model) -> None:
            taken = [model.publish(where, letter, mandatory=mandatory) for letter in letters]
            if where == TX and all(taken):
                model.tell(where, "tx.commit-ok")
            elif where == TX:
                model.fail(where, 406)

        return apply

    def get(self, where: Where, name: str, no_ack: bool) -> Apply:
        tag = self.tags[where] + 1
        self.feed(where, method(where[1], "basic.get", queue=name, no_ack=no_ack))
        return lambda model: model.get(where, name, tag, no_ack=no_ack)

    def consume(
        self, where: Where, name: str, tag: str, no_ack: bool, exclusive: bool, priority: int
    ) -> Apply:
        options: dict[str, Any] = {"no_ack": no_ack, "exclusive": exclusive}
        words = {"queue": name, "consumer_tag": tag, "arguments": {"x-priority": priority}}
        self.feed(where, method(where[1], "basic.consume", **words, **options))
        return lambda model: model.consume(where, name, tag, priority=priority, **options)

    def cancel(self, where: Where, tag: str) -> Apply:
        self.feed(where, method(where[1], "basic.cancel", consumer_tag=tag))

        def apply(model: Model) -> None:
            consumer = model.channels[where].consumers.get(tag)
            model.tell(where, "basic.cancel-ok", consumer_tag=tag)
            if consumer is not None:
                model.remove_consumer(consumer)

        return apply

    def qos(self, where: Where, count: int, whole_channel: bool) -> Apply:
        options = {"prefetch_count": count, "global_": whole_channel}
        self.feed(where, method(where[1], "basic.qos", **options))
        # The room is filled a little later, to be read behind the answer.
        self.machine.clock.now_ns += ROOM_AFTER_NS
        self.machine.turn()
        return lambda model: model.qos(where, count, whole_channel=whole_channel)

    def settlement(
        self, where: Where, which: int, name: str, verb: str, multiple: bool
    ) -> tuple[bytes, Apply]:
        """The octets that settle one or several of what is out, or nothing if it is too little."""
        tags = list(self.model.channels[where].out)
        tag = tags[which % len(tags)] if tags else 0
        options: dict[str, Any] = {"delivery_tag": tag}
        chosen = [tag]
        if name != "basic.reject":
            options["multiple"] = multiple or not tags
            chosen = [each for each in tags if each <= tag] if multiple else chosen
            if multiple and which == 0:
                # Tag 0 stands for all.
                options["delivery_tag"], chosen = 0, tags
        if name != "basic.ack":
            options["requeue"] = verb == "requeue"
        if not tags:
            chosen = []
        octets = method(where[1], name, **options) if tags or name != "basic.reject" else b""
        return octets, lambda model: model.finish(where, chosen, verb)

    def settle(self, where: Where, *arguments: Any) -> Apply:
        octets, apply = self.settlement(where, *arguments)
        if octets:
            self.feed(where, octets)
        return apply

    def settle_and_publish(self, where: Where, arguments: tuple[Any, ...], letter: Letter) -> Apply:
        """In one read: when it matters, what is settled has had its effect before the publish."""
        octets, first = self.settlement(where, *arguments)
        second = self.publish(where, [letter], False, False, before=octets)

        def apply(model: Model) -> None:
            first(model)
            second(model)

        return apply

    def recover(self, where: Where) -> Apply:
        self.feed(where, method(where[1], "basic.recover", requeue=True))

        def apply(model: Model) -> None:
            model.tell(where, "basic.recover-ok")
            model.finish(where, list(model.channels[where].out), "requeue")

        return apply

    def mistake(self, where: Where, kind: str) -> Apply:
        """A channel exception, or the end of the channel by its client."""
        if kind == "ack":
            self.feed(where, method(where[1], "basic.ack", delivery_tag=1 << 40))
            return lambda model: model.fail(where, 406)
        if kind == "get":
            self.feed(where, method(where[1], "basic.get", queue=MISSING))
            return lambda model: model.fail(where, 404)
        self.feed(where, method(where[1], "channel.close"))

        def apply(model: Model) -> None:
            model.end_channel(where)
            model.tell(where, "channel.close-ok")

        return apply

    def drop(self, place: int) -> tuple[Apply, ...]:
        """The connection of a client is gone; which of its channels ends first is left open."""
        self.peers[place].drop()
        self.machine.turn()

        def apply(order: tuple[Where, ...], model: Model) -> None:
            for where in order:
                model.stop_consuming(where)
            for where in order:
                model.end_channel(where)

        ended = [where for where in self.model.channels if where[0] == place]
        return tuple(partial(apply, order) for order in itertools.permutations(ended))

    def purge(self, where: Where, name: str) -> Apply:
        self.feed(where, method(where[1], "queue.purge", queue=name))
        return lambda model: model.purge(where, name)

    def delete(self, where: Where, name: str, if_unused: bool, if_empty: bool) -> Apply:
        options = {"if_unused": if_unused, "if_empty": if_empty}
        self.feed(where, method(where[1], "queue.delete", queue=name, **options))
        return lambda model: model.remove(where, name, **options)

    def wait(self) -> Apply:
        self.machine.turn()
        return lambda model: None

    # -- rules -----------------------------------------------------------------------------------

    @initialize(
        rules=st.tuples(*(rules_of_queues() for _ in NAMES)),
        bound=st.sets(every(("amq.fanout", "amq.direct"), (*NAMES, GRAVE), ("k",))),
    )
    def begin(self, rules: tuple[Rules, ...], bound: set[tuple[str, str, str]]) -> None:
        self.begin_with(rules, bound)

    def begin_with(self, rules: tuple[Rules, ...], bound: set[tuple[str, str, str]]) -> None:
        for place, (name, each) in enumerate(zip(NAMES, rules, strict=True)):
            self.declare_with(TX, name, each, place)
        for exchange, name, key in sorted(bound):
            self.do(self.bind, WITNESS, name, exchange, key, False)

    def declare_with(self, where: Where, name: str, rules: Rules, place: int) -> None:
        """The lives of messages differ by queue, so that it is known who comes first."""
        if rules.ttl_ms:
            rules = Rules(**{each: getattr(rules, each) for each in Rules.__slots__} | {
                "ttl_ms": rules.ttl_ms + place})  # fmt: skip
        self.do(self.declare, where, name, rules)

    def letters(
        self, target: tuple[str, str], count: int, size: int, priority: int | None,
        expiration: str | None, extra: tuple[str, ...],
    ) -> list[Letter]:  # fmt: skip
        if target[0] or extra:
            # Queues that would let it die at the same time would do so in any order.
            expiration = None
        found = []
        for _ in range(count):
            self.number += 1
            cc, bcc = extra[:1], extra[1:]
            letter = Letter(self.number, *target, size, priority, expiration, cc, bcc)
            found.append(replace(letter, persistent=self.is_persistent(self.number)))
        return found

    @rule(
        way=every((*CHANNELS, TX), (False, False, True), (False, True)),
        what=every(TARGETS, (1, 1, 2, 4), (1, 0, 4, 7), (None, None, 0, 1, 2, 9),
                   (None, None, None, "0", "4", "11"),
                   ((), (), (), (), ("b",), (GRAVE, "c"))),
    )  # fmt: skip
    def some_publish(self, way: tuple[Any, ...], what: tuple[Any, ...]) -> None:
        where, mandatory, split = way
        self.do(self.publish, where, self.letters(*what), mandatory, split)

    @rule(
        where=st.sampled_from(CHANNELS),
        what=every(TARGETS, (1, 2, 3), (1, 4), (None, 1, 3), (None, None, "0", "4"), ((),)),
    )
    def more_publishes(self, where: Where, what: tuple[Any, ...]) -> None:
        self.do(self.publish, where, self.letters(*what), False, False)

    @rule(what=every(CHANNELS, NAMES, (False, False, True), (0, 0, 0, 4, 6, 21)))
    def some_get(self, what: tuple[Any, ...]) -> None:
        where, name, no_ack, late_ms = what
        if name not in self.model.queues:
            return
        self.do(self.get, where, name, no_ack, after_ns=self.lateness(name, late_ms))

    def lateness(self, name: str, late_ms: int) -> int:
        """How late the broker may look at its clock without it being open what is due first."""
        now = self.machine.clock.now_ns
        due = self.due(now + late_ms * MS)
        queue = self.model.queues[name]
        if set(due) - {name} or self.model.unused_at(queue) <= now + late_ms * MS:
            return self.tick_ns
        return late_ms * MS + self.tick_ns

    def due(self, at_ns: int) -> dict[str, int]:
        events = {name: self.model.next_event(queue) for name, queue in self.model.queues.items()}
        return {name: event for name, event in events.items() if event <= at_ns}

    @rule(what=every(CHANNELS, NAMES, ("x", "y"), (False, False, False, True),
                     (False,) * 7 + (True,), (0, 0, 0, 5, -1)))  # fmt: skip
    def some_consume(self, what: tuple[Any, ...]) -> None:
        where, name, tag = what[:3]
        channel, queue = self.model.channels[where], self.model.queues.get(name)
        if tag in channel.consumers or queue is None or (queue.rules.quorum and channel.limit):
            return
        self.do(self.consume, *what)

    @rule(what=every(CHANNELS, ("x", "y")))
    def some_cancel(self, what: tuple[Any, ...]) -> None:
        self.do(self.cancel, *what)

    @rule(what=every(CHANNELS, (1, 2, 3, 0), (False, False, False, True)))
    def some_qos(self, what: tuple[Any, ...]) -> None:
        while self.due(self.machine.clock.now_ns + ROOM_AFTER_NS + 1):
            self.let_time_pass(1, False)
        self.do(self.qos, *what)

    def holder(self, where: Where) -> Where:
        """This channel, or the next one that has something out."""
        start = CHANNELS.index(where)
        order = CHANNELS[start:] + CHANNELS[:start]
        return next((each for each in order if self.model.channels[each].out), where)

    @rule(what=every(CHANNELS, range(5), VERBS, (False, False, True)))
    def some_settle(self, what: tuple[Any, ...]) -> None:
        where, which, (name, verb), multiple = what
        self.do(self.settle, self.holder(where), which, name, verb, multiple)

    @rule(what=every(CHANNELS, range(5), VERBS, (False, False, True)))
    def more_settling(self, what: tuple[Any, ...]) -> None:
        self.some_settle(what)

    @rule(what=every(CHANNELS, range(3), VERBS[:3], (False, True)),
          to=st.sampled_from(TARGETS))  # fmt: skip
    def settle_then_publish(self, what: tuple[Any, ...], to: tuple[str, str]) -> None:
        where, which, (name, verb), multiple = what
        where = self.holder(where)
        letter = self.letters(to, 1, 4, None, None, ())[0]
        self.do(self.settle_and_publish, where, (which, name, verb, multiple), letter)

    @rule(where=st.sampled_from(CHANNELS), how=st.sampled_from(("recover",) * 3 + (
          "ack", "get", "close", "drop")))  # fmt: skip
    def give_back(self, where: Where, how: str) -> None:
        where = self.holder(where)
        if how == "recover":
            self.do(self.recover, where)
        elif how == "drop":
            self.do(self.drop, where[0])
            self.peers[where[0]] = self.machine.client()
            self.open_all(where[0])
        else:
            self.do(self.mistake, where, how)

    @rule(name=st.sampled_from(NAMES), what=every((TX, *CHANNELS), (0, 1, 2, 3), (False, True),
          (False, True)), rules=rules_of_queues())  # fmt: skip
    def renew(self, name: str, what: tuple[Any, ...], rules: Rules) -> None:
        self.renew_with(name, what, rules)

    def renew_with(self, name: str, what: tuple[Any, ...], rules: Rules) -> None:
        """Purge, delete, declare again."""
        where, way, if_unused, if_empty = what
        if way == 0 and name in self.model.queues:
            self.do(self.purge, where, name)
        if way == 1 and where != TX:
            self.do(self.delete, where, name, if_unused, if_empty)
        self.declare_with(where, name, rules, NAMES.index(name))

    @rule(what=every((*NAMES, GRAVE), ("amq.fanout", "amq.direct"), (False, False, True)))
    def some_bind(self, what: tuple[Any, ...]) -> None:
        name, exchange, gone = what
        if name in self.model.queues:
            self.do(self.bind, TX, name, exchange, "k", gone)

    @rule(milliseconds=st.sampled_from((1, 4, 5, 6, 11, 20, 25, 60, 201, 1000, 1501)),
          jump=st.booleans())  # fmt: skip
    def let_time_pass(self, milliseconds: int, jump: bool) -> None:
        """Stop at every event, or jump over those that cannot come in another order."""
        end = self.machine.clock.now_ns + milliseconds * MS
        while due := self.due(end):
            queues = [self.model.queues[name] for name in due]
            if jump and (len(due) == 1 or not any(may_move(queue) for queue in queues)):
                break
            now = self.machine.clock.now_ns
            self.do(self.wait, after_ns=min(due.values()) - now)
        self.do(self.wait, after_ns=end - self.machine.clock.now_ns)

    def teardown(self) -> None:
        """Read every queue empty: what is left is what ought to be left."""
        if self.failed:
            return
        for name in self.model.queues:
            while self.model.queues[name].ready:
                self.do(self.get, TX, name, True)


def may_move(queue: Queue) -> bool:
    return queue.rules.dlx is not None


def compare(model: Model, told: list[Reply], answers: Answers) -> None:
    if model.seen:
        raise Mismatch(f"ought not to be delivered: {model.seen}")
    for where in model.channels:
        expected = [(name, fields) for at, name, fields in model.told if at == where]
        found = [(name, fields) for at, name, fields in told if at == where]
        if len(expected) != len(found) or not all(
            name == other and all(shown.get(key) == fields[key] for key in fields)
            for (name, fields), (other, shown) in zip(expected, found, strict=True)
        ):
            raise Mismatch(f"{where} was told {found} instead of {expected}")
    if answers != model.answers:
        raise Mismatch(f"confirms {answers} instead of {model.answers}")


TestQueues = pytest.mark.slow(Queues.TestCase)
TestQueues.settings = settings(max_examples=SEQUENCES, stateful_step_count=STEPS)
