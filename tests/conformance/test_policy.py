"""Which policies apply to what, how they are set, refused, shown and cleared (section 8)."""

from typing import Any

import pytest

from tests.conformance.test_exchange import exists as exchange_exists
from tests.support.fixtures import StartTimed
from tests.support.policy import Desk, one


@pytest.fixture
def desk(start_timed: StartTimed) -> Desk:
    return desk_of(start_timed)


def desk_of(start_timed: StartTimed, **settings: Any) -> Desk:
    timed = start_timed(**settings)
    if not hasattr(timed, "broker"):
        pytest.skip("policies are set through the control interface")
    return Desk(timed)


@pytest.mark.rule("PO-1")
def test_a_pattern_is_searched_in_names(desk: Desk) -> None:
    for name in ("orders", "reorders", "order", "bills"):
        desk.queue(name)
    desk.set("p", "orders", max_length=1)
    assert [desk.applied(name)[0] for name in ("orders", "reorders", "order", "bills")] == [
        "p",
        "p",
        "",
        "",
    ]
    desk.set("p", "^orders$", max_length=1)
    assert [desk.applied(name)[0] for name in ("orders", "reorders")] == ["p", ""]


@pytest.mark.rule("PO-1")
def test_what_a_policy_applies_to(desk: Desk) -> None:
    desk.queue("thing")
    desk.channel.exchange_declare("thing", "direct")
    found = {}
    for apply_to in ("queues", "exchanges", "all"):
        desk.set("p", "^thing$", apply_to=apply_to, max_length=5)
        named = desk.explained(queue="thing"), desk.explained(exchange="thing")
        found[apply_to] = [one["policy"] for one in named]
    assert found == {"queues": ["p", ""], "exchanges": ["", "p"], "all": ["p", "p"]}
    # Predeclared exchanges are exchanges like any other.
    desk.set("amq", r"^amq\.", max_length=5)
    assert desk.explained(exchange="amq.topic")["policy"] == "amq"


@pytest.mark.rule("PO-1", "PO-2")
def test_the_highest_priority_applies_alone(desk: Desk) -> None:
    desk.queue("q")
    desk.set("low", "q", priority=-1, max_length=1, message_ttl=1000)
    desk.set("b", "q", priority=7, expires=60_000)
    desk.set("a", "q", priority=7, max_length=3)
    assert desk.applied("q") == ("a", "")
    assert desk.effective("q") == {"max-length": 3}
    desk.clear("a")
    assert (desk.applied("q")[0], desk.effective("q")) == ("b", {"expires": 60_000})
    desk.clear("b")
    assert desk.effective("q") == {"max-length": 1, "message-ttl": 1000}
    desk.clear("low")
    assert (desk.applied("q"), desk.effective("q")) == (("", ""), {})


@pytest.mark.rule("PO-1")
def test_setting_a_policy_again_replaces_all_of_it(desk: Desk) -> None:
    desk.queue("q")
    desk.set("p", "q", priority=5, apply_to="queues", max_length=1)
    desk.command("set_policy", name="p", pattern="^q", definition='{"expires": 60000}')
    assert desk.command("list_policies")["rows"] == [["/", "p", "^q", "all", {"expires": 60000}, 0]]
    assert desk.effective("q") == {"expires": 60000}


@pytest.mark.rule("PO-3")
def test_a_policy_with_a_key_of_another_queue_type_is_passed_over(desk: Desk) -> None:
    desk.queue("classic")
    desk.channel.queue_declare("quorum", durable=True, arguments={"x-queue-type": "quorum"})
    desk.set("any", priority=1, max_length=9)
    desk.set("quorum-only", priority=2, max_length=8, dead_letter_strategy="at-most-once")
    desk.set("classic-only", priority=3, max_length=7, queue_mode="lazy")
    desk.set("stream-only", priority=4, max_length_bytes=6, max_age="1h")
    assert [desk.applied(name)[0] for name in ("classic", "quorum")] == [
        "classic-only",
        "quorum-only",
    ]
    desk.clear("classic-only")
    assert desk.applied("classic")[0] == "any"


