"""Which policies apply to what."""

import pytest

from warren.vhost.policy import ApplyTo, Policy
from warren.vhost.policy_book import PolicyBook
from warren.vhost.policy_effect import NOT_APPLIED


def policy(
    name: str,
    pattern: str = "",
    priority: int = 0,
    *,
    apply_to: ApplyTo = ApplyTo.ALL,
    operator: bool = False,
    **definition: object,
) -> Policy:
    settings = {key.replace("_", "-"): value for key, value in definition.items()}
    return Policy(
        vhost="/",
        name=name,
        pattern=pattern,
        definition=settings or {"max-length": 1},
        priority=priority,
        apply_to=apply_to,
        operator=operator,
    )


def book_of(*policies: Policy, merging: bool = False) -> PolicyBook:
    book = PolicyBook(merging=merging)
    for one in policies:
        book.put(one)
    return book


@pytest.mark.rule("PO-1")
def test_patterns_are_searched_not_anchored_and_the_empty_one_is_found_everywhere() -> None:
    book = book_of(policy("mid", "rder", 1), policy("all", ""))
    assert book.for_queue("orders", "classic").policy == "mid"
    assert book.for_queue("bills", "classic").policy == "all"
    assert book.for_queue("", "classic").policy == "all"


@pytest.mark.rule("PO-1")
def test_apply_to_says_what_it_is_matched_with() -> None:
    book = book_of(
        policy("q", "x", 1, apply_to=ApplyTo.QUEUES),
        policy("e", "x", 2, apply_to=ApplyTo.EXCHANGES),
        policy("a", "x", 0),
    )
    assert book.for_queue("x", "classic").policy == "q"
    assert book.for_exchange("x").policy == "e"
    book.remove("q", operator=False)
    book.remove("e", operator=False)
    assert (book.for_queue("x", "classic").policy, book.for_exchange("x").policy) == ("a", "a")


@pytest.mark.rule("PO-1", "PO-2")
def test_the_higher_priority_applies_alone_and_ties_go_by_name() -> None:
    book = book_of(
        policy("low", "", -5, expires=9),
        policy("b", "", 3, max_length=2),
        policy("a", "", 3, max_length=1),
        policy("o2", "", 1, operator=True, max_length=7),
        policy("o1", "", 2, operator=True, expires=8),
    )
    applied = book.for_queue("q", "classic")
    assert (applied.policy, applied.operator_policy) == ("a", "o1")
    assert dict(applied.effective) == {"expires": 8, "max-length": 1}
    book.remove("a", operator=False)
    assert book.for_queue("q", "classic").policy == "b"


@pytest.mark.rule("PO-3")
def test_a_policy_with_a_key_of_another_type_is_passed_over_as_a_whole() -> None:
    book = book_of(
        policy("quorum", "", 5, dead_letter_strategy="at-least-once", max_length=5),
        policy("classic", "", 4, queue_mode="lazy", max_length=4),
        policy("any", "", 3, max_length=3),
    )
    assert book.for_queue("q", "classic").policy == "classic"
    assert book.for_queue("q", "quorum").policy == "quorum"
    assert book.for_queue("q", "stream").policy == ""
    assert book.for_exchange("q").policy == "quorum"


@pytest.mark.rule("PO-6")
def test_mirroring_applies_to_classic_queues_and_a_delivery_limit_to_all_that_count() -> None:
    book = book_of(policy("ha", "^ha", 1, ha_mode="all"), policy("limit", "", 0, delivery_limit=3))
    assert book.for_queue("ha.x", "classic").policy == "ha"
    assert book.for_queue("ha.x", "quorum").policy == "limit"
    assert book.for_queue("x", "classic").policy == "limit"


def test_a_policy_that_is_put_again_replaces_the_old_one_whole() -> None:
    book = book_of(policy("p", "^a", 5), policy("p", "^b"))
    assert book.for_queue("a", "classic") is NOT_APPLIED
    assert book.for_queue("b", "classic").policies == (policy("p", "^b"),)
    assert book.get("p", operator=False) == policy("p", "^b")
    assert book.get("p", operator=True) is None
    assert len(book) == 1


def test_a_stored_pattern_that_is_none_here_matches_nothing() -> None:
    book = book_of(policy("p", r"\R", 5), policy("q", ""))
    assert book.for_queue("a", "classic").policy == "q"
    assert book.get("p", operator=False) == policy("p", r"\R", 5)
    assert book.remove("p", operator=False) == policy("p", r"\R", 5)


def test_what_is_removed_applies_no_more() -> None:
    book = book_of(policy("p", "long name"), policy("p", "", operator=True))
    assert book.remove("x", operator=False) is None
    assert book.remove("p", operator=False) == policy("p", "long name")
    assert book.remove("p", operator=False) is None
    assert book.for_queue("long name", "classic").policy == ""
    assert book.for_queue("long name", "classic").operator_policy == "p"
    book.remove("p", operator=True)
    assert book.for_queue("long name", "classic") is NOT_APPLIED
    assert len(book) == 0


def test_they_are_listed_by_priority_the_lowest_first() -> None:
    book = book_of(policy("b", "", 1), policy("c", "", -1), policy("a", "", 1))
    assert [one.name for one in book.all(operator=False)] == ["c", "a", "b"]
    assert book.all(operator=True) == []


def test_objects_under_the_same_policies_share_what_applies() -> None:
    book = book_of(policy("p", "q"), policy("o", "1", operator=True))
    assert book.for_queue("q2", "classic") is book.for_queue("q3", "classic")
    assert book.for_queue("q1", "classic") is not book.for_queue("q2", "classic")
    before = book.for_queue("q2", "classic")
    book.put(policy("p", "q", max_length=9))
    assert not book.for_queue("q2", "classic").same_as(before)
    book.put(policy("p", "q"))
    assert book.for_queue("q2", "classic").same_as(before)


def test_merging_joins_all_that_match_by_priority() -> None:
    book = book_of(
        policy("low", "", 0, max_length=9, expires=9),
        policy("high", "", 2, max_length=2),
        policy("elsewhere", "^x", 3, max_length=7),
        policy("foreign", "", 4, dead_letter_strategy="at-least-once"),
        policy("o1", "", 1, operator=True, max_length=5),
        policy("o2", "", 0, operator=True, max_length=1, expires=3),
        merging=True,
    )
    applied = book.for_queue("q", "classic")
    assert [one.name for one in applied.policies] == ["high", "low"]
    assert applied.policy == "high"
    assert {name: (one.value, one.policy) for name, one in applied.settings.items()} == {
        "expires": (3, "o2"),
        "max-length": (2, "high"),
    }
