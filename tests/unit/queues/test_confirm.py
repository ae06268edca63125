"""The confirm ledger against a list of answers per publish (CO-1 to CO-4)."""

import struct
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.machine import Decoder
from warren.protocol.output import Outbox, Output
from warren.queues import ConfirmLedger
from warren.store.journal import Batch, Journal

TAKEN, REFUSED, PENDING = "taken", "refused", "pending"


@dataclass
class Wire:
    """A ledger, what it sent, and what each number was answered."""

    output: Output = field(default_factory=lambda: Output(Outbox(), 1 << 20))
    answers: dict[int, str] = field(default_factory=dict)
    sent: list[tuple[str, int, bool]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.ledger = ConfirmLedger(3, self.output)
        self.decoder = Decoder()

    def flush(self) -> list[tuple[str, int, bool]]:
        self.ledger.flush()
        data = b"".join(self.output.take())
        self.output.sent(len(data))
        new = []
        for event in self.decoder.feed(data):
            assert event.channel == 3
            name = event.name.removeprefix("basic.")
            new.append((name, event.delivery_tag, event.multiple))
            if name == "nack":
                assert event.requeue
            first = 1 if event.multiple else event.delivery_tag
            for number in range(first, event.delivery_tag + 1):
                if event.multiple and number in self.answers:
                    continue
                assert number not in self.answers, f"{number} answered twice"
                self.answers[number] = name
        self.sent += new
        return new


def publish(wire: Wire, outcomes: list[str]) -> int:
    """Do what the session does with the answers of a publish's queues."""
    ledger = wire.ledger
    ledger.published += 1
    number = int(ledger.published)
    pending = outcomes.count(PENDING)
    if pending:
        ledger.owe(number, pending)
    if REFUSED in outcomes:
        ledger.refuse(number)
    return number


PUBLISHES = st.lists(st.sampled_from((TAKEN, TAKEN, REFUSED, PENDING)), max_size=3)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), PUBLISHES),
        st.tuples(st.just("answer"), st.integers(0, 50), st.booleans()),
        st.tuples(st.just("flush")),
    ),
    max_size=60,
)


@pytest.mark.rule("CO-1", "CO-2", "CO-3", "CO-4", "LE-5")
@given(STEPS)
def test_one_answer_per_publish_as_soon_as_all_queues_have_answered(
    steps: list[tuple[object, ...]],
) -> None:
    wire = Wire()
    owed: dict[int, int] = {}
    verdict: dict[int, str] = {}
    for step in [*steps, ("end",)]:
        if step[0] == "publish":
            assert isinstance(step[1], list)
            number = publish(wire, step[1])
            verdict[number] = "nack" if REFUSED in step[1] else "ack"
            owed[number] = step[1].count(PENDING)
        elif step[0] == "answer":
            open_ = [number for number, left in owed.items() if left]
            if open_:
                number = open_[hash(step[1]) % len(open_)]
                owed[number] -= 1
                if not step[2]:
                    verdict[number] = "nack"
                wire.ledger.answer(number, bool(step[2]))
        else:
            batches = wire.flush()
            ready = {number for number, left in owed.items() if left == 0}
            assert wire.answers == {number: verdict[number] for number in ready}
            check_batches(batches)


def check_batches(batches: list[tuple[str, int, bool]]) -> None:
    """At most one batch per kind, before the single answers of that kind, in rising order."""
    for kind in ("ack", "nack"):
        mine = [(number, multiple) for name, number, multiple in batches if name == kind]
        assert [number for number, _ in mine] == sorted(number for number, _ in mine)
        assert all(not multiple for _, multiple in mine[1:])


@pytest.mark.rule("CO-4")
def test_what_is_ready_below_the_oldest_open_number_goes_as_one() -> None:
    wire = Wire()
    for outcomes in ([TAKEN], [TAKEN], [PENDING], [TAKEN], [TAKEN]):
        publish(wire, outcomes)
    assert wire.flush() == [("ack", 2, True), ("ack", 4, False), ("ack", 5, False)]
    wire.ledger.answer(3, True)
    assert wire.flush() == [("ack", 3, False)]
    assert wire.flush() == []


@pytest.mark.rule("CO-3", "CO-4")
def test_acks_and_nacks_do_not_cover_each_other() -> None:
    wire = Wire()
    for outcomes in ([TAKEN], [TAKEN], [REFUSED], [REFUSED], [TAKEN]):
        publish(wire, outcomes)
    assert wire.flush() == [
        ("ack", 2, True),
        ("ack", 5, False),
        ("nack", 3, False),
        ("nack", 4, False),
    ]


