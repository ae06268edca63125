"""Finding the bottleneck behind a component in flow."""

import pytest

from warren.flow import (
    Account,
    CreditSettings,
    Flow,
    Kind,
    Reason,
    Subject,
    credit_wait,
    diagnose,
    forget,
    settle,
)

SECOND = 1_000_000_000
SMALL = CreditSettings(2, 1, "credit_flow_default_credit")

READER = Subject(Kind.CONNECTION, "c")
CHANNEL = Subject(Kind.CHANNEL, "c (1)")
STORE = Subject(Kind.STORE, "msg_store_persistent")


def queue_subject(name: str) -> Subject:
    return Subject(Kind.QUEUE, name, "/")


def exhaust(account: Account, now_ns: int, count: int = 2) -> None:
    assert not account.take(count)
    account.sender.block(account, now_ns)


@pytest.mark.rule("CF-14")
def test_the_chain_ends_at_the_store_with_peers_times_and_missing_credit() -> None:
    reader, channel, store = Flow(READER), Flow(CHANNEL), Flow(STORE)
    queue = Flow(queue_subject("q"))
    exhaust(Account(queue, store, SMALL), 10, count=5)
    exhaust(Account(channel, queue, SMALL), 20)
    exhaust(Account(reader, channel, SMALL), 30)
    found = diagnose(reader, SECOND)
    assert [(b.subject, b.peer, b.since_ns, b.missing) for b in found.chain] == [
        (READER, CHANNEL, 30, 1),
        (CHANNEL, queue.subject, 20, 1),
        (queue.subject, STORE, 10, 4),
    ]
    assert found.bottlenecks == (STORE,)


@pytest.mark.rule("CF-14")
def test_a_channel_in_flow_for_two_queues_names_both_once() -> None:
    reader, channel = Flow(READER), Flow(CHANNEL)
    first, second = Flow(queue_subject("1")), Flow(queue_subject("2"))
    exhaust(Account(reader, channel, SMALL), 1)
    exhaust(Account(channel, first, SMALL), 1)
    exhaust(Account(channel, second, SMALL), 1)
    assert diagnose(reader, 2).bottlenecks == (first.subject, second.subject)


@pytest.mark.rule("CF-12", "CF-14")
def test_an_oscillating_connection_is_explained_between_two_blocks() -> None:
    reader, channel = Flow(READER), Flow(CHANNEL)
    account = Account(reader, channel, SMALL)
    exhaust(account, 0)
    assert settle(account, 2) == [reader]
    assert diagnose(reader, SECOND - 1).bottlenecks == (CHANNEL,)
    assert diagnose(reader, SECOND).chain == ()


@pytest.mark.rule("CF-8")
def test_a_link_that_is_gone_is_no_explanation() -> None:
    account = Account(Flow(READER), Flow(CHANNEL), SMALL)
    exhaust(account, 0)
    forget(account)
    assert diagnose(account.sender, 1).chain == ()


def test_components_that_wait_for_each_other_do_not_trap_the_walk() -> None:
    one, two = Flow(queue_subject("1")), Flow(queue_subject("2"))
    exhaust(Account(one, two, SMALL), 0)
    exhaust(Account(two, one, SMALL), 0)
    found = diagnose(one, 0)
    assert len(found.chain) == 2
    assert found.bottlenecks == ()


def test_a_component_that_is_not_in_flow_has_no_chain() -> None:
    assert diagnose(Flow(READER), 0).chain == ()


def test_an_exhausted_account_as_a_wait() -> None:
    wait = credit_wait(Account(Flow(READER), Flow(CHANNEL), SMALL), 7)
    assert (wait.reason, wait.subject, wait.cause) == (Reason.CREDIT, READER, CHANNEL)
    assert (wait.since_ns, wait.setting) == (7, "credit_flow_default_credit")
