"""The ledger agrees with a plain set of settled tags."""

from hypothesis import given
from hypothesis import strategies as st

from warren.bench.confirm import Ledger

SENT = 30


@given(st.lists(st.tuples(st.integers(1, SENT), st.booleans(), st.booleans())))
def test_settled_tags_match_a_set(frames: list[tuple[int, bool, bool]]) -> None:
    ledger, settled, nacked, duplicates = Ledger(), set[int](), 0, 0
    ledger.sent = SENT
    for tag, multiple, nack in frames:
        ledger.settle(tag, multiple, nack, 0)
        new = set(range(1, tag + 1)) if multiple else {tag}
        duplicates += 0 if multiple else len(new & settled)
        nacked += len(new - settled) if nack else 0
        settled |= new
    assert ledger.settled == len(settled)
    assert ledger.outstanding() == SENT - len(settled)
    assert (ledger.nacked, ledger.duplicates, ledger.unsent) == (nacked, duplicates, 0)


def test_multiple_with_tag_zero_settles_everything() -> None:
    ledger = Ledger()
    ledger.sent = 5
    ledger.settle(0, True, False, 0)
    assert ledger.outstanding() == 0


def test_a_confirm_for_a_tag_never_sent_is_not_counted_as_settled() -> None:
    ledger = Ledger()
    ledger.sent = 2
    ledger.settle(3, False, False, 0)
    assert (ledger.settled, ledger.unsent) == (0, 1)


def test_latency_is_recorded_when_everything_up_to_the_mark_is_settled() -> None:
    ledger = Ledger()
    ledger.sent = 2
    ledger.mark(1000)
    ledger.settle(2, False, False, 1500)
    assert ledger.latency.total == 0
    ledger.settle(1, False, False, 1800)
    assert (ledger.latency.total, ledger.latency.largest) == (1, 800)
