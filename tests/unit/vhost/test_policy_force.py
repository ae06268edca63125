"""Policies in force: rounds in slices, superseded, with objects that come and go meanwhile."""

import pytest

from tests.support.machine import Machine
from warren.queues.rules import REJECT_PUBLISH
from warren.vhost import VHost, change
from warren.vhost.change import (
    Change,
    ExchangeDelete,
    ExchangePut,
    PolicyDelete,
    PolicyPut,
    QueueDelete,
    QueuePut,
    VHostDelete,
    VHostPut,
)
from warren.vhost.policy_force import SLICE_MAX, in_force

COUNT = 3 * SLICE_MAX


class Place:
    """A vhost whose chores go on only when they are told to."""

    def __init__(self) -> None:
        self.machine = Machine()
        self.broker = self.machine.broker
        self.vhost: VHost = self.machine.vhost

    def make(self, *changes: Change) -> None:
        self.broker.metadata.apply(changes)

    def queues(self, *names: str) -> None:
        self.make(*[QueuePut(vhost="/", name=name) for name in names])

    def set(self, name: str, definition: str, pattern: str = "", **more: object) -> None:
        self.make(
            change.PolicyPut(
                vhost="/",
                name=name,
                pattern=pattern,
                definition=definition.encode(),
                **more,  # type: ignore[arg-type]
            )
        )

    def clear(self, name: str) -> None:
        self.make(PolicyDelete(vhost="/", name=name))

    def step(self) -> None:
        self.broker.turn.run()

    def finish(self) -> None:
        while self.broker.turn.run():
            pass
        assert self.vhost.policies.round is None
        assert self.broker.turn.chores == []

    def policy_of(self, queue: str) -> str:
        return in_force(self.vhost.queues[queue]).policy

    def limits(self) -> list[int]:
        return [int(queue.rules.max_length) for queue in self.vhost.queues.values()]


@pytest.fixture
def place() -> Place:
    return Place()


@pytest.mark.rule("PO-8")
def test_a_round_goes_in_slices_and_says_what_is_in_force_meanwhile(place: Place) -> None:
    place.queues(*[f"q{number}" for number in range(COUNT)])
    place.set("p", '{"max-length":5}')
    assert set(place.limits()) == {-1}
    place.step()
    assert place.limits().count(5) == SLICE_MAX
    reached = [place.policy_of(name) for name in place.vhost.queues]
    assert (reached.count("p"), reached.count("")) == (SLICE_MAX, COUNT - SLICE_MAX)
    place.finish()
    assert set(place.limits()) == {5}
    exchanges = len(place.vhost.routing.exchanges)
    done = [fields for _, name, fields in place.machine.log.events if name == "policies.applied"]
    # Exchanges are under it as well; no route of theirs has changed.
    assert done == [{"vhost": "/", "changed": COUNT}]
    assert {in_force(one).policy for one in place.vhost.routing.exchanges.values()} == {"p"}
    assert exchanges > 5


@pytest.mark.rule("PO-9")
def test_a_queue_that_comes_during_a_round_is_under_the_new_policies_at_once(place: Place) -> None:
    place.queues(*[f"q{number}" for number in range(COUNT)])
    place.set("p", '{"max-length":5}')
    place.step()
    place.queues("late")
    assert place.policy_of("late") == "p"
    assert place.vhost.queues["late"].rules.max_length == 5
    place.finish()


@pytest.mark.rule("PO-8")
def test_a_change_during_a_round_supersedes_it(place: Place) -> None:
    place.queues(*[f"q{number}" for number in range(COUNT)])
    place.set("p", '{"max-length":5}')
    place.step()
    place.set("p", '{"max-length":6}')
    assert len(place.broker.turn.chores) == 1
    place.step()
    # What the round comes to gets the newest; what it has passed follows in the next.
    assert (place.limits().count(6), place.limits().count(5)) == (SLICE_MAX, SLICE_MAX)
    place.queues("late")
    place.clear("p")
    place.finish()
    assert set(place.limits()) == {-1}
    assert {place.policy_of(name) for name in place.vhost.queues} == {""}


def test_changes_that_never_end_do_not_keep_a_round_from_its_end(place: Place) -> None:
    place.queues(*[f"q{number}" for number in range(COUNT)])
    for length in range(20):
        place.set("p", f'{{"max-length":{length}}}')
        place.step()
    assert -1 not in place.limits()
    place.finish()
    assert set(place.limits()) == {19}


def test_changes_before_a_round_has_begun_do_not_prolong_it(place: Place) -> None:
    place.queues(*[f"q{number}" for number in range(10)])
    for length in range(20):
        place.set("p", f'{{"max-length":{length}}}')
    round_ = place.vhost.policies.round
    assert round_ is not None
    seen = [round_.again]
    place.queues("new")
    place.set("p", '{"max-length":7}')
    assert [*seen, round_.again] == [False, True]
    place.finish()
    assert set(place.limits()) == {7}


def test_queues_that_go_and_come_again_during_a_round(place: Place) -> None:
    names = [f"q{number}" for number in range(COUNT)]
    place.queues(*names)
    place.set("p", '{"max-length":5}')
    place.make(*[QueueDelete(vhost="/", name=name) for name in names[:10]])
    old = place.vhost.queues[names[10]]
    place.make(QueueDelete(vhost="/", name=names[10]))
    place.queues(names[10])
    place.finish()
    assert old.rules.max_length == -1
    assert set(place.limits()) == {5}
    assert len(place.vhost.queues) == COUNT - 10


