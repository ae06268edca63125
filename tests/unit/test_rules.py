"""`tests/rules.py`: every rule has a test or a reason, and the page about it is current."""

from pathlib import Path

import pytest

from tests import rules
from tests.rules import Rules
from tools import gen_rules

MARK = "@pytest.mark." + "rule"  # Put together, lest this file count as a test of these rules.


def test_every_rule_has_a_test_or_a_reason() -> None:
    assert rules.findings(rules.read()) == []


def test_the_page_is_current() -> None:
    assert gen_rules.main(["--check"]) == 0, "run python -m tools.gen_rules"


def test_marks_are_found_on_functions_classes_and_parameters() -> None:
    source = f"""
import pytest
pytestmark = {MARK[1:]}("A-1")
{MARK}("A-2", "B-3")
def test_one(): ...
@pytest.mark.parametrize("x", [pytest.param(1, marks={MARK[1:]}("C-4"))])
def test_two(x): ...
class TestIt:
    {MARK}("D-5")
    def test_three(self): ...
"""
    assert sorted(rules.marks(source)) == ["A-1", "A-2", "B-3", "C-4", "D-5"]


def test_a_computed_id_is_an_error() -> None:
    with pytest.raises(TypeError, match="must be written out"):
        list(rules.marks(f'{MARK[1:]}("A-" + "1")'))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (Rules({"A-1": "one"}, {}, {"A-1": ["t.py"]}), []),
        (Rules({"A-1": "one"}, {"A-1": "later"}, {}), []),
        (Rules({"A-1": "one"}, {}, {"A-1": ["t.py"], "B-1": ["u.py"]}), []),
        (Rules({"A-1": "one"}, {}, {}), ["A-1 (one) has no test, and no line in not_yet.txt"]),
        (
            Rules({"A-1": "one"}, {}, {"A-1": ["t.py"], "A-2": ["t.py"]}),
            ["t.py names A-2, which no list has"],
        ),
        (Rules({"A-1": "one"}, {"A-1": "later"}, {"A-1": ["t.py"]}), []),
        (
            Rules({"A-1": "one"}, {"A-2": "later"}, {"A-1": ["t.py"]}),
            ["not_yet.txt names A-2, which no list has"],
        ),
    ],
)
def test_findings(found: Rules, expected: list[str]) -> None:
    assert rules.findings(found) == expected


def test_a_rule_listed_twice_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "list.txt"
    path.write_text("# Head\n\nA-1 one\nA-1 again\n")
    with pytest.raises(ValueError, match="A-1 is listed twice"):
        rules.read_list(path)


def test_lists_are_of_any_number_and_share_no_rule(tmp_path: Path) -> None:
    folder = tmp_path / "tests" / "rules"
    folder.mkdir(parents=True)
    (folder / "one.txt").write_text("A-1 one\n")
    (folder / "two.txt").write_text("B-1 two\nB-2 three\n")
    (folder / "not_yet.txt").write_text("A-1 later\n")
    (folder / "two_not_yet.txt").write_text("B-2 never\n")
    found = rules.read(tmp_path)
    assert found == Rules(
        {"A-1": "one", "B-1": "two", "B-2": "three"}, {"A-1": "later", "B-2": "never"}, {}
    )
    assert rules.findings(found) == ["B-1 (two) has no test, and no line in not_yet.txt"]
    (folder / "three.txt").write_text("A-1 again\n")
    with pytest.raises(ValueError, match="A-1 is in another list"):
        rules.read(tmp_path)


def test_the_page_shows_tests_reasons_and_other_subjects() -> None:
    text = rules.page(
        Rules(
            {"A-1": "one", "A-2": "two"},
            {"A-2": "later"},
            {"A-1": ["tests/t.py"], "Z-1": ["tests/z.py"]},
        )
    )
    assert "| A-1 | one | [t.py](../../tests/t.py) |" in text
    assert "| A-2 | two | later |" in text
    assert "| Z-1 | [z.py](../../tests/z.py) |" in text