@pytest.mark.rule("PO-4")
@pytest.mark.parametrize(
    "key", ["message-ttl", "expires", "max-length", "max-length-bytes", "delivery-limit"]
)
def test_the_smaller_of_policy_and_operator_policy_holds(desk: Desk, key: str) -> None:
    name = key.replace("-", "_")
    desk.queue("q")
    for user, operator, decided in ((7000, 5000, "op"), (5000, 7000, "user"), (5000, 5000, "user")):
        desk.set("user", "", **one(name, user))
        desk.set("op", "", operator=True, **one(name, operator))
        assert desk.in_force("q") == {key: (5000, decided)}
        assert desk.effective("q") == {key: 5000}
    desk.clear("user")
    assert desk.in_force("q") == {key: (5000, "op")}


@pytest.mark.rule("PO-4")
def test_an_operator_policy_bounds_and_adds(desk: Desk) -> None:
    desk.queue("q")
    desk.set("user", "", overflow="reject-publish", max_length=100)
    desk.set("op", "", operator=True, max_length=2, expires=90_000)
    assert desk.applied("q") == ("user", "op")
    assert desk.effective("q") == {"expires": 90_000, "max-length": 2, "overflow": "reject-publish"}
    desk.channel.confirm_select()
    for number in range(3):
        desk.channel.publish(b"%d" % number, routing_key="q")
    assert list(desk.channel.wait_confirms(3).values()) == ["ack", "ack", "nack"]


@pytest.mark.rule("PO-6")
def test_keys_without_effect_are_kept_and_shown(desk: Desk) -> None:
    desk.queue("q")
    definition = {
        "ha-mode": "exactly",
        "ha-params": 2,
        "ha-sync-mode": "automatic",
        "ha-promote-on-shutdown": "always",
        "ha-promote-on-failure": "when-synced",
        "ha-sync-batch-size": 10,
        "queue-master-locator": "min-masters",
        "queue-mode": "lazy",
        "queue-version": 2,
    }
    desk.command("set_policy", name="ha", pattern="q", definition=definition)
    assert desk.effective("q") == definition
    rows = {row["key"]: row["idle"] for row in desk.explained(queue="q")["settings"]}
    assert rows["ha-mode"] == rows["queue-master-locator"] == "there is no cluster yet"


@pytest.mark.rule("PO-7")
@pytest.mark.parametrize("key", ["queue-mode", "overflow", "dead-letter-exchange", "ha-mode"])
def test_what_an_operator_policy_may_not_contain(desk: Desk, key: str) -> None:
    definition = {key: {"queue-mode": "lazy", "overflow": "drop-head"}.get(key, "all")}
    told = desk.refusal("set_operator_policy", name="o", pattern="", definition=definition)
    assert told.endswith(" are not recognised policy settings\n")
    desk.command("set_policy", name="o", pattern="", definition=definition)


@pytest.mark.rule("PO-7")
def test_policies_and_operator_policies_have_names_of_their_own(desk: Desk) -> None:
    desk.set("p", "", max_length=1)
    desk.set("p", "", operator=True, expires=90_000, priority=3)
    desk.queue("q")
    assert desk.applied("q") == ("p", "p")
    desk.clear("p")
    assert desk.applied("q") == ("", "p")
    assert desk.command("list_policies")["rows"] == []
    row = ["/", "p", "", "all", {"expires": 90000}, 3]
    assert desk.command("list_operator_policies")["rows"] == [row]
    desk.clear("p", operator=True)
    assert desk.applied("q") == ("", "")


@pytest.mark.rule("PO-9")
def test_what_is_new_is_matched_when_it_is_made(desk: Desk) -> None:
    desk.set("p", "^new", max_length=2, alternate_exchange="amq.fanout")
    desk.queue("new")
    desk.fill("new", b"1", b"2", b"3")
    assert desk.bodies("new") == [b"2", b"3"]
    desk.channel.exchange_declare("new", "direct")
    desk.queue("rest")
    desk.channel.queue_bind("rest", "amq.fanout")
    desk.channel.publish(b"stray", exchange="new", routing_key="nowhere")
    assert desk.bodies("rest") == [b"stray"]


