"""Definitions out of one node and into another."""

import json
from pathlib import Path

import pytest

from tests.ctl.conftest import Ctl

MADE = (
    "add_vhost v1 --description first",
    "add_user ada secret",
    "set_user_tags ada management",
    "set_permissions -p v1 ada ^a .* ^b",
    "set_topic_permissions -p v1 ada amq.topic ^a ^b",
    'set_policy -p v1 p ^q {"max-length":5} --priority 3 --apply-to queues',
    'set_operator_policy o ^q {"max-length":9}',
    'set_vhost_limits -p v1 {"max-connections":7}',
    "set_cluster_name here",
)


def exported(ctl: Ctl) -> dict[str, object]:
    shown = ctl("export_definitions", "-")
    assert shown.code == 0, shown.err
    found: dict[str, object] = json.loads(shown.out)
    return found


@pytest.mark.rule("O-7.1")
def test_what_is_exported_can_be_imported(ctl_fresh: Ctl, tmp_path: Path) -> None:
    for line in MADE:
        assert ctl_fresh(*line.split()).code == 0, line
    with ctl_fresh.broker.connect() as client:
        channel = client.channel()
        channel.queue_declare("q", durable=True, arguments={"x-max-length": 3})
        channel.exchange_declare("e", "topic", durable=True)
        channel.queue_bind("q", "e", "a.*")
        client.close()
    before = exported(ctl_fresh)
    file = tmp_path / "definitions.json"
    assert ctl_fresh("export_definitions", str(file)).code == 0
    assert json.loads(file.read_text()) == before
    for line in ("delete_vhost v1", "delete_user ada", "delete_queue q", "clear_operator_policy o"):
        assert ctl_fresh(*line.split()).code == 0, line
    assert exported(ctl_fresh) != before
    assert ctl_fresh("import_definitions", str(file)).code == 0
    after = exported(ctl_fresh)
    assert {key: by_text(value) for key, value in after.items()} == {
        key: by_text(value) for key, value in before.items()
    }
    assert ctl_fresh("authenticate_user", "ada", "secret").code == 0


def by_text(value: object) -> object:
    return sorted(value, key=json.dumps) if isinstance(value, list) else value


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "Failed to parse JSON"),
        ("[]", "definitions are a JSON object"),
        ('{"users": 1}', "users: expected a list"),
        ('{"queues": [{"name": "q"}]}', "queues[0]"),
    ],
)
def test_what_cannot_be_imported(ctl: Ctl, tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "definitions.json"
    file.write_text(text)
    refused = ctl("import_definitions", str(file))
    assert refused.code == 65
    assert told in refused.err
    assert ctl("import_definitions", str(tmp_path / "none.json")).code == 65


def test_an_import_that_is_refused_changes_nothing(ctl: Ctl, tmp_path: Path) -> None:
    file = tmp_path / "definitions.json"
    user = {"name": "half", "password_hash": "", "tags": ""}
    permission = {"user": "nobody", "vhost": "nowhere", "configure": "", "write": "", "read": ""}
    file.write_text(json.dumps({"users": [user], "permissions": [permission]}))
    refused = ctl("import_definitions", str(file))
    assert refused.code == 65
    assert "Virtual host 'nowhere' does not exist" in refused.err
    assert "half" not in {row[0] for row in ctl.rows("list_users")}
