"""The words of a `warrenctl` command line, its formats and terms, without a node."""

import pytest

from warren.cli.ctl.failure import Misuse
from warren.cli.ctl.shape import FORMATTERS, lines
from warren.cli.ctl.term import cell, term
from warren.cli.ctl.verbs import VERBS
from warren.cli.ctl.words import Words, check, read, takes

USAGE = {name: verb.usage for name, verb in VERBS.items()}


def words(line: str) -> Words:
    return read(line.split(), USAGE)


@pytest.mark.parametrize(
    ("usage", "least", "most"),
    [
        ("", 0, 0),
        ("<username> [<password>]", 1, 2),
        ("[--vhost <vhost>] <username> <conf> <write> <read>", 4, 4),
        ("<fraction> | absolute <value>", 1, 2),
        ("<username> [<tag> ...]", 1, 1_000_000),
        ("[--no-table-headers] [<column> ...] [--timeout <timeout>]", 0, 1_000_000),
        ("<queue_name> [--if-empty|-e] [--if-unused|-u]", 1, 1),
    ],
)
def test_what_a_usage_line_takes(usage: str, least: int, most: int) -> None:
    found = takes(usage)
    assert (found.least, found.most) == (least, most)


@pytest.mark.parametrize(
    "line",
    [
        "set_policy Lazy ^q {} --apply-to queues -p v",
        "set_policy -p v --apply-to queues Lazy ^q {}",
        "-p v set_policy Lazy --apply-to=queues ^q {}",
        "--vhost=v set_policy --apply-to queues -- Lazy ^q {}",
    ],
)
@pytest.mark.rule("O-1.1")
def test_options_may_stand_anywhere(line: str) -> None:
    found = words(line)
    assert found.verb == "set_policy"
    assert found.arguments == ["Lazy", "^q", "{}"]
    assert found.options == {"vhost": "v", "apply-to": "queues"}
    check(found, USAGE[found.verb])


def test_what_begins_with_a_dash_and_is_no_option() -> None:
    assert words("set_vm_memory_high_watermark -1").arguments == ["-1"]
    assert words("export_definitions -").arguments == ["-"]
    assert words("add_user -- -n --x").arguments == ["-n", "--x"]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("list_users --foo", "--foo : "),
        ("list_users -n", "-n : "),
        ("list_users -t soon", "-t : soon"),
        ("list_users --timeout -1", "--timeout : -1"),
        ("list_users --quiet=no", "--quiet : no"),
        ("set_policy a b {} --priority x", "--priority : x"),
    ],
)
def test_options_that_there_are_not(line: str, told: str) -> None:
    found = words(line)
    with pytest.raises(Misuse, match="Invalid options for this command") as caught:
        check(found, USAGE[found.verb])
    assert caught.value.text.endswith("\n" + told)


def test_every_usage_line_can_be_met() -> None:
    for name, usage in USAGE.items():
        found = takes(usage)
        assert 0 <= found.least <= found.most, name
        check(read([name, *["x"] * found.least], USAGE), usage)


# -- formats -------------------------------------------------------------------------------------

ROWS = (['a"b', 1, None, True], ["c\td", 2.5, ["x"], False])
COLUMNS = ("name", "messages", "policy", "durable")


@pytest.mark.parametrize(
    ("formatter", "shown"),
    [
        ("table", ["name\tmessages\tpolicy\tdurable", 'a"b\t1\t\ttrue', "c\td\t2.5\t[x]\tfalse"]),
        (
            "csv",
            [
                '"name","messages","policy","durable"',
                '"a""b","1","","true"',
                '"c\td","2.5","[x]","false"',
            ],
        ),
        (
            "json",
            [
                "[",
                '{"name":"a\\"b","messages":1,"policy":"","durable":true}',
                ',{"name":"c\\td","messages":2.5,"policy":["x"],"durable":false}',
                "]",
            ],
        ),
        (
            "erlang",
            [
                '[[{name,<<"a\\"b">>},{messages,1},{policy,\'\'},{durable,true}],\n'
                ' [{name,<<"c\\td">>},{messages,2.5},{policy,[<<"x">>]},{durable,false}]]'
            ],
        ),
    ],
)
@pytest.mark.rule("O-1.4")
def test_formats(formatter: str, shown: list[str]) -> None:
    assert list(lines(formatter, COLUMNS, ROWS, headers=True)) == shown


@pytest.mark.parametrize("formatter", FORMATTERS)
def test_a_list_without_rows_has_no_heads(formatter: str) -> None:
    shown = "".join(lines(formatter, COLUMNS, [], headers=True))
    assert shown in {"", "[]"}


def test_boxes_are_as_wide_as_what_is_in_them() -> None:
    shown = list(lines("pretty_table", ("a", "b"), [["long", "x"], ["y", ""]], headers=True))
    assert shown == [
        "\x1b(0lqqqqqqwqqqk\x1b(B",
        "\x1b(0x\x1b(B \x1b[1ma\x1b[0m    \x1b(0x\x1b(B \x1b[1mb\x1b[0m \x1b(0x\x1b(B",
        "\x1b(0tqqqqqqnqqqu\x1b(B",
        "\x1b(0x\x1b(B long \x1b(0x\x1b(B x \x1b(0x\x1b(B",
        "\x1b(0tqqqqqqnqqqu\x1b(B",
        "\x1b(0x\x1b(B y    \x1b(0x\x1b(B   \x1b(0x\x1b(B",
        "\x1b(0mqqqqqqvqqqj\x1b(B",
    ]


TABLE = [
    ["x", "signedint", 1],
    ["y", "longstr", "s"],
    ["z", "array", [["bool", True], ["table", [["k", "void", "undefined"]]]]],
]


def test_amqp_tables() -> None:
    assert cell("arguments", TABLE) == '[{"x",1},{"y","s"},{"z",[true,[{"k",undefined}]]}]'
    assert term("arguments", TABLE) == (
        '[{<<"x">>,signedint,1},{<<"y">>,longstr,<<"s">>},'
        '{<<"z">>,array,[{bool,true},{table,[{<<"k">>,void,undefined}]}]}]'
    )


def test_terms() -> None:
    assert term("state", "running") == "running"
    assert term("type", "x-delayed-message") == "'x-delayed-message'"
    assert term("name", 'é"\\') == '<<"é\\"\\\\"/utf8>>'
    assert term("definition", {"a": 1}) == '<<"{\\"a\\":1}">>'
    assert term("protocol", [0, 9, 1]) == "{0,9,1}"
    assert cell("protocol", [0, 9, 1]) == "{0,9,1}"
    assert cell("definition", {"a": [1, "é"]}) == '{"a":[1,"é"]}'