@pytest.mark.rule("PO-9")
def test_a_queue_of_a_deleted_one_s_name_is_matched_anew(desk: Desk) -> None:
    desk.set("strict", "^q", priority=1, queue_mode="lazy", max_length=1)
    desk.set("other", "^q", max_length=2)
    desk.queue("q")
    assert desk.applied("q")[0] == "strict"
    desk.channel.queue_delete("q")
    desk.channel.queue_declare("q", durable=True, arguments={"x-queue-type": "quorum"})
    assert desk.applied("q")[0] == "other"


@pytest.mark.rule("PO-10")
@pytest.mark.parametrize(
    ("definition", "told"),
    [
        ({}, "no policy provided"),
        ("{}", "no policy provided"),
        ({"max-length": -1}, "-1 is not a valid maximum length"),
        ({"max-length": "1"}, '<<"1">> is not a valid maximum length'),
        ({"max-length-bytes": -1}, "-1 is not a valid maximum length in bytes"),
        ({"message-ttl": True}, "true is not a valid message TTL"),
        ({"expires": 0}, "0 is not a valid queue expiry"),
        ({"consumer-timeout": -1}, "-1 is not a valid consumer timeout"),
        ({"overflow": "drop-tail"}, '<<"drop-tail">> is not a valid overflow value'),
        ({"queue-mode": " lazy"}, '<<" lazy">> is not a valid queue-mode value'),
        ({"ha-mode": "some"}, '<<"some">> is not a valid ha-mode value'),
        ({"ha-params": 2}, "ha-mode must be specified"),
        ({"dead-letter-exchange": 1}, "1 is not a valid dead letter exchange name"),
        ({"alternate-exchange": None}, "null is not a valid alternate exchange name"),
        ({"max-len": 5}, '[{<<"max-len">>,5}] are not recognised policy settings'),
    ],
)
def test_definitions_that_are_refused(desk: Desk, definition: Any, told: str) -> None:
    desk.queue("q")
    text = desk.refusal("set_policy", name="p", pattern="", definition=definition)
    assert text.startswith(f"Validation failed\n\n{told}")
    assert desk.applied("q") == ("", "")
    assert desk.command("list_policies")["rows"] == []


@pytest.mark.rule("PO-10")
@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"pattern": "(unclosed"}, "pattern should be regular expression but is invalid: "),
        ({"pattern": r"^(a+)+\1$"}, "pattern should be regular expression but is invalid: "),
        (
            {"apply_to": "bindings"},
            "apply-to 'bindings' unrecognised; should be 'queues', 'exchanges' or 'all'",
        ),
        ({"definition": "{max-length: 5}"}, "JSON decoding error. Reason: "),
        ({"definition": '{"max-length": NaN}'}, "JSON decoding error. Reason: "),
        ({"definition": "[" * 9000}, "JSON decoding error"),
        ({"definition": ["max-length"]}, "definition must be a dictionary"),
        ({"definition": "5"}, "definition must be a dictionary: 5"),
        ({"vhost": "none"}, "Virtual host 'none' does not exist"),
        ({"name": ""}, "set_policy: Expected `str` of length >= 1"),
    ],
)
def test_what_else_is_refused(desk: Desk, wrong: dict[str, Any], told: str) -> None:
    right = {"name": "p", "pattern": "^q", "definition": {"max-length": 5}}
    assert told in desk.refusal("set_policy", **right | wrong)
    assert desk.command("list_policies")["rows"] == []


@pytest.mark.rule("PO-10")
def test_a_policy_that_is_not_there_cannot_be_cleared(desk: Desk) -> None:
    desk.set("op", "", operator=True, max_length=5)
    assert desk.refusal("clear_policy", name="op") == "Parameter does not exist"
    assert desk.refusal("clear_operator_policy", name="p") == "Parameter does not exist"


@pytest.mark.rule("PO-10")
def test_a_refused_change_leaves_the_policy_there_was(desk: Desk) -> None:
    desk.queue("q")
    desk.set("p", "", max_length=5)
    desk.refusal("set_policy", name="p", pattern="", definition={"max-length": -5})
    assert desk.effective("q") == {"max-length": 5}


