"""What arguments and policies come to as rules of a queue."""

import pytest

from warren.protocol.value import table
from warren.queues.rules import DROP_HEAD, REJECT_PUBLISH, REJECT_PUBLISH_DLX, QueueRules
from warren.vhost.policy import Policy
from warren.vhost.policy_effect import NOT_APPLIED, Applied, Origin, settings_of
from warren.vhost.queue_rules import COUNT_MAX, MILLISECONDS_MAX, rules_of, type_of


def applied(
    user: dict[str, object] | None = None, operator: dict[str, object] | None = None
) -> Applied:
    def one(definition: dict[str, object] | None, *, operators: bool) -> tuple[Policy, ...]:
        if definition is None:
            return ()
        name = "op" if operators else "user"
        return (
            Policy(vhost="/", name=name, pattern="", definition=definition, operator=operators),
        )

    return Applied(one(user, operators=False), one(operator, operators=True))


def facts(rules: QueueRules) -> dict[str, object]:
    """What differs from a queue without rules."""
    names = [name for name in dir(rules) if not name.startswith("_")]
    plain = rules_of({})
    return {
        name: getattr(rules, name)
        for name in names
        if not callable(getattr(rules, name)) and getattr(rules, name) != getattr(plain, name)
    }


def test_arguments_alone() -> None:
    arguments = table(
        {
            "x-message-ttl": 1,
            "x-expires": 2,
            "x-max-length": 3,
            "x-max-length-bytes": 4,
            "x-overflow": "reject-publish-dlx",
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "k",
            "x-max-priority": 6,
            "x-single-active-consumer": True,
            "x-delivery-limit": 7,
            "x-queue-mode": "lazy",
            "x-unknown": 8,
        }
    )
    assert facts(rules_of(arguments)) == {
        "message_ttl_ms": 1,
        "expires_ms": 2,
        "max_length": 3,
        "max_bytes": 4,
        "overflow": REJECT_PUBLISH_DLX,
        "dead_letter_exchange": "",
        "dead_letter_key": "k",
        "max_priority": 6,
        "single_active": True,
        "delivery_limit": 7,
        "counts_deliveries": True,
        "lazy": True,
    }


@pytest.mark.rule("PO-4", "PO-5")
def test_zero_is_a_bound_and_not_none() -> None:
    rules = rules_of(table({"x-max-length": 5}), applied({"max-length": 0}, {"max-length": 3}))
    assert rules.max_length == 0


@pytest.mark.rule("PO-5")
def test_what_wins_for_words_and_names() -> None:
    user: dict[str, object] = {
        "overflow": "reject-publish",
        "dead-letter-exchange": "theirs",
        "queue-mode": "lazy",
    }
    plain = rules_of({}, applied(user))
    assert (plain.overflow, plain.dead_letter_exchange, plain.lazy) == (
        REJECT_PUBLISH,
        "theirs",
        True,
    )
    own = table(
        {"x-overflow": "drop-head", "x-dead-letter-exchange": "", "x-queue-mode": "default"}
    )
    rules = rules_of(own, applied(user))
    assert (rules.overflow, rules.dead_letter_exchange, rules.lazy) == (DROP_HEAD, "", True)


def test_numbers_beyond_what_a_queue_can_count_are_bounded() -> None:
    keys = ("message-ttl", "expires", "max-length", "max-length-bytes", "delivery-limit")
    rules = rules_of({}, applied(dict.fromkeys(keys, 10**40)))
    assert rules.message_ttl_ms == rules.expires_ms == MILLISECONDS_MAX
    assert rules.max_length == rules.max_bytes == rules.delivery_limit == COUNT_MAX


def test_arguments_of_a_wrong_type_that_were_stored_once_mean_nothing() -> None:
    arguments = table({"x-max-length": "5", "x-overflow": 5, "x-queue-mode": "odd", "x-expires": 0})
    assert facts(rules_of(arguments)) == {}
    rules = rules_of(arguments, applied({"max-length": 7}))
    assert facts(rules) == {"max_length": 7}


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [({}, "classic"), ({"x-queue-type": "quorum"}, "quorum"), ({"x-queue-type": 5}, "classic")],
)
def test_the_type_of_a_queue(arguments: dict[str, object], kind: str) -> None:
    assert type_of(table(arguments)) == kind


@pytest.mark.rule("PO-4", "PO-5")
def test_every_setting_knows_who_decided_it() -> None:
    found = settings_of(
        applied({"max-length": 5, "expires": 9, "overflow": "drop-head"}, {"max-length": 4}),
        table({"x-max-length": 4, "x-expires": 8, "x-max-length-bytes": 7}),
    )
    assert {name: (one.value, one.origin, one.policy) for name, one in found.items()} == {
        # Of equal numbers the policy's stays.
        "max-length": (4, Origin.OPERATOR_POLICY, "op"),
        "expires": (8, Origin.ARGUMENT, ""),
        "overflow": ("drop-head", Origin.POLICY, "user"),
        "max-length-bytes": (7, Origin.ARGUMENT, ""),
    }


def test_nothing_applied_shares_nothing_with_what_is() -> None:
    settings_of(NOT_APPLIED, table({"x-max-length": 5}))
    assert NOT_APPLIED.settings == {}
    assert NOT_APPLIED.effective == {}
