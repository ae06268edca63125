"""The page about configuration tells what the code does."""

from pathlib import Path

import pytest

from warren.server.config import KEYS, Settings

PAGE = Path(__file__).parents[3] / "docs" / "operations" / "configuration.md"
# Defaults that depend on the machine are told in words.
IN_WORDS = {"data_dir", "node_name", "default_pass"}


@pytest.fixture(scope="module")
def rows() -> dict[str, list[str]]:
    table = PAGE.read_text().partition("## All settings")[2].partition("\n## ")[0]
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]
    return {row[0].strip("`"): row for row in cells if row and row[0].startswith("`")}


def test_every_setting_is_on_the_page_once(rows: dict[str, list[str]]) -> None:
    assert list(rows) == list(KEYS)


@pytest.mark.parametrize("name", KEYS)
def test_a_setting_is_described_as_it_is(name: str, rows: dict[str, list[str]]) -> None:
    _, default, value, rabbit, doc = rows[name]
    if name not in IN_WORDS:
        assert default.strip("`") == (Settings().shown(name) or "empty")
    assert value == KEYS[name].kind.expects
    assert tuple(rabbit.replace("`", "").replace(",", "").split()) == KEYS[name].rabbit
    assert doc == KEYS[name].doc
