"""A command that asks one question must not pay for an event loop."""

import subprocess
import sys

import pytest

SHOW = "import {module}, sys; print(*(one for one in sys.modules))"
HEAVY = {"asyncio", "uvloop", "ssl", "logging", "tomllib", "msgspec", "warren.server.config"}


def loaded(module: str) -> set[str]:
    found = subprocess.run(
        [sys.executable, "-S", "-c", SHOW.format(module=module)],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    return set(found.stdout.split())


def test_the_command_line_imports_nothing_before_it_knows_the_verb() -> None:
    ours = {one for one in loaded("warren.cli.main") if one.startswith("warren")}
    assert ours == {"warren", "warren.cli", "warren.cli.main"}


@pytest.mark.parametrize(
    "module",
    [
        "warren.cli.question",
        "warren.cli.render",
        "warren.cli.tree",
        "warren.cli.ctl.main",
        "warren.cli.ctl.lists",
        "warren.cli.ctl.shape",
        "warren.cli.ctl.status",
    ],
)
def test_questions_need_no_event_loop(module: str) -> None:
    assert loaded(module) & HEAVY == set()
