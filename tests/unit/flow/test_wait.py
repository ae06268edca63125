"""The book of waits, the walk to root causes, and the words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.flow import Handle, Kind, Reason, Subject, Wait, WaitBook, explain
from warren.flow.wait import CHAIN_WAITS_MAX, ENDED_MAX, LINGER_NS, WORDS

CONNECTION = Subject(Kind.CONNECTION, "127.0.0.1:5000 -> 127.0.0.1:5672")
CHANNEL = Subject(Kind.CHANNEL, "127.0.0.1:5000 -> 127.0.0.1:5672 (1)")
QUEUE = Subject(Kind.QUEUE, "orders", "/")
OTHER_QUEUE = Subject(Kind.QUEUE, "orders", "test")
NODE = Subject(Kind.NODE, "rabbit@one")


def wait(
    subject: Subject,
    cause: Subject | None = None,
    reason: Reason = Reason.CREDIT,
    since_ns: int = 0,
) -> Wait:
    return Wait(reason, subject, cause, since_ns)


def test_the_chain_goes_from_the_object_to_the_root_cause() -> None:
    book = WaitBook()
    suspended = wait(QUEUE, reason=Reason.QUEUE_SUSPENDED)
    first, second = wait(CONNECTION, CHANNEL), wait(CHANNEL, QUEUE)
    for each in (suspended, second, wait(OTHER_QUEUE, NODE), first):
        book.begin(each)
    assert book.chain(CONNECTION) == [first, second, suspended]
    assert book.roots(CONNECTION) == [suspended]
    assert book.chain(NODE) == []


def test_the_root_is_the_last_wait_when_its_cause_waits_for_nobody() -> None:
    book = WaitBook()
    first, second = wait(CONNECTION, CHANNEL), wait(CHANNEL, QUEUE)
    book.begin(first)
    book.begin(second)
    assert book.roots(CONNECTION) == [second]


def test_an_object_may_wait_for_several_and_a_shared_cause_is_listed_once() -> None:
    book = WaitBook()
    waits = [
        wait(CHANNEL, QUEUE),
        wait(CHANNEL, OTHER_QUEUE),
        wait(QUEUE, NODE, Reason.JOURNAL_FULL),
        wait(OTHER_QUEUE, NODE, Reason.JOURNAL_FULL),
        wait(NODE, reason=Reason.DISK_ALARM),
    ]
    for each in waits:
        book.begin(each)
    assert book.of(CHANNEL) == waits[:2]
    assert book.chain(CHANNEL) == waits


def test_waits_that_go_in_a_circle_are_each_listed_once() -> None:
    book = WaitBook()
    there, back, itself = wait(QUEUE, CHANNEL), wait(CHANNEL, QUEUE), wait(QUEUE, QUEUE)
    for each in (there, back, itself):
        book.begin(each)
    assert book.chain(QUEUE) == [there, itself, back]


def test_the_walk_is_bounded() -> None:
    book = WaitBook()
    for number in range(CHAIN_WAITS_MAX + 10):
        book.begin(wait(CHANNEL, Subject(Kind.QUEUE, str(number), "/")))
    assert len(book.chain(CHANNEL)) == CHAIN_WAITS_MAX


def test_an_ended_wait_is_gone_and_its_time_stays() -> None:
    book = WaitBook()
    handle = book.begin(wait(CHANNEL, QUEUE, since_ns=100))
    assert book.total_ns_by_reason(150)[Reason.CREDIT] == 50
    assert book.count_by_reason()[Reason.CREDIT] == 1
    book.end(handle, 180)
    book.end(handle, 500)
    assert book.of(CHANNEL) == []
    assert book.chain(CHANNEL) == []
    assert book.total_ns_by_reason(1000)[Reason.CREDIT] == 80
    assert book.count_by_reason()[Reason.CREDIT] == 0
    assert book.listed == 0


def test_every_reason_has_a_count_and_a_time_from_the_start() -> None:
    book = WaitBook()
    assert book.count_by_reason() == dict.fromkeys(Reason, 0)
    assert book.total_ns_by_reason(5) == dict.fromkeys(Reason, 0)


def test_waits_beyond_the_limit_are_counted_and_timed_but_not_listed() -> None:
    book = WaitBook(listed_max=1)
    listed = book.begin(wait(CHANNEL, QUEUE))
    unlisted = book.begin(wait(QUEUE, NODE))
    assert (book.listed, book.unlisted) == (1, 1)
    assert book.of(QUEUE) == []
    assert book.total_ns_by_reason(10)[Reason.CREDIT] == 20
    book.end(unlisted, 10)
    book.end(listed, 10)
    assert (book.listed, book.unlisted) == (0, 0)
    assert book.total_ns_by_reason(99)[Reason.CREDIT] == 20
    book.begin(wait(QUEUE, NODE))
    assert len(book.of(QUEUE)) == 1


@given(
    steps=st.lists(
        st.tuples(st.sampled_from(list(Reason)), st.integers(0, 9), st.integers(0, 50)), max_size=60
    ),
    listed_max=st.integers(0, 5),
)
def test_count_and_time_agree_with_a_scan(
    steps: list[tuple[Reason, int, int]], listed_max: int
) -> None:
    book = WaitBook(listed_max)
    running: list[Handle] = []
    spent = dict.fromkeys(Reason, 0)
    now = 0
    for reason, place, pause in steps:
        now += pause
        if place < 5 and running:
            handle = running.pop(place % len(running))
            book.end(handle, now)
            spent[handle.wait.reason] += now - handle.wait.since_ns
        else:
            running.append(book.begin(wait(QUEUE, reason=reason, since_ns=now)))
    now += 7
    for handle in running:
        spent[handle.wait.reason] += now - handle.wait.since_ns
    assert book.total_ns_by_reason(now) == spent
    assert sum(book.count_by_reason().values()) == len(running) == book.listed + book.unlisted
    assert len(book.of(QUEUE)) == book.listed <= listed_max


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_is_explained_in_whole_sentences(reason: Reason) -> None:
    text = explain(Wait(reason, QUEUE, NODE, 0, "some_setting", "12 of 10"))
    assert text.startswith("Queue 'orders' in vhost '/' ")
    assert text.endswith(" (12 of 10) Setting: some_setting.")
    assert "{" not in text
    assert "  " not in text
    assert set(WORDS) == set(Reason)


def test_an_explanation_without_cause_setting_and_detail() -> None:
    text = explain(Wait(Reason.MEMORY_ALARM, CONNECTION, None, 0))
    assert "while the node is low on memory" in text
    assert "Setting" not in text
    assert "(" not in text


def test_queues_of_one_name_in_two_vhosts_are_two_subjects() -> None:
    book = WaitBook()
    book.begin(wait(QUEUE))
    assert book.of(OTHER_QUEUE) == []


@pytest.mark.rule("CF-12")
def test_waits_that_come_and_go_are_told_for_a_while_after_their_end() -> None:
    book = WaitBook()
    first, second = wait(CONNECTION, CHANNEL), wait(CHANNEL, QUEUE)
    third = wait(QUEUE, NODE, Reason.JOURNAL_FULL)
    for handle in [book.begin(each) for each in (first, second, third)]:
        book.end(handle, 1_000_000)
    assert book.chain(CONNECTION) == []
    now = 4_000_000
    told = book.chain(CONNECTION, now)
    assert [(each.reason, each.subject, each.cause) for each in told] == [
        (each.reason, each.subject, each.cause) for each in (first, second, third)
    ]
    assert told[0].detail == "went on 3 ms ago, as it does many times a second"
    assert book.all_lingering(now) == told
    # What waits now says so itself, and once.
    book.begin(third)
    assert book.chain(QUEUE, now) == [third]
    assert len(book.all_lingering(now)) == 2
    assert book.chain(CONNECTION, 1_000_000 + LINGER_NS) == []


@pytest.mark.parametrize("reason", [Reason.MEMORY_ALARM, Reason.PUBLISH_RATE])
def test_what_ends_for_good_is_over(reason: Reason) -> None:
    book = WaitBook()
    book.end(book.begin(wait(CONNECTION, NODE, reason)), 1)
    assert book.chain(CONNECTION, 2) == []


def test_few_ended_waits_are_remembered() -> None:
    book = WaitBook()
    for number in range(ENDED_MAX + 10):
        book.end(book.begin(wait(Subject(Kind.CHANNEL, str(number)), QUEUE)), number)
    told = book.all_lingering(ENDED_MAX + 10)
    assert len(told) == ENDED_MAX
    assert told[0].subject.name == "10"
