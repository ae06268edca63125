"""Credit accounts, chains of them, and what listings show of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.flow import (
    CHANNEL_TO_QUEUE,
    LINGER_CONNECTION_NS,
    QUEUE_TO_STORE,
    READER_TO_CHANNEL,
    Account,
    CreditSettings,
    Flow,
    Kind,
    Subject,
    forget,
    settle,
)

SECOND = 1_000_000_000


def component(kind: Kind, name: str = "1", linger_ns: int = SECOND) -> Flow:
    return Flow(Subject(kind, name), linger_ns)


def send(account: Account, now_ns: int = 0, count: int = 1) -> None:
    if not account.take(count):
        account.sender.block(account, now_ns)


def stopped(flow: Flow) -> bool:
    return flow.blocked


def receive(account: Account, count: int = 1) -> list[Flow]:
    due = account.processed(count)
    return settle(account, due) if due else []


class Chain:
    """Reader -> channel -> queue as the node wires them; the queue may be suspended."""

    def __init__(self) -> None:
        self.reader = component(Kind.CONNECTION, linger_ns=LINGER_CONNECTION_NS)
        self.channel = component(Kind.CHANNEL)
        self.queue = component(Kind.QUEUE)
        self.to_channel = Account(self.reader, self.channel, READER_TO_CHANNEL)
        self.to_queue = Account(self.channel, self.queue, CHANNEL_TO_QUEUE)
        self.mailbox: list[int] = []
        self.suspended = False
        self.taken: list[int] = []

    def publish(self, number: int, now_ns: int = 0) -> list[Flow]:
        send(self.to_channel, now_ns)
        resumed = receive(self.to_channel)
        send(self.to_queue, now_ns)
        self.mailbox.append(number)
        return resumed + self.drain()

    def drain(self) -> list[Flow]:
        resumed: list[Flow] = []
        while self.mailbox and not self.suspended:
            resumed += receive(self.to_queue)
            self.taken.append(self.mailbox.pop(0))
        return resumed

    def resume(self) -> list[Flow]:
        self.suspended = False
        return self.drain()


@pytest.mark.rule("CF-3", "CF-4", "CF-6", "CF-7", "CF-9")
def test_a_suspended_queue_stops_the_channel_at_400_and_the_reader_at_800() -> None:
    chain = Chain()
    chain.suspended = True
    for number in range(399):
        chain.publish(number)
    assert chain.channel.state_shown(0, "running") == "running"
    chain.publish(399)
    assert chain.channel.state_shown(0, "running") == "flow"
    assert chain.to_channel.credit == 400
    for number in range(400, 799):
        chain.publish(number)
    assert not stopped(chain.reader)
    chain.publish(799)
    assert stopped(chain.reader)
    assert chain.to_channel.deferred == 400
    resumed = chain.resume()
    assert resumed == [chain.channel, chain.reader]
    assert chain.taken == list(range(800))
    later = 10 * SECOND
    assert not chain.channel.shown(later)
    assert not chain.reader.shown(later)


@pytest.mark.rule("CF-3", "CF-4", "CF-7")
def test_b_out_of_credit_for_c_blocks_until_c_grants_and_then_lets_a_go_on() -> None:
    small = CreditSettings(2, 1, "test")
    a, b, c = component(Kind.CONNECTION), component(Kind.CHANNEL), component(Kind.QUEUE)
    a_to_b, b_to_c = Account(a, b, small), Account(b, c, small)
    for _ in range(2):
        send(a_to_b)
        receive(a_to_b)
        send(b_to_c)
    assert stopped(b)
    assert not stopped(a)
    for _ in range(2):
        send(a_to_b)
        assert receive(a_to_b) == []
        send(b_to_c)
    assert stopped(a)
    assert b_to_c.credit == -2
    assert receive(b_to_c) == []
    assert receive(b_to_c) == []
    assert receive(b_to_c) == [b, a]
    assert (a_to_b.credit, a_to_b.deferred) == (2, 0)


@pytest.mark.rule("CF-6")
def test_the_exhausting_take_is_reported_once_and_later_ones_overdraw() -> None:
    account = Account(component(Kind.CHANNEL), component(Kind.QUEUE), CreditSettings(3, 2, "s"))
    assert [account.take(1) for _ in range(5)] == [True, True, False, True, True]
    assert account.credit == -2
    assert not account.grant(2)
    assert account.credit == 0
    assert account.grant(2)
    assert account.credit == 2
    assert not account.grant(2)


@pytest.mark.rule("CF-6")
def test_a_batch_that_goes_past_zero_exhausts_too() -> None:
    account = Account(component(Kind.CHANNEL), component(Kind.QUEUE), CreditSettings(3, 2, "s"))
    assert not account.take(5)
    assert account.credit == -2


def test_grants_come_in_steps_of_the_refill_whatever_the_batches() -> None:
    account = Account(component(Kind.CHANNEL), component(Kind.QUEUE), CHANNEL_TO_QUEUE)
    assert [account.processed(199), account.processed(1), account.processed(399)] == [0, 200, 200]
    assert account.processed(1) == 200
    assert account.processed(1000) == 1000


@pytest.mark.rule("CF-4")
def test_a_batch_passed_on_within_a_turn_does_not_block() -> None:
    account = Account(component(Kind.CONNECTION), component(Kind.CHANNEL), READER_TO_CHANNEL)
    receive(account, 1000)
    send(account, count=1000)
    assert not stopped(account.sender)
    assert account.credit == 400


@pytest.mark.rule("CF-3", "CF-8")
def test_one_exhausted_account_of_two_blocks_and_the_death_of_its_peer_unblocks() -> None:
    channel = component(Kind.CHANNEL)
    reader = component(Kind.CONNECTION)
    to_channel = Account(reader, channel, CreditSettings(2, 1, "s"))
    stuck = Account(channel, component(Kind.QUEUE, "stuck"), CreditSettings(1, 1, "s"))
    quick = Account(channel, component(Kind.QUEUE, "quick"), CreditSettings(1, 1, "s"))
    send(stuck)
    send(quick)
    for _ in range(2):
        send(to_channel)
        receive(to_channel)
    assert stopped(reader)
    assert receive(quick) == []
    assert stopped(channel)
    assert forget(stuck) == [channel, reader]
    assert not stopped(channel)
    assert not stopped(reader)
    send(stuck)
    assert not stopped(channel)


@pytest.mark.rule("CF-7", "CF-8")
def test_deferred_grants_of_a_dead_sender_are_dropped() -> None:
    queue = component(Kind.QUEUE)
    store = Account(queue, component(Kind.STORE), CreditSettings(1, 1, "s"))
    dead = Account(component(Kind.CHANNEL, "dead"), queue, CreditSettings(1, 1, "s"))
    alive = Account(component(Kind.CHANNEL, "alive"), queue, CreditSettings(1, 1, "s"))
    send(store)
    for account in (dead, alive):
        send(account)
        receive(account)
    assert forget(dead) == [dead.sender]
    assert receive(store) == [queue, alive.sender]
    assert (dead.credit, alive.credit) == (0, 1)


def test_forgetting_a_link_that_blocks_nobody_unblocks_nobody() -> None:
    assert forget(Account(component(Kind.CHANNEL), component(Kind.QUEUE), CHANNEL_TO_QUEUE)) == []


@pytest.mark.rule("CF-12")
def test_a_short_block_lingers_from_its_begin_and_a_long_one_does_not() -> None:
    account = Account(component(Kind.CHANNEL), component(Kind.QUEUE), CreditSettings(1, 1, "s"))
    channel = account.sender
    assert not channel.shown(0)
    send(account, now_ns=0)
    assert receive(account) == [channel]
    assert channel.state_shown(SECOND - 1, "running") == "flow"
    assert channel.state_shown(SECOND - 1, "closing") == "closing"
    assert channel.state_shown(SECOND, "running") == "running"
    send(account, now_ns=5 * SECOND)
    assert channel.shown(50 * SECOND)
    receive(account)
    assert not channel.shown(50 * SECOND)


@pytest.mark.rule("CF-12")
def test_a_connection_lingers_for_five_seconds() -> None:
    reader = component(Kind.CONNECTION, linger_ns=LINGER_CONNECTION_NS)
    account = Account(reader, component(Kind.CHANNEL), CreditSettings(1, 1, "s"))
    send(account)
    receive(account)
    assert reader.shown(5 * SECOND - 1)
    assert not reader.shown(5 * SECOND)


def test_the_sizes_of_the_links() -> None:
    sizes = [(s.initial, s.refill) for s in (READER_TO_CHANNEL, CHANNEL_TO_QUEUE, QUEUE_TO_STORE)]
    assert sizes == [(400, 200), (400, 200), (4000, 800)]


@pytest.mark.parametrize(("initial", "refill"), [(10, 11), (10, 0), (0, 0)])
def test_settings_that_would_stop_a_link_for_ever_are_refused(initial: int, refill: int) -> None:
    with pytest.raises(ValueError, match="credit_flow_default_credit: refill must be"):
        CreditSettings(initial, refill, "credit_flow_default_credit")


SETTINGS = st.integers(1, 20).flatmap(
    lambda initial: st.builds(
        CreditSettings, st.just(initial), st.integers(1, initial), st.just("test")
    )
)


@given(
    settings=st.tuples(SETTINGS, SETTINGS, SETTINGS),
    work=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 30)), max_size=200),
)
@pytest.mark.rule("CF-3", "CF-4", "CF-6", "CF-7")
def test_credit_is_conserved_and_a_working_end_sets_everybody_free(
    settings: tuple[CreditSettings, CreditSettings, CreditSettings],
    work: list[tuple[int, int]],
) -> None:
    flows = [component(kind) for kind in (Kind.CONNECTION, Kind.CHANNEL, Kind.QUEUE, Kind.STORE)]
    links = [Account(flows[i], flows[i + 1], settings[i]) for i in range(3)]
    waiting = [0, 0, 0]

    def step(place: int, count: int) -> None:
        if place == 0:
            if flows[0].blocked:
                return
            send(links[0], count=count)
            waiting[0] += count
            return
        count = min(count, waiting[place - 1])
        if count == 0:
            return
        waiting[place - 1] -= count
        receive(links[place - 1], count)
        if place < 3:
            send(links[place], count=count)
            waiting[place] += count

    def check() -> None:
        for link, on_the_way in zip(links, waiting, strict=True):
            counted = link.refill - link.until_grant
            assert link.credit + on_the_way + counted + link.deferred == link.settings.initial
            assert 0 < link.until_grant <= link.refill
            assert stopped(link.sender) == (link.credit <= 0)
            assert link.receiver.blocked or link.deferred == 0

    for place, count in work:
        step(place, count)
        check()
    for _ in range(3):
        for place in (3, 2, 1):
            step(place, 10_000)
            check()
    assert waiting == [0, 0, 0]
    assert not any(flow.blocked for flow in flows)
