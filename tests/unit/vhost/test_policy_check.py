"""What policies may say, and the texts of refusals; these were taken down from RabbitMQ 3.10.8."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.vhost.policy import ApplyTo, Policy, PolicyError
from warren.vhost.policy_check import as_definition, checked, read_definition, term
from warren.vhost.policy_key import KEYS


def made(definition: str, *, operator: bool = False, **parts: str) -> Policy:
    return checked(
        vhost="/",
        name="p",
        pattern=parts.get("pattern", "^"),
        definition=read_definition(definition),
        apply_to=parts.get("apply_to", "all"),
        operator=operator,
    )


def refusal(definition: str, *, operator: bool = False, **parts: str) -> list[str]:
    with pytest.raises(PolicyError) as caught:
        made(definition, operator=operator, **parts)
    title, empty, *rest, end = str(caught.value).split("\n")
    assert (title, empty, end) == ("Validation failed", "", "")
    return rest


@pytest.mark.rule("PO-10")
@pytest.mark.parametrize(
    ("definition", "text"),
    [
        ('{"foo":"bar"}', '[{<<"foo">>,<<"bar">>}] are not recognised policy settings'),
        (
            '{"foo":1,"bar":[1,"a",{"k":true}],"max-length":5}',
            '[{<<"bar">>,[1,<<"a">>,#{<<"k">> => true}]},{<<"foo">>,1}] '
            "are not recognised policy settings",
        ),
        (
            '{"foo":null,"baz":1.5,"b":{"x":1}}',
            '[{<<"b">>,#{<<"x">> => 1}},{<<"baz">>,1.5},{<<"foo">>,null}] '
            "are not recognised policy settings",
        ),
        ("{}", "no policy provided"),
        ('{"max-length":-1}', "-1 is not a valid maximum length"),
        ('{"max-length":"a"}', '<<"a">> is not a valid maximum length'),
        ('{"max-length":1.5}', "1.5 is not a valid maximum length"),
        ('{"max-length":true}', "true is not a valid maximum length"),
        ('{"max-length":null}', "null is not a valid maximum length"),
        ('{"max-length":[1,2]}', "[1,2] is not a valid maximum length"),
        ('{"max-length":{"a":1}}', '#{<<"a">> => 1} is not a valid maximum length'),
        ('{"max-length-bytes":-1}', "-1 is not a valid maximum length in bytes"),
        ('{"message-ttl":-1}', "-1 is not a valid message TTL"),
        ('{"expires":0}', "0 is not a valid queue expiry"),
        ('{"dead-letter-exchange":1}', "1 is not a valid dead letter exchange name"),
        ('{"dead-letter-routing-key":1}', "1 is not a valid dead letter routing key"),
        ('{"alternate-exchange":1}', "1 is not a valid alternate exchange name"),
        ('{"queue-mode":"x"}', '<<"x">> is not a valid queue-mode value'),
        ('{"queue-mode":1}', "1 is not a valid queue-mode value"),
        ('{"overflow":"x"}', '<<"x">> is not a valid overflow value'),
        ('{"delivery-limit":-1}', "-1 is not a valid delivery limit"),
        ('{"dead-letter-strategy":"x"}', '<<"x">> is not a valid dead letter strategy'),
        ('{"max-in-memory-length":-1}', "-1 is not a valid maximum memory in bytes"),
        ('{"max-in-memory-bytes":-1}', "-1 is not a valid maximum memory in bytes"),
        ('{"queue-version":3}', "3 is not a valid queue-version value"),
        ('{"queue-version":true}', "true is not a valid queue-version value"),
        ('{"max-age":"x"}', '<<"x">> is not a valid max age'),
        ('{"stream-max-segment-size-bytes":-1}', "-1 is not a valid segment size"),
        ('{"queue-leader-locator":"x"}', '<<"x">> is not a valid queue leader locator value'),
        ('{"initial-cluster-size":-1}', "-1 is not a valid cluster size"),
        ('{"queue-master-locator":"x"}', '<<"x">> invalid queue-master-locator value'),
        ('{"max-length":-1,"expires":0,"foo":1}', "0 is not a valid queue expiry"),
        ('{"max-length":1,"max-length":-2}', "-2 is not a valid maximum length"),
        ('{"foo":1,"ha-mode":"x"}', '<<"x">> is not a valid ha-mode value'),
        ('{"max-length":-1,"ha-mode":"x"}', "-1 is not a valid maximum length"),
        (
            '{"max-length":-1,"queue-master-locator":"x"}',
            '<<"x">> invalid queue-master-locator value',
        ),
        (
            '{"queue-type":"quorum"}',
            '[{<<"queue-type">>,<<"quorum">>}] are not recognised policy settings',
        ),
    ],
)
def test_a_wrong_definition_is_refused_in_the_words_of_rabbitmq(definition: str, text: str) -> None:
    assert refusal(definition) == [text]


@pytest.mark.rule("PO-6", "PO-10")
@pytest.mark.parametrize(
    ("definition", "text"),
    [
        ('{"ha-mode":"all","ha-params":2}', 'ha-mode="all" does not take parameters'),
        ('{"ha-mode":"x"}', '<<"x">> is not a valid ha-mode value'),
        ('{"ha-mode":1}', "1 is not a valid ha-mode value"),
        ('{"ha-mode":"exactly"}', 'ha-mode="exactly" takes an integer, none given'),
        ('{"ha-mode":"exactly","ha-params":0}', 'ha-mode="exactly" takes an integer, 0 given'),
        (
            '{"ha-mode":"exactly","ha-params":"2"}',
            'ha-mode="exactly" takes an integer, <<"2">> given',
        ),
        ('{"ha-mode":"nodes"}', 'ha-mode="nodes" takes a list, none given'),
        ('{"ha-mode":"nodes","ha-params":[]}', 'ha-mode="nodes" list must be non-empty'),
        (
            '{"ha-mode":"nodes","ha-params":[1,"a",2]}',
            'ha-mode="nodes" takes a list of strings, [1,2] was not a string',
        ),
        ('{"ha-mode":"nodes","ha-params":"a"}', 'ha-mode="nodes" takes a list, <<"a">> given'),
        (
            '{"ha-mode":"all","ha-sync-mode":"x"}',
            'ha-sync-mode must be "manual" or "automatic", got <<"x">>',
        ),
        (
            '{"ha-mode":"all","ha-sync-batch-size":0}',
            "ha-sync-batch-size takes an integer greater than 0, 0 given",
        ),
        (
            '{"ha-mode":"all","ha-promote-on-shutdown":"x"}',
            'ha-promote-on-shutdown must be "always" or "when-synced", got <<"x">>',
        ),
        (
            '{"ha-mode":"all","ha-promote-on-failure":5}',
            'ha-promote-on-failure must be "always" or "when-synced", got 5',
        ),
        *[
            (
                definition,
                "ha-mode must be specified to specify ha-params, ha-sync-mode or "
                "ha-promote-on-shutdown",
            )
            for definition in (
                '{"ha-params":2}',
                '{"ha-sync-mode":"automatic"}',
                '{"ha-sync-batch-size":1}',
                '{"ha-promote-on-failure":"always"}',
            )
        ],
    ],
)
def test_the_keys_of_mirroring_are_checked_together(definition: str, text: str) -> None:
    assert refusal(definition) == [text]


@pytest.mark.rule("PO-6")
@pytest.mark.parametrize(
    "definition",
    [
        '{"ha-mode":"all"}',
        '{"ha-mode":"exactly","ha-params":2,"ha-sync-mode":"automatic"}',
        '{"ha-mode":"nodes","ha-params":["a@b"]}',
        '{"ha-mode":"all","ha-sync-mode":"manual","ha-sync-batch-size":5,'
        '"ha-promote-on-shutdown":"always","ha-promote-on-failure":"when-synced"}',
        '{"queue-master-locator":"min-masters"}',
        '{"dead-letter-strategy":"at-least-once","delivery-limit":0}',
        '{"max-in-memory-length":0,"max-in-memory-bytes":0}',
        '{"max-age":"1D","stream-max-segment-size-bytes":0,"initial-cluster-size":0}',
        '{"queue-leader-locator":"balanced","queue-version":2}',
        '{"message-ttl":0,"max-length":0,"max-length-bytes":0,"expires":1}',
        '{"message-ttl":400000000000,"max-length":99999999999999999999999}',
        '{"dead-letter-exchange":"","dead-letter-routing-key":"k","alternate-exchange":"a"}',
        '{"queue-mode":"lazy","overflow":"reject-publish-dlx"}',
    ],
)
def test_what_rabbitmq_takes_is_taken(definition: str) -> None:
    assert made(definition).definition == read_definition(definition)


@pytest.mark.rule("PO-7")
def test_operators_may_set_bounds_only() -> None:
    allowed = {
        "expires", "message-ttl", "max-length", "max-length-bytes", "max-in-memory-length",
        "max-in-memory-bytes", "delivery-limit", "deduplicate-max-keys",
    }  # fmt: skip
    assert {name for name, key in KEYS.items() if key.operator} == allowed
    for name in allowed:
        assert made(f'{{"{name}":4}}', operator=True).operator
    for name in KEYS.keys() - allowed:
        (text,) = refusal(f'{{"{name}":4}}', operator=True)
        assert text == f'[{{<<"{name}">>,4}}] are not recognised policy settings'
    assert refusal('{"expires":0}', operator=True) == ["0 is not a valid queue expiry"]
    assert refusal('{"foo":1,"ha-mode":"x"}', operator=True) == [
        '[{<<"foo">>,1},{<<"ha-mode">>,<<"x">>}] are not recognised policy settings'
    ]


@pytest.mark.rule("PO-10")
def test_everything_that_is_wrong_is_told_at_once() -> None:
    assert refusal('{"foo":1}', pattern="(", apply_to="x") == [
        '[{<<"foo">>,1}] are not recognised policy settings',
        "apply-to 'x' unrecognised; should be 'queues', 'exchanges' or 'all'",
        "pattern should be regular expression but is invalid: "
        "missing ), unterminated subpattern at position 0",
    ]
    with pytest.raises(PolicyError, match="priority should be between"):
        checked(vhost="/", name="p", pattern="", definition={"expires": 1}, priority=2**63)


@pytest.mark.rule("PO-1")
def test_priority_and_apply_to_have_defaults() -> None:
    policy = checked(vhost="v", name="p", pattern="", definition={"expires": 1})
    assert (policy.priority, policy.apply_to, policy.operator) == (0, ApplyTo.ALL, False)


@pytest.mark.rule("PO-10")
@pytest.mark.parametrize(
    "text", ["", "nonsense", '{"a":1', '{"a":NaN}', '{"a":"\\ud800"}', "[" * 100_000]
)
def test_what_is_no_json_is_told(text: str) -> None:
    with pytest.raises(PolicyError, match=r"^JSON decoding error\. Reason: "):
        read_definition(text)


@pytest.mark.rule("PO-10")
@pytest.mark.parametrize(("text", "shown"), [("[1]", "[1]"), ("5", "5"), ('"a"', '<<"a">>')])
def test_a_definition_is_an_object(text: str, shown: str) -> None:
    with pytest.raises(PolicyError, match="definition must be a dictionary: ") as caught:
        read_definition(text)
    assert str(caught.value).endswith(f"{shown}\n")
    with pytest.raises(PolicyError):
        as_definition(None)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
SETTINGS = st.dictionaries(st.sampled_from([*KEYS, "foo"]), JSON, max_size=5)


@given(definition=SETTINGS, operator=st.booleans(), pattern=st.text(max_size=9))
def test_anything_is_a_policy_or_a_refusal(
    definition: dict[str, object], operator: bool, pattern: str
) -> None:
    told = ""
    try:
        checked(vhost="/", name="p", pattern=pattern, definition=definition, operator=operator)
    except PolicyError as refused:
        told = str(refused)
    assert told.startswith("Validation failed\n\n") or not told
    assert told or (definition and "foo" not in definition)


def test_a_deep_value_is_not_printed_to_its_end() -> None:
    value: object = 1
    for _ in range(5000):
        value = [value]
    assert term(value).endswith("[..." + "]" * 33)
