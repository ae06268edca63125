"""The broker of a test: a real node on a thread of its own, on a free port of the loopback.

    with warren.testing.Broker() as broker:
        connect(broker.url)

Nothing is left behind: no file, no thread, no setting of the host's process. What goes wrong in the
`with` block carries the broker's log as a note.
"""

import itertools
import os
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Final, final

import msgspec

from warren.flow import Source
from warren.security import new_user
from warren.server.config import Settings
from warren.server.config_entry import Entry
from warren.server.config_load import load
from warren.testing import fault, state
from warren.testing.clock import Clock
from warren.testing.engine import Engine
from warren.testing.errors import CommandError
from warren.testing.log import LogEvent
from warren.testing.state import ConnectionState
from warren.testing.vhost import VHost
from warren.vhost.change import PermissionPut, VHostPut, user_put

Setting = str | int | float | bool | None

HOST: Final = "127.0.0.1"
# What differs from a node of its own, unless the test says otherwise: no heartbeats are offered, so
# that a test may stand still in a debugger; and the memory of the host's process raises no alarm.
DEFAULTS: Final[dict[str, Setting]] = {
    "bind": HOST,
    "port": 0,
    "node_name": "warren@testing",
    "heartbeat_s": 0,
    "total_memory_available_override_value": 1 << 48,
    "vm_memory_high_watermark": 1.0,
    "disk_free_limit": 0,
    "log_console": False,
}


class _Answer(msgspec.Struct):
    """One line of an answer of the control interface."""

    ok: dict[str, object] = {}
    rows: list[object] = []
    error: dict[str, str] | None = None


_ANSWER: Final = msgspec.json.Decoder(_Answer)
_numbers: Final = itertools.count(1)


