"""Where a node keeps its data when nobody says otherwise."""

from pathlib import Path

import pytest

from warren.server import place
from warren.server.place import default_data_dir, names_a_file


def test_the_state_folder_of_the_user() -> None:
    env = {"XDG_STATE_HOME": "/state", "HOME": "/home/u"}
    assert default_data_dir(env, superuser=False) == Path("/state/warren")
    assert default_data_dir({"HOME": "/home/u"}, superuser=False) == Path(
        "/home/u/.local/state/warren"
    )


def test_a_relative_state_folder_is_ignored() -> None:
    env = {"XDG_STATE_HOME": "state", "HOME": "/home/u"}
    assert default_data_dir(env, superuser=False) == Path("/home/u/.local/state/warren")


def test_the_system_folder_is_for_root_where_it_exists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = {"HOME": "/home/u"}
    monkeypatch.setattr(place, "SYSTEM_DATA_DIR", tmp_path)
    assert default_data_dir(env, superuser=True) == tmp_path
    assert default_data_dir(env, superuser=False) == Path("/home/u/.local/state/warren")
    monkeypatch.setattr(place, "SYSTEM_DATA_DIR", tmp_path / "gone")
    assert default_data_dir(env, superuser=True) == Path("/home/u/.local/state/warren")


def test_variables_that_name_a_configuration_file() -> None:
    assert not names_a_file({"WARREN_DATA_DIR": "/d", "RABBITMQ_CONFIG_FILE": ""})
    for name in ("WARREN_CONFIG", "RABBITMQ_CONFIG_FILE", "RABBITMQ_CONFIG_FILES"):
        assert names_a_file({name: "/etc/x"})
    assert names_a_file({"RABBITMQ_ADVANCED_CONFIG_FILE": "/etc/x"})
