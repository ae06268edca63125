"""Text for people: units, colours, and trees of waits that are not simple chains."""

import io

import pytest

from warren.cli.render import Paint, duration, paint, size, table
from warren.cli.tree import why_text
from warren.server.view import WhyReply, WhyStep

PLAIN = Paint(False)


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1000, "1.0 s"),
        (59_999, "59.9 s"),
        (60_000, "1 min 0 s"),
        (3_600_000, "1 h 0 min"),
        (90_000_000, "1 d 1 h"),
    ],
)
def test_durations_have_two_units_at_most(ms: int, text: str) -> None:
    assert duration(ms) == text


@pytest.mark.parametrize(
    ("octets", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1 << 31, "2.0 GiB"),
        (1 << 60, "1048576.0 TiB"),
    ],
)
def test_sizes_have_a_unit(octets: int, text: str) -> None:
    assert size(octets) == text


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colour_is_for_terminals_that_want_it() -> None:
    assert paint(Terminal(), {}).bold("x") == "\x1b[1mx\x1b[0m"
    assert paint(io.StringIO(), {}).bold("x") == "x"
    assert paint(Terminal(), {"NO_COLOR": "1"}).bold("x") == "x"
    assert paint(Terminal(), {"TERM": "dumb"}).bold("x") == "x"


def test_tables_are_aligned() -> None:
    rows = [("a", "1"), ("long name", "12345")]
    assert table(("name", "ready"), rows, PLAIN).splitlines() == [
        "  name       ready",
        "  a              1",
        "  long name  12345",
    ]


def step(subject: str, cause: str = "", reason: str = "credit") -> WhyStep:
    return WhyStep(
        subject=subject,
        state="flow",
        reason=reason,
        fact=f"{subject} waits",
        cause=cause,
        since_ms=5,
        setting="",
        advice=f"help {cause or subject}",
    )


def draw(subject: str, *steps: WhyStep) -> list[str]:
    return why_text(WhyReply(subject=subject, steps=steps), PLAIN, width=80).splitlines()


def test_nothing_waits() -> None:
    assert draw("") == ["Nothing waits."]
    assert draw("queue 'q'") == ["queue 'q' does not wait."]


def test_two_waits_of_one_subject_are_two_branches() -> None:
    assert draw("a", step("a", "b"), step("a", "c"), step("b")) == [
        "a",
        "├─ flow 5 ms, credit",
        "│  A waits.",
        "│  waits for b",
        "│  └─ flow 5 ms, credit",
        "│     B waits.",
        "│     help b",
        "└─ flow 5 ms, credit",
        "   A waits.",
        "   help c",
        "   waits for c",
    ]


def test_a_shared_cause_is_drawn_once() -> None:
    lines = draw("", step("a", "q"), step("b", "q"), step("q"))
    assert sum("help q" in line for line in lines) == 1
    assert "   waits for q (see above)" in lines


def test_a_circle_of_waits_ends() -> None:
    lines = draw("", step("a", "b"), step("b", "a"))
    assert lines[0] == "a"
    assert lines[-1].strip() == "waits for a (see above)"


def test_a_very_long_chain_is_cut() -> None:
    steps = [step(f"s{index}", f"s{index + 1}") for index in range(1000)]
    lines = draw("s0", *steps)
    assert lines[-1].strip() == "... (use --json for the rest)"
    assert len(lines) < 200


def test_texts_are_wrapped_and_harmless() -> None:
    evil = step("queue '\x1b[2J" + "x " * 100 + "'")
    lines = draw(evil.subject, evil)
    assert all(line.isprintable() for line in lines)
    assert max(len(line) for line in lines[1:]) <= 80


def test_what_is_not_listed_is_counted() -> None:
    reply = WhyReply(subject="", steps=(step("a"),), unlisted=1234)
    assert why_text(reply, PLAIN).endswith("and 1,234 more that are counted but not listed")


@pytest.mark.rule("CF-14")
def test_the_bottleneck_is_the_last_line() -> None:
    reply = WhyReply(subject="", steps=(step("a", "b"),), bottlenecks=("b", "queue '\x1b[2J'"))
    last = why_text(reply, PLAIN).splitlines()[-1]
    assert last.startswith("Bottleneck: b, queue '")
    assert last.isprintable()