@final
class Broker(VHost):
    """A broker, and the handle of its default virtual host.

    Settings are those of docs/operations/configuration.md, by either name.
    """

    def __init__(self, **settings: Setting) -> None:
        folder = Path(tempfile.gettempdir()) / f"warren-testing-{os.getpid()}-{next(_numbers)}"
        made, held = _hold_ports(_settings(DEFAULTS | {"data_dir": str(folder)} | settings))
        self._started = False
        engine = Engine(made, held)
        super().__init__(engine, made.default_vhost, made.port or 0)
        self.clock: Final = Clock(engine)

    # The life of a broker.

    def start(self) -> "Broker":
        """Start it and return it; `with` does so too."""
        if not self._started:
            self._started = True
            self._engine.start()
        return self

    def close(self) -> None:
        """Stop it: clients are told, and cut off if they do not go at once."""
        self._engine.close()

    def restart(self, *, kill: bool = False) -> None:
        """Stop and start on the same port; with `kill` clients are not told.

        What is durable is there again: vhosts, users, permissions, policies, exchanges, queues,
        bindings, and persistent messages in durable queues and exchanges. With `kill` that is what
        was confirmed, and what else the node had written by then.
        """
        self._engine.run(self._engine.restart(kill=kill))

    def __enter__(self) -> "Broker":
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
        if error is not None:
            error.add_note(f"log of the broker on port {self.port}:\n{self.log_text()}")

    async def __aenter__(self) -> "Broker":
        return self.start()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.__exit__(kind, error, trace)

    # Where it is.

    @property
    def host(self) -> str:
        return HOST

    @property
    def port(self) -> int:
        return self._port

    @property
    def tls_port(self) -> int | None:
        """The port of the TLS listener, when `tls_certfile` is set."""
        settings = self._engine.settings
        return settings.tls_port if settings.tls_certfile is not None else None

    # Virtual hosts and users.

    def vhost(self, name: str | None = None) -> VHost:
        """Return a virtual host, made if there is none of that name; without one, a new one.

        As a `with` block it is deleted at the end.
        """
        name = f"vhost-{next(_numbers)}" if name is None else name
        engine = self._engine

        def make() -> None:
            broker = engine.node.broker
            if name not in broker.vhosts:
                user = engine.settings.default_user
                permission = PermissionPut(
                    user=user, vhost=name, configure=".*", write=".*", read=".*"
                )
                broker.metadata.apply((VHostPut(name=name), permission))

        engine.call(make)
        return VHost(engine, name, self.port)

    def add_user(
        self,
        name: str,
        password: str,
        *,
        tags: tuple[str, ...] = (),
        vhost: str | None = None,
        configure: str = ".*",
        write: str = ".*",
        read: str = ".*",
    ) -> None:
        """Add a user, or change one, with permissions in one virtual host; see `url_for`."""
        home = self.name if vhost is None else vhost

        def make() -> None:
            broker = self._engine.node.broker
            user = new_user(name, password.encode(), broker.random, tags)
            permission = PermissionPut(
                user=name, vhost=home, configure=configure, write=write, read=read
            )
            broker.metadata.apply((user_put(user), permission))

        self._engine.call(make)

    # Looking.

    def connections(self) -> list[ConnectionState]:
        return self._engine.call(lambda: state.all_connections(self._engine.node))

    def log(self, name: str | None = None) -> list[LogEvent]:
        """The events of the log, or those of one name."""
        return self._engine.log.events(name)

    def log_text(self) -> str:
        return "\n".join(str(event) for event in self.log())

    def command(self, name: str, /, **arguments: object) -> dict[str, object]:
        """Run a command of the control interface, as the command line does; a list has `rows`."""
        request = msgspec.json.encode({"v": 1, "command": name, "args": arguments})
        answered = self._engine.run(self._engine.node.control.answer(request))
        *parts, last = (_ANSWER.decode(line) for line in answered.splitlines())
        if last.error is not None:
            raise CommandError(last.error["code"], last.error["message"])
        rows = [row for part in parts for row in part.rows]
        return last.ok | {"rows": rows} if "count" in last.ok else last.ok

    def settle(self) -> None:
        """Return when everything clients have sent so far is done and answered."""
        self._engine.run(self._engine.settle())

    # Faults.

    def drop_connections(self, name: str | None = None) -> int:
        """Cut all connections, or one, as a broken network does; return how many."""
        return self._engine.call(lambda: fault.connections(self._engine.node, name))

    def close_connections(self, name: str | None = None, *, reason: str = "test") -> int:
        """Close all connections, or one, as an operator does: 320 CONNECTION_FORCED."""
        return self._engine.call(lambda: fault.close_connections(self._engine.node, name, reason))

    @contextmanager
    def block_publishers(self, source: str = "memory") -> Iterator[None]:
        """An alarm, `memory` or `disk`: connections that publish are blocked until the end."""
        engine, cause = self._engine, Source(source)
        engine.call(lambda: fault.set_alarm(engine.node, cause, on=True))
        try:
            yield
        finally:
            engine.call(lambda: fault.set_alarm(engine.node, cause, on=False))

    @contextmanager
    def pause_deliveries(self) -> Iterator[None]:
        """Consumers get nothing until the end; messages are taken and wait. `get` goes on."""
        pause = self._engine.call(lambda: fault.Pause(self._engine.node))
        self._engine.call(pause.begin)
        try:
            yield
        finally:
            self._engine.call(pause.end)

    @contextmanager
    def refuse_connections(self) -> Iterator[None]:
        """Nobody can connect until the end; who is connected stays."""
        self._engine.run(self._engine.refuse())
        try:
            yield
        finally:
            self._engine.run(self._engine.listen())

    @contextmanager
    def freeze(self) -> Iterator[None]:
        """The broker hangs until the end: sockets stay open, nothing is answered."""
        release = threading.Event()
        self._engine.wait_held(release)
        try:
            yield
        finally:
            release.set()


def _settings(given: dict[str, Setting]) -> Settings:
    """Check them as a configuration file is checked; the environment does not count."""
    entries = [Entry(name, _written(value), "Broker()") for name, value in given.items()]
    return load(env={}, options=entries)


def _written(value: Setting) -> str:
    if value is None:
        return "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _hold_ports(settings: Settings) -> tuple[Settings, list[socket.socket]]:
    """Bind free ports for the listeners that ask for any, and keep them for restarts.

    A bound socket that does not listen refuses connections, and lets the node listen beside it.
    """
    held: list[socket.socket] = []
    if settings.port == 0:
        settings = replace(settings, port=_free_port(settings.bind, held))
    if settings.tls_certfile is not None and settings.origin("tls_port") == "default":
        settings = replace(settings, tls_port=_free_port(settings.tls_bind or settings.bind, held))
    return settings, held


def _free_port(host: str, held: list[socket.socket]) -> int:
    one = socket.socket()
    held.append(one)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    one.bind((host, 0))
    return int(one.getsockname()[1])
