"""Which policies apply and what they come to, over any order of changes: against the plainest way.

Objects come and go, policies are set and cleared in the middle of rounds; at the end of a round
everything is as if each object had been matched with every policy by `re`.
"""

import json
import re
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from tests.support.machine import Machine
from warren.protocol.value import table
from warren.vhost.change import (
    ExchangeDelete,
    ExchangePut,
    PolicyDelete,
    PolicyPut,
    QueueDelete,
    QueuePut,
    encoded,
)
from warren.vhost.policy_effect import settings_of
from warren.vhost.policy_force import in_force

NAMES = st.sampled_from(["orders", "order", "reorders.eu", "bills", "x", "amq"])
PATTERNS = st.sampled_from(
    ["", "order", "^order", "s$", r"\.eu$", "orders|bills", "(?i)ORDER", "z"]
)
POLICIES = st.sampled_from(["a", "b", "c"])
BOUNDS = ("message-ttl", "expires", "max-length", "max-length-bytes", "delivery-limit")
WORDS = {
    "overflow": ["drop-head", "reject-publish"],
    "dead-letter-exchange": ["", "x"],
    "queue-mode": ["default", "lazy"],
    "alternate-exchange": ["x", "amq.fanout"],
    "dead-letter-strategy": ["at-most-once"],
    "ha-mode": ["all"],
}
# Keys that make a policy pass over queues of a type.
CLASSIC_ONLY = {"queue-mode", "ha-mode"}
QUORUM_ONLY = {"dead-letter-strategy"}

bounds = st.dictionaries(st.sampled_from(BOUNDS), st.integers(1, 9), max_size=2)
words = st.fixed_dictionaries({}, optional={k: st.sampled_from(v) for k, v in WORDS.items()})
definitions = st.builds(lambda one, two: one | two, bounds, words).filter(bool)
arguments: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.just({}),
    st.just({"x-queue-type": "quorum"}),
    st.fixed_dictionaries(
        {},
        optional={
            "x-max-length": st.integers(1, 9),
            "x-expires": st.integers(1000, 1009),
            "x-overflow": st.sampled_from(WORDS["overflow"]),
            "x-queue-mode": st.sampled_from(WORDS["queue-mode"]),
            "x-unknown": st.just(1),
        },
    ),
)


def fits(definition: dict[str, Any], arguments: dict[str, Any] | None) -> bool:
    """Whether every key is known to the type of a queue; exchanges (None) take all."""
    if arguments is None:
        return True
    refused = CLASSIC_ONLY if arguments.get("x-queue-type") == "quorum" else QUORUM_ONLY
    return not definition.keys() & refused