def test_numbers_beyond_every_limit_are_taken_and_shown(desk: Desk) -> None:
    desk.queue("q")
    keys = ("max-length", "max-length-bytes", "message-ttl", "expires", "delivery-limit")
    huge = dict.fromkeys(keys, 10**30)
    desk.command("set_policy", name="p", pattern="", definition=huge)
    assert desk.effective("q") == huge
    desk.fill("q", b"1", b"2")
    desk.timed.pass_time(1000)
    assert desk.bodies("q") == [b"1", b"2"]
    assert desk.listed() == {"q": ("p", None, huge)}


def test_lists_show_what_applies(desk: Desk) -> None:
    desk.queue("q")
    desk.queue("other")
    desk.set("p", "^q$", max_length=5)
    desk.set("o", "^q$", operator=True, max_length=4)
    assert desk.listed() == {"q": ("p", "o", {"max-length": 4}), "other": (None, None, {})}
    shown = ["name", "policy"]
    rows = desk.command("list_exchanges", columns=shown)["rows"]
    assert {policy for _, policy in rows} == {None}
    desk.set("p", "topic", max_length=5)
    rows = desk.command("list_exchanges", columns=shown)["rows"]
    assert {name for name, policy in rows if policy == "p"} == {"amq.topic"}


@pytest.mark.rule("VH-1", "PO-1")
def test_policies_are_those_of_their_vhost(desk: Desk) -> None:
    desk.set("p", "", max_length=1)
    with desk.broker.vhost("elsewhere") as elsewhere:
        elsewhere.declare_queue("q")
        place = {"vhost": "elsewhere", "queue": "q"}
        assert desk.explained(**place)["policy"] == ""
        desk.command(
            "set_policy", vhost="elsewhere", name="p", pattern="", definition={"max-length": 2}
        )
        assert desk.explained(**place)["effective_policy_definition"] == {"max-length": 2}
        assert len(desk.command("list_policies")["rows"]) == 2
        assert len(desk.command("list_policies", vhost="elsewhere")["rows"]) == 1
    assert [row[0] for row in desk.command("list_policies")["rows"]] == ["/"]


def test_all_that_match_apply_when_they_are_merged(start_timed: StartTimed) -> None:
    desk = desk_of(start_timed, merge_policies="true")
    desk.queue("q", x_max_length=50)
    desk.set("base", "", max_length=10, message_ttl=9000)
    desk.set("lazy", "^q", priority=1, queue_mode="lazy", max_length=20)
    desk.set("tenant", "^q", priority=2, expires=60_000)
    desk.set("bound", "", operator=True, message_ttl=5000)
    assert desk.applied("q") == ("tenant", "bound")
    assert desk.in_force("q") == {
        "expires": (60_000, "tenant"),
        "max-length": (20, "lazy"),
        "message-ttl": (5000, "bound"),
        "queue-mode": ("lazy", "lazy"),
    }


@pytest.mark.rule("PO-9")
@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_policies_survive_a_restart_and_are_in_force(desk: Desk, kill: bool) -> None:
    channel = desk.channel
    channel.queue_declare("q", durable=True, arguments={"x-max-length": 5})
    channel.exchange_declare("x", "direct", durable=True)
    desk.set(
        "p", "^[qx]$", priority=-3, apply_to="all", max_length=2, alternate_exchange="amq.fanout"
    )
    desk.set("gone", "", priority=9, expires=60_000)
    desk.set("op", "^q", operator=True, max_length_bytes=10**12)
    desk.clear("gone")
    listed = [desk.command(f"list_{kind}policies")["rows"] for kind in ("", "operator_")]
    explained = desk.explained(queue="q")
    desk.broker.restart(kill=kill)
    desk.channel = desk.timed.connect().channel()
    assert listed == [desk.command(f"list_{kind}policies")["rows"] for kind in ("", "operator_")]
    assert desk.explained(queue="q") == explained
    assert exchange_exists(desk.channel, "x")
    desk.fill("q", b"1", b"2", b"3")
    assert desk.bodies("q") == [b"2", b"3"]
    desk.queue("rest")
    desk.channel.queue_bind("rest", "amq.fanout")
    desk.channel.publish(b"stray", exchange="x", routing_key="nowhere")
    assert desk.bodies("rest") == [b"stray"]
