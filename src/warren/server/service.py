"""A node as a process of its own: what belongs to the process and not to the node.

The data folder and its lock, the log's outputs, signals, the control socket, the lines on standard
output, the service manager, and the cycle collector, which is off. SIGTERM and SIGINT stop the node
in order, a second one at once; SIGHUP opens the log file and loads the certificate anew.
"""

import asyncio
import gc
import signal
from typing import Final

from warren.core.log import EventLog
from warren.runtime import SystemClock
from warren.runtime.allocator import tune
from warren.runtime.files import SystemFiles
from warren.runtime.lock import FileLock
from warren.runtime.loop import loop_name, new_loop
from warren.runtime.process import raise_descriptor_limit
from warren.server.app import App
from warren.server.banner import banner
from warren.server.config import Settings
from warren.server.control_socket import ControlServer
from warren.server.logs import Log, open_log
from warren.server.metadata_file import FILE_NAME
from warren.server.metadata_store import MetadataStore
from warren.server.node import Node
from warren.server.notify import Notifier, notifier, watchdog_interval_ns

# A field of a log line holds so many names of settings with their places.
NOTES_IN_LINE: Final = 8


def run(settings: Settings) -> int:
    """Run a node in the foreground until it is stopped; return the exit code."""
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    # Every cycle of the broker is broken where its object ends; what the cycle collector would
    # do is walk millions of waiting messages for nothing.
    gc.disable()
    raise_descriptor_limit()
    tune()
    lock = FileLock(settings.data_dir / "warren.lock")
    clock = SystemClock()
    log = open_log(settings, clock)
    log.adopt_libraries()
    tell_notes(settings, log)
    loop = new_loop()
    try:
        asyncio.set_event_loop(loop)
        app = App(settings.node_name, log, lambda: _node(settings, loop, clock, log))
        loop.run_until_complete(_serve(app, settings, log))
        return 0
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
        log.close()
        lock.release()


def tell_notes(settings: Settings, log: EventLog) -> None:
    """Log what of the configuration is without effect, or was replaced."""
    said: dict[tuple[str, str], list[str]] = {}
    for note in settings.notes:
        place = note.where.rpartition("/")[2]
        said.setdefault((note.level, note.reason), []).append(f"{note.key} ({place})")
    for (level, reason), keys in said.items():
        for start in range(0, len(keys), NOTES_IN_LINE):
            facts = {"keys": ", ".join(keys[start : start + NOTES_IN_LINE]), "reason": reason}
            log.event(level, "config.passed_over", facts)


def _node(
    settings: Settings, loop: asyncio.AbstractEventLoop, clock: SystemClock, log: Log
) -> Node:
    store = files = None
    if settings.metadata_store == "disk":
        store = MetadataStore(settings.data_dir / FILE_NAME)
        files = SystemFiles(settings.data_dir)
    return Node(settings, loop, clock, log, notifier(), store, files)


async def _serve(app: App, settings: Settings, log: Log) -> None:
    """Start, say so, and wait for the end."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, app.stop, f"signal {number.name}")
    loop.add_signal_handler(signal.SIGHUP, _hang_up, app, log)
    control = ControlServer(settings.socket_path(), app, log)
    try:
        await control.start()
        node = await app.start()
        watchdog_ns = watchdog_interval_ns()
        if watchdog_ns:
            _watchdog(loop, node.notifier, watchdog_ns / 1e9)
        _say_where(node)
        node.notifier.ready("serving")
        del node
        await app.over.wait()
    finally:
        await control.close()


def _hang_up(app: App, log: Log) -> None:
    """Files were moved or replaced: take the new ones."""
    log.reopen()
    if app.node is not None:
        app.node.tls.reload_soon()


def _watchdog(loop: asyncio.AbstractEventLoop, manager: Notifier, interval_s: float) -> None:
    manager.watchdog()
    loop.call_later(interval_s, _watchdog, loop, manager, interval_s)


def _say_where(node: Node) -> None:
    """Print where everything is, for who started it."""
    forms = node.view.forms
    print(  # noqa: T201
        banner(
            node.settings,
            node.listeners.rows,
            event_loop=loop_name(node.loop),
            compiled_count=sum(forms.values()),
            compiled_count_max=len(forms),
        ),
        flush=True,
    )