class Policies(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.machine = Machine()
        self.vhost = self.machine.vhost
        self.policies: dict[tuple[bool, str], PolicyPut] = {}
        self.queues: dict[str, dict[str, Any]] = {}
        self.exchanges: set[str] = set()

    def make(self, change: Any) -> None:
        self.machine.broker.metadata.apply((change,))

    @rule(
        name=POLICIES,
        operator=st.booleans(),
        pattern=PATTERNS,
        definition=definitions,
        priority=st.integers(-1, 1),
        apply_to=st.sampled_from(["queues", "exchanges", "all"]),
    )
    def set_policy(
        self,
        name: str,
        operator: bool,
        pattern: str,
        definition: dict[str, Any],
        priority: int,
        apply_to: str,
    ) -> None:
        if operator:
            definition = {k: v for k, v in definition.items() if k in BOUNDS} or {"max-length": 4}
        put = PolicyPut(
            vhost="/",
            name=name,
            pattern=pattern,
            definition=json.dumps(definition).encode(),
            priority=priority,
            apply_to=apply_to,
            operator=operator,
        )
        self.policies[operator, name] = put
        self.make(put)

    @rule(name=POLICIES, operator=st.booleans())
    def clear_policy(self, name: str, operator: bool) -> None:
        self.policies.pop((operator, name), None)
        self.make(PolicyDelete(vhost="/", name=name, operator=operator))

    @rule(name=NAMES, given=arguments)
    def declare_queue(self, name: str, given: dict[str, Any]) -> None:
        if name not in self.queues:
            self.queues[name] = given
            self.make(QueuePut(vhost="/", name=name, arguments=encoded(table(given))))

    @rule(name=NAMES)
    def delete_queue(self, name: str) -> None:
        self.queues.pop(name, None)
        self.make(QueueDelete(vhost="/", name=name))

    @rule(name=NAMES)
    def declare_exchange(self, name: str) -> None:
        self.exchanges.add(name)
        self.make(ExchangePut(vhost="/", name=name, kind="direct"))

    @rule(name=NAMES)
    def delete_exchange(self, name: str) -> None:
        self.exchanges.discard(name)
        self.make(ExchangeDelete(vhost="/", name=name))

    @rule()
    def go_on(self) -> None:
        self.machine.broker.turn.run()

    @rule()
    def finish(self) -> None:
        while self.machine.broker.turn.run():
            pass
        self.compare()

    def teardown(self) -> None:
        self.finish()

    # What the rules say.

    def applying(
        self, operator: bool, kind: str, name: str, given: dict[str, Any] | None
    ) -> tuple[str, dict[str, Any]]:
        found = [
            (-put.priority, put.name, definition)
            for (of_operator, _), put in self.policies.items()
            if of_operator == operator
            and put.apply_to in (kind, "all")
            and re.search(put.pattern, name)
            and fits(definition := json.loads(put.definition), given)
        ]
        if not found:
            return "", {}
        _, policy, definition = min(found, key=lambda one: one[:2])
        return policy, definition

    def compare(self) -> None:
        assert self.vhost.policies.round is None
        for name, given in self.queues.items():
            queue = self.vhost.queues[name]
            effective = self.check(queue, "queues", name, given)
            wanted = dict(effective)
            for argument, value in given.items():
                key = argument.removeprefix("x-")
                if key in BOUNDS:
                    wanted[key] = min(value, wanted.get(key, value))
                elif key == "overflow" or (key == "queue-mode" and key not in wanted):
                    wanted[key] = value
            applied = in_force(queue)
            decided = settings_of(applied, queue.arguments)
            assert {key: one.value for key, one in decided.items()} == wanted
            rules = queue.rules
            assert rules.max_length == wanted.get("max-length", -1)
            assert rules.expires_ms == wanted.get("expires", -1)
            assert rules.message_ttl_ms == wanted.get("message-ttl", -1)
            assert rules.max_bytes == wanted.get("max-length-bytes", -1)
            assert rules.delivery_limit == wanted.get("delivery-limit", -1)
            assert rules.dead_letter_exchange == wanted.get("dead-letter-exchange")
            assert rules.lazy == (wanted.get("queue-mode") == "lazy")
            assert (rules.overflow == 1) == (wanted.get("overflow") == "reject-publish")
        for name in self.exchanges:
            exchange = self.vhost.routing.exchanges[name]
            effective = self.check(exchange, "exchanges", name, None)
            assert exchange.alternate == effective.get("alternate-exchange")

    def check(self, one: Any, kind: str, name: str, given: dict[str, Any] | None) -> dict[str, Any]:
        policy, definition = self.applying(False, kind, name, given)
        operator, bound = self.applying(True, kind, name, given)
        effective = dict(definition)
        for key, value in bound.items():
            effective[key] = min(value, effective.get(key, value))
        applied = in_force(one)
        assert (applied.policy, applied.operator_policy) == (policy, operator)
        assert applied.effective == effective
        return effective


@pytest.mark.slow
@pytest.mark.rule("PO-1", "PO-2", "PO-3", "PO-4", "PO-5", "PO-8", "PO-9")
class TestPolicies(Policies.TestCase):  # type: ignore[misc, valid-type]
    settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
