"""The books of the proofs find each fault that a broker could have."""

import pytest

from tools.proof.book import Book
from tools.proof.message import body_of, ident_in, ident_of, name_of
from tools.proof.traffic import NOT_YET

ENDED = 100.0
WINDOW = 0.5


def book_of(*, confirmed: int = 0, unconfirmed: int = 0, acked: int = 0) -> Book:
    """Messages 0.. of publisher 1: first the acknowledged, then the confirmed, then the others."""
    book = Book("place")
    for number in range(acked + confirmed + unconfirmed):
        ident = ident_of(1, number)
        book.sent(ident)
        if number < acked + confirmed:
            book.confirm(ident)
        if number < acked:
            book.acknowledge(ident, 10.0)
    return book


def faults(book: Book, numbers: list[int]) -> dict[str, int]:
    found = [ident_of(1, number) for number in numbers]
    verdict = book.disorder("queue", found)
    verdict.merge(book.judge(found, ended_s=ENDED, ack_window_s=WINDOW))
    return verdict.faults


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        ([2, 3, 4], {}),
        ([2, 3, 4, 5], {}),  # what nobody had been told of may have come through
        ([2, 4], {"lost": 1}),
        ([2, 3, 3, 4], {"doubled": 1}),
        ([1, 2, 3, 4], {"returned": 1}),
        ([2, 4, 3], {"reordered": 1}),
        ([2, 3, 4, 6], {"unknown": 1}),
        ([], {"lost": 3}),
    ],
)
def test_each_fault_is_found(there: list[int], expected: dict[str, int]) -> None:
    book = book_of(acked=2, confirmed=3, unconfirmed=1)
    assert faults(book, there) == expected


def test_what_was_acknowledged_just_before_may_be_back() -> None:
    book = book_of(confirmed=3)
    book.acknowledge(ident_of(1, 0), ENDED - 0.4)
    book.acknowledge(ident_of(1, 1), ENDED - 0.6)
    book.acknowledge(ident_of(1, 2), NOT_YET)  # nobody knows whether the broker had got it
    found = [ident_of(1, number) for number in range(3)]
    verdict = book.judge(found, ended_s=ENDED, ack_window_s=WINDOW)
    assert verdict.in_window == 2
    assert verdict.faults == {"returned": 1}


def test_what_was_missing_once_must_not_come_back() -> None:
    book = book_of(confirmed=1, unconfirmed=1)
    assert faults(book, [0]) == {}
    assert faults(book, [0, 1]) == {"unknown": 1}


def test_what_was_found_once_must_stay() -> None:
    book = book_of(unconfirmed=1)
    assert faults(book, [0]) == {}
    assert faults(book, []) == {"lost": 1}


def test_a_transient_message_does_not_survive() -> None:
    book = Book("place")
    ident = ident_of(2, 0)
    book.sent(ident, persistent=False)
    book.confirm(ident)
    alike = Book("place")
    alike.sent(ident, persistent=False)
    assert book.judge([], ended_s=ENDED, ack_window_s=WINDOW).faults == {}
    kept = alike.judge([ident], ended_s=ENDED, ack_window_s=WINDOW)
    assert kept.faults == {"transient kept": 1}


def test_priorities_are_lines_of_their_own() -> None:
    book = Book("place", lambda ident: ident % 3)
    assert book.disorder("queue", [2, 5, 1, 4, 0, 3]).faults == {}
    assert book.disorder("queue", [5, 2, 1, 4]).faults == {"reordered": 1}


def test_excused_faults_are_counted_apart() -> None:
    verdict = book_of(confirmed=2).judge([7], ended_s=ENDED, ack_window_s=WINDOW)
    verdict.excuse(("lost",))
    assert (verdict.faults, verdict.excused) == ({"unknown": 1}, 2)
    assert [words.partition(" ")[0] for words in verdict.words] == ["unknown"]


@pytest.mark.parametrize("number", [0, 1, 36, 37, 259, 7400])
def test_a_body_says_which_message_it_is(number: int) -> None:
    ident = ident_of(3, number)
    body = body_of(ident)
    assert ident_in(body) == ident
    assert name_of(ident) == f"3:{number}"
    assert ident_in(body[:-1] + bytes((body[-1] ^ 1,))) is None
    assert ident_in(body[:10]) is None
