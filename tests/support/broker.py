"""The broker under test: Warren started from this tree, or RabbitMQ as the reference.

`WARREN_TEST_BROKER=host:port[:tlsport]` runs the tests against a broker that is already there.
`WARREN_TEST_REFERENCE=/usr/lib/rabbitmq/bin/rabbitmq-server` starts RabbitMQ wherever Warren would
be started, with the same settings; both may be set, then only brokers with settings of their own
are started. `WARREN_TEST_PORTS=first-last` bounds the ports taken for started brokers.
"""

import itertools
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.support.wire import Client
from warren.cli.client import ask

START_SECONDS: Final = 60.0  # The reference takes some seconds, more on a busy machine.
STOP_SECONDS: Final = 30.0
# Settings the reference takes in its other file only, and their form there.
ADVANCED: Final = {"channel_tick_interval": "{}", "default_consumer_prefetch": "{{false, {}}}"}

Settings = dict[str, str | int]


@dataclass
class Broker:
    """A broker that accepts connections, and the process if it was started here."""

    host: str
    port: int
    is_reference: bool
    tls_port: int | None = None
    process: subprocess.Popen[bytes] | None = None
    log: Path | None = None
    command: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    clients: list[Client] = field(default_factory=list)
    stopping: bool = False

    def raw(self, *, tls: ssl.SSLContext | None = None, **options: Any) -> Client:
        """Return a client that is connected by TCP, or TLS, and has sent nothing."""
        port = self.port if tls is None else self.tls_port
        assert port is not None, "the broker has no TLS listener"
        self.clients = [each for each in self.clients if each.socket.fileno() >= 0]
        self.clients.append(Client(self.host, port, tls=tls, **options))
        return self.clients[-1]

    def connect(self, *, tls: ssl.SSLContext | None = None, **options: Any) -> Client:
        """Return a client whose connection is open; `options` are those of `Client.open`."""
        return self.raw(tls=tls).open(**options)

    def control(self, command: str, **arguments: Any) -> Any:
        """Run a control command of a started Warren; a `CliError` if it is refused."""
        assert self.log is not None
        assert not self.is_reference, "the reference has no control socket"
        path = self.log.parent / "data" / "control.sock"
        return json.loads(ask(path, command, arguments, timeout_s=STOP_SECONDS))

    def rows(self, command: str, **arguments: Any) -> list[list[Any]]:
        """Return the rows of a listing of a started Warren."""
        assert self.log is not None
        path = self.log.parent / "data" / "control.sock"
        request = json.dumps({"v": 1, "id": 1, "command": command, "args": arguments}).encode()
        with socket.socket(socket.AF_UNIX) as opened:
            opened.settimeout(STOP_SECONDS)
            opened.connect(str(path))
            opened.sendall(request + b"\n")
            opened.shutdown(socket.SHUT_WR)
            parts = [json.loads(line) for line in opened.makefile("rb")]
        assert not any("error" in part for part in parts), parts
        return [row for part in parts for row in part.get("rows", [])]

    def rss(self) -> int | None:
        """Return the resident octets of a started Warren, None for any other broker."""
        if self.process is None or self.is_reference:
            return None
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        return None

    def log_text(self) -> str:
        return self.log.read_text(errors="replace") if self.log and self.log.exists() else ""

    def launch(self) -> None:
        """Start the process and wait until it accepts connections."""
        assert self.log is not None
        self.stopping = False
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command,
                cwd=self.log.parent,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.wait_until_accepts(self.port)

    def wait_until_accepts(self, port: int) -> None:
        """Return when the process listens on the port; fail if it ends or takes too long."""
        assert self.process is not None
        deadline = time.monotonic() + START_SECONDS
        while not accepts(self.host, port):
            status = self.process.poll()
            if status is not None or time.monotonic() > deadline:
                self.kill()
                state = "did not accept in time" if status is None else f"ended with {status}"
                raise AssertionError(f"{self.command} {state}:\n{self.log_text()[-4000:]}")
            time.sleep(0.05)

    def begin_stop(self) -> None:
        """Ask the process to stop, and leave its clients to see how it does that."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        self.stopping = True

    def stop(self) -> None:
        """Stop in order; Warren must end with exit status 0."""
        self.drop_clients()
        if self.process is None:
            return
        if not self.stopping:
            self.begin_stop()
        process, self.process = self.process, None
        try:
            status = process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(f"did not stop in time:\n{self.log_text()[-4000:]}") from None
        if not self.is_reference:
            assert status == 0, f"exit status {status}:\n{self.log_text()[-4000:]}"

    def kill(self) -> None:
        """End the process without a chance to tidy up."""
        self.drop_clients()
        if self.process is not None:
            process, self.process = self.process, None
            process.kill()
            process.wait()

    def drop_clients(self) -> None:
        for each in self.clients:
            each.drop()
        self.clients.clear()

    def restart(self, *, kill: bool = False) -> None:
        if kill:
            self.kill()
        else:
            self.stop()
        self.launch()


def accepts(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=1.0).close()
    except OSError:
        return False
    return True


_turns = itertools.count()
_given: dict[int, int] = {}  # Ports handed out, and on which turn.


def free_port() -> int:
    """Return a port nobody listens on, within `WARREN_TEST_PORTS` if that is set.

    The port given longest ago comes first: whoever got the last one may not listen on it yet.
    """
    first, _, last = os.environ.get("WARREN_TEST_PORTS", "0-0").partition("-")
    for port in sorted(range(int(first), int(last) + 1), key=lambda port: _given.get(port, -1)):
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
            _given[port] = next(_turns)
            return int(listener.getsockname()[1])
    raise AssertionError("no free port")


def external_broker_named() -> str | None:
    return os.environ.get("WARREN_TEST_BROKER") or None


def reference_named() -> str | None:
    return os.environ.get("WARREN_TEST_REFERENCE") or None


def external_broker() -> Broker | None:
    """Return the broker named by `WARREN_TEST_BROKER`, if any."""
    named = external_broker_named()
    if not named:
        return None
    host, port, *tls = named.split(":")
    broker = Broker(host, int(port), False, int(tls[0]) if tls else None)
    with broker.connect() as client:
        assert client.start is not None
        broker.is_reference = client.start.server_properties["product"] == "RabbitMQ"
        client.close()
    return broker


def start_broker(
    directory: Path, settings: Settings | None = None, environment: dict[str, str] | None = None
) -> Broker:
    """Start a broker with its data under `directory`; settings are named as in rabbitmq.conf."""
    directory.mkdir(parents=True, exist_ok=True)
    reference = reference_named()
    port = free_port()
    broker = Broker("127.0.0.1", port, bool(reference), log=directory / "broker.out")
    broker.environment = os.environ | (environment or {})
    if reference:
        _reference(broker, reference, directory, settings or {})
    else:
        broker.command = [sys.executable, "-m", "warren.cli.main", "start"]
        broker.command += ["--port", str(port), "--data-dir", str(directory / "data")]
        # Without being asked for, each would cost a process that no test looks at.
        for key, value in {"management": "off", **(settings or {})}.items():
            broker.command += ["--set", f"{key}={value}"]
    broker.launch()
    return broker


def _reference(broker: Broker, command: str, directory: Path, settings: Settings) -> None:
    lines = [f"listeners.tcp.1 = 127.0.0.1:{broker.port}", "log.console = false"]
    lines += [f"{key} = {value}" for key, value in settings.items() if key not in ADVANCED]
    advanced = [
        f"{{{key}, {ADVANCED[key].format(value)}}}"
        for key, value in settings.items()
        if key in ADVANCED
    ]
    (directory / "rabbitmq.conf").write_text("\n".join(lines) + "\n")
    (directory / "advanced.config").write_text(f"[{{rabbit, [{', '.join(advanced)}]}}].\n")
    (directory / "enabled_plugins").write_text("[].\n")
    broker.command = [command]
    broker.environment |= {
        "HOME": str(directory),
        "RABBITMQ_NODENAME": f"warren-test-{broker.port}@localhost",
        "RABBITMQ_MNESIA_BASE": str(directory / "mnesia"),
        "RABBITMQ_LOG_BASE": str(directory / "log"),
        "RABBITMQ_CONFIG_FILE": str(directory / "rabbitmq.conf"),
        "RABBITMQ_ADVANCED_CONFIG_FILE": str(directory / "advanced.config"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(directory / "enabled_plugins"),
        "RABBITMQ_PID_FILE": str(directory / "pid"),
        "RABBITMQ_DIST_PORT": str(broker.port + 30),
    }
