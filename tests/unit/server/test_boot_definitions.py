"""Definitions that are imported at the start, and what a blank node is given without them."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.machine import FakeLog
from tests.unit.server.asking import Asker, with_node
from warren.server.boot_definitions import BootDefinitionsError
from warren.server.config import Settings
from warren.server.config_entry import Note
from warren.server.service import NOTES_IN_LINE, tell_notes


def document(**sections: list[dict[str, Any]]) -> str:
    return json.dumps({"rabbit_version": "3.10.8", **sections})


def vhost(name: str) -> str:
    return document(vhosts=[{"name": name}])


def vhosts_of(place: Path) -> list[str]:
    """Start a node with definitions; return its virtual hosts."""
    found: list[str] = []

    async def test(asker: Asker) -> None:
        found.extend(asker.node.broker.vhosts)
        assert asker.node.broker.users.names() == []

    with_node(Settings(load_definitions=place), test)
    return found


@pytest.mark.rule("O-7.3")
def test_a_file_is_imported_and_nothing_is_made_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "definitions.json"
    file.write_text(
        document(
            vhosts=[{"name": "v"}],
            queues=[{"vhost": "v", "name": "q", "durable": True, "arguments": {}}],
        )
    )
    found: dict[str, list[str]] = {}

    async def test(asker: Asker) -> None:
        found.update((name, list(one.queues)) for name, one in asker.node.broker.vhosts.items())

    with_node(Settings(load_definitions=file), test)
    assert found == {"v": ["q"]}


@pytest.mark.rule("O-7.3")
def test_a_folder_is_imported_in_the_order_of_its_names(tmp_path: Path) -> None:
    (tmp_path / "2.json").write_text(vhost("two"))
    (tmp_path / "1.json").write_text(vhost("one"))
    (tmp_path / "3.txt").write_text("nonsense")
    assert vhosts_of(tmp_path) == ["one", "two"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is no JSON object"),
        ("[]", "is no JSON object"),
        (document(vhosts=[{}]), r"vhosts\[0\]"),
        (
            document(queues=[{"vhost": "v", "name": "q", "arguments": {"x-max-length": -1}}]),
            "1.json: ",
        ),
    ],
)
def test_what_cannot_be_imported_stops_the_start(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "1.json").write_text(text)
    with pytest.raises(BootDefinitionsError, match=words):
        vhosts_of(tmp_path)


def test_a_file_that_is_gone_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(BootDefinitionsError, match="No such file"):
        vhosts_of(tmp_path / "gone.json")


@pytest.mark.rule("O-2.7")
def test_a_blank_node_is_given_what_the_settings_say() -> None:
    settings = Settings(
        default_user="ann",
        default_vhost="v",
        default_user_tags=("monitoring",),
        default_permissions_configure="^c",
        default_permissions_write="^w",
        default_permissions_read="^r",
    )

    async def test(asker: Asker) -> None:
        broker = asker.node.broker
        user = broker.users.get("ann")
        assert user is not None
        assert tuple(user.tags) == ("monitoring",)
        (one,) = broker.permissions.all()
        assert (one.user, one.vhost, one.configure, one.write, one.read) == (
            "ann",
            "v",
            "^c",
            "^w",
            "^r",
        )

    with_node(settings, test)


def test_what_of_the_configuration_is_passed_over_is_told_in_few_lines() -> None:
    reason = "without effect"
    notes = [Note("warning", f"/etc/r.conf:{line}", f"key.{line}", reason) for line in range(10)]
    notes.append(Note("error", "/etc/r.conf:11", "disk_free_limit", "what"))
    log = FakeLog()
    tell_notes(Settings(notes=tuple(notes)), log)
    told = [(level, name, facts["keys"]) for level, name, facts in log.events]
    assert [one[:2] for one in told] == [
        ("warning", "config.passed_over"),
        ("warning", "config.passed_over"),
        ("error", "config.passed_over"),
    ]
    first = ", ".join(f"key.{line} (r.conf:{line})" for line in range(NOTES_IN_LINE))
    assert told[0][2] == first
    assert told[2][2] == "disk_free_limit (r.conf:11)"
