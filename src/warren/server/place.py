"""Where a node keeps its data and its control socket when nobody says otherwise, and who says it.

Owned here alone, and light to import, because the node and the short-lived command line must agree.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

# Variables that name configuration files: the main one, of which the first that is set counts, and
# those that are read after it.
CONFIG_VARIABLES: Final = ("WARREN_CONFIG", "RABBITMQ_CONFIG_FILE")
FURTHER_VARIABLES: Final = ("RABBITMQ_CONFIG_FILES", "RABBITMQ_ADVANCED_CONFIG_FILE")
SYSTEM_DATA_DIR: Final = Path("/var/lib/warren")
SOCKET_NAME: Final = "control.sock"


def names_a_file(env: Mapping[str, str]) -> bool:
    """Whether the environment names a configuration file."""
    return any(env.get(name) for name in CONFIG_VARIABLES + FURTHER_VARIABLES)


def default_data_dir(env: Mapping[str, str], *, superuser: bool | None = None) -> Path:
    """Return the system folder for root where it exists, else the user's state folder."""
    root = os.geteuid() == 0 if superuser is None else superuser
    if root and SYSTEM_DATA_DIR.is_dir():
        return SYSTEM_DATA_DIR
    state = env.get("XDG_STATE_HOME", "")
    # The XDG specification: a relative path is invalid and must be ignored.
    if state.startswith("/"):
        return Path(state) / "warren"
    home = Path(env["HOME"]) if env.get("HOME") else Path.home()
    return home / ".local" / "state" / "warren"