@pytest.mark.rule("CO-4")
def test_a_single_ack_is_not_multiple_and_the_frame_is_exact() -> None:
    wire = Wire()
    publish(wire, [])
    wire.ledger.flush()
    expected = struct.pack(">BHIHHQB", 1, 3, 13, 60, 80, 1, 0) + b"\xce"
    assert b"".join(wire.output.take()) == expected


def test_late_answers_for_unknown_numbers_change_nothing() -> None:
    wire = Wire()
    publish(wire, [PENDING])
    wire.ledger.answer(1, True)
    wire.ledger.answer(1, True)
    wire.ledger.answer(9, False)
    assert wire.flush() == [("ack", 1, False)]
    assert (wire.ledger.open, wire.ledger.refused) == ({}, set())


class Stored:
    """A ledger whose publishes are written into a journal, batch by batch."""

    def __init__(self) -> None:
        self.wire = Wire()
        self.journal = Journal(1, 1)
        self.sealed: list[Batch] = []

    def publish(self, outcomes: list[str], *, stored: bool) -> int:
        number = publish(self.wire, outcomes)
        if stored:
            self.journal.settle(1, number, 1, 0)
            self.wire.ledger.mark(number, self.journal)
        return number

    def seal(self) -> None:
        self.sealed.append(self.journal.seal())

    def safe(self) -> None:
        batch = self.sealed.pop(0)
        for waiter in batch.waiters:
            waiter.safe(batch.number)
        self.wire.flush()

    def lost(self) -> None:
        """As a journal that breaks: what is sealed and what is open."""
        for batch in (*self.sealed, self.journal.batch):
            for waiter in batch.waiters:
                waiter.lost(batch.number)
        self.sealed = []
        self.wire.flush()


@pytest.mark.rule("CN-1", "CN-2", "CO-3")
def test_what_is_stored_is_confirmed_with_its_batch() -> None:
    stored = Stored()
    stored.publish([TAKEN], stored=False)
    for _ in range(3):
        stored.publish([TAKEN], stored=True)
    # Nobody is told of what comes behind a publish that waits.
    stored.publish([TAKEN], stored=False)
    assert stored.wire.flush() == [("ack", 1, False)]
    stored.seal()
    stored.publish([TAKEN], stored=True)
    stored.seal()
    stored.publish([TAKEN], stored=True)
    assert stored.wire.flush() == []
    stored.safe()
    assert stored.wire.sent[-1] == ("ack", 5, True)
    stored.safe()
    assert stored.wire.sent[-1] == ("ack", 6, False)
    assert set(stored.wire.answers) == {1, 2, 3, 4, 5, 6}
    stored.seal()
    stored.safe()
    assert set(stored.wire.answers) == set(range(1, 8))


STORED_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), PUBLISHES, st.booleans()),
        st.tuples(st.just("answer"), st.integers(0, 50), st.booleans()),
        st.tuples(st.just("seal")),
        st.tuples(st.just("safe")),
        st.tuples(st.just("flush")),
    ),
    max_size=60,
)


@pytest.mark.rule("CN-2", "CO-2", "CO-3", "CO-4", "LE-5")
@given(STORED_STEPS, st.booleans())
def test_each_publish_has_one_answer_whatever_becomes_of_its_batch(  # noqa: C901 - one history
    steps: list[tuple[Any, ...]], broken: bool
) -> None:
    stored = Stored()
    ledger = stored.wire.ledger
    batches: dict[int, int] = {}
    refused: set[int] = set()
    safe = 0
    for step in steps:
        if step[0] == "publish":
            number = stored.publish(step[1], stored=step[2])
            if step[2]:
                batches[number] = int(stored.journal.batch.number)
            if REFUSED in step[1]:
                refused.add(number)
        elif step[0] == "answer" and ledger.open:
            number = sorted(ledger.open)[step[1] % len(ledger.open)]
            ledger.answer(number, step[2])
            if not step[2]:
                refused.add(number)
        elif step[0] == "seal":
            stored.seal()
        elif step[0] == "safe" and stored.sealed:
            safe = int(stored.sealed[0].number)
            stored.safe()
        elif step[0] == "flush":
            stored.wire.flush()
        # Nothing is told before its batch is safe.
        waiting = {number for number, batch in batches.items() if batch > safe}
        assert not waiting & set(stored.wire.answers)
    told_before = set(stored.wire.answers)
    for number in list(ledger.open):
        while number in ledger.open:
            ledger.answer(number, True)
    if broken:
        stored.lost()
    else:
        stored.seal()
        while stored.sealed:
            stored.safe()
    stored.wire.flush()
    answers = stored.wire.answers
    assert set(answers) == set(range(1, int(ledger.published) + 1))
    unsafe = {number for number, batch in batches.items() if batch > safe} if broken else set()
    for number, answer in answers.items():
        if number in refused or number in unsafe:
            assert answer == "nack"
        elif not broken or number in told_before:
            assert answer == "ack"