def test_a_vhost_that_goes_ends_its_round(place: Place) -> None:
    place.make(VHostPut(name="v"))
    vhost = place.broker.vhosts["v"]
    place.make(*[QueuePut(vhost="v", name=f"q{number}") for number in range(COUNT)])
    place.make(PolicyPut(vhost="v", name="p", pattern="", definition=b'{"max-length":5}'))
    place.step()
    place.make(VHostDelete(name="v"), VHostPut(name="v"))
    while place.broker.turn.run():
        pass
    assert vhost.policies.round is None
    assert place.broker.vhosts["v"].policies.book.all(operator=False) == []
    assert "policies.applied" not in place.machine.log.names()


@pytest.mark.rule("PO-8")
def test_rules_are_given_only_when_they_are_others(place: Place) -> None:
    place.queues("q")
    place.set("p", '{"expires":1000,"max-length":5}')
    place.finish()
    rules = place.vhost.queues["q"].rules
    place.set("p", '{"max-length":5,"expires":1000}', priority=9)
    place.set("other", '{"expires":1000,"max-length":5}', priority=10)
    place.finish()
    assert place.vhost.queues["q"].rules is rules
    assert place.policy_of("q") == "other"
    place.set("p", '{"max-length":4}', operator=True)
    place.finish()
    assert place.vhost.queues["q"].rules.max_length == 4


def test_a_policy_set_as_it_was_begins_no_round(place: Place) -> None:
    place.set("p", '{"max-length":5}')
    place.finish()
    place.set("p", '{"max-length": 5}')
    assert place.vhost.policies.round is None


def test_queues_without_arguments_share_their_rules(place: Place) -> None:
    place.queues("a", "b")
    assert place.vhost.queues["a"].rules is place.vhost.queues["b"].rules
    place.set("p", '{"overflow":"reject-publish","max-length":2}')
    place.finish()
    rules = place.vhost.queues["a"].rules
    assert rules is place.vhost.queues["b"].rules
    assert (rules.overflow, rules.max_length) == (REJECT_PUBLISH, 2)


@pytest.mark.rule("PO-9")
def test_exchanges_are_matched_when_they_are_made_and_routes_become_void(place: Place) -> None:
    place.set("p", '{"alternate-exchange":"amq.fanout"}', "^x")
    place.finish()
    place.make(ExchangePut(vhost="/", name="x", kind="direct"))
    exchange = place.vhost.routing.exchanges["x"]
    assert (exchange.alternate, in_force(exchange).policy) == ("amq.fanout", "p")
    version = place.broker.version
    place.clear("p")
    place.finish()
    assert exchange.alternate is None
    assert place.broker.version > version
    place.make(ExchangeDelete(vhost="/", name="x"))
    place.set("p", '{"alternate-exchange":"amq.fanout"}', "^x")
    version = place.broker.version
    place.finish()
    # Nothing has changed for any route.
    assert (exchange.alternate, place.broker.version) == (None, version)


@pytest.mark.rule("PO-9")
def test_what_is_restored_is_under_its_policies_at_once(place: Place) -> None:
    queues = [QueuePut(vhost="/", name=f"q{number}", durable=True) for number in range(10)]
    policies = [
        PolicyPut(
            vhost="/", name=f"p{number}", pattern="q", definition=b'{"max-length":%d}' % number
        )
        for number in range(3)
    ]
    bad = PolicyPut(vhost="/", name="bad", pattern="q", definition=b'{"max-length"')
    odd = PolicyPut(vhost="/", name="odd", pattern="q", definition=b"{}", apply_to="bindings")
    told = place.broker.metadata.restore([*policies, bad, odd, *queues])
    assert [problem.partition(":")[0] for problem in told] == ["PolicyPut", "PolicyPut"]
    assert set(place.limits()) == {0}
    round_ = place.vhost.policies.round
    # Only what was there before is left to the round: the exchanges every vhost has.
    assert round_ is not None
    assert (round_.again, round_.queues) == (False, [])
    place.finish()


def test_keys_of_another_version_mean_nothing_and_are_kept(place: Place) -> None:
    place.set("p", '{"max-length":5,"tomorrow":[1]}')
    place.queues("q")
    assert dict(in_force(place.vhost.queues["q"]).effective) == {"max-length": 5}
    kept = place.vhost.policies.book.get("p", operator=False)
    assert kept is not None
    assert kept.definition == {"max-length": 5, "tomorrow": [1]}
    assert change.policy_put(kept).definition == b'{"max-length":5,"tomorrow":[1]}'


def test_a_round_that_a_mistake_has_ended_is_begun_anew_by_the_next_change(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.queues("a", "b")

    def fail(queue: object, rules: object) -> None:
        raise ValueError("a mistake")

    place.set("p", '{"max-length":5}')
    with monkeypatch.context() as patched:
        patched.setattr("warren.vhost.policy_force.rules_of", fail)
        place.step()
    assert [str(failure.error) for failure in place.broker.turn.failures] == ["a mistake"]
    assert place.broker.turn.chores == []
    place.set("p", '{"max-length":6}')
    place.finish()
    assert set(place.limits()) == {6}
