"""Where a node keeps its data and its control socket when nobody says otherwise.

Owned here alone, and light to import, because the node and the short-lived command line must agree.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

SYSTEM_DATA_DIR: Final = Path("/var/lib/warren")
SOCKET_NAME: Final = "control.sock"


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
