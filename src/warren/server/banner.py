"""The lines a node prints when clients may connect: where everything is (spec rule O-2.9)."""

from collections.abc import Iterable

import warren
from warren.server.config import Settings
from warren.server.view import ListenerRow


def banner(
    settings: Settings,
    listeners: Iterable[ListenerRow],
    *,
    event_loop: str,
    compiled_count: int,
    compiled_count_max: int,
) -> str:
    """Return the banner. `listeners` are the real ones, with the ports the system gave."""
    form = f"{compiled_count} of {compiled_count_max} hot modules compiled"
    if compiled_count == 0:
        form = "interpreted; the compiled build is many times faster"
    lines = [
        ("node", settings.node_name),
        ("runs", f"{event_loop}, {form}"),
        *(("listens", f"{one.protocol} {_address(one.address)}:{one.port}") for one in listeners),
        ("data", str(settings.data_dir)),
        ("control", str(settings.socket_path())),
        ("log", _log(settings)),
    ]
    width = max(len(name) for name, _ in lines)
    body = "\n".join(f"  {name:<{width}}  {value}" for name, value in lines)
    return f"Warren {warren.__version__}\n{body}\n"


def _address(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def _log(settings: Settings) -> str:
    places = [str(settings.log_file)] if settings.log_file is not None else []
    if settings.log_console:
        places.append("stderr")
    return f"{', '.join(places) or 'nowhere'} ({settings.log_level}, {settings.log_format})"
