"""The same queues with a disk below them: what holds for messages in memory holds for these.

The queues of `test_queue` are durable, most of them, and their messages persistent or not; blocks
of a few messages leave memory for the store or for page files and come back, because a queue is
lazy, may keep nothing, or memory runs low. And the node stops, in order or not: what is persistent
is in its durable queues again.
"""

import itertools
import os
from dataclasses import replace
from random import Random
from typing import Any, Final

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from tests.model.queue_choice import (
    CHANNELS,
    GRAVE,
    NAMES,
    TARGETS,
    TX,
    VERBS,
    WITNESS,
    every,
    rules_of_queues,
)
from tests.model.queue_fact import Rules
from tests.model.queue_model import Model
from tests.model.test_queue import Apply, Queues
from tests.support.machine import Machine
from tests.support.stored_check import check_store, places_away
from tests.support.stored_machine import Limits, StoredMachine
from warren.vhost.change import PolicyDelete, PolicyPut

SEQUENCES: Final = int(os.environ.get("WARREN_TEST_EXAMPLES", "60"))
STEPS: Final = 60
MIXES: Final = ("all", "most", "some", "none")


def limits() -> st.SearchStrategy[Limits]:
    return st.builds(
        Limits,
        resident_octets=st.sampled_from((0, 0, 500, 2000, 1 << 25)),
        block_messages=st.sampled_from((1, 2, 3, 256)),
        ahead=st.sampled_from((1, 2, 2048)),
        ahead_octets=st.sampled_from((1, 300, 1 << 20)),
        journal_kept=st.sampled_from((1, 1000, 1 << 27)),
        journal_file=st.sampled_from((1, 500, 1 << 24)),
        page_file=st.sampled_from((1, 300, 1 << 24)),
        embed_below=st.sampled_from((0, 60, 4096)),
        body_file=st.sampled_from((1, 500, 1 << 24)),
        seed=st.sampled_from((0, 0, 1, 2, 3)),
    )


def rules_of_stored() -> st.SearchStrategy[Rules]:
    kinds = st.sampled_from(((True, False), (True, False), (True, True), (False, False)))
    return st.builds(stored_rules, rules_of_queues(), kinds)


def stored_rules(rules: Rules, kind: tuple[bool, bool]) -> Rules:
    durable, lazy = kind
    return replace(rules, durable=durable, lazy=lazy and not rules.quorum)


class StoredQueues(Queues):
    # Times are stored in microseconds.
    tick_ns = 1000
    rules_of_grave = Rules(durable=True)

    def __init__(self) -> None:
        self.mix = "most"
        self.limits = Limits()
        super().__init__()

    def make_machine(self) -> Machine:
        return StoredMachine(limits=self.limits)

    @property
    def stored(self) -> StoredMachine:
        assert isinstance(self.machine, StoredMachine)
        return self.machine

    def is_persistent(self, number: int) -> bool:
        return {"all": True, "most": number % 4 != 0, "some": number % 3 == 0, "none": False}[
            self.mix
        ]

    def away(self) -> set[tuple[str, int]]:
        found: set[tuple[str, int]] = set()
        for name, queue in self.model.queues.items():
            real = self.machine.vhost.queues[name]
            if real.out_count:
                ranked = sorted(
                    queue.ready, key=lambda entry: (-queue.priority(entry.letter), entry.place)
                )
                flags = places_away(real)
                found |= {
                    (name, entry.place) for entry, away in zip(ranked, flags, strict=True) if away
                }
        return found

    def may_leave(self, away: bool) -> list[frozenset[str]]:
        names = [name for name, queue in self.model.queues.items() if queue.rules.durable]
        sizes = range(0 if away else 1, len(names) + 1)
        return [frozenset(some) for size in sizes for some in itertools.combinations(names, size)]

    def do(self, *arguments: Any, **options: Any) -> None:
        super().do(*arguments, **options)
        check_store(self.stored)

    # -- rules -----------------------------------------------------------------------------------

    @initialize(
        rules=st.tuples(*(rules_of_stored() for _ in NAMES)),
        bound=st.sets(every(("amq.fanout", "amq.direct"), (*NAMES, GRAVE), ("k",))),
        limits=limits(),
        mix=st.sampled_from(MIXES),
    )
    def begin(self, rules: tuple[Rules, ...], bound: Any, limits: Limits, mix: str) -> None:
        self.mix = mix
        self.come_back("stop", limits)
        self.begin_with(rules, bound)

    @rule(
        name=st.sampled_from(NAMES),
        what=every((TX, *CHANNELS), (0, 1, 2, 3), (False, True), (False, True)),
        rules=rules_of_stored(),
    )
    def renew(self, name: str, what: tuple[Any, ...], rules: Rules) -> None:
        self.renew_with(name, what, rules)

    @rule(how=st.sampled_from(("stop", "kill", "power cut")), limits=limits())
    def come_back(self, how: str, limits: Limits) -> None:
        """The node stops in order or not, and is started again; everybody connects anew."""
        if how == "stop":
            for place in range(3):
                self.do(self.drop, place)
        self.limits = limits
        self.do(self.restart, how)
        for place in range(3):
            self.peers.append(self.machine.client())
            self.open_all(place)
        self.do(self.consume, WITNESS, GRAVE, "w", True, False, 0)

    def restart(self, how: str) -> Apply:
        clean = how == "stop"
        if how == "power cut":
            # Everything that was told was synced, so nothing else is different.
            self.number += 1
            self.machine = self.stored.power_cut(Random(self.number), self.limits)
        else:
            self.machine = self.stored.restart(clean=clean, limits=self.limits)
        self.peers = []
        self.machine.turn()
        return lambda model: model.restart(clean=clean)

    @rule(used=st.sampled_from((10, 60, 94, 96, 100)), limit=st.sampled_from((100, 100, 0)))
    def memory_runs_low(self, used: int, limit: int) -> None:
        self.do(self.share_memory, used, limit)

    def share_memory(self, used: int, limit: int) -> Apply:
        self.stored.low_memory(used, limit=limit)
        return lambda model: None

    @rule(low=st.booleans())
    def disk_runs_low(self, low: bool) -> None:
        self.stored.disk_low = low

    @rule(lazy=st.booleans())
    def change_policy(self, lazy: bool) -> None:
        self.do(self.make_lazy, lazy)

    def make_lazy(self, lazy: bool) -> Apply:
        change = PolicyDelete(vhost="/", name="lazy")
        definition = b'{"queue-mode":"lazy"}'
        put = PolicyPut(
            vhost="/", name="lazy", pattern="^[abc]$", definition=definition, apply_to="queues"
        )
        rules = {name: queue.rules for name, queue in self.machine.vhost.queues.items()}
        self.machine.broker.metadata.apply((put if lazy else change,))
        self.machine.turn()
        queues = self.machine.vhost.queues
        touched = [name for name, before in rules.items() if queues[name].rules is not before]

        def apply(model: Model) -> None:
            for name in touched:
                # New rules are a use of the queue.
                model.queues[name].used = model.now

        return apply

    @rule(what=every(CHANNELS, range(3), VERBS[:3], (False, True)), to=st.sampled_from(TARGETS))
    def settle_then_publish(self, what: tuple[Any, ...], to: tuple[str, str]) -> None:
        """Not in one read: what waits on the disk is not handed out before the publish."""
        where, which, (name, verb), multiple = what
        where = self.holder(where)
        self.do(self.settle, where, which, name, verb, multiple)
        self.do(self.publish, where, self.letters(to, 1, 4, None, None, ()), False, False)


TestStoredQueues = pytest.mark.slow(StoredQueues.TestCase)
TestStoredQueues.settings = settings(max_examples=SEQUENCES, stateful_step_count=STEPS)
